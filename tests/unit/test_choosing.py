"""Which machines are launched for the jobs that wait."""

from __future__ import annotations

import math
import random
import time
from typing import Optional

import pytest

from elastiq.choosing import LIMITED, NOTHING_FITS, ONE_ONLY, Choice, Chosen, KeepTime, Left, Want, choose
from elastiq.packing import Need, Vector

PRICE = 0.05  # of a core, where it is flat


def want(
    key: str,
    cpus: float,
    jobs: int,
    memory_mb: float = 0,
    gpus: float = 0,
    nodes: int = 1,
    offers: Optional[list[int]] = None,
    one_only: bool = False,
) -> Want:
    return Want(key, (cpus, memory_mb, 0, gpus, False), jobs, nodes, offers, one_only)


def choice(
    cpus: Optional[float],
    price: Optional[float] = None,
    memory_mb: Optional[float] = None,
    gpus: Optional[float] = None,
    slots: Optional[float] = None,
    most: float = math.inf,
    uses: tuple[tuple[int, float], ...] = (),
) -> Choice:
    return Choice((cpus, memory_mb, None, gpus, slots), PRICE * (cpus or 0) if price is None else price, most, uses)


def sizes(*all_cpus: float, uses: tuple[tuple[int, float], ...] = ()) -> list[Choice]:
    """Machines at a flat price per core."""
    return [choice(cpus, uses=uses) for cpus in all_cpus]


def launched(chosen: Chosen) -> dict[int, int]:
    return {one.choice: one.count for one in chosen.machines}


ONE_OF_ALL = ((0, 1.0),)  # a machine takes one of the only limit, the number of machines
BOTH_WAYS = pytest.mark.parametrize("exact_steps", [1e9, 0], ids=["exactly", "approximately"])

# --------------------------------------------------------------------------- right size first


@BOTH_WAYS
def test_two_small_jobs_get_no_large_machine(exact_steps: float) -> None:
    assert launched(choose([want("a", 1, 2)], sizes(8, 2), exact_steps=exact_steps)) == {1: 1}
    assert launched(choose([want("a", 1, 2)], sizes(8, 4, 1), exact_steps=exact_steps)) == {2: 2}


@pytest.mark.parametrize("jobs", [1, 8, 1000])
def test_at_a_flat_price_each_job_gets_a_machine_of_its_size(jobs: int) -> None:
    wants = [want("four", 4, jobs), want("one", 1, jobs)]
    chosen = choose(wants, sizes(8, 4, 2, 1))
    assert launched(chosen) == {1: jobs, 3: jobs}
    assert chosen.expected == chosen.cost == pytest.approx(PRICE * 5 * jobs)


def test_where_the_number_of_machines_is_limited_they_are_just_large_enough() -> None:
    several = sizes(8, 4, 2, 1, uses=ONE_OF_ALL)
    assert launched(choose([want("a", 1, 1000)], several, [1000])) == {3: 1000}
    assert launched(choose([want("a", 1, 1000)], several, [999])) == {2: 1, 3: 998}
    half = choose([want("a", 1, 1000)], several, [500])
    assert (launched(half), half.left) == ({2: 500}, {})
    assert launched(choose([want("a", 1, 1000)], several, [125])) == {0: 125}
    assert launched(choose([want("a", 1, 1000)], several, [100])) == {0: 100}


def test_a_larger_machine_is_taken_where_it_is_cheaper_than_it_is_kept_longer() -> None:
    # Two jobs keep a machine for 1 + 0.5 / 2 times as long as one does.
    assert launched(choose([want("a", 1, 2)], [choice(1, 1.0), choice(2, 1.59)])) == {1: 1}
    assert launched(choose([want("a", 1, 2)], [choice(1, 1.0), choice(2, 1.61)])) == {0: 2}


def test_jobs_of_two_groups_share_a_machine_only_where_that_saves_more() -> None:
    wants = [want("a", 1, 1), want("b", 1, 1, memory_mb=1)]
    keep = KeepTime(spread=0.0, mixing=0.1)
    assert launched(choose(wants, [choice(1, 1.0), choice(2, 1.8)], keep=keep)) == {1: 1}
    assert launched(choose(wants, [choice(1, 1.0), choice(2, 1.9)], keep=keep)) == {0: 2}


def test_a_small_job_does_not_keep_a_large_machine_for_a_core_that_is_left_there() -> None:
    chosen = choose([want("large", 15, 100), want("small", 1, 100)], sizes(16, 1))
    assert launched(chosen) == {0: 100, 1: 100}


