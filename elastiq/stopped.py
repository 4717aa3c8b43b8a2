"""Machines that were stopped and can be started again (`idle_action = stop`): as offers, and what ends them.

Pure. Imported where there are some. They count in the quotas like all that is not confirmed gone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, AbstractSet, Collection, Iterator, Optional, Sequence

from elastiq.interfaces import InstanceState, JobGroup, Offer, Pool
from elastiq.nodes import CAPACITY, Node, Registry, State
from elastiq.settings import Settings
from elastiq.situation import Allowance, Launch, Situation, Step

if TYPE_CHECKING:
    from elastiq.broker import Orders

MARKET = "stopped"  # of the offers that stopped machines are
STARTS_REFUSED = 3  # for a reason of its own, and a machine is ended


def is_stopped(node: Node) -> bool:
    """Whether the cloud has confirmed that it is stopped: it costs next to nothing, and can be started."""
    there = node.instance is not None and node.instance.state is InstanceState.STOPPED
    return node.state is State.STOPPED and there


def startable(
    registry: Registry, settings: Settings, drained: AbstractSet[str], offer: Offer, now: float, wall: float
) -> list[Node]:
    """The machines of such an offer that can be started now, the oldest first."""
    kind, pool = (offer.pool, offer.flavour, offer.network), settings.pool(offer.pool)
    nodes = [node for node in registry if is_stopped(node) and (node.pool, node.flavour, node.network) == kind]
    # While its last ad is still there, it could not be told from the one that is to come.
    ready = [node for node in nodes if node.worker is None and node.seen is None and node.may_act(now)]
    return sorted((n for n in ready if not _spent(n, pool, drained, wall)), key=lambda node: node.number)


def offers(s: Situation) -> dict[tuple[Pool, Offer], Allowance]:
    """What can be started, and how many of each."""
    kinds = sorted({(n.pool, n.flavour, n.network) for n in s.registry if n.state is State.STOPPED})
    found = {}
    for name, flavour, network in kinds:
        pool, offer = s.settings.pool(name), Offer(name, flavour, network, MARKET)
        nodes = startable(s.registry, s.settings, s.drained, offer, s.now, s.wall)
        if pool and nodes:
            found[pool, offer] = Allowance(f"stopped machines of {flavour or name}", len(nodes), counts="")
    return found


def _spent(node: Node, pool: Optional[Pool], drained: AbstractSet[str], wall: float) -> str:
    """Why it is not to be started any more."""
    if pool is None:
        return f"pool {node.pool} is no longer configured"
    lifetime_s = pool.terms.max_vm_lifetime_s
    if node.pool in drained:
        return f"pool {node.pool} is being drained"
    if pool.outdates(node.build):
        return "made of an image or user data that is no longer configured"
    if lifetime_s and wall - node.created_at >= lifetime_s:
        return f"older than max_vm_lifetime_s {lifetime_s:g}"
    if node.failures >= STARTS_REFUSED:
        return f"could not be started {node.failures} times"
    return "" if pool.terms.idle_action == "stop" else "idle_action is not stop any more"


# --------------------------------------------------------------------------- what ends them


def ends(s: Situation, orders: Orders, leaving: Collection[str] = ()) -> Iterator[Step]:
    """Stopped machines that are of no use, or take the place of such as are needed now."""
    started = {id(node) for order in orders.merged() if order.offer.market == MARKET for node in _started(s, order)}
    making_way = s.registry.count(None, {State.TERMINATING})  # these places become free anyway
    wanted = list(_wanted(orders, leaving))
    for node in sorted(s.registry, key=lambda one: one.number):
        if node.state is not State.STOPPED or node.worker is not None or not node.may_act(s.now):
            continue
        why = _spent(node, s.settings.pool(node.pool), s.drained, s.wall)
        if node.instance is not None and node.instance.state is InstanceState.ERROR:
            why = why or f"the cloud says {node.instance.state_detail or 'error'}"
        if not why and id(node) not in started and is_stopped(node):
            places = sum(count for group, pools, count in wanted if _is_in_the_way(orders, node, group, pools))
            if places > making_way:
                why = "stopped, and another kind of machine is needed in its place"
        if why and node.site in s.sites:
            making_way += 1
            yield Step(node, why)


def _started(s: Situation, order: Launch) -> list[Node]:
    return startable(s.registry, s.settings, s.drained, order.offer, s.now, s.wall)[: order.count]


def _wanted(orders: Orders, leaving: Collection[str]) -> Iterator[tuple[Optional[JobGroup], Sequence[str], int]]:
    """Machines that the plan could not order: for whom, from which pools, how many."""
    new = [(pool, offer) for pool, offer in orders.offers if offer.market != MARKET]
    open_to = [(pool, offer) for pool, offer in new if not orders.obstacle(pool, offer)[0]]
    for group, jobs in [(group, jobs) for group, jobs in orders.unserved if jobs > 0]:
        tried = [one for one in orders.offers_to(group) if one in open_to]
        each = {pool.name: orders.fit(group, pool, offer.flavour)[0] for pool, offer in tried}
        fitting = [name for name, held in each.items() if held]
        if fitting:
            yield group, fitting, -(-jobs * group.nodes // max(each.values()))
    for name, count in _below_minimum(orders, leaving):
        yield None, [pool.name for pool, _ in open_to if pool.name == name], count


def _below_minimum(orders: Orders, leaving: Collection[str]) -> Iterator[tuple[str, int]]:
    """Pools whose minimum this plan does not reach, and by how many machines."""
    s = orders.s
    if s.no_launch or not s.settled:
        return
    ordered = Counter(order.offer.pool for order in orders.merged() for _ in range(order.count))
    for pool in s.settings.pools:
        there = sum(1 for n in s.registry if n.pool == pool.name and n.state in CAPACITY and n.id not in leaving)
        lacking = pool.min_vms - there - ordered[pool.name]
        if lacking > 0:
            yield pool.name, lacking


def _is_in_the_way(orders: Orders, node: Node, group: Optional[JobGroup], pools: Sequence[str]) -> bool:
    """Whether its end makes room for such a machine, and it could not be that machine itself."""
    budget = orders.budget
    of_pool = budget.of_pool[node.pool][-1] if node.pool in pools else budget.of_all[0]
    if not pools or (budget.of_all[0].left >= 1 and of_pool.left >= 1):
        return False
    if group is None:
        return node.pool not in pools
    own = [(pool, offer) for pool, offer in orders.offers_to(group) if offer.pool == node.pool]
    return not any(offer.flavour == node.flavour and orders.fit(group, pool, offer.flavour)[0] for pool, offer in own)
