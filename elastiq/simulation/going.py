"""Which machines are to go for another reason than idleness, by the truth of the world.

A part of the `elastiq.simulation.checker`.
"""

from __future__ import annotations

import math
from typing import Iterable

from elastiq.idling import AUTO
from elastiq.settings import Settings
from elastiq.simulation.book import Book
from elastiq.simulation.model import Machine

# A lost state takes the age of a machine from the cloud's clock.
CLOCKS_S = 300.0


class Going:
    """Told by `made` of each machine that a launch of ours makes."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._born: dict[str, tuple[float, float, float]] = {}  # by three clocks, of which the head's wall may step

    def made(self, machines: Iterable[Machine]) -> None:
        world = self._book.world
        for machine in machines:
            self._born[machine.id] = (world.now, world.clock.time(), world.wall)

    def age_s(self, machine: Machine, surely: bool = False) -> float:
        """By the clock that makes it the oldest; ``surely``: by the one that makes it the youngest."""
        world = self._book.world
        born = self._born.get(machine.id)
        if born is None:
            return math.inf
        ages_s = (world.now - born[0], world.clock.time() - born[1], world.clock.time() - born[2])
        return min(ages_s) if surely else max(ages_s)

    def why(self, machine: Machine, settings: Settings, surely: bool = False) -> str:
        """Empty if it is to go only once it is idle for long. One whose time may have come counts, unless ``surely``:
        where the wall clock stepped, the head's and the cloud's differ over the age of a machine."""
        name = self._book.pool_of(machine)
        pool, made_by = settings.pool(name), self._book.made_by.get(machine.id)
        if machine.notice:
            return "the cloud is about to take it"
        if machine.id in self._book.orders.out:
            return "a person takes it out of service"
        if pool is None:
            return ""
        then = made_by.settings.pool(name) if made_by is not None else None
        if then is not None and then.build != pool.build:
            return "made of something else than is configured now"
        lifetime_s = pool.terms.max_vm_lifetime_s
        slack_s = -CLOCKS_S if surely else CLOCKS_S
        return "too old" if lifetime_s and self.age_s(machine, surely) >= lifetime_s - slack_s else ""


def idle_for_s(pool: str, settings: Settings) -> tuple[float, float]:
    """For how long machines of a pool stand idle at the least, and at the most: both the same where it is a number."""
    found = settings.pool(pool)
    own = found.terms.idle_for_time_s if found is not None else None
    limit_s = settings.idle_for_time_s if own is None else own
    if limit_s < AUTO:
        return limit_s, limit_s
    deploy_s = found.terms.estimated_vm_deploy_time_s if found is not None else None
    longest_s = min(settings.estimated_vm_deploy_time_s if deploy_s is None else deploy_s, 3600.0)
    return min(2 * settings.check_queue_every_s, longest_s), longest_s
