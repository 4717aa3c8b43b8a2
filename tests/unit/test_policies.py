"""Which pool and flavour comes first, by [broker] policy and by what has failed lately."""

from __future__ import annotations

from typing import Any

from elastiq.black_holes import condemn
from elastiq.health import Health
from elastiq.interfaces import JobGroup, Pool, Resources, Terms
from elastiq.nodes import Node, State
from elastiq.planner import Plan, plan
from elastiq.refusals import boot_failed
from tests.unit.values import a_node, a_pool, situation, some_settings

ONE = Resources(cpus=1, memory_mb=1000)
TWO = Resources(cpus=2, memory_mb=4000)


def planned(pools: tuple[Pool, ...], *policy: str, waiting: int = 8, nodes: tuple[Node, ...] = (), **more: Any) -> Plan:
    settings = some_settings(pools=pools, policy=policy or ("cheapest",), max_vms=more.pop("max_vms", 100))
    group = JobGroup("g", ONE, waiting, running=0)
    return plan(situation(group, settings=settings, nodes=nodes, **more))


def launched(made: Plan) -> dict[str, int]:
    return {str(order.offer): order.count for order in made.launches}


def pools(**prices: float) -> tuple[Pool, ...]:
    return tuple(a_pool(name, prices={"*": price}, max_vms=10) for name, price in prices.items())


def test_the_cheapest_pool_serves_and_the_next_one_takes_what_it_has_no_room_for() -> None:
    assert launched(planned(pools(dear=2.0, cheap=1.0))) == {"cheap/medium": 2}
    assert launched(planned(pools(dear=2.0, cheap=1.0), waiting=60)) == {"cheap/medium": 10, "dear/medium": 5}


def test_among_equals_the_order_of_the_file_decides() -> None:
    assert launched(planned(pools(b=1.0, a=1.0))) == {"b/medium": 2}
    assert launched(planned((a_pool("b"), a_pool("a")))) == {"b/medium": 2}


def test_a_pool_of_a_higher_priority_is_used_up_first_whatever_it_costs() -> None:
    first, second = pools(dear=9.0, cheap=1.0)
    dear = Pool(**{**vars(first), "terms": Terms(priority=5.0)})
    assert launched(planned((second, dear), "priority", "cheapest", waiting=60)) == {
        "dear/medium": 10,
        "cheap/medium": 5,
    }
    assert launched(planned((second, dear))) == {"cheap/medium": 2}


def test_the_same_holds_where_the_pools_have_machines_of_several_sizes() -> None:
    small, large = a_pool("small", capacity=TWO, max_vms=3), a_pool("large", terms=Terms(priority=1.0), max_vms=1)
    assert launched(planned((small, large), "priority", waiting=6)) == {"large/medium": 1, "small/medium": 1}


def test_balance_fills_pools_evenly_by_their_limits() -> None:
    sizes = (a_pool("a", max_vms=10), a_pool("b", max_vms=10, capacity=TWO))
    made = launched(planned(sizes, "balance", waiting=30))
    assert abs(made["a/medium"] - made["b/medium"]) <= 1
    there = tuple(a_node(State.BUSY, number, pool="a") for number in range(1, 8))
    assert launched(planned(sizes, "balance", waiting=6, nodes=there)) == {"b/medium": 3}


def test_balance_looks_at_the_load_also_where_all_machines_are_of_one_size() -> None:
    there = tuple(a_node(State.BUSY, number, pool="a") for number in range(1, 5))
    assert launched(planned((a_pool("a", max_vms=10), a_pool("b", max_vms=10)), "balance", nodes=there)) == {
        "b/medium": 2
    }


def test_least_waste_takes_machines_of_the_jobs_size_although_larger_ones_are_cheaper() -> None:
    offers = (a_pool("large", prices={"*": 1.0}), a_pool("small", capacity=TWO, prices={"*": 0.9}))
    assert launched(planned(offers, "cheapest", waiting=4)) == {"large/medium": 1}
    assert launched(planned(offers, "least-waste", waiting=2)) == {"small/medium": 1}


def test_a_pool_whose_boots_fail_loses_weight_and_regains_it() -> None:
    health = Health()
    boot_failed(health, "cheap", 0.0)
    assert launched(planned(pools(cheap=1.0, dear=1.5), health=health)) == {"dear/medium": 2}
    health.boot_joined("cheap")
    assert launched(planned(pools(cheap=1.0, dear=1.5), health=health)) == {"cheap/medium": 2}


def test_a_pool_that_had_black_holes_within_the_hour_loses_weight() -> None:
    health, now = Health(), situation().now
    condemn(health, "cheap", "medium", now - 10.0)
    both = pools(cheap=1.0, dear=1.5)
    assert launched(planned(both, health=health)) == {"dear/medium": 2}
    assert launched(planned(both, health=health, now=now + 4000.0)) == {"cheap/medium": 2}


def test_a_flavour_of_unknown_size_is_not_taken_for_the_smallest() -> None:
    offers = (a_pool("unknown", capacity=Resources(), terms=Terms(n_jobs_per_vm=8)), a_pool("known"))
    assert launched(planned(offers, waiting=4)) == {"known/medium": 1}
