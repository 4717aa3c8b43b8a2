"""Node records of machines that come and go: predeclared ones that are given to an instance, and dynamic ones that make
themselves.

A predeclared node without a machine is down, with a reason that says so: Slurm then sends it no job, and keeps the
state over a restart. A node that is an instance's has that in its comment, which outlives its registration (the
reason does not) and a restart of slurmctld. While it waits for its machine it is down too: it comes into service when
its slurmd registers (ReturnToService=2).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Iterable, Optional

from elastiq.errors import SourceError
from elastiq.interfaces import Instance
from elastiq.plugins.batch import slurm_nodes as nodes
from elastiq.plugins.batch.slurm_records import Node
from elastiq.plugins.batch.tools import failed

if TYPE_CHECKING:
    from elastiq.plugins.batch.slurm import Slurm

# Of a node without a machine: routed nowhere (RFC 5737). A name would do no better: slurmctld waits for a resolver.
NOWHERE = "192.0.2.1"
GONE = "Invalid node name specified"


def register(slurm: Slurm, instance: Instance) -> None:
    """Give it a node. Raises `SourceError`, also if no node is free."""
    address = _address(instance)
    with slurm.source.changing:
        found = nodes.by_name(slurm.source.all_nodes())
        names = [*slurm.own_nodes.get(instance.pool.lower(), ()), *slurm.own_nodes.get("", ())]
        there = [found[name] for name in names if name in found]
        own = next((node for node in there if _bound_to(slurm, node) == instance.id), None)
        node = own or _free(slurm, there, address)
        if node is None:
            missing = f", of which Slurm shows {len(there)} (PrivateData=cloud?)" if len(there) < len(names) else ""
            text = f"no node is free for {instance.id} of pool {instance.pool}: `predeclared_nodes` names {len(names)}"
            raise SourceError(f"{text}{missing}")
        comment = f"comment=elastiq {slurm.mark} {instance.id}"
        place = (f"nodename={node.name}", f"nodeaddr={address}", f"nodehostname={node.name}")
        if in_service(slurm, node):
            if own is None or node.address != address:
                slurm.act("update", *place, comment)
        elif own is None or node.address != address or not node.down:
            slurm.act("update", *place, "state=down", f"reason=elastiq {slurm.mark}: waits for {instance.id}", comment)


def _address(instance: Instance) -> str:
    """By which slurmctld reaches it: a private IPv4 one, if there is."""
    texts = sorted(instance.addresses, key=lambda text: (":" in text, not ipaddress.ip_address(text).is_private, text))
    if not texts:
        raise SourceError(f"{instance.id} has no address yet")
    return texts[0]


def _free(slurm: Slurm, there: Iterable[Node], address: str) -> Optional[Node]:
    """A node that has this address, of a machine that is no more or of this one; else the first that has no machine."""
    free = None
    for node in there:
        if node.address == address:
            return node
        if free is None and not _bound_to(slurm, node) and _has_none(node):
            free = node
    return free


def _has_none(node: Node) -> bool:
    """Without a machine: for future use, powered off, marked so, or as it came from slurm.conf."""
    if node.base == "FUTURE" or "POWERED_DOWN" in node.flags or node.reason.startswith(nodes.NO_MACHINE):
        return True
    return node.started_at is None and not node.reason and not node.used_cpus and "DRAIN" not in node.flags


def _bound_to(slurm: Slurm, node: Node) -> str:
    """The instance that a node is given to; of another elastiq's, a text that is none of ours."""
    return nodes.bound_to(node, slurm.mark) or ("somebody else's" if node.comment.startswith("elastiq ") else "")


def unregister(slurm: Slurm, instance: Instance) -> None:
    """Put back what was given to it, or what made itself known from its address. Raises `SourceError`, also while Slurm
    has not noticed that the machine is gone."""
    with slurm.source.changing:
        for node in slurm.source.all_nodes():
            bound = _bound_to(slurm, node)
            if bound == instance.id:
                if in_service(slurm, node):
                    raise still_there(node)
                put_back(slurm, node)
            elif not bound and nodes.addresses(node) & instance.addresses and not in_service(slurm, node):
                put_back(slurm, node)


def forget(slurm: Slurm, worker: str) -> None:
    """Put the node back, unless it is in service. Raises `SourceError`."""
    with slurm.source.changing:
        node = nodes.find(slurm.source.all_nodes(), worker)
        if node is None:
            return
        if in_service(slurm, node):
            raise still_there(node)
        put_back(slurm, node)


def in_service(slurm: Slurm, node: Node) -> bool:
    """Whether jobs run there, or may start, as far as Slurm has noticed. What we drained takes none."""
    if node.down or node.base in ("FUTURE", "UNKNOWN") or node.flags & {"NOT_RESPONDING", "POWERED_DOWN"}:
        return False
    drained = "DRAIN" in node.flags and slurm.mark in node.reason and not nodes.occupied(node)
    return node.started_at is not None and not drained


def still_there(node: Node) -> SourceError:
    return SourceError(
        f"Slurm has node {node.name} in service still ({node.words}): its record stays until it has noticed"
    )


def put_back(slurm: Slurm, node: Node) -> None:
    """What the record is without a machine. Others' nodes are left alone."""
    if "DYNAMIC_NORM" in node.flags:
        if nodes.occupied(node) and not node.down:  # what does not answer, and has jobs: slurmctld waits for them
            slurm.act("update", f"nodename={node.name}", "state=down", f"reason={slurm.reason}: its machine has ended")
        delete(slurm, node.name)
    elif any(node.name in names for names in slurm.own_nodes.values()):
        if node.base == "FUTURE" or (node.down and not node.comment and node.reason == nodes.NO_MACHINE):
            return
        place = (f"nodename={node.name}", f"nodeaddr={NOWHERE}", f"nodehostname={node.name}")
        if "DRAIN" in node.flags:  # else its next machine came up drained. It does not respond, so it gets no job
            slurm.act("update", *place, "state=undrain")
        slurm.act("update", *place, "state=down", f"reason={nodes.NO_MACHINE}", "comment=")


def delete(slurm: Slurm, name: str) -> None:
    """The record of a dynamic node. Of a configured one it would be deleted as well (22.05): never ask that."""
    argv = ("scontrol", "delete", f"nodename={name}")
    result = slurm.source.run(*argv)
    if result.returncode != 0 and GONE not in result.complaint:
        raise failed(result, argv)
