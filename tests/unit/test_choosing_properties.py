"""What holds for all choices of machines, whatever waits; and how far they are from the best."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Optional, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiq.choosing import EXACT_STEPS, Choice, Chosen, KeepTime, Left, Want, choose
from elastiq.packing import jobs_held
from tests.unit.packing_oracle import Oracle, random_case

WORST = 1.25  # times the oracle's cost

# --------------------------------------------------------------------------- against the oracle


def ours(oracle: Oracle, exact_steps: float) -> Chosen:
    wants = [
        Want(name, (room[0], room[1], 0, 0, False), jobs, oracle.nodes.get(name, 1))
        for name, (room, jobs) in oracle.groups.items()
    ]
    several = [
        Choice(
            (room[0], room[1], None, None, None),
            price,
            uses=tuple((limit, amounts[at]) for limit, (_, amounts) in enumerate(oracle.limits)),
        )
        for at, (room, price) in enumerate(oracle.machines)
    ]
    keep = KeepTime(oracle.spread, oracle.mixing)
    return choose(wants, several, [left for left, _ in oracle.limits], keep, exact_steps)


def ratios(cases: int, jobs: int, machines: int, keep: KeepTime, exact_steps: float) -> list[float]:
    """Our cost by the oracle's, of random cases; each is a case that the limits do not touch."""
    rng, found = random.Random(7), []
    for _ in range(cases):
        oracle = Oracle(*random_case(rng, rng.randint(1, jobs), rng.randint(1, machines)), keep.spread, keep.mixing)
        chosen = ours(oracle, exact_steps)
        assert not chosen.left
        found.append(chosen.expected / oracle.least())
    return found


PRICE_ALONE, USUAL = KeepTime(0.0, 0.0), KeepTime()


@pytest.mark.parametrize("keep", [PRICE_ALONE, USUAL], ids=["price", "expected"])
def test_small_cases_are_exact(keep: KeepTime) -> None:
    assert max(ratios(300, 6, 4, keep, EXACT_STEPS)) < 1 + 1e-4


@pytest.mark.parametrize("keep", [PRICE_ALONE, USUAL], ids=["price", "expected"])
def test_the_cost_is_never_far_from_the_least(keep: KeepTime) -> None:
    found = ratios(1000, 9, 5, keep, EXACT_STEPS)
    assert 1 - 1e-6 < min(found) and max(found) <= WORST and sum(found) / len(found) < 1.001


@pytest.mark.parametrize("keep", [PRICE_ALONE, USUAL], ids=["price", "expected"])
def test_nor_is_it_where_the_whole_is_too_large_for_an_exact_search(keep: KeepTime) -> None:
    found = ratios(150, 9, 5, keep, exact_steps=0)
    assert 1 - 1e-6 < min(found) and max(found) <= WORST and sum(found) / len(found) < 1.01


def limited_case(rng: random.Random) -> Oracle:
    groups, machines = random_case(rng, rng.randint(1, 6), rng.randint(1, 4))
    nodes = {name: rng.choice((1, 1, 1, 2)) for name in groups}
    if sum(jobs * nodes[name] for name, (_, jobs) in groups.items()) > 6:
        nodes = {}
    limits = [(float(rng.randint(0, 3)), [1.0] * len(machines))]
    if rng.random() < 0.5:
        prices = [price for _, price in machines]
        limits.append((rng.uniform(0, 2) * max(prices), prices))
    if rng.random() < 0.5:
        limits.append((float(rng.randint(0, 2)), [float(rng.random() < 0.5) for _ in machines]))
    return Oracle(groups, machines, USUAL.spread, USUAL.mixing, limits, nodes)


def test_small_cases_are_exact_within_limits_too() -> None:
    """The most important jobs are served, then as many others as possible, at the least cost."""
    rng, partly = random.Random(3), 0
    for _ in range(300):
        oracle = limited_case(rng)
        served, cost = oracle.best()
        chosen = ours(oracle, EXACT_STEPS)
        slots: Counter[str] = Counter()
        for one in chosen.machines:
            slots.update(one.slots)
        assert tuple(slots[name] for name in oracle.groups) == served
        assert (chosen.cost if chosen.left else chosen.expected) == pytest.approx(cost, rel=1e-4)
        partly += bool(chosen.left)
    assert 50 < partly < 250


