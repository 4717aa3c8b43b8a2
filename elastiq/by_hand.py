"""What a person asks for one machine: `elastiqctl drain` and `undrain`; and which machine is meant.

A drained one takes no more jobs and ends when its last one has ended; a plan sees to it, again after a restart.
Where the batch system cannot keep jobs off it, it ends when it is idle.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Mapping

from elastiq.core import Core
from elastiq.names import nearest
from elastiq.nodes import Node, State
from elastiq.pausing import reason_in
from elastiq.protocol import Refused

if TYPE_CHECKING:
    from elastiq.daemon import Daemon

DRAIN = "elastiqctl drain"
NOT_STORED = "the state cannot be written (see elastiqctl status): nothing was changed"


def node_of(core: Core, args: Mapping[str, Any]) -> Node:
    """The one node of that id, instance id or worker, whose first part will do. Raises `Refused`."""
    name = args.get("node")
    if not isinstance(name, str) or not name:
        raise Refused("malformed", '"node" is the name of a node, an instance or a worker')
    found = [node for node in core.registry if name in (node.id, node.instance_id)]
    found = found or [node for node in core.registry if node.worker and name.lower() in _names(node.worker)]
    if len(found) == 1:
        return found[0]
    if found:
        raise Refused("impossible", f"{name} may be any of {', '.join(node.name for node in found)}: nothing was done")
    meant = nearest(name, [text for node in core.registry for text in (node.name, node.worker) if text])
    hint = f"did you mean {meant}?" if meant else "elastiqctl status lists them"
    raise Refused("impossible", f"there is no node or worker `{name[:100]}` of this elastiq: {hint}")


def _names(worker: str) -> tuple[str, str]:
    return worker.lower(), worker.lower().partition(".")[0]


def refuse_if_off(core: Core) -> None:
    """Raises `Refused` where a kill switch or a dry run forbids drains and ends."""
    if off := core.off("terminate"):
        how = " (elastiqctl resume --terminate)" if "terminate" in core.paused else ""
        raise Refused("impossible", f"no machine is drained or ended now: {off}{how}; nothing was done")


def shown(node: Node) -> dict[str, Any]:
    """What is answered of a node."""
    facts: dict[str, Any] = {key: getattr(node, key) for key in ("worker", "pool", "flavour", "jobs", "reason")}
    return {"node": node.name, "state": node.state.value, **facts}


def drain(daemon: Daemon, args: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out ``drain``. Raises `Refused`."""
    core, node, reason = daemon.core, node_of(daemon.core, args), reason_in(args)
    refuse_if_off(core)
    if node.state is State.TERMINATING:
        raise Refused("impossible", f"{node.name} is being ended already: {node.reason}")
    if node.state is State.STOPPED:
        raise Refused("impossible", f"{node.name} is stopped, no job starts there: elastiqctl terminate ends it")
    ordered = f"{DRAIN}: {reason}" if reason else DRAIN
    if node.ordered != ordered:
        before, node.ordered = node.ordered, ordered
        _store(core, node, ordered=before)
        note(core, "drain", node, ordered)
    daemon.plan_soon()
    return {**shown(node), "can_drain": core.batch.can_drain}


def _store(core: Core, node: Node, **before: Any) -> None:
    """Raises `Refused` after taking it back: what is not stored would be forgotten by a restart."""
    if not core.stored(lambda: core.store.save([node])):
        for key, value in before.items():
            setattr(node, key, value)
        raise Refused("impossible", NOT_STORED)


def note(core: Core, verb: str, node: Node, reason: str) -> None:
    """For the history and the log."""
    core.record(verb, node.name, node.pool, reason)
    facts = {"verb": verb, "node": node.name, "pool": node.pool, "reason": reason}
    core.say("command", f"{node.name}: {reason}", logging.WARNING, **facts)


def undrain(daemon: Daemon, args: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out ``undrain``: of what a person drained, or elastiq as a black hole. Raises `Refused`."""
    core, node = daemon.core, node_of(daemon.core, args)
    if node.state in (State.TERMINATING, State.FAILED):
        raise Refused("impossible", f"{node.name} is being ended ({node.reason}): that cannot be undone")
    if not (node.ordered or node.condemned):
        itself = node.state is State.DRAINING
        why = f"elastiq drains it itself ({node.reason})" if itself else f"it is {node.state.value}, and not drained"
        raise Refused("impossible", f"{node.name}: {why}: nothing was done")
    before = {"ordered": node.ordered, "condemned": node.condemned}
    node.ordered, node.condemned = "", ""
    _store(core, node, **before)
    note(core, "undrain", node, "elastiqctl undrain")
    node.starts_per_h = 0.0  # it is no black hole, a person says
    core.tell(f"black hole {node.name}", "")
    if node.state is State.DRAINING:
        daemon.observer.ending.back(node, "elastiqctl undrain")
    daemon.plan_soon()
    return shown(node)
