"""Which machines to launch for the jobs that wait: the right sizes, at the lowest expected cost.

Pure. What is sought, in this order:

1. Every job that some choice would run is served, as far as the limits allow it. Where they do not allow all,
   the wants come in the order of importance: none gives up a job for one that comes later.
2. The expected cost is the lowest: the price of each machine times how long it is expected to be kept
   (`elastiq.choices.KeepTime`). Where the limits leave jobs waiting, every machine is filled again and again
   by those, and it is kept for as long as it is full: then the price alone counts.
3. The fewest machines; then the first choices.

A few jobs are divided exactly (`elastiq.exhaustive`), many by first fit (`elastiq.approximate`). The same case
has the same result; an offer that turns out to have no capacity is left out of the next one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Optional, Sequence

from elastiq.approximate import approximate
from elastiq.choices import Batch, Case, Choice, KeepTime, Want
from elastiq.exhaustive import Search, work
from elastiq.first_fit import Layout

__all__ = ["Choice", "Chosen", "KeepTime", "Left", "Machines", "Want", "choose"]

NOTHING_FITS = "nothing fits"
LIMITED = "limited"
ONE_ONLY = "one only"
EXACT_STEPS, LIMITED_STEPS = 20_000, 3_000  # of `exhaustive.work`: some milliseconds
_KEEP = KeepTime()
_EPSILON = 1e-9


@dataclass(frozen=True)
class Machines:
    """Machines to launch: of which choice, how many, and how many slots of each want all of them hold."""

    choice: int
    count: int
    slots: dict[str, int]


@dataclass(frozen=True)
class Left:
    """Jobs of a want that get no machine. ``why`` is NOTHING_FITS, LIMITED (with the positions of the limits
    that are in the way; none where only the choices' own ``most`` are) or ONE_ONLY."""

    jobs: int
    why: str
    limits: tuple[int, ...] = ()


@dataclass(frozen=True)
class Chosen:
    """``cost`` is the price of all machines for an hour, ``expected`` that by how long they are kept."""

    machines: tuple[Machines, ...]
    left: dict[str, Left]
    cost: float
    expected: float


def choose(
    wants: Sequence[Want],
    choices: Sequence[Choice],
    limits: Sequence[float] = (),
    keep: KeepTime = _KEEP,
    exact_steps: float = EXACT_STEPS,
) -> Chosen:
    """Choose machines for wants, in the order of importance, from choices, in the order of preference.
    ``limits`` are what is left of the shared ones."""
    case = Case(wants, choices, limits, keep)
    layout = _exact(case, exact_steps) or approximate(case)
    _fill_canaries(layout)
    return _told(layout)


def _exact(case: Case, steps: float) -> Optional[Layout]:
    wanted = [(want, slots) for want, slots in enumerate(case.slots) if slots]
    needed = work([slots for _, slots in wanted], len(case.distinct))
    if needed > steps:
        return None
    search = Search(case, wanted, case.distinct)
    layout = _layout(case, search.whole(refilled=False) or [], refilled=False)
    if all(left > -_EPSILON for left in layout.left):
        return layout
    if needed > min(steps, LIMITED_STEPS):
        return None
    whole = search.limited(False, case.left, whole=True)
    if whole is not None:
        return _layout(case, whole, refilled=False)
    return _layout(case, search.limited(True, case.left, whole=False) or [], refilled=True)


def _layout(case: Case, batches: Sequence[Batch], refilled: bool) -> Layout:
    layout = Layout(case, refilled)
    for batch in batches:
        case.take(batch.choice, batch.count, layout.left)
        for want, slots in batch.content.items():
            layout.unserved[want] -= slots * batch.count
    layout.batches = list(batches)
    return layout


def _fill_canaries(layout: Layout) -> None:
    """Put more jobs of a want that gets only one machine onto that."""
    for position, want in enumerate(layout.case.wants):
        mine = next((batch for batch in layout.batches if position in batch.content), None)
        if want.one_only and want.nodes == 1 and mine is not None:
            layout.put(mine, position, want.jobs - 1)


def _told(layout: Layout) -> Chosen:
    case = layout.case
    counts: Counter[int] = Counter()
    slots: dict[int, Counter[str]] = {}
    served: Counter[int] = Counter()
    expected = 0.0
    for batch in layout.batches:
        counts[batch.choice] += batch.count
        expected += (case.cost(batch.choice, batch.content, False) - case.trifles[batch.choice]) * batch.count
        for position, each in batch.content.items():
            slots.setdefault(batch.choice, Counter())[case.wants[position].key] += each * batch.count
            served[position] += each * batch.count
    machines = tuple(Machines(choice, counts[choice], dict(sorted(slots[choice].items()))) for choice in sorted(counts))
    left = {}
    for position, want in enumerate(case.wants):
        jobs = want.jobs - served[position] // want.nodes
        if jobs:
            left[want.key] = _left(layout, position, jobs)
    return Chosen(machines, left, sum(case.prices[choice] * count for choice, count in counts.items()), expected)


def _left(layout: Layout, want: int, jobs: int) -> Left:
    if not layout.case.fits[want]:
        return Left(jobs, NOTHING_FITS)
    if not layout.unserved[want]:
        return Left(jobs, ONE_ONLY)
    shared = len(layout.case.limits)  # those that come after are the choices' own
    return Left(jobs, LIMITED, tuple(limit for limit in layout.in_the_way(want) if limit < shared))
