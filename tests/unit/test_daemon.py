"""The loop: reads are asked for, taken, believed or not, and what fails does not stop it."""

from __future__ import annotations

import logging
import random
from typing import Any, Callable, Optional

import pytest

from elastiq import planner
from elastiq.commanding import carry_out
from elastiq.daemon import ATTENTIVE_S, SELDOM_S, Daemon
from elastiq.demand import Standing
from elastiq.interfaces import Instances, InstanceState, Jobs, SourceError, Terms, WorkerState
from elastiq.nodes import State
from elastiq.protocol import Refused
from elastiq.reload import take_over
from elastiq.situation import Plan, Situation
from elastiq.status import snapshot
from elastiq.store import StoreError
from tests.unit.fakes import OURS, UNREACHABLE, FakeBatch, FakeCloud, MatchingBatch, Pending, Surroundings
from tests.unit.values import a_node, a_pool, a_worker, an_instance, group, some_settings, state_of


class Rig(Surroundings):
    """A daemon whose reads the test ends; ``plans`` may be the test's own."""

    def __init__(
        self,
        *nodes: Any,
        store_path: str = ":memory:",
        plans: Callable[[Situation], Plan] = planner.plan,
        **changed: Any,
    ) -> None:
        super().__init__(store_path, **changed)
        self.core.jitter = random.Random(1)
        self.daemon = Daemon(self.core, plans)
        self.observer = self.daemon.observer
        for node in nodes:
            self.core.registry.add(node)
        self.daemon.start()
        self.run()

    def answer(self, *sources: str) -> None:
        """End the reads that are in flight, of these sources or of all; what follows happens."""
        for pending in list(self.executor.pending):
            if not pending.node and (not sources or pending.source in sources):
                pending.finish()
        self.run()

    def pass_time(self, seconds: float, step_s: float = 5.0) -> None:
        """Let time pass, with every read answered soon."""
        passed = 0.0
        while passed < seconds:
            self.run(step_s)
            self.answer()
            passed += step_s

    def read(self, source: str) -> Pending:
        (pending,) = self.executor.reads(source)
        return pending


# --------------------------------------------------------------------------- reads


def test_at_the_start_every_source_is_read_at_once_and_nothing_is_done_before_the_answers() -> None:
    rig = Rig(a_node(State.IDLE, seen=None, idle_s=9000.0))
    assert sorted(pending.source for pending in rig.executor.pending) == ["cloud aws", "queue", "workers"]
    assert snapshot(rig.daemon)["state"] == "starting"
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    rig.batch.set_workers(a_worker())
    rig.cloud.set_instances(an_instance())
    rig.answer("queue", "workers")
    assert rig.executor.acts() == [], "the instances are not known"
    rig.answer()
    assert snapshot(rig.daemon)["state"] == "active"


def test_a_source_that_hangs_leaves_only_its_own_observation_stale() -> None:
    rig = Rig()
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    for _ in range(60):
        rig.run(5.0)
        rig.answer("queue", "workers")
    assert rig.executor.acts() == []
    rows = {row["name"]: row["known"] for row in snapshot(rig.daemon)["sources"]}
    assert rows == {"the queue": True, "the workers": True, "site aws": False}


def test_a_failed_read_of_the_queue_launches_nothing_although_it_was_known_before() -> None:
    rig = Rig()
    rig.answer()
    rig.run(15.0)
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    rig.read("queue").fail(UNREACHABLE)
    rig.answer()
    assert rig.executor.acts() == []
    assert rig.daemon.last_plan is not None
    assert "the queue could not be read: connection refused" in rig.daemon.last_plan.summary
    rig.pass_time(15.0)
    assert len(rig.executor.acts("cloud aws")) == 1


def test_a_plugin_that_raises_what_it_should_not_is_unknown_and_told_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    rig.batch.script.answers["workers"] = ZeroDivisionError("division by zero")
    with caplog.at_level(logging.INFO):
        rig.pass_time(200.0)
    assert "ZeroDivisionError: division by zero" in rig.observer.workers.error
    assert caplog.text.count("a plugin failed in a way it should not") == 1
    assert "Traceback" in caplog.text
    assert rig.core.counters["plugin_faults"] > 1
    assert rig.core.faults == {}


