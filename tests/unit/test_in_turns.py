"""Jobs that are much shorter than a boot share the slots that come, where `job_length_s` says how short they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiq.demand import WaitingHistory
from elastiq.in_turns import FIRST_BOOT_S, each_slot_runs
from elastiq.interfaces import Jobs
from elastiq.nodes import State
from elastiq.planner import plan
from elastiq.situation import Plan, Situation
from tests.unit.values import FOUR, NOW, a_node, a_pool, group, situation, some_settings


def short(length_s: float = 1.0, **changed: Any) -> Any:
    return some_settings(job_length_s=length_s, max_vms=1000, **changed)


def launched(made: Plan) -> int:
    return sum(order.count for order in made.launches)


def booted(s: Situation, *boots_s: float, pool: str = "ec2") -> Situation:
    for boot_s in boots_s:
        s.registry.uses.booted(pool, boot_s)
    return s


def test_a_thousand_short_jobs_get_as_many_slots_as_run_them_in_the_time_of_a_boot() -> None:
    made = plan(situation(group(waiting=1200), settings=short()))
    assert FIRST_BOOT_S == 120 and launched(made) == 3, "10 slots on machines of 4 cpus"
    assert made.launches[0].reason == "1200 waiting jobs of 1 cpu, 1000 MB, 120 in each slot one after the other"
    assert launched(plan(situation(group(waiting=1200), settings=some_settings(max_vms=1000)))) == 300


def test_a_boot_is_as_long_as_those_that_were_seen() -> None:
    s = booted(situation(group(waiting=1200), settings=short()), 30.0, 60.0, 900.0)
    assert each_slot_runs(s) == 60 and launched(plan(s)) == 5
    assert each_slot_runs(booted(s, 20.0, pool="another")) == 20, "the one that is there first"


@pytest.mark.parametrize(("length_s", "machines"), [(0.001, 1), (60.0, 3), (61.0, 5), (120.0, 5), (9000.0, 5)])
def test_jobs_of_about_a_boot_and_longer_ones_get_a_slot_each(length_s: float, machines: int) -> None:
    assert launched(plan(situation(group(waiting=20), settings=short(length_s)))) == machines


def test_machines_that_come_are_enough_and_nothing_more_is_launched_for_the_same_jobs() -> None:
    coming = [a_node(State.BOOTING, number) for number in (1, 2, 3)]
    made = plan(situation(group(waiting=1200), nodes=coming, settings=short()))
    (verdict,) = made.verdicts
    assert not made.launches
    assert (verdict.held, verdict.launching, verdict.group.waiting) == (1200, 0, 1200)
    assert "will serve it when it has joined" in verdict.reason
    assert sum(verdict.machines.values()) >= 1200


def test_a_slot_that_runs_such_a_job_takes_the_next_ones() -> None:
    busy = [a_node(State.BUSY, number) for number in (1, 2, 3)]
    serving = plan(situation(group(waiting=1200, running=12), nodes=busy, settings=short()))
    assert not serving.launches and serving.verdicts[0].held == 1200
    assert serving.verdicts[0].reason == "a slot that runs such a job takes it: job_length_s 1"
    more = plan(situation(group(waiting=1200, running=4), nodes=busy, settings=short()))
    assert launched(more) == 2, "what 4 slots do not run in time, 6 others do"
    unknown = plan(situation(group(waiting=1200, running=None), nodes=busy, settings=short()))  # type: ignore[arg-type]
    assert launched(unknown) == 3, "unknown is not running"


def test_only_jobs_that_have_waited_long_enough_are_launched_for() -> None:
    settings = short(waiting_jobs_time_s=60.0)
    history = WaitingHistory(60.0)
    history.observe(NOW - 60.0, Jobs((group(waiting=100),)))
    history.observe(NOW, Jobs((group(waiting=1200),)))
    made = plan(situation(group(waiting=1200), history=history, settings=settings))
    assert launched(made) == 1
    (verdict,) = made.verdicts
    assert verdict.held + verdict.launching < 1200 and verdict.reason.startswith("waiting_jobs_time_s 60 ")


def test_a_length_that_is_wrong_lets_nobody_starve() -> None:
    """Jobs that have waited for as long as a machine may take to join get a machine each, whatever runs."""
    settings, history = short(), WaitingHistory(0.0)
    history.keep_s = settings.estimated_vm_deploy_time_s
    long = group(waiting=40, running=12)
    busy = [a_node(State.BUSY, number) for number in (1, 2, 3)]
    for passed_s in range(0, 601, 15):
        history.observe(NOW - 600.0 + passed_s, Jobs((long,)))
        made = plan(situation(long, nodes=busy, history=history, settings=settings))
        assert launched(made) == (10 if passed_s == 600 else 0)


def test_the_history_keeps_what_the_longer_of_two_windows_asks_for_and_no_more() -> None:
    history = WaitingHistory(30.0)
    history.keep_s = 600.0
    for passed_s in range(0, 2000, 10):
        history.observe(float(passed_s), Jobs((group(waiting=passed_s // 10 + 1),)))
    assert history.waited("g") == history.waited("g", 30.0) == 197
    assert (history.waited("g", 600.0), history.waited("g", 0.0), history.waited("g", 601.0)) == (140, 200, 0)
    assert len(history._counts["g"]) == 61


def test_other_jobs_are_planned_for_as_without_it() -> None:
    several, never = group("several", 3, nodes=4), group("never", 5, not_eligible="too old")
    for one in (several, never):
        known, unknown = (
            plan(situation(one, settings=short())),
            plan(situation(one, settings=some_settings(max_vms=1000))),
        )
        assert known == unknown


def test_they_share_machines_of_the_right_sizes_too() -> None:
    pool = a_pool(flavours=("medium", "large"), prices={"medium": 1.0, "large": 1.0})
    settings = replace(short(), pools=(pool,))
    s = situation(group(waiting=1200), settings=settings)
    s.registry.learned[("ec2", "large")] = replace(FOUR, cpus=8)
    (order, *more) = plan(s).launches
    assert order.count + sum(one.count for one in more) == 3
    assert "in each slot one after the other" in order.reason


counts = st.integers(0, 3000)


@given(
    waiting=st.integers(1, 3000), running=counts, coming=st.integers(0, 5), length_s=st.floats(0.1, 1000), late=counts
)
def test_never_more_is_launched_than_without_it_and_every_job_is_accounted_for(
    waiting: int, running: int, coming: int, length_s: float, late: int
) -> None:
    nodes = [a_node(State.BOOTING, number) for number in range(1, coming + 1)]
    jobs = group(waiting=waiting, running=running)
    history = WaitingHistory(0.0)
    history.keep_s = 600.0
    if late:
        history.observe(NOW - 600.0, Jobs((replace(jobs, waiting=late),)))
    history.observe(NOW, Jobs((jobs,)))
    made = plan(situation(jobs, nodes=nodes, history=history, settings=short(length_s)))
    (verdict,) = made.verdicts
    usual = plan(situation(jobs, nodes=nodes, settings=some_settings(max_vms=1000)))
    assert launched(made) <= launched(usual)
    assert verdict.group == jobs and verdict.held + verdict.launching == waiting
    assert min(verdict.held, verdict.launching) >= 0
    assert launched(made) > 0 or verdict.launching == 0
    if min(late, waiting) > 4 * coming:
        assert launched(made) > 0, "those that have waited for so long"
