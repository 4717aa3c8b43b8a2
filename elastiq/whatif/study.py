"""Play a trace through the production daemon on a simulated cluster: what becomes of the jobs, and what it costs.

One engine: the daemon is `elastiq.daemon.Daemon`, of which only clock, executor, store and plugins differ. It starts
with the first job. The batch system is HTCondor: every 20 s the oldest jobs go to the workers with room, by default
to those with the fewest free cores (NEGOTIATOR_PRE_JOB_RANK's default: -100000 * Cpus - Memory), and a claim that
becomes free takes the next job of its shape at once. What calls take is fixed, boot times
are drawn from the seed. A machine is billed from its launch (EC2 bills from "running", some seconds later) to the
request to end it, for each run in whole units of ``billed_s``.

The run ends when the trace was read, all jobs that can run have ended, and then no machine is left, or none has left
for as long as an idle one may stay (`settling_s`). Machines that are kept, as for ``min_vms``, are billed up to the
last moment at which a job or a machine began or ended; ``simulated_s`` ends there, too.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
from dataclasses import replace
from itertools import chain
from typing import Callable, Iterable, Iterator, Mapping, Optional

from elastiq.idling import LONGEST_S
from elastiq.interfaces import Resources
from elastiq.settings import Settings
from elastiq.simulation.clock import START_WALL_S, VirtualClock
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.executor import Latency
from elastiq.simulation.model import Act, Job, Machine
from elastiq.simulation.world import Image
from elastiq.traces.job import TraceJob
from elastiq.whatif.bills import Bills
from elastiq.whatif.feeding import Feeder
from elastiq.whatif.placing import PLACEMENTS, starts
from elastiq.whatif.quantiles import Quantiles
from elastiq.whatif.series import Levels, Series
from elastiq.whatif.terms import Assumed, Result

CALL_S = 0.25  # half of what a call takes
SHUTDOWN_S = 30.0  # from the request until the cloud says "terminated"
SHORT_S = 10.0  # a slowdown counts no job as shorter
HOUR_S, DAY_S = 3600.0, 86_400.0
TOLD_EVERY = 1000  # jobs: `Progress`

# Called now and then with the jobs that were started, and the seconds that passed in the simulation.
Progress = Callable[[int, float], object]
# What manages the machines of a cluster: lets it begin at the present time.
Controller = Callable[[Cluster], object]


def play(
    settings: Settings,
    trace: Iterable[TraceJob],
    assumed: Assumed,
    *,
    leave_out: bool = True,
    progress: Optional[Progress] = None,
    series: Optional[Series] = None,
    acts: Optional[Callable[[Act], None]] = None,
    controller: Controller = Cluster.start_daemon,
) -> Result:
    """Play it to its end. Nothing outside is touched: no cloud, no batch system, no extra as a hook or a port.

    ``leave_out``: polls that can tell the daemon nothing are left out; the result is the same. ``acts`` is told of
    all that is launched, drained and ended. ``controller``: something else than the daemon may manage the machines.
    Raises what the trace raises, and ValueError for a flavour that ``assumed`` does not have.
    """
    sizes = sizes_of(settings, assumed)
    stream = iter(trace)
    first = next(stream, None)  # the trace may know its wall time after that
    wall_s = getattr(trace, "began_at", None)
    study = Study(settings, sizes, assumed, START_WALL_S if wall_s is None else wall_s, leave_out)
    study.progress, study.series = progress, series
    if acts is not None:
        study.world.on_act = acts
    with _silence():
        study.run(chain(() if first is None else (first,), stream), controller)
    lines = getattr(trace, "lines", None)  # complete by now
    left_out = sum(lines.left_out.values()) if lines is not None else 0
    return study.result(bad_lines=lines.bad if lines is not None else 0, left_out=left_out)


def sizes_of(settings: Settings, assumed: Assumed) -> Mapping[tuple[str, str], Resources]:
    """What a worker of each pool and flavour has: as configured, else the flavour's without what the pool reserves."""
    sizes = {}
    for pool in settings.pools:
        for flavour in pool.flavours:
            if flavour not in assumed.flavours:
                raise ValueError(f"pool {pool.name}: what a machine of flavour {flavour or '(none)'} has is not known")
            reserved = Resources(0.0, pool.terms.reserve_memory_mb, pool.terms.reserve_disk_mb, 0.0)
            sizes[pool.name, flavour] = pool.capacity.merged(assumed.flavours[flavour].less(reserved))
    return sizes


