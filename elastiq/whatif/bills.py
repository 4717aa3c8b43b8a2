"""What the machines of a simulation cost."""

from __future__ import annotations

import math
from typing import Optional

from elastiq.settings import Settings
from elastiq.simulation.model import Machine
from elastiq.whatif.terms import Assumed

_EPSILON = 1e-6  # of a unit: sums of times are not exact


class Bills:
    """Told of each machine from when on it is paid for, and for how long it was."""

    def __init__(self, settings: Settings, assumed: Assumed) -> None:
        self._settings, self._assumed = settings, assumed
        self.billed_s = self.cost = 0.0  # of machines that are paid for no more, in whole units
        self.rate = 0.0  # the price of an hour of all that are billed now
        self.priced = True  # of all of them a price is known

    def price(self, machine: Machine) -> Optional[float]:
        """Of an hour: as assumed, else as the pool says it."""
        price = self._assumed.prices.get((machine.pool, machine.flavour))
        pool = self._settings.pool(machine.pool)
        return pool.price(machine.flavour, machine.market) if price is None and pool is not None else price

    def begin(self, machine: Machine) -> None:
        price = self.price(machine)
        self.priced = self.priced and price is not None
        self.rate += price or 0.0

    def end(self, machine: Machine, seconds: float) -> float:
        """Returns what is paid for time that was not used any more: the rest of a unit."""
        price, billed = self.price(machine) or 0.0, self._whole(seconds)
        self.billed_s += billed
        self.cost += billed / 3600.0 * price
        self.rate -= price
        return (billed - seconds) / 3600.0 * price

    def _whole(self, seconds: float) -> float:
        unit = self._assumed.billed_s
        return math.ceil(seconds / unit - _EPSILON) * unit if unit > 0 else seconds
