"""Observations + registry + settings -> Plan.

Pure: no clock, no I/O; time is a parameter. Every launch, drain and end in a plan has a reason that a
person can read, and so has every group of waiting jobs that is not served.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Mapping, Optional, Sequence

from elastiq import scale_down
from elastiq.broker import Orders, Served, Wanted, empty, free_room
from elastiq.demand import Standing
from elastiq.interfaces import JobGroup, Worker
from elastiq.nodes import CAPACITY, IN_SERVICE, JOINED, Node, State
from elastiq.packing import Held, Kind, Room, RoomClass, need
from elastiq.situation import Allowance, Launch, Plan, Situation, Step, Verdict, group_name
from elastiq.unused import unused_room

REPLACEMENT = "a black hole's replacement, one an hour,"

__all__ = ["Allowance", "Launch", "Plan", "Situation", "Step", "Verdict", "group_name", "plan"]


def plan(s: Situation) -> Plan:
    """Decide what to launch, drain and end now."""
    noticed, odd, may_leave = _unusual(s)
    leaving = scale_down.leaving(s, may_leave)
    waiting = [g for g in s.jobs.groups if g.waiting > 0] if s.jobs is not None else []
    keeps_some = s.settings.min_vms or any(pool.min_vms or pool.terms.min_idle_vms for pool in s.settings.pools)
    if not (waiting or keeps_some or noticed or odd or s.settings.consolidate):  # most of a day's plans
        made = Plan((), tuple(scale_down.drains(s, frozenset(), leaving)), *scale_down.useless(s))
        return replace(made, summary=_summary(s, made))
    room = _room(s, leaving)
    orders = Orders(s, room)
    may_launch = not s.no_launch and s.settled
    seldom = None
    if noticed or odd or s.settings.consolidate:
        from elastiq.seldom import Seldom

        seldom = Seldom(s, room, orders, leaving, may_launch)
        may_launch = seldom.may_launch
    if may_launch and keeps_some:
        from elastiq import minima

        minima.floor(orders, leaving)
    verdicts = _serve(orders, waiting, leaving)
    if may_launch and keeps_some:
        minima.spares(orders, leaving)
    on_trial = {g.key: g for g in waiting if s.trials.standing(g.key) is Standing.TRYING}
    unused = unused_room(s, on_trial) if on_trial else {}
    reserved = room.reserved.union(node.id for machines in unused.values() for node, _ in machines)
    drains = scale_down.drains(s, reserved, leaving)
    launches = orders.merged()
    drains = seldom.drains(drains, launches, verdicts) if seldom else drains
    returns = seldom.returns() if seldom else ()
    failed, ends, kept = scale_down.useless(s)
    ends += seldom.ends(orders) if seldom else ()
    limit_s = s.settings.unused_room_s
    found_out = {
        key: (_machine_name(s, found[0][0].id), frozenset(of for node, of in found if node.room_s >= limit_s))
        for key, found in unused.items()
    }
    made = Plan(launches, tuple(drains), failed, ends, kept, verdicts, returns, "", noticed, found_out)
    return replace(made, summary=_summary(s, made))


def _unusual(s: Situation) -> tuple[tuple[Node, ...], bool, bool]:
    """The nodes that the cloud is about to take; whether any is odd; and whether any may have to leave: taken, ordered
    out, of an outdated build, or at a site that is not known now. One look at each, as a plan has many to look at."""
    builds = {pool.name: pool.build for pool in s.settings.pools}
    noticed, odd, may_leave = [], False, False
    for node in s.registry:
        instance, worker = node.instance, node.seen
        if (instance is not None and instance.notice) or (worker is not None and worker.notice):
            noticed.append(node)
        odd = odd or node.is_odd
        may_leave = may_leave or node.site not in s.sites or builds.get(node.pool, node.build) != node.build
    return tuple(noticed), odd, may_leave or odd or bool(noticed)


# --------------------------------------------------------------------------- scale up


def _room(s: Situation, leaving: Mapping[str, str]) -> Room:
    """Free room on joined workers, and the whole room of machines that have not joined."""
    found: dict[tuple[Any, ...], list[str]] = {}  # machines by what makes their room one `RoomClass`
    workers: list[tuple[str, Kind, Worker, float, Any]] = []
    to_come: list[tuple[str, str, str, Any]] = []
    for node in s.registry:
        if node.id in leaving:
            continue
        if node.state in IN_SERVICE and node.seen is not None:
            if node.seen.free.cpus != 0:  # on a busy cluster most are full
                groups = () if node.was_busy else tuple(node.groups.items())
                workers.append((node.id, (node.pool, node.flavour), node.seen, node.room_s, groups))
        # A machine that an unsettled view does not show may well be there: it holds what it can hold.
        elif node.state in CAPACITY:
            to_come.append((node.id, node.pool, node.flavour, tuple(node.groups.items())))
    workers += [(f"worker {name}", ("", ""), one.worker, one.room_s, ()) for name, one in s.registry.strangers.items()]
    for name, kind, worker, room_s, groups in workers:
        if worker.takes_jobs:
            stale = room_s >= s.settings.unused_room_s
            found.setdefault((free_room(s, kind[0], worker), True, stale, False, kind, groups), []).append(name)
    for name, of, flavour, groups in (*to_come, *((REPLACEMENT, *one, ()) for one in s.health.unreplaced(s.now))):
        found.setdefault((empty(s, of, flavour), False, False, not groups, (of, flavour), groups), []).append(name)
    return Room(RoomClass(one[0], names, *one[1:]) for one, names in found.items())


def _serve(orders: Orders, waiting: Sequence[JobGroup], leaving: Mapping[str, str]) -> tuple[Verdict, ...]:
    """Go through the waiting groups: the untried ones first, so that those known to run are never
    starved by room that an impossible one holds; then the largest jobs."""
    s = orders.s
    waited = {g.key: s.history.waited(g.key) for g in waiting if not g.not_eligible}
    threshold = max(1, s.settings.waiting_jobs_threshold)
    acting = sum(waited.get(g.key, 0) for g in waiting if threshold == 1 or orders.matchable(g)) >= threshold

    def order(g: JobGroup) -> tuple[bool, float, float, str]:
        asked = need(g.request)
        return (s.trials.standing(g.key) is Standing.SERVED, -asked[0], -asked[1], g.key)

    turns = None
    if s.settings.job_length_s:
        from elastiq.in_turns import Turns

        turns = Turns(s, waiting, waited)
        waiting, waited = turns.groups, turns.waited
    ordered = sorted(waiting, key=order)
    holds = _hold(orders, ordered, waited if acting else {})
    trying = {g.key for g in waiting if s.trials.standing(g.key) is Standing.TRYING}
    lost: Counter[str] = Counter()
    tried = [n for n in s.registry if n.groups and not trying.isdisjoint(n.groups)] if trying else ()
    if any(node.was_busy or node.id in leaving for node in tried):
        from elastiq.taken import lost_to_others

        lost = lost_to_others(s, leaving)
    asking = {g.key: _ask(s, g, waited.get(g.key, 0) if acting else None, holds[g.key], lost[g.key]) for g in ordered}
    wants = [Wanted(a.group, a.wanted, a.one_only) for a in asking.values() if a.wanted]
    wants = turns.named(wants) if turns else wants
    if orders.one_size(wants):
        served = {want.group.key: orders.serve(want) for want in wants}
    else:
        from elastiq.sizing import serve

        served = serve(orders, wants)
    orders.unserved = [(w.group, (1 if w.one_only else w.jobs) - served[w.group.key].jobs) for w in wants]
    verdicts = tuple(_verdict(s, a, served.get(key)) for key, a in asking.items())
    return turns.told(verdicts) if turns else verdicts


@dataclass(frozen=True)
class _Asking:
    """What is to be done for a group: what holds some of its jobs, how many more want a machine, or why not."""

    group: JobGroup
    held: Held
    wanted: int = 0
    one_only: bool = False
    why: str = ""
    matchable: bool = True


def _hold(orders: Orders, groups: Sequence[JobGroup], waited: Mapping[str, int]) -> dict[str, Held]:
    """Reserve room: for each group first what was launched for it, then for jobs that have waited long enough, of all
    groups, and then for the others, which will use what is left. Room that a group did not use must not keep
    machines of another pool from it."""
    s, holds, able = orders.s, {group.key: Held() for group in groups}, []
    for group in groups:
        if not (group.not_eligible or s.trials.get(group.key).refused_by):
            fresh = s.history.waiting_s(group.key, s.now) < s.settings.unused_room_s
            use_stale = fresh or s.trials.standing(group.key) is Standing.TRYING
            able.append((group, holds[group.key], need(group.request, group.apart), use_stale, orders.refuses(group)))
    for step in range(3):
        for group, held, asked, use_stale, refuses in able:
            old = min(waited.get(group.key, 0), group.waiting)
            if step == 0:
                orders.room.hold_own(group.key, asked, group.waiting * group.nodes, use_stale, refuses, held)
            elif step == 1 and old:
                orders.room.hold(asked, old * group.nodes, use_stale, refuses, held)
                orders.room.needed.update(held.machines)
            elif step == 2 and old < group.waiting:
                orders.room.hold(asked, group.waiting * group.nodes, use_stale, refuses, held)
    for group, held, *_ in able:
        if group.nodes > 1:
            from elastiq.sizing import claimed

            held.jobs = held.jobs // group.nodes + claimed(s, group)
    return holds


def _ask(s: Situation, group: JobGroup, waited: Optional[int], held: Held, lost: int) -> _Asking:
    """``waited``: how many of its jobs have waited long enough; None while too few of all groups have."""
    if group.not_eligible:
        return _Asking(group, held, why=group.not_eligible, matchable=False)
    trial = s.trials.get(group.key)
    if trial.standing is Standing.UNSERVED:
        if all(trial.refuses(pool.name, flavour) for pool in s.settings.pools for flavour in pool.flavours):
            return _Asking(group, held, why=trial.reason, matchable=False)
    # What is held serves those that have waited longest.
    wanted, why = max(0, min(group.waiting, waited or 0) - held.jobs), ""
    if trial.standing is Standing.TRYING:
        wanted = min(wanted, max(0, group.waiting - max(0, trial.covered - lost)))
        why = "" if held.jobs >= group.waiting else "a machine was launched for it; none of it has started yet"
    if wanted and not s.no_launch:
        return _Asking(group, held, wanted, held.passed_over or trial.standing is Standing.UNSERVED, why)
    if held.jobs < group.waiting:
        why = s.no_launch or why
        if waited is None and s.history.waited(group.key) and not s.no_launch:
            why = f"fewer than waiting_jobs_threshold {s.settings.waiting_jobs_threshold} jobs have waited"
    return _Asking(group, held, why=why)


def _verdict(s: Situation, a: _Asking, served: Optional[Served]) -> Verdict:
    """What becomes of a group's waiting jobs."""
    launching, why, matchable = 0, a.why, a.matchable
    if served is not None:
        launching, matchable = served.jobs, served.matchable
        why = (s.trials.get(a.group.key).reason if not matchable else "") or served.why or why
    young = a.group.waiting - a.held.jobs - launching
    if young > 0 and not why:
        why = f"waiting_jobs_time_s {s.settings.waiting_jobs_time_s:g} has not passed yet for {young} of them"
    return Verdict(a.group, a.held.jobs, launching, why or _served_by(s, a.held), matchable, a.held.machines)


