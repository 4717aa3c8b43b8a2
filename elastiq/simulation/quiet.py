"""Leaving out reads that can tell the daemon nothing: most of a simulated day is as the minute before.

A read is left out while what it would bring has not changed since the last one, the last plan did nothing,
and no clock of the daemon comes to a decision before the next one. The daemon is the same: it asks, and
hears that a read of this source is in flight. Its reads begin at the same times as without, only fewer of
them; what it launches, drains and ends is the same, and when (tests/simulation/test_quiet.py).

Only for worlds that change by themselves: not with faults, nor where something else lays hands on the world.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable, Container, Optional

from elastiq.consolidation import QUIET_S
from elastiq.daemon import Daemon
from elastiq.events import Timer
from elastiq.executor import Outcome
from elastiq.interfaces import JobGroup
from elastiq.nodes import AT_BOOT, BLACK_HOLE_STARTS_PER_H, IN_SERVICE, Registry, State
from elastiq.planner import Plan
from elastiq.reconcile import let_pass
from elastiq.simulation.executor import VirtualExecutor
from elastiq.simulation.world import World
from elastiq.threads import Call

NEVER = -math.inf
CALM = IN_SERVICE | AT_BOOT  # while all machines are so, nothing is under way
# The daemon's periodic events, and the reads that each asks for.
PERIODIC = {"check_queue": ("queue",), "check_vms": ("workers", "cloud"), "check_vms_in_error": ()}
WATCHED = "queue changes"  # asked only when there are some
MARGIN_S = 2.0  # more than a call takes: what a read that is made now leads to happens before


class QuietExecutor(VirtualExecutor):
    """Leaves out the reads that `watch`'s daemon asks for in vain."""

    _daemon: Optional[Daemon] = None
    _clocks: Optional[float]

    def watch(self, world: World, daemon: Daemon) -> None:
        """From now on, for this daemon in this world."""
        self._daemon, self._world = daemon, world
        self._seen: dict[str, int] = {}  # by source: the version of its part of the world at its last read
        self._late = 0  # reads that were left out and are still to be looked at
        self._judged: Optional[Plan] = None
        self._calm, self._clocks = NEVER, None

    def read(
        self, source: str, call: Callable[[], Any], done: Callable[[Outcome[Any]], None], deadline_s: float
    ) -> bool:
        def seeing() -> Any:
            self._seen[source] = self._version(source)
            return call()

        if not self._in_vain(source):
            return super().read(source, seeing, done, deadline_s)
        late = Call(f"read {source}", "", seeing, done, deadline_s, self._events.clock.monotonic())
        self._late += 1
        self._events.after(self._latency.draw(self._rng), partial(self._look_late, source, late))
        return False

    def _look_late(self, source: str, call: Call) -> None:
        """A read that was left out would arrive there now: it is made if something has changed after all."""
        self._late -= 1
        if self._running[call.lane] or self._closed or self._daemon is None:
            return
        if self._seen[source] == self._version(source):
            _renew(self._daemon, source, call.began)
            if not (self._late or any(self._running.values())):
                self._leap(self._daemon)
            return
        self._running[call.lane].append(call)
        call.timer = self._events.after(call.deadline_s, partial(self._give_up, call))
        self._take_effect(call)

    def _version(self, source: str) -> int:
        world, kind = self._world, source.partition(" ")[0]
        if kind == "queue":
            return world.job_changes
        return world.worker_changes if kind == "workers" else world.machine_changes

    def _in_vain(self, source: str) -> bool:
        daemon = self._daemon
        if daemon is None or source == WATCHED or self._seen.get(source) != self._version(source):
            return False
        if source.startswith("problems "):
            return True
        if daemon._plan_pending or any(calls and lane.startswith("act ") for lane, calls in self._running.items()):
            return False
        if daemon.last_plan is not self._judged:
            self._judged = daemon.last_plan
            self._calm, self._clocks = _calm_until(daemon), None
        if source == "queue" and daemon.observer.no_launch():
            return False  # a job was seen to start, and only another look at the queue ends the doubt
        until, now = self._calm, daemon.core.now()
        if source == "workers" and now + MARGIN_S < until:
            if self._clocks is None:
                self._clocks = _clocks_until(daemon)
            until = min(until, self._clocks)
        return now + MARGIN_S < until

    def _leap(self, daemon: Daemon) -> None:
        """Let the daemon's periodic events pass that would only ask in vain, up to the world's next event."""
        ticks, now = {daemon._timers[name]: name for name in PERIODIC}, daemon.core.now()
        sources = ["queue", "workers"]
        for site in daemon.core.clouds:  # where there are no machines, nobody asks for their problems
            kinds = ("cloud", "problems") if daemon.core.registry.instance_ids(site) else ("cloud",)
            sources += [source for source in (f"{kind} {site}" for kind in kinds) if source in self._seen]
        if not all(map(self._in_vain, sources)):
            return
        next_s = _next(self._events._timers, ticks, now)
        until = min(next_s, self._calm, math.inf if self._clocks is None else self._clocks) - MARGIN_S
        for timer, name in ticks.items():
            told = [source for source in sources if source.partition(" ")[0] in PERIODIC[name]]
            when, same_s, last = timer.when, 0.0 if name == "check_vms" else daemon.period_s(name), 0.0
            while when < until and timer.action:
                if when > now:
                    last = when
                    if "workers" in told:  # when they are looked at next follows from what this look shows
                        _renew(daemon, "workers", when)
                when += same_s or daemon.period_s(name, when)
            for source in told if last else ():
                if source != "workers":
                    _renew(daemon, source, last)  # of looks that show the same, the last one says all
            if when > timer.when and timer.action:
                daemon._timers[name] = self._events.at(when, timer.action)
                timer.cancel()


