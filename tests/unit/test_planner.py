"""What is decided, and the reason that is given for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from elastiq.demand import Standing, Trials, WaitingHistory
from elastiq.health import BOOTS_BEFORE_BREAK, Health
from elastiq.interfaces import AuthError, CapacityError, JobGroup, Jobs, Offer, Pool, QuotaError, Resources, WorkerState
from elastiq.nodes import Registry, State
from elastiq.planner import Plan, plan
from elastiq.refusals import refused
from elastiq.situation import Situation
from elastiq.strangers import Stranger
from tests.unit.values import FOUR, NOW, WALL, a_node, a_pool, a_registry, a_worker, group, situation, some_settings

BIG = Resources(cpus=64, memory_mb=1000)


def launched(plan_: Plan) -> dict[str, int]:
    return {str(order.offer): order.count for order in plan_.launches}


def drained(plan_: Plan) -> list[str]:
    return [step.node.name for step in plan_.drains]


def reason(plan_: Plan, key: str = "g") -> str:
    return next(verdict.reason for verdict in plan_.verdicts if verdict.group.key == key)


def idle(number: int = 1, idle_s: float = 0.0, **changed: Any) -> Any:
    return a_node(State.IDLE, number, idle_s=idle_s, **changed)


# --------------------------------------------------------------------------- when to launch


def test_waiting_jobs_get_as_many_machines_as_hold_them() -> None:
    made = plan(situation(group(waiting=9)))
    assert launched(made) == {"ec2/medium": 3}
    (order,) = made.launches
    assert (order.reason, order.groups) == ("9 waiting jobs of 1 cpu, 1000 MB", {"g": 9})
    assert made.summary == "launch 3 of ec2/medium: 9 waiting jobs of 1 cpu, 1000 MB"


def test_no_job_no_machine() -> None:
    made = plan(situation())
    assert launched(made) == {}
    assert made.summary == "nothing: no job waits, busy machines: 0 of 0"


@pytest.mark.parametrize(("threshold", "waiting", "acts"), [(0, 1, True), (1, 1, True), (5, 4, False), (5, 5, True)])
def test_it_acts_when_waiting_jobs_threshold_jobs_have_waited(threshold: int, waiting: int, acts: bool) -> None:
    made = plan(situation(group(waiting=waiting), settings=some_settings(waiting_jobs_threshold=threshold)))
    assert bool(made.launches) is acts
    if not acts:
        assert reason(made) == "fewer than waiting_jobs_threshold 5 jobs have waited"


def test_the_threshold_is_for_all_groups_together() -> None:
    groups = [group("a", waiting=2), group("b", waiting=3)]
    made = plan(situation(*groups, settings=some_settings(waiting_jobs_threshold=5)))
    assert launched(made) == {"ec2/medium": 2}


def test_jobs_that_nothing_would_run_do_not_count_towards_the_threshold() -> None:
    settings = some_settings(waiting_jobs_threshold=5)
    assert launched(plan(situation(group(waiting=2), group("big", 50, BIG), settings=settings))) == {}
    trials = unserved_trials("ec2")
    made = plan(situation(group("g", 50), group("other", 2), settings=settings, trials=trials))
    assert launched(made) == {}


@pytest.mark.parametrize(("waited_s", "acts"), [(0.0, False), (39.0, False), (40.0, True), (500.0, True)])
def test_jobs_wait_waiting_jobs_time_s_first(waited_s: float, acts: bool) -> None:
    settings = some_settings(waiting_jobs_time_s=40.0)
    made = plan(situation(group(waiting=4), settings=settings, waited_s=waited_s))
    assert bool(made.launches) is acts
    if not acts:
        assert reason(made) == "waiting_jobs_time_s 40 has not passed yet for 4 of them"


def test_of_a_group_only_those_that_have_waited_are_launched_for() -> None:
    history = WaitingHistory(40.0)
    history.observe(NOW - 40, Jobs((group(waiting=4),)))
    history.observe(NOW, Jobs((group(waiting=20),)))
    settings = some_settings(waiting_jobs_time_s=40.0)
    made = plan(situation(group(waiting=20), history=history, settings=settings))
    assert launched(made) == {"ec2/medium": 1}
    assert reason(made) == "waiting_jobs_time_s 40 has not passed yet for 16 of them"


# --------------------------------------------------------------------------- how many


def sized(request: Resources, capacity: Resources, n_jobs_per_vm: int = 3, waiting: int = 12) -> int:
    settings = some_settings(pools=(a_pool(capacity=capacity),), n_jobs_per_vm=n_jobs_per_vm, max_vms=None)
    return sum(launched(plan(situation(group(waiting=waiting, request=request), settings=settings))).values())


def test_n_jobs_per_vm_counts_where_the_machines_cpus_are_not_known() -> None:
    assert sized(Resources(cpus=1), Resources()) == 4
    assert sized(Resources(cpus=8), Resources()) == 4
    assert sized(Resources(), Resources(memory_mb=9000)) == 4


def test_cpus_and_memory_count_where_both_sides_say_them() -> None:
    assert sized(Resources(cpus=1), Resources(cpus=4)) == 3
    assert sized(Resources(cpus=2), Resources(cpus=4)) == 6
    assert sized(Resources(), Resources(cpus=4)) == 3
    assert sized(Resources(cpus=1, memory_mb=6000), Resources(cpus=4, memory_mb=8000)) == 12
    assert sized(Resources(cpus=1, memory_mb=6000), Resources(cpus=4)) == 3
    assert sized(Resources(cpus=1, gpus=1), Resources(cpus=4, gpus=2)) == 6


def test_what_was_learned_from_workers_fills_in_for_what_is_not_configured() -> None:
    registry = Registry()
    registry.learned["ec2", "medium"] = Resources(cpus=2, memory_mb=1)
    settings = some_settings(pools=(a_pool(capacity=Resources(memory_mb=8000)),))
    made = plan(situation(group(waiting=8), registry=registry, settings=settings))
    assert launched(made) == {"ec2/medium": 4}


def test_the_rest_of_a_new_machine_serves_the_next_group() -> None:
    made = plan(situation(group("a", 1, Resources(cpus=3)), group("b", 1, Resources(cpus=1))))
    assert launched(made) == {"ec2/medium": 1}
    assert {v.group.key: (v.launching, v.reason) for v in made.verdicts} == {"a": (1, ""), "b": (1, "")}


# --------------------------------------------------------------------------- what serves already


@pytest.mark.parametrize("state", [State.REQUESTED, State.PENDING, State.BOOTING])
def test_capacity_to_come_is_subtracted(state: State) -> None:
    nodes = [a_node(state, 1), a_node(state, 2)]
    assert launched(plan(situation(group(waiting=9), nodes=nodes))) == {"ec2/medium": 1}
    made = plan(situation(group(waiting=3), nodes=nodes))
    assert (launched(made), reason(made)) == ({}, f"{nodes[0].name} will serve it when it has joined")
    made = plan(situation(group(waiting=3), nodes=[*nodes, idle(3)]))
    assert reason(made) == "i-3 (w3) has free room"


@pytest.mark.parametrize("state", [State.DRAINING, State.TERMINATING, State.LOST, State.FAILED])
def test_what_is_going_serves_nobody(state: State) -> None:
    made = plan(situation(group(waiting=4), nodes=[a_node(state)]))
    assert launched(made) == {"ec2/medium": 1}


def test_free_room_on_workers_is_subtracted_whoever_they_are() -> None:
    half = a_node(State.BUSY, 1)
    half.seen = a_worker("w1", WorkerState.BUSY, free=Resources(2, 4000), jobs=2)
    registry = a_registry(half, idle(2))
    registry.strangers["static"] = Stranger(a_worker("w9", free=Resources(1, 9000)), 0, "a static worker")
    made = plan(situation(group(waiting=7), registry=registry))
    assert (launched(made), reason(made)) == ({}, "worker static has free room")
    assert launched(plan(situation(group(waiting=8), registry=registry))) == {"ec2/medium": 1}


@pytest.mark.parametrize("state", [WorkerState.DRAINING, WorkerState.DRAINED, WorkerState.OTHER])
def test_a_worker_that_takes_no_job_has_no_room(state: WorkerState) -> None:
    node = a_node(State.BUSY, seen=a_worker(state=state, jobs=0, free=FOUR))
    registry = a_registry(node)
    registry.strangers["w9"] = Stranger(a_worker("w9", state), 0)
    assert launched(plan(situation(group(waiting=4), registry=registry))) == {"ec2/medium": 1}


def test_a_machine_that_an_unsettled_view_does_not_show_is_not_replaced() -> None:
    nodes = [a_node(State.BUSY, 1, seen=None), a_node(State.IDLE, 2, seen=None)]
    assert launched(plan(situation(group(waiting=8), nodes=nodes))) == {}
    assert launched(plan(situation(group(waiting=9), nodes=nodes))) == {"ec2/medium": 1}


def test_room_that_stood_unused_for_unused_room_s_counts_no_more_and_one_machine_is_tried() -> None:
    nodes = [idle(1, room_s=300.0), idle(2, room_s=299.0)]
    fresh = plan(situation(group(waiting=8), nodes=nodes, waited_s=299.0))
    assert launched(fresh) == {}
    made = plan(situation(group(waiting=100), nodes=nodes, waited_s=300.0))
    assert launched(made) == {"ec2/medium": 1}
    assert reason(made) == "one machine first: there was room for these jobs that they did not use"
    assert made.launches[0].groups == {"g": 96}, "it is tried on behalf of all that have no room"


def test_the_canary_is_not_followed_before_it_is_known_what_became_of_it() -> None:
    trials = Trials()
    stale = idle(1, room_s=300.0)
    s = situation(group(waiting=100), nodes=[stale], waited_s=900.0, trials=trials)
    (order,) = plan(s).launches
    trials.launched(group(waiting=100), order.groups["g"])
    made = plan(situation(group(waiting=100), nodes=[stale, a_node(State.BOOTING, 2)], trials=trials))
    assert launched(made) == {}
    assert reason(made) == "a machine was launched for it; none of it has started yet"


# --------------------------------------------------------------------------- limits


def full_house(count: int) -> list[Any]:
    """Machines in every state that is not gone, without room for anybody."""
    states = [State.BUSY, State.DRAINING, State.TERMINATING, State.LOST, State.FAILED]
    return [a_node(states[number % 5], number + 1) for number in range(count)]


def test_everything_that_is_not_confirmed_gone_counts_towards_max_vms() -> None:
    settings = some_settings(max_vms=6)
    made = plan(situation(group(waiting=40), nodes=full_house(5), settings=settings))
    assert launched(made) == {"ec2/medium": 1}
    assert reason(made) == "max_vms 6 is reached (6 counted)"
    made = plan(situation(group(waiting=40), nodes=full_house(6), settings=settings))
    assert launched(made) == {}
    assert reason(made) == "max_vms 6 is reached (6 counted)"


def test_requests_that_are_under_way_count_too() -> None:
    nodes = [a_node(state, number) for number, state in enumerate((State.REQUESTED, State.PENDING), 1)]
    made = plan(situation(group(waiting=40), nodes=nodes, settings=some_settings(max_vms=3)))
    assert launched(made) == {"ec2/medium": 1}


def test_a_cluster_above_its_limit_launches_nothing() -> None:
    made = plan(situation(group(waiting=40), nodes=full_house(9), settings=some_settings(max_vms=3)))
    assert launched(made) == {}


def test_no_limit_is_no_limit() -> None:
    made = plan(situation(group(waiting=4000), settings=some_settings(max_vms=None)))
    assert launched(made) == {"ec2/medium": 1000}


@pytest.mark.parametrize(("counts", "machines"), [("owned", 10), ("all", 3)])
def test_machines_of_others_count_only_if_quota_counts_says_all(counts: str, machines: int) -> None:
    settings = some_settings(quota_counts=counts)
    made = plan(situation(group(waiting=400), settings=settings, foreign=7))
    assert launched(made) == {"ec2/medium": machines}


def test_a_pool_keeps_its_own_limit_and_the_rest_goes_to_the_next() -> None:
    settings = some_settings(pools=(a_pool("a", max_vms=3), a_pool("b", max_vms=2)), max_vms=20)
    nodes = [a_node(State.LOST, 1, pool="a"), a_node(State.TERMINATING, 2, pool="a")]
    made = plan(situation(group(waiting=400), nodes=nodes, settings=settings))
    assert launched(made) == {"a/medium": 1, "b/medium": 2}
    assert reason(made) == "max_vms 2 of pool b is reached (2 counted)"


# --------------------------------------------------------------------------- offers


TWO_FLAVOURS = a_pool(flavours=("medium", "large"), networks=("net-1", "net-2"))


def test_offers_are_taken_in_the_order_of_the_configuration() -> None:
    settings = some_settings(pools=(TWO_FLAVOURS, a_pool("later")))
    assert launched(plan(situation(group(), settings=settings))) == {"ec2/medium/net-1": 1}


def test_a_blocked_offer_falls_over_to_the_next_in_the_same_plan() -> None:
    settings = some_settings(pools=(TWO_FLAVOURS, a_pool("later")))
    health = Health()
    expected = ["ec2/medium/net-1", "ec2/medium/net-2", "ec2/large/net-1", "ec2/large/net-2", "later/medium"]
    for offer in expected:
        assert launched(plan(situation(group(), settings=settings, health=health))) == {offer: 1}
        refused(health, Offer(*offer.split("/")), "aws", CapacityError("no room for this"), NOW)
    made = plan(situation(group(), settings=settings, health=health))
    assert launched(made) == {}
    assert reason(made) == "offer later/medium is held back for another 60 s: no room for this"


def test_a_blocked_pool_or_site_blocks_all_its_offers() -> None:
    settings = some_settings(pools=(TWO_FLAVOURS, a_pool("later")))
    health = Health()
    refused(health, Offer("ec2", "medium", "net-1"), "aws", QuotaError("your quota"), NOW)
    assert launched(plan(situation(group(), settings=settings, health=health))) == {"later/medium": 1}
    refused(health, Offer("later", "medium"), "aws", AuthError("bad key"), NOW)
    made = plan(situation(group(), settings=settings, health=health))
    assert (launched(made), reason(made)) == ({}, "site aws is held back for another 60 s: bad key")


def test_a_job_goes_to_the_first_flavour_that_holds_it() -> None:
    settings = some_settings(pools=(a_pool("small"), a_pool("big", capacity=Resources(64, 64_000))))
    made = plan(situation(group("g", 2, BIG), group("h", 1), settings=settings))
    assert launched(made) == {"big/medium": 2, "small/medium": 1}


def test_one_offer_is_asked_once_for_all_that_it_is_for() -> None:
    made = plan(situation(group("a", 8), group("b", 4, Resources(cpus=2)), settings=some_settings(min_vms=1)))
    (order,) = made.launches
    # The machine for min_vms takes two of b; the other two, and then a, need one and two more.
    assert (order.count, order.groups) == (4, {"a": 8, "b": 2})
    assert order.reason == ("min_vms 1; 2 waiting jobs of 2 cpus; 8 waiting jobs of 1 cpu, 1000 MB")


def test_a_site_whose_instances_are_not_known_is_never_launched_from() -> None:
    settings = some_settings(pools=(a_pool("a", site="dark"), a_pool("b")), min_vms=2)
    made = plan(situation(group(waiting=4), settings=settings))
    assert launched(made) == {"b/medium": 2}
    made = plan(situation(group(waiting=4), settings=settings, sites=frozenset()))
    assert launched(made) == {}
    assert reason(made) == "the instances of site aws are not known now"


# --------------------------------------------------------------------------- the breaker


def broken(pool: str = "ec2") -> Health:
    return Health(failed_boots={pool: BOOTS_BEFORE_BREAK})


def test_a_pool_whose_machines_never_join_gets_one_at_a_time() -> None:
    made = plan(situation(group(waiting=40), health=broken()))
    assert launched(made) == {"ec2/medium": 1}
    assert reason(made) == "the last 3 machines of pool ec2 never joined: one at a time until one does"
    made = plan(situation(group(waiting=40), nodes=[a_node(State.BOOTING)], health=broken()))
    assert launched(made) == {}
    made = plan(situation(group(waiting=40), nodes=[a_node(State.FAILED)], health=broken()))
    assert launched(made) == {"ec2/medium": 1}, "it does not come any more"


def test_the_breaker_of_one_pool_is_not_anothers_and_holds_for_min_vms_too() -> None:
    settings = some_settings(pools=(a_pool("a", min_vms=3), a_pool("b", max_vms=2)))
    made = plan(situation(group(waiting=40), settings=settings, health=broken("a")))
    assert launched(made) == {"a/medium": 1, "b/medium": 2}


# --------------------------------------------------------------------------- floors


def test_the_cluster_is_raised_to_min_vms_capacity_to_come_counted() -> None:
    settings = some_settings(min_vms=5)
    nodes = [a_node(State.REQUESTED, 1), a_node(State.BOOTING, 2), idle(3), a_node(State.BUSY, 4)]
    made = plan(situation(nodes=nodes, settings=settings))
    assert launched(made) == {"ec2/medium": 1}
    assert made.launches[0].reason == "min_vms 5"
    assert launched(plan(situation(nodes=[*nodes, idle(5)], settings=settings))) == {}


@pytest.mark.parametrize("state", [State.DRAINING, State.TERMINATING, State.LOST, State.FAILED])
def test_what_is_going_is_no_part_of_min_vms(state: State) -> None:
    made = plan(situation(nodes=[a_node(state)], settings=some_settings(min_vms=1)))
    assert launched(made) == {"ec2/medium": 1}


def test_each_pool_has_its_own_minimum_and_it_counts_for_the_clusters() -> None:
    settings = some_settings(pools=(a_pool("a"), a_pool("b", min_vms=2)), min_vms=3)
    made = plan(situation(settings=settings))
    assert launched(made) == {"b/medium": 2, "a/medium": 1}


def test_max_vms_outweighs_min_vms() -> None:
    nodes = [a_node(State.TERMINATING, number) for number in (1, 2)]
    made = plan(situation(nodes=nodes, settings=some_settings(min_vms=3, max_vms=3)))
    assert launched(made) == {"ec2/medium": 1}


def test_a_minimum_that_one_offer_cannot_give_comes_from_the_next() -> None:
    settings = some_settings(pools=(a_pool("a", max_vms=1), a_pool("b")), min_vms=3)
    assert launched(plan(situation(settings=settings))) == {"a/medium": 1, "b/medium": 2}


@pytest.mark.parametrize("changed", [{"settled": False}, {"no_launch": "the queue could not be read"}])
def test_no_minimum_before_both_sides_are_settled(changed: dict[str, Any]) -> None:
    assert launched(plan(situation(settings=some_settings(min_vms=3), **changed))) == {}


def test_machines_for_the_minimum_serve_waiting_jobs_too() -> None:
    made = plan(situation(group(waiting=8), settings=some_settings(min_vms=2)))
    assert launched(made) == {"ec2/medium": 2}


# --------------------------------------------------------------------------- impossible jobs


def unserved_trials(*refused_by: str) -> Trials:
    trials = Trials()
    trials.launched(group(), 1)
    trials.observe_room({"g": ("i-1 (w1)", frozenset(refused_by))}, 300.0, 300.0)
    return trials


def test_jobs_that_no_offer_fits_are_never_launched_for_and_told_why() -> None:
    made = plan(situation(group(waiting=5, request=BIG)))
    assert launched(made) == {}
    (verdict,) = made.verdicts
    assert not verdict.matchable
    assert verdict.reason == "nothing offered can run it: ec2/medium: asks 64 cpus, the machine has 4"
    assert made.summary.startswith("nothing for 5 jobs of 64 cpus, 1000 MB: nothing offered can run it")


def test_what_the_batch_system_says_of_a_fit_decides() -> None:
    def fits(group: JobGroup, pool: Pool, flavour: str, machine: Resources) -> tuple[bool, str]:
        return False, "Requirements are not met"

    made = plan(situation(group(), fits=fits))
    assert reason(made) == "nothing offered can run it: ec2/medium: Requirements are not met"


def test_jobs_that_are_not_eligible_are_told_and_not_launched_for() -> None:
    made = plan(situation(group(not_eligible="waits for a licence")))
    assert (launched(made), reason(made)) == ({}, "waits for a licence")
    assert not made.verdicts[0].matchable


def test_an_impossible_group_does_not_keep_others_from_their_machines() -> None:
    made = plan(situation(group("big", 5, BIG), group("small", 5)))
    assert launched(made) == {"ec2/medium": 2}


def test_an_unserved_group_is_never_launched_for_again() -> None:
    trials = unserved_trials("ec2")
    assert trials.standing("g") is Standing.UNSERVED
    made = plan(situation(group(waiting=50), trials=trials))
    assert launched(made) == {}
    assert (made.verdicts[0].matchable, "had room for 300 s" in reason(made)) == (False, True)


def test_an_unserved_group_is_tried_once_in_each_other_pool() -> None:
    settings = some_settings(pools=(a_pool("ec2"), a_pool("other")))
    made = plan(situation(group(waiting=50), trials=unserved_trials("ec2"), settings=settings))
    assert launched(made) == {"other/medium": 1}
    assert made.launches[0].groups == {"g": 50}


def test_an_unserved_group_holds_no_room_that_others_could_use() -> None:
    trials = unserved_trials("ec2")
    made = plan(situation(group(waiting=4), nodes=[idle(idle_s=600.0)], trials=trials))
    assert drained(made) == ["i-1"]


def test_a_group_is_launched_for_as_often_as_it_has_jobs_and_not_again_while_none_started() -> None:
    trials = Trials()
    trials.launched(group(waiting=4), 4)
    busy = a_node(State.BUSY, groups={"g": 4})
    assert launched(plan(situation(group(waiting=4), nodes=[busy], trials=trials))) == {}
    assert launched(plan(situation(group(waiting=9), nodes=[busy], trials=trials))) == {"ec2/medium": 2}


def test_a_machine_that_its_group_does_not_use_is_evidence_against_its_pool() -> None:
    trials = Trials()
    trials.launched(group(waiting=4), 4)
    new = idle(1, groups={"g": 4}, room_s=45.0)
    made = plan(situation(group(waiting=4), nodes=[new], trials=trials))
    assert made.unused == {"g": ("i-1 (w1)", frozenset())}
    new.room_s = 300.0
    made = plan(situation(group(waiting=4), nodes=[new], trials=trials))
    assert made.unused == {"g": ("i-1 (w1)", frozenset({"ec2"}))}


@pytest.mark.parametrize(
    "changed",
    [
        {"groups": {}},
        {"groups": {"other": 4}},
        {"seen": a_worker("w1", WorkerState.BUSY)},
        {"seen": a_worker("w1", WorkerState.OTHER)},
        {"seen": None},
    ],
    ids=["launched for nobody", "for others", "it is full", "it takes no job", "it was not seen"],
)
def test_what_is_no_evidence_against_a_group(changed: dict[str, Any]) -> None:
    trials = Trials()
    trials.launched(group(waiting=4), 4)
    node = idle(1, room_s=900.0, **{"groups": {"g": 4}, **changed})
    made = plan(situation(group(waiting=4), nodes=[node, idle(2, room_s=900.0)], trials=trials))
    assert made.unused == {}


def test_a_machine_that_turned_out_too_small_is_evidence_too() -> None:
    trials = Trials()
    trials.launched(group(), 1)
    small = Resources(cpus=0.5, memory_mb=100)
    node = idle(1, room_s=900.0, groups={"g": 1}, seen=a_worker(total=small, free=small))
    made = plan(situation(group(), nodes=[node], trials=trials))
    assert made.unused == {"g": ("i-1 (w1)", frozenset({"ec2/medium"}))}


def test_a_flavour_that_turned_out_too_small_keeps_no_job_from_the_larger_ones_of_its_pool() -> None:
    settings = some_settings(pools=(a_pool(flavours=("medium", "large"), capacity=Resources()), a_pool("other")))
    made = plan(situation(group(waiting=2), trials=unserved_trials("ec2/medium"), settings=settings))
    assert launched(made) == {"ec2/large": 1}
    trials = unserved_trials("ec2/medium", "ec2/large", "other")
    made = plan(situation(group(waiting=2), trials=trials, settings=settings))
    assert (launched(made), made.verdicts[0].matchable) == ({}, False)


def test_a_machine_that_a_group_refused_before_is_not_kept_for_it_while_another_is_tried() -> None:
    settings = some_settings(pools=(a_pool(), a_pool("other")))
    trials = unserved_trials("ec2")
    trials.launched(group(), 1)
    old = idle(1, idle_s=600.0, room_s=900.0, groups={"g": 1})
    coming = a_node(State.BOOTING, 2, pool="other", groups={"g": 1})
    made = plan(situation(group(), nodes=[old, coming], trials=trials, settings=settings))
    assert (drained(made), launched(made), made.unused) == (["i-1"], {}, {})


def test_a_machine_under_trial_is_not_drained_before_the_verdict() -> None:
    trials = Trials()
    trials.launched(group(waiting=4), 4)
    static = Stranger(a_worker("w9"), 0, "a static worker")  # which the group is believed to use first
    registry = a_registry(idle(1, groups={"g": 4}, idle_s=900.0))
    registry.strangers["w9"] = static
    assert drained(plan(situation(group(waiting=4), registry=registry, trials=trials))) == []
    assert drained(plan(situation(registry=registry, trials=trials))) == ["i-1"]


# --------------------------------------------------------------------------- scale down


def test_a_machine_that_was_idle_for_idle_for_time_s_is_drained() -> None:
    made = plan(situation(nodes=[idle(1, 599.0), idle(2, 600.0)]))
    assert drained(made) == ["i-2"]
    assert made.drains[0].reason == "idle for 600 s"
    assert made.summary == "drain i-2: idle for 600 s"


def test_the_longest_idle_go_first_and_never_more_than_down_to_min_vms() -> None:
    nodes = [idle(1, 700.0), idle(2, 900.0), idle(3, 800.0)]
    assert drained(plan(situation(nodes=nodes))) == ["i-2", "i-3", "i-1"]
    assert drained(plan(situation(nodes=nodes, settings=some_settings(min_vms=1)))) == ["i-2", "i-3"]
    assert drained(plan(situation(nodes=nodes, settings=some_settings(min_vms=3)))) == []
    nodes.append(a_node(State.BUSY, 4))
    assert drained(plan(situation(nodes=nodes, settings=some_settings(min_vms=3)))) == ["i-2"]


@pytest.mark.parametrize(
    "state", [State.REQUESTED, State.BOOTING, State.DRAINING, State.LOST, State.FAILED, State.TERMINATING]
)
def test_what_is_not_in_service_does_not_keep_up_the_minimum(state: State) -> None:
    nodes = [idle(1, 900.0), a_node(state, 2)]
    assert drained(plan(situation(nodes=nodes, settings=some_settings(min_vms=1)))) == []


def test_a_pool_keeps_its_minimum() -> None:
    settings = some_settings(pools=(a_pool("a", min_vms=1), a_pool("b")))
    nodes = [idle(1, 900.0, pool="a"), idle(2, 800.0, pool="a"), idle(3, 700.0, pool="b")]
    assert drained(plan(situation(nodes=nodes, settings=settings))) == ["i-1", "i-3"]


def test_a_machine_that_is_reserved_for_waiting_jobs_stays() -> None:
    nodes = [idle(1, 900.0), idle(2, 900.0)]
    settings = some_settings(waiting_jobs_time_s=1000.0)
    assert drained(plan(situation(group(waiting=3), nodes=nodes, settings=settings))) == ["i-2"]


@pytest.mark.parametrize(
    "changed",
    [
        {"acting": True},
        {"retry_at": NOW + 1},
        {"seen": None},
        {"seen": a_worker(state=WorkerState.OTHER)},
        {"seen": a_worker(state=WorkerState.DRAINED)},
        {"site": "dark"},
        {"state": State.BUSY},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_is_not_drained_however_idle_it_is(changed: dict[str, Any]) -> None:
    assert drained(plan(situation(nodes=[replace(idle(1, 9000.0), **changed)]))) == []


def test_idle_machines_of_a_pool_that_is_no_longer_configured_are_drained_at_once() -> None:
    made = plan(situation(nodes=[idle(1, 0.0, pool="old"), a_node(State.BUSY, 2, pool="old")]))
    assert drained(made) == ["i-1"]
    assert made.drains[0].reason == "pool old is no longer configured"
    made = plan(situation(nodes=[idle(1, 0.0, pool="old")], settings=some_settings(min_vms=1)))
    assert drained(made) == []


def test_nothing_is_drained_failed_or_ended_while_that_is_out_of_the_question() -> None:
    nodes = [
        idle(1, 9000.0),
        a_node(State.BOOTING, 2, boot_s=9000.0),
        a_node(State.FAILED, 3),
        a_node(State.LOST, 4, lost_s=9000.0),
    ]
    made = plan(situation(nodes=nodes, no_end="the workers could not be read"))
    assert (made.drains, made.failed, made.ends) == ((), (), ())
    made = plan(situation(nodes=nodes))
    assert [len(steps) for steps in (made.drains, made.failed, made.ends)] == [1, 1, 2]


def test_nothing_is_launched_while_that_is_out_of_the_question_and_it_is_told() -> None:
    made = plan(situation(group(waiting=4), no_launch="the store cannot be written"))
    assert (launched(made), reason(made)) == ({}, "the store cannot be written")
    made = plan(situation(jobs=None, no_launch="the queue was not read yet"))
    assert (launched(made), made.summary) == ({}, "nothing: the queue was not read yet")


# --------------------------------------------------------------------------- machines that serve nobody


@pytest.mark.parametrize("state", [State.PENDING, State.BOOTING])
def test_a_machine_that_has_not_joined_by_its_deadline_has_failed(state: State) -> None:
    assert plan(situation(nodes=[a_node(state, boot_s=599.0)])).failed == ()
    (step,) = plan(situation(nodes=[a_node(state, boot_s=600.0)])).failed
    assert step.reason == "did not join within estimated_vm_deploy_time_s 600"


def test_a_failed_machine_is_ended_and_a_lost_one_after_lost_after_s() -> None:
    failed = a_node(State.FAILED, 1, reason="did not join")
    nodes = [failed, a_node(State.LOST, 2, lost_s=899.0), a_node(State.LOST, 3, lost_s=900.0)]
    made = plan(situation(nodes=nodes))
    assert [(step.node.name, step.reason) for step in made.ends] == [
        ("i-1", "did not join"),
        ("i-3", "its worker has been missing for 900 s, if no job is recorded there"),
    ]


def test_a_failed_machine_whose_worker_reports_is_not_ended() -> None:
    assert plan(situation(nodes=[a_node(State.FAILED, seen=a_worker())])).ends == ()


def test_a_failed_machine_is_ended_only_by_a_look_that_began_after_it_failed() -> None:
    node = a_node(State.FAILED, act_ended=NOW - 10)
    assert plan(situation(nodes=[node], workers_began=NOW - 20)).ends == ()
    assert len(plan(situation(nodes=[node], workers_began=NOW - 5)).ends) == 1


@pytest.mark.parametrize("changed", [{"site": "dark"}, {"acting": True}, {"retry_at": NOW + 1}])
def test_what_is_not_known_now_or_is_being_dealt_with_is_not_ended(changed: dict[str, Any]) -> None:
    nodes = [
        a_node(State.FAILED, 1, **changed),
        a_node(State.LOST, 2, lost_s=900.0, **changed),
        a_node(State.BOOTING, 3, boot_s=600.0, **changed),
    ]
    made = plan(situation(nodes=nodes))
    assert (made.failed, made.ends) == ((), ())


@pytest.mark.parametrize(("explained", "ended"), [("", 0), ("a static worker", 3)])
def test_a_worker_that_matches_nothing_puts_every_end_in_doubt(explained: str, ended: int) -> None:
    registry = a_registry(
        a_node(State.FAILED, 1), a_node(State.LOST, 2, lost_s=900.0), a_node(State.BOOTING, 3, boot_s=600.0)
    )
    registry.strangers["w9"] = Stranger(a_worker("w9"), registry.next_number(), explained)
    made = plan(situation(registry=registry))
    assert len(made.failed) + len(made.ends) == ended


def test_a_worker_that_was_there_before_a_machine_is_not_that_machine() -> None:
    registry = Registry()
    registry.strangers["w9"] = Stranger(a_worker("w9"), registry.next_number())
    registry.add(a_node(State.BOOTING, boot_s=600.0))
    assert len(plan(situation(registry=registry)).failed) == 1


# --------------------------------------------------------------------------- everything is explained

REQUESTS = [Resources(), Resources(cpus=1), Resources(cpus=3, memory_mb=1000), BIG]
some_groups = st.lists(
    st.tuples(st.sampled_from(REQUESTS), st.integers(1, 30), st.sampled_from(["", "", "", "held"])), max_size=5
)
some_states = st.lists(st.sampled_from([state for state in State if state is not State.GONE]), max_size=6)
some_pools = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 3]),
        st.sampled_from(["aws", "dark"]),
        st.sampled_from([FOUR, Resources(), Resources(cpus=1)]),
        st.sampled_from([0, 0, 2]),
    ),
    max_size=3,
)


@hypothesis_settings(deadline=None, max_examples=300)
@given(
    groups=some_groups,
    states=some_states,
    pools=some_pools,
    max_vms=st.sampled_from([None, 0, 1, 3, 8]),
    min_vms=st.integers(0, 3),
    threshold=st.sampled_from([0, 3, 20]),
    waited_s=st.sampled_from([0.0, 50.0, 400.0]),
    standing=st.sampled_from([None, "trying", "unserved"]),
    no_launch=st.sampled_from(["", "", "the store cannot be written"]),
    broken_pool=st.booleans(),
    blocked=st.booleans(),
    stale=st.booleans(),
)
def test_limits_hold_and_every_group_that_is_not_served_has_a_reason(
    groups: list[tuple[Resources, int, str]],
    states: list[State],
    pools: list[tuple[Optional[int], str, Resources, int]],
    max_vms: Optional[int],
    min_vms: int,
    threshold: int,
    waited_s: float,
    standing: Optional[str],
    no_launch: str,
    broken_pool: bool,
    blocked: bool,
    stale: bool,
) -> None:
    made_of = tuple(
        a_pool(f"p{number}", max_vms=limit, site=site, capacity=capacity, min_vms=least)
        for number, (limit, site, capacity, least) in enumerate(pools)
    )
    settings = some_settings(
        pools=made_of, max_vms=max_vms, min_vms=min_vms, waiting_jobs_threshold=threshold, waiting_jobs_time_s=40.0
    )
    health = broken("p0") if broken_pool else Health()
    if blocked:
        refused(health, Offer("p1", "medium"), "aws", CapacityError("no room"), NOW)
    trials = Trials()
    if standing:
        trials.launched(group("g0"), 2)
        if standing == "unserved":
            trials.observe_room({"g0": ("w1", frozenset({"p0"}))}, 300.0, 300.0)
    s = situation(
        *(group(f"g{n}", count, ask, not_eligible=held) for n, (ask, count, held) in enumerate(groups)),
        nodes=[
            a_node(state, number, pool=f"p{number % 2}", room_s=900.0 if stale else 0.0, idle_s=900.0)
            for number, state in enumerate(states, 1)
        ],
        settings=settings,
        waited_s=waited_s,
        trials=trials,
        health=health,
        no_launch=no_launch,
    )
    judge(s, plan(s))


def judge(s: Situation, made: Plan) -> None:
    settings = s.settings
    total = sum(order.count for order in made.launches)
    assert all(order.count > 0 and order.reason for order in made.launches)
    assert not (s.no_launch and total)
    if settings.max_vms is not None:
        assert total <= max(0, settings.max_vms - len(s.registry))
    for pool in settings.pools:
        of_pool = sum(order.count for order in made.launches if order.offer.pool == pool.name)
        if pool.max_vms is not None:
            assert of_pool <= max(0, pool.max_vms - s.registry.count(pool.name))
        assert not (of_pool and pool.site not in s.sites)
        if s.health.breaker(pool.name):
            assert of_pool <= 1
    waiting = [g for g in (s.jobs.groups if s.jobs else ()) if g.waiting]
    assert sorted(v.group.key for v in made.verdicts) == sorted(g.key for g in waiting)
    for verdict in made.verdicts:
        assert verdict.held >= 0
        assert verdict.launching >= 0
        if verdict.held + verdict.launching < verdict.group.waiting:
            assert verdict.reason, verdict
        elif not verdict.launching:
            assert verdict.reason, verdict
    in_service = s.registry.count(None, frozenset({State.IDLE, State.BUSY}))
    assert len(made.drains) <= max(0, in_service - settings.min_vms)
    assert made.summary


@pytest.mark.parametrize(
    ("waiting", "cpus", "said"),
    [(1, 1, "1 waiting job of 1 cpu, 1048576 MB, 1 gpu"), (3, 2, "3 waiting jobs of 2 cpus, 1048576 MB, 1 gpu")],
)
def test_one_is_no_plural_and_a_terabyte_is_a_number(waiting: int, cpus: int, said: str) -> None:
    request = Resources(cpus=cpus, memory_mb=2**20, gpus=1)
    large = a_pool(capacity=Resources(cpus=8, memory_mb=2**22, gpus=8))
    made = plan(situation(group(waiting=waiting, request=request), settings=some_settings(pools=(large,))))
    assert [order.reason for order in made.launches] == [said]


def test_the_summary_names_the_largest_group_that_is_not_served() -> None:
    groups = [group("a", 3, BIG), group("b", 7, Resources(cpus=32)), group("c", 5, Resources(cpus=16)), group("d", 1)]
    made = plan(situation(*groups, nodes=[idle()]))
    assert made.summary.startswith("nothing for 7 jobs of 32 cpus: nothing offered can run it")


# --------------------------------------------------------------------------- machines that were found


@pytest.mark.parametrize(
    ("running", "on_workers", "ended"), [(4, 0, False), (5, 4, False), (4, 4, True), (0, 0, True), (None, 4, False)]
)
def test_a_machine_that_was_found_is_not_ended_while_jobs_run_that_no_worker_shows(
    running: Optional[int], on_workers: int, ended: bool
) -> None:
    """After the state was lost, one that is cut off has a name that nobody knows: the queue cannot be asked for it."""
    found = a_node(State.BOOTING, 1, id="i-1", boot_s=9000.0)
    launched_here = a_node(State.BOOTING, 2, boot_s=9000.0)
    stranger = Stranger(a_worker("w9", WorkerState.BUSY, jobs=on_workers), 1, "a static worker")
    registry = a_registry(found, launched_here)
    if on_workers:
        registry.strangers["w9"] = stranger
    made = plan(situation(group(waiting=0, running=running), registry=registry))
    assert [step.node.name for step in made.failed] == (["i-1", "i-2"] if ended else ["i-2"])
    assert [step.node.name for step in made.kept] == ([] if ended else ["i-1"])


def test_a_machine_that_was_found_without_a_pool_ends_as_any_other() -> None:
    """Its tags were refused and the state was lost: that is no configuration without its pool."""
    assert drained(plan(situation(nodes=[idle(1, pool="", idle_s=599.0), idle(2, pool="gone", idle_s=0.0)]))) == ["i-2"]
    made = plan(situation(nodes=[idle(1, pool="", idle_s=600.0)]))
    assert [step.reason for step in made.drains] == ["idle for 600 s"]


# --------------------------------------------------------------------------- jobs of several machines


def parallel(waiting: int, nodes: int, cpus: float = 4, apart: bool = False) -> JobGroup:
    return JobGroup("p", Resources(cpus=cpus, memory_mb=1000 * cpus), waiting, running=0, nodes=nodes, apart=apart)


def test_a_parallel_job_gets_as_many_machines_as_it_needs_or_none() -> None:
    made = plan(situation(parallel(2, nodes=3)))
    assert (launched(made), made.verdicts[0].launching) == ({"ec2/medium": 6}, 2)
    made = plan(situation(parallel(2, nodes=3), settings=some_settings(max_vms=5)))
    assert (launched(made), made.verdicts[0].launching) == ({"ec2/medium": 3}, 1)
    made = plan(situation(parallel(1, nodes=3), settings=some_settings(max_vms=2)))
    assert launched(made) == {}
    assert reason(made, "p") == "max_vms 2 is reached (0 counted)"


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_has_to_be_apart_gets_machines_of_its_own_however_little_it_asks_for(jobs: int) -> None:
    assert launched(plan(situation(parallel(jobs, nodes=3, cpus=1)))) == {"ec2/medium": -(-3 * jobs // 4)}
    assert launched(plan(situation(parallel(jobs, nodes=3, cpus=1, apart=True)))) == {"ec2/medium": 3 * jobs}
    assert launched(plan(situation(parallel(3 * jobs, nodes=1, cpus=1, apart=True)))) == {"ec2/medium": 3 * jobs}
    two = [a_node(State.IDLE, number, seen=a_worker(f"w{number}")) for number in (1, 2)]
    made = plan(situation(parallel(jobs, nodes=2, cpus=1, apart=True), nodes=two))
    assert launched(made) == ({} if jobs == 1 else {"ec2/medium": 2})


def test_room_serves_a_parallel_job_only_if_there_is_enough_of_it() -> None:
    two = [a_node(State.IDLE, number, seen=a_worker(f"w{number}")) for number in (1, 2)]
    assert launched(plan(situation(parallel(1, nodes=2), nodes=two))) == {}
    assert launched(plan(situation(parallel(1, nodes=3), nodes=two))) == {"ec2/medium": 3}


def test_a_machine_that_is_claimed_for_a_parallel_job_until_the_others_join_serves_it() -> None:
    claimed = a_node(State.BUSY, 1, seen=a_worker("w1", WorkerState.BUSY), groups={"p": 1}, joined_at=WALL - 60.0)
    made = plan(situation(parallel(1, nodes=2), nodes=[claimed]))
    assert launched(made) == {}
    long_ago = a_node(State.BUSY, 1, seen=a_worker("w1", WorkerState.BUSY), groups={"p": 1}, joined_at=WALL - 900.0)
    assert launched(plan(situation(parallel(1, nodes=2), nodes=[long_ago]))) == {"ec2/medium": 2}


def test_a_parallel_job_whose_machines_are_of_two_kinds_counts_once() -> None:
    pools = (a_pool("a", max_vms=1), a_pool("b", max_vms=1))
    made = plan(situation(parallel(1, nodes=2), settings=some_settings(pools=pools)))
    assert launched(made) == {"a/medium": 1, "b/medium": 1}
    assert sum(order.groups["p"] for order in made.launches) == 1


@pytest.mark.parametrize(("running", "kept"), [(1, True), (0, False)])
def test_a_machine_that_booted_while_nobody_looked_is_kept_while_jobs_run_that_no_worker_shows(
    running: int, kept: bool
) -> None:
    registry = Registry()
    registry.restore([a_node(State.BOOTING, boot_s=9000.0)], {})
    made = plan(situation(group(waiting=0, running=running), registry=registry))
    assert ([step.node.name for step in made.kept], len(made.failed)) == ((["i-1"], 0) if kept else ([], 1))
    later = registry.add(a_node(State.BOOTING, 2, boot_s=9000.0))
    assert [step.node for step in plan(situation(group(waiting=0, running=1), registry=registry)).failed] == [later]
