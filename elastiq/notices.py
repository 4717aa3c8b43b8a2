"""Notices of the cloud that it takes machines back. Imported when there is one."""

from __future__ import annotations

from typing import Iterable

from elastiq.core import Core
from elastiq.interfaces import CapacityError, Offer
from elastiq.nodes import Node
from elastiq.refusals import refused


def take(core: Core, noticed: Iterable[Node]) -> None:
    """Hold back the offers of such machines, and record each, once."""
    for node in [node for node in noticed if not node.warned]:
        node.warned = True
        taken = CapacityError(f"the cloud takes {node.name} back: {node.notice}")
        offer = Offer(node.pool, node.flavour, node.network, node.market)
        refused(core.health, offer, node.site, taken, core.now())
        core.record("notice", node.name, node.pool, node.notice)
