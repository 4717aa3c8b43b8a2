"""Machines for many jobs: some ways of first fit, and the best of them improved.

Pure. First fit takes the wants with the largest dominant share first, each on the machines that are cheapest
for it. If the limits do not allow that, what they leave gets a price of its own, so that choices which take
less of it are preferred; if nothing allows all jobs, the wants are taken in the order of importance. The best
results are improved a few machines at a time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Iterable

from elastiq.choices import Batch, Case
from elastiq.exhaustive import Search, work
from elastiq.first_fit import Layout
from elastiq.packing import SLOTS

_SMALL = 400  # wants x choices, up to which more ways are tried
# What a machine that took all that the limits leave would cost more, as a multiple of the cost of all.
_WEIGHTS = (0.1, 0.5, 2.0, 8.0, 30.0, 1e6)
_STEPS = 40_000.0  # of `exhaustive.work`, of all improvements: some hundredths of a second
_IMPROVED = 3  # of the best results
_PREFERRED = 12  # choices that are tried wherever they fit
_LARGER = 3_000  # steps of each layout's search for larger machines in place of others
_FEW = 4  # machines with equal content that are looked at one by one
_LARGEST_WINDOW = 3

# A choice for a want: the cost for a slot, how scarce what it takes for it is, the choice, slots on each.
_Front = list[tuple[float, float, int, int]]


def approximate(case: Case) -> Layout:
    """Machines for all wants, or for as much as the limits allow."""
    small = len(case.wants) * len(case.distinct) <= _SMALL
    by_size = case.by_size()
    plain = _filled(Layout(case, refilled=False, steps=_LARGER), by_size)
    tried = [plain]
    for choice in _preferable(case) if small else ():
        for dominant in (True, False):
            layout = Layout(case, refilled=False, preferred=choice)
            tried.append(_filled(layout, case.by_size(choice, dominant)))
    scarce = _Scarcity(plain)
    if scarce.limits:
        for weight in _WEIGHTS if small else scarce.between():
            layout = Layout(case, refilled=False, weights=scarce.weights(weight), steps=_LARGER)
            tried.append(_filled(layout, by_size))
    best = [layout for layout in tried if not any(layout.unserved)]
    if not best:
        for weight in (0.0, *_WEIGHTS) if small else _WEIGHTS[-1:]:
            layout = Layout(case, refilled=True, weights=scarce.weights(weight), steps=_LARGER)
            best.append(_filled(layout, range(len(case.wants))))
    best = sorted({str(layout.batches): layout for layout in best}.values(), key=_worth)[:_IMPROVED]
    for layout in best:
        improve(layout, _STEPS / len(best))
    return min(best, key=_worth)


def _preferable(case: Case) -> list[int]:
    """Some choices, those that are cheap for their size first."""
    largest = [max((room[at] or 0.0 for room in case.rooms), default=0.0) for at in range(SLOTS)]

    def price(choice: int) -> float:
        shares = [(there or 0.0) / most for there, most in zip(case.rooms[choice], largest) if most]
        return case.prices[choice] / (sum(shares) or 1.0)

    return sorted(case.distinct, key=price)[:_PREFERRED]


def _filled(layout: Layout, order: Iterable[int]) -> Layout:
    layout.fill(order)
    return layout


def _worth(layout: Layout) -> tuple[list[int], float]:
    return layout.unserved, layout.cost()


class _Scarcity:
    """The limits that kept a layout from serving all, and what they should weigh."""

    def __init__(self, layout: Layout) -> None:
        self._case = case = layout.case
        unserved = [want for want, slots in enumerate(layout.unserved) if slots]
        self.limits = {limit for want in unserved for limit in layout.in_the_way(want)}
        cost = layout.cost() or 1.0
        self._slopes = [
            cost * sum(each / max(case.left[limit], each) for limit, each in uses if limit in self.limits)
            for uses in case.uses
        ]

    def weights(self, weight: float) -> list[float]:
        return [slope * weight for slope in self._slopes]

    def between(self) -> tuple[float, ...]:
        """Two weights: with the one the limits just do not allow all, with the other they do; none if they never
        do. An estimate that puts no two wants on one machine."""
        low, high = 1e-3, 1e3
        fronts = [self._front(want, slots) for want, slots in enumerate(self._case.slots) if slots]
        if not self._allow(fronts, high):
            return ()
        for _ in range(12):
            middle = (low * high) ** 0.5
            if self._allow(fronts, middle):
                high = middle
            else:
                low = middle
        return low, high

    def _front(self, want: int, slots: int) -> tuple[int, _Front]:
        """The slots of a want, and the choices that none beats both in cost and in what is scarce."""
        case, found = self._case, []
        for choice, held in case.fits[want].items():
            each = min(held, slots)
            cost = case.prices[choice] * case.factors[case.lives(want, each)] + case.trifles[choice]
            found.append((cost / each, self._slopes[choice] / each, choice, each))
        front: _Front = []
        for one in sorted(found):
            if not front or one[1] < front[-1][1]:
                front.append(one)
        return slots, front

    def _allow(self, fronts: Iterable[tuple[int, _Front]], weight: float) -> bool:
        left = {limit: self._case.left[limit] for limit in self.limits}
        for slots, front in fronts:
            _, _, choice, each = min(front, key=lambda one: one[0] + weight * one[1])
            for limit, amount in self._case.uses[choice]:
                if limit in left:
                    left[limit] -= amount * -(-slots // each)
        return all(amount >= 0 for amount in left.values())


def improve(layout: Layout, steps: float) -> None:
    """Take one machine in the place of several, and then the cheapest in the place of each, each two and each
    three, where they hold the same, within so many steps. Many machines with equal content are left alone."""
    layout.batches = [b for batch in layout.batches for b in (_singles(batch) if batch.count <= _FEW else [batch])]
    tried: set[tuple[object, ...]] = set()
    steps = _gather(layout, steps)
    size = 1
    while size <= _LARGEST_WINDOW and steps > 0:
        for some in combinations([b for b in layout.batches if b.count == 1], size):
            content: Counter[int] = Counter()
            for batch in some:
                content.update(batch.content)
            key = tuple(sorted((batch.choice, *sorted(batch.content.items())) for batch in some))
            choices = [one for one in layout.case.distinct if any(one in layout.case.fits[want] for want in content)]
            needed = work(list(content.values()), len(choices))
            steps -= 1
            if steps <= 0:
                break
            if key in tried or needed > steps:
                continue
            tried.add(key)
            steps -= needed
            others = Search(layout.case, sorted(content.items()), choices).whole(layout.refilled) or []
            if layout.replace(some, [b for batch in others for b in _singles(batch)]):
                steps = _gather(layout, steps)
                size = 0
                break
        size += 1


def _gather(layout: Layout, steps: float) -> float:
    """For each choice, put onto one machine of it what the dearest machines hold that fit onto it together;
    returns how many of the steps are left."""
    case = layout.case
    for choice in case.distinct:
        some: list[Batch] = []
        content: Counter[int] = Counter()
        for batch in sorted(layout.batches, key=lambda b: -case.prices[b.choice]):
            steps -= 3
            if steps <= 0:
                return steps
            if batch.count == 1 and case.room_after(choice, [*content.items(), *batch.content.items()]):
                some.append(batch)
                content.update(batch.content)
        room = case.room_after(choice, content.items())
        if some and room is not None:
            layout.replace(some, [Batch(choice, 1, dict(content), room)])
    return steps


def _singles(batch: Batch) -> list[Batch]:
    return [replace(batch, count=1, content=dict(batch.content)) for _ in range(batch.count)]
