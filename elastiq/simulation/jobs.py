"""The jobs of a simulated world: submitted, matched to workers, run, done, lost."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial
from typing import Callable, Iterator, Mapping, Optional

from elastiq.events import EventQueue
from elastiq.interfaces import Resources
from elastiq.simulation.accounts import Accounts
from elastiq.simulation.model import Job, JobState, SimWorker
from elastiq.simulation.room import Asked, more_than_half

HOLE_S = 2.0  # how long a job lasts on a black hole


class JobsByShape(dict[str, "OrderedDict[int, Job]"]):
    """Jobs by their shape and number, in the order in which they came; where the first ones leave, a plain dict grows
    slow. No shape is without jobs."""

    count = 0

    def put(self, job: Job) -> None:
        self.setdefault(job.shape, OrderedDict())[job.number] = job
        self.count += 1

    def drop(self, job: Job) -> None:
        """Take it out, if it is there."""
        jobs = self.get(job.shape)
        if jobs is not None and jobs.pop(job.number, None) is not None:
            self.count -= 1
            if not jobs:
                del self[job.shape]


class JobQueue(Accounts):
    """The half of a `World` that HTCondor's schedd and negotiator are."""

    events: EventQueue
    negotiate_every_s: float
    # The machine that is filled first: "fullest" or "emptiest", by its free cpus and memory; else the oldest, of all or
    # "of the smallest".
    fills: str = "oldest"
    own_size: bool = False  # machines start only jobs of more than half of their cpus
    jobs: dict[int, Job]  # those that are not done
    workers: dict[str, SimWorker]
    on_change: Callable[[], None]
    on_job_change: Callable[[], None]  # of the batch system that watches its queue
    on_start: Callable[[Job], object]
    on_end: Callable[[Job], object]
    job_changes: int
    worker_changes: int
    _numbers: Iterator[int]
    _waiting: JobsByShape
    _running: JobsByShape  # those that a worker runs, or ran when it died
    _negotiating: bool
    _asked: Asked  # by the jobs that are being placed

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
        self._waiting.drop(job)
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
        return self._waiting.count

    def running(self) -> int:
        return self._running.count

    def waiting_by_shape(self) -> Mapping[str, Mapping[int, Job]]:
        return self._waiting

    def running_by_shape(self) -> Mapping[str, Mapping[int, Job]]:
        return self._running

    def start(self, job: Job, worker: SimWorker) -> None:
        """A job starts on a worker: by the negotiation, or because a test wants it now."""
        self._waiting.drop(job)
        job.state, job.worker, job.run = JobState.RUNNING, worker, job.run + 1
        if job.first_started_at is None:
            job.first_started_at = self.now
            self.on_start(job)
        self.worker_changes += 1
        worker.run(job)
        self._running.put(job)
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
        worker.release(job)
        self._running.drop(job)
        if not worker.jobs and worker.machine is not None:
            self._unused(worker.machine)

    def _wait(self, job: Job) -> None:
        job.state = JobState.WAITING
        self._waiting.put(job)
        self._negotiate_soon()
        self._jobs_changed()

    def _jobs_changed(self) -> None:
        self.job_changes += 1
        self.on_job_change()
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
        open_ = [worker.room.left for worker in self.workers.values() if worker.takes_jobs]
        most = [max(sizes) for sizes in zip(*open_)]  # of each size, that any worker has left
        for jobs in sorted(self._waiting.values(), key=lambda jobs: next(iter(jobs))):
            job = next(iter(jobs.values()))
            if open_ and all(size <= most[place] for place, size in job.asked.said):
                self._place(jobs)

    def _place(self, jobs: Mapping[int, Job]) -> None:
        """Those of one shape."""
        job: Optional[Job] = next(iter(jobs.values()))
        if job is None or not job.matches or job.not_eligible:
            return
        asked = self._asked = job.asked
        for worker in self._preferred():
            room = worker.room
            while worker.takes_jobs and room.holds(asked):
                self.start(job, worker)
                job = next(iter(jobs.values()), None)
                if job is None:
                    return

    def _preferred(self) -> list[SimWorker]:
        """The workers that may have room for `_asked`, in the order in which they are filled."""
        workers, cpus = list(self.workers.values()), self._asked.takes[0]
        if self.own_size:
            workers = [worker for worker in workers if more_than_half(cpus, worker.total)]
        if self.fills == "of the smallest":
            workers.sort(key=lambda worker: worker.total.cpus or 0.0)
        if self.fills in ("oldest", "of the smallest"):
            return workers
        sign, found = 1.0 if self.fills == "fullest" else -1.0, []
        for place, worker in enumerate(workers):
            left = worker.room.left
            if left[0] >= cpus:
                found.append((sign * left[0], sign * left[1], place, worker))
        return [worker for *_, worker in sorted(found)]
