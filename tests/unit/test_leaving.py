"""Machines that go for another reason than idleness: age, an old image, a drained pool, the cloud's own notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elastiq.health import Health
from elastiq.interfaces import Offer, QuotaError, Resources, Terms, WorkerState
from elastiq.nodes import Registry, State
from elastiq.planner import plan
from elastiq.refusals import refused
from elastiq.situation import Situation
from tests.unit.plans import carry_out, drained, launched, settles
from tests.unit.values import NOW, WALL, a_node, a_pool, a_worker, an_instance, group, situation, some_settings

DAY = 86400.0


def idle(number: int = 1, idle_s: float = 0.0, **changed: Any) -> Any:
    return a_node(State.IDLE, number, idle_s=idle_s, **changed)


def joins(s: Situation, number: int) -> None:
    """A requested machine becomes an idle worker."""
    node = s.registry.nodes[f"new.{number}"]
    s.registry.bind(node, f"i-{number}")
    node.worker, node.seen = f"w{number}", a_worker(f"w{number}")
    s.registry.move(node, State.IDLE, "joined", WALL)


# --------------------------------------------------------------------------- age

OLD = a_pool(terms=Terms(max_vm_lifetime_s=DAY))


@pytest.mark.parametrize(("age_s", "goes"), [(DAY - 1, False), (DAY, True)])
def test_a_machine_that_is_too_old_goes_as_soon_as_it_is_idle(age_s: float, goes: bool) -> None:
    made = plan(situation(nodes=[idle()], settings=some_settings(pools=(OLD,)), wall=WALL + age_s))
    assert drained(made) == (["i-1"] if goes else [])
    assert [step.reason for step in made.drains] == (["older than max_vm_lifetime_s 86400"] if goes else [])


@pytest.mark.parametrize("state", [State.BUSY, State.BOOTING, State.PENDING, State.REQUESTED])
def test_a_machine_that_is_too_old_is_never_disturbed_at_work_nor_before_it_has_joined(state: State) -> None:
    s = situation(nodes=[a_node(state)], settings=some_settings(pools=(OLD,), min_vms=1), wall=WALL + 9 * DAY)
    assert (launched(plan(s)), drained(plan(s))) == ({}, [])


def test_the_free_room_of_a_busy_machine_that_is_too_old_counts_as_any() -> None:
    half = a_node(State.BUSY, seen=a_worker(state=WorkerState.BUSY, free=Resources(2, 4000), jobs=2))
    settings = some_settings(pools=(OLD,))
    assert launched(plan(situation(group(waiting=2), nodes=[half], settings=settings, wall=WALL + 9 * DAY))) == {}


def test_the_lifetime_of_one_pool_is_not_anothers() -> None:
    settings = some_settings(pools=(OLD, a_pool("other")))
    nodes = [idle(1), idle(2, pool="other")]
    assert drained(plan(situation(nodes=nodes, settings=settings, wall=WALL + 9 * DAY))) == ["i-1"]


@pytest.mark.parametrize("where", ["cluster", "pool"])
def test_where_a_minimum_needs_it_the_replacement_comes_first(where: str) -> None:
    pool = replace(OLD, min_vms=2 if where == "pool" else 0)
    settings = some_settings(pools=(pool,), min_vms=2 if where == "cluster" else 0)
    s = situation(nodes=[idle(1), idle(2)], settings=settings, wall=WALL + DAY)
    made = plan(s)
    assert (launched(made), drained(made)) == ({"ec2/medium": 2}, [])
    carry_out(s, made)
    made = plan(s)
    assert (launched(made), drained(made)) == ({}, []), "they have not joined yet"
    joins(s, 3)
    made = plan(s)
    assert (launched(made), drained(made)) == ({}, ["i-1"])
    carry_out(s, made)
    assert drained(plan(s)) == []
    joins(s, 4)
    assert drained(settles(s)) == ["i-2"]


def test_no_machine_is_drained_for_its_age_below_the_minimum_where_max_vms_allows_no_replacement() -> None:
    settings = some_settings(pools=(OLD,), min_vms=2, max_vms=2)
    made = settles(situation(nodes=[idle(1), idle(2)], settings=settings, wall=WALL + DAY))
    assert (launched(made), drained(made)) == ({}, [])


def gone(s: Situation, name: str) -> None:
    node = next(node for node in s.registry if node.name == name)
    s.registry.move(node, State.GONE, "ended", WALL)


def old_of_two_pools(*nodes: Any, **changed: Any) -> Situation:
    """The minimum of the first, whose machine is too old, is one; the cluster's is two, and three are all there
    may be."""
    pools = (replace(OLD, min_vms=1, **changed), a_pool("other"))
    settings = some_settings(pools=pools, min_vms=2, max_vms=3)
    return situation(nodes=[idle(1), *nodes], settings=settings, wall=WALL + DAY)


def test_an_idle_machine_makes_way_for_the_replacement_that_a_pools_minimum_needs() -> None:
    s = old_of_two_pools(idle(2, 900.0, pool="other"), idle(3, 950.0, pool="other"))
    made = plan(s)
    assert (launched(made), drained(made)) == ({}, ["i-3"]), "two are left, and there is room for another"
    carry_out(s, made)
    made = plan(s)
    assert (launched(made), drained(made)) == ({}, []), "its place is not free yet"
    gone(s, "i-3")
    made = plan(s)
    assert (launched(made), drained(made)) == ({"ec2/medium": 1}, [])
    carry_out(s, made)
    made = plan(s)
    assert (launched(made), drained(made)) == ({}, []), "it has not joined yet"
    joins(s, 3)
    made = settles(s)
    assert (launched(made), drained(made)) == ({}, ["i-1"])


def test_one_that_has_to_stay_for_want_of_room_counts_in_the_clusters_minimum() -> None:
    """Else one of another pool is launched beside it, for good."""
    s = old_of_two_pools(a_node(State.BUSY, 2, pool="other"), max_vms=1)
    assert launched(settles(s)) == {}
    s = old_of_two_pools(a_node(State.BUSY, 2, pool="other"))
    assert launched(settles(s)) == {"ec2/medium": 1}


def test_a_spare_that_is_too_old_is_replaced_by_another_spare() -> None:
    pool = a_pool(terms=Terms(max_vm_lifetime_s=DAY, min_idle_vms=1))
    made = settles(situation(nodes=[idle()], settings=some_settings(pools=(pool,)), wall=WALL + DAY))
    assert (launched(made), drained(made)) == ({"ec2/medium": 1}, ["i-1"])


# --------------------------------------------------------------------------- image and user data

NEW = a_pool(build="new")


@pytest.mark.parametrize(("build", "goes"), [("old", True), ("new", False), ("", False)])
def test_a_machine_of_another_build_goes_when_idle_and_one_of_an_unknown_build_is_left_alone(
    build: str, goes: bool
) -> None:
    made = plan(situation(nodes=[idle(build=build)], settings=some_settings(pools=(NEW,))))
    assert drained(made) == (["i-1"] if goes else [])
    if goes:
        assert made.drains[0].reason == "made of an image or user data that is no longer configured"


def test_a_busy_machine_of_another_build_works_on_and_takes_jobs() -> None:
    half = a_node(State.BUSY, build="old", seen=a_worker(state=WorkerState.BUSY, free=Resources(2, 4000), jobs=2))
    made = plan(situation(group(waiting=2), nodes=[half], settings=some_settings(pools=(NEW,))))
    assert (launched(made), drained(made)) == ({}, [])


def test_the_replacement_of_an_outdated_machine_comes_first_where_the_minimum_needs_it() -> None:
    s = situation(nodes=[idle(build="old")], settings=some_settings(pools=(NEW,), min_vms=1))
    made = plan(s)
    assert (launched(made), drained(made)) == ({"ec2/medium": 1}, [])
    carry_out(s, made)
    joins(s, 2)
    assert drained(settles(s)) == ["i-1"]


def test_of_machines_that_go_the_outdated_ones_go_before_the_dear_and_the_idle() -> None:
    pools = (replace(NEW, prices={"*": 0.1}), a_pool("dear", prices={"*": 0.5}))
    nodes = [idle(1, 900.0, pool="dear"), idle(2, build="old"), idle(3, 950.0)]
    for min_vms, gone in ((2, ["i-2"]), (1, ["i-2", "i-1"]), (0, ["i-2", "i-1", "i-3"])):
        settings = some_settings(pools=pools, min_vms=min_vms)
        assert drained(plan(situation(nodes=nodes, settings=settings))) == gone


# --------------------------------------------------------------------------- drained pools

TWO = some_settings(pools=(a_pool("a"), a_pool("b")))
OUT = frozenset({"a"})


def test_nothing_is_launched_from_a_drained_pool_and_it_is_told() -> None:
    made = plan(situation(group(waiting=4), settings=TWO, drained=OUT))
    assert launched(made) == {"b/medium": 1}
    made = plan(situation(group(waiting=4), settings=TWO, drained=frozenset({"a", "b"})))
    assert launched(made) == {}
    assert "pool b is being drained" in made.verdicts[0].reason


def test_neither_its_minimum_nor_its_spares_are_launched() -> None:
    settings = some_settings(pools=(a_pool("a", min_vms=2, terms=Terms(min_idle_vms=2)),))
    assert launched(settles(situation(settings=settings, drained=OUT))) == {}


def test_its_idle_machines_end_at_once_below_its_own_minimum_too_and_its_busy_ones_work_on() -> None:
    settings = some_settings(pools=(a_pool("a", min_vms=3, terms=Terms(min_idle_vms=2)), a_pool("b")))
    nodes = [idle(1, pool="a"), idle(2, pool="a"), a_node(State.BUSY, 3, pool="a"), idle(4, pool="b")]
    made = settles(situation(nodes=nodes, settings=settings, drained=OUT))
    assert drained(made) == ["i-1", "i-2"]
    assert {step.reason for step in made.drains} == {"pool a is being drained"}
    assert not any(step.for_good for step in made.drains)


def test_the_clusters_minimum_is_kept_until_another_pool_has_it() -> None:
    settings = replace(TWO, min_vms=1)
    s = situation(nodes=[idle(1, pool="a")], settings=settings, drained=OUT)
    made = plan(s)
    assert (launched(made), drained(made)) == ({"b/medium": 1}, [])
    carry_out(s, made)
    joins(s, 2)
    assert drained(settles(s)) == ["i-1"]


def test_the_room_of_a_drained_pool_is_counted_on_for_nobody() -> None:
    nodes = [idle(1, pool="a"), a_node(State.BOOTING, 2, pool="a")]
    made = plan(situation(group(waiting=4), nodes=nodes, settings=TWO, drained=OUT))
    assert (launched(made), drained(made)) == ({"b/medium": 1}, ["i-1"])


# --------------------------------------------------------------------------- notices

NOTICE = "spot interruption at 12:02"
SPOT = a_pool(markets=("spot", "on-demand"))


def taken(number: int = 1, state: State = State.BUSY, **changed: Any) -> Any:
    """A spot machine that its cloud is about to take."""
    instance = an_instance(f"i-{number}", notice=NOTICE)
    return a_node(state, number, **{"market": "spot", "instance": instance, **changed})


def test_a_busy_machine_that_is_taken_is_drained_peacefully_and_replaced_from_another_offer() -> None:
    s = situation(nodes=[taken()], settings=some_settings(pools=(SPOT,)))
    made = plan(s)
    (step,) = made.drains
    assert (step.node.name, step.for_good, step.taken) == ("i-1", True, True)
    assert step.reason == f"the cloud is about to take it away: {NOTICE}"
    (order,) = made.launches
    assert (str(order.offer), order.count, order.replaces) == ("ec2/medium/on-demand", 1, ("launch.1",))
    assert order.reason == "replaces i-1, which the cloud is about to take away"
    assert [node.name for node in made.noticed] == ["i-1"]


def test_a_worker_that_was_told_itself_is_as_good_a_source() -> None:
    told = a_worker(state=WorkerState.BUSY, notice=NOTICE)
    made = plan(situation(nodes=[a_node(State.BUSY, seen=told, market="spot")], settings=some_settings(pools=(SPOT,))))
    assert (launched(made), drained(made)) == ({"ec2/medium/on-demand": 1}, ["i-1"])


def test_it_is_replaced_once_however_long_it_takes_to_go() -> None:
    s = situation(nodes=[taken()], settings=some_settings(pools=(SPOT,)))
    carry_out(s, replace(plan(s), drains=()))  # its drain was refused
    assert launched(plan(s)) == {}


def test_one_for_which_nothing_could_be_launched_at_first_is_replaced_while_its_last_jobs_run() -> None:
    s = situation(nodes=[taken()], settings=some_settings(pools=(SPOT,)), no_launch="jobs have started since")
    made = plan(s)
    assert (launched(made), drained(made)) == ({}, ["i-1"])
    carry_out(s, made)
    s = replace(s, no_launch="")
    assert plan(s).launches[0].replaces == ("launch.1",)
    (node,) = s.registry
    node.seen = a_worker(state=WorkerState.DRAINED)
    assert launched(plan(s)) == {}, "it has no job any more"


def test_each_that_is_taken_is_replaced() -> None:
    s = situation(nodes=[taken(1), taken(2), a_node(State.BUSY, 3)], settings=some_settings(pools=(SPOT,)))
    made = settles(s)
    assert launched(made) == {"ec2/medium/on-demand": 2}
    assert made.launches[0].replaces == ("launch.1", "launch.2")


def test_an_idle_one_goes_at_once_and_is_not_replaced() -> None:
    made = settles(situation(nodes=[taken(state=State.IDLE)], settings=some_settings(pools=(SPOT,))))
    assert (launched(made), drained(made)) == ({}, ["i-1"])
    assert not made.drains[0].for_good


def test_the_pools_other_offers_come_before_those_of_other_pools() -> None:
    settings = some_settings(pools=(a_pool("first"), SPOT))
    assert launched(plan(situation(nodes=[taken()], settings=settings))) == {"ec2/medium/on-demand": 1}
    health = Health()
    refused(health, Offer("ec2", "medium", "", "on-demand"), "aws", QuotaError("your quota"), NOW)
    made = plan(situation(nodes=[taken()], settings=settings, health=health))
    assert launched(made) == {"first/medium": 1}


def test_where_there_is_no_other_offer_nothing_replaces_it() -> None:
    settings = some_settings(pools=(a_pool(markets=("spot",)),))
    made = plan(situation(nodes=[taken()], settings=settings))
    assert (launched(made), drained(made)) == ({}, ["i-1"])


def test_its_free_room_is_counted_on_for_nobody() -> None:
    half = taken(seen=a_worker(state=WorkerState.BUSY, free=Resources(2, 4000), jobs=2))
    settings = some_settings(pools=(SPOT,), max_vms=1)
    made = plan(situation(group(waiting=1), nodes=[half], settings=settings))
    assert made.verdicts[0].held == 0
    coming = taken(state=State.BOOTING)
    assert plan(situation(group(waiting=1), nodes=[coming], settings=settings)).verdicts[0].held == 0


def test_its_replacement_has_room_for_those_that_wait() -> None:
    made = settles(situation(group(waiting=4), nodes=[taken()], settings=some_settings(pools=(SPOT,))))
    assert launched(made) == {"ec2/medium/on-demand": 1}


@pytest.mark.parametrize(
    "changed", [{"acting": True}, {"retry_at": NOW + 1}, {"site": "dark"}], ids=lambda changed: next(iter(changed))
)
def test_one_that_nothing_may_be_asked_for_now_is_not_drained(changed: dict[str, Any]) -> None:
    assert drained(plan(situation(nodes=[taken(**changed)], settings=some_settings(pools=(SPOT,))))) == []


@pytest.mark.parametrize("where", ["cluster", "pool"])
def test_what_is_to_leave_keeps_up_no_minimum_for_those_that_stay(where: str) -> None:
    """Else another would be launched for the one that was drained."""
    pool = replace(SPOT, min_vms=1 if where == "pool" else 0)
    settings = some_settings(pools=(pool,), min_vms=1 if where == "cluster" else 0, max_vms=2)
    made = settles(situation(nodes=[taken(1), idle(2, 900.0)], settings=settings))
    assert (launched(made), drained(made)) == ({}, ["i-1"])
    out = some_settings(pools=(a_pool("a"), pool), min_vms=1)
    nodes = [a_node(State.BUSY, 1, pool="a"), idle(2, 900.0)]
    made = settles(situation(nodes=nodes, settings=out, drained=OUT))
    assert (launched(made), drained(made)) == ({}, [])


@pytest.mark.parametrize("where", ["cluster", "pool"])
def test_one_machine_replaces_one_that_is_taken_where_the_minimum_needs_it_too(where: str) -> None:
    pool = replace(SPOT, min_vms=1 if where == "pool" else 0)
    made = settles(situation(nodes=[taken()], settings=some_settings(pools=(pool,), min_vms=1)))
    assert launched(made) == {"ec2/medium/on-demand": 1}


def test_a_machine_that_could_not_hold_its_jobs_does_not_replace_it() -> None:
    big = a_pool("big", capacity=Resources(32, 64_000), markets=("spot",))
    seen = a_worker(state=WorkerState.BUSY, total=Resources(32, 64_000), free=Resources(0, 0))
    pools = (big, a_pool("small"), a_pool("larger", capacity=Resources(64, 64_000)))
    made = plan(situation(nodes=[taken(pool="big", seen=seen)], settings=some_settings(pools=pools)))
    assert launched(made) == {"larger/medium": 1}
    made = plan(situation(nodes=[taken(pool="big", seen=seen)], settings=some_settings(pools=pools[:2])))
    assert launched(made) == {}
    half = replace(seen, free=Resources(28, 60_000))
    made = plan(situation(nodes=[taken(pool="big", seen=half)], settings=some_settings(pools=pools[:2])))
    assert launched(made) == {"small/medium": 1}


def test_a_machine_of_the_same_flavour_replaces_it_although_others_offered_a_little_less() -> None:
    registry = Registry()
    registry.add(taken())
    registry.learned["ec2", "medium"] = Resources(4, 7900)
    pool = replace(SPOT, capacity=Resources())
    made = plan(situation(registry=registry, settings=some_settings(pools=(pool,))))
    assert launched(made) == {"ec2/medium/on-demand": 1}


def test_a_registry_without_any_of_them_has_nothing_that_leaves() -> None:
    made = plan(situation(registry=Registry(), settings=some_settings(pools=(OLD, replace(NEW, name="n"), SPOT))))
    assert (launched(made), drained(made), made.noticed) == ({}, [], ())