def test_boots_are_looked_at_more_often_and_the_rest_at_the_period() -> None:
    def reads_within(*nodes: Any) -> int:
        rig = Rig(*nodes, check_vms_every_s=45.0)
        rig.cloud.set_instances(*(node.instance for node in nodes))
        rig.answer()
        before = len(rig.batch.script.calls("workers"))
        rig.pass_time(90.0, step_s=1.0)
        return len(rig.batch.script.calls("workers")) - before

    assert reads_within() == 2
    assert reads_within(a_node(State.BOOTING)) >= int(90 / (ATTENTIVE_S + 1))


# --------------------------------------------------------------------------- clocks


def idle_rig(**changed: Any) -> tuple[Rig, Any]:
    node = a_node(State.IDLE, seen=None)
    rig = Rig(node, **changed)
    rig.batch.set_workers(a_worker())
    rig.cloud.set_instances(an_instance())
    rig.answer()
    return rig, node


def test_idle_time_runs_with_the_reads() -> None:
    rig, node = idle_rig()
    rig.pass_time(200.0)
    assert 130.0 <= node.idle_s <= 200.0


def test_time_in_which_the_daemon_did_not_look_does_not_count() -> None:
    rig, node = idle_rig()
    rig.pass_time(90.0)
    before = node.idle_s
    rig.clock.wait(3 * 3600.0)  # stopped in its tracks, or the machine slept
    rig.run()
    rig.answer()
    assert node.idle_s <= before
    assert state_of(node) is State.IDLE
    rig.pass_time(90.0)
    assert before < node.idle_s < before + 180.0


def test_a_failed_read_of_the_workers_stops_the_clocks_until_two_good_ones() -> None:
    rig, node = idle_rig()
    rig.pass_time(90.0)
    before = node.idle_s
    rig.batch.script.answers["workers"] = UNREACHABLE
    rig.pass_time(450.0)
    rig.batch.set_workers(a_worker())
    rig.pass_time(45.0)
    assert node.idle_s == before
    rig.pass_time(90.0)
    assert before < node.idle_s <= before + 90.0


def test_a_step_of_the_wall_clock_moves_no_clock() -> None:
    rig, node = idle_rig()
    rig.pass_time(90.0)
    before = node.idle_s
    rig.clock.step_wall(10 * 86400.0)
    rig.pass_time(45.0)
    assert before < node.idle_s <= before + 60.0


def test_idle_time_survives_a_restart(tmp_path: Any) -> None:
    path = str(tmp_path / "db")
    rig, node = idle_rig(store_path=path)
    rig.pass_time(400.0)
    before = node.idle_s
    rig.store.close()

    again = Rig(store_path=path)
    again.batch.set_workers(a_worker())
    again.cloud.set_instances(an_instance())
    again.answer()
    (kept,) = again.core.registry
    assert before - 60.0 - 45.0 <= kept.idle_s <= before
    again.pass_time(90.0)
    assert kept.idle_s > before - 60.0


# --------------------------------------------------------------------------- scale down through the loop


def test_the_look_after_a_drain_is_a_read_that_began_after_it_ended() -> None:
    rig, node = idle_rig(idle_for_time_s=60.0)
    while not rig.executor.acts("batch"):
        rig.run(5.0)
        rig.answer()
    act = rig.executor.only("batch")
    while not rig.executor.reads("workers"):
        rig.run(1.0)
    early = rig.read("workers")
    rig.run(1.0)
    act.finish()
    rig.batch.set_workers(a_worker(state=WorkerState.DRAINED, drained_by=OURS))
    rig.run(1.0)
    early.finish()  # it shows a drained machine, but began before the drain ended
    rig.run()
    assert state_of(node) is State.DRAINING
    rig.answer("workers")
    assert state_of(node) is State.TERMINATING
    rig.executor.only("cloud").finish()
    assert rig.cloud.script.calls("terminate") == [(("i-1",),)]


