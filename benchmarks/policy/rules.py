"""The rules of others, each with what its own documentation says that it does, and nothing more.

A rule sees the queue and the machines at its own period, as they were when its read arrived, and what it does takes
effect when its request arrived: the delays are those of elastiq's calls. Machines are of one size. None of them ends
a machine on which a job runs, and none may have more machines than the workload's quota.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Iterable, Optional, Sequence

from benchmarks.policy.ground import LATENCY, Workload, ground
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.model import Machine

OURS = "rule"


@dataclass
class Seen:
    """One machine as the rule sees it. ``idle_s``: for how long it was seen without a job, None while it boots or
    runs some."""

    machine: Machine
    cpus: float
    free: float
    worker: bool
    jobs: int
    idle_s: Optional[float] = None


@dataclass
class View:
    """``now``: the time of the tick. ``waiting``: how many jobs wait, by their cores, the oldest shape first. ``room``:
    how many machines the quota still lets it launch."""

    now: float
    waiting: Sequence[tuple[float, int]]
    machines: Sequence[Seen]
    room: int

    @property
    def jobs_waiting(self) -> int:
        """All of them."""
        return sum(count for _, count in self.waiting)


@dataclass
class Acts:
    """What a rule wants done. ``look_again_at``: when it will do something else though nothing has changed."""

    launch: int = 0
    end: list[Machine] = field(default_factory=list)
    drain: list[Machine] = field(default_factory=list)
    look_again_at: float = math.inf


class Rule:
    """A rule on its own world. Subclasses decide; here is what keeps the time."""

    period_s = 10.0
    ends_all = True
    knows_ends = False  # whether it is told when a job ends, and does not only see it at its next look

    def __init__(self, workload: Workload, seed: int) -> None:
        self._rng = random.Random(seed)
        self.workload = workload
        clock = VirtualClock()
        self._events = VirtualQueue(clock)
        self.world = ground(workload, self._events, clock, self._rng)
        self.world.on_change = self._changed
        self._flavour = next(iter(workload.sizes))
        self.cpus = workload.cpus
        self._began, self._asked = 0.0, -1  # when the ticks begin, and the number of the last one
        self._tick = 0.0  # the time of it
        self._next: Optional[float] = None  # when the next look is
        self._idle: dict[str, tuple[int, float]] = {}  # by machine: its job starts, and when it was first seen idle

    def decide(self, view: View) -> Acts:
        """What to do about what is seen."""
        raise NotImplementedError

    # ------------------------------------------------------------------ time

    def start(self) -> None:
        """As `Runner.start`."""
        self._began = self.world.now
        self._look_at(self.world.now)

    def _changed(self) -> None:
        """While nothing changes, a look shows the same: only those are left out."""
        self._look_at(self.world.now)

    def _look_at(self, when: float) -> None:
        """At the first tick from then on."""
        if math.isinf(when):
            return
        tick = self._began + self.period_s * max(
            self._asked + 1, math.ceil((when - self._began) / self.period_s - 1e-9)
        )
        if self._next is None or tick < self._next:
            self._next = tick
            self._events.at(tick, partial(self._ask, tick))

    def _ask(self, tick: float) -> None:
        if self._next == tick:
            self._next, self._tick, self._asked = None, tick, round((tick - self._began) / self.period_s)
            self._events.after(LATENCY.draw(self._rng), self._look)

    def _look(self) -> None:
        view = self._view()
        acts = self.decide(view)
        if acts.launch or acts.end or acts.drain:
            self._events.after(LATENCY.draw(self._rng), partial(self._act, acts))
        self._look_at(acts.look_again_at)

    def _view(self) -> View:
        world = self.world
        waiting = [(_cores(next(iter(jobs.values()))), len(jobs)) for jobs in world.waiting_by_shape().values()]
        machines = [self._see(m) for m in world.machines.values() if not m.ending]
        kept = {seen.machine.id for seen in machines}
        self._idle = {key: value for key, value in self._idle.items() if key in kept}
        return View(self._tick, waiting, machines, self.workload.max_vms - world.tally.present)

    def _see(self, machine: Machine) -> Seen:
        worker = machine.worker
        if worker is None:
            return Seen(machine, self.cpus, self.cpus, False, 0)
        seen = Seen(machine, self.cpus, worker.free().cpus or 0.0, True, len(worker.jobs))
        if worker.jobs:
            self._idle.pop(machine.id, None)
            return seen
        starts, since = self._idle.get(machine.id, (-1, 0.0))
        if starts != worker.job_starts:
            since = self.world.idle_since(worker) if self.knows_ends else self._tick
            self._idle[machine.id] = (worker.job_starts, since)
        seen.idle_s = self._tick - since
        return seen

    def _act(self, acts: Acts) -> None:
        for _ in range(acts.launch):
            self.world.launch(self._machine)
        for machine in acts.drain:
            if machine.worker is not None:
                self.world.drain(machine.worker, OURS)
        for machine in acts.end:
            if machine.worker is None or not machine.worker.jobs:  # a job that slipped in keeps it
                self.world.terminate(machine)

    def _machine(self, machine_id: str, address: str) -> Machine:
        return Machine(machine_id, address, self._flavour, self.world.cloud_wall, made_for=(OURS, OURS, ""))


def _cores(job: object) -> float:
    return float(job.request.cpus or 0.0)  # type: ignore[attr-defined]


def missing(waiting: Iterable[tuple[float, int]], rooms: Iterable[float], size: float) -> int:
    """How many new machines of a size the waiting jobs need beside these rooms, packed first-fit in their order."""
    free = list(rooms)
    new = 0
    for cores, count in waiting:
        for place, room in enumerate(free):
            fit = min(count, int(room // cores))
            free[place] -= fit * cores
            count -= fit
        each = int(size // cores)
        if count > 0 and each:
            more = math.ceil(count / each)
            new += more
            free += [size - cores * min(each, count - number * each) for number in range(more)]
    return new


def old_enough(view: View, idle_s: float, acts: Acts) -> list[Machine]:
    """The machines that have been idle for so long; when the next one will be goes into ``acts``."""
    found = []
    for seen in view.machines:
        if seen.idle_s is None:
            continue
        if seen.idle_s >= idle_s - 1e-6:
            found.append(seen.machine)
        else:
            acts.look_again_at = min(acts.look_again_at, view.now + idle_s - seen.idle_s)
    return found


class Version1(Rule):
    """elastiq 1.0: once more than ``waiting_jobs_threshold`` (0) jobs have waited for ``waiting_jobs_time_s`` (40), as
    many machines as waiting jobs / ``n_jobs_per_vm``, rounded up, less those that are still to come; the queue is
    read each 15 s, the machines each 45 s. What is idle for ``idle_for_time_s`` goes. Source: its own code and
    configuration; ``n_jobs_per_vm`` is the number of cores, as an administrator would set it."""

    period_s = 15.0
    check_vms_every_s = 45.0
    waiting_jobs_time_s = 40.0

    def __init__(self, workload: Workload, seed: int, idle_for_time_s: float = 3600.0) -> None:
        super().__init__(workload, seed)
        self._idle_for_time_s = idle_for_time_s
        self._above_since: Optional[float] = None

    def decide(self, view: View) -> Acts:
        """Both of its checks."""
        acts, per_vm = Acts(), max(1, int(self.cpus))
        rest = view.jobs_waiting - per_vm * sum(1 for seen in view.machines if not seen.worker)
        if rest <= 0:
            self._above_since = None
        elif self._above_since is None:
            self._above_since = view.now
        elif view.now - self._above_since > self.waiting_jobs_time_s:
            acts.launch = min(view.room, math.ceil(rest / per_vm))
            self._above_since = None
        if rest > 0:
            acts.look_again_at = view.now + self.period_s / 2
        since_start = view.now - self._began
        if since_start % self.check_vms_every_s < self.period_s:
            acts.end = old_enough(view, self._idle_for_time_s, acts)
        elif any(seen.idle_s is not None for seen in view.machines):
            left = self.check_vms_every_s - since_start % self.check_vms_every_s
            acts.look_again_at = min(acts.look_again_at, view.now + left)
        return acts


class SlurmPowerSaving(Rule):
    """Slurm's power saving: a job that fits on no node that is up or being resumed gets one resumed, at most
    ``ResumeRate`` (300) a minute; a node idle for ``SuspendTime`` (300 here) is suspended, at most ``SuspendRate`` (60)
    a minute. Source: Slurm Power Saving Guide, https://slurm.schedmd.com/power_save.html."""

    period_s = 10.0  # power_save_interval of SlurmctldParameters (slurm.conf)
    knows_ends = True  # it is the batch system
    resume_rate, suspend_rate = 300, 60

    def __init__(self, workload: Workload, seed: int, suspend_time_s: float = 300.0) -> None:
        super().__init__(workload, seed)
        self._suspend_time_s = suspend_time_s

    def decide(self, view: View) -> Acts:
        """Resume and suspend."""
        acts = Acts()
        need = missing(view.waiting, (seen.free for seen in view.machines), self.cpus)
        acts.launch = min(view.room, need, int(self.resume_rate * self.period_s / 60))
        idle = old_enough(view, self._suspend_time_s, acts)
        acts.end = idle[: int(self.suspend_rate * self.period_s / 60)]
        if need > acts.launch or len(idle) > len(acts.end):
            acts.look_again_at = view.now + self.period_s / 2
        return acts


