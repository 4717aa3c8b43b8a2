"""The jobs of a trace come into the queue of a simulated world: each at its time, or once its parents have ended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Callable, Iterable, Iterator, Optional

from elastiq.interfaces import Resources
from elastiq.simulation.model import Job, JobState
from elastiq.simulation.world import World
from elastiq.traces.job import TraceJob

NEVER_AT_MOST = 100_000  # names of jobs that nothing fits are kept, for those that come after them to wait for ever


@dataclass(eq=False)
class _Held:
    """A job that waits for so many others to end."""

    job: TraceJob
    parents: int = 0
    due_s: float = 0.0  # monotonic; not before


class _Open:
    """A job of which so many parts have not ended, and those that wait for it."""

    __slots__ = ("children", "name", "parts")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts = 1
        self.children: list[_Held] = []


class Feeder:
    """Takes a trace one moment after another, so that a stream of any length can be played.

    ``fits``: whether any machine would run such a job. One that none would is counted and not submitted: it would
    wait for ever. A job comes after its parents wherever these are among the jobs of the same moment, or of an
    earlier one; a parent that was not heard of by then holds nothing up. Of a trace that is out of order, what is
    late comes at once.
    """

    def __init__(self, world: World, trace: Iterable[TraceJob], fits: Callable[[Resources], bool]) -> None:
        self._world, self._fits = world, fits
        self._stream: Iterator[TraceJob] = iter(trace)
        self._start = world.now
        self._open: dict[str, _Open] = {}  # of the jobs that have not ended
        self._never: dict[str, _Open] = {}  # of those that nothing fits
        self._coming = 0  # jobs that have nothing more to wait for but a time
        self.jobs = self.unmatchable = self.cancelled = 0
        self.held = 0  # jobs that wait for others to end
        self.exhausted = False
        self._next: Optional[TraceJob] = None
        world.on_end = self._ended
        self._take()

    @property
    def is_over(self) -> bool:
        """Whether no further job comes by itself."""
        return self.exhausted and not self._coming

    def _take(self) -> None:
        """Look at the next job of the trace."""
        self._next = next(self._stream, None)
        if self._next is None:
            self.exhausted = True
        else:
            self._world.events.at(max(self._world.now, self._start + self._next.at_s), self._arrive)

    def _arrive(self) -> None:
        """All jobs of this moment."""
        job = self._next
        assert job is not None
        moment = max(job.at_s, self._world.now - self._start)  # sums of times are not exact
        arrived: list[tuple[TraceJob, _Open]] = []
        while job is not None and job.at_s <= moment:
            opened = self._opened(job.name)
            arrived.append((job, opened))
            job = next(self._stream, None)
        self.jobs += len(arrived)
        for one, opened in arrived:
            self._hold(one, opened) if one.after else self._submit(one, opened)
        self._next = job
        if job is None:
            self.exhausted = True
        else:
            self._world.events.at(self._start + job.at_s, self._arrive)

    def _opened(self, name: str) -> _Open:
        """Jobs of one name are parts of one."""
        known = (self._open.get(name) or self._never.get(name)) if name else None
        if known is not None:
            known.parts += 1
            return known
        opened = _Open(name)
        if name:
            self._open[name] = opened
        return opened

    def _hold(self, job: TraceJob, opened: _Open) -> None:
        held = _Held(job, due_s=self._start + job.at_s)
        for name in dict.fromkeys(job.after):
            parent = self._open.get(name) or self._never.get(name)
            if parent is not None:
                parent.children.append(held)
                held.parents += 1
        if held.parents:
            self.held += 1
        else:
            self._submit(job, opened)

    def _submit(self, job: TraceJob, opened: Optional[_Open] = None) -> None:
        opened = opened or self._open.get(job.name) or _Open(job.name)
        if not self._fits(job.request):
            return self._lay_aside(opened)
        submitted = self._world.submit(job.request, job.run_s)
        submitted.tag = opened
        if job.removed_after_s is not None:
            self._world.events.after(job.removed_after_s, partial(self._remove, submitted))

    def _lay_aside(self, opened: _Open) -> None:
        self.unmatchable += 1
        if opened.name in self._open:
            del self._open[opened.name]
            self._never[opened.name] = opened
            if len(self._never) > NEVER_AT_MOST:
                del self._never[next(iter(self._never))]

    def _remove(self, job: Job) -> None:
        if job.state is JobState.WAITING:
            self.cancelled += 1
            self._world.remove(job)

    def _ended(self, job: Job) -> None:
        opened = job.tag
        if not isinstance(opened, _Open):
            return
        opened.parts -= 1
        if opened.parts:
            return
        if self._open.get(opened.name) is opened:
            del self._open[opened.name]
        for held in opened.children:
            held.parents -= 1
            held.due_s = max(held.due_s, self._world.now + held.job.think_s)
            if not held.parents:
                self.held -= 1
                self._coming += 1
                self._world.events.at(held.due_s, partial(self._release, held))

    def _release(self, held: _Held) -> None:
        self._coming -= 1
        self._submit(held.job)