def test_how_long_a_machine_is_kept() -> None:
    assert KeepTime(1.0, 0.0).factor(1, 1) == 1.0
    assert KeepTime(1.0, 0.0).factor(4, 1) == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4)
    assert KeepTime(0.0, 0.0).factor(4, 1) == 1.0
    assert KeepTime(0.5, 0.25).factor(1, 3) == 1.5
    exactly = sum(1 / n for n in range(1, 5001))
    assert KeepTime(1.0, 0.0).factor(5000, 1) == pytest.approx(exactly, rel=1e-3)


def test_the_expected_longest_of_independent_jobs_is_what_a_machine_is_kept_for() -> None:
    rng = random.Random(1)
    for jobs in (2, 8):
        longest = [max(rng.expovariate(1.0) for _ in range(jobs)) for _ in range(20_000)]
        assert KeepTime(1.0, 0.0).factor(jobs, 1) == pytest.approx(sum(longest) / len(longest), rel=0.03)


@BOTH_WAYS
def test_of_equal_costs_the_fewest_machines_are_taken_and_of_those_the_first(exact_steps: float) -> None:
    keep = KeepTime(0.0, 0.0)
    assert launched(choose([want("a", 1, 8)], sizes(1, 2, 8, 8, 4), keep=keep, exact_steps=exact_steps)) == {2: 1}
    free = [choice(1, 0.0), choice(4, 0.0), choice(4, 0.0)]
    assert launched(choose([want("a", 1, 8)], free, exact_steps=exact_steps)) == {1: 2}


# --------------------------------------------------------------------------- what fits


def test_a_job_gets_nothing_that_it_does_not_fit() -> None:
    wants = [want("big", 64, 2), want("fat", 1, 1, memory_mb=9000), want("gpu", 1, 1, gpus=1)]
    several = [choice(8, memory_mb=8000, gpus=0), choice(8, 9.0, memory_mb=16_000, gpus=2)]
    chosen = choose(wants, several)
    assert launched(chosen) == {1: 1}
    assert chosen.left == {"big": Left(2, NOTHING_FITS)}


def test_only_the_offers_of_a_want_serve_it() -> None:
    wants = [want("a", 1, 1, offers=[1]), want("b", 1, 1, offers=[])]
    chosen = choose(wants, [choice(1, 0.1), choice(1, 0.9)])
    assert (launched(chosen), chosen.left) == ({1: 1}, {"b": Left(1, NOTHING_FITS)})


def test_a_machine_whose_cpus_nobody_knows_holds_its_slots() -> None:
    assert launched(choose([want("a", 16, 4)], [choice(None, 1.0, slots=2)])) == {0: 2}
    assert launched(choose([want("a", 16, 4)], [choice(None, 1.0)])) == {0: 4}


def test_no_choice_and_no_job_are_no_trouble() -> None:
    assert choose([want("a", 1, 3)], []).left == {"a": Left(3, NOTHING_FITS)}
    assert choose([], sizes(1)) == Chosen((), {}, 0.0, 0.0)
    assert choose([want("a", 1, 0)], sizes(1)) == Chosen((), {}, 0.0, 0.0)


def test_the_same_machine_in_more_networks_takes_nothing_from_the_search() -> None:
    """Nine different jobs among a hundred offers are still searched through: together they fill two machines."""
    cpus = (5, 4, 4, 3, 3, 2, 2, 5, 4)
    wants = [want(f"w{at}", one, 1, memory_mb=at) for at, one in enumerate(cpus)]
    chosen = choose(wants, sizes(*[16] * 100), keep=KeepTime(0.0, 0.0))
    assert launched(chosen) == {0: 2}


# --------------------------------------------------------------------------- limits


@BOTH_WAYS
def test_what_comes_first_is_served_first(exact_steps: float) -> None:
    several = sizes(8, 4, 1, uses=ONE_OF_ALL)
    for first, second in (("a", "b"), ("b", "a")):
        jobs = {"a": want("a", 1, 16), "b": want("b", 8, 2)}
        chosen = choose([jobs[first], jobs[second]], several, [2], exact_steps=exact_steps)
        assert launched(chosen) == {0: 2}
        assert chosen.left == {second: Left(jobs[second].jobs, LIMITED, (0,))}


@BOTH_WAYS
def test_serving_more_jobs_comes_before_cost(exact_steps: float) -> None:
    wants = [want("a", 1, 1), want("b", 1, 7, memory_mb=1)]
    chosen = choose(wants, sizes(1, 8, uses=ONE_OF_ALL), [1], exact_steps=exact_steps)
    assert (launched(chosen), chosen.left) == ({1: 1}, {})


