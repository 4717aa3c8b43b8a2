"""A batch system that has to be told of machines is told, until it has taken it, and however often we restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elastiq.interfaces import Instance, InstanceState
from elastiq.nodes import Node, State
from elastiq.preparing import LONGEST_RETRY_S, RETRY_S
from tests.unit import test_daemon
from tests.unit.fakes import UNREACHABLE, RecordingBatch
from tests.unit.values import a_node

HERE = frozenset({"10.0.0.1"})


class Rig(test_daemon.Rig):
    """A daemon whose batch system has to be told; reads are ended at once, acts by the test."""

    batch_class = RecordingBatch

    def told(self, *names: str) -> list[tuple[Any, ...]]:
        names = names or ("register", "unregister", "forget")
        return [asked for asked in self.batch.script.asked if asked[0] in names]

    def look(self) -> None:
        """Every read once more, and the plan that follows."""
        self.run(60.0)
        self.answer()

    def acts(self) -> list[Any]:
        return [pending for pending in self.executor.pending if pending.source == "batch" and pending.node]

    def finish(self) -> None:
        for act in self.acts():
            act.finish()
        self.run()

    def fail(self) -> None:
        for act in self.acts():
            act.fail(UNREACHABLE)
        self.run()


def booting(**changed: Any) -> Node:
    node = a_node(State.BOOTING, **changed)
    node.addresses = HERE
    return node


def listed(rig: Rig, *names: str, addresses: frozenset[str] = HERE) -> None:
    rig.cloud.set_instances(
        *(Instance(name, InstanceState.RUNNING, addresses, pool="ec2", flavour="medium") for name in names)
    )


def test_a_machine_that_boots_is_registered_once() -> None:
    rig = Rig(booting())
    listed(rig, "i-1")
    rig.look()
    rig.finish()
    assert rig.told() == [("register", "i-1", HERE)]
    rig.look()
    assert rig.acts() == []


def test_a_machine_without_an_address_is_registered_when_it_has_one() -> None:
    rig = Rig(a_node(State.BOOTING, addresses=frozenset()))
    listed(rig, "i-1", addresses=frozenset())
    rig.look()
    assert rig.acts() == []
    listed(rig, "i-1")
    rig.look()
    rig.finish()
    assert rig.told() == [("register", "i-1", HERE)]


def test_a_machine_is_registered_again_with_new_addresses() -> None:
    rig = Rig(booting())
    listed(rig, "i-1")
    rig.look()
    rig.finish()
    more = HERE | {"10.1.0.1"}
    listed(rig, "i-1", addresses=more)
    rig.look()
    rig.finish()
    assert rig.told() == [("register", "i-1", HERE), ("register", "i-1", more)]


def next_act(rig: Rig) -> None:
    for _ in range(100):
        if rig.acts():
            return
        rig.run(RETRY_S)
        rig.answer()
    raise AssertionError("nothing more is asked for")


def test_a_registration_that_failed_is_asked_for_again_less_and_less_and_told() -> None:
    rig = Rig(booting(), estimated_vm_deploy_time_s=1e6)
    listed(rig, "i-1")
    rig.look()
    rig.fail()
    assert rig.core.notices["register i-1"] == "connection refused: asked again"
    pauses, before = [], rig.now()
    for _ in range(8):
        next_act(rig)
        pauses.append(rig.now() - before)
        before = rig.now()
        rig.fail()
    assert pauses[-1] >= LONGEST_RETRY_S > pauses[0] >= RETRY_S and pauses == sorted(pauses)
    next_act(rig)
    rig.finish()
    assert "register i-1" not in rig.core.notices
    assert rig.core.counters["record_errors"] == 9


def test_a_machine_that_is_registered_is_so_again_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    first = Rig(booting(), store_path=path)
    listed(first, "i-1")
    first.look()
    first.finish()
    first.core.persist()
    first.store.close()
    again = Rig(store_path=path)
    listed(again, "i-1")
    again.look()
    again.finish()
    assert again.told() == [("register", "i-1", HERE)], "whether the first was done, nobody knows for sure"


def ended(rig: Rig, node: Node) -> None:
    rig.core.registry.move(node, State.TERMINATING, "idle", rig.core.wall())
    rig.core.registry.move(node, State.GONE, "the cloud says so", rig.core.wall())
    rig.observer.ending.forget(node)


def test_the_notice_of_a_registration_that_failed_ends_with_the_machine() -> None:
    node = booting()
    rig = Rig(node)
    listed(rig, "i-1")
    rig.look()
    rig.fail()
    listed(rig)
    ended(rig, node)
    assert "register i-1" not in rig.core.notices


def test_a_worker_is_forgotten_and_its_machine_taken_off_after_the_end() -> None:
    node = a_node(State.IDLE, worker="w1", addresses=HERE)
    rig = Rig(node)
    ended(rig, node)
    rig.finish()
    assert rig.told() == [("forget", "w1"), ("unregister", "i-1", HERE)]
    assert rig.store.recall("records") == {}


def test_a_machine_that_never_joined_is_taken_off_too() -> None:
    node = booting()
    rig = Rig(node)
    ended(rig, node)
    rig.finish()
    assert rig.told("unregister", "forget") == [("unregister", "i-1", HERE)]


def test_what_could_not_be_forgotten_is_asked_for_again_also_by_the_next_run(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    node = a_node(State.IDLE, worker="w1", addresses=HERE)
    first = Rig(node, store_path=path)
    ended(first, node)
    first.fail()
    assert first.core.notices["forget w1"] == "connection refused: asked again"
    first.run(RETRY_S)
    first.look()
    assert len(first.acts()) == 1
    first.store.close()
    again = Rig(store_path=path)
    again.look()
    again.finish()
    assert again.told() == [("forget", "w1"), ("unregister", "i-1", HERE)]
    assert again.store.recall("records") == {}
    again.look()
    assert again.acts() == []


def test_what_is_another_machines_by_now_is_left_alone() -> None:
    for other in (booting(id="i-2", instance_id="i-2"), a_node(State.IDLE, id="i-2", instance_id="i-2", worker="w1")):
        node = a_node(State.IDLE, worker="w1", addresses=HERE)
        rig = Rig(node)
        rig.core.registry.add(other)
        ended(rig, node)
        assert rig.acts() == []
        assert rig.store.recall("records") == {}


def test_a_machine_that_was_stopped_and_starts_again_is_registered_and_no_more_taken_off(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    node = booting(worker="w1")
    rig = Rig(node, store_path=path)
    listed(rig, "i-1")
    rig.observer.ending.forget(node)  # it was stopped
    rig.fail()
    node.worker = None
    rig.core.persist()
    rig.store.close()
    again = Rig(store_path=path)
    listed(again, "i-1")
    for _ in range(4):
        again.look()
        again.finish()
        again.run(LONGEST_RETRY_S)
    assert again.told() == [("register", "i-1", HERE)]
    assert again.store.recall("records") == {}


def test_a_machine_that_joins_again_before_its_record_was_dropped_keeps_it() -> None:
    node = a_node(State.IDLE, worker="w1", addresses=HERE)
    rig = Rig(node)
    listed(rig, "i-1")
    rig.observer.ending.forget(node)  # it was stopped; while this is in flight it starts again, and joins
    rig.fail()
    rig.run(LONGEST_RETRY_S)
    rig.look()
    assert rig.acts() == []
    assert rig.store.recall("records") == {}


def test_a_reload_keeps_what_is_in_flight() -> None:
    node = a_node(State.IDLE, worker="w1", addresses=HERE)
    rig = Rig(node)
    ended(rig, node)
    rig.daemon.follow_batch()
    rig.finish()
    rig.look()
    assert rig.acts() == []
    assert rig.told() == [("forget", "w1"), ("unregister", "i-1", HERE)]
