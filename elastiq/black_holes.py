"""Machines that end jobs far faster than their peers, or claim and lose them. Imported once one is suspected.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastiq.health import REPLACED_EVERY_S, Health
from elastiq.nodes import BLACK_HOLE_STARTS_PER_H, IN_SERVICE, Node
from elastiq.situation import Situation, Step

if TYPE_CHECKING:
    from elastiq.core import Core

PEERS = 3  # with fewer machines, none can be said to be unlike the others
BLACK_HOLE_TIMES = 20.0  # so many times as often as on the usual machine of its pool


def black_holes(s: Situation) -> list[Step]:
    """Machines on which jobs start far more often than on their peers: they end at once there, or are
    claimed and lost. To be drained for good, without an eviction."""
    steps: list[Step] = []
    by_pool: dict[str, list[Node]] = {}
    for node in s.registry:
        if node.state in IN_SERVICE and node.worker and node.was_busy:
            by_pool.setdefault(node.pool, []).append(node)
    for nodes in by_pool.values():
        paces = sorted(node.starts_per_h for node in nodes)
        usual = paces[(len(paces) - 1) // 2]  # of machines as of all others, half are slower
        for node in nodes if len(nodes) >= PEERS else ():
            if node.starts_per_h >= max(BLACK_HOLE_STARTS_PER_H, BLACK_HOLE_TIMES * usual) or node.condemned:
                if node.may_act(s.now) and node.site in s.sites:
                    why = f"black hole: {node.starts_per_h:.0f} jobs an hour start on a core, {usual:.0f} on its peers'"
                    steps.append(Step(node, node.condemned or why, for_good=True))
    return steps


def going(core: Core, step: Step) -> None:
    """A black hole is about to be drained for good: tell of it, and mark it if it may be."""
    node = step.node
    core.tell(f"black hole {node.name}", f"{step.reason}: drained for good where elastiq may drain")
    if node.worker is not None and core.batch.can_drain and not core.off("terminate") and not node.condemned:
        condemn(core.health, node.pool, node.flavour, core.now())
        node.condemned = step.reason


def condemn(health: Health, pool: str, flavour: str, now: float) -> None:
    """A black hole goes out of service. One of a pool is replaced at once, the next an hour later."""
    before = [entry for entry in health.replacements.get(pool, ()) if entry[0] > now - REPLACED_EVERY_S]
    at = max(now, before[-1][0] + REPLACED_EVERY_S) if before else now
    health.replacements[pool] = [*before, (at, flavour)]
