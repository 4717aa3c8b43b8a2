"""I7 and I9 when the faults have ended: every job that can run runs, and then the cluster comes to rest."""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Optional

from elastiq.interfaces import InstanceState, request_fits
from elastiq.settings import Settings
from elastiq.simulation.checker import Checker
from elastiq.simulation.going import idle_for_s
from elastiq.simulation.hard_stops import DAY_S, HOUR_S, dearest
from elastiq.simulation.model import Job, JobState, Machine
from elastiq.simulation.stage import Stage

LONGEST_BACKOFF_S = 600.0
LONGEST_STOP_S = 1800.0  # then it is given up
REPLACED_EVERY_S = 3600.0  # black holes, one after the other
# A scenario ends after so long of calm even if jobs still run: they are longer than what is asked here.
CALM_AT_MOST_S = 48 * 3600.0


def recovery_s(s: Settings, lease_s: float) -> float:
    """How long what began before calm may hold things up: a launch of unknown outcome counts in the quota, a
    collector is not believed, a machine that will never join is waited for, a dead one keeps its jobs until
    their lease ends, an act is asked again; and an answer may be on its way to its deadline."""
    return (
        s.intent_settle_s
        + s.batch_settle_s
        + max(s.estimated_vm_deploy_time_s, s.lost_after_s + lease_s)
        + LONGEST_BACKOFF_S
        + 2 * 125.0
        + 3 * (s.check_vms_every_s + s.check_queue_every_s)
    )


def serving_s(s: Settings, lease_s: float) -> float:
    """For how long, in calm, no waiting job may start though there is room for a machine for it: it waits its
    time, room that others leave free is not counted for it any more, a machine of the wrong kind may first
    have to end, one that nobody matched is tried, and the new one boots."""
    wrong_kind_s = longest_idle_s(s) + s.drain_timeout_s + makes_way_s(s)
    waits_s = s.waiting_jobs_time_s + 2 * s.unused_room_s + stopped_s(s)
    in_turns_s = s.estimated_vm_deploy_time_s if s.job_length_s else 0.0  # until its length is wrong
    return recovery_s(s, lease_s) + waits_s + wrong_kind_s + in_turns_s + 2 * boot_s(s)


def longest_idle_s(s: Settings) -> float:
    return max(idle_for_s(name, s)[1] for name in ("", *(pool.name for pool in s.pools)))


def makes_way_s(s: Settings) -> float:
    """For how long a machine may be stopping, be ended then, and have to be asked for both again."""
    stops = any(pool.terms.idle_action == "stop" for pool in s.pools)
    return LONGEST_STOP_S + 2 * (LONGEST_BACKOFF_S + 200.0) if stops else 0.0


def stopped_s(s: Settings) -> float:
    """How long a hard stop may last, once it is reached and nothing more is launched."""
    a_day = DAY_S + HOUR_S if s.max_cost_per_day is not None else 0.0
    return max(a_day, 3900.0 if s.max_launches_per_hour is not None else 0.0)


def boot_s(s: Settings) -> float:
    return min(s.estimated_vm_deploy_time_s, 900.0)


def rest_s(s: Settings, lease_s: float) -> float:
    """Within which an empty queue brings the cluster to its minimum: the design's bound, and the recovery
    where a fault lay just before."""
    periods_s = 2 * (s.check_vms_every_s + s.check_queue_every_s)
    ends_s = longest_idle_s(s) + s.drain_timeout_s + periods_s + LONGEST_BACKOFF_S + makes_way_s(s)
    return ends_s + recovery_s(s, lease_s) + boot_s(s) + stopped_s(s)