@pytest.mark.parametrize("when", ["collector restarted", "queue unknown", "queue partial", "instances unknown"])
def test_nothing_is_drained_while_either_side_is_in_doubt(when: str) -> None:
    rig, node = idle_rig(idle_for_time_s=300.0)
    rig.pass_time(250.0)
    if when == "collector restarted":
        rig.batch.set_workers(a_worker(), up_s=10.0)
    elif when == "queue unknown":
        rig.batch.script.answers["jobs"] = UNREACHABLE
    elif when == "queue partial":
        rig.batch.script.answers["jobs"] = Jobs((), missing=("schedd2",))
    else:
        rig.cloud.script.answers["instances"] = UNREACHABLE
    rig.pass_time(50.0)
    node.idle_s = 5000.0
    rig.pass_time(400.0)
    assert (state_of(node), rig.executor.acts()) == (State.IDLE, [])
    rig.batch.set_workers(a_worker())
    rig.batch.script.answers["jobs"] = Jobs(())
    rig.cloud.set_instances(an_instance())
    rig.pass_time(60.0)
    assert state_of(node) is State.DRAINING


def test_a_machine_that_joins_in_the_moment_of_its_deadline_is_not_ended() -> None:
    node = a_node(State.BOOTING, boot_s=595.0)
    rig = Rig(node)
    rig.cloud.set_instances(an_instance())
    rig.answer()
    while state_of(node) is State.BOOTING:
        rig.run(5.0)
        rig.answer()
    assert state_of(node) is State.FAILED
    assert rig.executor.acts() == [], "it is looked at once more"
    rig.batch.set_workers(a_worker(state=WorkerState.BUSY))
    rig.answer()
    assert (state_of(node), rig.executor.acts()) == (State.BUSY, [])


def test_the_cloud_calls_a_booting_machine_impaired_and_it_is_ended() -> None:
    node = a_node(State.BOOTING)
    rig = Rig(node)
    rig.cloud.set_instances(an_instance())
    rig.cloud.script.answers["problems"] = {"i-1": "impaired: reachability", "i-foreign": "impaired"}
    rig.pass_time(60.0)
    assert state_of(node) is State.TERMINATING
    assert node.reason == "the cloud says impaired: reachability"
    assert rig.executor.only("cloud").finish() is not None


def test_an_impaired_machine_whose_worker_reports_is_left_alone() -> None:
    rig, node = idle_rig()
    rig.cloud.script.answers["problems"] = {"i-1": "impaired"}
    rig.pass_time(60.0)
    assert (state_of(node), rig.executor.acts()) == (State.IDLE, [])


def asked_for_problems(rig: Rig, seconds: float) -> int:
    before = len(rig.cloud.script.calls("problems"))
    rig.pass_time(seconds)
    return len(rig.cloud.script.calls("problems")) - before


def test_impaired_machines_are_asked_for_seldom_while_the_clouds_word_fails_none() -> None:
    rig, node = idle_rig(idle_for_time_s=1e6)
    assert asked_for_problems(rig, 3600.0) == 3600 / SELDOM_S
    rig.batch.set_workers()
    while state_of(node) is not State.LOST:
        rig.pass_time(5.0)
    rig.cloud.script.answers["problems"] = {"i-1": "impaired"}
    rig.pass_time(rig.core.settings.check_vms_every_s + rig.core.settings.check_vms_in_error_every_s)
    assert node.reason == "the cloud says impaired", "once it might be one, it is asked for at the key's period again"


def test_a_longer_period_of_the_key_is_not_shortened() -> None:
    rig, _ = idle_rig(idle_for_time_s=1e6, check_vms_in_error_every_s=1200.0)
    assert asked_for_problems(rig, 3600.0) == 3


# --------------------------------------------------------------------------- trials through the loop


def test_an_impossible_group_is_found_out_by_its_own_machine_and_launched_for_once() -> None:
    rig = Rig(unused_room_s=300.0, idle_for_time_s=600.0)
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=1),))
    rig.answer()
    rig.executor.only("cloud").finish()
    (node,) = rig.core.registry
    assert node.instance is not None
    rig.cloud.set_instances(an_instance(node.instance.id, addresses=node.addresses))
    rig.batch.set_workers(a_worker("w1", addresses=node.addresses))
    rig.pass_time(900.0)
    assert rig.core.trials.standing("g") is Standing.UNSERVED
    assert state_of(node) is State.DRAINING, "and nothing keeps the machine any more"
    assert rig.core.counters["launches_asked"] == 1


