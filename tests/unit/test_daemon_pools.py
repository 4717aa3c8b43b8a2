"""Pools in the loop: schedules that come into force, and machines that the cloud takes."""

from __future__ import annotations

from datetime import timezone
from pathlib import Path
from typing import Any, Optional

import pytest

from elastiq import history
from elastiq.interfaces import DrainMode, InstanceState, Jobs, WorkerState
from elastiq.nodes import Node, State
from elastiq.schedule import Schedule, Window
from tests.unit.fakes import OURS
from tests.unit.test_daemon import Rig
from tests.unit.values import FOUR, a_node, a_pool, a_worker, an_instance, group, state_of

# --------------------------------------------------------------------------- schedules

# The virtual clock begins at 22:13:20 UTC.
OPENS_S, CLOSES_S = 400.0, 1000.0
EVENING = (Window(frozenset(range(7)), 22 * 60 + 20, 22 * 60 + 30),)


def evening(pool: str = "", **limits: Optional[int]) -> tuple[Schedule, ...]:
    return (Schedule("evening", EVENING, "UTC", timezone.utc, tuple(limits.items()), pool),)


def asked_for(rig: Rig) -> int:
    """How many machines, by all launches that were asked for."""
    for act in rig.executor.acts("cloud"):
        act.finish()
    return sum(intent.count for (intent,) in rig.cloud.script.calls("launch"))


@pytest.mark.parametrize("pool", ["", "ec2"])
def test_a_minimum_of_the_window_is_launched_when_it_opens(pool: str) -> None:
    rig = Rig(schedules=evening(pool, min_vms=2))
    rig.pass_time(OPENS_S - 10.0)
    assert asked_for(rig) == 0
    rig.pass_time(30.0)
    assert asked_for(rig) == 2


def test_spares_of_the_window_are_launched_when_it_opens_and_end_as_idle_ones_when_it_has_closed() -> None:
    rig = Rig(schedules=evening("ec2", min_idle_vms=1), idle_for_time_s=100.0)
    rig.pass_time(OPENS_S + 30.0)
    assert asked_for(rig) == 1
    (node,) = rig.core.registry
    (address,) = node.addresses
    rig.cloud.set_instances(an_instance(str(node.instance_id), addresses=node.addresses))
    rig.batch.set_workers(a_worker("w1", addresses=frozenset({address})))
    rig.pass_time(CLOSES_S - OPENS_S - 60.0)
    assert node.idle_s > 100.0
    assert state_of(node) is State.IDLE
    rig.pass_time(60.0)
    assert state_of(node) is State.DRAINING


def test_a_lowered_max_vms_ends_nobody_and_launches_nobody() -> None:
    nodes = [a_node(State.BUSY, 1, seen=None), *(a_node(State.IDLE, number, seen=None) for number in (2, 3))]
    rig = Rig(*nodes, schedules=evening(max_vms=1), idle_for_time_s=7200.0)
    rig.batch.set_workers(a_worker("w1", WorkerState.BUSY), a_worker("w2"), a_worker("w3"))
    rig.cloud.set_instances(*(an_instance(f"i-{number}") for number in (1, 2, 3)))
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=100, request=FOUR),))
    rig.pass_time(OPENS_S - 20.0)
    assert asked_for(rig) == 7
    for node in list(rig.core.registry)[3:]:
        rig.core.registry.move(node, State.GONE, "not of interest here", 0.0)
    rig.core.persist()
    rig.pass_time(30.0)
    assert rig.daemon.situation().settings.max_vms == 1
    rig.batch.script.answers["jobs"] = Jobs((group("other", 100, FOUR),))
    rig.pass_time(CLOSES_S - OPENS_S - 60.0)
    assert asked_for(rig) == 7
    assert [state_of(node) for node in nodes] == [State.BUSY, State.IDLE, State.IDLE]
    assert rig.executor.acts() == []
    assert "max_vms 1 is reached (3 counted)" in rig.daemon.last_plan.summary


def test_the_settings_of_the_file_stay_what_they_are() -> None:
    rig = Rig(schedules=evening(max_vms=1))
    rig.pass_time(OPENS_S + 30.0)
    assert (rig.core.settings.max_vms, rig.daemon.settings_now().max_vms) == (10, 1)
    rig.pass_time(CLOSES_S - OPENS_S)
    assert rig.daemon.settings_now() == rig.core.settings


# --------------------------------------------------------------------------- notices

NOTICE = "spot interruption at 12:02"
SPOT = a_pool(markets=("spot", "on-demand"))