class ClusterAutoscaler(Rule):
    """Kubernetes' Cluster Autoscaler: each ``scan-interval`` (10 s) the pods that fit nowhere are packed, the largest
    first, on empty nodes of the template; a node whose requests are below ``scale-down-utilization-threshold`` (0.5)
    and whose pods can all be moved is unneeded, and goes after ``scale-down-unneeded-time`` (10 min), not within
    ``scale-down-delay-after-add`` (10 min), at most ``max-empty-bulk-delete`` (10) at once. A batch job cannot be
    moved, as a pod without a controller cannot, so that only empty nodes go. Source: its FAQ, and there "What are the
    parameters to CA", https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md."""

    period_s = 10.0
    unneeded_s, delay_after_add_s, bulk = 600.0, 600.0, 10

    def __init__(self, workload: Workload, seed: int) -> None:
        super().__init__(workload, seed)
        self._added_at = -math.inf

    def decide(self, view: View) -> Acts:
        """One scan."""
        acts = Acts()
        need = missing(sorted(view.waiting, reverse=True), (seen.free for seen in view.machines), self.cpus)
        acts.launch = min(view.room, need)
        if acts.launch:
            self._added_at = view.now
            acts.look_again_at = view.now + self.period_s / 2
            return acts
        unneeded = old_enough(view, self.unneeded_s, acts)
        allowed_at = self._added_at + self.delay_after_add_s
        if unneeded and view.now < allowed_at:
            acts.look_again_at = min(acts.look_again_at, allowed_at)
        elif unneeded:
            acts.end = unneeded[: self.bulk]
            if len(unneeded) > self.bulk:
                acts.look_again_at = view.now + self.period_s / 2
        return acts


