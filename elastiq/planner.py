"""Observations + registry + settings -> Plan.

Pure: no clock, no I/O; time is a parameter. Every launch, drain and end in a plan has a reason that a
person can read, and so has every group of waiting jobs that is not served.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional

from elastiq.demand import Standing, Trials, WaitingHistory
from elastiq.health import Health
from elastiq.interfaces import JobGroup, Jobs, Offer, Pool, Resources, WorkerState, request_fits
from elastiq.nodes import CAPACITY, JOINED, TO_COME, Node, Registry, State
from elastiq.packing import Need, Room, RoomClass, jobs_held, need, vector, without
from elastiq.settings import Settings

Fits = Callable[[JobGroup, Resources], tuple[bool, str]]


def fits_by_resources(group: JobGroup, machine: Resources) -> tuple[bool, str]:
    """What a batch system that knows no better says."""
    return request_fits(group.request, machine)


@dataclass(frozen=True)
class Situation:
    """All that a plan is made from. ``no_launch`` and ``no_end`` say why the one or the other is out of
    the question now, for instance because a source is unknown; empty where it is not."""

    now: float
    settings: Settings
    registry: Registry
    jobs: Optional[Jobs]
    history: WaitingHistory
    trials: Trials
    health: Health
    sites: frozenset[str]  # whose instances were read completely, and lately
    settled: bool  # both sides are, and were since the start
    workers_began: float = 0.0  # when the last read of the workers began
    foreign: int = 0  # instances that are not ours but count
    no_launch: str = ""
    no_end: str = ""
    fits: Fits = fits_by_resources


@dataclass(frozen=True)
class Launch:
    offer: Offer
    count: int
    reason: str
    groups: Mapping[str, int] = field(default_factory=dict)  # waiting jobs that it is for, by group key


@dataclass(frozen=True)
class Step:
    """Something to do with one node."""

    node: Node
    reason: str


@dataclass(frozen=True)
class Verdict:
    """What will become of a group's waiting jobs. ``matchable`` is False if nothing offered runs them."""

    group: JobGroup
    held: int  # by room that is there or comes
    launching: int
    reason: str
    matchable: bool = True


@dataclass(frozen=True)
class Plan:
    launches: tuple[Launch, ...]
    drains: tuple[Step, ...]
    failed: tuple[Step, ...]  # whose boot deadline passed
    ends: tuple[Step, ...]  # useless machines: ended without a drain, since nothing can run there
    verdicts: tuple[Verdict, ...]
    summary: str
    room_free: Mapping[str, str]  # group key -> a joined machine with room for it


def plan(s: Situation) -> Plan:
    """Decide what to launch, drain and end now."""
    room = _room(s)
    budget = _Budget(s)
    orders = _Orders(s, budget, room)
    if not s.no_launch and s.settled:
        orders.floor()
    verdicts, room_free = _serve(s, room, orders)
    drains = tuple(_drains(s, room)) if not s.no_end else ()
    failed, ends = _useless(s)
    launches = orders.merged()
    summary = _summary(s, launches, drains, ends, verdicts)
    return Plan(launches, drains, failed, ends, verdicts, summary, room_free)


# --------------------------------------------------------------------------- scale up


def capacity(s: Situation, pool: Pool, flavour: str) -> Resources:
    """What a new machine offers: as configured, else as learned from workers that joined."""
    learned = s.registry.learned.get((pool.name, flavour), Resources())

    def first(a: Optional[float], b: Optional[float]) -> Optional[float]:
        return b if a is None else a

    has = pool.capacity
    return Resources(
        first(has.cpus, learned.cpus),
        first(has.memory_mb, learned.memory_mb),
        first(has.disk_mb, learned.disk_mb),
        first(has.gpus, learned.gpus),
    )


def _room(s: Situation) -> Room:
    """Free room on joined workers, and the whole room of machines that have not joined."""
    slots = s.settings.n_jobs_per_vm
    classes: list[RoomClass] = []
    pools = {pool.name: pool for pool in s.settings.pools}
    for node in s.registry:
        # A machine that an unsettled view does not show may well be there: it holds what it can hold.
        unseen = node.state in (State.IDLE, State.BUSY) and node.seen is None
        if node.state in TO_COME or unseen:
            pool = pools.get(node.pool)
            whole = capacity(s, pool, node.flavour) if pool else Resources()
            classes.append(RoomClass(vector(whole, slots), [node.id], joined=False))
        elif node.state in (State.IDLE, State.BUSY) and node.seen is not None:
            if node.seen.state in (WorkerState.IDLE, WorkerState.BUSY):
                free = vector(node.seen.free, max(0, slots - node.seen.jobs))
                stale = node.room_s >= s.settings.unused_room_s
                classes.append(RoomClass(free, [node.id], joined=True, stale=stale))
    for name, stranger in s.registry.strangers.items():
        if stranger.worker.state in (WorkerState.IDLE, WorkerState.BUSY):
            free = vector(stranger.worker.free, max(0, slots - stranger.worker.jobs))
            stale = stranger.room_s >= s.settings.unused_room_s
            classes.append(RoomClass(free, [f"worker {name}"], joined=True, stale=stale))
    return Room(classes)


