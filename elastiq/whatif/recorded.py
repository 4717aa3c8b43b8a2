"""The jobs of the queue that the daemon has recorded (`elastiq.recording`): counts of groups, made into jobs again.

Between two looks, a group has as few starts and ends as its counts allow: an arrival, a start and an end that fall
between the same two are not seen. Within a group the jobs start in the order of their arrival; which of those that run
ends is drawn by lot (of a fixed seed: the same each time). So the time for which jobs ran is right in sum, and how the
jobs of a group share it is a guess. By lot, because the machines then cost what they did cost: 4,482 hours and 4,482 of
a month of a real cluster's jobs, and 193 and 190 of exponential run times; where the first to start ends first they
cost 5 % less in the latter case, for no job is long any more.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
from array import array
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional

from elastiq.interfaces import Resources
from elastiq.recording import ALIVE_S, HEADER
from elastiq.traces.job import TraceError, TraceJob

# Counts on both sides of a longer time without a look have nothing to do with each other: a gap.
GAP_S = 3 * ALIVE_S
# Where waiting jobs became fewer than could have started if this many had run one after another wherever one runs,
# the rest were removed (or held).
TURNS = 4
SHORTEST_S = 1.0  # a job that was seen to wait, and came and went between two looks

Counts = tuple[Optional[int], Optional[int]]  # waiting: None if they could not run; running: None if it is not known


class Shape(NamedTuple):
    """What each job of a group asks for, on each of so many machines."""

    request: Resources
    nodes: int


class Look(NamedTuple):
    """One look at the queue, at a wall time: the groups that differ from the look before, by their keys. ``whole``:
    all others have no jobs."""

    at: float
    counts: Mapping[str, Counts]
    whole: bool


class Looks:
    """What is recorded in a folder, oldest first. Iterating raises `TraceError` if there is nothing, or OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.shapes: dict[str, Shape] = {}  # of the groups that were given so far
        self.damaged = 0  # lines
        self.newer: list[str] = []  # files of a newer elastiq, which were left out

    def __iter__(self) -> Iterator[Look]:
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            names = os.listdir(self._folder)
        files = sorted(name for name in names if name.endswith(".txt"))
        if not files:
            raise TraceError(f"{self._folder}: nothing is recorded yet")
        for name in files:
            yield from self._file(self._folder / name)

    def _file(self, file: Path) -> Iterator[Look]:
        names: dict[int, str] = {}
        whole = known = False
        for line in _complete(file):
            if line.startswith(HEADER.rpartition(" ")[0]):
                known, whole = line == HEADER, True
                names.clear()
                if not known and file.name not in self.newer:
                    self.newer.append(file.name)
            elif known:
                try:
                    if line.startswith("= "):
                        number, key, shape = _definition(line)
                        names[number], self.shapes[key] = key, shape
                        continue
                    look = _look(line, names, whole)
                except (ValueError, TypeError, KeyError):
                    self.damaged += 1
                    continue
                whole = False
                yield look


def _complete(file: Path) -> Iterator[str]:
    """The lines that are whole: not the last one without its end, nor one before a header that follows at once."""
    before = ""
    with open(file, encoding="ascii", errors="replace") as lines:
        for line in lines:
            if not line.endswith("\n"):
                break
            line = line[:-1]
            if before and not line.startswith(HEADER.rpartition(" ")[0]):
                yield before
            before = line
    if before:
        yield before


def _definition(line: str) -> tuple[int, str, Shape]:
    _, number, text = line.split(" ", 2)
    key, *sizes, nodes = json.loads(text)
    if len(sizes) != 4 or not all(size is None or float(size) >= 0 for size in sizes):
        raise ValueError
    return int(number), str(key), Shape(Resources(*sizes), max(1, int(nodes)))


def _look(line: str, names: Mapping[int, str], whole: bool) -> Look:
    at, *fields = line.split(" ")
    counts = {}
    for number, waiting, running in (one.split(":") for one in fields):
        counts[names[int(number)]] = (_count(waiting), _count(running))
    return Look(int(at), counts, whole)


def _count(text: str) -> Optional[int]:
    return None if text == "-" else int(text)


@dataclass
class Seen:
    """What the jobs are made of, and what is not known of them. Times are wall times."""

    began: Optional[float] = None  # the first look
    ended: Optional[float] = None  # the last one
    gaps: list[tuple[float, float]] = field(default_factory=list)
    jobs: int = 0
    core_s: float = 0.0  # for which they ran; a job that does not say how many cores it has counts as one
    cut: int = 0  # of these: ran already at the first look, or still at the last one, or so at a gap
    removed: int = 0  # of these: left while they waited
    left_waiting: int = 0  # not among them: had not started at the last look, or before a gap
    not_told: int = 0  # not among them: the batch system does not say when such jobs run

    @property
    def seen_s(self) -> float:
        """For how long the queue was known."""
        if self.began is None or self.ended is None:
            return 0.0
        return self.ended - self.began - sum(end - begin for begin, end in self.gaps)


class _Group:
    def __init__(self, number: int) -> None:
        self.number = number
        self.waiting: deque[int] = deque()  # jobs, oldest first
        self.running: list[tuple[int, float, bool]] = []  # with the start, and whether that was seen
        self.untold = 0


