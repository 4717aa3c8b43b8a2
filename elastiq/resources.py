"""Cpus, memory, disk and gpus: what a job asks for, and what a machine has. Sizes are MB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional


@dataclass(frozen=True)
class Resources:
    """What a job asks for or a machine has; None means "not said", which is not zero."""

    cpus: Optional[float] = None
    memory_mb: Optional[float] = None
    disk_mb: Optional[float] = None
    gpus: Optional[float] = None

    def merged(self, other: Resources, choose: Callable[[float, float], float] = lambda own, _: own) -> Resources:
        """Size by size what one side says; where both do, the choice: without one, what is said here."""
        pairs = zip(vars(self).values(), vars(other).values())
        return Resources(*(b if a is None else a if b is None else choose(a, b) for a, b in pairs))

    def less(self, other: Resources) -> Resources:
        """Size by size what is left without the other; not said where one side does not say it."""
        pairs = zip(vars(self).values(), vars(other).values())
        return Resources(*(None if has is None or less is None else max(0.0, has - less) for has, less in pairs))


def request_fits(request: Resources, machine: Resources) -> tuple[bool, str]:
    """Compare what both sides say; what one side leaves unsaid does not count against the fit."""
    for (name, asked), has in zip(vars(request).items(), vars(machine).values()):
        if asked is not None and has is not None and asked > has:
            what, _, unit = name.partition("_")
            return False, f"asks {asked:g}{unit and ' MB'} {what}, the machine has {has:g}"
    return True, ""
