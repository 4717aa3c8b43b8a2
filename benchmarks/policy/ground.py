"""The ground that all rules are compared on: the same world, the same jobs, the same placement, the same delays.

A job goes to the worker with the fewest free cores that has room for it, the oldest first among equals: HTCondor's
default, whose ``NEGOTIATOR_PRE_JOB_RANK`` is lower the more ``Cpus`` a slot has left (HTCondor manual, configuration
macros of the negotiator). Other placements are there to see what they change (`PLACEMENTS`). The negotiation follows
within a second, so that what is compared is the policy and not the negotiator. A machine costs from its launch to the
request to end it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Callable, Optional, Protocol, Sequence

from elastiq.events import EventQueue
from elastiq.interfaces import Resources, request_fits
from elastiq.simulation.clock import VirtualClock
from elastiq.simulation.executor import Latency
from elastiq.simulation.model import Job, Machine, SimWorker
from elastiq.simulation.world import Image, World
from elastiq.traces.job import TraceJob

LEAD_S = 600.0  # from the start of the rule to the first job: it has looked around by then, a fixed cluster is up
NEGOTIATION_S = 1.0
LATENCY = Latency(0.02, 0.5)  # of each half of a call: what is seen is so old, and what is done comes so late
HOUR_S = 3600.0
PLACEMENTS = {
    "fullest": "the fewest free cores first: HTCondor's default rank",
    "oldest": "in the order in which the machines joined",
    "emptiest": "the most free cores first",
    "end": "where the job's end puts off the machine's end least; needs the run times",
}
STEP_S = 300.0
GIVE_UP_STEPS = 288  # a day in which nothing happened


@dataclass(frozen=True)
class Workload:
    """Jobs, and the machines that they are given. ``span_s``: a cluster that never ends a machine is paid for so long
    at least. ``flavours``: the cores of each; a machine is paid by its cores, and costs are told in hours of one with
    ``cpus``. ``boot_s``: from a launch until it is a worker, drawn from this range."""

    name: str
    jobs: Sequence[TraceJob]
    cpus: float = 8.0
    max_vms: int = 20
    boot_s: tuple[float, float] = (110.0, 130.0)
    span_s: float = 0.0
    flavours: Sequence[float] = ()  # none: of ``cpus`` alone
    about: str = ""
    placement: str = "fullest"
    own_size: bool = False  # whether machines start only jobs that take more than half of them; needs flavours for all

    @property
    def sizes(self) -> dict[str, Resources]:
        """What a machine of each flavour has."""
        return {f"c{size:g}": Resources(cpus=size) for size in self.flavours or (self.cpus,)}


@dataclass
class Session:
    """One machine's life, in monotonic seconds of its world."""

    cpus: float
    began_s: float
    ended_s: Optional[float] = None

    def paid_s(self, zero_s: float, horizon_s: float) -> float:
        """What it costs within the time of the workload; what was there before its first job is paid from then on."""
        ended_s = horizon_s if self.ended_s is None else self.ended_s
        return max(0.0, ended_s - max(self.began_s, zero_s))


@dataclass
class Played:
    """What a rule made of a workload. ``runs``: of each job, when it started, when it ended, and its cores."""

    workload: Workload
    cost_h: float = 0.0  # machine hours; of machines of other sizes in proportion
    launches: int = 0
    runs: list[tuple[float, float, float]] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    unfinished: int = 0
    killed: int = 0
    peak: int = 0


