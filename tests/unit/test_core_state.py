"""What the parts share: telling, counting, storing, and what a move means beyond itself."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from typing import Any

import pytest

from elastiq import history
from elastiq.demand import Standing
from elastiq.executor import DeadlineError
from elastiq.health import BOOTS_BEFORE_BREAK
from elastiq.interfaces import Intent, Offer, Resources
from elastiq.nodes import State
from elastiq.refusals import boot_failed
from elastiq.store import StoreError
from elastiq.strangers import Stranger
from tests.unit.fakes import UNREACHABLE, Surroundings
from tests.unit.values import WALL, a_node, a_worker, group

# --------------------------------------------------------------------------- telling


def test_a_notice_is_logged_when_it_is_new_kept_until_it_is_over_and_then_said_to_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    core = Surroundings().core
    with caplog.at_level(logging.INFO):
        core.tell("queue", "no answer for 10 s")
        core.tell("queue", "no answer for 20 s")
        assert core.notices == {"queue": "no answer for 20 s"}
        core.tell("queue", "")
        core.tell("queue", "")
    assert [record.getMessage() for record in caplog.records] == ["queue: no answer for 10 s", "queue: over"]
    assert core.notices == {}


def test_a_sentence_is_logged_when_it_differs_from_the_last(caplog: pytest.LogCaptureFixture) -> None:
    core = Surroundings().core
    with caplog.at_level(logging.INFO):
        for text in ("nothing", "nothing", "launch 1", "nothing"):
            core.tell_once("plan", text)
    assert [record.getMessage() for record in caplog.records] == ["nothing", "launch 1", "nothing"]


def test_an_expected_failure_is_one_line_and_anything_else_a_plugins_fault() -> None:
    core = Surroundings().core
    assert core.explain(UNREACHABLE) == "connection refused"
    assert core.explain(DeadlineError("no answer within 5 s")) == "no answer within 5 s"
    assert core.counters == {}
    assert core.explain(KeyError("x")) == "KeyError: 'x'"
    assert core.counters == {"plugin_faults": 1}


def test_a_guard_says_whether_it_went_well() -> None:
    core = Surroundings().core
    assert core.guard("test", lambda: 1)
    assert not core.guard("test", lambda: 1 // 0)
    assert core.counters["handler_faults"] == 1


# --------------------------------------------------------------------------- what a move means


def test_an_illegal_transition_is_counted_and_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    core = Surroundings().core
    node = core.registry.add(a_node(State.TERMINATING))
    core.registry.move(node, State.PENDING, "nonsense", WALL)
    core.persist()
    assert core.counters == {"illegal_transitions": 1}
    assert "i-1: illegal transition terminating -> pending (nonsense)" in caplog.text
    assert history.lines(core.store) == []


@pytest.mark.parametrize(
    ("before", "after", "failed"),
    [
        (State.PENDING, State.FAILED, 1),
        (State.BOOTING, State.FAILED, 1),
        (State.BOOTING, State.TERMINATING, 1),
        (State.BOOTING, State.GONE, 1),
        (State.REQUESTED, State.GONE, 0),
        (State.IDLE, State.GONE, 0),
        (State.LOST, State.FAILED, 0),
        (State.FAILED, State.TERMINATING, 0),
    ],
)
def test_only_a_machine_that_the_cloud_had_and_the_pool_never_is_a_failed_boot(
    before: State, after: State, failed: int
) -> None:
    core = Surroundings().core
    node = core.registry.add(a_node(before))
    core.registry.move(node, after, "", WALL)
    core.persist()
    assert core.health.failed_boots.get("ec2", 0) == failed


@pytest.mark.parametrize("before", [State.REQUESTED, State.PENDING, State.BOOTING, State.FAILED])
def test_the_first_that_joins_however_late_closes_the_breaker(before: State) -> None:
    core = Surroundings().core
    core.health.failed_boots = {"ec2": BOOTS_BEFORE_BREAK}
    node = core.registry.add(a_node(before))
    core.registry.move(node, State.BUSY, "", WALL)
    core.persist()
    assert core.health.breaker("ec2") is None


def test_a_machine_that_returns_from_a_drain_says_nothing_of_boots() -> None:
    core = Surroundings().core
    core.health.failed_boots = {"ec2": BOOTS_BEFORE_BREAK}
    node = core.registry.add(a_node(State.DRAINING))
    core.registry.move(node, State.IDLE, "", WALL)
    core.persist()
    assert core.health.breaker("ec2") is not None


def test_what_a_machine_was_launched_for_is_uncovered_once_however_it_ends() -> None:
    core = Surroundings().core
    core.trials.launched(group(waiting=12), 12)
    first = core.registry.add(a_node(State.BOOTING, 1, groups={"g": 4}))
    core.registry.add(a_node(State.BOOTING, 2, groups={"g": 8}))
    for state in (State.FAILED, State.TERMINATING, State.GONE):
        core.registry.move(first, state, "", WALL)
        core.persist()
    assert core.trials.records["g"].covered == 8


def test_a_group_without_any_machine_left_has_not_been_tried() -> None:
    core = Surroundings().core
    core.trials.launched(group(waiting=12), 12)
    node = core.registry.add(a_node(State.IDLE, 1, groups={"g": 12}))
    core.registry.move(node, State.LOST, "", WALL)
    core.persist()
    assert "g" in core.trials.records, "it may come back"
    core.registry.move(node, State.GONE, "", WALL)
    core.persist()
    assert "g" not in core.trials.records


def test_a_group_whose_last_try_never_came_is_as_it_was_before_it() -> None:
    """Machines of pools that it refused before are none of the try."""
    core = Surroundings().core
    core.trials.launched(group(), 1)
    core.trials.observe_room({"g": ("w1", frozenset({"ec2"}))}, 300.0, 300.0)
    core.trials.launched(group(), 1)
    old = core.registry.add(a_node(State.IDLE, 1, groups={"g": 1}))
    coming = core.registry.add(a_node(State.BOOTING, 2, pool="other", groups={"g": 1}))
    core.registry.move(old, State.GONE, "", WALL)
    core.persist()
    assert (core.trials.standing("g"), core.trials.records["g"].covered) == (Standing.TRYING, 1)
    core.registry.add(a_node(State.IDLE, 3, groups={"g": 1}))
    core.registry.move(coming, State.GONE, "", WALL)
    core.persist()
    assert (core.trials.standing("g"), core.trials.records["g"].refused_by) == (Standing.UNSERVED, ("ec2",))


# --------------------------------------------------------------------------- storing


def test_everything_that_must_survive_a_restart_does(tmp_path: Any) -> None:
    path = str(tmp_path / "db")
    first = Surroundings(path)
    core = first.core
    core.registry.add(a_node(State.IDLE, idle_s=120.0))
    core.registry.learn(a_node(), Resources(cpus=4))
    core.registry.strangers = {"w9": Stranger(a_worker("w9"), core.registry.next_number())}
    core.trials.launched(group(), 1)
    boot_failed(core.health, "ec2", 0.0)
    core.persist()
    first.store.close()

    again = Surroundings(path)
    again.core.restore()
    assert [(node.id, node.idle_s) for node in again.core.registry] == [("launch.1", 120.0)]
    assert again.core.registry.learned == {("ec2", "medium"): Resources(cpus=4)}
    assert again.core.registry.stranger_numbers == {"w9": 2}
    assert list(again.core.trials.records) == ["g"]
    assert again.core.health.failed_boots == {"ec2": 1}
    (node,) = again.core.registry
    assert node.listed_by == again.now() + again.settings.intent_settle_s


def test_a_persist_without_changes_writes_nothing() -> None:
    rig = Surroundings()
    rig.core.registry.add(a_node())
    boot_failed(rig.core.health, "ec2", 0.0)
    rig.core.persist()
    before = rig.store._db.total_changes
    rig.core.persist()
    assert rig.store._db.total_changes == before


def test_what_could_not_be_stored_is_stored_when_it_can(tmp_path: Any) -> None:
    path = str(tmp_path / "db")
    rig = Surroundings(path)
    rig.store._db.execute("PRAGMA query_only = ON")
    rig.core.registry.add(a_node())
    rig.core.registry.learn(a_node(), Resources(cpus=4))
    rig.core.trials.launched(group(), 1)
    boot_failed(rig.core.health, "ec2", 0.0)
    rig.core.persist()
    assert rig.core.store_broken
    assert rig.core.counters["store_errors"] == 1
    rig.store._db.execute("PRAGMA query_only = OFF")
    rig.core.persist()
    assert (rig.core.store_broken, rig.core.notices) == (False, {})
    again = Surroundings(path)
    again.core.restore()
    assert (len(again.core.registry), len(again.core.trials.records)) == (1, 1)
    assert again.core.registry.learned != {}
    assert again.core.health.failed_boots == {"ec2": 1}


def test_a_store_that_cannot_be_written_is_tried_again_although_nothing_changed() -> None:
    rig = Surroundings()
    rig.store._db.execute("PRAGMA query_only = ON")
    rig.core.record("launch", "launch1", "ec2", "")
    rig.core.persist()
    assert rig.core.store_broken
    rig.store._db.execute("PRAGMA query_only = OFF")
    rig.core.persist()
    assert not rig.core.store_broken


def test_a_full_disk_is_over_only_once_there_is_room_again(tmp_path: Any) -> None:
    """A small write may find its place in the file as it is, and says nothing."""
    rig = Surroundings(str(tmp_path / "db"))
    rig.core.restore()
    pages = rig.store.read("PRAGMA page_count", ())[0][0]
    rig.store.read(f"PRAGMA max_page_count = {pages}", ())
    rig.core.registry.add(a_node(reason="x" * 100_000))
    rig.core.persist()
    assert "full" in rig.core.notices["store"]
    rig.core.registry.touched.clear()
    for _ in range(3):
        rig.core.persist()
        assert "full" in rig.core.notices["store"]
    rig.store.read("PRAGMA max_page_count = 100000", ())
    rig.core.persist()
    assert "store" not in rig.core.notices and not rig.core.store_broken


@pytest.mark.parametrize("how", ["removed", "replaced", "its directory removed"])
def test_a_store_whose_file_is_gone_is_not_written_into_the_void(tmp_path: Any, how: str) -> None:
    home = tmp_path / "state"
    home.mkdir()
    rig = Surroundings(str(home / "db"))
    if how == "its directory removed":
        shutil.rmtree(home)
    else:
        (home / "db").unlink()
    if how == "replaced":
        (home / "db").write_bytes(b"")
    rig.core.registry.add(a_node())
    rig.core.persist()
    assert rig.core.store_broken
    assert "removed or replaced" in rig.core.notices["store"]
    with pytest.raises(StoreError, match="restart elastiq"):
        rig.store.journal(Intent("i1", "t1", Offer("ec2", "medium"), 1, WALL), [])


def test_another_cluster_name_is_refused_while_machines_of_the_old_one_are_known(tmp_path: Any) -> None:
    path = str(tmp_path / "db")
    first = Surroundings(path)
    first.core.restore()
    first.core.registry.add(a_node())
    first.core.persist()
    first.store.close()
    renamed = Surroundings(path)
    renamed.core.settings = replace(renamed.core.settings, cluster_name="other")
    with pytest.raises(StoreError, match=r"machines \(1\) of cluster_name"):
        renamed.core.restore()


def test_a_cluster_without_machines_may_be_renamed(tmp_path: Any) -> None:
    path = str(tmp_path / "db")
    Surroundings(path).core.restore()
    renamed = Surroundings(path)
    renamed.core.settings = replace(renamed.core.settings, cluster_name="other")
    renamed.core.restore()
    assert renamed.store.recall("cluster") == "other"


def test_a_trouble_of_another_kind_is_logged_although_the_first_is_not_over(caplog: pytest.LogCaptureFixture) -> None:
    core = Surroundings().core
    with caplog.at_level(logging.INFO):
        for text in ("a login page, 5 s ago", "a login page, 9 s ago", "AuthFailure", "AuthFailure"):
            core.tell("cloud", text)
        for text in ("held back for 59 s", "held back for 58 s"):
            core.tell_once("plan", text)
    assert [record.getMessage() for record in caplog.records] == [
        "cloud: a login page, 5 s ago",
        "cloud: AuthFailure",
        "held back for 59 s",
    ]
