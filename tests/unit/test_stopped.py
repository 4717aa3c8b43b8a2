"""What a plan makes of machines that are stopped: they count, cost nothing, serve nobody, and are started first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elastiq.cli.view import STATES
from elastiq.health import Block, Health
from elastiq.interfaces import InstanceState, Offer, Resources, Terms
from elastiq.limits import Ledger, hourly
from elastiq.nodes import Node, State
from elastiq.planner import plan
from elastiq.simulation.view import LOOKS
from elastiq.situation import Plan, Situation
from tests.unit.plans import drained, launched
from tests.unit.test_explain import lines_of, of_group, of_node
from tests.unit.values import FOUR, NOW, WALL, a_node, a_pool, a_worker, an_instance, group, situation, some_settings

STOP = Terms(idle_action="stop")
POOL = a_pool(terms=STOP)
SIXTEEN = Resources(cpus=16, memory_mb=32000)
OFFER = Offer("ec2", "medium", "", "stopped")


def stopped(number: int = 1, **changed: Any) -> Node:
    there = an_instance(f"i-{number}", InstanceState.STOPPED)
    return a_node(State.STOPPED, number, **{"instance": there, "was_stopped": True, **changed})


def stopping(number: int = 1) -> Node:
    """Its stop was asked for, and is not confirmed."""
    return stopped(number, instance=an_instance(f"i-{number}", InstanceState.STOPPING), worker=f"w{number}")


def of(*groups: Any, nodes: Any, pools: Any = (POOL,), **changed: Any) -> Situation:
    settings = {name: changed.pop(name) for name in list(changed) if name in vars(some_settings())}
    return situation(*groups, nodes=nodes, settings=some_settings(pools=pools, **settings), **changed)


def ended(made: Plan) -> dict[str, str]:
    return {step.node.name: step.reason for step in made.ends}


# --------------------------------------------------------------------------- starting


def test_stopped_machines_are_started_before_any_is_launched() -> None:
    made = plan(of(group(waiting=12), nodes=[stopped(1), stopped(2)]))
    assert launched(made) == {"ec2/medium/stopped": 2, "ec2/medium": 1}
    assert made.launches[0].groups == {"g": 8}
    assert made.summary.startswith("start 2 of ec2/medium/stopped: 12 waiting jobs of 1 cpu, 1000 MB; launch 1 of")


def test_without_jobs_nothing_is_started() -> None:
    made = plan(of(nodes=[stopped()]))
    assert (launched(made), drained(made), ended(made)) == ({}, [], {})


@pytest.mark.parametrize(
    ("prices", "first"),
    [
        ({"medium": 1.0, "other": 1.0}, "ec2/medium/stopped"),
        ({"medium": 1.0, "other": 0.5}, "ec2/other"),
        ({"medium": 0.5, "other": 1.0}, "ec2/medium/stopped"),
    ],
)
def test_among_equal_prices_a_stopped_machine_comes_first(prices: Any, first: str) -> None:
    pool = replace(POOL, flavours=("other", "medium"), prices=prices)
    assert launched(plan(of(group(waiting=4), nodes=[stopped()], pools=(pool,)))) == {first: 1}


def test_among_equal_prices_of_several_sizes_too() -> None:
    pools = (
        replace(POOL, prices={"*": 1.0}),
        a_pool("large", flavours=("large",), capacity=SIXTEEN, prices={"*": 4.0}),
    )
    assert launched(plan(of(group(waiting=4), nodes=[stopped()], pools=pools))) == {"ec2/medium/stopped": 1}


def test_a_price_of_the_market_on_demand_is_that_of_a_stopped_machine() -> None:
    pool = replace(POOL, markets=("on-demand",), prices={"*/on-demand": 2.0, "*/spot": 1.0})
    assert pool.price("medium", "stopped") == 2.0
    s = of(group(waiting=12), nodes=[stopped(n, market="on-demand") for n in (1, 2, 3)], pools=(pool,))
    s = replace(s, settings=replace(s.settings, max_cost_per_hour=5.0))
    allowances = Ledger(None, NOW, WALL).allowances(s.settings, s.registry, NOW)
    assert launched(plan(replace(s, allowances=allowances))) == {"ec2/medium/stopped": 2}


def test_an_hour_has_so_many_starts_and_launches_together() -> None:
    s = of(group(waiting=40), nodes=[stopped(1), stopped(2)], max_launches_per_hour=3)
    allowances = Ledger(None, NOW, WALL).allowances(s.settings, s.registry, NOW)
    assert launched(plan(replace(s, allowances=allowances))) == {"ec2/medium/stopped": 2, "ec2/medium": 1}


def test_a_ledger_that_is_begun_counts_the_starts_of_the_hour() -> None:
    history = [(WALL - 60.0, "start", "i-1", "ec2", "2 of ec2/medium/stopped: jobs")]
    settings = some_settings(max_launches_per_hour=3)
    (left,) = Ledger(None, NOW, WALL, history).allowances(settings, of(nodes=[]).registry, NOW)
    assert left.left == 1


def test_a_pool_whose_boots_fail_gets_one_start_at_a_time() -> None:
    s = of(group(waiting=40), nodes=[stopped(1), stopped(2)], health=Health(failed_boots={"ec2": 3}))
    assert sum(launched(plan(s)).values()) == 1


def test_while_a_start_is_held_back_new_machines_are_launched() -> None:
    health = Health(blocks={f"offer {OFFER}": Block(NOW + 30.0, 60.0, "no capacity")})
    made = plan(of(group(waiting=4), nodes=[stopped()], health=health))
    assert (launched(made), ended(made)) == ({"ec2/medium": 1}, {})


@pytest.mark.parametrize(
    "changed",
    [
        {"instance": an_instance(state=InstanceState.STOPPING)},
        {"instance": None},
        {"acting": True},
        {"retry_at": NOW + 1},
        {"seen": a_worker()},
        {"worker": "w1"},
    ],
    ids=["stopping", "not listed yet", "asked for", "later", "its ad is there", "not forgotten"],
)
def test_only_what_is_surely_stopped_and_forgotten_is_started(changed: Any) -> None:
    assert launched(plan(of(group(waiting=4), nodes=[stopped(**changed)]))) == {"ec2/medium": 1}


def test_a_minimum_and_a_hot_spare_are_made_of_stopped_machines_first() -> None:
    pool = replace(POOL, min_vms=1, terms=replace(STOP, min_idle_vms=2))
    assert launched(plan(of(nodes=[stopped(1), stopped(2)], pools=(pool,)))) == {"ec2/medium/stopped": 2}


def test_a_stopped_machine_takes_the_place_of_one_that_the_cloud_is_about_to_take() -> None:
    taken = a_node(State.BUSY, 2, instance=an_instance("i-2", notice="retired"), market="spot")
    made = plan(of(nodes=[stopped(), taken]))
    assert [(str(order.offer), order.replaces) for order in made.launches] == [("ec2/medium/stopped", ("launch.2",))]


def test_the_load_of_a_pool_is_that_of_its_machines_that_run() -> None:
    pools = (replace(POOL, max_vms=10), a_pool("other", max_vms=10))
    nodes = [stopped(number) for number in range(1, 6)]
    made = plan(of(group(waiting=4), nodes=nodes, pools=pools, policy=("balance",), max_vms=20))
    assert launched(made) == {"ec2/medium/stopped": 1}


# --------------------------------------------------------------------------- counting


def test_stopped_machines_count_in_max_vms() -> None:
    other = a_pool("other", flavours=("large",), capacity=SIXTEEN)
    made = plan(of(group(waiting=12), nodes=[stopped(), stopping(2)], pools=(POOL,), max_vms=3))
    assert launched(made) == {"ec2/medium/stopped": 1, "ec2/medium": 1}
    made = plan(of(group(waiting=12), nodes=[stopping(1), stopping(2)], pools=(replace(POOL, max_vms=2), other)))
    assert launched(made) == {"other/large": 1}


def test_a_stopped_machine_costs_nothing_once_that_is_confirmed() -> None:
    settings = some_settings(pools=(replace(POOL, prices={"*": 2.0}),))
    assert hourly(settings, [stopped(), a_node()]) == 2.0
    assert hourly(settings, [stopping(), a_node()]) == 4.0


def test_a_stopped_machine_is_no_part_of_the_minimum_and_keeps_none_idle() -> None:
    idle = [a_node(State.IDLE, 2, idle_s=900.0)]
    assert drained(plan(of(nodes=[stopped(), *idle], min_vms=1))) == []
    assert drained(plan(of(nodes=[stopped(), *idle]))) == ["i-2"]


# --------------------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("changed", "pool", "why"),
    [
        ({"build": "old"}, replace(POOL, build="new"), "made of an image or user data that is no longer configured"),
        ({"created_at": WALL - 100}, a_pool(terms=replace(STOP, max_vm_lifetime_s=100.0)), "older than max_vm_life"),
        ({}, a_pool(), "idle_action is not stop any more"),
        ({}, a_pool("other"), "pool ec2 is no longer configured"),
        ({"failures": 3}, POOL, "could not be started 3 times"),
        ({"instance": an_instance(state=InstanceState.ERROR)}, POOL, "the cloud says error"),
    ],
)
def test_what_is_not_to_be_started_again_is_ended(changed: Any, pool: Any, why: str) -> None:
    made = plan(of(group(waiting=1), nodes=[stopped(**changed)], pools=(pool,)))
    assert ended(made)["i-1"].startswith(why)
    assert "stopped" not in str(launched(made))


def test_the_stopped_machines_of_a_pool_that_is_being_drained_are_ended() -> None:
    made = plan(of(nodes=[stopped()], drained=frozenset({"ec2"})))
    assert ended(made) == {"i-1": "pool ec2 is being drained"}


@pytest.mark.parametrize("changed", [{"no_end": "the queue is not known"}, {"sites": frozenset()}])
def test_nothing_is_ended_while_that_is_out_of_the_question(changed: Any) -> None:
    assert ended(plan(of(nodes=[stopped(failures=3)], **changed))) == {}


def test_a_machine_whose_stop_is_not_confirmed_is_left_alone() -> None:
    assert ended(plan(of(nodes=[stopping()], pools=(a_pool(),)))) == {}


LARGE = a_pool("large", flavours=("large",), capacity=SIXTEEN)
BIG = Resources(cpus=16, memory_mb=1000)
IN_ITS_PLACE = "stopped, and another kind of machine is needed in its place"


def test_stopped_machines_make_way_for_as_many_of_another_kind_as_are_needed() -> None:
    nodes = [stopped(number) for number in (1, 2, 3)]
    made = plan(of(group(waiting=2, request=BIG), nodes=nodes, pools=(POOL, LARGE), max_vms=3))
    assert (launched(made), ended(made)) == ({}, {"i-1": IN_ITS_PLACE, "i-2": IN_ITS_PLACE})


def test_no_more_make_way_while_the_first_ones_are_being_ended() -> None:
    nodes = [stopped(1), a_node(State.TERMINATING, 2), a_node(State.TERMINATING, 3)]
    assert ended(plan(of(group(waiting=2, request=BIG), nodes=nodes, pools=(POOL, LARGE), max_vms=3))) == {}


def test_none_makes_way_in_a_pool_that_does_not_hinder() -> None:
    """Their own pool is full, but the jobs go to another, which only has no capacity now."""
    health = Health(blocks={"pool large": Block(NOW + 30.0, 60.0, "no capacity")})
    pools = (replace(POOL, max_vms=1), LARGE)
    assert ended(plan(of(group(waiting=1, request=BIG), nodes=[stopped()], pools=pools, health=health))) == {}


def test_a_full_pool_makes_way_for_another_flavour_of_its_own() -> None:
    pool = replace(POOL, flavours=("medium", "large"), capacity=Resources(), max_vms=1)
    s = of(group(waiting=1, request=BIG), nodes=[stopped()], pools=(pool,))
    s.registry.catalogue.update({("aws", "medium"): FOUR, ("aws", "large"): SIXTEEN})
    assert ended(plan(s)) == {"i-1": IN_ITS_PLACE}


@pytest.mark.parametrize(
    "changed",
    [
        {"no_launch": "cooldown_after_launch_s 60 goes on for 1 s"},
        {"waiting_jobs_time_s": 60.0},
        {"waiting_jobs_threshold": 2},
        {"max_vms": 4},
    ],
    ids=["cool-down", "young jobs", "few jobs", "room"],
)
def test_none_makes_way_while_no_machine_is_wanted_or_there_is_room(changed: Any) -> None:
    changed = {"max_vms": 1, **changed}
    assert ended(plan(of(group(waiting=1, request=BIG), nodes=[stopped()], pools=(POOL, LARGE), **changed))) == {}


def test_none_makes_way_for_jobs_that_it_can_run_itself() -> None:
    made = plan(of(group(waiting=40), nodes=[stopped(1), stopping(2)], pools=(POOL, LARGE), max_vms=2))
    assert (launched(made), ended(made)) == ({"ec2/medium/stopped": 1}, {})


def test_none_makes_way_for_jobs_that_nothing_can_run() -> None:
    impossible = group(waiting=1, request=Resources(cpus=64))
    assert ended(plan(of(impossible, nodes=[stopped()], pools=(POOL, LARGE), max_vms=1))) == {}


def test_they_make_way_for_the_minimum_of_another_pool() -> None:
    pools = (POOL, replace(LARGE, min_vms=1))
    assert ended(plan(of(nodes=[stopped(1), stopped(2)], pools=pools, max_vms=2))) == {"i-1": IN_ITS_PLACE}


def test_they_make_way_for_the_replacement_of_one_that_is_too_old() -> None:
    old = a_pool("old", min_vms=1, terms=Terms(max_vm_lifetime_s=3600.0))
    there = [a_node(State.IDLE, 2, pool="old"), a_node(State.IDLE, 3)]
    s = of(nodes=[stopped(), *there], pools=(POOL, old), min_vms=2, max_vms=3, wall=WALL + 3600.0)
    made = plan(s)
    assert (launched(made), drained(made), ended(made)) == ({}, [], {"i-1": IN_ITS_PLACE})


# --------------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (
            stopped(reason="idle for 900 s: stopped", since=WALL - 20),
            "stopped since [-20 s] (idle for 900 s): started again before a new one like it is launched",
        ),
        (
            replace(stopping(), reason="idle for 900 s: stopped", since=WALL - 20),
            "its stop was asked for at [-20 s] (idle for 900 s): costs until the cloud confirms it",
        ),
        (stopped(build="old"), "is ended: made of an image or user data that is no longer configured"),
    ],
)
def test_of_a_stopped_machine_it_is_said_what_becomes_of_it(node: Node, text: str) -> None:
    assert of_node(of(nodes=[node], pools=(replace(POOL, build="new"),))) == text


def test_of_jobs_for_which_one_is_started_it_is_said() -> None:
    s = of(group(waiting=8), nodes=[stopped()])
    (verdict,) = plan(s).verdicts
    assert (verdict.launching, verdict.held) == (8, 0)
    assert of_group(s) == "starting 1 of ec2/medium/stopped and launching 1 of ec2/medium"
    dry = replace(s, off={"launch": "dry run"})
    assert of_group(dry) == "dry run: would start 1 of ec2/medium/stopped and launch 1 of ec2/medium"


def test_of_a_pool_it_is_said_how_many_are_stopped() -> None:
    assert lines_of(of(nodes=[stopped(1), stopped(2), a_node(State.IDLE, 3)]))[0].startswith(
        "3 machines (1 joined, 0 to come, 2 stopped)"
    )


def test_one_that_does_not_join_after_its_start_has_failed() -> None:
    again = a_node(State.BOOTING, was_stopped=True, boot_s=some_settings().estimated_vm_deploy_time_s)
    (failed,) = plan(of(nodes=[again])).failed
    assert failed.reason.startswith("did not join within estimated_vm_deploy_time_s")


def test_every_state_has_its_place_in_the_status_and_in_the_demo() -> None:
    states = {state.value for state in State} - {"gone"}
    assert set(STATES) == states
    assert set(LOOKS) == states
