"""The truth of a simulated cluster: what runs where, whoever looks.

The batch system and the cloud of the simulation answer from here; the checks of the tests do, too.
All that happens is an event of the queue, and all chance comes from the one generator given.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Callable, Mapping, Optional

from elastiq.events import EventQueue
from elastiq.interfaces import InstanceState, Resources, request_fits
from elastiq.simulation.clock import VirtualClock
from elastiq.simulation.faults import Faults
from elastiq.simulation.model import Job, JobState, Machine, SimWorker, Tally

Range = tuple[float, float]  # seconds, from and to

DAY_S = 86_400.0


@dataclass
class Image:
    """How machines come up and go. It may be changed while the world runs, and holds for later launches."""

    boot_s: Range = (30.0, 60.0)  # from the launch until the cloud says "running"
    join_s: Range = (20.0, 50.0)  # from there until it is a worker
    shutdown_s: Range = (15.0, 40.0)  # from the request until the cloud says "terminated"
    joins: bool = True
    publishes_id: bool = False  # the worker's ad holds the instance's id


@dataclass
class World:
    """``limits`` says how many machines of a flavour may exist at once: the cloud has no more."""

    events: EventQueue
    clock: VirtualClock
    rng: random.Random
    flavours: Mapping[str, Resources]
    image: Image = field(default_factory=Image)
    limits: dict[str, int] = field(default_factory=dict)
    account_limit: Optional[int] = None
    faults: Faults = field(default_factory=Faults)
    negotiate_every_s: float = 20.0
    lease_s: float = 2400.0  # for which a dead machine's jobs stay recorded as running (HTCondor's default)
    ended_listed_s: float = 3600.0  # for which the cloud lists what has ended

    def __post_init__(self) -> None:
        self.jobs: dict[int, Job] = {}  # those that are not done
        self.machines: dict[str, Machine] = {}
        self.workers: dict[str, SimWorker] = {}
        self.tally = Tally()
        self.collector_since = self.now - DAY_S
        self.on_change: Callable[[], None] = lambda: None
        self._numbers = itertools.count(1)
        self._addresses = itertools.count(1)
        self._waiting: dict[str, dict[int, Job]] = {}  # by shape, in the order of submission
        self._negotiating = False
        self._answer_delay_s = 0.0

    # ------------------------------------------------------------------ time and chance

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self.clock.monotonic()

    @property
    def wall(self) -> float:
        """Wall time as it is, whatever the head node's clock says."""
        return self.clock.true_time()

    def draw(self, span: Range) -> float:
        """A time within the range; from `random` alone, which is the same in every version of Python."""
        return span[0] + (span[1] - span[0]) * self.rng.random()

    def delay_answer(self, seconds: float) -> None:
        """Let the answer of the call that is being made come later."""
        self._answer_delay_s += seconds

    def take_answer_delay_s(self) -> float:
        """For the executor, after each call."""
        taken, self._answer_delay_s = self._answer_delay_s, 0.0
        return taken

    # ------------------------------------------------------------------ jobs

    def submit(self, request: Resources, length_s: float, held: bool = False) -> Job:
        """Put a job into the queue."""
        job = Job(next(self._numbers), request, length_s, self.now)
        self.jobs[job.number] = job
        self.tally.submitted += 1
        if held:
            job.state = JobState.HELD
        else:
            self._wait(job)
        return job

    def remove(self, job: Job) -> None:
        """Its user takes a job out of the queue."""
        self._unwait(job)
        if job.worker is not None:
            self._leave(job)
            self._negotiate_soon()
        job.state = JobState.REMOVED
        self.jobs.pop(job.number, None)

    def waiting(self) -> int:
        return sum(len(jobs) for jobs in self._waiting.values())

    def running(self) -> int:
        return sum(1 for job in self.jobs.values() if job.state is JobState.RUNNING)

    def waiting_by_shape(self) -> Mapping[str, Mapping[int, Job]]:
        return self._waiting

    def start(self, job: Job, worker: SimWorker) -> None:
        """A job starts on a worker: by the negotiation, or because a test wants it now."""
        self._unwait(job)
        job.state, job.worker, job.run = JobState.RUNNING, worker, job.run + 1
        if job.first_started_at is None:
            job.first_started_at = self.now
            self.tally.waits_s.append(self.now - job.submitted_at)
        worker.jobs.append(job)
        worker.job_starts += 1
        if worker.machine is not None:
            self._used(worker.machine)
        if math.isfinite(job.length_s):
            self.events.after(job.length_s, partial(self._finish, job, job.run))
        self.on_change()

    def _finish(self, job: Job, run: int) -> None:
        worker = job.worker
        if job.state is not JobState.RUNNING or job.run != run or worker is None or not worker.alive:
            return
        self._leave(job)
        job.state = JobState.DONE
        self.jobs.pop(job.number, None)
        self.tally.done += 1
        # The schedd gives a claim that became free to the next job of this shape, without negotiation.
        successor = next(iter(self._waiting.get(job.shape, {}).values()), None)
        if successor is not None and worker.takes_jobs:
            self.start(successor, worker)
        self._negotiate_soon()
        self.on_change()

    def _leave(self, job: Job) -> None:
        worker, job.worker = job.worker, None
        if worker is None:
            return
        worker.jobs.remove(job)
        if not worker.jobs and worker.machine is not None:
            self._unused(worker.machine)

    def _wait(self, job: Job) -> None:
        job.state = JobState.WAITING
        self._waiting.setdefault(job.shape, {})[job.number] = job
        self._negotiate_soon()
        self.on_change()

    def _unwait(self, job: Job) -> None:
        jobs = self._waiting.get(job.shape, {})
        jobs.pop(job.number, None)
        if not jobs:
            self._waiting.pop(job.shape, None)

    # ------------------------------------------------------------------ negotiation

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
            rest = iter(jobs)
            job = next(rest, None)
            for worker in list(self.workers.values()):
                while job is not None and worker.takes_jobs and request_fits(job.request, worker.free())[0]:
                    self.start(job, worker)
                    job = next(rest, None)
                if job is None:
                    break

    # ------------------------------------------------------------------ workers

    def add_worker(
        self, name: str, address: str, total: Resources, machine: Optional[Machine] = None
    ) -> SimWorker:
        """A worker joins the pool."""
        worker = self.workers[name] = SimWorker(name, address, total, self.wall, machine)
        if machine is not None:
            machine.worker = worker
        self._negotiate_soon()
        self.on_change()
        return worker

    def drain(self, worker: SimWorker, reason: str) -> None:
        worker.drained_by = reason
        self.on_change()

    def undrain(self, worker: SimWorker) -> None:
        worker.drained_by = None
        self._negotiate_soon()
        self.on_change()

    def crash(self, worker: SimWorker) -> None:
        """A worker dies by itself: off the list, its jobs recorded until their lease ends."""
        self._die(worker)
        for job in list(worker.jobs):
            self.tally.lost += 1
            self.events.after(self.lease_s, partial(self._lease_ends, job, job.run))

    def _lease_ends(self, job: Job, run: int) -> None:
        if job.state is JobState.RUNNING and job.run == run:
            self._leave(job)
            self._wait(job)

    def _die(self, worker: SimWorker) -> None:
        worker.alive = worker.listed = False
        if worker.machine is not None and worker.machine.worker is worker:
            worker.machine.worker = None
            self._unused(worker.machine)
        if self.workers.get(worker.name) is worker:
            del self.workers[worker.name]

    # ------------------------------------------------------------------ machines

    def room(self, flavour: str) -> Optional[int]:
        """How many more machines of a flavour the cloud has; None for any number."""
        limit = self.limits.get(flavour)
        if limit is None:
            return None
        present = sum(1 for m in self.machines.values() if m.flavour == flavour and not m.ended)
        return max(0, limit - present)

    def launch(self, machine_of: Callable[[str, str], Machine]) -> Machine:
        """Start a machine, made from a new id and a new address, by the present image."""
        number = next(self._numbers)
        address = next(self._addresses)
        machine = machine_of(f"i-{number:08x}", f"10.0.{address // 250}.{address % 250 + 1}")
        self.machines[machine.id] = machine
        if machine.head:
            self.tally.launches += 1
            self.tally.present += 1
            self.tally.peak = max(self.tally.peak, self.tally.present)
        boot_s, join_s, joins, image_id = (
            self.draw(self.image.boot_s),
            self.draw(self.image.join_s),
            self.image.joins,
            self.image.publishes_id,
        )
        self.events.after(boot_s, lambda: self._boot(machine))
        if joins and machine.flavour in self.flavours:
            self.events.after(boot_s + join_s, lambda: self._join(machine, image_id))
        self.on_change()
        return machine

    def _boot(self, machine: Machine) -> None:
        if machine.state is InstanceState.PENDING:
            machine.state = InstanceState.RUNNING
            machine.billed_since = machine.unused_since = self.now
            self.on_change()

    def _join(self, machine: Machine, publishes_id: bool) -> None:
        if machine.state is InstanceState.RUNNING:
            name = f"ip-{machine.address.replace('.', '-')}.example.org"
            worker = self.add_worker(name, machine.address, self.flavours[machine.flavour], machine)
            worker.instance_id = machine.id if publishes_id else None

    def terminate(self, machine: Machine) -> None:
        """End a machine by request. A job that runs there dies: that is counted as killed."""
        if machine.state in (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED):
            return
        machine.state = InstanceState.SHUTTING_DOWN
        self.tally.terminations += 1
        self._account(machine)
        worker = machine.worker
        if worker is not None:
            killed = list(worker.jobs)
            self.tally.killed += len(killed)
            for job in killed:
                self._leave(job)
                self._wait(job)
            self._die(worker)
        self.events.after(self.draw(self.image.shutdown_s), lambda: self._ended(machine))
        self.on_change()

    def _ended(self, machine: Machine) -> None:
        machine.state = InstanceState.TERMINATED
        if machine.head:
            self.tally.present -= 1
        self.events.after(self.ended_listed_s, lambda: self.machines.pop(machine.id, None))
        self.on_change()

    # ------------------------------------------------------------------ accounting

    def _used(self, machine: Machine) -> None:
        if machine.unused_since is not None:
            self.tally.unused_s += self.now - machine.unused_since
            machine.unused_since = None

    def _unused(self, machine: Machine) -> None:
        if machine.billed_since is not None and machine.unused_since is None:
            machine.unused_since = self.now

    def _account(self, machine: Machine) -> None:
        """Machine time is what is billed: from "running" to the request to end it."""
        self._used(machine)
        if machine.billed_since is not None:
            self.tally.machine_s += self.now - machine.billed_since
            machine.billed_since = None

    def settle_accounts(self) -> Tally:
        """The tally up to now, with what still runs."""
        for machine in self.machines.values():
            running, unused = machine.billed_since is not None, machine.unused_since is not None
            self._account(machine)
            machine.billed_since = self.now if running else None
            machine.unused_since = self.now if unused else None
        return self.tally
