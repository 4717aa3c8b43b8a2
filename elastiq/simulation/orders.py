"""What people have ordered of single machines, for the checker to know."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Mapping, Optional

from elastiq.simulation.model import Machine


@dataclass
class Orders:
    """Machines by id. ``out`` are those that a person took out of service, ``doomed`` those that a person ends with
    their jobs: the names of the jobs that he was told of, or None for any. ``named_s``: when the batch system named
    the jobs of a worker last, monotonic. ``doubtful`` are those of which a daemon may know no more."""

    out: set[str] = field(default_factory=set)
    doomed: dict[str, Optional[frozenset[str]]] = field(default_factory=dict)
    named_s: dict[str, float] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)

    def forget(self) -> None:
        """The state file that knew of them was lost, or damaged and found whole: who can say what it still knows?"""
        self.doubtful |= self.out

    def unnamed(self, machine: Machine, started: Mapping[int, float]) -> list[int]:
        """The jobs on a doomed machine that the person was not told of, though they ran when they were named last;
        ``started`` is since when each job runs."""
        named, worker = self.doomed[machine.id], machine.worker
        if named is None or worker is None:
            return []
        when = self.named_s.get(worker.name, math.inf)
        unnamed = [job.number for job in worker.jobs if f"{job.number}.0" not in named]
        return [number for number in unnamed if started[number] <= when]
