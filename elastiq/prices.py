"""What is wrong with prices. Imported only for a configuration that has some, or a cap on the cost."""

from __future__ import annotations

from typing import Mapping, Optional

from elastiq.inifile import Problems
from elastiq.interfaces import Pool
from elastiq.rare_values import MARKETS


def check_prices(quota: Mapping[str, Optional[float]], pools: Mapping[str, Pool], problems: Problems) -> None:
    """A cap is worth nothing where a machine has no price, and allows none where each costs more. ``pools`` are
    by section, those with other mistakes too: of each, only flavours and prices count."""
    flavours = {flavour for pool in pools.values() for flavour in pool.flavours}
    known = flavours | {f"{flavour}/{market}" for flavour in (*flavours, "*") for market in MARKETS} | {"*"}
    unknown = sorted({name for pool in pools.values() for name in pool.prices} - known)
    if unknown:
        section = next(name for name, pool in pools.items() if unknown[0] in pool.prices)
        problems.at(section, "price", f"names {', '.join(unknown)}, which is no pool's flavour, write one that is")
    for name, cap in [(name, quota[name]) for name in ("max_cost_per_hour", "max_cost_per_day")]:
        for section, pool in pools.items() if cap is not None else ():
            prices = [(offer.flavour, pool.price(offer.flavour, offer.market)) for offer in pool.offers()]
            unpriced = {flavour or "the cloud's default": None for flavour, price in prices if price is None}
            if unpriced:
                problems.at(section, "price", f"is missing for {', '.join(unpriced)}, {name} needs it; set it")
            elif min(price or 0.0 for _, price in prices) > (cap or 0.0):
                problems.at(section, "price", f"is above {name}, which is {cap:g}: no machine could ever be launched")