@BOTH_WAYS
def test_larger_machines_in_place_of_others_serve_no_more_jobs_than_there_are(exact_steps: float) -> None:
    several = [choice(1, 0.01, uses=ONE_OF_ALL), choice(4, 1.0, uses=ONE_OF_ALL)]
    chosen = choose([want("a", 1, 8), want("b", 4, 2)], several, [3], exact_steps=exact_steps)
    assert sum(one.slots["a"] for one in chosen.machines) == 8
    assert chosen.left == {"b": Left(1, LIMITED, (0,))}


@BOTH_WAYS
def test_what_only_one_want_can_use_is_left_to_it(exact_steps: float) -> None:
    wants = [want("any", 1, 2), want("gpu", 1, 1, gpus=1)]
    several = [choice(1, 0.1, gpus=1, most=1), choice(1, 0.5, gpus=0)]
    chosen = choose(wants, several, exact_steps=exact_steps)
    assert (launched(chosen), chosen.left) == ({0: 1, 1: 2}, {})


@BOTH_WAYS
def test_what_one_choice_may_not_give_another_does(exact_steps: float) -> None:
    chosen = choose([want("a", 1, 5)], [choice(1, 0.1, most=3), choice(1, 0.2)], exact_steps=exact_steps)
    assert launched(chosen) == {0: 3, 1: 2}


def test_a_cap_on_the_cost_is_a_limit_like_others() -> None:
    several = [choice(1, 1.0, uses=((0, 1.0),)), choice(4, 3.0, uses=((0, 3.0),))]
    chosen = choose([want("a", 1, 40)], several, [7.0])
    assert launched(chosen) == {0: 1, 1: 2}
    assert chosen.left == {"a": Left(31, LIMITED, (0,))}


@BOTH_WAYS
def test_a_canary_is_one_machine_that_others_use_too(exact_steps: float) -> None:
    wants = [want("new", 1, 100, one_only=True), want("known", 1, 3, memory_mb=1)]
    chosen = choose(wants, sizes(8, uses=ONE_OF_ALL), [1], exact_steps=exact_steps)
    assert [(one.choice, one.count, one.slots) for one in chosen.machines] == [(0, 1, {"new": 5, "known": 3})]
    assert chosen.left == {"new": Left(95, ONE_ONLY)}


# --------------------------------------------------------------------------- several nodes


@BOTH_WAYS
def test_all_nodes_of_a_job_are_there_or_none(exact_steps: float) -> None:
    three = [want("mpi", 4, 3, nodes=3)]
    several = sizes(8, uses=ONE_OF_ALL)
    for machines, jobs in ((1, 0), (2, 1), (3, 2), (4, 2), (5, 3)):
        chosen = choose(three, several, [machines], exact_steps=exact_steps)
        assert sum(one.slots["mpi"] for one in chosen.machines) == 3 * jobs
        assert launched(chosen) == ({0: -(-3 * jobs // 2)} if jobs else {})
        assert chosen.left == ({"mpi": Left(3 - jobs, LIMITED, (0,))} if jobs < 3 else {})


@BOTH_WAYS
def test_what_a_job_of_many_nodes_cannot_use_goes_to_the_next(exact_steps: float) -> None:
    wants = [want("mpi", 4, 1, nodes=3), want("one", 4, 2)]
    chosen = choose(wants, sizes(4, uses=ONE_OF_ALL), [2], exact_steps=exact_steps)
    assert (launched(chosen), chosen.left) == ({0: 2}, {"mpi": Left(1, LIMITED, (0,))})


# --------------------------------------------------------------------------- growth


def many(groups: int, kinds: int, jobs: int) -> tuple[list[Want], list[Choice]]:
    rng = random.Random(5)
    several = []
    for _ in range(kinds):
        cpus = rng.choice((1, 2, 4, 8, 16, 32))
        room: Vector = (cpus, cpus * rng.choice((2000.0, 4000.0)), None, None, None)
        several.append(Choice(room, cpus * rng.uniform(0.04, 0.06), uses=ONE_OF_ALL))
    sizes = [(rng.choice((1, 2, 4, 8)), float(rng.randrange(500, 16_000))) for _ in range(groups)]
    asked: list[Need] = [(cpus, memory_mb, 0, 0, False) for cpus, memory_mb in sizes]
    return [Want(f"g{at}", one, jobs // groups) for at, one in enumerate(asked)], several


def seconds(wants: list[Want], several: list[Choice], machines: float) -> float:
    taken = []
    for _ in range(3):
        began = time.process_time()
        choose(wants, several, [machines])
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.parametrize("machines", [math.inf, 0.3])
def test_the_work_grows_with_the_shapes_and_not_with_the_jobs(machines: float) -> None:
    few = seconds(*many(50, 20, 5_000), machines * 5_000)
    assert seconds(*many(50, 20, 500_000), machines * 500_000) < 3 * few