class _Budget:
    """How many more machines may be there: everything that is not confirmed gone counts."""

    def __init__(self, s: Situation) -> None:
        self._s = s
        limit = s.settings.max_vms
        self.counted = len(s.registry) + (s.foreign if s.settings.quota_counts == "all" else 0)
        self._left = None if limit is None else max(0, limit - self.counted)
        self._pool_left: dict[str, Optional[int]] = {}
        self._why: dict[str, str] = {}
        for pool in s.settings.pools:
            there = s.registry.count(pool.name)
            left = None if pool.max_vms is None else max(0, pool.max_vms - there)
            self._why[pool.name] = f"pool {pool.name} is at its max_vms {pool.max_vms} ({there} counted)"
            broken = s.health.breaker(pool.name)
            if broken:
                canary = max(0, 1 - s.registry.count(pool.name, TO_COME))
                left, self._why[pool.name] = (canary if left is None else min(left, canary)), broken
            self._pool_left[pool.name] = left

    def allowed(self, pool: str, wanted: int) -> tuple[int, str]:
        """How many of the wanted may be launched, and why not all."""
        if self._left is not None and self._left < 1:
            return 0, f"max_vms {self._s.settings.max_vms} is reached ({self.counted} counted)"
        left = self._pool_left[pool]
        if left is not None and left < 1:
            return 0, self._why[pool]
        return min(x for x in (wanted, self._left, left) if x is not None), ""

    def take(self, pool: str, count: int) -> None:
        if self._left is not None:
            self._left -= count
            self.counted += count
        left = self._pool_left[pool]
        if left is not None:
            self._pool_left[pool] = left - count


