"""Observations -> registry: which worker is which instance, and what that makes of each node.

Pure. Identity is the instance id where the worker publishes one, then any private address of any
interface, among live owned instances; no DNS. Clocks belong to the node, so a recycled address or a
stale ad inherits nothing.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Callable, Iterable, Mapping, Optional

from elastiq.interfaces import Instance, Instances, InstanceState, Worker, Workers, WorkerState
from elastiq.nodes import AT_BOOT, IN_SERVICE, JOINED, Node, Registry, State
from elastiq.wording import counted

Explain = Callable[[], Mapping[str, str]]

# An ad whose daemon began this much before its instance was launched is another machine's.
CLOCK_SKEW_S = 300.0
# The clocks of a node are stored this often: so much of them a restart may cost.
STORED_EVERY_S = 60.0
# How fast jobs start on a machine is averaged over about this time.
PACE_S = 600.0


# --------------------------------------------------------------------------- the cloud's side


def take_instances(
    registry: Registry, site: str, seen: Instances, began: float, wall: float, grace_s: float
) -> list[str]:
    """Bring a complete listing into the registry. ``began`` is monotonic, ``wall`` the wall time now;
    within ``grace_s`` of its launch an instance that is not listed is not gone. Returns what a person
    should know."""
    notices: list[str] = []
    requested = [node for node in registry if node.state is State.REQUESTED and node.site == site]
    for instance in seen.owned:
        node = registry.by_instance(instance.id) or _claim(registry, requested, instance)
        if node is None:
            if instance.state is InstanceState.TERMINATED:
                continue  # ended ones linger in listings for an hour
            from elastiq.discrepancies import take_over

            node = take_over(registry, site, instance, began + grace_s, wall)
            notices.append(f"{instance.id} carries our tags and was not known: taken over as {node.state.value}")
        _update(registry, node, instance, began, wall)
    listed = {instance.id for instance in seen.owned}
    missing = [n for n in registry if n.site == site and n.instance_id and n.instance_id not in listed]
    if overdue := [node for node in missing if began >= node.listed_by]:
        from elastiq.discrepancies import miss

        notices += miss(registry, overdue, began, wall)
    return notices


def _claim(registry: Registry, requested: list[Node], instance: Instance) -> Optional[Node]:
    """The requested node of the intent that an instance names by tag or token."""
    for node in requested:
        if node.intent and (instance.intent == node.intent or instance.token.endswith(node.intent)):
            requested.remove(node)
            registry.bind(node, instance.id)
            return node
    return None


def _update(registry: Registry, node: Node, instance: Instance, began: float, wall: float) -> None:
    """The cloud's word on one node."""
    if instance != node.instance:
        registry.touched[node.id] = node
    if node.state is State.REQUESTED:  # whatever is told of it, it was made: history counts launches by this
        registry.move(node, State.PENDING, node.reason, wall)
    node.instance, node.unlisted = instance, 0
    node.addresses = instance.addresses or node.addresses
    node.flavour = node.flavour or instance.flavour
    state, detail = instance.state, instance.state_detail or instance.state.value
    if state is InstanceState.TERMINATED:
        why = node.reason if node.state is State.TERMINATING else f"the cloud says {detail}"
        registry.move(node, State.GONE, why, wall)
    elif node.state is State.TERMINATING:
        return
    elif state is InstanceState.SHUTTING_DOWN:
        registry.move(node, State.TERMINATING, f"the cloud is ending it: {detail}", wall)
    elif state is InstanceState.RUNNING and node.state is State.PENDING:
        registry.move(node, State.BOOTING, node.reason, wall)
    elif state not in (InstanceState.PENDING, InstanceState.RUNNING):
        from elastiq.discrepancies import troubled

        troubled(registry, node, instance, began, wall)


# --------------------------------------------------------------------------- the batch system's side


def match(registry: Registry, workers: Iterable[Worker]) -> tuple[dict[str, Worker], list[Worker]]:
    """Join workers to live nodes: the worker of each node, by its id, and those of none. Where two claim one node,
    the one that runs something wins: it is never wrong to think a machine busy."""
    by_name: dict[str, list[Node]] = {}
    # A recycled address is that of the machine which was launched last, not of one that is being ended.
    latest_first = sorted(registry, key=attrgetter("number"), reverse=True)
    for node in sorted(latest_first, key=lambda n: n.state is State.TERMINATING):
        for name in (*node.addresses, node.instance_id or node.id):
            by_name.setdefault(name, []).append(node)
    by_node: dict[str, Worker] = {}
    strangers: list[Worker] = []
    for worker in workers:
        found = _node_of(worker, by_name)
        if found is None:
            strangers.append(worker)
        elif found.id not in by_node or _activity(worker) > _activity(by_node[found.id]):
            by_node[found.id] = worker
    return by_node, strangers


def _node_of(worker: Worker, by_name: Mapping[str, list[Node]]) -> Optional[Node]:
    for name in [worker.instance_id] if worker.instance_id else sorted(worker.addresses):
        for node in by_name.get(name, ()):
            if not _stale(worker, node):
                return node
    return None


def _activity(worker: Worker) -> int:
    """Orders the ads of one machine: what speaks most against ending it comes last."""
    if worker.runs_something:
        return 3
    return {WorkerState.IDLE: 0, WorkerState.DRAINED: 1}.get(worker.state, 2)


