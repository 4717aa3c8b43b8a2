"""The pauses after a launch, an end and a failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elastiq.cooldown import held_back
from elastiq.interfaces import CapacityError, Jobs, Terms, WorkerState
from elastiq.nodes import State
from elastiq.planner import plan
from tests.unit.plans import drained
from tests.unit.test_daemon import Rig
from tests.unit.values import (
    NOW,
    WALL,
    a_node,
    a_pool,
    a_worker,
    an_instance,
    group,
    situation,
    some_settings,
    state_of,
)

# --------------------------------------------------------------------------- what is held back


def pauses(**last_s: float) -> tuple[str, str]:
    """After these happened so many seconds ago, with 60, 70 and 80 s after a launch, an end and a failure."""
    settings = some_settings(cooldown_after_launch_s=60.0, cooldown_after_end_s=70.0, cooldown_after_failure_s=80.0)
    return held_back(settings, {what: NOW - ago for what, ago in last_s.items()}, NOW)


def test_nothing_is_held_back_before_anything_happened() -> None:
    assert pauses() == ("", "")


@pytest.mark.parametrize(
    ("what", "pause_s", "told"),
    [
        ("launch", 60, ("cooldown_after_launch_s 60 goes on for 1 s", "")),
        ("end", 70, ("", "cooldown_after_end_s 70 goes on for 1 s")),
        ("failure", 80, ("cooldown_after_failure_s 80 goes on for 1 s", "")),
    ],
)
def test_each_holds_back_its_own_side_until_it_has_passed(what: str, pause_s: float, told: tuple[str, str]) -> None:
    assert pauses(**{what: pause_s - 1}) == told
    assert pauses(**{what: pause_s}) == ("", "")


def test_of_two_that_hold_back_launches_the_failure_is_told() -> None:
    assert pauses(launch=1, failure=1)[0].startswith("cooldown_after_failure_s")
    assert pauses(launch=1, failure=81)[0].startswith("cooldown_after_launch_s")


def test_what_is_not_set_holds_nothing_back() -> None:
    settings = some_settings(cooldown_after_end_s=70.0)
    assert held_back(settings, {"launch": NOW, "failure": NOW}, NOW) == ("", "")


# --------------------------------------------------------------------------- in a plan


def test_idle_machines_wait_and_what_serves_nobody_ends_all_the_same() -> None:
    nodes = [
        a_node(State.IDLE, 1, idle_s=900.0),
        a_node(State.FAILED, 2),
        a_node(State.BOOTING, 3, boot_s=900.0),
        a_node(State.IDLE, 4, build="old"),
        a_node(State.IDLE, 5, created_at=0.0),
    ]
    settings = some_settings(pools=(a_pool(build="new", terms=Terms(max_vm_lifetime_s=86400.0)),))
    held = situation(nodes=nodes, settings=settings, wall=WALL, no_drain="cooldown_after_end_s 60 goes on for 5 s")
    made = plan(held)
    assert drained(made) == []
    assert sorted(drained(plan(replace(held, no_drain="")))) == ["i-1", "i-4", "i-5"]
    assert [step.node.name for step in (*made.failed, *made.ends)] == ["i-3", "i-2"]


def test_what_the_cloud_takes_and_what_a_person_drains_does_not_wait() -> None:
    noticed = a_node(State.IDLE, 1, instance=an_instance(notice="soon"))
    settings = some_settings(pools=(a_pool(), a_pool("out")))
    nodes = [noticed, a_node(State.IDLE, 2, pool="out"), a_node(State.IDLE, 3, idle_s=900.0)]
    made = plan(situation(nodes=nodes, settings=settings, drained=frozenset({"out"}), no_drain="cools down"))
    assert sorted(drained(made)) == ["i-1", "i-2"]


# --------------------------------------------------------------------------- through the loop


def asked(rig: Rig) -> int:
    return len(rig.cloud.script.calls("launch"))


def finish_acts(rig: Rig) -> None:
    for act in rig.executor.acts():
        act.finish()
    rig.run()


def test_after_a_launch_no_other_follows_until_the_pause_has_passed() -> None:
    rig = Rig(cooldown_after_launch_s=120.0)
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    rig.answer()
    finish_acts(rig)
    assert asked(rig) == 1
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=8),))
    rig.pass_time(90.0)
    finish_acts(rig)
    assert asked(rig) == 1
    assert "cooldown_after_launch_s 120 goes on" in rig.daemon.last_plan.summary
    rig.pass_time(60.0)
    finish_acts(rig)
    assert asked(rig) == 2


def test_after_a_refused_launch_nothing_is_launched_from_any_offer_until_the_pause_has_passed() -> None:
    pools = (a_pool("a"), a_pool("b"))
    rig = Rig(pools=pools, cooldown_after_failure_s=120.0)
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    rig.answer()
    rig.executor.only("cloud").fail(CapacityError("no room"))
    rig.pass_time(90.0)
    assert rig.executor.acts() == []
    assert "cooldown_after_failure_s 120 goes on" in rig.daemon.last_plan.summary
    rig.pass_time(60.0)
    assert len(rig.executor.acts("cloud")) == 1


def test_after_an_end_the_next_idle_machine_waits() -> None:
    rig = Rig(cooldown_after_end_s=300.0, idle_for_time_s=600.0)
    for number, idle_s in ((1, 590.0), (2, 500.0)):
        rig.core.registry.add(a_node(State.IDLE, number, seen=None, idle_s=idle_s))
    workers = [a_worker("w1"), a_worker("w2")]
    rig.batch.set_workers(*workers)
    rig.cloud.set_instances(an_instance("i-1"), an_instance("i-2"))
    first, second = rig.core.registry

    def pass_time(seconds: float) -> None:
        for _ in range(int(seconds / 5)):
            finish_acts(rig)
            rig.pass_time(5.0)
            if state_of(first) is State.DRAINING:
                rig.batch.set_workers(a_worker("w1", WorkerState.DRAINED), workers[1])

    pass_time(100.0)
    assert state_of(first) is State.TERMINATING
    ended = rig.core.health.times["end"]
    pass_time(ended + 290.0 - rig.now())
    assert second.idle_s > 600.0
    assert state_of(second) is State.IDLE
    pass_time(20.0)
    assert state_of(second) is State.DRAINING


@pytest.mark.parametrize("pause_s", [0.0, 300.0])
def test_that_the_cloud_takes_a_machine_is_no_failed_launch(pause_s: float) -> None:
    node: Any = a_node(State.BUSY, market="spot")
    pool = a_pool(markets=("spot", "on-demand"))
    rig = Rig(node, pools=(pool,), cooldown_after_failure_s=pause_s)
    rig.batch.set_workers(a_worker(state=WorkerState.BUSY))
    rig.cloud.set_instances(an_instance(notice="soon"))
    rig.answer()
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=40),))
    rig.pass_time(30.0)
    assert rig.daemon.situation().no_launch == ""
