"""Machines are for the jobs that they were launched for, as long as these wait and the machines will take them."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.demand import Trials, WaitingHistory
from elastiq.interfaces import JobGroup, Jobs, Resources, Terms, WorkerState
from elastiq.nodes import Node, State
from elastiq.planner import Plan, plan
from tests.unit.values import NOW, WALL, a_node, a_pool, a_worker, situation, some_settings


def whole(key: str, waiting: int = 1, memory_mb: float = 1000) -> JobGroup:
    """Jobs that each take all cores of a machine."""
    return JobGroup(key, Resources(cpus=4, memory_mb=memory_mb), waiting, running=0)


def small(key: str, waiting: int) -> JobGroup:
    return JobGroup(key, Resources(cpus=1, memory_mb=100), waiting, running=0)


def tried(*groups: JobGroup, jobs: int = 1) -> Trials:
    trials = Trials()
    for group in groups:
        trials.launched(group, jobs)
    return trials


def launched(made: Plan) -> dict[str, int]:
    return {str(order.offer): order.count for order in made.launches}


def coming(key: str, jobs: int = 1, **more: Any) -> Node:
    return a_node(State.REQUESTED, groups={key: jobs}, **more)


def test_a_machine_to_come_is_not_promised_to_a_group_that_came_later() -> None:
    first, later = whole("first"), whole("later", memory_mb=2000)
    made = plan(situation(first, later, nodes=[coming("first")], trials=tried(first)))
    assert launched(made) == {"ec2/medium": 1}
    assert made.launches[0].groups == {"later": 1}


def test_jobs_whose_machine_others_have_got_are_launched_for_again() -> None:
    group = whole("g")
    full = a_node(State.BUSY, groups={"g": 1}, was_busy=True, seen=a_worker(state=WorkerState.BUSY))
    assert launched(plan(situation(group, nodes=[full], trials=tried(group)))) == {"ec2/medium": 1}


def test_jobs_whose_machine_has_joined_and_is_not_to_be_used_are_not_launched_for_again() -> None:
    group = whole("g")
    odd = a_node(State.BUSY, groups={"g": 1}, seen=a_worker(state=WorkerState.OTHER, free=Resources(0, 0)))
    assert launched(plan(situation(group, nodes=[odd], trials=tried(group)))) == {}


def test_jobs_whose_machine_leaves_are_launched_for_where_they_can_be() -> None:
    group, pools = whole("g"), (a_pool(), a_pool("dear"))
    settings = some_settings(pools=pools)
    made = plan(
        situation(group, nodes=[coming("g")], trials=tried(group), settings=settings, drained=frozenset({"ec2"}))
    )
    assert launched(made) == {"dear/medium": 1}


@pytest.mark.parametrize(("known", "age_s", "more"), [(True, 600.0, 0), (False, 599.0, 0), (False, 600.0, 1)])
def test_jobs_wait_for_machines_at_a_site_that_hangs_until_those_should_have_joined(
    known: bool, age_s: float, more: int
) -> None:
    settings = some_settings(pools=(a_pool("a", site="far"), a_pool("b")), max_vms=3)
    node, group = coming("g", 4, pool="a", site="far", created_at=WALL - age_s), small("g", 4)
    sites = frozenset({"aws", "far"} if known else {"aws"})
    made = plan(situation(group, nodes=[node], settings=settings, sites=sites, trials=tried(group, jobs=4)))
    assert launched(made) == ({"b/medium": 1} if more else {})


def young(*groups: JobGroup, old: int = 0) -> WaitingHistory:
    """Of each group, so many jobs have waited for the window of 60 s; the others came just now."""
    history = WaitingHistory(60.0)
    if old:
        history.observe(NOW - 100.0, Jobs(tuple(JobGroup(g.key, g.request, old, running=0) for g in groups)))
    history.observe(NOW, Jobs(groups))
    return history


def test_what_is_held_serves_the_jobs_that_have_waited_longest() -> None:
    group = small("g", 8)
    made = plan(situation(group, nodes=[coming("g", 4)], history=young(group, old=4)))
    assert launched(made) == {}
    assert made.verdicts[0].held == 4


def test_jobs_that_have_not_waited_do_not_take_the_room_of_those_that_have() -> None:
    old, new = small("old", 4), whole("new")
    history = young(old, old=4)
    history.observe(NOW, Jobs((old, new)))
    made = plan(situation(old, new, nodes=[a_node(State.REQUESTED)], history=history))
    assert launched(made) == {}
    assert {v.group.key: v.held for v in made.verdicts} == {"old": 4, "new": 0}


def test_jobs_that_have_not_waited_do_not_use_up_a_spare() -> None:
    group = whole("g", 6)
    settings = some_settings(pools=(a_pool(terms=Terms(min_idle_vms=1)),), waiting_jobs_time_s=60.0)
    spare = a_node(State.REQUESTED)
    assert launched(plan(situation(group, nodes=[spare], settings=settings, history=young(group)))) == {}
    used = plan(situation(whole("g", 1), nodes=[spare], settings=settings, history=young(whole("g", 1), old=1)))
    assert launched(used) == {"ec2/medium": 1}