def _stale(worker: Worker, node: Node) -> bool:
    launched = (node.instance.launched_at if node.instance else None) or node.created_at
    ran_since = node.ran_since if node.was_stopped else None
    began = worker.started_at
    return began is not None and (began < launched - CLOCK_SKEW_S or (ran_since is not None and began <= ran_since))


def take_workers(
    registry: Registry, seen: Workers, settled: bool, observed_s: float, wall: float, explain: Explain, mark: str
) -> None:
    """Bring a read of the workers into the registry.

    ``observed_s`` is the time since the last settled read, 0 if anything unsettled lay between: only
    it runs the clocks. ``explain()`` says for addresses and names why a worker there may be no node of
    ours. What is positively seen is believed even in an unsettled view; what is missing is not.
    """
    by_node, unmatched = match(registry, seen.workers)
    observed_s = observed_s if settled else 0.0
    for node in list(registry):
        worker = by_node.get(node.id)
        if worker is not None:
            _seen(registry, node, worker, observed_s, wall, mark)
        else:
            _not_seen(registry, node, settled, observed_s, wall)
        minute = (node.idle_s + node.boot_s + node.lost_s) // STORED_EVERY_S
        if minute != node.clocks_stored:
            node.clocks_stored = minute
            registry.touched[node.id] = node
    ours = {worker.name for worker in by_node.values()}
    registry.ended -= ours
    if settled:
        registry.ended &= {worker.name for worker in seen.workers}
    strangers = [worker for worker in unmatched if worker.name not in registry.ended]
    if strangers or registry.strangers:
        from elastiq.strangers import take_strangers

        take_strangers(registry, strangers, ours, settled, observed_s, explain())


def _seen(registry: Registry, node: Node, worker: Worker, observed_s: float, wall: float, mark: str) -> None:
    before = node.seen
    if worker is before and node.state in IN_SERVICE and not node.failures:
        let_pass((node,), observed_s)
        registry.learn(node, worker.total)
        return
    same = (node.worker, node.jobs, node.job_starts) == (worker.name, worker.jobs, worker.job_starts)
    started = node.job_starts is not None and worker.job_starts not in (None, node.job_starts)
    unchanged = same and before is not None and worker.free == before.free
    node.room_s = node.room_s + observed_s if unchanged else 0.0
    if not same:
        registry.touched[node.id] = node
        if node.state is State.IDLE and node.was_busy:
            registry.uses.used_again(node.pool, node.idle_s)
        elif node.state in AT_BOOT and node.watched:
            registry.uses.booted(node.pool, node.boot_s + observed_s)
        node.idle_s = 0.0
    if observed_s and node.job_starts is not None and worker.job_starts is not None:
        recent = 1 - math.exp(-observed_s / PACE_S)
        starts_per_h = max(0, worker.job_starts - node.job_starts) * 3600.0 / observed_s / (worker.total.cpus or 1.0)
        node.starts_per_h += recent * (starts_per_h - node.starts_per_h)
    node.seen, node.worker, node.jobs, node.job_starts = worker, worker.name, worker.jobs, worker.job_starts
    node.lost_s = 0.0
    node.joined_at = wall if node.joined_at is None else node.joined_at
    # While a worker starts, its slots appear one by one: what it offers is what two reads say alike.
    if before is not None and before.total == worker.total:
        registry.learn(node, worker.total)
    node.was_busy = node.was_busy or started or worker.runs_something
    if node.state in (State.TERMINATING, State.DRAINING, State.STOPPED):
        return  # its end or its return is decided by the one who drains
    was_idle = node.state is State.IDLE
    if worker.state is WorkerState.IDLE:
        looked_idle = before is None or before.state is WorkerState.IDLE  # and was not out of service
        node.idle_s = node.idle_s + observed_s if was_idle and same and looked_idle else 0.0
        registry.move(node, State.IDLE, "" if was_idle else "no job runs on it", wall)
    else:
        node.idle_s = 0.0
        if worker.runs_something:
            node.failures, node.retry_at = 0, 0.0  # a drain that came too late is no reason to wait with the next
        registry.move(node, State.BUSY, _why_busy(worker, mark), wall)


def let_pass(nodes: Iterable[Node], observed_s: float) -> None:
    """Run the clocks of nodes in service as by a look that shows the same again."""
    remains = math.exp(-observed_s / PACE_S)
    for node in nodes:
        node.room_s += observed_s
        node.starts_per_h *= remains
        if node.state is State.IDLE:
            node.idle_s += observed_s


def _why_busy(worker: Worker, mark: str) -> str:
    if worker.state is WorkerState.BUSY:
        return f"runs {counted(worker.jobs, 'job')}"
    if worker.is_drained:
        if worker.drained_by_mark(mark):
            return "still drained by us: it will be returned"
        return f"drained by someone else ({worker.drained_by or 'no reason given'}): left alone"
    return f"not to be used: {worker.detail or worker.state.value}"


def _not_seen(registry: Registry, node: Node, settled: bool, observed_s: float, wall: float) -> None:
    node.seen = None
    if not settled:
        return
    node.room_s = 0.0
    if node.state in AT_BOOT:
        node.boot_s += observed_s if node.watched else 0.0  # of the time before the first look, part was not its own
        node.watched = True
    elif node.state in JOINED:
        registry.move(node, State.LOST, "its worker is missing", wall)
        node.lost_s, node.idle_s = 0.0, 0.0
    elif node.state is State.LOST:
        node.lost_s += observed_s
