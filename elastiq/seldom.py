"""What few plans have to see to: machines that the cloud is about to take, black holes, emptied and stopped ones.

Pure. Imported when there may be one.
"""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

from elastiq import stopped
from elastiq.black_holes import black_holes
from elastiq.broker import Orders
from elastiq.consolidation import Consolidation
from elastiq.leaving import by_hand, last_jobs, replace
from elastiq.packing import Room
from elastiq.situation import Launch, Situation, Step, Verdict


class Seldom:
    """One plan's. ``may_launch`` is False where what is emptied already makes up for a minimum."""

    def __init__(
        self, s: Situation, room: Room, orders: Orders, leaving: Mapping[str, str], may_launch: bool
    ) -> None:
        self._leaving = leaving
        emptied = s.settings.consolidate or any(node.emptied for node in s.registry)
        self._s, self._consolidation = s, Consolidation(s, room, leaving) if emptied else None
        self.may_launch = may_launch and not (self._consolidation and self._consolidation.lacking)
        if self.may_launch:
            replace(s, orders)

    def drains(self, drains: list[Step], launches: Sequence[Launch], verdicts: Iterable[Verdict]) -> list[Step]:
        """The drains of idle machines, as far as they are allowed, and the others."""
        s = self._s
        if not s.no_end:
            for further in (black_holes(s), by_hand(s), last_jobs(s)):
                drains = [*drains, *(step for step in further if step.node not in [one.node for one in drains])]
        if self._consolidation:
            drains = [*self._consolidation.allowed(drains), *self._consolidation.drains(launches, verdicts, drains)]
        return drains

    def ends(self, orders: Orders) -> tuple[Step, ...]:
        """Stopped machines that are of no use."""
        return () if self._s.no_end else tuple(stopped.ends(self._s, orders, self._leaving))

    def returns(self) -> tuple[Step, ...]:
        """Emptied machines that are needed again."""
        return tuple(self._consolidation.returns()) if self._consolidation else ()