def test_a_group_whose_only_machine_was_lost_is_launched_for_again() -> None:
    rig = Rig()
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=1),))
    rig.answer()
    rig.executor.only("cloud").finish()
    (node,) = rig.core.registry
    instance_id = node.instance_id or ""
    rig.cloud.set_instances(an_instance(instance_id, addresses=node.addresses))
    rig.batch.set_workers(a_worker("w1", addresses=node.addresses))
    rig.pass_time(30.0)
    assert state_of(node) is State.IDLE
    rig.batch.set_workers()
    rig.cloud.set_instances(an_instance(instance_id, InstanceState.TERMINATED, addresses=node.addresses))
    rig.pass_time(60.0)
    assert rig.core.counters["launches_asked"] == 2


def test_the_rest_of_a_launch_that_was_not_given_is_asked_of_the_next_offer_in_the_same_cycle() -> None:
    rig = Rig(pools=(a_pool("a"), a_pool("b")))
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=12),))
    rig.cloud.script.answers["launch"] = lambda intent: rig.cloud.make(intent, 1)
    rig.answer()
    rig.executor.only("cloud").finish()
    rig.run()
    rig.executor.only("cloud").finish()
    asked = [(intent.offer.pool, intent.count) for (intent,) in rig.cloud.script.calls("launch")]
    assert asked == [("a", 3), ("b", 2)]


# --------------------------------------------------------------------------- what fails does not stop it


def test_a_handler_that_fails_is_logged_once_with_its_traceback_and_goes_on_with_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    rig.answer()
    times: list[float] = []

    def fail() -> None:
        times.append(rig.now())
        raise KeyError("a bug")

    rig.daemon._every("check_test", fail, first_s=0.0, every_s=10.0)
    with caplog.at_level(logging.INFO):
        rig.pass_time(2000.0, step_s=1.0)
    pauses = [later - earlier for earlier, later in zip(times, times[1:])]
    for number, pause in enumerate(pauses):
        expected = min(600.0, 10.0 * 2 ** (number + 1))
        assert expected <= pause <= expected * 1.2 + 1e-6, pauses
    assert len(pauses) >= 5
    assert caplog.text.count("Traceback") == 1
    assert caplog.text.count("this is a bug in elastiq") == 1
    (fault,) = rig.core.faults
    assert fault.startswith("check_test: KeyError at fail:")
    assert rig.core.faults[fault] == len(times) == rig.core.counters["handler_faults"]
    assert len(rig.batch.script.calls("jobs")) > 100, "the others went on"


def test_a_handler_that_works_again_is_back_at_its_period() -> None:
    rig = Rig()
    times: list[float] = []

    def work() -> None:
        times.append(rig.now())
        if len(times) == 2:
            raise KeyError("once")

    rig.daemon._every("check_test", work, first_s=0.0, every_s=10.0)
    rig.pass_time(100.0, step_s=1.0)
    pauses = [later - earlier for earlier, later in zip(times, times[1:])]
    assert pauses[0] == 10.0
    assert 20.0 <= pauses[1] <= 24.0
    assert set(pauses[2:]) == {10.0}


def test_a_planner_that_fails_stops_neither_the_reads_nor_the_status() -> None:
    def broken(situation: Situation) -> Plan:
        raise RuntimeError("a bug")

    rig = Rig(plans=broken)
    rig.pass_time(100.0)
    assert len(rig.batch.script.calls("jobs")) >= 6
    assert list(rig.core.faults) == [f"plan: RuntimeError at broken:{broken.__code__.co_firstlineno + 1}"]
    assert snapshot(rig.daemon)["faults"] == rig.core.faults


def test_two_bugs_are_two_faults() -> None:
    rig = Rig()

    def first() -> None:
        raise KeyError("x")

    def second() -> None:
        raise KeyError("x")

    for action in (first, second, first):
        assert not rig.core.guard("test", action)
    assert sorted(rig.core.faults.values()) == [1, 2]