class Ground(World):
    """A world that places jobs as HTCondor does by default, and keeps what `Played` tells."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.zero = 0.0  # monotonic: of the first job's submission
        self.sessions: dict[str, Session] = {}
        self.runs: list[tuple[float, float, float]] = []
        self.waits_s: list[float] = []
        self.on_birth = self._born
        self._used_last: dict[str, float] = {}
        self.at_end: dict[int, Callable[[], object]] = {}  # by the job's number; nothing here kills one

    def _born(self, machine: Machine) -> None:
        cpus = self.flavours[machine.flavour].cpus or 0.0
        self.sessions[machine.id] = Session(cpus, self.now)

    def terminate(self, machine: Machine) -> None:
        if not machine.ending:
            self.sessions[machine.id].ended_s = self.now
        super().terminate(machine)

    def start(self, job: Job, worker: SimWorker) -> None:
        super().start(job, worker)
        began = self.now - self.zero
        self.runs.append((began, began + job.length_s, job.request.cpus or 0.0))
        self.waits_s.append(self.now - job.submitted_at)
        self.events.after(job.length_s, partial(self._over, worker, self.at_end.pop(job.number)))

    def _over(self, worker: SimWorker, then: Callable[[], object]) -> None:
        self._used_last[worker.name] = self.now
        then()

    def idle_since(self, worker: SimWorker) -> float:
        """When the last job ended on a worker that runs none, or it joined."""
        return self._used_last.get(worker.name, self.now - self.wall + worker.started_at)

    def _negotiate(self) -> None:
        if self.fills != "end":
            super()._negotiate()
            return
        self._negotiating = False
        waiting = [job for jobs in self.waiting_by_shape().values() for job in jobs.values()]
        for job in sorted(waiting, key=lambda job: job.number):
            fitting = [one for one in self.workers.values() if one.takes_jobs and _fits(job, one)]
            if fitting:
                self.start(job, min(fitting, key=partial(self._put_off_s, job)))

    def _put_off_s(self, job: Job, worker: SimWorker) -> tuple[float, float]:
        """By how much a job puts off the time at which a machine is idle; then its free cores."""
        ends = [(one.first_started_at or 0.0) + one.length_s for one in worker.jobs]
        return max(0.0, self.now + job.length_s - max([self.now, *ends])), worker.free().cpus or 0.0


def _fits(job: Job, worker: SimWorker) -> bool:
    return request_fits(job.request, worker.free())[0]


def ground(workload: Workload, events: EventQueue, clock: VirtualClock, rng: random.Random) -> Ground:
    """The world of a workload. A machine is paid from its launch: it is "running" at once, and a worker when it has
    booted."""
    image = Image(boot_s=(0.0, 0.0), join_s=workload.boot_s, shutdown_s=(15.0, 40.0))
    made = Ground(events, clock, rng, workload.sizes, image)
    made.negotiate_every_s = NEGOTIATION_S
    made.fills, made.own_size = workload.placement, workload.own_size
    made.catalogue = True
    return made


@dataclass
class Feed:
    """Submits the jobs of a workload, each at its time, and those of a graph when their parents have ended."""

    world: Ground
    jobs: Sequence[TraceJob]

    def __post_init__(self) -> None:
        self.left = len(self.jobs)  # that have not ended
        names = {job.name for job in self.jobs}
        self._open = {place: {name for name in job.after if name in names} for place, job in enumerate(self.jobs)}
        self._children: dict[str, list[int]] = defaultdict(list)
        for place, parents in self._open.items():
            for name in parents:
                self._children[name].append(place)

    def begin(self) -> None:
        """Now is the time 0 of the jobs."""
        self.world.zero = self.world.now
        for place, job in enumerate(self.jobs):
            if not self._open[place]:
                self.world.events.after(job.at_s, partial(self._submit, job))

    def _submit(self, job: TraceJob) -> None:
        made = self.world.submit(job.request, job.run_s)
        self.world.at_end[made.number] = partial(self._ended, job)

    def _ended(self, job: TraceJob) -> None:
        self.left -= 1
        for place in self._children.get(job.name, ()):
            waits = self._open[place]
            waits.discard(job.name)
            if not waits:
                child = self.jobs[place]
                self.world.events.after(child.think_s, partial(self._submit, child))


class Runner(Protocol):
    """What decides about the machines of a world."""

    ends_all: bool  # whether it ends what nobody uses; if not, it is paid for up to the end of the workload

    def start(self) -> None:
        """Begin at the present time."""


def play(workload: Workload, world: Ground, runner: Runner) -> Played:
    """Let a rule run the workload to its end. The same seed of the world gives the same."""
    runner.start()
    _run(world, LEAD_S)
    feed = Feed(world, workload.jobs)
    feed.begin()
    last_s = max(job.at_s for job in workload.jobs)
    end_s = max(workload.span_s, last_s)
    _run(world, end_s)
    still = 0
    while feed.left or (runner.ends_all and world.tally.present):
        before = (feed.left, world.tally.present, len(world.runs))
        _run(world, STEP_S)
        still = still + 1 if before == (feed.left, world.tally.present, len(world.runs)) else 0
        if still > GIVE_UP_STEPS and not world.running():
            break
    horizon_s = world.zero + max([end_s, *(end for _, end, _ in world.runs)])
    paid_s = sum(one.paid_s(world.zero, horizon_s) * one.cpus for one in world.sessions.values())
    return Played(
        workload,
        cost_h=paid_s / workload.cpus / HOUR_S,
        launches=len(world.sessions),
        runs=world.runs,
        waits_s=world.waits_s,
        unfinished=feed.left,
        killed=world.tally.killed,
        peak=world.tally.peak,
    )


def _run(world: Ground, seconds: float) -> None:
    world.events.after(seconds, world.events.stop)
    world.events.run()