class LinearController(Rule):
    """COBalD's linear controller on a factory of drones, as TARDIS runs it. It knows no queue: where the utilisation of
    the drones is below ``low_utilisation`` (0.5) the demand falls by ``rate`` (1 core a second), where their allocation
    is above ``high_allocation`` (0.5) it rises; of no drones both are 1. Each 30 s the factory makes drones up to the
    demand, or releases those that are used least: they take no new job and go when they are empty. The demand is
    kept between 1 core (TARDIS' example has a Limiter with minimum 1) and the quota. Source: COBalD 0.12,
    https://cobald.readthedocs.io/ (LinearController, FactoryPool)."""

    period_s = 30.0
    ends_all = False
    low_utilisation = high_allocation = 0.5
    rate = 1.0
    minimum = 1.0

    def __init__(self, workload: Workload, seed: int) -> None:
        super().__init__(workload, seed)
        self._demand = 0.0
        self._released: set[str] = set()

    def decide(self, view: View) -> Acts:
        """What the controller made of the last 30 s, and then the factory."""
        acts = Acts(look_again_at=view.now + self.period_s / 2)
        drones = [seen for seen in view.machines if seen.worker]
        used = sum(1.0 - seen.free / seen.cpus for seen in drones) / len(drones) if drones else 1.0
        if used < self.low_utilisation:
            self._demand -= self.rate * self.period_s
        elif used > self.high_allocation:
            self._demand += self.rate * self.period_s
        self._demand = min(max(self._demand, self.minimum), self.workload.max_vms * self.cpus)
        acts.end = [seen.machine for seen in view.machines if seen.machine.id in self._released and not seen.jobs]
        active = [seen for seen in view.machines if seen.machine.id not in self._released]
        if sum(seen.cpus for seen in drones) > self._demand:
            self._shrink(active, acts)
        else:
            short = self._demand - sum(seen.cpus for seen in active)
            acts.launch = max(0, min(view.room, math.ceil(short / self.cpus)))
        return acts

    def _shrink(self, active: list[Seen], acts: Acts) -> None:
        excess = sum(seen.cpus for seen in active) - self._demand
        for seen in sorted(active, key=lambda seen: seen.cpus - seen.free if seen.worker else 0.0):
            if seen.cpus > excess:
                break
            excess -= seen.cpus
            self._released.add(seen.machine.id)
            acts.drain.append(seen.machine)


class Fixed(Rule):
    """A cluster of so many machines, up before the first job and until the last one has ended."""

    period_s = 60.0
    ends_all = False

    def __init__(self, workload: Workload, seed: int, machines: int) -> None:
        super().__init__(workload, seed)
        self._machines = machines

    def decide(self, view: View) -> Acts:
        """All at the start."""
        return Acts(launch=self._machines - len(view.machines))