class Recorded:
    """The jobs of all looks in a time. Memory: about 32 bytes a job."""

    def __init__(self, looks: Looks, since: float = -math.inf, until: float = math.inf) -> None:
        """Raises as `Looks` does, and `TraceError` if there is no look in that time."""
        self.seen, self._looks, self._lots = Seen(), looks, random.Random(1)
        self._groups: dict[str, _Group] = {}
        # Of each job: its arrival, how long it ran (nan: not a job in the end), after how long it was removed
        # (nan: it was not), and its group.
        self._arrived, self._ran, self._removed, self._of = array("d"), array("d"), array("d"), array("L")
        before: Optional[Look] = None
        for look in looks:
            if look.at > until:
                break
            if look.at >= since:
                if before is not None and 0 <= look.at - before.at <= GAP_S:
                    self._take(before._replace(at=since))
                before = None
                self._take(look)
            else:
                carried = {} if before is None or look.whole else before.counts
                before = Look(look.at, {**carried, **look.counts}, True)
        if self.seen.ended is None:
            raise TraceError("nothing was recorded in that time")
        self._cut(self.seen.ended)
        self._count()

    def __iter__(self) -> Iterator[TraceJob]:
        """By ``at_s``. A job of several machines comes as so many jobs."""
        shapes = [self._looks.shapes[key] for key in self._groups]
        first = self.began_at or 0.0
        order: Iterable[int] = self._kept()
        if any(before > after for before, after in zip(self._arrived, islice(self._arrived, 1, None))):
            order = sorted(order, key=self._arrived.__getitem__)  # the clock was set back
        for job in order:
            shape, removed = shapes[self._of[job]], self._removed[job]
            after = None if math.isnan(removed) else removed
            for _ in range(shape.nodes):
                at_s, name = self._arrived[job] - first, str(job) if shape.nodes > 1 else ""
                yield TraceJob(at_s, shape.request, self._ran[job], name, after)

    @property
    def began_at(self) -> Optional[float]:
        """The wall time of the first job's arrival."""
        return min((self._arrived[job] for job in self._kept()), default=None)

    # ------------------------------------------------------------------ inside

    def _kept(self) -> Iterator[int]:
        return (job for job, ran in enumerate(self._ran) if not math.isnan(ran))

    def _take(self, look: Look) -> None:
        seen, first = self.seen, self.seen.ended is None
        if seen.ended is not None and not -GAP_S <= look.at - seen.ended <= GAP_S:
            self._cut(seen.ended)
            seen.gaps.append((seen.ended, max(seen.ended, look.at)))
            first = True
        at = look.at if first else max(look.at, seen.ended or 0.0)
        seen.began, seen.ended = at if seen.began is None else seen.began, at
        for key in self._groups.keys() - look.counts.keys() if look.whole else ():
            self._step(self._groups[key], 0, 0, at, first)
        for key, (waiting, running) in look.counts.items():
            group = self._groups.setdefault(key, _Group(len(self._groups)))
            if running is None:
                self.seen.not_told += max(0, (waiting or 0) - group.untold)
                group.untold = waiting or 0
            else:
                group.untold = 0
                self._step(group, waiting, running, at, first)

    def _step(self, group: _Group, waiting: Optional[int], running: int, at: float, first: bool) -> None:
        """From the counts of one look to those of the next; the ``first`` one finds what was there already."""
        more = running - len(group.running)
        if waiting is None:  # they wait for something else, and arrive when they can run
            while group.waiting and len(group.waiting) > max(0, more):
                group.waiting.pop()
            waiting = 0
        starts = max(0, more, len(group.waiting) - waiting)
        could = len(group.running) + (TURNS - 1) * max(len(group.running), running)
        removed = max(0, starts - more - could)
        starts -= removed
        for _ in range(waiting - len(group.waiting) + starts + removed):
            group.waiting.append(self._new(group, at))
        for _ in range(removed):
            job = group.waiting.pop()
            self._removed[job] = at - self._arrived[job]
        ends = starts - more
        before = min(ends, len(group.running))  # whoever was seen to run can have ended, and then the others have to
        for _ in range(before):
            lot = int(self._lots.random() * len(group.running))
            group.running[lot], group.running[-1] = group.running[-1], group.running[lot]
            self._end(*group.running.pop(), at)
        for _ in range(starts):
            group.running.append((group.waiting.popleft(), at, not first))
        for _ in range(ends - before):
            self._end(*group.running.pop(), at)

    def _end(self, job: int, began: float, whole: bool, at: float) -> None:
        self._ran[job] = max(SHORTEST_S, at - began)
        self.seen.cut += not whole

    def _new(self, group: _Group, at: float) -> int:
        for values, value in ((self._arrived, at), (self._ran, math.nan), (self._removed, math.nan)):
            values.append(value)
        self._of.append(group.number)
        return len(self._of) - 1

    def _cut(self, at: float) -> None:
        """Nothing is seen from here on."""
        for group in self._groups.values():
            self.seen.left_waiting += len(group.waiting)
            for job, began, _ in group.running:
                self._end(job, began, False, at)
            group.waiting.clear()
            group.running.clear()

    def _count(self) -> None:
        seen, shapes = self.seen, [self._looks.shapes[key] for key in self._groups]
        ran, jobs = [0.0] * len(shapes), [0] * len(shapes)
        for job in self._kept():
            number = self._of[job]
            jobs[number] += 1
            ran[number] += self._ran[job]
            seen.core_s += self._ran[job] * shapes[number].nodes * (shapes[number].request.cpus or 1.0)
        mean = sum(ran) / max(1, sum(jobs))
        for job, removed in enumerate(self._removed):
            if not math.isnan(removed):  # should it not wait for so long this time, it runs as the others do
                number = self._of[job]
                self._ran[job] = ran[number] / jobs[number] if jobs[number] else mean
                seen.removed += 1
        seen.jobs = sum(jobs) + seen.removed