def test_an_event_that_fails_outside_of_every_handler_does_not_end_the_loop() -> None:
    rig = Rig()
    seen: list[str] = []

    def fail() -> None:
        seen.append("failed")
        raise ZeroDivisionError

    rig.events.after(1.0, fail)
    rig.events.after(2.0, lambda: seen.append("went on"))
    rig.events.after(3.0, rig.daemon.stop)
    rig.daemon.run()
    assert seen == ["failed", "went on"]


def test_a_store_that_cannot_be_written_stops_launches_only_and_they_go_on_when_it_can() -> None:
    rig, node = idle_rig(idle_for_time_s=300.0)
    save = rig.store.save

    def full(nodes: Any, history: Any = ()) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.save = full  # type: ignore[method-assign]
    rig.pass_time(400.0)
    rig.executor.only("batch").finish()
    rig.batch.set_workers(a_worker(state=WorkerState.DRAINED, drained_by=OURS))
    rig.pass_time(20.0)
    assert state_of(node) is State.TERMINATING
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    rig.pass_time(60.0)
    assert rig.cloud.script.calls("launch") == []
    assert rig.daemon.last_plan is not None
    assert "cannot be written" in rig.daemon.last_plan.summary
    rig.store.save = save  # type: ignore[method-assign]
    rig.pass_time(60.0)
    assert len([pending for pending in rig.executor.acts("cloud") if pending.node.startswith("launch")]) == 1
    assert "store" not in rig.core.notices


def test_the_last_action_names_no_launch_that_could_not_be_journalled() -> None:
    rig = Rig()
    journal = rig.store.journal

    def full(intent: Any, nodes: Any) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.journal = full  # type: ignore[method-assign]
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    rig.answer()
    assert rig.daemon.last_plan.summary.startswith("launch 1 of ec2/medium")
    assert rig.daemon.last_action == (None, "nothing was done yet")
    rig.store.journal = journal  # type: ignore[method-assign]
    rig.pass_time(90.0)
    assert rig.daemon.last_action[1].startswith("launch 1 of ec2/medium")
    assert len(rig.executor.acts("cloud")) == 1


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_last_action_names_no_drain_of_a_dry_run(dry_run: bool) -> None:
    rig, _ = idle_rig(idle_for_time_s=300.0, dry_run_shutdown_vms=dry_run)
    rig.pass_time(400.0)
    said = "nothing was done yet" if dry_run else "drain i-1: idle for"
    assert rig.daemon.last_action[1].startswith(said)
    assert len(rig.executor.acts("batch")) == (0 if dry_run else 1)


