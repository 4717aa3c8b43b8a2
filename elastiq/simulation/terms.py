"""How the pools of a drawn scenario keep their machines: with terms of their own, markets, prices and policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from elastiq.interfaces import Pool
from elastiq.settings import Settings
from elastiq.simulation.chance import Dice
from elastiq.simulation.of_head import with_room

HOUR_S = 3600.0
POLICIES = (
    ("cheapest",),
    ("cheapest",),
    ("priority",),
    ("priority", "cheapest"),
    ("balance",),
    ("balance", "cheapest"),
    ("least-waste",),
)


def with_terms(dice: Dice, s: Settings) -> Settings:
    """Half of the scenarios have pools with own terms."""
    if not dice.happens(0.5):
        return s
    pools = tuple(_with_terms(dice, pool) for pool in s.pools)
    return with_room(replace(s, pools=pools, policy=dice.one_of(POLICIES)))


def _with_terms(dice: Dice, pool: Pool) -> Pool:
    terms: dict[str, Any] = {"priority": float(dice.whole(0, 2))}
    markets = pool.markets
    if dice.happens(0.55):
        terms["idle_action"] = "stop"
    elif dice.happens(0.4):
        markets = dice.one_of((("spot",), ("spot", "on-demand")))
    if dice.happens(0.2):
        terms["min_idle_vms"] = 1
    if dice.happens(0.25):
        terms["max_vm_lifetime_s"] = round(float(0.5 * HOUR_S * 8 ** dice.random()), 1)
    if dice.happens(0.2):
        terms["idle_for_time_s"] = dice.one_of((60.0, 200.0, 500.0))
    prices = pool.prices
    if not prices and dice.happens(0.5):
        prices = {"*": round(dice.between(0.05, 2.0), 2)}
    return replace(pool, terms=replace(pool.terms, **terms), markets=markets, prices=prices, build="image 1")


def stops(s: Settings) -> bool:
    """Whether any pool stops its machines."""
    return any(pool.terms.idle_action == "stop" for pool in s.pools)
