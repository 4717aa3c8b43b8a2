"""What becomes of a group's waiting jobs."""

from __future__ import annotations

from typing import Iterator, Sequence

from elastiq.broker import capacity
from elastiq.demand import Standing
from elastiq.explain.known import Known, named, size
from elastiq.interfaces import JobGroup
from elastiq.nodes import TO_COME, Node
from elastiq.situation import Verdict


def explained(known: Known, v: Verdict) -> str:
    """A part for those that have room, those that are launched for, and the rest."""
    if v.group.not_eligible:
        return f"not eligible: {v.group.not_eligible}"
    parts = [*_by_machines(known, v), *_by_launches(known, v)]
    left = v.group.waiting - v.held - v.launching
    if left > 0:
        parts.append((left, _not_served(known, v)))
    return "; ".join(text if jobs >= v.group.waiting else f"{jobs} of them: {text}" for jobs, text in parts)


def _by_machines(known: Known, v: Verdict) -> Iterator[tuple[int, str]]:
    """The jobs that have room, on machines that are there and on those that come."""
    there, coming, other = [], [], []
    for machine in v.machines:
        node = known.s.registry.nodes.get(machine)
        if node is not None and node.state in TO_COME:
            coming.append(node)
        elif node is not None or machine.startswith("worker "):
            there.append(machine)
        else:
            other.append(machine)
    if there:
        names = named([known.machine(machine) for machine in there])
        yield sum(v.machines[machine] for machine in there), f"free room on {names}"
    if coming:
        jobs = sum(v.machines[node.id] for node in coming)
        yield jobs, _when_joined(known, coming, "it" if jobs == 1 else "them")
    if other:
        yield sum(v.machines[name] for name in other), "room on machines that are launched for another reason"


def _when_joined(known: Known, nodes: Sequence[Node], whom: str) -> str:
    deploy_s = known.s.settings.estimated_vm_deploy_time_s_of
    due, word = min(
        (node.created_at + (boot_s or deploy_s(node.pool)), "at about" if boot_s else "by")
        for node, boot_s in ((node, known.boot_s(node)) for node in nodes)
    )
    names = f"{nodes[0].state.value} {named([node.name for node in nodes])}"
    if due <= known.s.wall:
        return f"{names} will serve {whom} once joined, which was due at {known.at(due)}"
    return f"{names} will serve {whom} {word} {known.at(due)}"


def _by_launches(known: Known, v: Verdict) -> Iterator[tuple[int, str]]:
    if v.launching:
        off, orders = known.s.off.get("launch"), [o for o in known.plan.launches if v.group.key in o.groups]
        again = [f"{order.count} of {order.offer}" for order in orders if order.offer.market == "stopped"]
        new = [f"{order.count} of {order.offer}" for order in orders if order.offer.market != "stopped"]
        acts = [f"{'start' if off else 'starting'} {named(again)}"] if again else []
        acts += [f"{'launch' if off else 'launching'} {named(new)}"] if new or not again else []
        yield v.launching, (f"{off}: would " if off else "") + " and ".join(acts)


def _not_served(known: Known, v: Verdict) -> str:
    s, key, reason = known.s, v.group.key, v.reason
    if not v.matchable and s.trials.standing(key) is not Standing.UNSERVED:
        return _no_pool(known, v.group) or _misfit(known, v.group) or reason
    waiting_s, window_s = s.history.waiting_s(key, s.now), s.settings.waiting_jobs_time_s
    if reason.startswith("waiting_jobs_time_s"):
        # Of a group that grew it is not known when which of its jobs came: the last of them just now, at the latest.
        grew = waiting_s >= window_s
        until = known.when(window_s if grew else window_s - waiting_s)
        last = "at the latest " if grew else ""
        return f"waits too briefly, until {last}{until} (waiting_jobs_time_s {window_s:g})"
    held_back = [text for scope, text in known.blocks() if f"{scope} is held back" in reason]
    return "; ".join(held_back) or reason or "not served yet: the next plan decides"


def _no_pool(known: Known, group: JobGroup) -> str:
    """That none of the pools that it asks for is there; empty if one is, or it asks for none."""
    names = [pool.name for pool in known.s.settings.pools]
    if not group.pools or {*group.pools} & {name.lower() for name in names}:
        return ""
    return f"there is no pool {' or '.join(group.pools)}, which they ask for; there are {', '.join(names)}"


def _misfit(known: Known, group: JobGroup) -> str:
    """The sizes that no flavour on offer has; empty if it is not for a size."""
    s = known.s
    pools = [pool for pool in s.settings.pools if not group.pools or pool.name.lower() in group.pools]
    sizes = [vars(capacity(s, pool, flavour)) for pool in pools for flavour in pool.flavours]
    found = []
    for what, asked in vars(group.request).items():
        largest = [has[what] for has in sizes]
        if asked is not None and largest and all(has is not None and has < asked for has in largest):
            found.append(f"asks {size(what, asked)}, the largest flavour has {size(what, max(largest))}")
    return f"nothing fits: {' and '.join(found)}" if found else ""