def _next(heap: list[tuple[float, int, Timer]], ticks: Container[Timer], none: float) -> float:
    """When the first timer of the queue is due that is not one of the ticks; ``none`` where there is no other. No
    timer is later than those below it in the heap: mostly a handful are looked at."""
    found, places = math.inf, [0]
    while places:
        place = places.pop()
        if place < len(heap) and heap[place][0] < found:
            when, _, timer = heap[place]
            if timer.action and timer not in ticks:
                found = when
            else:
                places += (2 * place + 1, 2 * place + 2)
    return none if math.isinf(found) else found


def _renew(daemon: Daemon, source: str, began: float) -> None:
    """Let what was read last be as good as if it had just been read again."""
    observer, (kind, _, site) = daemon.observer, source.partition(" ")
    if kind == "cloud":
        listing = observer.instances[site]
        assert listing.value is not None
        listing.succeeded(began, listing.value)
    elif kind == "queue":
        jobs = observer.jobs
        assert jobs.value is not None
        jobs.succeeded(began, jobs.value)
        observer.history.observe(began, jobs.value)
    elif kind == "workers":
        workers = observer.workers
        assert workers.value is not None
        workers.succeeded(began, workers.value)
        observer.observed_s = observer._settled_watch.passed_s(began, True, workers.stale_after_s)
        _pass(daemon.core.registry, observer.observed_s)


def _pass(registry: Registry, observed_s: float) -> None:
    """Let the clocks go on as by another read that shows the same."""
    let_pass((node for node in registry if node.seen is not None), observed_s)
    if registry.count(None, AT_BOOT):
        for node in registry:
            if node.seen is None:
                node.boot_s += observed_s if node.watched else 0.0
                node.watched = True


def _calm_until(daemon: Daemon) -> float:
    """The monotonic time up to which the daemon would plan the same again if nothing else is read."""
    core, observer, plan = daemon.core, daemon.observer, daemon.last_plan
    planned, registry = _planned_at(daemon), core.registry
    if plan.launches or plan.drains or plan.ends or plan.failed or plan.unused or plan.returns or plan.noticed:
        return NEVER
    if core.drained or not _limits_stand(daemon):
        return NEVER
    if observer.no_launch() or observer.no_end() or not observer.settled():
        return NEVER
    if observer.launching.open or registry.strangers:
        return NEVER
    if len(registry) != registry.count(None, CALM) or core.health.unreplaced(planned):
        return NEVER
    if any(block.until > planned for block in core.health.blocks.values()):
        return NEVER
    for node in registry:
        if (node.seen is None) is (node.state in IN_SERVICE) or node.unlisted or node.acting or node.retry_at > planned:
            return NEVER
        if node.condemned or node.emptied or (node.seen is not None and node.seen.is_drained):
            return NEVER
        if node.starts_per_h >= BLACK_HOLE_STARTS_PER_H:
            return NEVER
    until = min((_same_until(daemon, verdict.group) for verdict in plan.verdicts), default=math.inf)
    return min(until, _other_clocks_until(daemon))


