"""Machines that were stopped and can be started again (`idle_action = stop`): as offers, and what ends them.

Pure. Imported where there are some. They count in the quotas like all that is not confirmed gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Sequence

from elastiq.interfaces import Offer, Pool
from elastiq.nodes import Node, Registry, State
from elastiq.situation import Allowance, Launch, Situation, Step, Verdict

if TYPE_CHECKING:
    from elastiq.broker import Orders

MARKET = "stopped"  # of the offers that stopped machines are


def startable(registry: Registry, offer: Offer, now: float) -> list[Node]:
    """The machines of such an offer that the cloud says are stopped, the oldest first."""
    return sorted(
        (
            node
            for node in registry
            if node.is_stopped
            and (node.pool, node.flavour, node.network) == (offer.pool, offer.flavour, offer.network)
            and node.worker is None
            and node.may_act(now)
        ),
        key=lambda node: node.number,
    )


def offers(s: Situation) -> dict[tuple[Pool, Offer], Allowance]:
    """What can be started, and how many of each."""
    kinds = sorted({(n.pool, n.flavour, n.network) for n in s.registry if n.state is State.STOPPED})
    found = {}
    for name, flavour, network in kinds:
        pool, offer = s.settings.pool(name), Offer(name, flavour, network, MARKET)
        nodes = [node for node in startable(s.registry, offer, s.now) if pool and not _spent(s, pool, node)]
        if pool and nodes:
            found[pool, offer] = Allowance(f"stopped machines of {flavour}", len(nodes), counts="")
    return found


def _spent(s: Situation, pool: Pool, node: Node) -> str:
    """Why it is not to be started any more."""
    lifetime_s = pool.terms.max_vm_lifetime_s
    if node.pool in s.drained:
        return f"pool {node.pool} is being drained"
    if pool.outdates(node.build):
        return "made of an image or user data that is no longer configured"
    if lifetime_s and s.wall - node.created_at >= lifetime_s:
        return f"older than max_vm_lifetime_s {lifetime_s:g}"
    return "" if pool.terms.idle_action == "stop" else "idle_action is not stop any more"


def ends(s: Situation, orders: Orders, verdicts: Sequence[Verdict]) -> Iterator[Step]:
    """Stopped machines that are of no use, or take the place of such as are needed now."""
    lacking = any(v.matchable and v.held + v.launching < v.group.waiting for v in verdicts)
    started = {id(node) for order in orders.merged() for node in _started(s, order)}
    for node in s.registry:
        if node.state is not State.STOPPED or node.worker is not None or not node.may_act(s.now):
            continue
        pool = s.settings.pool(node.pool)
        why = _spent(s, pool, node) if pool else f"pool {node.pool} is no longer configured"
        if not why and lacking and id(node) not in started and _is_full(orders, node.pool):
            why = "stopped, and another kind of machine is needed in its place"
        if why and node.site in s.sites:
            yield Step(node, why)


def _is_full(orders: Orders, pool: str) -> bool:
    """Whether nothing more may be there, in the pool or in all."""
    limits = (*orders.budget.of_pool.get(pool, ())[-1:], orders.budget.of_all[0])
    return any(limit.left < 1 for limit in limits)


def _started(s: Situation, order: Launch) -> list[Node]:
    return startable(s.registry, order.offer, s.now)[: order.count] if order.offer.market == MARKET else []
