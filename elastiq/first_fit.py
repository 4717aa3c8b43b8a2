"""Machines for many jobs, one want after another: first fit over kinds of machines.

Pure. Machines with equal content are one batch with a count, so that the work grows with the shapes of jobs
and machines and not with their numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Iterable, Mapping, Optional, Sequence

from elastiq.choices import Batch, Case
from elastiq.packing import jobs_held, without

_EPSILON = 1e-9


class Layout:
    """Machines that are to be launched, with what is on each, and what the limits leave then.

    ``refilled``: see `Case.cost`. ``weights`` are added to the cost of a machine of each choice, so that what is
    scarce is spared; ``preferred`` is a choice that is taken wherever it fits, and filled whatever that costs;
    ``steps`` is how many larger machines may be looked at.
    """

    def __init__(
        self,
        case: Case,
        refilled: bool,
        weights: Optional[Sequence[float]] = None,
        preferred: Optional[int] = None,
        steps: int = 0,
    ) -> None:
        self.case, self.refilled = case, refilled
        self.batches: list[Batch] = []
        self.left = list(case.left)
        self.unserved = list(case.slots)
        self._steps = steps
        self._weights = weights or [0.0] * len(case.choices)
        self._preferred = preferred
        self._spent: set[int] = set()  # choices of which the limits allow no more

    def in_the_way(self, want: int) -> list[int]:
        """The limits that keep the choices for a want from being launched for one more job."""
        found: set[int] = set()
        for choice, each in self.case.fits[want].items():
            machines = -(-self.case.wants[want].nodes // each)
            found.update(
                limit for limit, amount in self.case.uses[choice] if self.left[limit] + _EPSILON < amount * machines
            )
        return sorted(found)

    def cost(self) -> float:
        return sum(self.case.cost(b.choice, b.content, self.refilled) * b.count for b in self.batches)

    def fill(self, order: Iterable[int]) -> None:
        """Serve the wants in this order, each from the room that is left, then with more machines, then with
        larger ones in place of others."""
        for want in order:
            nodes, slots = self.case.wants[want].nodes, self.unserved[want]
            while slots:
                before = [replace(b, content=dict(b.content)) for b in self.batches] if nodes > 1 else []
                limits = list(self.left)
                served = self._use_room(want, slots, self._worth_of_room(want, slots))
                served += self._use_more(want, slots - served)
                served += self._use_room(want, slots - served, math.inf)
                served += self._use_larger(want, slots - served)
                if served % nodes == 0:
                    self.unserved[want] -= served
                    break
                # All slots of a job, or none.
                self.batches, self.left, slots = before, limits, served - served % nodes
                self._spent.clear()

    def put(self, batch: Batch, want: int, slots: int) -> int:
        """Fill machines of a batch with up to so many slots of a want; returns how many."""
        asked = self.case.wants[want].asked
        each = jobs_held(batch.room, asked) if batch.choice in self.case.fits[want] else 0
        if not each or not slots:
            return 0
        full = min(batch.count, slots // each)
        rest = slots - full * each if full < batch.count else 0
        untouched = batch.count - full - (1 if rest else 0)
        parts = [(count, on_each) for count, on_each in ((full, each), (1 if rest else 0, rest)) if count]
        made = [
            Batch(
                batch.choice,
                count,
                {**batch.content, want: batch.content.get(want, 0) + on_each},
                without(batch.room, asked, on_each),
            )
            for count, on_each in parts
        ]
        if untouched:
            made.append(replace(batch, count=untouched, content=dict(batch.content)))
        first = made.pop(0)
        batch.count, batch.content, batch.room = first.count, first.content, first.room
        self.batches.extend(made)
        return full * each + rest

    def _use_room(self, want: int, slots: int, at_most: float) -> int:
        """Use what is left on machines that come anyway, where a slot costs at most that more."""
        case, served = self.case, 0
        asked, fits = case.wants[want].asked, case.fits[want]
        cpus = asked[0] * (1 - 1e-6)
        for batch in list(self.batches) if slots else ():
            if served >= slots:
                break
            room = batch.room
            if (room[0] is not None and room[0] < cpus) or batch.choice not in fits:
                continue
            each = min(jobs_held(room, asked), slots - served)
            if each and not self.refilled and at_most < math.inf:
                more = {**batch.content, want: batch.content.get(want, 0) + each}
                extra = case.cost(batch.choice, more, False) - case.cost(batch.choice, batch.content, False)
                if extra > at_most * each:
                    continue
            served += self.put(batch, want, slots - served)
        return served

    def _use_more(self, want: int, slots: int) -> int:
        """Launch machines for a want, the cheapest for a slot first."""
        case, served = self.case, 0
        fits = {choice: each for choice, each in case.fits[want].items() if choice not in self._spent}
        while served < slots and fits:
            rest = slots - served
            choice = self._preferred if self._preferred in fits else self._cheapest(want, fits, rest)[1]
            each = min(fits[choice], rest)
            count = case.allowed(choice, rest // each, self.left)
            if not count:
                self._spent.update(one for one in fits if not case.allowed(one, 1, self.left))
                fits = {one: held for one, held in fits.items() if one not in self._spent}
                continue
            case.take(choice, count, self.left)
            room = without(case.rooms[choice], case.wants[want].asked, each)
            self.batches.append(Batch(choice, count, {want: each}, room))
            served += count * each
        return served

    def _use_larger(self, want: int, slots: int) -> int:
        """Where the limits allow no more machines: larger ones in place of some, the cheapest for a slot first."""
        case, served = self.case, 0
        while served < slots and self._steps > 0:
            best: Optional[tuple[float, int, int, int, int]] = None
            for at in sorted(range(len(self.batches)), key=lambda at: want not in self.batches[at].content):
                batch = self.batches[at]
                for choice in case.fits[want]:
                    if choice == batch.choice or self._steps < 1:
                        continue
                    self._steps -= 1
                    count = self._exchangeable(batch, choice)
                    room = case.room_after(choice, batch.content.items()) if count else None
                    each = min(jobs_held(room, case.wants[want].asked), slots - served) if room else 0
                    if each:
                        content = {**batch.content, want: batch.content.get(want, 0) + each}
                        extra = case.cost(choice, content, self.refilled) + self._weights[choice]
                        extra -= case.cost(batch.choice, batch.content, self.refilled) + self._weights[batch.choice]
                        found = (extra / each, -each, at, choice, count)
                        best = found if best is None else min(best, found)
            if best is None:
                break
            _, less, at, choice, count = best
            rest = slots - served
            served += self._exchange(self.batches[at], choice, min(count, -(-rest // -less)), want, rest)
        return served

    def _exchangeable(self, batch: Batch, choice: int) -> int:
        """How many machines of a batch may be of another choice instead."""
        count, own = batch.count, dict(self.case.uses[batch.choice])
        for limit, each in self.case.uses[choice]:
            more = each - own.get(limit, 0.0)
            if more > 0:
                count = min(count, int(self.left[limit] / more + _EPSILON))
        return max(0, count)

    def _exchange(self, batch: Batch, choice: int, count: int, want: int, slots: int) -> int:
        case = self.case
        case.take(batch.choice, -count, self.left)
        case.take(choice, count, self.left)
        self._spent.clear()
        larger = Batch(choice, count, dict(batch.content), case.room_after(choice, batch.content.items()) or batch.room)
        batch.count -= count
        self.batches = [*(b for b in self.batches if b.count), larger]
        return self.put(larger, want, slots)

    def replace(self, some: Sequence[Batch], others: Sequence[Batch]) -> bool:
        """Put machines in the place of some that hold the same, where they cost less and the limits allow it."""
        case, left = self.case, list(self.left)
        saved = sum(case.cost(b.choice, b.content, self.refilled) * b.count for b in some)
        saved -= sum(case.cost(b.choice, b.content, self.refilled) * b.count for b in others)
        for batch in some:
            case.take(batch.choice, -batch.count, left)
        for batch in others:
            if case.allowed(batch.choice, batch.count, left) < batch.count:
                return False
            case.take(batch.choice, batch.count, left)
        if saved <= _EPSILON * max(case.prices):
            return False
        gone = {id(batch) for batch in some}
        self.batches = [*(b for b in self.batches if id(b) not in gone), *others]
        self.left = left
        return True

    def _worth_of_room(self, want: int, slots: int) -> float:
        """What a slot on a machine that comes anyway may cost: no more than on one for this want alone."""
        return math.inf if self._preferred is not None else self._cheapest(want, self.case.fits[want], slots)[0]

    def _cheapest(self, want: int, fits: Mapping[int, int], slots: int) -> tuple[float, int]:
        """The choice that costs the least for a slot on a machine that holds only this want, and that cost."""
        case, nodes, weights = self.case, self.case.wants[want].nodes, self._weights
        factors, prices, trifles = case.factors, case.prices, case.trifles
        cheapest, best = math.inf, -1
        for choice, held in fits.items():
            each = held if held < slots else slots
            factor = 1.0 if self.refilled else factors[-(-each // nodes)]
            cost = (prices[choice] * factor + trifles[choice] + weights[choice]) / each
            if cost < cheapest:
                cheapest, best = cost, choice
        return cheapest, best
