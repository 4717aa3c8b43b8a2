"""The cheapest machines for a few jobs, exactly: all ways to divide them are weighed.

Pure. Dynamic programming over how many slots of each want are covered: the first want that a cover serves
is on some machine; that machine's content and the cheapest cover of the rest make one candidate. Where limits
may bind, all covers that are not beaten both in cost and in what they take of the limits are kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence

from elastiq.choices import Batch, Case
from elastiq.packing import Vector, jobs_held, without

_EPSILON = 1e-9


class _Label(NamedTuple):
    """One cover: what it costs and takes of the limits, its last machine, and the cover of the rest."""

    cost: float
    taken: tuple[float, ...]
    choice: int
    content: int
    rest: Optional[_Label]


def work(slots: Sequence[int], choices: int) -> float:
    """About how many steps a search over so many slots takes."""
    pairs = contents = 1.0
    for count in slots:
        pairs *= (count + 1) * (count + 2) / 2
        contents *= count + 1
    return pairs + contents * choices


class Search:
    """Covers of up to so many slots of some wants (pairs of position and slots, in the order of importance)
    by machines of some choices."""

    def __init__(self, case: Case, wanted: Sequence[tuple[int, int]], choices: Sequence[int]) -> None:
        self._case, self._wants = case, [want for want, _ in wanted]
        counts = [slots for _, slots in wanted]
        # A content is one number, its digits the slots; the most important want has the highest digit.
        self._strides = [math.prod(count + 1 for count in counts[at + 1 :]) for at in range(len(counts))]
        self._size = math.prod(count + 1 for count in counts)
        self._digits = [
            tuple(number // stride % (count + 1) for stride, count in zip(self._strides, counts))
            for number in range(self._size)
        ]
        self._rooms = self._all_rooms(choices)
        self._holders = [list(rooms) for rooms in self._rooms]

    def _all_rooms(self, choices: Sequence[int]) -> list[dict[int, Vector]]:
        """Of each content, the choices whose machine holds it, and what is left there."""
        case = self._case
        rooms: list[dict[int, Vector]] = [{choice: case.rooms[choice] for choice in choices}]
        for number in range(1, self._size):
            first = next(at for at, slots in enumerate(self._digits[number]) if slots)
            fits, asked = case.fits[self._wants[first]], case.wants[self._wants[first]].asked
            before = rooms[number - self._strides[first]]
            rooms.append(
                {
                    choice: without(room, asked, 1)
                    for choice, room in before.items()
                    if choice in fits and jobs_held(room, asked)
                }
            )
        return rooms

    def content(self, number: int) -> dict[int, int]:
        return {want: slots for want, slots in zip(self._wants, self._digits[number]) if slots}

    def _parts(self, number: int) -> list[int]:
        """The contents that some machine of a cover has: with at least one slot of the first want."""
        digits = self._digits[number]
        first = next(at for at, slots in enumerate(digits) if slots)
        parts = [self._strides[first] * slots for slots in range(1, digits[first] + 1)]
        for at in range(first + 1, len(digits)):
            if digits[at]:
                parts = [part + self._strides[at] * slots for part in parts for slots in range(digits[at] + 1)]
        return [part for part in parts if self._holders[part]]

    def whole(self, refilled: bool) -> Optional[list[Batch]]:
        """The cheapest cover of everything, whatever it takes of the limits."""
        case = self._case
        single = [
            min(((case.cost(c, self.content(n), refilled), c) for c in self._holders[n]), default=(math.inf, -1))
            for n in range(self._size)
        ]
        best = [(0.0, 0)] + [(math.inf, 0)] * (self._size - 1)
        for number in range(1, self._size):
            best[number] = min(
                ((best[number - part][0] + single[part][0], part) for part in self._parts(number)),
                default=(math.inf, 0),
            )
        made, number = [], self._size - 1
        if best[number][0] == math.inf:
            return None
        while number:
            part = best[number][1]
            made.append((single[part][1], part))
            number -= part
        return self._batches(made)

    def limited(self, refilled: bool, left: Sequence[float], whole: bool) -> Optional[list[Batch]]:
        """The cheapest cover within the limits: of everything, or else, unless the ``whole`` is asked for, of as
        much as there can be, the most important first."""
        case = self._case
        binding = self._binding(left)
        left_of = tuple(left[limit] + _EPSILON for limit in binding)
        taken_by = {
            c: tuple(dict(case.uses[c]).get(limit, 0.0) for limit in binding)
            for c in {c for holders in self._holders for c in holders}
        }
        single = [
            _unbeaten(
                [_Label(case.cost(c, self.content(n), refilled), taken_by[c], c, n, None) for c in self._holders[n]]
            )
            for n in range(self._size)
        ]
        covers = [[_Label(0.0, (0.0,) * len(binding), -1, 0, None)]]
        for number in range(1, self._size):
            found = []
            for part in self._parts(number):
                for rest in covers[number - part]:
                    for one in single[part]:
                        taken = tuple(a + b for a, b in zip(rest.taken, one.taken))
                        if all(a <= b for a, b in zip(taken, left_of)):
                            found.append(_Label(rest.cost + one.cost, taken, one.choice, part, rest))
            covers.append(_unbeaten(found))
        served = self._size - 1
        while served and not (covers[served] and self._complete(served)):
            served -= 1
        if whole and served != self._size - 1:
            return None
        label: Optional[_Label] = min(covers[served], key=lambda one: one[:4])
        made = []
        while label is not None and label.content:
            made.append((label.choice, label.content))
            label = label.rest
        return self._batches(made)

    def _binding(self, left: Sequence[float]) -> list[int]:
        """The limits that a cover could pass."""
        case, slots = self._case, sum(self._digits[-1])
        most: dict[int, float] = {}
        for choice in {c for holders in self._holders for c in holders}:
            for limit, each in case.uses[choice]:
                most[limit] = max(most.get(limit, 0.0), each)
        return sorted(limit for limit, each in most.items() if each * slots > left[limit])

    def _complete(self, number: int) -> bool:
        """Whether all jobs have all of their slots."""
        return all(slots % self._case.wants[want].nodes == 0 for want, slots in self.content(number).items())

    def _batches(self, made: list[tuple[int, int]]) -> list[Batch]:
        return [
            Batch(choice, made.count((choice, number)), self.content(number), self._rooms[number][choice])
            for choice, number in sorted(set(made))
        ]


def _unbeaten(labels: list[_Label]) -> list[_Label]:
    kept: list[_Label] = []
    for label in sorted(labels, key=lambda one: one[:4]):
        if not any(all(a <= b for a, b in zip(one.taken, label.taken)) for one in kept):
            kept.append(label)
    return kept
