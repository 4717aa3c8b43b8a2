"""The drain of a lightly used machine: its jobs end by themselves, a refusal does no harm, a restart goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastiq.daemon import ATTENTIVE_S
from elastiq.failed_drains import SHOWN_AFTER_S
from elastiq.interfaces import DrainAnswer, DrainMode, DrainOutcome, Jobs, Resources, WorkerState
from elastiq.nodes import Node, State
from elastiq.planner import plan
from elastiq.status import snapshot
from tests.unit import test_daemon, test_ending
from tests.unit.fakes import OURS
from tests.unit.plans import drained
from tests.unit.test_consolidation import LONG, busy, worker
from tests.unit.values import a_node, an_instance, group, situation, state_of

# --------------------------------------------------------------------------- the drain


def being_emptied(jobs: int = 1, **changed: Any) -> tuple[test_ending.Rig, Node]:
    """The drain of a plan was asked for, and not answered yet."""
    node = busy(1, jobs)
    rig = test_ending.Rig(node, consolidate=True, **changed)
    s = situation(registry=rig.core.registry, settings=rig.settings)
    s.registry.add(busy(2))
    rig.ending.drain(plan(s).drains[0])
    rig.run(1.0)
    return rig, node


def test_its_jobs_end_by_themselves_however_long_that_takes_then_it_ends() -> None:
    rig, node = being_emptied()
    rig.executor.only("batch").finish()
    assert rig.batch.script.asked == [("drain", "w1", DrainMode.PEACEFUL)]
    for _ in range(3):
        rig.run(rig.settings.drain_timeout_s)
        node.seen = replace(worker(1), state=WorkerState.DRAINING, drained_by=OURS)
        rig.look()
        assert (state_of(node), rig.terminated(), rig.executor.pending) == (State.DRAINING, [], [])
    node.seen = replace(worker(1, 0), state=WorkerState.DRAINED, drained_by=OURS)
    rig.run(5.0)
    rig.look()
    rig.executor.only("cloud").finish()
    assert (state_of(node), rig.terminated()) == (State.TERMINATING, [("i-1",)])
    assert node.reason.startswith("lightly used (1 job)")


def test_nothing_is_told_of_it_as_of_a_fault() -> None:
    rig, node = being_emptied()
    rig.executor.only("batch").finish()
    assert (rig.core.notices, node.condemned, rig.core.health.unreplaced(rig.now())) == ({}, "", [])


def test_drain_timeout_s_begins_with_the_end_of_its_last_job() -> None:
    rig, node = being_emptied()
    rig.executor.only("batch").finish()
    rig.run(9 * rig.settings.drain_timeout_s)
    node.seen = replace(worker(1), state=WorkerState.DRAINING, drained_by=OURS)
    rig.look()
    rig.run(5.0)
    node.seen = replace(worker(1, 0), state=WorkerState.DRAINED, drained_by=OURS)
    rig.look(settled=False)
    assert state_of(node) is State.DRAINING
    rig.run(5.0)
    rig.look()
    assert state_of(node) is State.TERMINATING


def test_a_refused_drain_leaves_it_in_service_and_is_not_asked_for_again_while_the_same_jobs_run() -> None:
    rig, node = being_emptied()
    rig.batch.script.answers["drain"] = DrainAnswer(DrainOutcome.REFUSED, "w1 would evict its jobs")
    rig.executor.only("batch").finish()
    assert (state_of(node), rig.executor.pending) == (State.BUSY, [])
    assert node.reason == "drain refused: w1 would evict its jobs"
    rig.look()
    node.room_s, node.retry_at = 9 * LONG, 0.0
    s = situation(registry=rig.core.registry, settings=rig.settings)
    assert drained(plan(s)) == ["i-2"], "the other one may be willing"
    s.registry.nodes["launch.2"].room_s = 0.0
    assert drained(plan(s)) == []
    node.seen = replace(worker(1), job_starts=9)
    assert drained(plan(s)) == ["i-1"]


def test_a_job_that_began_before_the_drain_took_effect_ends_by_itself_too() -> None:
    rig, node = being_emptied()
    rig.executor.only("batch").finish()
    rig.run(1.0)
    node.seen = replace(worker(1, 2), state=WorkerState.DRAINING, drained_by=OURS)
    node.job_starts = 2
    rig.look()
    assert (state_of(node), rig.executor.pending) == (State.DRAINING, [])


def test_a_drain_that_was_lost_returns_it() -> None:
    rig, node = being_emptied()
    rig.executor.only("batch").finish()
    rig.run(SHOWN_AFTER_S)
    node.seen = worker(1)
    rig.look()
    assert state_of(node) is State.BUSY
    rig.executor.only("batch").finish()
    rig.look()
    assert (state_of(node), node.emptied) == (State.BUSY, {})


@pytest.mark.parametrize("jobs", [1, 0])
def test_a_restart_goes_on_with_it(tmp_path: Path, jobs: int) -> None:
    path = str(tmp_path / "store")
    first, _ = being_emptied(store_path=path)
    first.store.close()
    again = test_ending.Rig(store_path=path, consolidate=True)
    again.core.restore()
    node = again.core.registry.nodes["launch.1"]
    assert node.emptied == {"cpus": 1, "memory_mb": 1000, "disk_mb": None, "gpus": None}
    state = WorkerState.DRAINING if jobs else WorkerState.DRAINED
    for _ in range(3):
        node.seen = replace(worker(1, jobs), state=state, drained_by=OURS)
        again.look()
        again.run(1.0)
    assert state_of(node) is (State.DRAINING if jobs else State.TERMINATING)
    assert again.batch.script.asked == []


def test_a_restart_before_the_drain_was_sent_leaves_it_in_service(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    first, _ = being_emptied(store_path=path)
    first.store.close()
    again = test_ending.Rig(store_path=path, consolidate=True)
    again.core.restore()
    node = again.core.registry.nodes["launch.1"]
    for _ in range(2):
        node.seen = worker(1)
        again.look()
        again.run(SHOWN_AFTER_S)
    assert state_of(node) is State.BUSY


# --------------------------------------------------------------------------- the whole daemon


def a_daemon(**changed: Any) -> test_daemon.Rig:
    """Two machines, each with one long job, that have run for long; the first is being emptied."""
    rig = test_daemon.Rig(busy(1), busy(2), consolidate=True, idle_for_time_s=LONG, **changed)
    rig.cloud.set_instances(an_instance("i-1"), an_instance("i-2"))
    rig.batch.set_workers(worker(1), worker(2))
    rig.pass_time(60.0)
    rig.executor.only("batch").finish()
    rig.batch.set_workers(
        replace(worker(1), state=WorkerState.DRAINING, free=Resources(0, 0), drained_by=OURS), worker(2)
    )
    rig.pass_time(60.0)
    return rig


def test_the_daemon_empties_one_and_returns_it_when_jobs_wait() -> None:
    rig = a_daemon()
    node = rig.core.registry.nodes["launch.1"]
    assert state_of(node) is State.DRAINING
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=5),))
    rig.run(30.0)
    rig.answer("queue")
    assert snapshot(rig.daemon)["last_plan"]["return"] == [{"node": "i-1", "reason": "waiting jobs need its room"}]
    assert (state_of(node), node.reason) == (State.BUSY, "waiting jobs need its room")
    assert rig.executor.only("batch").finish() is None
    assert rig.batch.script.calls("undrain") == [("w1",)]
    # As HTCondor's plugin sees a worker whose ad still shows the drain that was undone.
    rig.batch.set_workers(replace(worker(1), state=WorkerState.OTHER, free=Resources(0, 0)), worker(2))
    rig.pass_time(120.0)
    assert rig.executor.acts() == [], "its room is expected: nothing is launched"
    rig.batch.set_workers(worker(1), worker(2))
    rig.pass_time(60.0)
    assert (state_of(node), node.emptied, rig.executor.acts()) == (State.BUSY, {}, [])


def test_what_may_take_days_is_not_looked_at_every_few_seconds() -> None:
    rig = a_daemon(check_vms_every_s=45.0)
    assert rig.daemon.period_s("check_vms") == 45.0
    rig.core.registry.add(a_node(State.BOOTING, 3))
    assert rig.daemon.period_s("check_vms") == ATTENTIVE_S
