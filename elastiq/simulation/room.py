"""What jobs ask for and workers have left, as plain numbers: of cpus, memory, disk and gpus, in this order."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Iterable, NamedTuple, Optional

from elastiq.interfaces import Resources


class Asked(NamedTuple):
    """What a job asks for. ``shape`` is the same for jobs that ask for the same."""

    shape: str
    takes: tuple[float, ...]  # of each size
    said: tuple[tuple[int, float], ...]  # the sizes of which it says something, by their place
    whole: bool  # sums of these are exact


@lru_cache(maxsize=4096)
def asked(request: Resources) -> Asked:
    """Made once for jobs that ask for the same."""
    sizes = _sizes(request)
    said = tuple((place, size) for place, size in enumerate(sizes) if size is not None)
    shape = "/".join("-" if size is None else f"{size:g}" for size in sizes)
    return Asked(shape, tuple(size or 0.0 for size in sizes), said, _whole(sizes))


class Room:
    """What is left of a machine. What is not said of it is without end."""

    def __init__(self, total: Resources) -> None:
        self._total = tuple(math.inf if size is None else size for size in _sizes(total))
        self._whole = _whole(_sizes(total))
        self._odd = 0  # jobs whose sizes are no whole numbers
        self.left = list(self._total)

    def holds(self, job: Asked) -> bool:
        """As `interfaces.request_fits`."""
        left = self.left
        for place, size in job.said:
            if size > left[place]:
                return False
        return True

    def take(self, job: Asked, all_jobs: Iterable[Asked]) -> None:
        """For one more; ``all_jobs`` are those that have room by now, with it."""
        self._odd += not job.whole
        self._change(job, -1.0, all_jobs)

    def give(self, job: Asked, all_jobs: Iterable[Asked]) -> None:
        """One has left."""
        self._change(job, 1.0, all_jobs)
        self._odd -= not job.whole

    def _change(self, job: Asked, sign: float, all_jobs: Iterable[Asked]) -> None:
        left = self.left
        if self._whole and not self._odd:
            for place, size in job.said:
                left[place] += sign * size
        else:  # sums of fractions depend on their order: it is always this one
            takes = [one.takes for one in all_jobs]
            left[:] = [total - sum(one[place] for one in takes) for place, total in enumerate(self._total)]

    def resources(self) -> Resources:
        return Resources(*(None if math.isinf(size) else size for size in self.left))


def more_than_half(cpus: Optional[float], machine: Resources) -> bool:
    """Whether so many cpus are more than half of a machine's, as in START (docs/htcondor.md); not said is one."""
    return 2 * (cpus or 1.0) > (machine.cpus or 0.0)


def _sizes(resources: Resources) -> tuple[Optional[float], ...]:
    return (resources.cpus, resources.memory_mb, resources.disk_mb, resources.gpus)


def _whole(sizes: Iterable[Optional[float]]) -> bool:
    return all(size is None or float(size).is_integer() for size in sizes)
