"""Hard stops for launching: machines an hour, cost an hour, cost a day.

Pure. It is imported only where a limit is configured. What already runs is never ended for its cost: a
limit stops launches. The ledger has a clock of its own, which runs with the monotonic one, goes on over
a reboot by the wall clock, and is never set back.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Optional

from elastiq.interfaces import Instance
from elastiq.nodes import Node, Registry
from elastiq.settings import Settings
from elastiq.situation import Allowance
from elastiq.stopped import is_stopped

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
STORED_EVERY_S = 60.0
ENTRY_S = 300.0  # what happens within this time is one entry


class Ledger:
    """The machines asked for, and what all machines cost, over the last day."""

    def __init__(
        self,
        stored: Optional[dict[str, Any]],
        now: float,
        wall: float,
        history: Iterable[tuple[float, str, str, str, str]] = (),
    ) -> None:
        """``history``: the store's lines, for the launches that were made while no ledger was kept."""
        kept = stored or {"clock_s": 0.0, "wall": wall, "monotonic": now, "entries": []}
        # Machines cost while nobody counts: the pause is charged with what runs afterwards.
        self.clock_s: float = kept["clock_s"]
        same_boot = now >= kept["monotonic"]  # then no step of the wall clock matters
        pause_s = now - kept["monotonic"] if same_boot else max(0.0, wall - kept["wall"])
        self._pause_s = min(DAY_S, pause_s)
        self._seen = now
        self._stored_s = -math.inf
        self._found: set[str] = set()
        self.entries: list[list[float]] = [list(entry) for entry in kept["entries"]]  # clock, launches, cost
        since = max(wall - HOUR_S, stored["wall"] if stored else 0.0)
        for at, what, _, _, text in history:
            if what in ("launch", "start") and since < at <= wall:
                self.entries.append([self.clock_s + self._pause_s - (wall - at), int(text.split()[0]), 0.0])

    def is_due(self) -> bool:
        """Whether it should be stored: after a launch, and now and then."""
        return self.clock_s - self._stored_s >= STORED_EVERY_S

    def stored(self, wall: float) -> dict[str, Any]:
        """What the store is to keep."""
        self._stored_s = self.clock_s
        return {"clock_s": self.clock_s, "wall": wall, "monotonic": self._seen, "entries": self.entries}

    def _advance(self, settings: Settings, nodes: Iterable[Node], now: float) -> None:
        """Charge the time since the last call to the machines that are there."""
        passed_s, self._seen, self._pause_s = now - self._seen + self._pause_s, now, 0.0
        self.clock_s += passed_s
        self._add(0, hourly(settings, nodes) * passed_s / HOUR_S)
        while self.entries and self.entries[0][0] < self.clock_s - DAY_S:
            del self.entries[0]

    def launched(self, count: int) -> None:
        """So many machines are about to be asked for."""
        self._add(count, 0.0)
        self._stored_s = -math.inf

    def found(self, instances: Iterable[Instance], wall: float) -> None:
        """Machines of ours that a lost state knew: those launched within the hour count, each once."""
        new = {one.id for one in instances if (one.launched_at or wall) > wall - HOUR_S} - self._found
        self._found |= new
        self._add(len(new), 0.0)

    def _add(self, launches: int, cost: float) -> None:
        if not launches and not cost:
            return
        if not self.entries or self.entries[-1][0] < self.clock_s - ENTRY_S:
            self.entries.append([self.clock_s, 0, 0.0])
        self.entries[-1][1] += launches
        self.entries[-1][2] += cost

    def allowances(self, settings: Settings, registry: Registry, now: float) -> tuple[Allowance, ...]:
        """How much more may be launched under each limit that is set; ``now`` is monotonic."""
        self._advance(settings, registry, now)
        most, by_hour, by_day = settings.max_launches_per_hour, settings.max_cost_per_hour, settings.max_cost_per_day
        found, running, least = [], hourly(settings, registry), cheapest(settings)
        if most is not None:
            asked = sum(entry[1] for entry in self.entries if entry[0] > self.clock_s - HOUR_S - ENTRY_S)
            found.append(Allowance(f"max_launches_per_hour {most}", most - asked, asked, "asked for"))
        if by_hour is not None:
            left = by_hour - running
            found.append(Allowance(f"max_cost_per_hour {by_hour:g}", left, running, "an hour", True, least))
        if by_day is not None:
            # A machine is launched only if the day can pay for another hour of all of them.
            spent = sum(entry[2] for entry in self.entries) + running
            text = "in the last 24 hours and the next one"
            found.append(Allowance(f"max_cost_per_day {by_day:g}", by_day - spent, spent, text, True, least))
        return tuple(found)


def cheapest(settings: Settings) -> float:
    """The price of one more machine at least."""
    prices = [pool.price(one.flavour, one.market) for pool in settings.pools for one in pool.offers()]
    return min((price for price in prices if price is not None), default=0.0)


def hourly(settings: Settings, nodes: Iterable[Node]) -> float:
    """What these machines cost an hour. One of a pool or flavour without a price is taken for the dearest."""
    prices = [price for pool in settings.pools for price in pool.prices.values()]
    dearest = max(prices, default=0.0)
    known = {pool.name: pool for pool in settings.pools}

    def price(node: Node) -> float:
        found = known[node.pool].price(node.flavour, node.market) if node.pool in known else None
        return dearest if found is None else found

    return sum(price(node) for node in nodes if not is_stopped(node))
