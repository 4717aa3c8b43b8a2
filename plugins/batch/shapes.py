"""Jobs, one by one or in lots -> groups of one shape. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Callable, Iterable

from elastiq.interfaces import JobGroup, Resources


@dataclass(frozen=True)
class Shape:
    """What makes jobs alike; the fields are those of `JobGroup`."""

    request: Resources
    requirements: str = ""
    not_eligible: str = ""
    pools: tuple[str, ...] = ()
    nodes: int = 1
    ad: tuple[str, ...] = ()
    apart: bool = False

    @property
    def key(self) -> str:
        """The same in every read, and after a restart. Why none could run now is no part of it: it may change."""
        sizes = (None if size is None else float(size) for size in vars(self.request).values())  # 1 and 1.0 are alike
        parts = (*sizes, self.requirements, self.pools, self.nodes, self.ad, *([True] if self.apart else []))
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


class Groups:
    """Counts jobs by their shapes."""

    def __init__(self) -> None:
        self._counts: dict[Shape, list[int]] = {}
        self._samples: dict[Shape, str] = {}

    def add(self, shape: Shape, waiting: int = 0, running: int = 0, sample: str = "") -> None:
        """Count so many more. ``sample`` names one of those that wait."""
        counts = self._counts.setdefault(shape, [0, 0])
        counts[0] += waiting
        counts[1] += running
        if waiting and sample:
            self._samples.setdefault(shape, sample)

    def all(self) -> tuple[JobGroup, ...]:
        """A group for each shape, in the order in which they came. Shapes that differ in nothing but why their jobs
        cannot run have keys of their own."""
        alike = Counter(shape.key for shape in self._counts)
        found = []
        for shape, (waiting, running) in self._counts.items():
            why = shape.not_eligible
            key = _with_reason(shape) if why and alike[shape.key] > 1 else shape.key
            values = {**vars(shape), "key": key, "waiting": waiting, "running": running}
            found.append(JobGroup(sample_job=self._samples.get(shape, ""), **values))
        return tuple(found)


def key_among(shape: Shape, groups: Callable[[], Iterable[JobGroup]]) -> str:
    """The key of the group that jobs of this shape are in. ``groups`` reads the queue: asked only where it matters."""
    if not shape.not_eligible:
        return shape.key
    own = _with_reason(shape)
    alone = any(group.key == shape.key and group.not_eligible == shape.not_eligible for group in groups())
    return shape.key if alone else own


def _with_reason(shape: Shape) -> str:
    return f"{shape.key}:{shape.not_eligible}"