# --------------------------------------------------------------------------- properties

some_wants = st.lists(
    st.tuples(
        st.sampled_from([0.5, 1, 1, 2, 3, 8, 40]),
        st.sampled_from([0, 100, 1000, 3000]),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([0, 1, 2, 5, 30, 1000]),
        st.sampled_from([1, 1, 1, 2, 5]),
        st.booleans(),
    ),
    max_size=6,
)
some_choices = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2, 4, 8, 16]),
        st.sampled_from([None, 1000, 4000]),
        st.sampled_from([0, 1, None]),
        st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        st.sampled_from([0, 1, 7, math.inf]),
        st.sampled_from([(), ((0, 1.0),), ((0, 1.0), (1, 0.5))]),
    ),
    max_size=5,
)
some_limits = st.tuples(st.sampled_from([0.0, 1.0, 10.0, 1000.0]), st.sampled_from([0.4, 2.0, 100.0]))


SomeWant = tuple[float, float, float, int, int, bool]
SomeChoice = tuple[Optional[float], Optional[float], Optional[float], float, float, tuple[tuple[int, float], ...]]


def make(wants: Sequence[SomeWant], several: Sequence[SomeChoice]) -> tuple[list[Want], list[Choice]]:
    made = [
        Want(f"w{at}", (cpus, memory, 0.0, gpus, False), jobs, nodes, one_only=only)
        for at, (cpus, memory, gpus, jobs, nodes, only) in enumerate(wants)
    ]
    kinds = [
        Choice((cpus, memory, None, gpus, 3.0 if cpus is None else None), price, most, uses)
        for cpus, memory, gpus, price, most, uses in several
    ]
    return made, kinds


@settings(max_examples=150, deadline=None)
@given(some_wants, some_choices, some_limits, st.sampled_from([0.0, 20_000.0]))
def test_what_is_launched_is_used_fits_and_is_allowed(
    wants: list[SomeWant], several: list[SomeChoice], limits: tuple[float, float], exact_steps: float
) -> None:
    asked, kinds = make(wants, several)
    chosen = choose(asked, kinds, limits, exact_steps=exact_steps)
    by_key = {one.key: one for one in asked}
    served: Counter[str] = Counter()
    taken = [0.0] * len(limits)
    for one in chosen.machines:
        kind = kinds[one.choice]
        assert 1 <= one.count <= kind.most
        assert one.count <= sum(one.slots.values()), "a machine that no job uses"
        served.update(one.slots)
        for limit, amount in kind.uses:
            taken[limit] += amount * one.count
        for at, there in enumerate(kind.room):
            used = sum((*by_key[key].asked, 1.0)[at] * slots for key, slots in one.slots.items())
            assert there is None or used <= there * one.count + 1e-3
    assert all(amount <= left + 1e-6 for amount, left in zip(taken, limits))
    for want in asked:
        left = chosen.left.get(want.key, Left(0, ""))
        assert served[want.key] % want.nodes == 0, "a job without all of its nodes"
        assert served[want.key] // want.nodes + left.jobs == want.jobs
        assert left.jobs >= 0 and bool(left.jobs) == bool(left.why)
        if want.one_only and want.nodes == 1:
            assert served[want.key] <= max((jobs_held(kind.room, want.asked) for kind in kinds), default=0)
        elif want.one_only:
            assert served[want.key] in (0, want.nodes)


@settings(max_examples=60, deadline=None)
@given(some_wants, some_choices, some_limits)
def test_the_same_case_has_the_same_result(
    wants: list[SomeWant], several: list[SomeChoice], limits: tuple[float, float]
) -> None:
    asked, kinds = make(wants, several)
    again = [Want(w.key, w.asked, w.jobs, w.nodes, frozenset(range(len(kinds))), w.one_only) for w in asked]
    assert choose(asked, kinds, limits) == choose(again, kinds, limits)
