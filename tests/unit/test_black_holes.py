"""A machine on which jobs start far more often than on its peers is drained once, named, and replaced once an hour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastiq.black_holes import condemn
from elastiq.ending import Ending
from elastiq.failed_drains import SHOWN_AFTER_S
from elastiq.health import REPLACED_EVERY_S, Health
from elastiq.interfaces import DrainMode, WorkerState
from elastiq.nodes import Node, State
from elastiq.planner import plan
from elastiq.reconcile import PACE_S
from elastiq.situation import Step
from tests.unit.fakes import OURS, Surroundings
from tests.unit.test_ending import Rig
from tests.unit.test_planner import launched, reason
from tests.unit.test_reconcile import see
from tests.unit.values import NOW, a_node, a_pool, a_registry, a_worker, group, situation, some_settings, state_of


def busy(number: int, starts_per_h: float, **changed: Any) -> Node:
    return a_node(State.BUSY, number, was_busy=True, starts_per_h=starts_per_h, **changed)


def drains(*nodes: Node, **changed: Any) -> dict[str, str]:
    """What is drained for good, and why."""
    made = plan(situation(nodes=nodes, **changed))
    return {step.node.name: step.reason for step in made.drains if step.for_good}


PEERS = (busy(1, 4.0), busy(2, 6.0), busy(3, 5.0))


def test_a_machine_far_faster_than_its_peers_is_drained_and_the_reason_says_how_fast() -> None:
    assert drains(*PEERS, busy(4, 700.0)) == {"i-4": "black hole: 700 jobs an hour start on a core, 5 on its peers'"}


@pytest.mark.parametrize(
    "nodes",
    [
        (*PEERS, busy(4, 350.0)),  # a start each 10 s may well be work
        (busy(1, 60.0), busy(2, 60.0), busy(3, 700.0)),  # short jobs everywhere
        (busy(1, 700.0), busy(2, 700.0), busy(3, 700.0)),
        (busy(1, 5.0), busy(2, 700.0)),  # which of two is the odd one?
        (*PEERS, busy(4, 700.0, pool="other")),  # no peers there
        (*PEERS, a_node(State.DRAINING, 4, starts_per_h=700.0)),
    ],
)
def test_a_machine_like_its_peers_or_without_any_is_left_alone(nodes: tuple[Node, ...]) -> None:
    assert drains(*nodes) == {}


def test_nothing_is_drained_for_it_while_ends_are_out_of_the_question() -> None:
    assert drains(*PEERS, busy(4, 700.0), no_end="the view is not settled") == {}
    assert drains(*PEERS, busy(4, 700.0), sites=frozenset()) == {}
    assert drains(*PEERS, busy(4, 700.0, acting=True)) == {}


def test_one_that_was_condemned_stays_so_although_it_is_quiet_now() -> None:
    found = drains(*PEERS, busy(4, 0.0, condemned="black hole: as it was"))
    assert found == {"i-4": "black hole: as it was"}


def test_an_idle_machine_is_drained_once_whatever_the_reasons() -> None:
    idle = a_node(State.IDLE, 4, was_busy=True, condemned="black hole", idle_s=9000.0)
    made = plan(situation(nodes=(*PEERS, idle)))
    assert [step.node.name for step in made.drains] == ["i-4"]


# --------------------------------------------------------------------------- how fast it is


def paced(per_read: int, reads: int, every_s: float = 45.0) -> float:
    node = a_node(State.BUSY)
    registry = a_registry(node)
    for number in range(reads):
        see(registry, a_worker(state=WorkerState.BUSY, job_starts=100 + per_read * number), observed_s=every_s)
    return node.starts_per_h


def test_the_pace_is_that_of_the_last_minutes() -> None:
    assert paced(per_read=20, reads=200) == pytest.approx(400.0, rel=0.01), "on each of four cores"
    assert paced(per_read=20, reads=2) < 40.0  # one burst is not yet a pace
    assert paced(per_read=0, reads=200) == 0.0


def test_the_pace_does_not_depend_on_how_often_it_is_looked_at() -> None:
    assert paced(4, 201, every_s=9.0) == pytest.approx(paced(20, 41, every_s=45.0), rel=0.02)


def test_a_worker_that_begins_anew_or_says_nothing_has_no_pace() -> None:
    node = a_node(State.BUSY, job_starts=5000)
    registry = a_registry(node)
    for starts in (3, None, 4000):
        see(registry, a_worker(state=WorkerState.BUSY, job_starts=starts), observed_s=PACE_S)
    assert node.starts_per_h == 0.0


def test_what_was_not_observed_is_no_pace() -> None:
    node = a_node(State.BUSY, job_starts=0)
    registry = a_registry(node)
    see(registry, a_worker(state=WorkerState.BUSY, job_starts=900), settled=False, observed_s=45.0)
    see(registry, a_worker(state=WorkerState.BUSY, job_starts=1800), observed_s=0.0)
    assert node.starts_per_h == 0.0


# --------------------------------------------------------------------------- the drain


REASON = "black hole: 700 jobs an hour start on a core, 5 on its peers'"


def condemned(**changed: Any) -> tuple[Rig, Node]:
    node = a_node(State.BUSY)
    rig = Rig(node, **changed)
    rig.ending.drain(Step(node, REASON, for_good=True))
    rig.run(1.0)
    return rig, node


def test_its_jobs_end_by_themselves_however_long_that_takes_then_it_ends() -> None:
    rig, node = condemned()
    rig.executor.only("batch").finish()
    assert rig.batch.script.asked == [("drain", "w1", DrainMode.PEACEFUL)]
    for _ in range(3):
        rig.run(rig.settings.drain_timeout_s)
        node.seen = a_worker(state=WorkerState.DRAINING, jobs=2, drained_by=OURS)
        rig.look()
        assert (state_of(node), rig.terminated(), rig.executor.pending) == (State.DRAINING, [], [])
    node.seen = a_worker(state=WorkerState.DRAINED, drained_by=OURS)
    rig.look()
    rig.executor.only("cloud").finish()
    assert (state_of(node), node.reason, rig.terminated()) == (State.TERMINATING, REASON, [("i-1",)])


def test_it_is_named_until_it_is_gone() -> None:
    rig, node = condemned()
    assert rig.core.notices["black hole i-1"] == f"{REASON}: drained for good where elastiq may drain"
    rig.ending.forget(node)
    assert "black hole i-1" not in rig.core.notices


def test_its_worker_shows_the_drain_only_a_moment_later() -> None:
    rig, node = condemned()
    rig.executor.only("batch").finish()
    node.seen = a_worker(state=WorkerState.BUSY)
    for _ in range(2):
        rig.run(1.0)
        rig.look()
    assert (state_of(node), rig.executor.pending) == (State.DRAINING, [])


@pytest.mark.parametrize("shown_before", [False, True], ids=["never shown", "undone by somebody"])
def test_a_drain_that_took_no_effect_returns_it_and_is_asked_for_again_later(shown_before: bool) -> None:
    rig, node = condemned()
    rig.executor.only("batch").finish()
    if shown_before:
        rig.run(100.0)
        node.seen = a_worker(state=WorkerState.DRAINING, jobs=2, drained_by=OURS)
        rig.look()
    node.seen = a_worker(state=WorkerState.BUSY)
    rig.run(SHOWN_AFTER_S - 1.0)
    rig.look()
    assert state_of(node) is State.DRAINING
    rig.run(1.0)
    rig.look()
    assert (state_of(node), node.condemned) == (State.BUSY, REASON)
    assert not node.may_act(rig.now())


def test_a_restart_does_not_return_it_and_names_it_still(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    first, _ = condemned(store_path=path)
    first.store.close()
    again = Surroundings(path)
    again.core.restore()
    (node,) = again.core.registry
    assert again.core.notices == {"black hole i-1": f"{REASON}: drained for good"}
    looks: list[float] = []
    ending = Ending(again.core, lambda: looks.append(again.now()))
    sites = frozenset(again.settings.sites)
    for _ in range(2):
        node.seen = a_worker(state=WorkerState.DRAINING, jobs=2, drained_by=OURS)
        ending.look(again.now(), True, sites, "")
        again.run(1.0)
    assert (state_of(node), node.condemned, len(looks)) == (State.DRAINING, REASON, 1)


def test_where_nothing_can_be_drained_it_is_only_named() -> None:
    node = a_node(State.BUSY)
    rig = Rig(node)
    rig.batch.can_drain = False
    rig.ending.drain(Step(node, REASON, for_good=True))
    assert (state_of(node), node.condemned, rig.executor.pending) == (State.BUSY, "", [])
    assert "black hole i-1" in rig.core.notices


def test_a_dry_run_condemns_nothing() -> None:
    rig, node = condemned(dry_run_shutdown_vms=True)
    assert (state_of(node), node.condemned, rig.core.health.replacements) == (State.BUSY, "", {})


# --------------------------------------------------------------------------- the replacement


def test_one_is_replaced_at_once_and_the_others_an_hour_after_each_other() -> None:
    health = Health()
    for later_s in (0.0, 10.0, 20.0):
        condemn(health, "ec2", "medium", NOW + later_s)
    assert health.unreplaced(NOW + 30.0) == [("ec2", "medium")] * 2
    assert health.unreplaced(NOW + REPLACED_EVERY_S) == [("ec2", "medium")]
    assert health.unreplaced(NOW + 2 * REPLACED_EVERY_S) == []
    condemn(health, "ec2", "medium", NOW + 4 * REPLACED_EVERY_S)
    assert health.unreplaced(NOW + 4 * REPLACED_EVERY_S) == []


def holes(count: int) -> Health:
    health = Health()
    for _ in range(count):
        condemn(health, "ec2", "medium", NOW - 10.0)
    return health


@pytest.mark.parametrize(("condemned_", "machines"), [(0, 3), (1, 3), (2, 2), (4, 0)])
def test_what_is_not_replaced_yet_is_not_launched(condemned_: int, machines: int) -> None:
    made = plan(situation(group(waiting=12), health=holes(condemned_)))
    assert sum(launched(made).values()) == machines
    if not machines:
        assert reason(made) == "a black hole's replacement, one an hour, will serve it when it has joined"


def test_another_group_or_flavour_does_not_get_what_is_held_back() -> None:
    pool = a_pool(flavours=("medium", "large"))
    made = plan(situation(group("a", 4), group("b", 4), settings=some_settings(pools=(pool,)), health=holes(2)))
    assert sum(launched(made).values()) == 1


def test_the_minimum_waits_for_it_too() -> None:
    made = plan(situation(settings=some_settings(min_vms=3), health=holes(3)))
    assert launched(made) == {"ec2/medium": 1}
