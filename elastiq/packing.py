"""Room: which waiting jobs the present and coming machines will hold.

Pure. Machines with equal room are one class, so that the work grows with the shapes of jobs and
machines and not with their numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable, Iterable, Optional, Sequence

from elastiq.interfaces import Resources

# Vector order of the dimensions; SLOTS stands for machines whose cpus nobody knows.
Vector = tuple[Optional[float], Optional[float], Optional[float], Optional[float], Optional[float]]
Need = tuple[float, float, float, float, bool]  # the last: no other on the same machine
Kind = tuple[str, str]
Refuses = Callable[[Kind], bool]
SLOTS = 4
_EPSILON = 1e-6


def vector(room: Resources, slots: float) -> Vector:
    """The room of one machine; ``slots`` jobs where its cpus are not known."""
    return (room.cpus, room.memory_mb, room.disk_mb, room.gpus, slots if room.cpus is None else None)


def need(request: Resources, apart: bool = False) -> Need:
    """What one job takes. A job that does not say its cpus takes one; what else is unsaid takes nothing."""
    cpus = request.cpus if request.cpus and request.cpus > 0 else 1.0
    return (cpus, request.memory_mb or 0.0, request.disk_mb or 0.0, request.gpus or 0.0, apart)


def jobs_held(room: Vector, asked: Need) -> int:
    """How many such jobs fit into the room. Unrolled: a plan asks this for every shape of job and machine."""
    cpus, memory, disk, gpus, slots = room
    wants_cpus, wants_memory, wants_disk, wants_gpus, apart = asked
    least = cpus / wants_cpus if cpus is not None else 1.0 if slots is None else slots
    if wants_memory and memory is not None and memory < wants_memory * least:
        least = memory / wants_memory
    if wants_disk and disk is not None and disk < wants_disk * least:
        least = disk / wants_disk
    if wants_gpus and gpus is not None and gpus < wants_gpus * least:
        least = gpus / wants_gpus
    return int(least + _EPSILON) if not apart or least < 1 else 1


def without(room: Vector, asked: Need, jobs: int) -> Vector:
    """The room that is left when so many jobs are in it."""
    if asked[4] and jobs:
        return (0.0, 0.0, 0.0, 0.0, 0.0)
    taken = zip(room, (*asked[:4], 1.0))
    cpus, memory, disk, gpus, slots = (None if has is None else max(0.0, has - wants * jobs) for has, wants in taken)
    return (cpus, memory, disk, gpus, slots)


@dataclass
class RoomClass:
    """Machines with equal room. ``stale``: it was free for long, on machines that take jobs now. ``spare``: to come,
    and launched for no job. ``kind``: pool and flavour of all of them, where that is known. ``groups``: how many jobs
    of each group every one was launched for."""

    room: Vector
    machines: list[str]
    joined: bool
    stale: bool = False
    spare: bool = False
    kind: Kind = ("", "")
    groups: tuple[tuple[str, int], ...] = ()


_Most = tuple[RoomClass, int]  # and how many jobs each of its machines may hold


@dataclass
class Held:
    """Where the jobs of one group went. ``passed_over``: fitting room was there, but stale."""

    jobs: int = 0
    on_joined: str = ""  # one joined machine with room for it
    on_coming: str = ""  # one machine to come that will have it
    passed_over: bool = False
    machines: dict[str, int] = field(default_factory=dict)  # how many of the jobs each of them holds


class Room:
    """All room there is. `hold` takes from it, and remembers which machines are reserved."""

    def __init__(self, classes: Iterable[RoomClass] = ()) -> None:
        # Machines that are there before machines to come, these in the order of need; then the tightest room.
        there = (c for c in classes if not _empty(c.room))
        self._classes = sorted(there, key=lambda c: (not c.joined, c.spare, _tightness(c.room)))
        self._launched_for: dict[str, list[_Most]] = {}
        self._remember(self._classes)
        self.reserved: set[str] = set()
        self.needed: set[str] = set()  # of these, what jobs hold that have waited long enough

    def add(self, room: Vector, machines: list[str], kind: Kind = ("", "")) -> None:
        """More machines to come."""
        self._classes.append(RoomClass(room, machines, joined=False, kind=kind))

    def hold(
        self, asked: Need, jobs: int, stale: bool = True, refuses: Optional[Refuses] = None, held: Optional[Held] = None
    ) -> Held:
        """Reserve room for up to so many jobs, with those that are ``held`` already; not on machines of a kind that
        ``refuses`` them, and on stale room only if that will do."""
        held = held or Held()
        self._hold([(c, jobs) for c in self._classes], asked, jobs, held, stale, refuses)
        return held

    def hold_own(self, group: str, asked: Need, jobs: int, use_stale: bool, refuses: Refuses, held: Held) -> None:
        """Reserve what was launched for a group: what was packed together finds its place again."""
        if own := self._launched_for.get(group):
            self._hold(own, asked, jobs, held, use_stale, refuses)

    def _hold(
        self, classes: Sequence[_Most], asked: Need, jobs: int, held: Held, use_stale: bool, refuses: Optional[Refuses]
    ) -> None:
        """On each machine of these classes at most so many."""
        left_over: list[RoomClass] = []
        cpus_asked = asked[0] * (1 - _EPSILON)
        for c, most in tuple(classes):
            if held.jobs >= jobs:
                break
            cpus = c.room[0]
            if cpus is not None and cpus < cpus_asked:  # most are told by this alone
                continue
            each = jobs_held(c.room, asked)
            if each > most:
                each = most
            if each < 1 or (refuses and c.kind[0] and refuses(c.kind)):
                continue
            if c.stale and not use_stale:
                held.passed_over = True
            else:
                self._take(c, asked, each, jobs - held.jobs, held, left_over)
        self._classes = [c for c in self._classes if c.machines]
        self._classes.extend(left_over)
        self._remember(left_over)

    def _remember(self, classes: Iterable[RoomClass]) -> None:
        for c in classes:
            for group, jobs in c.groups:
                self._launched_for.setdefault(group, []).append((c, jobs))

    def _take(self, c: RoomClass, asked: Need, each: int, jobs: int, held: Held, left_over: list[RoomClass]) -> None:
        full = min(len(c.machines), jobs // each)
        rest = jobs - full * each if full < len(c.machines) else 0
        for count, jobs_on_each in ((full, each), (1 if rest else 0, rest)):
            if not count:
                continue
            machines, c.machines = c.machines[:count], c.machines[count:]
            held.jobs += count * jobs_on_each
            self.reserved.update(machines)
            held.machines.update({name: held.machines.get(name, 0) + jobs_on_each for name in machines})
            if c.joined:
                held.on_joined = held.on_joined or machines[0]
            else:
                held.on_coming = held.on_coming or machines[0]
            room = without(c.room, asked, jobs_on_each)
            if not _empty(room):
                left_over.append(RoomClass(room, machines, c.joined, c.stale, c.spare, c.kind, c.groups))


def _tightness(room: Vector) -> tuple[float, float]:
    cpus = room[0] if room[0] is not None else room[SLOTS]
    return (cpus if cpus is not None else math.inf, room[1] if room[1] is not None else math.inf)


def _empty(room: Vector) -> bool:
    cpus, slots = room[0], room[SLOTS]
    return (cpus is not None and cpus < 1e-3) or (slots is not None and slots < 1)
