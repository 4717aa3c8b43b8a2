"""A person drains, returns and ends single machines."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any, Mapping, Optional

import pytest

from elastiq import history
from elastiq.commanding import carry_out
from elastiq.health import Health
from elastiq.interfaces import (
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    EndAnswer,
    EndOutcome,
    InstanceState,
    UnsupportedError,
    WorkerState,
)
from elastiq.nodes import Node, State
from elastiq.protocol import Refused
from elastiq.status import snapshot
from elastiq.store import StoreError
from tests.unit.fakes import OURS, UNREACHABLE
from tests.unit.test_daemon import Rig
from tests.unit.values import a_node, a_pool, a_worker, an_instance, state_of

BUSY = a_worker(state=WorkerState.BUSY)
DRAINING = a_worker(state=WorkerState.DRAINING, jobs=4, drained_by=OURS)
DRAINED = a_worker(state=WorkerState.DRAINED, drained_by=OURS)


def rig_with(worker: Any = None, state: State = State.IDLE, **changed: Any) -> tuple[Rig, Node]:
    """One machine, and its worker if it has one; both sides are known."""
    node = a_node(state, seen=None)
    rig = Rig(node, **changed)
    rig.batch.set_workers(*([worker] if worker else ()))
    rig.cloud.set_instances(an_instance())
    rig.cloud.script.answers["terminate"] = lambda ids: {name: EndAnswer(EndOutcome.ENDING) for name in ids}
    rig.answer()
    rig.run(1.0)
    return rig, node


def ask(rig: Rig, verb: str, node: str = "i-1", **args: Any) -> Mapping[str, Any]:
    """The answer, once all reads have come back; acts are answered by the test."""
    answer: Any = carry_out(rig.daemon, verb, {"node": node, **args})
    if isinstance(answer, Future):
        rig.answer()
        answer = answer.result(0)
    rig.run()
    return dict(answer)


def refusal(rig: Rig, verb: str, node: str = "i-1", **args: Any) -> str:
    with pytest.raises(Refused) as refused:
        ask(rig, verb, node, **args)
    assert refused.value.code == "impossible"
    return str(refused.value)


def drains(rig: Rig) -> list[tuple[Any, ...]]:
    return rig.batch.script.calls("drain")


def ended(rig: Rig) -> list[str]:
    """What the cloud was asked to end; the acts in flight are answered first."""
    for act in rig.executor.acts("cloud"):
        act.finish()
    rig.run()
    return [name for (ids,) in rig.cloud.script.calls("terminate") for name in ids]


def shows(rig: Rig, *workers: Any) -> None:
    """The batch system shows these; acts in flight end, and all reads that follow."""
    for act in rig.executor.acts("batch"):
        act.finish()
    rig.batch.set_workers(*workers)
    rig.run()
    rig.answer()
    rig.pass_time(10.0)


# --------------------------------------------------------------------------- drain


def test_a_busy_machine_is_drained_peacefully_and_ends_with_its_last_job() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    answer = ask(rig, "drain", reason="disk fails")
    assert (answer["node"], answer["jobs"], answer["can_drain"]) == ("i-1", 4, True)
    shows(rig, DRAINING)
    assert drains(rig) == [("w1", DrainMode.PEACEFUL)]
    rig.pass_time(3600.0)
    assert state_of(node) is State.DRAINING and ended(rig) == []
    assert node.reason == "elastiqctl drain: disk fails"
    shows(rig, DRAINED)
    assert ended(rig) == ["i-1"]


def test_an_idle_machine_that_a_minimum_needs_is_drained_and_another_comes() -> None:
    rig, node = rig_with(a_worker(), min_vms=1)
    ask(rig, "drain")
    assert state_of(node) is State.DRAINING
    assert [act.node for act in rig.executor.acts("cloud")] == ["launch launch1"]


def test_a_machine_that_boots_is_drained_when_it_has_joined_and_is_no_room_until_then() -> None:
    rig, node = rig_with(None, State.BOOTING)
    assert ask(rig, "drain")["state"] == "booting"
    rig.pass_time(30.0)
    assert state_of(node) is State.BOOTING
    rig.batch.set_workers(a_worker())
    rig.pass_time(45.0)
    assert state_of(node) is State.DRAINING


def test_it_outlives_a_restart_and_is_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    rig, _ = rig_with(BUSY, State.BUSY, store_path=path)
    rig.core.registry.touched.update(rig.core.registry.nodes)
    ask(rig, "drain", reason="old")
    rig.store.close()  # killed before the batch system was asked
    again = Rig(store_path=path)
    again.batch.set_workers(DRAINING)
    again.cloud.set_instances(an_instance())
    again.answer()
    (shown,) = snapshot(again.daemon)["nodes"]
    assert (shown["id"], shown["ordered"]) == ("i-1", "elastiqctl drain: old")
    again.batch.set_workers(DRAINED)
    again.pass_time(45.0)
    again.cloud.script.answers["terminate"] = {"i-1": EndAnswer(EndOutcome.ENDING)}
    assert ended(again) == ["i-1"]


def test_a_worker_that_was_drained_by_somebody_else_ends_when_it_is_empty() -> None:
    rig, _ = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["drain"] = DrainAnswer(DrainOutcome.REFUSED, "draining already")
    ask(rig, "drain")
    shows(rig, a_worker(state=WorkerState.DRAINED, drained_by="an admin"))
    rig.pass_time(200.0)
    rig.batch.script.answers["drain"] = DrainAnswer(DrainOutcome.DRAINED)
    rig.pass_time(200.0)
    for act in rig.executor.acts("batch"):
        act.finish()
    rig.pass_time(60.0)
    assert ended(rig) == ["i-1"]


def test_where_the_batch_system_cannot_drain_it_ends_when_it_is_idle() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    rig.batch.can_drain = False
    assert ask(rig, "drain")["can_drain"] is False
    rig.pass_time(120.0)
    assert state_of(node) is State.BUSY
    rig.batch.set_workers(a_worker())
    rig.pass_time(60.0)
    assert drains(rig) == [] and ended(rig) == ["i-1"]


def test_a_drain_that_a_person_asked_for_is_no_black_hole_and_is_not_replaced_as_one() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    ask(rig, "drain")
    assert (node.condemned, rig.core.health.replacements) == ("", Health().replacements)
    assert not [line for line in snapshot(rig.daemon)["notices"] if "black hole" in line]


def test_a_machine_is_called_by_its_instance_its_node_or_its_worker() -> None:
    rig, node = rig_with(a_worker("w1"))
    assert {ask(rig, "terminate", name, look=True)["node"] for name in ("i-1", node.id, "w1", "W1")} == {"i-1"}
    assert refusal(rig, "drain", "i-11") == "there is no node or worker `i-11` of this elastiq: did you mean i-1?"
    assert "elastiqctl status lists them" in refusal(rig, "drain", "something")
    for wrong in (None, 7, ""):
        with pytest.raises(Refused) as refused:
            carry_out(rig.daemon, "drain", {"node": wrong})
        assert refused.value.code == "malformed"


def test_the_first_part_of_a_workers_name_will_do_unless_it_is_that_of_two() -> None:
    nodes = [a_node(State.BUSY, number, worker=f"node.site{number}") for number in (1, 2)]
    rig = Rig(*nodes)
    assert refusal(rig, "drain", "node") == "node may be any of i-1, i-2: nothing was done"
    assert ask(rig, "drain", "node.site2")["node"] == "i-2"


@pytest.mark.parametrize("state", [State.TERMINATING, State.STOPPED])
def test_what_is_ended_or_stopped_is_not_drained(state: State) -> None:
    rig, _ = rig_with(None, state)
    assert refusal(rig, "drain").startswith("i-1 is ")


@pytest.mark.parametrize("verb", ["drain", "terminate"])
def test_while_ends_are_off_nothing_is_done_and_the_switch_is_named(verb: str) -> None:
    rig, node = rig_with(a_worker())
    carry_out(rig.daemon, "pause", {"terminate": True, "reason": "audit"})
    said = "no machine is drained or ended now: paused: audit (elastiqctl resume --terminate); nothing was done"
    assert refusal(rig, verb) == said
    assert (state_of(node), node.ordered) == (State.IDLE, "")
    off, _ = rig_with(a_worker(), terminate=False)
    assert refusal(off, verb) == "no machine is drained or ended now: terminate = no; nothing was done"


def test_a_drain_that_cannot_be_stored_is_refused() -> None:
    rig, node = rig_with(a_worker())
    break_store(rig)
    assert "cannot be written" in refusal(rig, "drain")
    assert (state_of(node), node.ordered) == (State.IDLE, "")


def break_store(rig: Rig) -> None:
    def full(*_: Any) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.save = full  # type: ignore[method-assign, assignment]


# --------------------------------------------------------------------------- undrain


def test_undrain_returns_it_to_service() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    ask(rig, "drain")
    shows(rig, DRAINING)
    ask(rig, "undrain")
    assert (state_of(node), node.ordered) == (State.BUSY, "")
    shows(rig, BUSY)
    assert rig.batch.script.calls("undrain") == [("w1",)]
    rig.pass_time(600.0)
    assert len(drains(rig)) == 1 and ended(rig) == []
    assert [what for _, what, *_ in history.lines(rig.store) if "drain" in what] == ["drain", "draining", "undrain"]


def test_undrain_before_the_drain_was_answered_takes_effect_all_the_same() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    ask(rig, "drain")
    ask(rig, "undrain")
    assert state_of(node) is State.BUSY
    shows(rig, DRAINING)
    rig.pass_time(60.0)
    shows(rig, BUSY)
    assert rig.batch.script.calls("undrain") == [("w1",)] and node.ordered == ""


def test_a_machine_that_is_being_returned_keeps_up_no_minimum_until_it_takes_jobs() -> None:
    rig, node = rig_with(DRAINED, State.DRAINING, min_vms=1)
    other = a_node(State.IDLE, 2, seen=None, idle_s=9000.0)
    rig.core.registry.add(other)
    node.ordered = "elastiqctl drain"
    rig.batch.set_workers(DRAINED, a_worker("w2"))
    rig.cloud.set_instances(an_instance(), an_instance("i-2"))
    carry_out(rig.daemon, "undrain", {"node": "i-1"})
    rig.run()
    rig.answer("workers", "cloud aws")
    rig.run()
    assert (state_of(node), state_of(other)) != (State.DRAINING, State.DRAINING)
    assert state_of(other) is State.IDLE, "the undrain may fail"


def test_undrain_of_a_black_hole_believes_the_person() -> None:
    rig, node = rig_with(DRAINING, State.DRAINING)
    node.condemned, node.starts_per_h = "black hole: 900 jobs an hour", 900.0
    ask(rig, "undrain")
    assert (state_of(node), node.condemned, node.starts_per_h) == (State.BUSY, "", 0.0)


def test_undrain_of_what_nobody_drained_is_refused() -> None:
    rig, node = rig_with(a_worker())
    assert refusal(rig, "undrain") == "i-1: it is idle, and not drained: nothing was done"
    ask(rig, "terminate")
    said = "i-1: elastiq drains it itself (elastiqctl terminate): nothing was done"
    assert state_of(node) is State.DRAINING and refusal(rig, "undrain") == said
    rig.core.registry.move(node, State.TERMINATING, "idle", 0.0)
    assert "that cannot be undone" in refusal(rig, "undrain")


# --------------------------------------------------------------------------- terminate


def test_an_idle_machine_is_drained_first_and_ended_by_a_read_that_began_later() -> None:
    rig, node = rig_with(a_worker())
    assert ask(rig, "terminate")["state"] == "draining"
    act = rig.executor.only("batch")
    rig.batch.set_workers(DRAINED)
    rig.pass_time(60.0)
    assert ended(rig) == [], "the drain was not answered yet"
    act.finish()
    assert ended(rig) == []
    rig.run()
    rig.answer()
    assert ended(rig) == ["i-1"] and node.reason == "elastiqctl terminate"
    assert "terminate" in [what for _, what, *_ in history.lines(rig.store)]


def test_a_job_that_slips_in_before_the_drain_keeps_the_machine() -> None:
    rig, node = rig_with(a_worker())
    rig.batch.script.answers["drain"] = DrainAnswer(DrainOutcome.BUSY, "a job runs there")
    ask(rig, "terminate")
    shows(rig, BUSY)
    assert state_of(node) is State.BUSY and ended(rig) == []


def test_a_machine_with_jobs_is_not_ended_and_they_are_named() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = ("12.0 (alice)", "13.1 (bob)")
    said = (
        "i-1 runs jobs (2 jobs: 12.0 (alice), 13.1 (bob)); elastiqctl drain i-1 ends it after them, --force kills them"
    )
    assert refusal(rig, "terminate") == f"{said}: nothing was done"
    assert state_of(node) is State.BUSY and drains(rig) == [] and ended(rig) == []


@pytest.mark.parametrize(
    ("error", "which"),
    [
        (UNREACHABLE, "the batch system does not say which: connection refused"),
        (UnsupportedError("no"), "4 jobs, which this batch system does not name"),
    ],
)
def test_jobs_that_cannot_be_named_keep_it_too(error: Exception, which: str) -> None:
    rig, _ = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = error
    assert refusal(rig, "terminate").startswith(f"i-1 runs jobs ({which}); ")


def test_of_many_jobs_the_first_are_named_and_the_others_counted() -> None:
    rig, _ = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = tuple(f"{number}.0" for number in range(25))
    assert "(25 jobs: 0.0, 1.0," in refusal(rig, "terminate") and "19.0 and 5 more)" in refusal(rig, "terminate")


def test_while_the_workers_are_not_known_it_is_refused() -> None:
    rig, node = rig_with(a_worker())
    rig.batch.script.answers["workers"] = UNREACHABLE
    rig.pass_time(400.0)
    said = refusal(rig, "terminate")
    assert said.startswith("whether jobs run on i-1 is not known (") and "--force" in said
    assert state_of(node) is State.IDLE


def test_a_lost_machine_is_not_ended_without_force() -> None:
    rig, node = rig_with(None, State.LOST)
    assert "its worker is missing" in refusal(rig, "terminate")
    assert state_of(node) is State.LOST


def test_a_machine_that_has_not_joined_is_looked_at_once_more_and_ended() -> None:
    rig, node = rig_with(None, State.BOOTING)
    assert ask(rig, "terminate")["state"] == "failed"
    assert ended(rig) == []
    rig.answer()
    assert ended(rig) == ["i-1"]
    assert rig.core.health.failed_boots == {}, "it is no fault of the image"
    assert node.reason == "elastiqctl terminate"


def test_should_it_join_in_that_moment_it_is_emptied_and_ends_then() -> None:
    rig, node = rig_with(None, State.BOOTING)
    ask(rig, "terminate")
    rig.batch.set_workers(BUSY)
    rig.answer()
    assert ended(rig) == []
    shows(rig, DRAINING)
    assert drains(rig) == [("w1", DrainMode.PEACEFUL)] and state_of(node) is State.DRAINING
    shows(rig, DRAINED)
    assert ended(rig) == ["i-1"]


def test_what_was_drained_by_somebody_else_and_is_empty_ends_by_a_further_read() -> None:
    rig, _ = rig_with(a_worker(state=WorkerState.DRAINED, drained_by="an admin"), State.BUSY)
    assert ask(rig, "terminate")["state"] == "draining"
    assert drains(rig) == [] and ended(rig) == []
    rig.answer()
    assert ended(rig) == ["i-1"]


def test_where_a_pool_stops_its_machines_this_one_is_ended() -> None:
    from elastiq.interfaces import CloudCapabilities, Terms

    rig, _ = rig_with(a_worker(), pools=(a_pool(terms=Terms(idle_action="stop")),))
    rig.cloud.capabilities = CloudCapabilities(stop=True)
    ask(rig, "terminate")
    shows(rig, DRAINED)
    assert ended(rig) == ["i-1"]


def test_a_stopped_machine_is_ended_at_once() -> None:
    rig, node = rig_with(None, State.STOPPED)
    rig.cloud.set_instances(an_instance(state=InstanceState.STOPPED))
    for act in rig.executor.acts():
        act.finish()
    ask(rig, "terminate")
    assert state_of(node) is State.TERMINATING and ended(rig) == ["i-1"]


def test_a_launch_that_has_no_instance_yet_is_not_ended() -> None:
    rig = Rig(a_node(State.REQUESTED))
    assert "has no instance yet" in refusal(rig, "terminate", "launch.1")


@pytest.mark.parametrize("args", [{"force": 1}, {"look": "x"}, {"force": True, "jobs": "12.0"}, {"jobs": [12]}])
def test_what_is_no_such_argument_is_refused(args: Mapping[str, Any]) -> None:
    rig, _ = rig_with(a_worker())
    with pytest.raises(Refused) as refused:
        carry_out(rig.daemon, "terminate", {"node": "i-1", **args})
    assert refused.value.code == "malformed"


# --------------------------------------------------------------------------- with force


def test_a_look_names_the_jobs_and_does_nothing() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = ("12.0",)
    shown = ask(rig, "terminate", look=True)
    assert (shown["node"], shown["worker"], shown["known"], shown["named"]) == ("i-1", "w1", True, ["12.0"])
    rig.batch.script.answers["jobs on"] = UNREACHABLE
    shown = ask(rig, "terminate", look=True)
    assert (shown["known"], shown["named"]) == (False, []) and "connection refused" in shown["why"]
    assert state_of(node) is State.BUSY and drains(rig) == []


def force(rig: Rig, jobs: Optional[list[str]]) -> Future[Any]:
    answer = carry_out(rig.daemon, "terminate", {"node": "i-1", "force": True, "jobs": jobs})
    assert isinstance(answer, Future)
    return answer


def test_with_force_it_is_drained_then_named_then_ended_with_its_jobs(caplog: pytest.LogCaptureFixture) -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = ("12.0 (alice)",)
    answer = force(rig, ["12.0 (alice)"])
    assert state_of(node) is State.DRAINING and rig.batch.script.calls("jobs on") == []
    rig.executor.only("batch").finish()
    assert drains(rig) == [("w1", DrainMode.PEACEFUL)] and ended(rig) == []
    rig.answer()
    assert answer.result(0)["killed"] == ["12.0 (alice)"]
    assert state_of(node) is State.TERMINATING
    assert ended(rig) == ["i-1"], "although its worker still shows jobs"
    said = "elastiqctl terminate --force: kills 12.0 (alice)"
    assert node.reason == said and said in caplog.text
    assert ("terminate", said) in [(what, reason) for _, what, _, _, reason in history.lines(rig.store)]


def test_a_job_that_nobody_named_is_not_killed_and_the_machine_is_returned() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = ("12.0", "14.0")
    answer = force(rig, ["12.0"])
    rig.executor.only("batch").finish()
    rig.answer()
    error = answer.exception(0)
    assert str(error) == "i-1: jobs have started there that were not named: 14.0: nothing was ended"
    assert (state_of(node), node.ordered) == (State.BUSY, "")
    shows(rig, BUSY)
    assert rig.batch.script.calls("undrain") == [("w1",)] and ended(rig) == []


def test_a_job_of_the_list_that_has_ended_meanwhile_is_no_obstacle() -> None:
    rig, _ = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = ("12.0",)
    answer = force(rig, ["12.0", "13.0"])
    rig.executor.only("batch").finish()
    rig.answer()
    assert answer.result(0)["killed"] == ["12.0"] and ended(rig) == ["i-1"]


def test_jobs_that_cannot_be_named_are_killed_only_where_that_was_said() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = UNREACHABLE
    answer = force(rig, [])
    rig.executor.only("batch").finish()
    rig.answer()
    assert "which jobs run there is not known" in str(answer.exception(0)) and ended(rig) == []
    shows(rig, BUSY)
    answer = force(rig, None)
    rig.executor.only("batch").finish()
    rig.answer()
    assert (answer.result(0)["known"], ended(rig)) == (False, ["i-1"])
    assert "which jobs it kills is not known (the batch system does not say which" in node.reason


@pytest.mark.parametrize("answer", [DrainAnswer(DrainOutcome.REFUSED, "not allowed"), UNREACHABLE])
def test_a_drain_that_is_refused_or_unknown_does_not_save_it(answer: Any) -> None:
    rig, _ = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers.update({"drain": answer, "jobs on": ("12.0",)})
    future = force(rig, ["12.0"])
    rig.executor.only("batch").finish()
    rig.answer()
    assert future.result(0)["killed"] == ["12.0"] and ended(rig) == ["i-1"]


def test_killed_between_the_drain_and_the_names_it_is_emptied_and_no_job_dies(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    rig, _ = rig_with(BUSY, State.BUSY, store_path=path)
    rig.batch.script.answers["jobs on"] = ("12.0",)
    force(rig, ["12.0"])
    rig.executor.only("batch").finish()
    rig.store.close()
    again = Rig(store_path=path)
    again.batch.set_workers(DRAINING)
    again.cloud.set_instances(an_instance())
    again.cloud.script.answers["terminate"] = {"i-1": EndAnswer(EndOutcome.ENDING)}
    again.answer()
    assert ("terminate", "elastiqctl terminate --force was asked for: drained first") in [
        (what, reason) for _, what, _, _, reason in history.lines(again.store)
    ]
    again.pass_time(900.0)
    assert ended(again) == []
    again.batch.set_workers(DRAINED)
    again.pass_time(60.0)
    assert ended(again) == ["i-1"]


def test_killed_after_the_decision_the_end_is_asked_for_again_although_jobs_run(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    rig, _ = rig_with(BUSY, State.BUSY, store_path=path)
    rig.batch.script.answers["jobs on"] = ("12.0",)
    force(rig, ["12.0"])
    rig.executor.only("batch").finish()
    rig.answer()
    rig.store.close()
    again = Rig(store_path=path)
    again.batch.set_workers(DRAINING)
    again.cloud.set_instances(an_instance())
    again.cloud.script.answers["terminate"] = {"i-1": EndAnswer(EndOutcome.ENDING)}
    again.answer()
    again.pass_time(60.0)
    assert ended(again)[:1] == ["i-1"]


def test_a_full_disk_does_not_keep_a_forced_end_from_happening() -> None:
    rig, _ = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = ("12.0",)
    break_store(rig)
    answer = force(rig, ["12.0"])
    rig.executor.only("batch").finish()
    rig.answer()
    assert answer.result(0)["killed"] == ["12.0"] and ended(rig) == ["i-1"]

@pytest.mark.parametrize("state", [State.TERMINATING, State.FAILED])
def test_an_end_that_a_person_asked_for_holds_should_the_machine_come_back(state: State) -> None:
    """Its end is asked for already, and may take no effect: who wanted it gone is not to ask again."""
    rig, node = rig_with(a_worker())
    rig.core.registry.move(node, state, "idle", 0.0)
    ask(rig, "terminate")
    assert node.ordered == "elastiqctl terminate"
    rig.core.registry.move(node, State.BUSY, "its end took no effect, and it takes jobs again", 0.0)
    shows(rig, BUSY)
    rig.pass_time(60.0)
    assert (state_of(node), node.reason) == (State.DRAINING, "elastiqctl terminate"), "it goes after its jobs"


@pytest.mark.parametrize("state", [State.BOOTING, State.PENDING, State.FAILED, State.STOPPED, State.TERMINATING])
def test_with_force_a_machine_without_a_worker_ends_at_once(state: State) -> None:
    rig, node = rig_with(None, state)
    ended(rig)
    assert force(rig, None).result(0)["killed"] == []
    assert state_of(node) is State.TERMINATING and ended(rig)[-1:] == ["i-1"]


def test_with_force_a_lost_machine_ends_and_the_jobs_that_the_queue_records_are_named() -> None:
    rig, _ = rig_with(None, State.LOST)
    rig.batch.script.answers["jobs on"] = ("12.0",)
    answer = force(rig, ["12.0"])
    rig.answer()
    assert answer.result(0)["killed"] == ["12.0"] and ended(rig) == ["i-1"]


def test_two_at_once_for_one_machine_are_told_apart() -> None:
    rig, _ = rig_with(BUSY, State.BUSY)
    force(rig, ["12.0"])
    assert "something is being asked for it just now" in refusal(rig, "terminate", force=True)


def test_a_pause_that_comes_between_the_steps_holds() -> None:
    rig, node = rig_with(BUSY, State.BUSY)
    rig.batch.script.answers["jobs on"] = ("12.0",)
    answer = force(rig, ["12.0"])
    rig.executor.only("batch").finish()
    carry_out(rig.daemon, "pause", {})
    rig.answer()
    assert "paused by elastiqctl" in str(answer.exception(0))
    assert ended(rig) == [] and state_of(node) is State.BUSY


def test_jobs_that_no_queue_records_are_not_taken_for_none() -> None:
    rig, node = rig_with(BUSY, State.BUSY)  # flocked from elsewhere, say
    rig.batch.script.answers["jobs on"] = ()
    assert refusal(rig, "terminate").startswith("i-1 runs jobs (4 jobs, which no queue records); ")
    assert ask(rig, "terminate", look=True)["known"] is False
    answer = force(rig, [])
    rig.executor.only("batch").finish()
    rig.answer()
    assert "is not known (4 jobs, which no queue records)" in str(answer.exception(0))
    assert ended(rig) == [] and state_of(node) is State.BUSY


def test_whether_a_machine_that_boots_has_joined_meanwhile_is_not_known_without_a_look() -> None:
    rig, node = rig_with(None, State.BOOTING)
    look = ask(rig, "terminate", look=True)
    assert (look["known"], look["why"]) == (False, "it had not joined when elastiq looked last")
    assert "is not known (it had not joined" in str(force(rig, []).exception(0))
    assert state_of(node) is State.BOOTING and node.acting is False
