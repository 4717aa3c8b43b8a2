"""`idle_action = stop`: drain, look again, stop, confirm; and start again, with every answer that can come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest

from elastiq import history, reconcile
from elastiq.ending import Ending
from elastiq.executor import DeadlineError
from elastiq.interfaces import (
    CapacityError,
    CloudCapabilities,
    ConfigurationError,
    EndAnswer,
    EndOutcome,
    InstanceState,
    Offer,
    Terms,
    TransientError,
    UnsupportedError,
    Worker,
    WorkerState,
)
from elastiq.launching import Launching
from elastiq.nodes import Node, State
from elastiq.refusals import refused
from elastiq.situation import Launch, Step
from elastiq.stopped import is_stopped
from elastiq.store import StoreError
from tests.unit.fakes import MARK, OURS, UNREACHABLE, Surroundings
from tests.unit.values import WALL, a_node, a_pool, a_worker, an_instance, listing, state_of, view

STOPPING = a_pool(terms=Terms(idle_action="stop"))
OFFER = Offer("ec2", "medium", "", "stopped")
RAN_SINCE, RAN_AGAIN = WALL, WALL + 3600.0
DRAINED = a_worker(state=WorkerState.DRAINED, drained_by=OURS, started_at=RAN_SINCE)


class Rig(Surroundings):
    """One who ends, one who launches, and what the test lets them see of the workers and of the cloud."""

    def __init__(self, *nodes: Node, store_path: str = ":memory:", pool: Any = STOPPING, **changed: Any) -> None:
        super().__init__(store_path, pools=(pool,), **changed)
        self.cloud.capabilities = CloudCapabilities(stop=True)
        self.replans = 0
        self.ending = Ending(self.core, lambda: None)
        self.launching = Launching(self.core, self._replan)
        for node in nodes:
            self.core.registry.add(node)

    def _replan(self) -> None:
        self.replans += 1

    def look(self, *workers: Worker, settled: bool = True) -> None:
        """A read of the workers that begins now has come back with these."""
        self.run(1.0)
        reconcile.take_workers(self.core.registry, view(*workers), settled, 1.0, WALL, dict, MARK)
        self.ending.look(self.now(), settled, frozenset(self.settings.sites), "")
        self.core.persist()

    def listing(self, state: Optional[InstanceState], **changed: Any) -> None:
        """The cloud says that i-1 is so, or lists it not."""
        owned = [an_instance("i-1", state, **changed)] if state is not None else []
        reconcile.take_instances(self.core.registry, "aws", listing(*owned), self.now(), WALL, 600.0)
        self.core.persist()

    def start(self, count: int = 1, **more: Any) -> bool:
        return self.launching.launch(Launch(OFFER, count, "2 waiting jobs", **more))

    def asked(self, what: str) -> list[tuple[str, ...]]:
        return [ids for (ids,) in self.cloud.script.calls(what)]

    def notes(self) -> list[str]:
        return [what for _, what, _, _, _ in history.lines(self.store)]


def draining(**changed: Any) -> tuple[Rig, Node]:
    node = a_node(State.IDLE, idle_s=900.0)
    rig = Rig(node, **changed)
    rig.ending.drain(Step(node, "idle for 900 s"))
    rig.executor.only("batch").finish()
    return rig, node


def being_stopped(**changed: Any) -> tuple[Rig, Node]:
    """A machine that was drained, seen so, and whose stop is asked for now."""
    rig, node = draining(**changed)
    rig.look(DRAINED)
    return rig, node


def stopped(**changed: Any) -> tuple[Rig, Node]:
    """One that the cloud says is stopped, and whose worker is forgotten."""
    rig, node = being_stopped(**changed)
    rig.executor.only("cloud aws").finish()
    rig.run(60.0)
    rig.listing(InstanceState.STOPPED)
    rig.look()
    rig.executor.only("batch").finish()
    return rig, node


def another_life(rig: Rig) -> tuple[Rig, Node]:
    """The daemon was killed; another takes up its store."""
    path = rig.store.path
    rig.store.close()
    again = Rig(store_path=path, pool=rig.settings.pools[0])
    again.core.restore()
    (node,) = again.core.registry
    return again, node


# --------------------------------------------------------------------------- stop


def test_an_idle_machine_is_drained_looked_at_again_and_stopped() -> None:
    rig, node = draining()
    assert (state_of(node), rig.executor.acts("cloud")) == (State.DRAINING, [])
    rig.look(DRAINED)
    assert (state_of(node), node.reason) == (State.STOPPED, "idle for 900 s: stopped")
    assert [one.state for one in rig.store.nodes()] == [State.STOPPED], "stored before it is asked for"
    assert rig.asked("stop") == []
    rig.executor.only("cloud aws").finish()
    assert (rig.asked("stop"), rig.asked("terminate")) == ([("i-1",)], [])


def test_a_job_that_slipped_in_returns_the_machine_that_was_to_be_stopped() -> None:
    rig, node = draining()
    rig.look(a_worker(state=WorkerState.BUSY))
    assert (state_of(node), rig.executor.acts("cloud")) == (State.BUSY, [])


def test_a_stop_is_confirmed_by_the_cloud_and_then_the_worker_is_forgotten() -> None:
    rig, node = being_stopped()
    rig.executor.only("cloud aws").finish()
    rig.listing(InstanceState.STOPPING)
    rig.look(DRAINED)
    assert (state_of(node), is_stopped(node), rig.executor.acts()) == (State.STOPPED, False, [])
    rig.listing(InstanceState.STOPPED)
    rig.look()
    assert (is_stopped(node), node.worker, node.joined_at) == (True, None, None)
    rig.executor.only("batch").finish()
    assert rig.batch.script.calls("forget") == [("w1",)]


def test_a_stop_that_was_taken_is_not_asked_again_at_once_while_the_listings_still_say_running() -> None:
    rig, _node = being_stopped()
    rig.executor.only("cloud aws").finish()
    rig.look(DRAINED)
    assert rig.executor.acts("cloud") == []
    rig.run(40.0)
    rig.look(DRAINED)
    rig.executor.only("cloud aws").finish()
    assert len(rig.asked("stop")) == 2


def test_a_stop_whose_answer_was_lost_is_asked_again_by_a_fresh_look() -> None:
    rig, _node = being_stopped()
    rig.executor.only("cloud aws").time_out()
    assert rig.executor.acts("cloud") == [], "not before the machine was looked at"
    rig.run(60.0)
    rig.look(settled=False)
    assert rig.executor.acts("cloud") == []
    rig.look(DRAINED)
    rig.executor.only("cloud aws").finish()
    assert rig.asked("stop") == [("i-1",)]


@pytest.mark.parametrize("jobs", [4, 0], ids=["busy", "takes jobs again"])
def test_a_stop_is_never_asked_again_of_a_worker_that_takes_jobs(jobs: int) -> None:
    rig, node = being_stopped()
    rig.executor.only("cloud aws").fail(UNREACHABLE)
    rig.run(60.0)
    rig.look(a_worker(state=WorkerState.BUSY if jobs else WorkerState.IDLE, started_at=RAN_SINCE))
    assert rig.executor.acts("cloud") == []
    assert state_of(node) is (State.BUSY if jobs else State.IDLE)
    assert node.reason == "it runs again, and takes jobs"


def test_a_stop_that_waited_for_its_turn_is_not_sent_once_a_job_runs_there() -> None:
    rig, node = being_stopped()
    act = rig.executor.only("cloud aws")
    node.seen = a_worker(state=WorkerState.BUSY)
    act.finish()
    assert rig.asked("stop") == []


def test_a_machine_that_cannot_be_stopped_is_ended_instead_by_another_look() -> None:
    rig, node = being_stopped()
    rig.cloud.script.answers["stop"] = {"i-1": EndAnswer(EndOutcome.FAILED, "UnsupportedOperation: instance store")}
    rig.executor.only("cloud aws").finish()
    assert (state_of(node), rig.executor.acts()) == (State.DRAINING, [])
    rig.look(DRAINED)
    assert state_of(node) is State.TERMINATING
    rig.executor.only("cloud aws").finish()
    assert rig.asked("terminate") == [("i-1",)]


def test_a_cloud_that_turns_out_to_stop_nothing_ends_its_machines() -> None:
    rig, node = being_stopped()
    rig.executor.only("cloud aws").fail(UnsupportedError("this cloud cannot stop instances"))
    rig.look(DRAINED)
    assert state_of(node) is State.TERMINATING


def test_a_refusal_of_what_is_stopped_already_ends_nothing() -> None:
    rig, node = being_stopped()
    act = rig.executor.only("cloud aws")
    rig.listing(InstanceState.STOPPING)
    rig.cloud.script.answers["stop"] = {"i-1": EndAnswer(EndOutcome.FAILED, "IncorrectInstanceState")}
    act.finish()
    assert state_of(node) is State.STOPPED


@pytest.mark.parametrize(
    ("changed", "pool", "stop"),
    [
        ({}, STOPPING, True),
        ({"market": "spot"}, STOPPING, False),
        ({"condemned": "a black hole"}, STOPPING, False),
        ({"build": "old"}, replace(STOPPING, build="new"), False),
        ({}, a_pool(terms=Terms(idle_action="stop", max_vm_lifetime_s=0.5)), False),
        ({}, a_pool(), False),
        ({}, replace(STOPPING, name="another"), False),
    ],
    ids=["stop", "spot", "black hole", "outdated", "too old", "terminate", "pool removed"],
)
def test_what_is_not_to_be_used_again_is_ended_and_not_stopped(changed: Any, pool: Any, stop: bool) -> None:
    node = a_node(State.DRAINING, **changed)
    rig = Rig(node, pool=pool)
    node.act_ended, node.created_at = rig.now() - 1, rig.core.wall() - 1
    rig.look(DRAINED)
    assert state_of(node) is (State.STOPPED if stop else State.TERMINATING)


def test_a_machine_of_a_pool_that_is_being_drained_is_ended() -> None:
    rig, node = draining()
    rig.core.drained = frozenset({"ec2"})
    rig.look(DRAINED)
    assert state_of(node) is State.TERMINATING


def test_a_machine_that_the_cloud_is_about_to_take_is_ended() -> None:
    rig, node = draining()
    node.instance = an_instance(notice="it is retired on Monday")
    rig.look(DRAINED)
    assert state_of(node) is State.TERMINATING


def test_a_cloud_that_cannot_stop_ends() -> None:
    rig, node = draining()
    rig.cloud.capabilities = CloudCapabilities()
    rig.look(DRAINED)
    assert state_of(node) is State.TERMINATING


def test_a_dry_run_stops_nothing() -> None:
    node = a_node(State.DRAINING)
    rig = Rig(node, dry_run_shutdown_vms=True)
    node.act_ended = rig.now() - 1
    rig.look(DRAINED)
    assert (state_of(node), rig.executor.acts()) == (State.DRAINING, [])


# --------------------------------------------------------------------------- while it is stopped


@pytest.mark.parametrize("since", [RAN_SINCE, RAN_SINCE - 1])
def test_a_stale_ad_of_a_stopped_machine_is_neither_its_return_nor_a_stranger(since: float) -> None:
    rig, node = stopped()
    stale = replace(DRAINED, state=WorkerState.IDLE, drained_by=None, started_at=since)
    rig.look(stale)
    assert (state_of(node), node.seen, node.worker) == (State.STOPPED, None, None)
    assert rig.core.registry.strangers == {}
    assert rig.start()
    rig.look(stale)
    assert (state_of(node), node.seen) == (State.PENDING, None)


def test_where_ads_do_not_tell_since_when_a_machine_is_started_once_the_stale_one_is_gone() -> None:
    rig, _node = draining()
    rig.look(replace(DRAINED, started_at=None))
    rig.executor.only("cloud aws").finish()
    rig.listing(InstanceState.STOPPED)
    rig.look(replace(DRAINED, started_at=None))
    assert not rig.start()
    rig.look()
    assert rig.start()


def test_a_machine_that_somebody_starts_boots_and_is_back_in_service() -> None:
    rig, node = stopped()
    rig.listing(InstanceState.RUNNING)
    rig.look()
    assert (state_of(node), node.reason) == (State.PENDING, "started by someone else")
    rig.listing(InstanceState.RUNNING)
    rig.look(a_worker(started_at=RAN_AGAIN))
    assert (state_of(node), node.worker) == (State.IDLE, "w1")
    assert (rig.asked("stop"), rig.asked("terminate")) == ([("i-1",)], [])


def test_a_machine_that_somebody_started_and_that_reports_before_a_listing_says_so_is_in_service() -> None:
    rig, node = stopped()
    rig.look(a_worker(state=WorkerState.BUSY, started_at=RAN_AGAIN))
    assert (state_of(node), node.reason) == (State.BUSY, "it was started, and its worker reports")
    assert rig.batch.script.calls("forget") == [("w1",)], "once, when it was stopped"


def test_a_machine_that_somebody_ends_is_gone() -> None:
    rig, node = stopped()
    rig.listing(InstanceState.TERMINATED)
    assert (state_of(node), len(rig.core.registry)) == (State.GONE, 0)


def test_a_stopped_machine_that_the_cloud_lists_no_more_is_gone_after_three_listings() -> None:
    rig, node = stopped()
    for _ in range(3):
        assert len(rig.core.registry) == 1
        rig.run(60.0)
        rig.listing(None)
    assert state_of(node) is State.GONE


def test_a_machine_that_comes_to_error_instead_of_being_stopped_has_failed() -> None:
    rig, node = being_stopped()
    rig.executor.only("cloud aws").finish()
    rig.listing(InstanceState.ERROR)
    rig.look()
    assert state_of(node) is State.FAILED


@pytest.mark.parametrize("restarted", [False, True])
def test_a_stop_that_does_not_come_to_an_end_is_given_up(tmp_path: Path, restarted: bool) -> None:
    rig, node = being_stopped(store_path=str(tmp_path / "db"))
    rig.executor.only("cloud aws").finish()
    if restarted:
        rig, node = another_life(rig)
    rig.listing(InstanceState.STOPPING)
    rig.look()
    rig.run(1790.0)
    rig.look()
    assert state_of(node) is State.STOPPED
    rig.run(20.0)
    rig.look()
    assert state_of(node) is State.FAILED, "ended once it is known that no job is recorded there"


# --------------------------------------------------------------------------- start


def test_a_start_is_stored_before_it_is_asked_for() -> None:
    rig, node = stopped()
    node.boot_s, node.idle_s, node.emptied = 900.0, 900.0, {"cpus": 1.0}
    assert rig.start(groups={"g": 2})
    assert (state_of(node), node.reason) == (State.PENDING, "started again: 2 waiting jobs")
    assert (node.groups, node.boot_s, node.idle_s, node.emptied) == ({"g": 2}, 0.0, 0.0, {})
    assert [(one.state, one.groups) for one in rig.store.nodes()] == [(State.PENDING, {"g": 2})]
    assert rig.asked("start") == []
    rig.executor.only("cloud aws").finish()
    assert (rig.asked("start"), rig.asked("launch"), rig.replans) == ([("i-1",)], [], 1)
    assert "start" in rig.notes()


def test_no_store_no_start() -> None:
    rig, node = stopped()

    def full(*args: Any) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.save = full  # type: ignore[method-assign,assignment]
    assert not rig.start()
    assert (state_of(node), rig.executor.acts()) == (State.STOPPED, [])


def test_a_dry_run_starts_nothing() -> None:
    rig, node = stopped()
    rig.core.settings = replace(rig.settings, dry_run_boot_vms=True)
    assert not rig.start()
    assert state_of(node) is State.STOPPED


def test_a_machine_that_was_started_boots_and_joins() -> None:
    rig, node = stopped()
    rig.start()
    rig.executor.only("cloud aws").finish()
    rig.listing(InstanceState.STOPPED)
    assert state_of(node) is State.PENDING, "a listing may lag"
    rig.listing(InstanceState.PENDING)
    rig.listing(InstanceState.RUNNING)
    assert state_of(node) is State.BOOTING
    rig.look(a_worker(started_at=RAN_AGAIN))
    assert (state_of(node), node.worker) == (State.IDLE, "w1")


def test_it_can_be_stopped_and_confirmed_again() -> None:
    rig, node = stopped()
    rig.start()
    rig.executor.only("cloud aws").finish()
    rig.listing(InstanceState.RUNNING)
    rig.look(a_worker(started_at=RAN_AGAIN))
    rig.ending.drain(Step(node, "idle for 900 s"))
    rig.executor.only("batch").finish()
    rig.look(replace(DRAINED, started_at=RAN_AGAIN))
    assert state_of(node) is State.STOPPED
    rig.executor.only("cloud aws").finish()
    rig.run(60.0)
    rig.look(replace(DRAINED, started_at=RAN_AGAIN))
    assert state_of(node) is State.STOPPED, "it still runs, since the stop is not done: nobody has started it"
    rig.executor.only("cloud aws").finish()
    rig.listing(InstanceState.STOPPED)
    rig.look()
    assert is_stopped(node)


def test_a_start_refused_for_capacity_is_taken_back_and_held_back() -> None:
    rig, node = stopped()
    rig.start(groups={"g": 2})
    rig.core.trials.launched(a_group := _group(), 2)
    rig.cloud.script.answers["start"] = CapacityError("InsufficientInstanceCapacity")
    rig.executor.only("cloud aws").finish()
    assert (state_of(node), node.groups, rig.replans) == (State.STOPPED, {}, 1)
    assert node.reason == "could not be started: InsufficientInstanceCapacity"
    assert rig.core.trials.get(a_group.key).covered == 0
    health, now = rig.core.health, rig.now()
    assert "InsufficientInstanceCapacity" in health.blocked(OFFER, "aws", now)
    assert health.blocked(Offer("ec2", "medium"), "aws", now) == "", "a new one may be launched"
    assert node.failures == 0, "it is not the machine's own fault"


def _group() -> Any:
    from tests.unit.values import group

    return group("g", 2)


def test_of_a_start_that_is_refused_in_part_the_rest_boots() -> None:
    rig, node = stopped()
    other = a_node(State.STOPPED, 2, was_stopped=True, instance=an_instance("i-2", InstanceState.STOPPED))
    rig.core.registry.add(other)
    rig.start(2)
    rig.cloud.script.answers["start"] = {
        "i-1": EndAnswer(EndOutcome.FAILED, "the disk is gone"),
        "i-2": EndAnswer(EndOutcome.ENDING),
    }
    rig.executor.only("cloud aws").finish()
    assert (state_of(node), state_of(other)) == (State.STOPPED, State.PENDING)
    assert node.failures == 1
    assert "the disk is gone" in rig.core.health.blocked(OFFER, "aws", rig.now())


def test_a_machine_that_an_answer_does_not_name_is_not_started() -> None:
    rig, node = stopped()
    rig.start()
    rig.cloud.script.answers["start"] = {}
    rig.executor.only("cloud aws").finish()
    assert state_of(node) is State.STOPPED


def test_a_wrong_machine_is_counted_against_itself() -> None:
    rig, node = stopped()
    rig.start()
    rig.cloud.script.answers["start"] = ConfigurationError("the key of its disk is disabled")
    rig.executor.only("cloud aws").finish()
    assert node.failures == 1


@pytest.mark.parametrize("error", [TransientError("HTTP 504"), DeadlineError("no answer within 125 s")])
def test_a_start_of_unknown_outcome_is_not_sent_again_and_the_listings_tell(error: Exception) -> None:
    rig, node = stopped()
    rig.start()
    rig.executor.only("cloud aws").fail(error)
    assert state_of(node) is State.PENDING
    rig.listing(InstanceState.STOPPED)
    assert (state_of(node), rig.executor.acts("cloud")) == (State.PENDING, [])
    rig.listing(InstanceState.RUNNING)
    assert state_of(node) is State.BOOTING


def test_a_start_that_had_no_effect_within_intent_settle_s_has_failed() -> None:
    rig, node = stopped(intent_settle_s=600.0)
    rig.start()
    rig.executor.only("cloud aws").fail(TransientError("HTTP 504"))
    rig.run(590.0)
    rig.listing(InstanceState.STOPPED)
    assert state_of(node) is State.PENDING
    rig.run(20.0)
    rig.listing(InstanceState.STOPPED)
    assert state_of(node) is State.FAILED


def test_a_start_that_ends_in_another_state_meanwhile_is_not_taken_back() -> None:
    rig, node = stopped()
    rig.start()
    rig.listing(InstanceState.TERMINATED)
    rig.cloud.script.answers["start"] = CapacityError("InsufficientInstanceCapacity")
    rig.executor.only("cloud aws").finish()
    assert state_of(node) is State.GONE
    assert rig.core.counters["illegal_transitions"] == 0


def test_which_machine_a_started_one_replaces_is_stored_with_it() -> None:
    rig, _node = stopped()
    taken = a_node(State.BUSY, 2)
    rig.core.registry.add(taken)
    assert rig.start(replaces=("launch.2",))
    assert [one.replaced for one in rig.store.nodes() if one.id == "launch.2"] == [True]


def test_a_start_in_full_ends_the_pause_of_an_earlier_refusal() -> None:
    rig, _node = stopped()
    refused(rig.core.health, OFFER, "aws", CapacityError("none"), rig.now() - 600.0)
    rig.start()
    rig.executor.only("cloud aws").finish()
    assert rig.core.health.blocks == {}


# --------------------------------------------------------------------------- a kill at each point


def test_killed_between_the_move_and_the_call_the_stop_is_asked_by_the_next_run(tmp_path: Path) -> None:
    rig, node = being_stopped(store_path=str(tmp_path / "db"))
    rig, node = another_life(rig)
    assert state_of(node) is State.STOPPED
    rig.listing(InstanceState.RUNNING)
    rig.look(DRAINED)
    rig.executor.only("cloud aws").finish()
    assert rig.asked("stop") == [("i-1",)]


def test_killed_between_the_move_and_the_call_a_worker_that_got_a_job_is_in_service(tmp_path: Path) -> None:
    rig, node = being_stopped(store_path=str(tmp_path / "db"))
    rig, node = another_life(rig)
    rig.listing(InstanceState.RUNNING)
    rig.look(a_worker(state=WorkerState.BUSY, started_at=RAN_SINCE))
    assert (state_of(node), rig.executor.acts("cloud")) == (State.BUSY, [])


def test_killed_while_it_stops_the_next_run_sees_it_stopped(tmp_path: Path) -> None:
    rig, node = being_stopped(store_path=str(tmp_path / "db"))
    rig.executor.only("cloud aws").finish()
    rig, node = another_life(rig)
    rig.listing(InstanceState.STOPPING)
    rig.look()
    assert (state_of(node), rig.executor.acts()) == (State.STOPPED, [])
    rig.listing(InstanceState.STOPPED)
    rig.look(replace(DRAINED, drained_by=None))
    assert (is_stopped(node), node.worker, rig.core.registry.strangers) == (True, None, {})
    assert rig.start()


def test_killed_while_it_is_stopped_it_stays_so_and_one_that_was_started_meanwhile_boots(tmp_path: Path) -> None:
    rig, node = stopped(store_path=str(tmp_path / "db"))
    rig, node = another_life(rig)
    rig.listing(InstanceState.RUNNING)
    rig.look()
    assert (state_of(node), rig.executor.acts()) == (State.PENDING, [])


@pytest.mark.parametrize("sent", [False, True])
def test_killed_while_it_starts_the_listings_tell_what_came_of_it(tmp_path: Path, sent: bool) -> None:
    rig, node = stopped(store_path=str(tmp_path / "db"))
    rig.start()
    rig, node = another_life(rig)
    assert (state_of(node), rig.executor.acts()) == (State.PENDING, [])
    rig.listing(InstanceState.RUNNING if sent else InstanceState.STOPPED)
    rig.look(replace(DRAINED, drained_by=None))
    assert (state_of(node), node.seen) == (State.BOOTING if sent else State.PENDING, None)
    if not sent:
        rig.run(rig.settings.intent_settle_s + 1)
        rig.listing(InstanceState.STOPPED)
        assert state_of(node) is State.FAILED
