"""Are the limits of launches and of cost kept? By what a daemon with this state file can know of both.

A part of the `elastiq.simulation.checker`.
"""

from __future__ import annotations

from collections import deque
from typing import Callable, Iterable

from elastiq.settings import Settings
from elastiq.simulation.book import Book
from elastiq.simulation.model import Machine
from elastiq.simulation.statefile import StateFile
from elastiq.simulation.witness import Record

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
BUCKET_S = 60.0
# A daemon charges at each plan what is there then, and forgets by pieces of some minutes.
FORGETS_S = 900.0
UNCHARGED_H = 0.1  # of a machine, at its end


class HardStops:
    """``counts``: whether a daemon is there that can count what its machines cost."""

    def __init__(self, book: Book, state: StateFile, settings: Callable[[], Settings]) -> None:
        self._book, self._state, self._settings = book, state, settings
        self.starts: list[Record] = []  # of machines that were stopped
        self.counts: Callable[[], bool] = lambda: True
        self._spent: deque[list[float]] = deque()  # until when, how much
        self._since = self._hourly = 0.0

    def lost(self) -> None:
        """The state file that knew of all this was lost."""
        self._spent.clear()

    def changed(self) -> None:
        """The world changed, or a daemon came or went."""
        now, settings = self._book.world.now, self._settings()
        if self._hourly and now > self._since:
            if not self._spent or self._spent[-1][0] < now - BUCKET_S:
                self._spent.append([now, 0.0])
            self._spent[-1][1] += self._hourly * (now - self._since) / HOUR_S
        self._since, self._hourly = now, 0.0
        if settings.max_cost_per_day is not None and self.counts():
            self._hourly = sum(self._prices(settings, self._book.known_machines()))

    def spent(self) -> float:
        """At least so much in the last day, as far as somebody counted."""
        begin = self._book.world.now - DAY_S + FORGETS_S
        while self._spent and self._spent[0][0] < begin:
            self._spent.popleft()
        return sum(cost for _, cost in self._spent)

    def unsure(self, settings: Settings) -> float:
        """By how much what a daemon has charged in a day may be off."""
        since = self._book.world.now - DAY_S
        return dearest(settings) * (0.2 + UNCHARGED_H * sum(at > since for at in self._book.born.values()))

    def passed(self, record: Record, pool: str, flavour: str, count: int, known: Iterable[Machine]) -> str:
        """Which limit is passed by so many machines that are launched or started, empty if none."""
        settings, most = record.settings, record.settings.max_launches_per_hour
        if most is not None:
            since = max(record.decided_s - HOUR_S, self._book.store_since)
            asked = sum(one.args[0].count for one in self._book.intents.values() if self._counted(one, since))
            asked += sum(len(one.args[0]) for one in self.starts if self._counted(one, since))
            if asked > most:
                return f"{asked} machines asked for within an hour: max_launches_per_hour {most}"
        cost = sum(self._prices(settings, known)) + count * _price(settings, pool, flavour)
        if settings.max_cost_per_hour is not None and cost > settings.max_cost_per_hour + 1e-6:
            return f"{cost:g} an hour after this launch: max_cost_per_hour {settings.max_cost_per_hour:g}"
        if settings.max_cost_per_day is not None:
            self.changed()
            spent = self.spent()
            if spent + cost > settings.max_cost_per_day + self.unsure(settings):
                text = f"{spent:.2f} spent in a day, {cost:.2f} in the next hour with this launch"
                return f"{text}: max_cost_per_day {settings.max_cost_per_day:g}"
        return ""

    def _counted(self, launch: Record, since: float) -> bool:
        """Whether it was decided since then, and the state file knows of it: in the count that is kept while there is
        a limit, or in the history."""
        limited = launch.settings.max_launches_per_hour is not None
        node = launch.args[0].id if launch.name == "launch" else launch.args[0][0]
        return launch.decided_s > since and (limited or bool(self._state.reason(launch.name, node)))

    def _prices(self, settings: Settings, machines: Iterable[Machine]) -> list[float]:
        """Of those that are not stopped."""
        there = [machine for machine in machines if not machine.down]
        return [_price(settings, self._book.pool_of(machine), machine.flavour) for machine in there]


def dearest(settings: Settings) -> float:
    """The highest price of any machine."""
    return max((price for pool in settings.pools for price in pool.prices.values()), default=0.0)


def _price(settings: Settings, pool: str, flavour: str) -> float:
    """An hour of such a machine; 0 where its pool is configured no more."""
    found = settings.pool(pool)
    return (found.price(flavour) if found is not None else None) or 0.0
