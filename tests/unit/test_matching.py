"""What the batch system says of jobs and would-be workers: asked once, remembered, and done without if it fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from elastiq import matching
from elastiq.executor import DeadlineError
from elastiq.interfaces import Jobs, Machine, Resources, Terms, WorkerState
from elastiq.matching import AGAIN_S, NOT_ASKED, REDRAWN_S, Matching
from elastiq.nodes import State
from elastiq.status import snapshot
from tests.unit.fakes import UNREACHABLE, MatchingBatch, Pending, Surroundings
from tests.unit.test_daemon import Rig as DaemonRig
from tests.unit.values import FOUR, ONE, a_node, a_pool, a_worker, an_instance, group, some_settings

POOL = a_pool(fingerprint="print", terms=Terms(worker_ad=("HasGPU = true",)))
BIG = Resources(cpus=64)


class Rig(Surroundings):
    batch_class = MatchingBatch
    batch: MatchingBatch

    def __init__(self, *nodes: Any, **changed: Any) -> None:
        super().__init__(**{"pools": (POOL,), **changed})
        self.replans = 0
        self.matching = Matching(self.core, self._replan)
        for node in nodes:
            self.core.registry.add(node)

    def _replan(self) -> None:
        self.replans += 1

    def fits(self, key: str = "g", request: Resources = ONE, pool: Any = POOL) -> tuple[bool, str]:
        return self.matching.fits(group(key, request=request), pool, "medium", FOUR)

    def ask(self) -> list[Pending]:
        self.matching.ask()
        return self.executor.reads("match")

    def matched(self) -> list[tuple[tuple[str, ...], tuple[Machine, ...]]]:
        """The questions that were asked: keys and machines."""
        asked = self.batch.script.calls("match")
        return [(tuple(one.key for one in groups), machines) for groups, machines in asked]


# --------------------------------------------------------------------------- asking


def test_a_pair_has_no_match_before_the_answer_and_is_asked_once() -> None:
    rig = Rig()
    assert rig.fits() == (False, NOT_ASKED)
    (question,) = rig.ask()
    assert rig.fits() == (False, NOT_ASKED)
    assert rig.ask() == [question], "it is in flight"
    question.finish()
    assert rig.replans == 1
    assert rig.fits() == (True, "")
    assert rig.ask() == []
    assert rig.matched() == [(("g",), (Machine("ec2", "medium", FOUR, "", ("HasGPU = true",)),))]


def test_nothing_is_asked_where_no_plan_lacked_anything() -> None:
    assert Rig().ask() == []


def test_a_refusal_is_told_in_the_batch_systems_words() -> None:
    rig = Rig()
    rig.batch.refusals = {"g": "its Requirements ask for HasFoo"}
    rig.fits("g"), rig.fits("h")
    rig.ask()[0].finish()
    assert rig.fits("g") == (False, "its Requirements ask for HasFoo")
    assert rig.fits("h") == (True, "")


def test_what_is_too_large_is_told_by_its_size_and_never_asked() -> None:
    rig = Rig()
    assert rig.fits(request=BIG) == (False, "asks 64 cpus, the machine has 4")
    assert rig.ask() == []


def test_several_groups_and_machines_are_asked_in_one_question_each_once() -> None:
    rig = Rig()
    other = a_pool("other")
    for key in ("g", "h"):
        for pool in (POOL, other):
            rig.fits(key, pool=pool)
    rig.ask()[0].finish()
    ((keys, machines),) = rig.matched()
    assert (keys, [machine.pool for machine in machines]) == (("g", "h"), ["ec2", "other"])
    assert all(rig.fits(key, pool=pool)[0] for key in ("g", "h") for pool in (POOL, other))


def test_a_pair_that_came_up_while_a_question_was_in_flight_is_asked_after_it_and_not_taken_for_a_match() -> None:
    rig = Rig()
    rig.batch.refusals = {"late": "its Requirements ask for HasFoo"}
    rig.fits("g")
    (question,) = rig.ask()
    assert rig.fits("late") == (False, NOT_ASKED)
    rig.ask()
    question.finish()
    assert rig.fits("late") == (False, NOT_ASKED)
    rig.ask()[0].finish()
    assert rig.fits("late") == (False, "its Requirements ask for HasFoo")
    assert [keys for keys, _ in rig.matched()] == [("g",), ("late",)]


def test_a_machine_of_another_size_is_another_machine() -> None:
    rig = Rig()
    rig.fits()
    rig.ask()[0].finish()
    learned = Resources(cpus=4, memory_mb=7600)
    assert rig.matching.fits(group(), POOL, "medium", learned) == (False, NOT_ASKED)


def test_only_so_many_pairs_are_remembered_and_the_latest_are(monkeypatch: Any) -> None:
    monkeypatch.setattr(matching, "AT_MOST", 4)
    rig = Rig()
    for number in range(6):
        rig.fits(f"g{number}")
        rig.ask()[0].finish()
    assert [rig.fits(f"g{number}")[0] for number in range(6)] == [False, False, True, True, True, True]


# --------------------------------------------------------------------------- failing


def test_where_the_question_fails_sizes_alone_decide_for_600_s_and_it_says_so() -> None:
    rig = Rig()
    rig.fits()
    rig.ask()[0].fail(UNREACHABLE)
    assert rig.replans == 1
    assert rig.core.notices == {"matching": "connection refused: sizes alone decide for 600 s"}
    assert rig.fits() == (True, "")
    assert rig.fits("h", request=BIG)[0] is False
    assert rig.ask() == []
    rig.run(AGAIN_S - 1)
    assert rig.fits() == (True, "")
    rig.run(1.0)
    assert rig.fits() == (False, NOT_ASKED)
    rig.ask()[0].finish()
    assert rig.fits() == (True, "")
    assert rig.core.notices == {}


def test_a_question_that_is_never_answered_has_failed_too() -> None:
    rig = Rig()
    rig.fits()
    rig.ask()[0].time_out()
    assert rig.fits() == (True, "")
    assert "no answer within" in rig.core.notices["matching"]


def test_what_was_answered_before_a_failure_is_still_known_after_it() -> None:
    rig = Rig()
    rig.batch.refusals = {"g": "no"}
    rig.fits("g")
    rig.ask()[0].finish()
    rig.fits("h")
    rig.ask()[0].fail(DeadlineError("no answer"))
    rig.run(AGAIN_S)
    assert rig.fits("g") == (False, "no")


def test_a_pair_without_an_answer_is_no_match_but_a_failure() -> None:
    rig = Rig()
    rig.fits("g"), rig.fits("h")
    (question,) = rig.ask()
    question.call = dict
    question.finish()
    assert rig.core.notices["matching"].startswith("no answer for 2 of 2 pairs of jobs and machines")


def test_where_it_turns_out_that_nothing_can_be_matched_it_is_asked_no_more() -> None:
    rig = Rig(a_node(State.IDLE))
    rig.fits()
    (question,) = rig.ask()
    rig.batch.can_match = False
    question.fail(UNREACHABLE)
    assert rig.core.notices["matching"] == "connection refused: sizes alone decide"
    rig.run(10 * AGAIN_S)
    assert rig.fits() == (True, "")
    assert rig.ask() == []


# --------------------------------------------------------------------------- portraits


def draw(rig: Rig) -> list[str]:
    """Ask for portraits until none is wanted: of which workers."""
    seen: list[str] = []
    for _ in range(9):
        rig.matching.ask()
        pending = rig.executor.reads("portrait")
        if not pending:
            return seen
        pending[0].finish()
        seen.append(rig.batch.script.calls("portrait")[-1][0])
    raise AssertionError("it never stops asking")


def test_a_worker_of_each_pool_and_flavour_is_drawn_once_and_matched_from_then_on() -> None:
    rig = Rig(a_node(State.IDLE, 1), a_node(State.BUSY, 2), a_node(State.IDLE, 3, flavour="large"))
    rig.fits()
    rig.ask()[0].finish()
    assert rig.fits() == (True, "")
    assert draw(rig) == ["w1", "w3"]
    assert rig.fits() == (False, NOT_ASKED), "of the machine as it now is known"
    rig.ask()[0].finish()
    assert rig.matched()[-1][1][0].portrait == "drawn from w1"
    assert rig.fits() == (True, "")


def test_what_has_not_joined_or_is_not_seen_or_of_another_build_is_not_drawn() -> None:
    pool = replace(POOL, build="new")
    nodes = [
        a_node(State.BOOTING, 1),
        a_node(State.IDLE, 2, seen=None),
        a_node(State.DRAINING, 3),
        a_node(State.IDLE, 4, build="old"),
        a_node(State.IDLE, 5, pool="gone"),
    ]
    assert draw(Rig(*nodes, pools=(pool,))) == []
    assert draw(Rig(*nodes, a_node(State.IDLE, 6, build="new"), pools=(pool,))) == ["w6"]


def test_a_changed_pool_is_drawn_anew_and_its_old_portrait_no_longer_used() -> None:
    rig = Rig(a_node(State.IDLE))
    assert draw(rig) == ["w1"]
    changed = replace(POOL, fingerprint="another")
    rig.core.settings = some_settings(pools=(changed,))
    rig.fits(pool=changed)
    rig.ask()[0].finish()
    assert rig.matched()[-1][1][0].portrait == ""
    rig.executor.pending.clear()
    assert draw(rig) == ["w1"]


def test_a_portrait_whose_pool_changed_meanwhile_is_one_of_the_old_pool() -> None:
    rig = Rig(a_node(State.IDLE))
    rig.matching.ask()
    rig.core.settings = some_settings(pools=(replace(POOL, fingerprint="another"),))
    rig.executor.reads("portrait")[0].finish()
    assert draw(rig) == ["w1"]


def test_a_portrait_that_another_batch_system_drew_is_none(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    before = Rig(a_node(State.IDLE), store_path=path)
    assert draw(before) == ["w1"]
    before.store.close()

    class Another(MatchingBatch):
        section = "another"

    class After(Rig):
        batch_class = Another

    after = After(store_path=path)
    after.fits()
    after.ask()[0].finish()
    assert after.matched()[0][1][0].portrait == ""


def test_portraits_outlive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    rig = Rig(a_node(State.IDLE), store_path=path)
    assert draw(rig) == ["w1"]
    rig.store.close()
    again = Rig(a_node(State.IDLE), store_path=path)
    again.fits()
    again.ask()[0].finish()
    assert again.matched()[0][1][0].portrait == "drawn from w1"
    replans = again.replans
    assert draw(again) == ["w1"], "it may have changed meanwhile"
    assert again.replans == replans, "it has not"


def test_a_worker_that_shows_nothing_yet_is_asked_again_and_others_before_it() -> None:
    rig = Rig(a_node(State.IDLE, 1), a_node(State.IDLE, 2))
    answers = {"w1": "", "w2": ""}
    rig.batch.script.answers["portrait"] = lambda worker: answers[worker]
    for asked in ("w1", "w2", "w1"):
        rig.matching.ask()
        rig.executor.reads("portrait")[0].finish()
        assert rig.batch.script.calls("portrait")[-1] == (asked,)
    answers["w1"] = "drawn from w1"
    assert draw(rig)[-1] == "w1"
    rig.fits()
    rig.ask()[0].finish()
    assert rig.matched()[-1][1][0].portrait == "drawn from w1"


def test_a_portrait_is_drawn_anew_after_a_while_and_what_changed_is_asked() -> None:
    rig = Rig(a_node(State.IDLE))
    assert draw(rig) == ["w1"]
    replans = rig.replans
    rig.run(REDRAWN_S - 1)
    assert draw(rig) == []
    rig.run(1)
    rig.batch.script.answers["portrait"] = ""
    assert (draw(rig), rig.replans) == (["w1"], replans), "it drains, say: the old one holds"
    rig.run(REDRAWN_S)
    rig.batch.script.answers["portrait"] = "grown"
    assert (draw(rig), rig.replans) == (["w1"], replans + 1)
    assert rig.fits() == (False, NOT_ASKED)
    rig.ask()[0].finish()
    assert rig.matched()[-1][1][0].portrait == "grown"


def test_a_portrait_that_fails_is_asked_of_another_worker_later_and_stops_no_matching() -> None:
    rig = Rig(a_node(State.IDLE, 1), a_node(State.IDLE, 2))
    rig.matching.ask()
    rig.executor.reads("portrait")[0].fail(UNREACHABLE)
    assert draw(rig) == []
    assert rig.fits() == (False, NOT_ASKED)
    rig.ask()[0].finish()
    assert rig.core.notices == {}
    rig.run(AGAIN_S)
    assert draw(rig) == ["w2"]


# --------------------------------------------------------------------------- through the loop


class Loop(DaemonRig):
    """A daemon whose batch system can match."""

    batch_class = MatchingBatch
    batch: MatchingBatch

    def __init__(self) -> None:
        super().__init__(pools=(POOL,))
        self.batch.script.answers["jobs"] = Jobs((group(waiting=4),))


def test_nothing_is_launched_before_the_answer_and_at_once_after_it() -> None:
    rig = Loop()
    rig.answer("queue", "workers", "cloud aws")
    assert rig.executor.acts() == []
    assert rig.daemon.last_plan.summary.endswith(f": {NOT_ASKED}")
    rig.read("match").finish()
    rig.run()
    assert len(rig.executor.acts("cloud aws")) == 1


def test_jobs_that_the_batch_system_refuses_are_never_launched_for_and_told_why() -> None:
    rig = Loop()
    rig.batch.refusals = {"g": "its Requirements ask for HasFoo"}
    rig.pass_time(60.0)
    assert rig.executor.acts() == []
    assert "ec2/medium: its Requirements ask for HasFoo" in rig.daemon.last_plan.summary
    assert len(rig.batch.script.calls("match")) == 1


def test_jobs_are_launched_for_by_their_size_where_matching_fails() -> None:
    rig = Loop()
    rig.answer("queue", "workers", "cloud aws")
    rig.read("match").fail(UNREACHABLE)
    rig.run()
    assert len(rig.executor.acts("cloud aws")) == 1
    assert any("sizes alone decide for 600 s" in line for line in snapshot(rig.daemon)["notices"])


def test_the_daemon_draws_a_worker_that_joined() -> None:
    rig = Loop()
    rig.core.registry.add(a_node(State.IDLE, seen=None))
    rig.batch.set_workers(a_worker(state=WorkerState.IDLE))
    rig.cloud.set_instances(an_instance())
    rig.pass_time(60.0)
    assert rig.batch.script.calls("portrait") == [("w1",)]
