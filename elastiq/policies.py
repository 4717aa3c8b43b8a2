"""The policies of [broker] other than `cheapest` alone: which offers come first.

Pure. Policies are chained in their order: the first one decides, the next between what it holds equal.
`cheapest` and `least-waste` weigh machines against each other, one by its price, the other by its cores;
`priority` and `balance` make tiers, of which an earlier one is used up before the next one is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable, Mapping, Sequence

from elastiq.interfaces import Offer, Pool
from elastiq.nodes import State
from elastiq.situation import Allowance, Situation

STEPS = 10  # `balance` fills pools by a tenth of their max_vms at a time


@dataclass(frozen=True)
class Tier:
    """Offers that compete. ``caps``: how many machines of a pool may be launched in this tier."""

    offers: Sequence[tuple[Pool, Offer]]
    caps: Mapping[str, Allowance] = field(default_factory=dict)


def in_order(
    s: Situation, offers: Sequence[tuple[Pool, Offer]], cheapest: Callable[[Pool, Offer], tuple[float, float]]
) -> list[tuple[Pool, Offer]]:
    """The offers as the policies prefer them, for machines that any of them could be. ``cheapest`` orders by price."""
    keys: dict[str, Callable[[Pool, Offer], object]] = {
        "cheapest": cheapest,
        "priority": lambda pool, offer: -pool.terms.priority,
        "balance": lambda pool, offer: load(s, pool),
        "least-waste": lambda pool, offer: 0.0,
    }
    return sorted(offers, key=lambda one: tuple(keys[name](*one) for name in s.settings.policy))


def load(s: Situation, pool: Pool) -> float:
    """How full a pool is: its machines by its max_vms, or the cluster's where it has none."""
    most = pool.max_vms or s.settings.max_vms
    return _up(s, pool.name) / most if most else 0.0


def _up(s: Situation, pool: str) -> int:
    """Its machines but for those that are stopped."""
    return s.registry.count(pool) - s.registry.count(pool, {State.STOPPED})


def tiers(s: Situation, offers: Sequence[tuple[Pool, Offer]]) -> list[Tier]:
    """The offers by what has to come first."""
    found = [Tier(offers)]
    for policy in s.settings.policy:
        if policy in ("cheapest", "least-waste"):
            break  # what comes after decides between equal costs only: `in_order` has seen to that
        split = _by_priority if policy == "priority" else _by_load
        found = [part for tier in found for part in split(s, tier)]
    return found


def by_cores(s: Situation) -> bool:
    """Whether machines are weighed by their cores, not by their prices."""
    weighing = [policy for policy in s.settings.policy if policy in ("cheapest", "least-waste")]
    return weighing[:1] == ["least-waste"]


def _by_priority(s: Situation, tier: Tier) -> list[Tier]:
    levels = sorted({pool.terms.priority for pool, _ in tier.offers}, reverse=True)
    return [Tier([one for one in tier.offers if one[0].terms.priority == level], tier.caps) for level in levels]


def _by_load(s: Situation, tier: Tier) -> list[Tier]:
    """Each step lets the pools be so full; the last one lets them be as full as their limits allow."""
    pools = {pool.name: pool for pool, _ in tier.offers}
    if tier.caps or len(pools) < 2:
        return [tier]
    there = {name: _up(s, name) for name in pools}
    found, launched = [], dict.fromkeys(pools, 0)
    for step in range(1, STEPS):
        caps = {}
        for name, pool in pools.items():
            most = pool.max_vms or s.settings.max_vms
            room = math.ceil(most * step / STEPS) - there[name] - launched[name] if most else math.inf
            caps[name] = Allowance(f"the balance of the pools, {step}/{STEPS} of each", max(0, room))
            launched[name] += max(0, int(room)) if room < math.inf else 0
        found.append(Tier(tier.offers, caps))
    return [*found, tier]
