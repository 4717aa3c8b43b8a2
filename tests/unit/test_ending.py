"""Drain, look again, terminate, confirm: step by step, with every answer that can come in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest

from elastiq.doubtful_ends import end
from elastiq.ending import ENDS_IN_ONE_CALL, LONGEST_RETRY_S, RETRY_S, Ending
from elastiq.executor import UnsentError
from elastiq.interfaces import DrainAnswer, DrainMode, DrainOutcome, EndAnswer, EndOutcome, InstanceState, WorkerState
from elastiq.nodes import Node, State
from elastiq.situation import Step
from tests.unit.fakes import OURS, UNREACHABLE, Surroundings
from tests.unit.values import a_node, a_worker, an_instance, state_of

DRAINED = a_worker(state=WorkerState.DRAINED, drained_by=OURS)


class Rig(Surroundings):
    """One who ends, some nodes, and a worker view that the test writes."""

    def __init__(self, *nodes: Node, store_path: str = ":memory:", **changed: Any) -> None:
        super().__init__(store_path, **changed)
        self.looks_wanted = 0
        self.no_end = ""
        self.ending = Ending(self.core, self._look_again, lambda: self.no_end)
        for node in nodes:
            self.core.registry.add(node)

    def _look_again(self) -> None:
        self.looks_wanted += 1

    def look(self, settled: bool = True, no_end: str = "", began: Optional[float] = None) -> None:
        """A read of the workers that began now, or when told, has come back."""
        began = self.now() if began is None else began
        self.ending.look(began, settled, frozenset(self.settings.sites), no_end)

    def terminated(self) -> list[tuple[str, ...]]:
        return [ids for (ids,) in self.cloud.script.calls("terminate")]


def draining(**changed: Any) -> tuple[Rig, Node]:
    """A node whose drain was asked for and done a second ago."""
    node = a_node(State.IDLE, idle_s=900.0)
    rig = Rig(node, **changed)
    rig.ending.drain(Step(node, "idle for 900 s"))
    rig.run(1.0)
    if rig.batch.can_drain:
        rig.executor.only("batch").finish()
    rig.run(1.0)
    return rig, node


# --------------------------------------------------------------------------- drain


def test_a_drain_is_asked_for_only_if_the_machine_is_still_idle_and_is_stored_before_it_is_sent() -> None:
    node = a_node(State.IDLE)
    rig = Rig(node)
    rig.ending.drain(Step(node, "idle for 900 s"))
    assert (state_of(node), node.reason) == (State.DRAINING, "idle for 900 s")
    assert [stored.state for stored in rig.store.nodes()] == [State.DRAINING]
    assert rig.batch.script.asked == []
    rig.executor.only("batch").finish()
    assert rig.batch.script.asked == [("drain", "w1", DrainMode.IF_IDLE)]
    assert (rig.looks_wanted, rig.terminated()) == (1, [])


def test_a_drained_machine_that_is_seen_drained_is_terminated() -> None:
    rig, node = draining()
    node.seen = DRAINED
    rig.look()
    assert (state_of(node), node.reason) == (State.TERMINATING, "idle for 900 s")
    assert [stored.state for stored in rig.store.nodes()] == [State.TERMINATING]
    rig.executor.only("cloud aws").finish()
    assert rig.terminated() == [("i-1",)]


def test_only_a_look_that_began_after_the_drain_ended_counts() -> None:
    rig, node = draining()
    assert node.act_ended is not None
    node.seen = DRAINED
    rig.look(began=node.act_ended - 0.1)
    assert (state_of(node), rig.executor.acts()) == (State.DRAINING, [])
    rig.look(began=node.act_ended + 0.1)
    assert state_of(node) is State.TERMINATING


def test_nothing_is_looked_at_while_the_drain_has_not_come_back() -> None:
    node = a_node(State.IDLE)
    rig = Rig(node)
    rig.ending.drain(Step(node, "idle"))
    node.seen = DRAINED
    for _ in range(3):
        rig.run(1.0)
        rig.look()
    assert (state_of(node), rig.looks_wanted) == (State.DRAINING, 0)


SLIPPED_IN = [
    a_worker(state=WorkerState.BUSY),
    a_worker(state=WorkerState.BUSY, jobs=0),
    a_worker(state=WorkerState.DRAINING, jobs=1, drained_by=OURS),
    a_worker(state=WorkerState.DRAINED, jobs=1, drained_by=OURS),
    a_worker(state=WorkerState.IDLE, jobs=1),
]


@pytest.mark.parametrize("seen", SLIPPED_IN, ids=lambda worker: f"{worker.state.value}-{worker.jobs}")
@pytest.mark.parametrize("settled", [True, False])
def test_a_job_that_slipped_in_returns_the_machine_and_undoes_the_drain(seen: Any, settled: bool) -> None:
    rig, node = draining()
    node.seen = seen
    rig.look(settled=settled)
    assert (state_of(node), node.reason) == (State.BUSY, "a job slipped in before the drain took effect")
    rig.executor.only("batch").finish()
    assert rig.batch.script.asked[-1] == ("undrain", "w1")
    assert rig.terminated() == []
    assert rig.core.counters["drains_slipped_in"] == 1


@pytest.mark.parametrize(
    "seen",
    [None, a_worker(), a_worker(state=WorkerState.OTHER), a_worker(state=WorkerState.DRAINING)],
    ids=["not seen", "idle", "other", "draining"],
)
def test_a_machine_that_is_not_seen_out_of_service_is_not_ended_and_returns_in_time(seen: Any) -> None:
    rig, node = draining(drain_timeout_s=300.0)
    node.seen = seen
    rig.look()
    assert state_of(node) is State.DRAINING
    rig.run(298.0)
    rig.look()
    assert state_of(node) is State.DRAINING
    rig.run(2.0)
    rig.look()
    assert state_of(node) is State.IDLE
    assert node.reason == "drain_timeout_s 300 passed: its worker does not show that it is out of service"
    rig.executor.only("batch").finish()
    assert rig.batch.script.asked[-1] == ("undrain", "w1")


@pytest.mark.parametrize("obstacle", [{"settled": False}, {"no_end": "the queue could not be read"}])
def test_a_drained_machine_is_not_ended_while_ends_are_out_of_the_question(obstacle: dict[str, Any]) -> None:
    rig, node = draining(drain_timeout_s=300.0)
    node.seen = DRAINED
    rig.look(**obstacle)
    assert state_of(node) is State.DRAINING
    rig.look()
    assert state_of(node) is State.TERMINATING


def test_a_drained_machine_of_a_site_that_is_not_known_now_is_not_ended() -> None:
    rig, node = draining()
    node.seen = DRAINED
    rig.ending.look(rig.now(), True, frozenset(), "")
    assert state_of(node) is State.DRAINING


@pytest.mark.parametrize("outcome", [DrainOutcome.BUSY, DrainOutcome.REFUSED])
def test_a_drain_that_was_not_done_ends_nothing_and_is_not_undone(outcome: DrainOutcome) -> None:
    node = a_node(State.IDLE, idle_s=900.0)
    rig = Rig(node)
    rig.batch.script.answers["drain"] = DrainAnswer(outcome, "not allowed")
    rig.ending.drain(Step(node, "idle"))
    rig.executor.only().finish()
    assert (state_of(node), node.reason) == (State.IDLE, f"drain {outcome.value}: not allowed")
    assert (rig.executor.pending, rig.looks_wanted) == ([], 0)
    assert node.retry_at == rig.now() + RETRY_S
    assert ("draining" in rig.core.notices) is (outcome is DrainOutcome.REFUSED)
    rig.batch.script.answers["drain"] = DrainAnswer(DrainOutcome.DRAINED)
    rig.ending.drain(Step(node, "idle"))
    rig.executor.only().finish()
    assert "draining" not in rig.core.notices


def test_a_drain_that_is_refused_again_and_again_is_asked_for_less_and_less() -> None:
    node = a_node(State.IDLE)
    rig = Rig(node)
    rig.batch.script.answers["drain"] = DrainAnswer(DrainOutcome.REFUSED)
    waits = []
    for _ in range(7):
        rig.ending.drain(Step(node, "idle"))
        rig.executor.only().finish()
        waits.append(node.retry_at - rig.now())
    assert waits == [30.0, 60.0, 120.0, 240.0, 480.0, LONGEST_RETRY_S, LONGEST_RETRY_S]


@pytest.mark.parametrize("how", ["error", "deadline"])
def test_a_drain_of_unknown_outcome_is_looked_at_and_followed_if_it_took_effect(how: str) -> None:
    node = a_node(State.IDLE)
    rig = Rig(node)
    rig.ending.drain(Step(node, "idle"))
    act = rig.executor.only()
    if how == "error":
        act.fail(UNREACHABLE)
    else:
        act.time_out()
    assert (state_of(node), rig.looks_wanted) == (State.DRAINING, 1)
    assert rig.core.counters["drains_unknown"] == 1
    rig.run(1.0)
    node.seen = a_worker()
    rig.look()
    assert state_of(node) is State.DRAINING
    node.seen = DRAINED
    rig.look()
    assert state_of(node) is State.TERMINATING


def test_a_drain_that_was_not_sent_returns_the_machine_with_nothing_to_undo() -> None:
    node = a_node(State.IDLE, idle_s=900.0)
    rig = Rig(node)
    rig.ending.drain(Step(node, "idle for 900 s"))
    rig.executor.only("batch").fail(UnsentError("not sent: others of its source have not been answered for 20 s"))
    assert (state_of(node), node.may_act(rig.now()), rig.executor.pending) == (State.IDLE, False, [])
    assert node.may_act(rig.now() + RETRY_S), "it is decided anew, but not at once: the source does not answer"
    assert node.reason == "drain not sent: others of its source have not been answered for 20 s"


def test_a_machine_on_which_a_job_ran_before_the_drain_took_effect_is_returned() -> None:
    """It is in use again, although the drain found it idle."""
    node = a_node(State.IDLE, idle_s=900.0, job_starts=7)
    rig = Rig(node)
    rig.ending.drain(Step(node, "idle for 900 s"))
    rig.executor.only("batch").finish()
    rig.run(1.0)
    node.seen, node.job_starts = DRAINED, 8
    rig.look()
    assert (state_of(node), node.reason) == (State.IDLE, "a job ran there before the drain took effect")
    assert [pending.source for pending in rig.executor.pending] == ["batch"], "the drain is undone"
    assert rig.terminated() == []


def test_somebody_elses_drain_is_not_followed_by_an_end_and_not_undone() -> None:
    node = a_node(State.IDLE)
    rig = Rig(node)
    rig.ending.drain(Step(node, "idle"))
    rig.executor.only().fail(UNREACHABLE)
    rig.run(1.0)
    node.seen = a_worker(state=WorkerState.DRAINED, drained_by="root: a disk is to be changed")
    rig.look()
    assert state_of(node) is State.IDLE
    assert node.reason == "drained by someone else (root: a disk is to be changed): left alone"
    assert rig.executor.pending == []


def test_without_drains_the_end_follows_a_read_that_began_after_the_decision() -> None:
    rig = Rig()
    rig.batch.can_drain = False
    node = rig.core.registry.add(a_node(State.IDLE, idle_s=900.0))
    decided = rig.now()
    rig.ending.drain(Step(node, "idle"))
    assert (rig.executor.pending, rig.looks_wanted) == ([], 1)
    rig.run(1.0)
    rig.look(began=decided - 0.5)
    assert state_of(node) is State.DRAINING
    rig.look()
    assert state_of(node) is State.TERMINATING
    rig.executor.only("cloud").finish()
    assert rig.terminated() == [("i-1",)]


def test_without_drains_a_job_that_slipped_in_returns_the_machine_and_there_is_nothing_to_undo() -> None:
    rig = Rig()
    rig.batch.can_drain = False
    node = rig.core.registry.add(a_node(State.IDLE))
    rig.ending.drain(Step(node, "idle"))
    rig.run(1.0)
    node.seen = a_worker(state=WorkerState.BUSY)
    rig.look()
    assert (state_of(node), rig.executor.pending) == (State.BUSY, [])


def test_a_dry_run_drains_and_ends_nothing() -> None:
    idle, failed = a_node(State.IDLE, 1), a_node(State.FAILED, 2)
    ending = a_node(State.TERMINATING, 3)
    rig = Rig(idle, failed, ending, dry_run_shutdown_vms=True)
    rig.ending.drain(Step(idle, "idle"))
    end(rig.ending, [Step(failed, "never joined")])
    rig.ending.again()
    rig.look()
    assert [node.state for node in rig.core.registry] == [State.IDLE, State.FAILED, State.TERMINATING]
    assert rig.executor.pending == []


# --------------------------------------------------------------------------- our own drains without a purpose


@pytest.mark.parametrize("state", [WorkerState.DRAINED, WorkerState.DRAINING])
def test_a_drain_of_ours_that_serves_nothing_is_undone(state: WorkerState) -> None:
    node = a_node(State.BUSY, seen=a_worker(state=state, jobs=0, drained_by=OURS))
    rig = Rig(node)
    rig.look()
    rig.executor.only("batch").finish()
    assert rig.batch.script.asked == [("undrain", "w1")]


def test_an_undrain_that_fails_is_tried_again_at_the_next_look() -> None:
    node = a_node(State.BUSY, seen=a_worker(state=WorkerState.DRAINED, jobs=0, drained_by=OURS))
    rig = Rig(node)
    rig.look()
    rig.look()
    rig.executor.only("batch").fail(UNREACHABLE)
    rig.look()
    rig.executor.only("batch").finish()
    assert rig.batch.script.asked == [("undrain", "w1")]


@pytest.mark.parametrize("by", ["root: maintenance", "elastiq 0000000000000000 of another", None])
def test_a_drain_of_somebody_else_is_never_undone(by: Optional[str]) -> None:
    node = a_node(State.BUSY, seen=a_worker(state=WorkerState.DRAINED, jobs=0, drained_by=by))
    rig = Rig(node)
    rig.look()
    assert rig.executor.pending == []


# --------------------------------------------------------------------------- machines that serve nobody


def test_a_machine_that_never_was_a_worker_is_ended_without_asking_the_queue() -> None:
    node = a_node(State.FAILED)
    rig = Rig(node)
    end(rig.ending, [Step(node, "did not join")])
    rig.executor.only("cloud").finish()
    assert (rig.terminated(), rig.batch.script.asked) == ([("i-1",)], [])


def test_a_lost_machine_is_ended_if_the_queue_records_no_job_there() -> None:
    free, used = a_node(State.LOST, 1), a_node(State.LOST, 2)
    rig = Rig(free, used)
    rig.batch.script.answers["recorded"] = {"w2": 3}
    end(rig.ending, [Step(free, "missing"), Step(used, "missing")])
    assert rig.executor.acts() == []
    rig.executor.reads("recorded jobs")[0].finish()
    assert rig.batch.script.asked == [("recorded", ("w1", "w2"))]
    rig.executor.only("cloud").finish()
    assert rig.terminated() == [("i-1",)]
    assert used.state is State.LOST
    assert used.reason == "its worker is missing, but the queue records jobs as running there (3): kept"
    assert used.retry_at > rig.now()


def test_a_lost_machine_is_kept_while_the_queue_does_not_answer() -> None:
    node = a_node(State.LOST)
    rig = Rig(node)
    end(rig.ending, [Step(node, "missing")])
    rig.executor.reads("recorded jobs")[0].fail(UNREACHABLE)
    assert (state_of(node), rig.executor.pending) == (State.LOST, [])
    assert "whether jobs run there is not known: kept (connection refused)" in node.reason
    assert not node.may_act(rig.now()), "it is asked again, but less and less often"


def test_a_lost_machine_is_kept_if_the_view_became_unsettled_while_the_queue_was_asked() -> None:
    node = a_node(State.LOST)
    rig = Rig(node)
    end(rig.ending, [Step(node, "missing")])
    rig.no_end = "the batch system has been up for only 1 s"
    rig.executor.reads("recorded jobs")[0].finish()
    assert (state_of(node), node.acting, rig.executor.pending) == (State.LOST, False, [])


@pytest.mark.parametrize("back", [WorkerState.BUSY, WorkerState.IDLE])
def test_a_machine_that_came_back_while_its_end_waited_for_its_turn_is_not_ended(back: WorkerState) -> None:
    node = a_node(State.LOST)
    rig = Rig(node)
    rig.batch.script.answers["recorded"] = {"w1": 0}
    end(rig.ending, [Step(node, "missing")])
    rig.executor.reads("recorded jobs")[0].finish()
    assert state_of(node) is State.TERMINATING
    node.seen = a_worker(state=back)  # a read came before the call was sent
    rig.executor.only("cloud aws").finish()
    assert rig.terminated() == []
    rig.run(RETRY_S)
    rig.look()
    in_service = State.BUSY if back is WorkerState.BUSY else State.IDLE
    assert (state_of(node), node.reason) == (in_service, "its end took no effect, and it takes jobs again")
    assert rig.executor.acts("cloud") == [] and "ending i-1" not in rig.core.notices


@pytest.mark.parametrize("state", [State.LOST, State.FAILED])
def test_a_machine_that_came_back_while_the_queue_was_asked_is_not_ended(state: State) -> None:
    node = a_node(state, worker="w1")
    rig = Rig(node)
    end(rig.ending, [Step(node, "missing")])
    node.seen = a_worker()
    rig.core.registry.move(node, State.IDLE, "", 0.0)
    rig.executor.reads("recorded jobs")[0].finish()
    assert (state_of(node), rig.executor.pending) == (State.IDLE, [])


def test_many_are_ended_in_few_calls() -> None:
    nodes = [a_node(State.FAILED, number) for number in range(1, 2 * ENDS_IN_ONE_CALL + 2)]
    rig = Rig(*nodes)
    end(rig.ending, [Step(node, "never joined") for node in nodes])
    for act in rig.executor.acts("cloud"):
        act.finish()
    assert [len(ids) for ids in rig.terminated()] == [ENDS_IN_ONE_CALL, ENDS_IN_ONE_CALL, 1]


# --------------------------------------------------------------------------- until it is confirmed


def terminating(**changed: Any) -> tuple[Rig, Node]:
    """A machine that never joined, whose end was asked for."""
    node = a_node(State.FAILED, **changed)
    rig = Rig(node)
    end(rig.ending, [Step(node, "did not join")])
    return rig, node


def test_an_end_that_no_listing_confirms_is_asked_for_again() -> None:
    rig, _node = terminating()
    rig.executor.only().finish()
    rig.ending.again()
    assert rig.executor.pending == []
    rig.run(RETRY_S)
    rig.ending.again()
    rig.executor.only().finish()
    assert rig.terminated() == [("i-1",), ("i-1",)]


def test_an_end_that_the_cloud_is_at_is_not_asked_for_again() -> None:
    rig, node = terminating()
    rig.executor.only().finish()
    rig.run(RETRY_S)
    node.instance = an_instance(state=InstanceState.SHUTTING_DOWN)
    rig.ending.again()
    assert rig.executor.pending == []


def test_a_call_that_is_in_flight_is_not_repeated() -> None:
    rig, _ = terminating()
    rig.run(10 * RETRY_S)
    rig.ending.again()
    assert len(rig.executor.acts()) == 1


@pytest.mark.parametrize("how", ["error", "failed", "no answer", "deadline"])
def test_an_end_that_failed_is_told_and_asked_for_less_and_less(how: str) -> None:
    rig, node = terminating()
    rig.cloud.script.answers["terminate"] = {
        "failed": {"i-1": EndAnswer(EndOutcome.FAILED, "protected")},
        "no answer": {},
    }.get(how, UNREACHABLE)
    waits = []
    for _ in range(7):
        act = rig.executor.only()
        if how == "deadline":
            act.time_out()
        else:
            act.finish()
        waits.append(node.retry_at - rig.now())
        assert "asked again until the cloud confirms it" in rig.core.notices["ending i-1"]
        rig.run(waits[-1])
        rig.ending.again()
    assert waits == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    rig.cloud.script.answers["terminate"] = {"i-1": EndAnswer(EndOutcome.ENDING)}
    rig.executor.only().finish()
    assert (node.failures, "ending i-1" in rig.core.notices) == (0, False)


def test_an_id_that_the_cloud_does_not_know_is_left_to_the_listings() -> None:
    rig, node = terminating()
    rig.cloud.script.answers["terminate"] = {"i-1": EndAnswer(EndOutcome.NOT_FOUND)}
    rig.executor.only().finish()
    assert (state_of(node), rig.core.notices) == (State.TERMINATING, {})


def test_one_bad_id_does_not_spoil_the_others() -> None:
    nodes = [a_node(State.FAILED, number) for number in (1, 2)]
    rig = Rig(*nodes)
    rig.cloud.script.answers["terminate"] = {
        "i-1": EndAnswer(EndOutcome.FAILED, "protected"),
        "i-2": EndAnswer(EndOutcome.ENDING),
    }
    end(rig.ending, [Step(node, "never joined") for node in nodes])
    rig.executor.only().finish()
    assert [node.failures for node in nodes] == [1, 0]


def test_an_end_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    node = a_node(State.FAILED)
    first = Rig(node, store_path=path)
    end(first.ending, [Step(node, "did not join")])
    first.store.close()  # killed before the call was made

    again = Rig(store_path=path)
    again.core.restore()
    again.ending.again()
    again.executor.only("cloud").finish()
    assert again.terminated() == [("i-1",)]


def ending_worker(**changed: Any) -> tuple[Rig, Node]:
    """A machine that was a worker, restored as one whose end was asked for, and listed as running."""
    node = a_node(State.TERMINATING, worker="w1", **changed)
    rig = Rig(node)
    return rig, node


def test_a_machine_that_was_a_worker_is_ended_again_only_by_a_fresh_settled_look() -> None:
    rig, _node = ending_worker()
    rig.ending.again()
    rig.look(settled=False)
    rig.ending.look(rig.now(), True, frozenset(), "")
    assert rig.executor.pending == []
    rig.look()
    rig.executor.only("cloud").finish()
    assert rig.terminated() == [("i-1",)]


def test_a_machine_that_is_still_drained_is_ended_again() -> None:
    rig, _node = ending_worker(seen=DRAINED)
    rig.look()
    assert len(rig.executor.acts("cloud")) == 1


@pytest.mark.parametrize(
    ("seen", "can_drain", "state"),
    [
        (a_worker(state=WorkerState.BUSY), True, State.BUSY),
        (a_worker(state=WorkerState.BUSY), False, State.BUSY),
        (a_worker(state=WorkerState.DRAINING, jobs=1), True, State.BUSY),
        (a_worker(), True, State.IDLE),
    ],
    ids=["busy", "busy, no drains", "draining with a job", "idle and not drained"],
)
def test_a_machine_whose_end_took_no_effect_and_that_takes_jobs_again_is_returned(
    seen: Any, can_drain: bool, state: State
) -> None:
    """The end was decided upon hours ago: no job that runs there now may be killed by it."""
    rig, node = ending_worker(seen=seen)
    rig.batch.can_drain = can_drain
    rig.ending.again()
    rig.look()
    assert (state_of(node), rig.executor.acts("cloud")) == (state, [])
    assert node.reason == "its end took no effect, and it takes jobs again"


def test_a_machine_that_the_cloud_is_ending_stays_as_it_is_whatever_its_last_ad_says() -> None:
    rig, node = ending_worker(seen=a_worker(state=WorkerState.BUSY))
    node.instance = an_instance(state=InstanceState.SHUTTING_DOWN)
    rig.look()
    assert (state_of(node), rig.executor.pending) == (State.TERMINATING, [])


# --------------------------------------------------------------------------- after a restart, and after the end


def test_a_drain_from_before_a_restart_goes_on_with_the_next_look(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    node = a_node(State.IDLE)
    first = Rig(node, store_path=path)
    first.ending.drain(Step(node, "idle"))
    first.store.close()

    again = Rig(store_path=path)
    again.core.restore()
    (node,) = again.core.registry
    assert state_of(node) is State.DRAINING
    node.seen = DRAINED
    again.look()
    assert (state_of(node), again.looks_wanted) == (State.DRAINING, 1), "this read may have begun before"
    again.run(1.0)
    again.look()
    assert state_of(node) is State.TERMINATING


def test_the_batch_system_forgets_a_worker_after_its_machines_end() -> None:
    rig = Rig()
    rig.ending.forget(a_node(State.TERMINATING, worker="w1"))
    rig.executor.only("batch").finish()
    assert rig.batch.script.asked == [("forget", "w1")]
    rig.ending.forget(a_node(State.TERMINATING, worker="w1"))
    rig.executor.only("batch").fail(UNREACHABLE)
    assert rig.core.counters["forget_errors"] == 1
    rig.ending.forget(a_node(State.TERMINATING, worker=None))
    assert rig.executor.pending == []


def test_an_undrain_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    node = a_node(State.BUSY, seen=a_worker(state=WorkerState.DRAINED, jobs=0, drained_by=OURS))
    rig = Rig(node)
    with caplog.at_level("INFO"):
        rig.look()
        rig.executor.only("batch").finish()
        assert "return i-1" not in caplog.text
        rig.look()
        rig.executor.only("batch").fail(UNREACHABLE)
    assert "return i-1: connection refused" in caplog.text