def test_where_nothing_can_be_drained_the_log_says_what_will_be_done(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    rig, _ = idle_rig(idle_for_time_s=300.0)
    rig.batch.can_drain = False
    rig.pass_time(400.0)
    assert any(line.startswith("plan: look once more at i-1 and end it: idle for 3") for line in caplog.messages)
    assert "drain" not in rig.daemon.last_action[1]


# --------------------------------------------------------------------------- reload, adopt, stop


def test_a_reload_forgets_what_was_read_and_drops_what_is_still_coming() -> None:
    rig = Rig()
    rig.answer()
    rig.run(45.0)
    old = rig.read("workers")
    batch, cloud = FakeBatch(), FakeCloud()
    take_over(rig.daemon, some_settings(min_vms=1), batch, {"aws": cloud})
    assert rig.observer.workers.value is None
    old.finish()
    rig.run()
    assert rig.observer.workers.value is None, "it is the answer of the old plugin"
    rig.pass_time(60.0)
    assert batch.script.calls("workers") != []
    assert [pending.source for pending in rig.executor.acts()] == ["cloud aws"]


@pytest.mark.parametrize("source", ["queue", "workers", "cloud aws"])
def test_what_was_asked_before_a_reload_is_asked_again_at_once(source: str) -> None:
    """A listing takes its time, and the next one would only come a period later."""
    rig = Rig()
    rig.answer()
    rig.run(45.0)
    for pending in list(rig.executor.pending):
        if pending.source != source:
            pending.finish()
    old = rig.read(source)
    take_over(rig.daemon, rig.settings, rig.batch, {"aws": rig.cloud})
    rig.run(3.0)
    assert rig.read(source) is old
    old.finish()
    rig.answer()
    assert [one.name for one in rig.observer.observations() if one.value is None] == []


def test_a_reload_keeps_for_how_long_jobs_have_waited() -> None:
    """Else who reloads often enough never gets a machine."""
    rig = Rig(waiting_jobs_time_s=60.0)
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    (cloud,) = rig.core.clouds.values()
    for _ in range(5):
        rig.pass_time(20.0)
        take_over(rig.daemon, rig.settings, rig.batch, {"aws": cloud})
    rig.pass_time(5.0)
    assert [act.node for act in rig.executor.acts("cloud")] == ["launch launch1"]


def test_a_read_that_was_in_flight_at_the_first_reload_is_dropped_too() -> None:
    rig = Rig()
    old = rig.read("queue")
    take_over(rig.daemon, rig.settings, rig.batch, {"aws": rig.cloud})
    old.finish()
    assert rig.observer.jobs.value is None


def test_of_another_heads_machines_only_those_that_were_named_are_adopted() -> None:
    rig = Rig()
    rig.cloud.script.answers["instances"] = Instances((), other_heads=(an_instance("i-7"), an_instance("i-8")))
    rig.answer()
    assert "other heads at aws" in rig.core.notices
    assert carry_out(rig.daemon, "adopt", {}) == {"instances": ["i-7", "i-8"]}
    assert rig.executor.acts() == []
    assert carry_out(rig.daemon, "adopt", {"ids": ["i-7"]}) == {"adopted": ["i-7"]}
    rig.executor.only("cloud aws").finish()
    assert rig.cloud.script.calls("adopt") == [(("i-7",),)]


@pytest.mark.parametrize(
    ("verb", "args", "code", "words"),
    [
        ("adopt", {"ids": ["i-7", "i-9", "i-10"]}, "impossible", "i-9, i-10"),
        ("adopt", {"ids": "i-7"}, "malformed", "list"),
        ("adopt", {"ids": [7]}, "malformed", "list"),
        ("self-destruct", {}, "unknown-verb", "self-destruct"),
    ],
)
def test_a_command_that_cannot_be_done_whole_is_refused(
    verb: str, args: dict[str, Any], code: str, words: str
) -> None:
    rig = Rig()
    rig.cloud.script.answers["instances"] = Instances((), other_heads=(an_instance("i-7"),))
    rig.answer()
    with pytest.raises(Refused, match=words) as refused:
        carry_out(rig.daemon, verb, args)
    assert refused.value.code == code
    assert rig.executor.acts() == []


def test_a_stop_plans_nothing_more() -> None:
    rig = Rig()
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    rig.answer("queue", "workers")
    rig.daemon.stop()
    rig.read("cloud aws").finish()
    rig.events.run()
    rig.run()
    assert rig.executor.acts() == []
    rig.daemon.close()
    assert rig.executor.closed


def unexplained() -> Optional[str]:
    rig = Rig(a_node(State.BOOTING))
    rig.cloud.set_instances(an_instance())
    rig.batch.set_workers(a_worker("w9"))
    rig.answer()
    return rig.core.notices.get("identity")


def test_a_worker_that_matches_no_instance_is_told() -> None:
    said = unexplained()
    assert said is not None
    assert said.startswith("workers w9 match no instance")


@pytest.mark.parametrize("error", [SourceError("x"), UNREACHABLE])
def test_a_notice_goes_when_its_cause_goes(error: SourceError) -> None:
    rig = Rig()
    rig.read("queue").fail(error)
    assert "queue" in rig.core.notices
    rig.pass_time(20.0)
    assert "queue" not in rig.core.notices


def test_a_worker_ad_that_the_batch_system_cannot_use_is_told_until_it_can() -> None:
    pools = (a_pool(terms=Terms(worker_ad=("HasDocker = true",))),)
    rig = Rig(pools=pools)
    assert rig.core.notices["worker_ad"] == "has no effect, jobs are not matched (HTCondor: bindings)"
    take_over(rig.daemon, rig.settings, MatchingBatch(), {"aws": rig.cloud})
    assert "worker_ad" not in rig.core.notices
    take_over(rig.daemon, some_settings(), rig.batch, {"aws": rig.cloud})
    assert "worker_ad" not in rig.core.notices