class _Orders:
    """The launches of one plan."""

    def __init__(self, s: Situation, budget: _Budget, room: Room) -> None:
        self._s, self._budget, self._room = s, budget, room
        self._orders: list[Launch] = []

    def floor(self) -> None:
        """Raise each pool and the cluster to its minimum, capacity to come counted."""
        s = self._s
        for pool in s.settings.pools:
            lacking = pool.min_vms - s.registry.count(pool.name, CAPACITY)
            self._any([pool], lacking, f"min_vms {pool.min_vms} of pool {pool.name}")
        there = s.registry.count(None, CAPACITY) + sum(order.count for order in self._orders)
        self._any(s.settings.pools, s.settings.min_vms - there, f"min_vms {s.settings.min_vms}")

    def serve(self, group: JobGroup, jobs: int, one_only: bool) -> tuple[int, str, bool]:
        """Order machines for so many jobs of a group. Returns how many jobs they hold, why no more,
        and whether any offer would run them."""
        asked = need(group.request)
        covered, why, misfits, matchable = 0, "", [], False
        for pool, offer in self._offers(self._s.settings.pools):
            whole = capacity(self._s, pool, offer.flavour)
            room = vector(whole, self._s.settings.n_jobs_per_vm)
            fits, misfit = self._s.fits(group, whole)
            each = jobs_held(room, asked)
            if not fits or each < 1:
                misfits.append(f"{offer}: {misfit or 'too small'}")
                continue
            matchable = True
            if covered >= jobs or (one_only and covered):
                break
            wanted = 1 if one_only else -(-(jobs - covered) // each)
            count, obstacle = self._launch(offer, pool, wanted, f"{jobs} waiting {group_name(group)}")
            why = obstacle or why
            if count:
                held = min(jobs - covered, count * each)
                covered += held
                order = self._orders[-1]
                self._orders[-1] = Launch(order.offer, order.count, order.reason, {group.key: held})
                self._leave_room(room, asked, each, count, held)
        if not matchable:
            why = "nothing offered can run it: " + "; ".join(dict.fromkeys(misfits)) if misfits else "no pool"
        return covered, why if covered < jobs else "", matchable

    def merged(self) -> tuple[Launch, ...]:
        """One call for each offer, whatever it is for."""
        by_offer: dict[Offer, Launch] = {}
        for order in self._orders:
            before = by_offer.get(order.offer)
            if before is None:
                by_offer[order.offer] = order
                continue
            groups = dict(before.groups)
            for key, jobs in order.groups.items():
                groups[key] = groups.get(key, 0) + jobs
            reasons = before.reason if order.reason in before.reason else f"{before.reason}; {order.reason}"
            by_offer[order.offer] = Launch(order.offer, before.count + order.count, reasons, groups)
        return tuple(by_offer.values())

    def _any(self, pools: tuple[Pool, ...] | list[Pool], lacking: int, reason: str) -> None:
        for pool, offer in self._offers(pools):
            if lacking < 1:
                return
            count, _ = self._launch(offer, pool, lacking, reason)
            lacking -= count
            if count:
                whole = vector(capacity(self._s, pool, offer.flavour), self._s.settings.n_jobs_per_vm)
                self._room.add(whole, [f"new {offer}"] * count)

    def _offers(self, pools: tuple[Pool, ...] | list[Pool]) -> list[tuple[Pool, Offer]]:
        return [(pool, offer) for pool in pools for offer in pool.offers()]

    def _launch(self, offer: Offer, pool: Pool, wanted: int, reason: str) -> tuple[int, str]:
        if pool.site not in self._s.sites:
            return 0, f"the instances of site {pool.site} are not known now"
        obstacle = self._s.health.blocked(offer, pool.site, self._s.now)
        if obstacle:
            return 0, obstacle
        count, obstacle = self._budget.allowed(offer.pool, wanted)
        if count:
            self._budget.take(offer.pool, count)
            self._orders.append(Launch(offer, count, reason))
        return count, obstacle

    def _leave_room(
        self, room: tuple[Optional[float], ...], asked: Need, each: int, count: int, held: int
    ) -> None:
        """What the new machines have left serves the groups that come after."""
        full, rest = divmod(held, each)
        whole = (room[0], room[1], room[2], room[3], room[4])
        self._room.add(without(whole, asked, each), ["new"] * full)
        self._room.add(without(whole, asked, rest), ["new"] * (count - full))


def group_name(group: JobGroup) -> str:
    """A group for people: what its jobs ask for."""
    r = group.request
    parts = [
        f"{value:g}{unit}"
        for value, unit in ((r.cpus, " cpus"), (r.memory_mb, " MB"), (r.gpus, " gpus"))
        if value
    ]
    return "jobs" + (f" of {', '.join(parts)}" if parts else "")


def _serve(s: Situation, room: Room, orders: _Orders) -> tuple[tuple[Verdict, ...], dict[str, str]]:
    """Go through the waiting groups: the untried ones first, so that those known to run are never
    starved by room that an impossible one holds; then the largest jobs."""
    if s.jobs is None:
        return (), {}
    waiting = [g for g in s.jobs.groups if g.waiting > 0]
    waited = {g.key: s.history.waited(g.key) for g in waiting if not g.not_eligible}
    acting = sum(waited.values()) >= max(1, s.settings.waiting_jobs_threshold)
    verdicts: list[Verdict] = []
    room_free: dict[str, str] = {}

    def order(g: JobGroup) -> tuple[bool, float, float, str]:
        asked = need(g.request)
        return (s.trials.standing(g.key) is Standing.SERVED, -asked[0], -asked[1], g.key)

    for group in sorted(waiting, key=order):
        if group.not_eligible:
            verdicts.append(Verdict(group, 0, 0, group.not_eligible, matchable=False))
            continue
        trial = s.trials.get(group.key)
        if trial is not None and trial.standing is Standing.UNSERVED:
            verdicts.append(Verdict(group, 0, 0, trial.reason, matchable=False))
            continue
        trying = trial is not None and trial.standing is Standing.TRYING
        fresh = s.history.waiting_s(group.key, s.now) < s.settings.unused_room_s
        held = room.hold(need(group.request), group.waiting, use_stale=trying or fresh)
        if held.on_joined:
            room_free[group.key] = _machine_name(s, held.on_joined)
        left = group.waiting - held.jobs
        wanted = min(left, waited.get(group.key, 0))
        launching, why, matchable = 0, "", True
        if trying and trial is not None:
            wanted = min(wanted, max(0, group.waiting - trial.covered))
            why = "a machine was launched for it; none of it has started yet"
        if wanted and acting and not s.no_launch:
            launching, obstacle, matchable = orders.serve(group, wanted, one_only=held.passed_over)
            why = obstacle or why
        elif left:
            why = _why_not_yet(s, group, wanted, acting, why)
        verdicts.append(Verdict(group, held.jobs, launching, why or _served_by(s, held), matchable))
    return tuple(verdicts), room_free


def _why_not_yet(s: Situation, group: JobGroup, wanted: int, acting: bool, otherwise: str) -> str:
    if s.no_launch:
        return s.no_launch
    if wanted and not acting:
        return f"fewer than waiting_jobs_threshold {s.settings.waiting_jobs_threshold} jobs have waited"
    if otherwise:
        return otherwise
    return (
        f"waits for {s.history.waiting_s(group.key, s.now):.0f} s of waiting_jobs_time_s "
        f"{s.settings.waiting_jobs_time_s:g}"
    )


def _served_by(s: Situation, held: object) -> str:
    on_joined, on_coming = getattr(held, "on_joined", ""), getattr(held, "on_coming", "")
    if on_joined:
        return f"{_machine_name(s, on_joined)} has free room"
    if on_coming:
        return f"{_machine_name(s, on_coming)} will serve it when it has joined"
    return ""


def _machine_name(s: Situation, machine: str) -> str:
    node = s.registry.nodes.get(machine)
    if node is None:
        return machine
    return f"{node.name} ({node.worker})" if node.worker else node.name


# --------------------------------------------------------------------------- scale down


def _drains(s: Situation, room: Room) -> list[Step]:
    """Idle machines that nobody needs: the longest idle first, never below a minimum."""
    pools = {pool.name: pool for pool in s.settings.pools}
    spare = s.registry.count(None, CAPACITY) - s.settings.min_vms
    spare_of = {name: s.registry.count(name, CAPACITY) - pool.min_vms for name, pool in pools.items()}
    steps: list[Step] = []
    for node in sorted(s.registry, key=lambda n: (-n.idle_s, n.id)):
        if spare < 1 or node.state is not State.IDLE or node.acting or node.retry_at > s.now:
            continue
        if node.seen is None or node.seen.state is not WorkerState.IDLE or node.site not in s.sites:
            continue
        orphaned = node.pool not in pools
        if node.id in room.reserved or spare_of.get(node.pool, 1) < 1:
            continue
        if node.idle_s < s.settings.idle_for_time_s and not orphaned:
            continue
        why = f"pool {node.pool} is no longer configured" if orphaned else f"idle for {node.idle_s:.0f} s"
        steps.append(Step(node, why))
        spare -= 1
        if not orphaned:
            spare_of[node.pool] -= 1
    return steps


def _useless(s: Situation) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Machines whose boot deadline passed, and those that can be ended since no job runs there."""
    failed: list[Step] = []
    ends: list[Step] = []
    if s.no_end:
        return (), ()
    deadline = s.settings.estimated_vm_deploy_time_s
    for node in s.registry:
        if node.site not in s.sites or node.acting or node.retry_at > s.now:
            continue
        identity_doubt = stranger_for(s.registry, node)
        if node.state in (State.PENDING, State.BOOTING) and node.boot_s >= deadline and not identity_doubt:
            failed.append(Step(node, f"did not join within estimated_vm_deploy_time_s {deadline:g}"))
        elif node.state is State.FAILED and node.seen is None and not identity_doubt:
            if node.act_ended is None or s.workers_began >= node.act_ended:
                ends.append(Step(node, node.reason))
        elif node.state is State.LOST and node.lost_s >= s.settings.lost_after_s and not identity_doubt:
            ends.append(Step(node, f"its worker has been missing for {node.lost_s:.0f} s"))
    return tuple(failed), tuple(ends)


def stranger_for(registry: Registry, node: Node) -> str:
    """The name of an unexplained worker that may be this node's under another identity, else empty."""
    for name, stranger in registry.strangers.items():
        if not stranger.explained and stranger.number > node.number:
            return name
    return ""


# --------------------------------------------------------------------------- telling


def _summary(
    s: Situation,
    launches: tuple[Launch, ...],
    drains: tuple[Step, ...],
    ends: tuple[Step, ...],
    verdicts: tuple[Verdict, ...],
) -> str:
    """One sentence: the log line, the status and what the tests look at."""
    done = [f"launch {order.count} of {order.offer}: {order.reason}" for order in launches]
    done += [f"drain {step.node.name}: {step.reason}" for step in drains]
    done += [f"end {step.node.name}: {step.reason}" for step in ends]
    if done:
        return "; ".join(done)
    if s.jobs is None:
        return f"nothing: {s.no_launch or 'the queue is not known'}"
    unserved = [v for v in verdicts if v.held + v.launching < v.group.waiting]
    if unserved:
        worst = max(unserved, key=lambda v: v.group.waiting)
        return f"nothing for {worst.group.waiting} {group_name(worst.group)}: {worst.reason}"
    if any(v.group.waiting for v in verdicts):
        return "nothing: all waiting jobs have room, here or on machines to come"
    busy = s.registry.count(None, frozenset({State.BUSY}))
    return f"nothing: no job waits, {busy} of {s.registry.count(None, JOINED)} machines are busy"
