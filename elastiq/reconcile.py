"""Observations -> registry: which worker is which instance, and what that makes of each node.

Pure. Identity is the instance id where the worker publishes one, then any private address of any
interface, among live owned instances; no DNS. Clocks belong to the node, so a recycled address or a
stale ad inherits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Optional

from elastiq.interfaces import Instance, Instances, InstanceState, Worker, Workers, WorkerState
from elastiq.nodes import JOINED, TO_COME, Node, Registry, State, Stranger

# An ad whose daemon began this much before its instance was launched is another machine's.
CLOCK_SKEW_S = 300.0
# A listing may lag behind; so many complete ones in a row without an instance are believed.
LISTINGS_BEFORE_GONE = 3
# The clocks of a node are stored this often: so much of them a restart may cost.
STORED_EVERY_S = 60.0
# What an instance that nobody knew is taken over as; it is no boot of ours.
FOUND_AS = {
    InstanceState.SHUTTING_DOWN: State.TERMINATING,
    InstanceState.STOPPING: State.FAILED,
    InstanceState.STOPPED: State.FAILED,
    InstanceState.ERROR: State.FAILED,
    InstanceState.RUNNING: State.BOOTING,
}


# --------------------------------------------------------------------------- the cloud's side


def take_instances(
    registry: Registry, site: str, seen: Instances, began: float, wall: float, grace_s: float
) -> list[str]:
    """Bring a complete listing into the registry. ``began`` is monotonic, ``wall`` the wall time now;
    within ``grace_s`` of its launch an instance that is not listed is not gone. Returns what a person
    should know."""
    notices: list[str] = []
    listed: set[str] = set()
    requested = [node for node in registry if node.state is State.REQUESTED and node.site == site]
    for instance in seen.owned:
        listed.add(instance.id)
        node = registry.by_instance(instance.id) or _claim(registry, requested, instance)
        if node is None:
            if instance.state is InstanceState.TERMINATED:
                continue  # ended ones linger in listings for an hour
            node = _found(registry, site, instance, wall)
            node.listed_by = began + grace_s
            known_as = f"taken over as {node.state.value}"
            notices.append(f"{instance.id} carries our tags and was not known: {known_as}")
        _update(registry, node, instance, wall)
    for node in [n for n in registry if n.site == site and n.instance_id and n.instance_id not in listed]:
        _not_listed(registry, node, began, wall)
    return notices


def _claim(registry: Registry, requested: list[Node], instance: Instance) -> Optional[Node]:
    """The requested node of the intent that an instance names by tag or token."""
    for node in requested:
        if node.intent and (instance.intent == node.intent or instance.token.endswith(node.intent)):
            requested.remove(node)
            registry.bind(node, instance.id)
            return node
    return None


def _found(registry: Registry, site: str, instance: Instance, wall: float) -> Node:
    return registry.add(
        Node(
            id=instance.id,
            pool=instance.pool,
            site=site,
            state=FOUND_AS.get(instance.state, State.PENDING),
            flavour=instance.flavour,
            intent=instance.intent,
            instance_id=instance.id,
            reason="found in the cloud",
            since=wall,
            created_at=instance.launched_at or wall,
        )
    )


def _update(registry: Registry, node: Node, instance: Instance, wall: float) -> None:
    """The cloud's word on one node."""
    if instance != node.instance:
        registry.touched[node.id] = node
    node.instance, node.unlisted = instance, 0
    node.addresses = instance.addresses or node.addresses
    node.flavour = node.flavour or instance.flavour
    state, detail = instance.state, instance.state_detail or instance.state.value
    if state is InstanceState.TERMINATED:
        registry.move(node, State.GONE, _why_gone(node, detail), wall)
    elif node.state is State.TERMINATING:
        return
    elif state is InstanceState.SHUTTING_DOWN:
        registry.move(node, State.TERMINATING, f"the cloud is ending it: {detail}", wall)
    elif state in (InstanceState.ERROR, InstanceState.STOPPED, InstanceState.STOPPING):
        if node.seen is None:  # a worker that reports outweighs the cloud's word
            registry.move(node, State.FAILED, f"the cloud says {detail}", wall)
    elif state is InstanceState.PENDING and node.state is State.REQUESTED:
        registry.move(node, State.PENDING, "", wall)
    elif state is InstanceState.RUNNING and node.state in (State.REQUESTED, State.PENDING):
        registry.move(node, State.BOOTING, "", wall)
    elif state is InstanceState.UNKNOWN and node.state in TO_COME:
        node.reason = f"the cloud says {detail}, which is unknown here"


