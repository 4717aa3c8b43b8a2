"""Machines that go for another reason than idleness: the cloud is about to take them, a person drains their pool,
they are too old, or made of what is no longer configured. Imported once there may be some.

Pure.
"""

from __future__ import annotations

import dataclasses

from elastiq.broker import Orders, capacity
from elastiq.interfaces import Offer, Pool, Resources, request_fits
from elastiq.minima import add_unasked
from elastiq.nodes import CAPACITY, TO_COME, Node, State
from elastiq.situation import Situation, Step


def reasons(s: Situation) -> dict[str, str]:
    """By node id: why it is to go. One that only is too old, or outdated, goes when it is idle: what it runs,
    and what starts there meanwhile, is none the worse for it. It waits for a cool-down, as an idle one does."""
    found = {}
    for node in s.registry:
        pool = s.settings.pool(node.pool)
        if node.state not in CAPACITY:
            continue
        if node.notice:
            found[node.id] = f"the cloud is about to take it away: {node.notice}"
        elif node.ordered:
            found[node.id] = node.ordered
        elif node.state in TO_COME and node.site not in s.sites and _is_late(s, node):
            found[node.id] = "it should have joined, and its site does not say what became of it"
        elif node.pool in s.drained:
            found[node.id] = f"pool {node.pool} is being drained"
        elif pool and node.state is State.IDLE and not s.no_drain and (why := _replaced_when_idle(s, pool, node)):
            found[node.id] = why
    return found


def _is_late(s: Situation, node: Node) -> bool:
    """Whether what it was launched for waits for it no longer; it counts against the quotas as before."""
    return s.wall - node.created_at >= s.settings.estimated_vm_deploy_time_s_of(node.pool)


def _replaced_when_idle(s: Situation, pool: Pool, node: Node) -> str:
    lifetime_s = pool.terms.max_vm_lifetime_s
    if lifetime_s and s.wall - node.created_at >= lifetime_s:
        return f"older than max_vm_lifetime_s {lifetime_s:g}"
    return "made of an image or user data that is no longer configured" if pool.outdates(node.build) else ""


def replace(s: Situation, orders: Orders) -> None:
    """Launch another for each machine that runs jobs and is about to be taken: from any other offer. If nothing can be
    launched as it is noticed, as long as it runs them: by then it is being drained."""
    for node in s.registry:
        works = node.state is State.BUSY or (node.state is State.DRAINING and node.runs_something)
        if node.notice and works and not node.replaced:
            _replace(s, orders, node, _in_use(node))


def _replace(s: Situation, orders: Orders, node: Node, holding: Resources) -> None:
    """Launch one that holds as much for a machine that is about to be taken, not from where the cloud takes it."""
    for pool, offer in sorted(orders.offers, key=lambda one: one[0].name != node.pool):
        if offer == Offer(node.pool, node.flavour, node.network, node.market):
            continue
        alike = (pool.name, offer.flavour) == (node.pool, node.flavour)
        if not alike and not request_fits(holding, capacity(s, pool, offer.flavour))[0]:
            continue
        if orders.launch(offer, pool, 1, f"replaces {node.name}, which the cloud is about to take away")[0]:
            orders.made[-1] = dataclasses.replace(orders.made[-1], replaces=(node.id,))
            add_unasked(orders, pool, offer, 1)
            return


def _in_use(node: Node) -> Resources:
    """What its jobs take of it, as far as it is known."""
    return node.seen.total.less(node.seen.free) if node.seen else Resources()


def by_hand(s: Situation) -> list[Step]:
    """Machines that a person takes out of service: at once, whatever the minima are, and with their last jobs. Where
    nothing can be drained, once they are idle."""
    return [
        Step(node, node.ordered, for_good=s.can_drain)
        for node in s.registry
        if node.ordered and node.state in ({State.BUSY, State.IDLE} if s.can_drain else {State.IDLE})
        if node.worker and node.may_act(s.now) and node.site in s.sites
    ]


def last_jobs(s: Situation) -> list[Step]:
    """Machines that are about to be taken, with jobs: no more are to start there."""
    return [
        Step(node, f"the cloud is about to take it away: {node.notice}", for_good=True, taken=True)
        for node in s.registry
        if node.notice and node.state is State.BUSY
        if node.may_act(s.now) and node.site in s.sites
    ]
