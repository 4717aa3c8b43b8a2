"""The status, asked for from another thread while the decision thread works, or hangs."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import timezone
from types import SimpleNamespace
from typing import Any, Iterator

import pytest

import elastiq.status
from elastiq.cli import view
from elastiq.commanding import start
from elastiq.core import Core
from elastiq.daemon import HEARTBEAT_S, Daemon
from elastiq.events import EventQueue, RealClock
from elastiq.nodes import State
from elastiq.schedule import DAY_MIN, Schedule, Window
from elastiq.status import FRESH_S, snapshot
from elastiq.store import Store
from elastiq.threads import ThreadExecutor
from tests.unit.fakes import FakeBatch, FakeCloud, Surroundings
from tests.unit.values import a_node
from tests.waiting import PATIENCE_S


@contextlib.contextmanager
def running() -> Iterator[Daemon]:
    """A daemon whose loop runs on a thread of its own."""
    like = Surroundings().core
    events, made, built = EventQueue(RealClock(), longest_pause_s=0.05), [], threading.Event()

    def decide() -> None:
        core = Core(
            like.settings, FakeBatch(), {"aws": FakeCloud()}, like.owner, events, ThreadExecutor(events),
            Store(":memory:"),
        )  # fmt: skip
        made.append(Daemon(core))
        built.set()
        made[0].run()
        made[0].close(0.0)

    thread = threading.Thread(target=decide, daemon=True)
    thread.start()
    assert built.wait(PATIENCE_S)
    try:
        yield made[0]
    finally:
        made[0].stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_status_that_is_asked_for_shows_what_has_happened_up_to_now() -> None:
    with running() as daemon:
        first = daemon.status(PATIENCE_S)
        time.sleep(FRESH_S + 0.01)
        daemon.core.events.post(lambda: daemon.core.registry.add(a_node(State.IDLE)))
        second = daemon.status(PATIENCE_S)
    assert first["nodes"] == [] and [node["id"] for node in second["nodes"]] == ["i-1"]
    assert second["monotonic_at"] > first["monotonic_at"]


def test_a_status_that_was_made_just_now_is_given_again() -> None:
    with running() as daemon:
        time.sleep(FRESH_S + 0.01)
        began = time.monotonic()
        asked = [daemon.status(PATIENCE_S) for _ in range(50)]
        took_s = time.monotonic() - began
    assert len({status["monotonic_at"] for status in asked}) <= 2 + took_s / FRESH_S


def test_who_gave_a_command_sees_what_it_did() -> None:
    """However young the status is that was made before."""
    with running() as daemon:
        service: Any = SimpleNamespace(daemon=daemon, events=daemon.core.events)
        for verb, drained in 10 * [("drain-pool", True), ("undrain-pool", False)]:
            daemon.status(PATIENCE_S)
            start(service, verb, {"pool": "ec2"}).result(PATIENCE_S)
            assert [pool["drained"] for pool in daemon.status(PATIENCE_S)["pools"]] == [drained]


def test_while_the_decision_thread_hangs_the_last_status_is_given() -> None:
    released = threading.Event()
    with running() as daemon:
        before = daemon.status(PATIENCE_S)
        time.sleep(FRESH_S + 0.01)
        daemon.core.events.post(lambda: released.wait(600))
        began = time.monotonic()
        during = daemon.status(0.2)
        took_s = time.monotonic() - began
        released.set()
        after = daemon.status(PATIENCE_S)
    assert during == before and 0.2 <= took_s < PATIENCE_S
    assert after["monotonic_at"] > before["monotonic_at"]


def test_while_it_hangs_and_was_never_asked_before_what_is_known_is_given_as_of_its_last_sign_of_life() -> None:
    hangs, released = threading.Event(), threading.Event()
    with running() as daemon:
        daemon.core.events.post(lambda: daemon.core.registry.add(a_node(State.IDLE)))
        daemon.core.events.post(daemon.beat)
        daemon.core.events.post(hangs.set)
        daemon.core.events.post(lambda: released.wait(600))
        assert hangs.wait(PATIENCE_S)
        during = daemon.status(0.2)
        beat_at = daemon.beat_at
        released.set()
    assert [node["id"] for node in during["nodes"]] == ["i-1"]
    assert (during["at"], during["monotonic_at"]) == beat_at


def test_one_that_is_only_slow_is_looked_at_again_if_it_changed_something_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon = Daemon(Surroundings().core)
    made, tried = elastiq.status.snapshot, list[int]()

    def snapshot(of: Daemon) -> dict[str, Any]:
        tried.append(1)
        if len(tried) < 3:
            raise RuntimeError("dictionary changed size during iteration")
        return made(of)

    monkeypatch.setattr(elastiq.status, "snapshot", snapshot)
    assert daemon.status(0.0)["nodes"] == [] and len(tried) == 3


def test_the_loop_shows_now_and_then_that_it_runs_and_makes_a_status_only_for_who_asked() -> None:
    surroundings = Surroundings()
    daemon = Daemon(surroundings.core)
    daemon.start()
    daemon.heartbeat()
    surroundings.run(10 * HEARTBEAT_S)
    assert surroundings.core.now() - daemon.beat_at[1] <= HEARTBEAT_S and not daemon.published
    daemon.publish()
    surroundings.run(10 * HEARTBEAT_S)
    assert surroundings.core.now() - daemon.published["monotonic_at"] <= HEARTBEAT_S


def test_a_daemon_explains_itself_from_the_first_time_that_it_was_asked() -> None:
    with running() as daemon:
        daemon.core.events.post(lambda: daemon.core.registry.add(a_node(State.IDLE)))
        published = snapshot(daemon)
        first = daemon.status(PATIENCE_S)
        daemon.core.events.post(daemon.publish)  # as the heartbeat does
        time.sleep(FRESH_S + 0.01)
        later = daemon.status(PATIENCE_S)
    assert "no_end" not in published
    for status in (first, later):
        (node,) = status["nodes"]
        assert node["explanation"] and status["pools"][0]["detail"]


def test_a_pool_tells_of_the_schedules_in_force_and_until_when() -> None:
    always = (Window(frozenset(range(7)), 0, DAY_MIN),)
    never = (Window(frozenset(), 0, DAY_MIN),)
    schedules = (
        Schedule("days", always, "UTC", timezone.utc, (("max_vms", 7), ("min_idle_vms", 1)), "ec2"),
        Schedule("nights", never, "UTC", timezone.utc, (("max_vms", 1),), "ec2"),
        Schedule("all", always, "UTC", timezone.utc, (("min_vms", 2),)),
    )
    daemon = Daemon(Surroundings(schedules=schedules).core)
    daemon.asked = True
    (pool,) = snapshot(daemon)["pools"]
    said = [line for line in pool["detail"] if line.startswith("schedule")]
    assert said == [
        "schedule all is in force for the whole cluster: min_vms 2",
        "schedule days is in force: max_vms 7, min_idle_vms 1",
    ]
    assert "at most 7" in pool["detail"][0]


def test_the_limits_are_those_that_hold_now_and_the_schedules_in_force_are_named() -> None:
    always, never = (Window(frozenset(range(7)), 0, DAY_MIN),), (Window(frozenset(), 0, DAY_MIN),)
    schedules = (
        Schedule("all", always, "UTC", timezone.utc, (("min_vms", 2), ("max_vms", None))),
        Schedule("nights", never, "UTC", timezone.utc, (("max_vms", 1),), "ec2"),
        Schedule("days", always, "UTC", timezone.utc, (("max_vms", 7), ("min_idle_vms", 1)), "ec2"),
    )
    daemon = Daemon(Surroundings(schedules=schedules).core)
    daemon.asked = True
    status = snapshot(daemon)
    assert status["schedules"] == ["all", "days"]
    assert (status["quota"]["min_vms"], status["quota"]["max_vms"]) == (2, None)
    (pool,) = status["pools"]
    assert (pool["min_vms"], pool["max_vms"], pool["min_idle_vms"]) == (0, 7, 1)
    assert "schedules in force: all, days" in view.text(status, 4711, 1.0).splitlines()
    daemon = Daemon(Surroundings().core)
    daemon.asked = True
    plain = snapshot(daemon)
    assert plain["schedules"] == []
    assert "schedules" not in view.text(plain, 4711, 1.0)


def test_of_a_machine_its_market_is_told() -> None:
    core = Surroundings().core
    core.registry.add(a_node(market="spot"))
    assert [node["market"] for node in snapshot(Daemon(core))["nodes"]] == ["spot"]
