"""Stopping idle machines instead of ending them, and starting them again (`idle_action = stop`).

Imported where a pool asks for it. A machine is stopped as it would be ended: drained, looked at again, asked for
until the cloud confirms it. One that cannot be stopped is ended.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Mapping, Sequence

from elastiq import refusals
from elastiq.core import Core
from elastiq.executor import Outcome, UnsentError
from elastiq.failed_drains import in_service
from elastiq.health import Block
from elastiq.interfaces import (
    AuthError,
    CapacityError,
    EndAnswer,
    EndOutcome,
    InstanceState,
    LaunchError,
    QuotaError,
    ThrottledError,
    UnsupportedError,
)
from elastiq.nodes import Node, State
from elastiq.situation import Launch, Step
from elastiq.stopped import startable

if TYPE_CHECKING:
    from elastiq.ending import Ending
    from elastiq.launching import Launching

RETRY_S = 30.0
LONGEST_STOP_S = 1800.0  # EC2's take some minutes at most, or do not end by themselves
PAUSE_S = 60.0  # after a machine could not be started
# What refuses a start without a fault of the machine's own.
OF_THE_CLOUD = (CapacityError, QuotaError, ThrottledError, AuthError, UnsentError)


def keeps(core: Core, node: Node) -> bool:
    """Whether an idle machine that is out of service is to be stopped, and not ended."""
    pool = core.settings.pool(node.pool)
    if pool is None or pool.terms.idle_action != "stop" or node.pool in core.drained:
        return False
    if pool.outdates(node.build) or node.for_good or node.unstoppable:
        return False
    lifetime_s = pool.terms.max_vm_lifetime_s
    if lifetime_s and core.wall() - node.created_at >= lifetime_s:
        return False
    return node.market != "spot" and core.clouds[node.site].capabilities.stop


# --------------------------------------------------------------------------- stop


def stop_some(ending: Ending, steps: Sequence[Step]) -> list[Step]:
    """Stop what is to be started again; returns the rest."""
    kept = [step.node for step in steps if step.node.state is State.DRAINING and keeps(ending.core, step.node)]
    if kept:
        stop(ending, kept)
    return [step for step in steps if step.node not in kept]


def stop(ending: Ending, nodes: Sequence[Node]) -> None:
    """From here on it is asked for until the cloud confirms it."""
    core = ending.core
    for node in nodes:
        node.was_stopped, node.ran_since = False, node.seen.started_at if node.seen else None
        core.registry.move(node, State.STOPPED, f"{node.reason}: stopped", core.wall())
        core.health.times["end"] = core.now()
    core.persist()
    _ask(ending, nodes)


def _ask(ending: Ending, nodes: Sequence[Node]) -> None:
    core = ending.core
    for site, cloud in core.clouds.items():
        here = {node.instance_id: node for node in nodes if node.instance_id and node.site == site}
        if not here:
            continue
        for node in here.values():
            node.acting = True
        core.count("stops_asked", len(here))
        call, answered = partial(cloud.stop, list(here)), partial(_stopped, ending, here)
        core.act_on_cloud(site, "stop", call, answered, partial(ending.still, list(here.values())))


def _stopped(ending: Ending, asked: Mapping[str, Node], outcome: Outcome[Mapping[str, EndAnswer]]) -> None:
    core, cannot = ending.core, isinstance(outcome.error, UnsupportedError)
    for name, node in asked.items():
        answer = (outcome.value or {}).get(name)
        node.acting, node.act_ended = False, outcome.ended
        ending.later(node)
        if answer is not None and answer.outcome is EndOutcome.ENDING:
            node.failures, node.retry_at = 0, core.now() + RETRY_S
        elif node.state is not State.STOPPED or _is_down(node):
            continue  # it was settled otherwise in the meantime
        elif cannot or (answer is not None and answer.outcome is EndOutcome.FAILED):
            detail = answer.detail if answer else core.explain(outcome.error)
            node.unstoppable, node.failures, node.retry_at = True, 0, core.now()
            core.tell_once(f"stop {node.id}", f"{node.name} cannot be stopped ({detail}): ended instead")
            core.registry.move(node, State.DRAINING, node.reason, core.wall())
        elif answer is None:
            core.tell_once(f"stop {node.id}", f"stop {node.name}: {core.explain(outcome.error)}: asked again")


def _is_down(node: Node) -> bool:
    down = (InstanceState.STOPPING, InstanceState.STOPPED)
    return node.instance is not None and node.instance.state in down


def look(ending: Ending, began: float, sites: frozenset[str]) -> None:
    """A settled read of the workers came back: go on with what is stopped. ``began`` is its monotonic time."""
    core, still_up = ending.core, []
    for node in [node for node in core.registry if node.state is State.STOPPED]:
        if node.site not in sites or node.instance is None or node.acting:
            continue
        there, came_back = node.instance.state, node.was_stopped and node.seen is not None and _is_another(node)
        if came_back:
            in_service(core, node, "it was started, and its worker reports")
        elif there is InstanceState.STOPPED:
            _confirmed(ending, node)
        elif there is InstanceState.ERROR and node.seen is None and node.worker is not None:
            core.registry.move(node, State.FAILED, "the cloud says error", core.wall())
        elif there is InstanceState.STOPPING and not node.was_stopped:
            _hangs(core, node)
        elif node.was_stopped and there in (InstanceState.PENDING, InstanceState.RUNNING):
            _boots(core, node, "started by someone else")
        elif there is InstanceState.RUNNING and node.may_act(core.now()) and began >= (node.act_ended or 0.0):
            if node.seen is None or ending.out_of_service(node):
                still_up.append(node)
            else:
                in_service(core, node, "it runs again, and takes jobs")
    if still_up and not (core.off("terminate") or ending.no_end()):
        _ask(ending, still_up)


def _hangs(core: Core, node: Node) -> None:
    """A stop that does not come to an end for very long: it is ended instead."""
    node.act_ended = core.now() if node.act_ended is None else node.act_ended
    stopping_s = core.now() - node.act_ended
    if stopping_s >= LONGEST_STOP_S and node.seen is None:
        core.registry.move(node, State.FAILED, f"it has been stopping for {stopping_s:.0f} s", core.wall())


def _is_another(node: Node) -> bool:
    """Whether the worker that reports was started after the one that was stopped."""
    at = node.seen.started_at if node.seen else None
    return at is not None and node.ran_since is not None and at > node.ran_since


def _confirmed(ending: Ending, node: Node) -> None:
    """The cloud says that it is stopped: what the batch system still holds of its worker is of the past."""
    if node.runs_something:
        return  # a worker that reports outweighs the cloud's word
    core = ending.core
    if not node.was_stopped:
        node.was_stopped, node.failures, node.retry_at = True, 0, 0.0
        core.registry.touched[node.id] = node
    if node.worker is not None:
        ending.forget(node)
        core.registry.ended.add(node.worker)  # its ad may outlive it for a while, and is no stranger's
        node.worker, node.joined_at, core.registry.touched[node.id] = None, None, node
    if node.ran_since is not None:  # else its ad cannot be told from its next one: it is waited for that it goes
        node.seen = None


# --------------------------------------------------------------------------- start


def _boots(core: Core, node: Node, reason: str) -> None:
    """Let its clocks begin anew."""
    node.boot_s = node.idle_s = node.room_s = node.lost_s = 0.0
    node.watched = node.was_busy = False
    node.job_starts, node.jobs, node.starts_per_h = None, 0, 0.0
    node.emptied, node.act_ended = {}, None
    node.listed_by = core.now() + core.settings.intent_settle_s
    core.registry.move(node, State.PENDING, reason, core.wall())


def start(launching: Launching, order: Launch) -> bool:
    """Start stopped machines of an order; stored first. False if nothing was asked for."""
    core, pool = launching.core, launching.core.settings.pool(order.offer.pool)
    found = startable(core.registry, core.settings, core.drained, order.offer, core.now(), core.wall())
    nodes = found[: order.count]
    if off := core.off("launch"):
        core.tell_once(f"dry run {order.offer}", f"{off}: would start {order.count} of {order.offer}")
    if not nodes or pool is None or off:
        return False
    taken = [core.registry.nodes[name] for name in order.replaces]
    for number, node in enumerate(nodes):
        _boots(core, node, f"started again: {order.reason}")
        node.groups = {key: (jobs + number) // len(nodes) for key, jobs in sorted(order.groups.items())}
    for node in taken:
        node.replaced, core.registry.touched[node.id] = True, node
    core.persist()
    if core.store_broken:
        for node in nodes:
            core.registry.move(node, State.STOPPED, "could not be stored", core.wall())
        for node in taken:
            node.replaced = False
        return False
    core.health.times["launch"] = core.now()
    core.record("start", nodes[0].name, pool.name, f"{len(nodes)} of {order.offer}: {order.reason}")
    if core.ledger is not None:
        core.ledger.launched(len(nodes))
        core.persist()
    for node in nodes:
        node.acting = True
    core.count("starts_asked", len(nodes))
    ids = [node.instance_id or "" for node in nodes]
    call = partial(core.clouds[pool.site].start, ids)
    core.act_on_cloud(pool.site, f"start {ids[0]}", call, partial(_started, launching, order, nodes))
    return True


def _started(
    launching: Launching, order: Launch, nodes: Sequence[Node], outcome: Outcome[Mapping[str, EndAnswer]]
) -> None:
    core, error = launching.core, outcome.error
    for node in nodes:
        node.acting, node.act_ended = False, outcome.ended
    if isinstance(error, UnsentError) or (isinstance(error, LaunchError) and error.launched_nothing):
        refusals.refused(core.health, order.offer, nodes[0].site, error, core.now())
        _not_started(core, nodes, core.explain(error), not isinstance(error, OF_THE_CLOUD))
    elif error is not None:  # the listings will tell
        text, pool = core.explain(error), order.offer.pool
        core.say("start_unknown", f"start of {order.offer}: {text}", logging.WARNING, pool=pool, reason=text)
    else:
        _answered(launching, order, nodes, outcome.value or {})
    launching.replan()


def _answered(launching: Launching, order: Launch, nodes: Sequence[Node], answers: Mapping[str, EndAnswer]) -> None:
    core = launching.core
    refused = [n for n in nodes if answers.get(n.instance_id or "", _UNKNOWN).outcome is not EndOutcome.ENDING]
    if refused:
        detail = answers.get(refused[0].instance_id or "", _UNKNOWN).detail
        core.health.blocks[f"offer {order.offer}"] = Block(core.now() + PAUSE_S, PAUSE_S, detail)
        _not_started(core, refused, detail, its_own=True)
    else:
        core.health.launched(order.offer, nodes[0].site)


_UNKNOWN = EndAnswer(EndOutcome.FAILED, "the cloud's answer does not name it")


def _not_started(core: Core, nodes: Sequence[Node], why: str, its_own: bool) -> None:
    """``its_own``: the machines themselves may be at fault, and are not tried for ever."""
    for node in [node for node in nodes if node.state is State.PENDING]:
        node.failures += its_own
        core.registry.move(node, State.STOPPED, f"could not be started: {why}", core.wall())
    core.tell_once(f"start {nodes[0].id}", f"{nodes[0].name} could not be started: {why}")
