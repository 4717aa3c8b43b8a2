"""Where the jobs of a simulation come from: a trace or the example, whole or a part of it, and what is seen of them
while they are played."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Callable, Iterator, Optional, Sequence

from elastiq.interfaces import Resources
from elastiq.traces.job import Lines, Trace, TraceError, TraceJob
from elastiq.whatif.placing import starts

DAY_S = 86_400.0
TELL_EVERY_S = 0.2
LOOK_EVERY = 64  # jobs, between two looks at the clock


class PartError(TraceError):
    """Nothing of the trace is in the part that is asked for."""


@dataclass(frozen=True)
class Part:
    """What of a trace is played. A bound is in seconds since its first job, or a wall time (``..._at``); ``days`` is
    the length. A job of more than ``split_at`` cores becomes several. ``needed``: it is an error if it is empty."""

    from_s: float = 0.0
    until_s: Optional[float] = None
    from_at: Optional[float] = None
    until_at: Optional[float] = None
    days: Optional[float] = None
    split_at: Optional[float] = None
    needed: bool = False

    def bounds(self, began_at: Optional[float]) -> tuple[float, float]:
        """From and to, in seconds since the first job. Raises `PartError` for dates in a trace that has none, and
        where it ends before it begins."""
        if began_at is None and not (self.from_at is self.until_at is None):
            raise PartError("the trace has no dates: give --from and --until as days since its first job, as 3d")
        begin = self.from_s if self.from_at is None else self.from_at - (began_at or 0.0)
        end = self.until_s if self.until_at is None else self.until_at - (began_at or 0.0)
        ends = [end] if end is not None else []
        ends += [max(0.0, begin) + self.days * DAY_S] if self.days is not None else []
        if self.needed and end is not None and end <= max(0.0, begin):
            what = "before the first job of the trace" if end <= 0.0 else "not after --from"
            raise PartError(f"--until is {what}: there is nothing to play")
        return begin, min(ends, default=float("inf"))


class PartOf:
    """A `Trace` of which only a part is given; its first moment is time 0."""

    def __init__(self, trace: Trace, part: Part) -> None:
        self._trace, self._part = trace, part
        self._jobs = self._cancelled = 0
        self._span: Optional[tuple[float, float]] = None
        self._read_s = 0.0

    @property
    def format(self) -> str:
        return self._trace.format

    @property
    def lines(self) -> Lines:
        return replace(self._trace.lines, jobs=self._jobs, cancelled=self._cancelled)

    @property
    def began_at(self) -> Optional[float]:
        began = self._trace.began_at
        return began if began is None or self._span is None else began + max(0.0, self._span[0])

    def read_part(self) -> float:
        """By the bounds where the end is known, else as far as the file was read."""
        if self._span is None or self._span[1] == float("inf"):
            return self._trace.read_part()
        return min(1.0, max(self._read_s / max(1.0, self._span[1]), self._trace.read_part()))

    def __iter__(self) -> Iterator[TraceJob]:
        self._jobs = self._cancelled = 0
        self._span = None
        for job in self._trace:
            if self._span is None:
                self._span = self._part.bounds(self._trace.began_at)
            begin, end = max(0.0, self._span[0]), self._span[1]
            self._read_s = job.at_s
            if job.at_s >= end:
                break
            if job.at_s >= begin:
                yield from self._given(job._replace(at_s=job.at_s - begin))
        if self._part.needed and not self._jobs and self._span is not None:
            raise PartError("no job of the trace is in the part that --from, --until and --days name")

    def _given(self, job: TraceJob) -> Iterator[TraceJob]:
        for one in split(job, self._part.split_at):
            self._jobs += 1
            self._cancelled += one.removed_after_s is not None
            yield one


def split(job: TraceJob, most: Optional[float]) -> Iterator[TraceJob]:
    """The job as several of at most so many cores, each with its share of the rest: parts of one name."""
    cpus = job.request.cpus
    left = cpus or 0.0
    while most is not None and cpus is not None and left > most:
        yield job._replace(request=_share(job.request, most / cpus, most))
        left -= most
    yield job._replace(request=_share(job.request, left / cpus, left)) if cpus and left < cpus else job


def _share(whole: Resources, part: float, cpus: float) -> Resources:
    def of(size: Optional[float]) -> Optional[float]:
        return None if size is None else size * part

    return Resources(cpus, of(whole.memory_mb), of(whole.disk_mb), of(whole.gpus))


@dataclass(frozen=True)
class Source:
    """A file of jobs, to be opened in any process. ``path`` empty: the example, made from ``seed``. ``parts`` are taken
    one of the other."""

    path: str
    format: str = ""
    parts: tuple[Part, ...] = ()
    seed: int = 1

    def part(self, part: Part) -> Source:
        """Only so much of it."""
        return replace(self, parts=(*self.parts, part))

    def open(self) -> Trace:
        """Raises `TraceError` or OSError."""
        trace: Trace = self._whole()
        for part in self.parts:
            trace = PartOf(trace, part)
        return trace

    def _whole(self) -> Trace:
        if not self.path:
            from elastiq.whatif.example import example

            return example(self.seed)
        from elastiq.traces import open_trace

        return open_trace(self.path, self.format or None)


@dataclass(frozen=True)
class Reached:
    """How far the reading of a trace is."""

    part: float  # 0 to 1
    jobs: int
    at_s: float
    began_at: Optional[float]


@dataclass
class Seen:
    """What the jobs of a trace were. ``misfits`` run on no machine: ``too_large`` is the largest of those that none has
    room for, ``too_small`` the smallest of those that none starts. ``work`` is core-seconds by the day, ``ran_s`` the
    run times of so many jobs that ``ran``."""

    format: str = ""
    began_at: Optional[float] = None
    lines: Lines = field(default_factory=Lines)
    misfits: int = 0
    too_large: Optional[Resources] = None
    too_small: Optional[Resources] = None
    last_s: float = 0.0
    work: Counter[int] = field(default_factory=Counter)
    ran: int = 0
    ran_s: float = 0.0

    @property
    def mean_run_s(self) -> Optional[float]:
        """None if none ran."""
        return self.ran_s / self.ran if self.ran else None


class Watched:
    """A `Trace` that tells how far it is and remembers what it was like; memory stays flat."""

    def __init__(
        self, trace: Trace, machines: Sequence[Resources], tell: Callable[[Reached], None], own_size: bool = False
    ) -> None:
        self._trace, self._machines, self._tell, self._own_size = trace, machines, tell, own_size
        self._fits: dict[Resources, bool] = {}
        self.seen = Seen()

    @property
    def format(self) -> str:
        return self._trace.format

    @property
    def lines(self) -> Lines:
        return self._trace.lines

    @property
    def began_at(self) -> Optional[float]:
        return self._trace.began_at

    def read_part(self) -> float:
        return self._trace.read_part()

    def __iter__(self) -> Iterator[TraceJob]:
        self.seen, told_at = Seen(), 0.0
        for number, job in enumerate(self._trace):
            if number % LOOK_EVERY == 0 and time.monotonic() - told_at >= TELL_EVERY_S:
                told_at = time.monotonic()
                self._tell(Reached(self.read_part(), number, job.at_s, self.began_at))
            self._see(job)
            yield job
        self.seen.format, self.seen.began_at, self.seen.lines = self.format, self.began_at, self.lines
        self._tell(Reached(1.0, self.lines.jobs, self.seen.last_s, self.began_at))

    def _see(self, job: TraceJob) -> None:
        seen, request = self.seen, job.request
        seen.last_s = job.at_s
        seen.work[int(job.at_s // DAY_S)] += int((request.cpus or 1.0) * job.run_s)
        if job.removed_after_s is None:
            seen.ran, seen.ran_s = seen.ran + 1, seen.ran_s + job.run_s
        fits = self._fits.get(request)
        if fits is None:
            if len(self._fits) > 10_000:
                self._fits.clear()
            fits = self._fits[request] = self._run(request, self._own_size)
        if not fits:
            self._misfit(request)

    def _run(self, request: Resources, own_size: bool) -> bool:
        return any(starts(request, machine, own_size) for machine in self._machines)

    def _misfit(self, request: Resources) -> None:
        seen = self.seen
        seen.misfits += 1
        if self._own_size and self._run(request, False):
            if seen.too_small is None or _size(request) < _size(seen.too_small):
                seen.too_small = request
        elif seen.too_large is None or _size(request) > _size(seen.too_large):
            seen.too_large = request


def _size(request: Resources) -> tuple[float, ...]:
    return tuple(value or 0.0 for value in vars(request).values())
