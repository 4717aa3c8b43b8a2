"""Machines that are launched for no job: the minima, and hot spares. Imported where there is a min_vms or min_idle_vms.

Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Collection, Sequence

from elastiq.broker import Orders, empty
from elastiq.interfaces import Offer, Pool
from elastiq.nodes import CAPACITY, IN_SERVICE, TO_COME, State
from elastiq.situation import Situation


def floor(orders: Orders, leaving: Collection[str]) -> None:
    """Raise each pool and the cluster to its minimum, capacity to come counted; not so what will leave, but for what
    stays for want of room for another in its pool."""
    s = orders.s
    there = Counter(pool for pool, _ in (*s.health.unreplaced(s.now), *orders.unasked))
    there.update(node.pool for node in s.registry if node.state in CAPACITY and node.id not in leaving)
    kept = staying(s, leaving)
    for pool in s.settings.pools:
        lacking = pool.min_vms - there[pool.name]
        ordered = _any(orders, [pool], lacking, f"min_vms {pool.min_vms} of pool {pool.name}")
        there[pool.name] += ordered + min(max(0, lacking - ordered), kept[pool.name])
    _any(orders, s.settings.pools, s.settings.min_vms - sum(there.values()), f"min_vms {s.settings.min_vms}")


def staying(s: Situation, leaving: Collection[str]) -> Counter[str]:
    """How many of each pool's machines are to leave, and are kept by the pool's own minimum until another joins. What
    the cloud or a person takes goes all the same."""
    found: Counter[str] = Counter()
    for pool in [pool for pool in s.settings.pools if leaving and pool.min_vms and pool.name not in s.drained]:
        there = [node for node in s.registry if node.pool == pool.name and node.state in IN_SERVICE]
        taken = sum(1 for node in there if node.notice or node.ordered)
        kept = sum(1 for node in there if node.id in leaving) - taken
        found[pool.name] = min(kept, max(0, pool.min_vms - (len(there) - taken - kept)))
    return found


def spares(orders: Orders, leaving: Collection[str]) -> None:
    """Raise each pool to its hot spares: machines, there or to come, that no waiting job will use."""
    s, states = orders.s, TO_COME | {State.IDLE}
    taken = orders.room.needed.union(leaving)  # the others may not come to need it
    there = Counter(node.pool for node in s.registry if node.state in states and node.id not in taken)
    there.update(pool for pool, name in orders.unasked if name not in taken)
    for pool in s.settings.pools:
        lacking = pool.terms.min_idle_vms - there[pool.name]
        _any(orders, [pool], lacking, f"min_idle_vms {pool.terms.min_idle_vms} of pool {pool.name}")


def _any(orders: Orders, pools: Sequence[Pool], lacking: int, reason: str) -> int:
    """Order so many for nobody in particular; how many there may be."""
    ordered = 0
    for pool, offer in orders.offers:
        if ordered >= lacking:
            break
        if pool in pools and (count := orders.launch(offer, pool, lacking - ordered, reason)[0]):
            ordered += count
            add_unasked(orders, pool, offer, count)
    return ordered


def add_unasked(orders: Orders, pool: Pool, offer: Offer, count: int) -> None:
    """So many machines were ordered for no group: their room is for whoever comes."""
    first = len(orders.unasked) + 1
    names = [f"new {offer} ({number})" for number in range(first, first + count)]
    orders.unasked += [(pool.name, name) for name in names]
    orders.room.add(empty(orders.s, pool.name, offer.flavour), names, (pool.name, offer.flavour))
