"""The jobs of a simulated world: submitted, matched to workers, run, done, lost."""

from __future__ import annotations

import math
from functools import partial
from typing import Callable, Iterator, Mapping

from elastiq.events import EventQueue
from elastiq.interfaces import Resources, request_fits
from elastiq.simulation.accounts import Accounts
from elastiq.simulation.model import Job, JobState, SimWorker

HOLE_S = 2.0  # how long a job lasts on a black hole


class JobQueue(Accounts):
    """The half of a `World` that HTCondor's schedd and negotiator are."""

    events: EventQueue
    negotiate_every_s: float
    spreads: bool = False  # the machine with the most free cpus is filled first, and not the oldest
    jobs: dict[int, Job]  # those that are not done
    workers: dict[str, SimWorker]
    on_change: Callable[[], None]
    on_start: Callable[[Job], object]
    on_end: Callable[[Job], object]
    job_changes: int
    worker_changes: int
    _numbers: Iterator[int]
    _waiting: dict[str, dict[int, Job]]  # by shape, in the order of submission
    _running: dict[str, dict[int, Job]]  # those that a worker runs, or ran when it died
    _negotiating: bool

    def submit(
        self, request: Resources, length_s: float, held: bool = False, matches: bool = True, not_eligible: str = ""
    ) -> Job:
        """Put a job into the queue."""
        job = Job(next(self._numbers), request, length_s, self.now, matches=matches, not_eligible=not_eligible)
        self.jobs[job.number] = job
        self.tally.submitted += 1
        if held:
            job.state = JobState.HELD
        else:
            self._wait(job)
        return job

    def release(self, job: Job) -> None:
        """Its user lets a held job go."""
        if job.state is JobState.HELD:
            self._wait(job)

    def remove(self, job: Job) -> None:
        """Its user takes a job out of the queue."""
        self._unwait(job)
        if job.worker is not None:
            self._leave(job)
            self._negotiate_soon()
        if job.state is not JobState.DONE:
            job.state = JobState.REMOVED
        self.jobs.pop(job.number, None)
        self.on_end(job)
        self._jobs_changed()

    def _note_wait(self, job: Job) -> None:
        self.tally.waits_s.append(self.now - job.submitted_at)

    def waiting(self) -> int:
        return sum(len(jobs) for jobs in self._waiting.values())

    def running(self) -> int:
        return sum(len(jobs) for jobs in self._running.values())

    def waiting_by_shape(self) -> Mapping[str, Mapping[int, Job]]:
        return self._waiting

    def running_by_shape(self) -> Mapping[str, Mapping[int, Job]]:
        return self._running

    def start(self, job: Job, worker: SimWorker) -> None:
        """A job starts on a worker: by the negotiation, or because a test wants it now."""
        self._unwait(job)
        job.state, job.worker, job.run = JobState.RUNNING, worker, job.run + 1
        if job.first_started_at is None:
            job.first_started_at = self.now
            self.on_start(job)
        self.worker_changes += 1
        worker.jobs.append(job)
        self._running.setdefault(job.shape, {})[job.number] = job
        worker.job_starts += 1
        if worker.machine is not None:
            self._used(worker.machine)
        hole = worker.machine.hole if worker.machine is not None else ""
        if hole == "loses":
            self.events.after(HOLE_S, partial(self._lose, job, job.run))
        elif hole or math.isfinite(job.length_s):
            length_s = min(HOLE_S, job.length_s) if hole else job.length_s
            self.events.after(length_s, partial(self._finish, job, job.run))
        self._jobs_changed()

    def _finish(self, job: Job, run: int) -> None:
        worker = job.worker
        if job.state is not JobState.RUNNING or job.run != run or worker is None or not worker.alive:
            return
        self._leave(job)
        job.state = JobState.DONE
        self.jobs.pop(job.number, None)
        self.tally.done += 1
        self.on_end(job)
        # The schedd gives a claim that became free to the next job of this shape, without negotiation.
        successor = next(iter(self._waiting.get(job.shape, {}).values()), None)
        if successor is not None and worker.takes_jobs:
            self.start(successor, worker)
        self._negotiate_soon()
        self._jobs_changed()

    def _lose(self, job: Job, run: int) -> None:
        """A claim breaks: the job waits again, as if it had not begun."""
        if job.state is JobState.RUNNING and job.run == run and job.worker and job.worker.alive:
            self._leave(job)
            self._wait(job)

    def _leave(self, job: Job) -> None:
        worker, job.worker = job.worker, None
        if worker is None:
            return
        self.worker_changes += 1
        worker.jobs.remove(job)
        _take_out(self._running, job)
        if not worker.jobs and worker.machine is not None:
            self._unused(worker.machine)

    def _wait(self, job: Job) -> None:
        job.state = JobState.WAITING
        self._waiting.setdefault(job.shape, {})[job.number] = job
        self._negotiate_soon()
        self._jobs_changed()

    def _unwait(self, job: Job) -> None:
        _take_out(self._waiting, job)

    def _jobs_changed(self) -> None:
        self.job_changes += 1
        self.on_change()

    # ------------------------------------------------------------------ negotiation

    def wake(self) -> None:
        """Something else may match now."""
        self._negotiate_soon()
        self._jobs_changed()

    def _negotiate_soon(self) -> None:
        """At the next multiple of the interval; nothing is scheduled while there is nothing to match."""
        if self._negotiating or not self._waiting:
            return
        self._negotiating = True
        next_s = (math.floor(self.now / self.negotiate_every_s) + 1) * self.negotiate_every_s
        self.events.at(next_s, self._negotiate)

    def _negotiate(self) -> None:
        """Give waiting jobs, the oldest shape first, to the first worker with room."""
        self._negotiating = False
        shapes = sorted(self._waiting.values(), key=lambda jobs: next(iter(jobs)))
        for jobs in [list(jobs.values()) for jobs in shapes]:
            rest = iter(job for job in jobs if job.matches and not job.not_eligible)
            job = next(rest, None)
            for worker in self._preferred():
                while job is not None and worker.takes_jobs and request_fits(job.request, worker.free())[0]:
                    self.start(job, worker)
                    job = next(rest, None)
                if job is None:
                    break

    def _preferred(self) -> list[SimWorker]:
        workers = list(self.workers.values())
        return sorted(workers, key=lambda worker: -(worker.free().cpus or 0.0)) if self.spreads else workers


def _take_out(by_shape: dict[str, dict[int, Job]], job: Job) -> None:
    jobs = by_shape.get(job.shape, {})
    jobs.pop(job.number, None)
    if not jobs:
        by_shape.pop(job.shape, None)
