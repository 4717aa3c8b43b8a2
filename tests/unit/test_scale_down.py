"""Which idle machines go, where pools have terms and prices of their own."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.interfaces import Resources, Terms
from elastiq.nodes import State
from elastiq.planner import plan
from tests.unit.plans import carry_out, drained, launched, settles
from tests.unit.values import a_node, a_pool, a_worker, group, situation, some_settings


def idle(number: int = 1, idle_s: float = 0.0, **changed: Any) -> Any:
    return a_node(State.IDLE, number, idle_s=idle_s, **changed)


# --------------------------------------------------------------------------- a pool's own terms


def test_a_pools_own_idle_for_time_s_holds_there_and_the_clusters_elsewhere() -> None:
    own = a_pool("own", terms=Terms(idle_for_time_s=60.0))
    patient = a_pool("patient", terms=Terms(idle_for_time_s=7200.0))
    settings = some_settings(pools=(own, patient, a_pool("other")), idle_for_time_s=600.0)
    nodes = [
        *(idle(n, idle_s, pool="own") for n, idle_s in ((1, 59.0), (2, 60.0))),
        *(idle(n, idle_s, pool="patient") for n, idle_s in ((3, 7199.0), (4, 7200.0))),
        *(idle(n, idle_s, pool="other") for n, idle_s in ((5, 599.0), (6, 600.0))),
        idle(7, 599.0, pool=""),
        idle(8, 600.0, pool=""),
    ]
    assert sorted(drained(plan(situation(nodes=nodes, settings=settings)))) == ["i-2", "i-4", "i-6", "i-8"]


def test_zero_seconds_are_a_setting_and_not_the_clusters() -> None:
    settings = some_settings(pools=(a_pool(terms=Terms(idle_for_time_s=0.0)),))
    assert drained(plan(situation(nodes=[idle(1, 0.0)], settings=settings))) == ["i-1"]


def test_a_pools_own_estimated_vm_deploy_time_s_is_the_deadline_there() -> None:
    slow = a_pool("slow", terms=Terms(estimated_vm_deploy_time_s=1800.0))
    settings = some_settings(pools=(slow, a_pool("other")), estimated_vm_deploy_time_s=600.0)
    nodes = [a_node(State.BOOTING, n, pool=pool, boot_s=900.0) for n, pool in ((1, "slow"), (2, "other"))]
    (step,) = plan(situation(nodes=nodes, settings=settings)).failed
    assert (step.node.name, step.reason) == ("i-2", "did not join within estimated_vm_deploy_time_s 600")
    nodes[0].boot_s = 1800.0
    late = plan(situation(nodes=nodes, settings=settings)).failed
    assert [step.reason for step in late if step.node.pool == "slow"] == [
        "did not join within estimated_vm_deploy_time_s 1800"
    ]


def test_a_pools_own_n_jobs_per_vm_sizes_its_machines_where_their_cpus_are_not_known() -> None:
    many = a_pool("many", capacity=Resources(), terms=Terms(n_jobs_per_vm=20), max_vms=1)
    settings = some_settings(pools=(many, a_pool("few", capacity=Resources())), n_jobs_per_vm=2)
    made = plan(situation(group(waiting=30), settings=settings))
    assert launched(made) == {"many/medium": 1, "few/medium": 5}
    coming = a_node(State.BOOTING, pool="many")
    assert launched(plan(situation(group(waiting=21), nodes=[coming], settings=settings))) == {"few/medium": 1}


def test_a_workers_free_places_are_counted_by_its_own_pools_n_jobs_per_vm() -> None:
    many = a_pool("many", capacity=Resources(), terms=Terms(n_jobs_per_vm=20), max_vms=1)
    settings = some_settings(pools=(many, a_pool("few", capacity=Resources())), n_jobs_per_vm=2)
    there = idle(1, pool="many", seen=a_worker(free=Resources(), total=Resources()))
    assert launched(plan(situation(group(waiting=20), nodes=[there], settings=settings))) == {}
    assert launched(plan(situation(group(waiting=21), nodes=[there], settings=settings))) == {"few/medium": 1}


# --------------------------------------------------------------------------- dearest first

CHEAP = a_pool("cheap", prices={"*": 0.1})
DEAR = a_pool("dear", site="elsewhere", prices={"*": 0.5, "*/spot": 0.05})
SITES = frozenset({"aws", "elsewhere"})


def priced(nodes: list[Any], **changed: Any) -> list[str]:
    settings = some_settings(**{"pools": (CHEAP, DEAR), **changed})
    return drained(plan(situation(nodes=nodes, settings=settings, sites=SITES)))


def test_the_dearest_go_first_across_pools_and_sites_then_the_longest_idle() -> None:
    nodes = [
        idle(1, 9000.0, pool="cheap"),
        idle(2, 700.0, pool="dear", site="elsewhere"),
        idle(3, 800.0, pool="dear", site="elsewhere"),
        idle(4, 9500.0, pool="dear", site="elsewhere", market="spot"),
        idle(5, 9900.0, pool="cheap"),
    ]
    assert priced(nodes) == ["i-3", "i-2", "i-5", "i-1", "i-4"]


@pytest.mark.parametrize("min_vms", [0, 1, 2, 3])
def test_the_minimum_of_the_cluster_is_kept_by_the_cheapest(min_vms: int) -> None:
    nodes = [idle(1, 900.0, pool="cheap"), idle(2, 800.0, pool="dear", site="elsewhere"), idle(3, 700.0, pool="cheap")]
    assert priced(nodes, min_vms=min_vms) == ["i-2", "i-1", "i-3"][: 3 - min_vms]


def test_a_dear_pool_keeps_its_own_minimum_and_the_cheap_one_goes_instead() -> None:
    pools = (CHEAP, a_pool("dear", site="elsewhere", prices={"*": 0.5}, min_vms=2))
    nodes = [idle(1, 900.0, pool="cheap"), *(idle(n, 900.0, pool="dear", site="elsewhere") for n in (2, 3))]
    assert priced(nodes, pools=pools, min_vms=2) == ["i-1"]


def test_a_machine_without_a_known_price_goes_after_those_that_cost_something() -> None:
    pools = (CHEAP, a_pool("unknown"))
    nodes = [idle(1, 9000.0, pool="unknown"), idle(2, 700.0, pool="cheap")]
    assert priced(nodes, pools=pools) == ["i-2", "i-1"]


def test_a_dear_machine_that_was_not_idle_for_long_does_not_go_for_its_price() -> None:
    nodes = [idle(1, 700.0, pool="cheap"), idle(2, 599.0, pool="dear", site="elsewhere")]
    assert priced(nodes) == ["i-1"]


def test_a_dear_machine_at_a_site_that_is_not_known_now_stays_and_keeps_nobody() -> None:
    nodes = [idle(1, 700.0, pool="cheap"), idle(2, 900.0, pool="dear", site="elsewhere")]
    settings = some_settings(pools=(CHEAP, DEAR))
    assert drained(plan(situation(nodes=nodes, settings=settings, sites=frozenset({"aws"})))) == ["i-1"]


# --------------------------------------------------------------------------- hot spares


def spare_pool(spares: int, name: str = "ec2", **changed: Any) -> Any:
    return a_pool(name, terms=Terms(min_idle_vms=spares), **changed)


def test_spares_are_launched_without_any_job_and_only_once() -> None:
    made = settles(situation(settings=some_settings(pools=(spare_pool(2),))))
    assert launched(made) == {"ec2/medium": 2}
    assert [order.reason for order in made.launches] == ["min_idle_vms 2 of pool ec2"]


def test_idle_machines_and_those_to_come_are_spares_busy_ones_are_none() -> None:
    settings = some_settings(pools=(spare_pool(3),))
    nodes = [idle(1), a_node(State.BOOTING, 2), a_node(State.BUSY, 3)]
    assert launched(settles(situation(nodes=nodes, settings=settings))) == {"ec2/medium": 1}


@pytest.mark.parametrize("state", [State.DRAINING, State.TERMINATING, State.LOST, State.FAILED])
def test_what_is_going_is_no_spare(state: State) -> None:
    settings = some_settings(pools=(spare_pool(1),))
    assert launched(settles(situation(nodes=[a_node(state)], settings=settings))) == {"ec2/medium": 1}


def test_a_spare_that_waiting_jobs_will_use_is_none_and_another_is_launched_beside() -> None:
    settings = some_settings(pools=(spare_pool(1),))
    made = settles(situation(group(waiting=4), nodes=[idle(1)], settings=settings))
    assert launched(made) == {"ec2/medium": 1}
    assert [(order.reason, order.groups) for order in made.launches] == [("min_idle_vms 1 of pool ec2", {})]


def test_machines_for_jobs_are_no_spares() -> None:
    settings = some_settings(pools=(spare_pool(1),))
    made = settles(situation(group(waiting=8), settings=settings))
    assert launched(made) == {"ec2/medium": 3}


def test_spares_stand_beside_the_minimum_when_the_minimum_works() -> None:
    settings = some_settings(pools=(spare_pool(1, min_vms=2),))
    nodes = [a_node(State.BUSY, 1), a_node(State.BUSY, 2)]
    assert launched(settles(situation(nodes=nodes, settings=settings))) == {"ec2/medium": 1}
    assert launched(settles(situation(nodes=[idle(1), idle(2)], settings=settings))) == {}


def test_the_idle_spare_is_not_drained_and_what_is_above_it_is() -> None:
    settings = some_settings(pools=(spare_pool(2),))
    nodes = [idle(number, 900.0 + number) for number in (1, 2, 3)]
    assert drained(settles(situation(nodes=nodes, settings=settings))) == ["i-3"]


def test_a_spare_that_was_idle_for_less_long_lets_the_longer_idle_one_go() -> None:
    settings = some_settings(pools=(spare_pool(1),))
    assert drained(settles(situation(nodes=[idle(1, 900.0), idle(2, 5.0)], settings=settings))) == ["i-1"]


def test_one_that_is_reserved_does_not_keep_up_the_spares_and_none_goes_below_them() -> None:
    settings = some_settings(pools=(spare_pool(1),), waiting_jobs_time_s=10_000.0)
    nodes = [idle(1, 900.0), idle(2, 900.0)]
    made = settles(situation(group(waiting=4), nodes=nodes, settings=settings))
    assert (launched(made), drained(made)) == ({}, [])


def test_spares_are_a_pools_own() -> None:
    settings = some_settings(pools=(a_pool("a"), spare_pool(1, "b")))
    made = settles(situation(nodes=[idle(1, 900.0, pool="a")], settings=settings))
    assert (launched(made), drained(made)) == ({"b/medium": 1}, ["i-1"])


def test_max_vms_outweighs_the_spares_and_jobs_come_before_them() -> None:
    settings = some_settings(pools=(spare_pool(5),), max_vms=3)
    made = settles(situation(group(waiting=8), settings=settings))
    assert launched(made) == {"ec2/medium": 3}
    assert made.launches[0].groups == {"g": 8}
    own = some_settings(pools=(spare_pool(5, max_vms=2), a_pool("other")))
    assert launched(settles(situation(settings=own))) == {"ec2/medium": 2}


@pytest.mark.parametrize("changed", [{"settled": False}, {"no_launch": "the queue could not be read"}])
def test_no_spare_before_both_sides_are_settled(changed: dict[str, Any]) -> None:
    assert launched(plan(situation(settings=some_settings(pools=(spare_pool(1),)), **changed))) == {}


def test_a_burst_uses_the_spares_and_its_end_leaves_as_many_as_before() -> None:
    settings = some_settings(pools=(spare_pool(2),))
    s = situation(nodes=[idle(1), idle(2)], settings=settings)
    carry_out(s, plan(s))
    burst = situation(group(waiting=8), registry=s.registry, settings=settings)
    assert launched(settles(burst)) == {"ec2/medium": 2}, "both spares are used"
    after = situation(nodes=[idle(number, 900.0 + number) for number in (1, 2, 3, 4)], settings=settings)
    assert drained(settles(after)) == ["i-4", "i-3"]


@pytest.mark.parametrize(("waiting", "machines"), [(0, 2), (4, 3), (8, 4)])
def test_machines_for_the_minimum_are_spares_but_for_those_that_jobs_will_use(waiting: int, machines: int) -> None:
    settings = some_settings(pools=(spare_pool(2, min_vms=2),))
    assert launched(settles(situation(group(waiting=waiting), settings=settings))) == {"ec2/medium": machines}