def _served_by(s: Situation, held: Held) -> str:
    if held.on_joined:
        return f"{_machine_name(s, held.on_joined)} has free room"
    node = s.registry.nodes.get(held.on_coming)
    when = "takes jobs again" if node is not None and node.emptied else "has joined"
    return f"{_machine_name(s, held.on_coming)} will serve it when it {when}" if held.on_coming else ""


def _machine_name(s: Situation, machine: str) -> str:
    node = s.registry.nodes.get(machine)
    if node is None:
        return machine
    return f"{node.name} ({node.worker})" if node.worker else node.name


# --------------------------------------------------------------------------- telling


def actions(made: Plan, can_drain: bool) -> str:
    """What a plan does; empty for one that does nothing."""
    drain = "drain {}" if can_drain else "look once more at {} and end it"
    acts = [("start" if order.offer.market == "stopped" else "launch", order) for order in made.launches]
    done = [f"{act} {order.count} of {order.offer}: {order.reason}" for act, order in acts]
    # Where nothing can be drained, a black hole is only named.
    drains = [step for step in made.drains if can_drain or not step.for_good]
    done += [f"{drain.format(step.node.name)}: {step.reason}" for step in drains]
    done += [f"return {step.node.name}: {step.reason}" for step in made.returns]
    return "; ".join(done + [f"end {step.node.name}: {step.reason}" for step in made.ends])


def _summary(s: Situation, made: Plan) -> str:
    """One sentence: the log line, the status and what the tests look at."""
    if done := actions(made, s.can_drain):
        return done
    if s.jobs is None:
        return f"nothing: {s.no_launch or 'the queue is not known'}"
    unserved = [v for v in made.verdicts if v.held + v.launching < v.group.waiting]
    if unserved:
        worst = max(unserved, key=lambda v: v.group.waiting)
        return f"nothing for {group_name(worst.group, worst.group.waiting)}: {worst.reason}"
    if any(v.group.waiting for v in made.verdicts):
        return "nothing: all waiting jobs have room, here or on machines to come"
    busy = s.registry.count(None, {State.BUSY})
    return f"nothing: no job waits, busy machines: {busy} of {s.registry.count(None, JOINED)}"