def settling_s(settings: Settings) -> float:
    """For how long after the last job a machine that is not kept may be there: a month at most, or it is kept."""
    idle_s = max([settings.idle_for_time_s_of(pool.name) for pool in settings.pools], default=0.0)
    idle_s = LONGEST_S if math.isinf(idle_s) else idle_s  # auto
    period_s = max(settings.check_vms_every_s, settings.check_queue_every_s)
    cool_s = settings.cooldown_after_end_s + settings.cooldown_after_launch_s + settings.cooldown_after_failure_s
    return min(idle_s, 30 * DAY_S) + settings.drain_timeout_s + 4 * period_s + cool_s + SHUTDOWN_S + HOUR_S / 2


def patience_s(settings: Settings) -> float:
    """How long nothing may happen to the jobs that wait before it is said that they never run."""
    deploy_s = max([settings.estimated_vm_deploy_time_s_of(pool.name) for pool in settings.pools], default=0.0)
    other_s = settings.waiting_jobs_time_s + 2 * settings.unused_room_s + deploy_s + HOUR_S
    if settings.max_cost_per_day:
        other_s += DAY_S
    return settling_s(settings) + other_s + (9 * DAY_S if settings.schedules else 0.0)


class Study:
    """One run."""

    def __init__(
        self,
        settings: Settings,
        sizes: Mapping[tuple[str, str], Resources],
        assumed: Assumed,
        wall_s: float,
        leave_out: bool,
    ) -> None:
        # Extras reach outside: hooks, ports, logs.
        self.settings = replace(settings, extras={})
        self._sizes = sizes
        self.cluster = Cluster(
            self.settings,
            assumed.flavours,
            random.Random(assumed.seed),
            clock=VirtualClock(wall_s),
            image=Image(boot_s=(0.0, 0.0), join_s=assumed.boot_s, shutdown_s=(SHUTDOWN_S, SHUTDOWN_S)),
            forgetful=True,
            watches=settings.batch_plugin == "htcondor" and bool(settings.batch_options.get("watch_queue", True)),
            latency=Latency(CALL_S, CALL_S),
            leave_out=leave_out,
        )
        self.world = world = self.cluster.world
        world.catalogue, world.fills = True, PLACEMENTS[assumed.placement][0]
        world.own_size = self._own_size = assumed.own_size
        world.size_of = lambda machine: sizes.get((machine.pool, machine.flavour))
        self.bills = Bills(settings, assumed)
        self.waits, self._slowdowns = Quantiles(), 0.0
        self.series: Optional[Series] = None
        self.progress: Optional[Progress] = None
        world.on_start, world.on_bill, world.on_billed = self._started, self._billed, self._paid
        world.on_change = self._changed
        self._start = self._last = world.now  # of what happened to a job or a machine
        self._last_job = world.now
        self._over: Optional[float] = None  # since when no job comes or runs any more
        self._fit: dict[Resources, bool] = {}
        self._feeder: Optional[Feeder] = None
        self._jobs_before: tuple[int, ...] = ()
        self._machines_before = (0, 0, 0)

    # ------------------------------------------------------------------ the run

    def run(self, trace: Iterable[TraceJob], controller: Controller) -> None:
        try:
            self._feeder = Feeder(self.world, trace, self._fits)
            controller(self.cluster)
            self._look()
            self.cluster.events.run()
            daemon = self.cluster.daemon
            if daemon is not None and daemon.core.faults:
                raise RuntimeError(f"the daemon failed in the simulation: {'; '.join(daemon.core.faults)}")
        finally:
            self.cluster.kill_daemon()

    def _look(self) -> None:
        """Now and then: whether anything will come of what still waits."""
        if self._feeder is None or self._is_over():
            return
        now, patience = self.world.now, patience_s(self.settings)
        if self._feeder.is_over and not self.world.running() and now - self._last_job >= patience:
            self.cluster.events.stop()
            return
        self.cluster.events.at(max(now + HOUR_S, self._last_job + patience), self._look)

    def _is_over(self) -> bool:
        feeder, world = self._feeder, self.world
        if feeder is None or not feeder.is_over or world.jobs:
            return False
        if self._over is None:
            self._over = world.now
            self.cluster.events.after(settling_s(self.settings), self.cluster.events.stop)
        if not world.tally.present:
            self.cluster.events.stop()
        return True

    def _fits(self, request: Resources) -> bool:
        """Whether a machine of any pool would run it."""
        known = self._fit.get(request)
        if known is None:
            known = any(starts(request, size, self._own_size) for size in self._sizes.values())
            if len(self._fit) >= 10_000:
                self._fit.clear()
            self._fit[request] = known
        return known

    # ------------------------------------------------------------------ what happens

    def _started(self, job: Job) -> None:
        wait_s = self.world.now - job.submitted_at
        self.waits.add(wait_s)
        self._slowdowns += max(1.0, (wait_s + job.length_s) / max(job.length_s, SHORT_S))
        if self.progress is not None and self.waits.count % TOLD_EVERY == 0:
            self.progress(self.waits.count, self.world.now - self._start)

    def _billed(self, machine: Machine) -> None:
        self.bills.begin(machine)
        if self.series is not None:
            self.series.priced = self.bills.priced

    def _paid(self, machine: Machine, seconds: float) -> None:
        unused = self.bills.end(machine, seconds)
        if self.series is not None:
            self.series.charge(self.world.now - self._start, unused)

    def _changed(self) -> None:
        world = self.world
        tally, now = world.tally, world.now
        jobs = (tally.submitted, self.waits.count, tally.done, len(world.jobs))
        machines = (tally.machines["booting"], tally.machines["idle"], tally.machines["busy"])
        if jobs != self._jobs_before:
            self._jobs_before, self._last_job, self._last = jobs, now, now
        if machines != self._machines_before:
            self._machines_before, self._last = machines, now
        if self.series is not None:
            levels = Levels(world.waiting(), world.running(), *machines, self.bills.rate)
            self.series.tell(now - self._start, levels)
        self._is_over()

    # ------------------------------------------------------------------ the result

    def result(self, bad_lines: int = 0, left_out: int = 0) -> Result:
        """After the run."""
        world, feeder, bills, waits = self.world, self._feeder, self.bills, self.waits
        assert feeder is not None
        end = self._last
        tally = world.settle_accounts(end)
        for machine in world.machines.values():
            if machine.billed_since is not None:
                bills.end(machine, end - machine.billed_since)
        if self.series is not None:
            self.series.until(end - self._start)
        done = tally.done
        return Result(
            jobs=feeder.jobs,
            jobs_done=done,
            mean_wait_s=waits.mean(),
            median_wait_s=waits.at(0.5),
            p95_wait_s=waits.at(0.95),
            mean_slowdown=self._slowdowns / waits.count if waits.count else None,
            machine_hours=bills.billed_s / HOUR_S,
            idle_machine_hours=tally.spent_s["idle"] / HOUR_S,
            boot_machine_hours=tally.spent_s["booting"] / HOUR_S,
            peak_vms=tally.peak,
            launches=tally.launches,
            cost=bills.cost if bills.priced else None,
            unmatchable_jobs=feeder.unmatchable,
            cancelled_jobs=feeder.cancelled,
            killed_jobs=tally.killed,
            left_jobs=feeder.jobs - done - feeder.unmatchable - feeder.cancelled,
            bad_lines=bad_lines,
            left_out=left_out,
            simulated_s=end - self._start,
            held_jobs=feeder.held,
        )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What a simulated daemon logs is nobody's log."""
    log = logging.getLogger("elastiq")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