def _limits_stand(daemon: Daemon) -> bool:
    """Whether the limits of launches and cost, which change as time goes by, change nothing: none is set, or nothing
    is to be launched. What was spent is counted up with each plan: of these none is left out."""
    core, s = daemon.core, daemon.core.settings
    if core.ledger is None:
        return True
    if s.max_cost_per_day or (s.max_launches_per_hour and any(pool.prices for pool in s.pools)):
        return False
    wanting = any(verdict.held < verdict.group.waiting and verdict.matchable for verdict in daemon.last_plan.verdicts)
    keeping = s.min_vms or s.schedules or any(pool.min_vms or pool.terms.min_idle_vms for pool in s.pools)
    return not (wanting or keeping)


def _other_clocks_until(daemon: Daemon) -> float:
    """The time at which something else than what is read may change a plan: a schedule, a pause, an age."""
    core, s = daemon.core, daemon.core.settings
    planned, times = _planned_at(daemon), []
    ahead_s = core.wall() - core.now()  # of the monotonic clock
    if s.schedules:
        from elastiq import schedule

        schedule.in_force(s, planned + ahead_s)  # knows from now on when the next change is
        times.append(schedule._last[0].until - ahead_s)
    for what, last in core.health.times.items():
        times.append(last + float(getattr(s, f"cooldown_after_{what}_s")))
    for pool in s.pools:
        if lifetime_s := pool.terms.max_vm_lifetime_s:
            times += [node.created_at + lifetime_s - ahead_s for node in core.registry if node.pool == pool.name]
    return min((time for time in times if time > planned - 0.01), default=math.inf)  # sums are not exact


def _planned_at(daemon: Daemon) -> float:
    """The monotonic time of the last plan: what has come since then is no part of it."""
    core = daemon.core
    return core.now() if daemon.last_plan_at is None else core.now() - core.wall() + daemon.last_plan_at


def _same_until(daemon: Daemon, group: JobGroup) -> float:
    """The time at which more jobs of a group will have waited long enough, or the group is fresh no more."""
    history, began = daemon.observer.history, daemon.observer.jobs.began
    if group.not_eligible:
        return math.inf
    if group.key not in history._counts:
        return NEVER  # the queue was read since the plan, and is about to be read again
    since = began - history.waiting_s(group.key, began)
    fresh_until = since + daemon.core.settings.unused_room_s
    until = fresh_until if fresh_until > _planned_at(daemon) else math.inf
    for window_s in (history.window_s, *([history.keep_s] if history.keep_s else ())):
        if history.waited(group.key, window_s) < group.waiting:
            later = [seen for seen, _ in history._counts[group.key] if seen > began - window_s]
            until = min(until, (later or [began])[0] + window_s)
    return until


def _clocks_until(daemon: Daemon) -> float:
    """The time at which another read of the workers will bring a clock to its limit."""
    settings, began = daemon.core.settings, daemon.observer.workers.began
    waiting = daemon.last_plan.verdicts  # for whom it matters whether room is stale
    left_s, uses = math.inf, daemon.core.registry.uses
    for node in daemon.core.registry:
        if node.state is State.IDLE and node.idle_s < (limit_s := uses.idle_for_s(settings, node.pool)):
            left_s = min(left_s, limit_s - node.idle_s)
        elif node.state in AT_BOOT and node.boot_s < (limit_s := settings.estimated_vm_deploy_time_s_of(node.pool)):
            left_s = min(left_s, limit_s - node.boot_s)
        elif settings.consolidate and node.state is State.BUSY:
            quiet_s = min(QUIET_S, uses.idle_for_s(settings, node.pool))  # for which one that is emptied was left alone
            left_s = min(left_s, quiet_s - node.room_s if node.room_s < quiet_s else math.inf)
        if waiting and node.room_s < settings.unused_room_s and node.seen is not None and node.seen.free.cpus != 0:
            left_s = min(left_s, settings.unused_room_s - node.room_s)
    return began + left_s  # the clocks stand as of the last read