def _why_gone(node: Node, detail: str) -> str:
    return node.reason if node.state is State.TERMINATING else f"the cloud says {detail}"


def _not_listed(registry: Registry, node: Node, began: float, wall: float) -> None:
    """Owned, with an id, and missing in a complete listing."""
    if began < node.listed_by or (node.act_ended is not None and began <= node.act_ended):
        return
    node.unlisted += 1
    alive = node.seen is not None and node.state in JOINED
    if alive or node.unlisted < LISTINGS_BEFORE_GONE:
        return
    reason = node.reason if node.state is State.TERMINATING else "the cloud lists it no more"
    registry.move(node, State.GONE, reason, wall)


# --------------------------------------------------------------------------- the batch system's side


@dataclass(frozen=True)
class Matches:
    """Which workers are which nodes, and which are none of ours."""

    by_node: dict[str, Worker]
    strangers: tuple[Worker, ...]


def match(registry: Registry, workers: Iterable[Worker]) -> Matches:
    """Join workers to live nodes. Where two claim one node, the one that runs something wins: it is
    never wrong to think a machine busy."""
    by_address: dict[str, list[Node]] = {}
    # A recycled address is that of the machine which was launched last, not of one that is being ended.
    for node in sorted(registry, key=lambda n: (n.state is State.TERMINATING, -n.number)):
        for address in node.addresses:
            by_address.setdefault(address, []).append(node)
    by_node: dict[str, Worker] = {}
    strangers: list[Worker] = []
    for worker in workers:
        if worker.instance_id:
            claimed = registry.by_instance(worker.instance_id)
            candidates = [claimed] if claimed else []
        else:
            candidates = [n for a in sorted(worker.addresses) for n in by_address.get(a, ())]
        found = next((n for n in candidates if not _stale(worker, n)), None)
        if found is None:
            strangers.append(worker)
        elif found.id not in by_node or _activity(worker) > _activity(by_node[found.id]):
            by_node[found.id] = worker
    return Matches(by_node, tuple(strangers))


def _activity(worker: Worker) -> int:
    """Orders the ads of one machine: what speaks most against ending it comes last."""
    if worker.jobs or worker.state is WorkerState.BUSY:
        return 3
    return {WorkerState.IDLE: 0, WorkerState.DRAINED: 1}.get(worker.state, 2)


def _stale(worker: Worker, node: Node) -> bool:
    launched = (node.instance.launched_at if node.instance else None) or node.created_at
    return worker.started_at is not None and worker.started_at < launched - CLOCK_SKEW_S


def take_workers(
    registry: Registry,
    seen: Workers,
    settled: bool,
    observed_s: float,
    wall: float,
    explain: dict[str, str],
    head_mark: str,
) -> None:
    """Bring a read of the workers into the registry.

    ``observed_s`` is the time since the last settled read, 0 if anything unsettled lay between: only
    it runs the clocks. ``explain`` says for addresses and names why a worker there may be no node of
    ours. What is positively seen is believed even in an unsettled view; what is missing is not.
    """
    matches = match(registry, seen.workers)
    for node in list(registry):
        worker = matches.by_node.get(node.id)
        if worker is not None:
            _seen(registry, node, worker, observed_s if settled else 0.0, wall, head_mark)
        else:
            _not_seen(registry, node, settled, observed_s, wall)
    _store_clocks(registry)
    ours = {worker.name for worker in matches.by_node.values()}
    registry.ended -= ours
    if settled:
        registry.ended &= {worker.name for worker in seen.workers}
    strangers = [worker for worker in matches.strangers if worker.name not in registry.ended]
    known = {name: stranger for name, stranger in registry.strangers.items() if name not in ours}
    _take_strangers(registry, known, strangers, settled, observed_s, explain)


