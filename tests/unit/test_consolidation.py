"""Lightly used machines: which are emptied, for what reason, and when they are returned to service."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

import pytest

from elastiq.consolidation import AT_ONCE, QUIET_S
from elastiq.interfaces import Resources, Terms, Worker, WorkerState
from elastiq.nodes import Node, State
from elastiq.planner import plan
from elastiq.situation import Plan, Situation
from elastiq.strangers import Stranger
from elastiq.wording import counted
from tests.unit.fakes import OURS
from tests.unit.plans import drained, launched, reason
from tests.unit.values import (
    FOUR,
    NOW,
    ONE,
    WALL,
    a_node,
    a_pool,
    a_registry,
    a_worker,
    group,
    situation,
    some_settings,
)

LONG = QUIET_S


def worker(number: int, jobs: int = 1, total: Resources = FOUR, each: Resources = ONE, **changed: Any) -> Worker:
    """One that runs so many jobs of that size."""
    both = zip(vars(total).values(), vars(each).values())
    free = Resources(*(None if has is None else has - jobs * (part or 0.0) for has, part in both))
    state = WorkerState.BUSY if jobs else WorkerState.IDLE
    base = a_worker(f"w{number}", state, total=total, free=free, jobs=jobs, job_starts=jobs)
    return replace(base, **changed)


def busy(number: int, jobs: int = 1, room_s: float = LONG, seen: Optional[Worker] = None, **changed: Any) -> Node:
    """A machine of four cores on which so many jobs of one core run, and have for long."""
    seen = seen or worker(number, jobs)
    return a_node(State.BUSY, number, seen=seen, jobs=seen.jobs, job_starts=seen.job_starts, room_s=room_s, **changed)


def emptied(number: int, jobs: int = 1, free: Optional[Resources] = None, **changed: Any) -> Node:
    """One that was drained with a job on it. HTCondor says of it that nothing is free."""
    state = WorkerState.DRAINING if jobs else WorkerState.DRAINED
    seen = replace(worker(number, jobs), state=state, free=free or Resources(0, 0), drained_by=OURS)
    was = vars(ONE)
    return a_node(State.DRAINING, number, **{"seen": seen, "worker": f"w{number}", "emptied": was, **changed})


def planned(*nodes: Node, groups: Any = (), **changed: Any) -> Plan:
    settings = changed.pop("settings", None) or some_settings(consolidate=True)
    return plan(situation(*groups, nodes=nodes, settings=settings, **changed))


def returned(made: Plan) -> list[str]:
    return [step.node.name for step in made.returns]


# --------------------------------------------------------------------------- which are emptied


def test_of_two_lightly_used_machines_one_is_emptied_onto_the_other_and_says_so() -> None:
    made = planned(busy(1), busy(2))
    (step,) = made.drains
    assert (step.node.name, step.for_good, step.taken) == ("i-1", True, False)
    assert step.emptied == {"cpus": 1, "memory_mb": 1000, "disk_mb": None, "gpus": None}
    why = "lightly used (1 job), the others have room for 3 like it: ends once its last job has ended"
    assert (step.reason, made.summary) == (why, f"drain i-1: {why}")


def test_nothing_is_emptied_unless_the_configuration_asks_for_it() -> None:
    assert drained(planned(busy(1), busy(2), settings=some_settings())) == []


def test_the_others_must_hold_as_many_jobs_as_run_there() -> None:
    assert drained(planned(busy(1, jobs=2), busy(2, jobs=2, room_s=0.0))) == ["i-1"]
    assert drained(planned(busy(1, jobs=2), busy(2, jobs=3, room_s=0.0))) == []


def test_what_loses_its_place_on_machines_that_are_being_emptied_wants_room_too() -> None:
    assert drained(planned(emptied(3), busy(1), busy(2, jobs=3))) == []
    assert drained(planned(emptied(3), busy(1), busy(2, jobs=2))) == ["i-1"]


@pytest.mark.parametrize(("memory_mb", "goes"), [(5000, True), (5001, False)])
def test_room_counts_by_shape(memory_mb: float, goes: bool) -> None:
    mine = worker(1, each=Resources(1, memory_mb), total=Resources(4, 16000))
    assert drained(planned(busy(1, seen=mine), busy(2, jobs=3, seen=worker(2, 3)))) == (["i-1"] if goes else [])


def test_a_gpu_is_not_replaced_by_cores() -> None:
    total, each = Resources(4, 8000, None, 4), Resources(1, 1000, None, 1)
    with_gpu, without = worker(1, total=total, each=each), worker(2, total=Resources(4, 8000, None, 0))
    assert drained(planned(busy(1, seen=with_gpu), busy(2, jobs=3, seen=without))) == ["i-2"]


def test_the_last_one_stays_however_little_it_does() -> None:
    assert drained(planned(busy(1))) == []


@pytest.mark.parametrize("idle_s", [0.0, LONG])
def test_an_idle_machine_is_no_room_to_move_to_for_it_goes_itself(idle_s: float) -> None:
    made = planned(busy(1), a_node(State.IDLE, 2, idle_s=idle_s))
    assert drained(made) == (["i-2"] if idle_s else [])


@pytest.mark.parametrize(("jobs", "goes"), [(2, True), (3, False)])
def test_only_what_is_half_free_or_more_is_lightly_used(jobs: int, goes: bool) -> None:
    others = [busy(number, room_s=0.0) for number in range(2, 9)]
    assert drained(planned(busy(1, jobs=jobs), *others)) == (["i-1"] if goes else [])


@pytest.mark.parametrize("idle_for_time_s", [QUIET_S, 60.0, 3600.0])
def test_it_goes_once_no_job_has_begun_or_ended_there_for_a_while(idle_for_time_s: float) -> None:
    settings, long = some_settings(consolidate=True, idle_for_time_s=idle_for_time_s), min(QUIET_S, idle_for_time_s)
    assert drained(planned(busy(1, room_s=long - 1), busy(2, room_s=0.0), settings=settings)) == []
    assert drained(planned(busy(1, room_s=long), busy(2, room_s=0.0), settings=settings)) == ["i-1"]


def test_the_dearest_goes_first_then_the_one_that_is_used_least() -> None:
    prices = {"*": 1.0, "dear": 2.0}
    settings = some_settings(pools=(a_pool(flavours=("medium", "dear"), prices=prices),), consolidate=True)
    others = [busy(number, room_s=0.0) for number in range(4, 9)]
    nodes = [busy(1, jobs=2), busy(2), busy(3, jobs=2, flavour="dear")]
    assert drained(planned(*nodes, *others, settings=settings)) == ["i-3", "i-2", "i-1"]


def test_a_few_go_at_once_and_the_next_when_these_are_seen_to_be_drained() -> None:
    nodes = [busy(number) for number in range(1, 13)]
    settings = some_settings(consolidate=True, max_vms=20)
    s = situation(nodes=nodes, settings=settings)
    first = drained(plan(s))
    assert len(first) == AT_ONCE
    for node in nodes:
        if node.name in first:
            s.registry.move(node, State.DRAINING, "lightly used", WALL)
            node.emptied = vars(ONE)
    assert drained(plan(s)) == []
    for node in nodes:
        if node.name in first:
            assert node.seen is not None
            node.seen = replace(node.seen, state=WorkerState.DRAINING, drained_by=OURS)
    assert len(drained(plan(s))) == AT_ONCE


@pytest.mark.parametrize("where", ["cluster", "pool"])
def test_a_minimum_is_kept(where: str) -> None:
    pool = a_pool(min_vms=2 if where == "pool" else 0)
    least = 2 if where == "cluster" else 0
    settings = some_settings(pools=(pool,), min_vms=least, consolidate=True)
    assert drained(planned(busy(1), busy(2), settings=settings)) == []
    assert drained(planned(busy(1), busy(2), busy(3), settings=settings)) == ["i-1"]


def test_an_idle_machine_that_goes_by_the_same_plan_keeps_up_no_minimum() -> None:
    settings = some_settings(min_vms=2, consolidate=True)
    assert drained(planned(busy(1), busy(2), a_node(State.IDLE, 3, idle_s=LONG), settings=settings)) == ["i-3"]


def test_hot_spares_are_neither_drained_nor_room_to_move_to() -> None:
    settings = some_settings(pools=(a_pool(terms=Terms(min_idle_vms=1)),), consolidate=True)
    assert drained(planned(busy(1), a_node(State.IDLE, 2, idle_s=LONG), settings=settings)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"no_end": "no answer"},
        {"no_drain": "cooling down"},
        {"settled": False},
        {"can_drain": False},
        {"sites": frozenset()},
    ],
)
def test_nothing_is_emptied_on_a_doubtful_view(changed: dict[str, Any]) -> None:
    assert drained(planned(busy(1), busy(2), **changed)) == []


def test_nothing_is_emptied_while_jobs_wait_that_could_run() -> None:
    assert drained(planned(busy(1), busy(2), groups=[group()])) == []


@pytest.mark.parametrize("waits", [{"not_eligible": "needs a licence"}, {"request": Resources(64)}])
def test_jobs_that_nothing_can_run_keep_no_machine(waits: dict[str, Any]) -> None:
    made = planned(busy(1), busy(2), groups=[group(**waits)])
    assert drained(made) == ["i-1"]


@pytest.mark.parametrize("state", [State.REQUESTED, State.PENDING, State.BOOTING])
def test_nothing_is_emptied_while_a_machine_boots(state: State) -> None:
    assert drained(planned(busy(1), busy(2), a_node(state, 3))) == []


@pytest.mark.parametrize("changed", [{"notice": "spot interruption"}, {"state": WorkerState.OTHER}])
def test_a_machine_that_takes_no_jobs_or_goes_is_no_room_to_move_to(changed: dict[str, Any]) -> None:
    assert "i-1" not in drained(planned(busy(1), busy(2, seen=worker(2, **changed), replaced=True)))


def test_a_pool_that_a_person_drains_is_no_room_to_move_to() -> None:
    settings = some_settings(pools=(a_pool(), a_pool("other")), consolidate=True)
    nodes = [busy(1), busy(2, pool="other")]
    assert drained(planned(*nodes, settings=settings)) == ["i-1"]
    assert drained(planned(*nodes, settings=settings, drained=frozenset({"other"}))) == []


def test_a_static_worker_has_room_and_other_peoples_machines_do_not_count() -> None:
    s = situation(nodes=[busy(1)], settings=some_settings(consolidate=True))
    s.registry.strangers["w9"] = Stranger(a_worker("w9"), 9, "an instance that is not ours")
    assert drained(plan(s)) == [], "who knows for how long it is there"
    for name in ("W9", "10.0.0.9"):
        settings = some_settings(consolidate=True, static_workers=(name,))
        assert drained(plan(replace(s, settings=settings))) == ["i-1"]


def test_where_cpus_are_not_known_jobs_are_counted() -> None:
    settings = some_settings(pools=(a_pool(capacity=Resources()),), n_jobs_per_vm=4, consolidate=True)
    unknown = [replace(worker(number), total=Resources(), free=Resources()) for number in (1, 2)]
    made = planned(*(busy(number, seen=seen) for number, seen in enumerate(unknown, 1)), settings=settings)
    assert [counted(len(made.drains), "drain"), made.drains[0].reason[:56]] == [
        "1 drain",
        "lightly used (1 job), the others have room for 3 like it",
    ]


# --------------------------------------------------------------------------- back to service


def test_an_emptied_machine_is_returned_before_a_new_one_is_launched() -> None:
    made = planned(emptied(1), groups=[group(waiting=3)])
    assert (returned(made), launched(made)) == (["i-1"], {})
    assert made.summary == "return i-1: waiting jobs need its room"
    assert reason(made) == "i-1 (w1) will serve it when it takes jobs again"


def test_what_it_does_not_hold_is_launched_for() -> None:
    made = planned(emptied(1), groups=[group(waiting=4)])
    assert (returned(made), launched(made)) == (["i-1"], {"ec2/medium": 1})
    made = planned(emptied(1), groups=[group(request=Resources(4, 8000))])
    assert (returned(made), launched(made)) == ([], {"ec2/medium": 1})


def test_room_elsewhere_comes_first_also_that_of_a_machine_that_boots() -> None:
    assert returned(planned(emptied(1), busy(2), groups=[group(waiting=3)])) == []
    assert returned(planned(emptied(1), a_node(State.BOOTING, 2), groups=[group(waiting=4)])) == []
    assert returned(planned(emptied(1), a_node(State.BOOTING, 2), groups=[group(waiting=5)])) == ["i-1"]


def test_what_became_free_since_the_drain_counts_where_the_batch_system_tells() -> None:
    made = planned(emptied(1, jobs=0, free=FOUR), groups=[group(request=Resources(4, 8000))])
    assert (returned(made), launched(made)) == (["i-1"], {})


def test_each_job_that_ended_since_the_drain_left_room_though_the_batch_system_tells_nothing() -> None:
    one, two = emptied(1), emptied(2, jobs=2)
    assert launched(planned(two, groups=[group(waiting=3)])) == {"ec2/medium": 1}
    assert launched(planned(one, groups=[group(waiting=3)])) == {}


def test_it_is_returned_though_consolidation_was_switched_off_meanwhile() -> None:
    assert returned(planned(emptied(1), groups=[group()], settings=some_settings())) == ["i-1"]


def test_until_its_worker_shows_that_it_is_back_its_room_comes_but_not_for_ever() -> None:
    back = replace(emptied(1), state=State.BUSY)
    made = planned(back, groups=[group(waiting=3)])
    assert (returned(made), launched(made)) == ([], {})
    back.room_s = some_settings().unused_room_s
    assert launched(planned(back, groups=[group(waiting=3)])) == {"ec2/medium": 1}


@pytest.mark.parametrize("changed", [{"acting": True}, {"seen": worker(1)}])
def test_a_drain_that_is_not_seen_in_effect_is_not_undone_and_nothing_is_launched_instead(
    changed: dict[str, Any],
) -> None:
    made = planned(emptied(1, **changed), groups=[group()])
    assert (returned(made), launched(made)) == ([], {})


@pytest.mark.parametrize("goes", ["noticed", "condemned", "drained"])
def test_one_that_is_to_go_for_another_reason_is_not_returned(goes: str) -> None:
    node = emptied(1)
    assert node.seen is not None
    if goes == "noticed":
        node.seen = replace(node.seen, notice="spot interruption")
    elif goes == "condemned":
        node.condemned = "black hole"
    pools = (a_pool(), a_pool("other"))
    drained = frozenset({"ec2"} if goes == "drained" else ())
    made = planned(node, groups=[group()], settings=some_settings(pools=pools, consolidate=True), drained=drained)
    assert returned(made) == []
    assert sum(launched(made).values()) == 1


def test_a_machine_that_is_being_returned_keeps_up_no_minimum_before_its_worker_shows_that_it_is_back() -> None:
    settings = some_settings(min_vms=2, consolidate=True)
    returning, others = replace(emptied(1), state=State.BUSY), [a_node(State.IDLE, 2, idle_s=LONG), busy(3)]
    assert drained(planned(returning, *others, settings=settings)) == []
    assert drained(planned(busy(1, room_s=0.0), *others, settings=settings)) == ["i-2"]
    peers = [busy(number, was_busy=True) for number in (4, 5)]
    hole = busy(6, was_busy=True, condemned="black hole")
    assert drained(planned(returning, *peers, hole, settings=settings)) == ["i-6"], "jobs that it loses count for more"


@pytest.mark.parametrize("where", ["cluster", "pool"])
def test_a_minimum_that_is_not_kept_any_more_returns_as_many_as_it_lacks(where: str) -> None:
    pool = a_pool(min_vms=2 if where == "pool" else 0)
    settings = some_settings(pools=(pool,), min_vms=2 if where == "cluster" else 0, consolidate=True)
    made = planned(emptied(1), emptied(2), busy(3), settings=settings)
    assert (returned(made), launched(made)) == (["i-1"], {})
    assert made.returns[0].reason.startswith("min_vms 2")


def test_a_situation_is_planned_the_same_twice() -> None:
    s: Situation = situation(nodes=[busy(1), busy(2), emptied(3)], settings=some_settings(consolidate=True), now=NOW)
    before = repr(a_registry(*s.registry).nodes)
    assert (plan(s).drains, repr(a_registry(*s.registry).nodes)) == (plan(s).drains, before)
