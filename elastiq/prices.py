"""What is wrong with prices. Imported only for a configuration that has some, or a cap on the cost."""

from __future__ import annotations

from typing import Mapping, Optional

from elastiq.inifile import Problems
from elastiq.interfaces import Pool


def check_prices(quota: Mapping[str, Optional[float]], pools: Mapping[str, Pool], problems: Problems) -> None:
    """A cap is worth nothing where a machine has no price, and allows none where each costs more. ``pools`` are
    by section, those with other mistakes too: of each, only flavours and prices count."""
    flavours = {flavour for pool in pools.values() for flavour in pool.flavours}
    unknown = sorted({name for pool in pools.values() for name in pool.prices} - flavours - {"*"})
    if unknown:
        section = next(name for name, pool in pools.items() if unknown[0] in pool.prices)
        problems.at(section, "price", f"names {', '.join(unknown)}, which is no pool's flavour, write one that is")
    for name, cap in [(name, quota[name]) for name in ("max_cost_per_hour", "max_cost_per_day")]:
        for section, pool in pools.items() if cap is not None else ():
            prices = {flavour: pool.price(flavour) for flavour in pool.flavours}
            unpriced = [flavour or "the cloud's default" for flavour, price in prices.items() if price is None]
            if unpriced:
                problems.at(section, "price", f"is missing for {', '.join(unpriced)}, {name} needs it; set it")
            elif min(price or 0.0 for price in prices.values()) > (cap or 0.0):
                problems.at(section, "price", f"is above {name}, which is {cap:g}: no machine could ever be launched")