def _store_clocks(registry: Registry) -> None:
    for node in registry:
        minute = (node.idle_s + node.boot_s + node.lost_s) // STORED_EVERY_S
        if minute != node.clocks_stored:
            node.clocks_stored = minute
            registry.touched[node.id] = node


def _seen(registry: Registry, node: Node, worker: Worker, observed_s: float, wall: float, head_mark: str) -> None:
    before = node.seen
    same = (node.worker, node.jobs, node.job_starts) == (worker.name, worker.jobs, worker.job_starts)
    shrunk = before is None or not same or worker.free != before.free
    node.room_s = 0.0 if shrunk else node.room_s + observed_s
    started = node.job_starts is not None and worker.job_starts not in (None, node.job_starts)
    was_idle = node.state is State.IDLE and same
    if node.worker != worker.name or node.jobs != worker.jobs or node.job_starts != worker.job_starts:
        registry.touched[node.id] = node
    node.seen, node.worker, node.jobs, node.job_starts = worker, worker.name, worker.jobs, worker.job_starts
    node.lost_s = 0.0
    if node.joined_at is None:
        node.joined_at = wall
    # While a worker starts, its slots appear one by one: what it offers is what two reads say alike.
    if before is not None and before.total == worker.total:
        registry.learn(node, worker.total)
    if started or worker.jobs or worker.state is WorkerState.BUSY:
        node.was_busy = True
    if node.state is State.TERMINATING:
        return
    if node.state is State.DRAINING:
        return  # its end or its return is decided by the one who drains
    if worker.state is WorkerState.IDLE:
        node.idle_s = node.idle_s + observed_s if was_idle and not started else 0.0
        registry.move(node, State.IDLE, "" if node.state is State.IDLE else "no job runs on it", wall)
    else:
        node.idle_s = 0.0
        registry.move(node, State.BUSY, _why_busy(worker, head_mark), wall)


def _why_busy(worker: Worker, head_mark: str) -> str:
    if worker.state is WorkerState.BUSY:
        return f"runs {worker.jobs} job{'' if worker.jobs == 1 else 's'}"
    if worker.state in (WorkerState.DRAINING, WorkerState.DRAINED):
        if worker.drained_by and head_mark in worker.drained_by:
            return "still drained by us: it will be returned"
        return f"drained by someone else ({worker.drained_by or 'no reason given'}): left alone"
    return f"not to be used: {worker.detail or worker.state.value}"


def _not_seen(registry: Registry, node: Node, settled: bool, observed_s: float, wall: float) -> None:
    node.seen = None
    if not settled:
        return
    node.room_s = 0.0
    if node.state in (State.PENDING, State.BOOTING):
        node.boot_s += observed_s
    elif node.state in JOINED:
        registry.move(node, State.LOST, "its worker is missing", wall)
        node.lost_s, node.idle_s = 0.0, 0.0
    elif node.state is State.LOST:
        node.lost_s += observed_s


def _take_strangers(
    registry: Registry,
    known: dict[str, Stranger],
    strangers: Iterable[Worker],
    settled: bool,
    observed_s: float,
    explain: dict[str, str],
) -> None:
    now: dict[str, Stranger] = {} if settled else dict(known)
    for worker in strangers:
        before = known.get(worker.name)
        same = before is not None and before.worker.free == worker.free and before.worker.jobs == worker.jobs
        explained = next(
            (explain[x] for x in (worker.name, worker.instance_id or "", *sorted(worker.addresses)) if x in explain), ""
        )
        now[worker.name] = Stranger(
            worker,
            before.number if before else registry.stranger_numbers.get(worker.name) or registry.next_number(),
            explained,
            before.room_s + observed_s if before and same else 0.0,
        )
    registry.strangers = now
