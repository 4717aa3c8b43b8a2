"""Where the cloud and the registry differ: instances that nobody knew, are not listed, are broken or called impaired.

Pure. Imported when there are some.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from elastiq.interfaces import Instance, InstanceState
from elastiq.nodes import JOINED, TO_COME, Node, Registry, State

# A listing may lag behind; so many complete ones in a row without an instance are believed.
LISTINGS_BEFORE_GONE = 3
# What an instance that nobody knew is taken over as; it is no boot of ours.
FOUND_AS = {
    InstanceState.SHUTTING_DOWN: State.TERMINATING,
    InstanceState.RUNNING: State.BOOTING,
    InstanceState.STOPPING: State.FAILED,
    InstanceState.STOPPED: State.FAILED,
    InstanceState.ERROR: State.FAILED,
}


def take_over(registry: Registry, site: str, instance: Instance, listed_by: float, wall: float) -> Node:
    """An instance of ours that was not known, as after a loss of the state. Until ``listed_by`` (monotonic) a listing
    may lack it."""
    state = FOUND_AS.get(instance.state, State.PENDING)
    node = Node(instance.id, instance.pool, site, state, instance.flavour, intent=instance.intent)
    node.instance_id, node.reason, node.listed_by = instance.id, "found in the cloud", listed_by
    node.since, node.created_at = wall, instance.launched_at or wall
    return registry.add(node)


def miss(registry: Registry, missing: Sequence[Node], began: float, wall: float) -> list[str]:
    """Nodes that a complete listing lacks though it should have them: gone, if others say the same. Returns what a
    person should know."""
    alive = [node for node in missing if node.seen is not None and node.state in JOINED]
    if alive:  # such a list proves nothing about the others either
        return [f"the cloud does not list {alive[0].name}, but its worker reports: nothing is taken for gone"]
    for node in missing:
        _not_listed(registry, node, began, wall)
    return []


def _not_listed(registry: Registry, node: Node, began: float, wall: float) -> None:
    if node.act_ended is not None and began <= node.act_ended:
        return
    node.unlisted += 1
    if node.unlisted >= LISTINGS_BEFORE_GONE:
        why = node.reason if node.state is State.TERMINATING else "the cloud lists it no more"
        registry.move(node, State.GONE, why, wall)


def troubled(registry: Registry, node: Node, instance: Instance, began: float, wall: float) -> None:
    """The cloud's word on an instance that neither boots, runs nor ends: ``began`` is the listing's monotonic time."""
    state, detail = instance.state, instance.state_detail or instance.state.value
    if state is InstanceState.UNKNOWN:
        if node.state in TO_COME:
            node.reason = f"the cloud says {detail}, which is unknown here"
        return
    starts = node.was_stopped and node.state is State.PENDING and began < node.listed_by
    if node.state is State.STOPPED or (starts and state is not InstanceState.ERROR):
        return
    if node.seen is None:  # a worker that reports outweighs the cloud's word
        registry.move(node, State.FAILED, f"the cloud says {detail}", wall)


def impaired(registry: Registry, problems: Mapping[str, str], wall: float) -> Iterator[tuple[str, str]]:
    """What to tell of instances that the cloud calls impaired, each with its subject. Those that are no workers have
    failed."""
    for instance_id, problem in problems.items():
        node = registry.by_instance(instance_id)
        if node is not None:
            yield f"problem {instance_id}", f"{instance_id}: the cloud says {problem}"
        if node is not None and node.state in (State.BOOTING, State.LOST) and node.seen is None:
            registry.move(node, State.FAILED, f"the cloud says {problem}", wall)