def spot_rig(store_path: str = ":memory:", state: State = State.BUSY, **changed: Any) -> tuple[Rig, Node]:
    """A spot machine of which nothing is known yet but that it is there."""
    node = a_node(state, market="spot", seen=None)
    rig = Rig(node, store_path=store_path, **{"pools": (SPOT,), **changed})
    rig.batch.set_workers(a_worker(state=WorkerState.BUSY if state is State.BUSY else WorkerState.IDLE))
    rig.cloud.set_instances(an_instance())
    rig.answer()
    return rig, node


def gets_notice(rig: Rig) -> None:
    rig.cloud.set_instances(an_instance(notice=NOTICE))
    rig.pass_time(60.0)


def launches(rig: Rig) -> list[str]:
    """The offers that were asked for, once each call has come back."""
    for act in rig.executor.acts("cloud"):
        act.finish()
    return [str(intent.offer) for (intent,) in rig.cloud.script.calls("launch")]


def drains(rig: Rig) -> list[DrainMode]:
    for act in rig.executor.acts("batch"):
        act.finish()
    return [mode for _, mode in rig.batch.script.calls("drain")]


def test_what_the_cloud_takes_is_drained_peacefully_replaced_once_and_its_offer_blocked() -> None:
    rig, node = spot_rig()
    assert rig.executor.acts() == []
    gets_notice(rig)
    assert (launches(rig), drains(rig)) == (["ec2/medium/on-demand"], [DrainMode.PEACEFUL])
    assert list(rig.core.health.blocks) == ["offer ec2/medium/spot"]
    assert NOTICE in rig.core.health.blocks["offer ec2/medium/spot"].reason
    assert ("notice", "i-1", "ec2", NOTICE) in [line[1:] for line in history.lines(rig.store)]
    rig.batch.set_workers(a_worker(state=WorkerState.DRAINING, drained_by=OURS, jobs=4))
    rig.pass_time(300.0)
    assert state_of(node) is State.DRAINING
    assert len(launches(rig)) == 1
    assert [what for _, what, *_ in history.lines(rig.store)].count("notice") == 1


def test_it_is_ended_when_its_last_job_has_ended() -> None:
    rig, node = spot_rig()
    gets_notice(rig)
    drains(rig)
    rig.batch.set_workers(a_worker(state=WorkerState.DRAINING, drained_by=OURS, jobs=1))
    rig.pass_time(600.0)
    assert state_of(node) is State.DRAINING
    rig.batch.set_workers(a_worker(state=WorkerState.DRAINED, drained_by=OURS))
    rig.pass_time(60.0)
    assert state_of(node) is State.TERMINATING


def test_it_is_not_replaced_once_more_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    rig, _ = spot_rig(path)
    gets_notice(rig)
    rig.executor.only("batch").fail(ConnectionError("killed"))
    assert launches(rig) == ["ec2/medium/on-demand"]
    (_, new) = rig.core.registry
    rig.store.close()

    again = Rig(store_path=path, pools=(SPOT,))
    again.batch.set_workers(a_worker(state=WorkerState.BUSY))
    coming = an_instance("i-101", InstanceState.PENDING, addresses=new.addresses, intent="launch1")
    again.cloud.set_instances(an_instance(notice=NOTICE), coming)
    again.answer()
    for _ in range(4):
        again.pass_time(30.0)
        drains(again)  # or an undrain of the drain that was lost
    assert (launches(again), set(drains(again))) == ([], {DrainMode.PEACEFUL})


def test_an_idle_one_ends_at_once_and_nothing_replaces_it() -> None:
    rig, node = spot_rig(state=State.IDLE)
    gets_notice(rig)
    assert (launches(rig), drains(rig)) == ([], [DrainMode.IF_IDLE])
    assert state_of(node) is State.DRAINING


def test_a_notice_that_its_worker_has_is_as_good() -> None:
    rig, _ = spot_rig()
    rig.batch.set_workers(a_worker(state=WorkerState.BUSY, notice=NOTICE))
    rig.pass_time(60.0)
    assert (launches(rig), drains(rig)) == (["ec2/medium/on-demand"], [DrainMode.PEACEFUL])


def test_jobs_that_wait_get_their_machines_from_another_offer_than_the_one_that_is_taken() -> None:
    rig, _ = spot_rig()
    gets_notice(rig)
    launches(rig)
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=40),))
    rig.pass_time(20.0)
    assert set(launches(rig)) == {"ec2/medium/on-demand"}
