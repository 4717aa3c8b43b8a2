"""Nodes that are created for new machines, and deleted after their end.

``qmgr -c "create node NAME ..."`` makes the server know a MOM that has not called yet; it must be able to look its
name up. What qmgr ends with is not the same in all versions, what it says is: "Node name already exists", "Unknown
node" (PBSE_NODEEXIST, PBSE_UNKNODE).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import Instance
from elastiq.plugins.batch import pbs_nodes
from elastiq.plugins.batch.pbs_names import filled
from elastiq.plugins.batch.pbs_rows import Record

if TYPE_CHECKING:
    from elastiq.plugins.batch.pbs import PBS

EXISTS = re.compile(r"already exists", re.IGNORECASE)
UNKNOWN = re.compile(r"unknown node", re.IGNORECASE)
NODE = re.compile(r"[A-Za-z0-9][\w.:-]*(?:\[\w+\])?")
AT_CREATION = frozenset({"mom", "host", "port"})  # cannot be set later


def register(pbs: PBS, instance: Instance) -> None:
    """Create the node of an instance. One of that name from before gets the attributes of the new one, and is opened
    if it is offline for us. Raises `SourceError`."""
    if not pbs.values.get("register", True):
        return
    name = _node(filled(pbs.values["node_name"], instance))
    attributes = [filled(line, instance) for line in pbs.values.get("node_attributes") or ()]
    try:
        _manage(pbs, f"create node {name}", attributes)
    except SourceError as error:
        if not EXISTS.search(str(error)):
            raise
        lasting = [line for line in attributes if line.partition("=")[0].strip().lower() not in AT_CREATION]
        if lasting:
            _manage(pbs, f"set node {name}", lasting)
        nodes = pbs.nodes_of(name.lower())
        if not pbs_nodes.any_up(nodes) and _ours(pbs, nodes):
            pbs.reopen(nodes)
    for former in pbs.addresses.names_of(instance) - {name.lower()}:
        if not in_service(pbs, nodes := pbs.nodes_of(former)):
            _delete(pbs, nodes)
    pbs.addresses.register(name.lower(), instance)


def unregister(pbs: PBS, instance: Instance) -> None:
    """Delete the node that `register` made. Raises `SourceError` while the server still hears of it."""
    if not pbs.values.get("register", True) or not instance.addresses:
        return
    name = _node(filled(pbs.values["node_name"], instance)).lower()
    owner = pbs.addresses.registered(name)
    if owner not in ("", instance.id):
        return
    nodes = pbs.nodes_of(name)
    if not in_service(pbs, nodes):
        _delete(pbs, nodes)
        pbs.addresses.unregister(name)
    elif owner:
        raise SourceError(f"PBS does not know yet that {name} has ended")


def forget(pbs: PBS, worker: str) -> None:
    """Delete the node of a worker that has ended. With ``register = no`` the node stays, and our drain is taken back,
    but not before it is down: a job could be sent to it. Raises `SourceError`."""
    nodes = pbs.nodes_of(worker)
    if in_service(pbs, nodes):
        return
    if pbs.values.get("register", True):
        _delete(pbs, nodes)
    elif pbs_nodes.any_up(nodes):
        raise SourceError(f"PBS does not know yet that {worker} is down: its drain is undone then")
    elif _ours(pbs, nodes):
        pbs.reopen(nodes)


def in_service(pbs: PBS, nodes: Sequence[Record]) -> bool:
    """Whether a MOM is heard there that we have not drained."""
    return pbs_nodes.any_up(nodes) and not _ours(pbs, nodes)


def _ours(pbs: PBS, nodes: Sequence[Record]) -> bool:
    offline = [node for node in nodes if pbs_nodes.OFFLINE in pbs_nodes.states(node)]
    return bool(offline) and len(offline) == len(nodes) and pbs.mark in pbs_nodes.marks(offline)


def _delete(pbs: PBS, nodes: Sequence[Record]) -> None:
    """Natural vnodes last: with its MOM's own vnode the others go."""
    there = [job for node in nodes for job in pbs_nodes.jobs(node)]
    if there:
        raise SourceError(f"the node {nodes[0].name} cannot be deleted while PBS records jobs there ({there[0]})")
    for node in sorted(nodes, key=lambda one: "[" not in one.name):
        try:
            _manage(pbs, f"delete node {_node(node.name)}", ())
        except SourceError as error:
            if not UNKNOWN.search(str(error)):
                raise


def _node(name: str) -> str:
    """It goes into a command of qmgr."""
    if not NODE.fullmatch(name):
        raise SourceError(f"{name!r} is no name of a node")
    return name


def _manage(pbs: PBS, what: str, attributes: Sequence[str]) -> None:
    pairs = (line.partition("=") for line in attributes)
    quoted = ",".join(f'{name.strip()}="{value.strip()}"' for name, _, value in pairs)
    pbs.act("qmgr", "-c", f"{what} {quoted}".strip())