class Liveness:
    """Asked every `STEP_S` after calm: whether it goes on, until all is well or something took too long."""

    STEP_S = 30.0

    def __init__(self, stage: Stage, checker: Checker, status: Callable[[], Optional[Mapping[str, Any]]]) -> None:
        self._stage, self._checker, self._status = stage, checker, status
        self._began: Optional[float] = None
        self._progress: tuple[int, ...] = ()
        self._since = 0.0
        self._quiet_since: Optional[float] = None
        self._busy: frozenset[str] = frozenset()

    @property
    def _settings(self) -> Settings:
        return self._stage.settings

    def goes_on(self) -> bool:
        now = self._stage.world.now
        if self._began is None:
            self._began = self._since = now
        if now - self._began > CALM_AT_MOST_S:
            return False
        waiting = self._waiting()
        if waiting:
            self._quiet_since = None
            return not self._stalls(now, waiting)
        return not self._rests(now)

    # ------------------------------------------------------------------ jobs

    def _waiting(self) -> list[Job]:
        book, settings = self._checker.book, self._settings
        return [
            job
            for job in self._stage.world.jobs.values()
            if job.state is JobState.WAITING
            and job.matches
            and not job.not_eligible
            and book.satisfiable(job, settings)
        ]

    def _stalls(self, now: float, waiting: list[Job]) -> bool:
        progress = (self._stage.world.tally.done, self._checker.book.starts)
        if progress != self._progress or self._full(waiting):
            self._progress, self._since = progress, now
        limit_s = serving_s(self._settings, self._stage.world.lease_s)
        limit_s += REPLACED_EVERY_S * len(self._checker.condemned)
        if now - self._since <= limit_s:
            return False
        plan = (self._status() or {}).get("last_plan", {})
        self._checker.fail(
            "I7",
            f"{len(waiting)} jobs that could run wait, and for {now - self._since:.0f} s of calm none started"
            f" (bound {limit_s:.0f} s); the daemon says: {plan.get('summary')} {plan.get('reasons')}",
        )
        return True

    def _full(self, waiting: list[Job]) -> bool:
        """Whether the waiting jobs wait with reason: every machine that may be there is, and runs something."""
        settings, world = self._settings, self._stage.world
        there = self.present()
        if any(not (machine.worker is not None and machine.worker.jobs) for machine in there):
            return False
        if settings.max_vms is not None and len(there) >= settings.max_vms:
            return True
        cost = dearest(settings) * (len(there) + 1)
        if settings.max_cost_per_hour is not None and cost > settings.max_cost_per_hour:
            return True
        stops = self._checker.stops
        if settings.max_cost_per_day is not None:
            if stops.spent() + stops.unsure(settings) + cost > settings.max_cost_per_day:
                return True
        for pool in settings.pools:
            here = sum(1 for machine in there if self._checker.book.pool_of(machine) == pool.name)
            room = pool.max_vms is None or here < pool.max_vms
            if room and any(world.room(flavour) != 0 for flavour in pool.flavours if self._holds_any(flavour, waiting)):
                return False
        return True

    def _holds_any(self, flavour: str, waiting: list[Job]) -> bool:
        """Whether another machine of this flavour would run one of the waiting jobs, and so end its wait."""
        size = self._stage.world.flavours.get(flavour)
        return size is not None and any(request_fits(job.request, size)[0] for job in waiting)

    # ------------------------------------------------------------------ rest

    def present(self) -> list[Machine]:
        machines, ours = self._stage.world.machines, self._checker.book.ours
        return [machine for machine in machines.values() if machine.id in ours and not machine.ended]

    def _rests_well(self, machine: Machine) -> bool:
        """Whether it is stopped, as its pool asks for. One that a daemon need not take for too old may stay."""
        pool = self._settings.pool(self._checker.book.pool_of(machine))
        asked = pool is not None and pool.terms.idle_action == "stop"
        goes = self._checker.going.why(machine, self._settings, surely=True)
        stays = machine.id in self._checker.book.orders.doubtful or not goes
        return asked and machine.state is InstanceState.STOPPED and stays

    def _rests(self, now: float) -> bool:
        settings = self._settings
        # What is at a site that no pool reaches cannot be ended.
        here = [machine for machine in self.present() if not machine.site or machine.site in settings.sites]
        there = [machine for machine in here if not self._rests_well(machine)]
        running = [job for job in self._stage.world.jobs.values() if job.state is JobState.RUNNING]
        busy = frozenset(m.id for m in there if m.worker is not None and m.worker.jobs)
        if busy != self._busy or self._quiet_since is None:
            self._busy, self._quiet_since = busy, now
        idle = [machine for machine in there if machine.id not in busy]
        spare = self._spare(settings, there, busy)
        joined = [machine for machine in there if machine.worker is not None]
        at_rest = len(idle) <= spare and len(joined) == len(there)
        enough = len(there) >= self._least(settings)
        if at_rest and enough and not [job for job in running if math.isfinite(job.length_s)]:
            return True
        if at_rest and enough:
            return False
        limit_s = rest_s(settings, self._stage.world.lease_s)
        if now - self._quiet_since <= limit_s:
            return False
        plan = (self._status() or {}).get("last_plan", {})
        self._checker.fail(
            "I7",
            f"after {now - self._quiet_since:.0f} s of rest (bound {limit_s:.0f} s) {len(there)} machines are there,"
            f" {len(busy)} busy, {len(joined)} joined; the minimum is {self._least(settings)}, idle may be {spare}:"
            f" {[machine.id for machine in idle]}; the daemon says: {plan.get('summary')}",
        )
        return True

    def _least(self, settings: Settings) -> int:
        """The minimum, as far as the pools and the cloud have room for it."""
        world, room = self._stage.world, 0.0
        for pool in settings.pools:
            of_cloud = sum(world.limits.get(flavour, math.inf) for flavour in pool.flavours)
            room += min(math.inf if pool.max_vms is None else pool.max_vms, of_cloud)
        return int(min(room, max(settings.min_vms, sum(pool.min_vms for pool in settings.pools))))

    def _spare(self, settings: Settings, there: list[Machine], busy: frozenset[str]) -> int:
        """How many idle machines the minima allow."""
        of_pools = 0
        for pool in settings.pools:
            of_pools += max(
                0, pool.min_vms - sum(1 for m in there if self._checker.book.pool_of(m) == pool.name and m.id in busy)
            )
        spares = sum(pool.terms.min_idle_vms for pool in settings.pools)
        return max(of_pools, settings.min_vms - len(busy), 0) + spares
