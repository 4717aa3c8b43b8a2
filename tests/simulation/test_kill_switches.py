"""`launch = no` and `terminate = no`: nothing of the kind happens, whatever is the reason for it, and the log says
what would have happened. A real daemon in virtual time; the acts are those that took effect in the world.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import pytest

from elastiq.interfaces import Pool, Resources, Terms
from elastiq.pausing import change
from elastiq.reload import take_over
from elastiq.simulation.model import Act
from elastiq.status import snapshot
from tests.simulation.test_lives import FLAVOURS, HOUR_S, IDLE_S, Life

ENDS = ("drain", "stop", "terminate")


class Switched(Life):
    """A life with the journal of all that took effect."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.acts: list[Act] = []
        self.world.on_act = self.acts.append

    def count(self, *kinds: str) -> int:
        return sum(act.what in kinds for act in self.acts)

    def switch(self, **keys: bool) -> None:
        """By a reload of the configuration."""
        self.settings = replace(self.settings, **keys)
        assert self.daemon is not None
        take_over(self.daemon, self.settings, self._batch(), self._clouds())

    def restart(self) -> None:
        """After kill -9; what it had sent has taken effect by then or not at all."""
        self.kill_daemon()
        self.run(60.0)
        self.begin()

    @property
    def state(self) -> str:
        assert self.daemon is not None
        return str(snapshot(self.daemon)["state"])

    def with_machines(self, count: int = 2) -> None:
        """So many, all of them idle by the end."""
        self.submit(4 * count, length_s=100.0)
        assert self.run_until(self.all_done, HOUR_S), self.story()
        assert len(self.present()) == count
        self.acts.clear()


def pool(**terms: Any) -> Pool:
    return Pool("ec2", "aws", ("medium",), capacity=FLAVOURS["medium"], terms=Terms(**terms))


# --------------------------------------------------------------------------- launch = no

WANTED: dict[str, Callable[[Switched], None]] = {
    "waiting jobs": lambda life: life.submit(8, length_s=100.0),
    "min_vms": lambda life: life.switch(min_vms=2),
    "a pool's min_vms": lambda life: life.switch(pools=(replace(pool(), min_vms=2),)),  # type: ignore[arg-type]
    "hot spares": lambda life: life.switch(pools=(pool(min_idle_vms=2),)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED.keys())
def test_without_launches_none_is_made_for_whatever_reason_and_the_log_says_what_would_be(
    wanted: Callable[[Switched], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    life = Switched(launch=False)
    life.begin()
    wanted(life)
    life.run(2 * HOUR_S)
    assert life.acts == []
    assert [m for m in caplog.messages if m == "launch = no: would launch 2 of ec2/medium"], caplog.messages
    assert life.state == "paused"
    life.switch(launch=True)
    assert life.run_until(lambda: life.count("launch") > 0 and len(life.present()) == 2, 300.0), life.story()
    assert life.state == "active"
    life.no_bug()


def test_without_launches_the_status_says_of_waiting_jobs_what_would_be_done() -> None:
    life = Switched(launch=False)
    life.begin()
    life.submit(4)
    life.run(60.0)
    assert life.daemon is not None
    life.daemon.asked = True
    status = snapshot(life.daemon)
    (group,) = status["queue"]["groups"]
    assert group["explanation"] == "launch = no: would launch 1 of ec2/medium"
    assert (status["state"], status["last_action"]["summary"]) == ("paused", "nothing was done yet")


def test_without_launches_machines_still_end(caplog: pytest.LogCaptureFixture) -> None:
    life = Switched()
    life.begin()
    life.with_machines()
    life.switch(launch=False)
    assert life.run_until(life.empty, IDLE_S + 300.0), life.story()
    assert life.count("drain") == 2 and life.count("terminate") == 2


def test_without_launches_what_is_stopped_is_not_started(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    life = Switched()
    life.settings = replace(life.settings, pools=(pool(idle_action="stop"),))
    life.begin()
    life.with_machines(1)
    assert life.run_until(lambda: life.count("stop") == 1, IDLE_S + 600.0), life.story()
    life.run(300.0)
    life.switch(launch=False)
    life.submit(4, length_s=100.0)
    life.run(HOUR_S)
    assert life.count("start", "launch") == 0
    assert "launch = no: would start 1 of ec2/medium/stopped" in caplog.messages
    life.switch(launch=True)
    assert life.run_until(life.all_done, 600.0), life.story()
    assert life.count("start") == 1 and life.count("launch") == 0
    life.no_bug()


def test_without_launches_a_machine_that_is_taken_back_is_not_replaced() -> None:
    life = Switched()
    life.begin()
    life.submit(4, length_s=2 * HOUR_S)
    assert life.run_until(lambda: len(life.workers()) == 1, 600.0)
    life.run(60.0)
    life.acts.clear()
    life.switch(launch=False)
    (machine,) = life.present()
    life.world.announce(machine, "spot interruption: terminate announced")
    life.submit(1, length_s=100.0)
    life.run(600.0)
    assert life.count("launch") == 0
    life.switch(launch=True)
    assert life.run_until(lambda: life.count("launch") >= 1, 120.0), life.story()


def test_a_launch_in_flight_when_the_switch_comes_is_taken_in_and_ends_when_it_is_idle(tmp_path: Path) -> None:
    """Its answer is lost, since the daemon is killed: its intent is settled all the same."""
    life = Switched(store_path=str(tmp_path / "db"))
    life.begin()
    life.submit(4, length_s=300.0)
    assert life.run_until(lambda: life.count("launch") == 1, 60.0, 0.01)  # the answer is still under way
    life.settings = replace(life.settings, launch=False)
    life.kill_daemon()
    life.run(5.0)
    life.begin()
    assert life.daemon is not None
    assert life.run_until(lambda: [n.instance_id for n in life.daemon.core.registry] == [life.present()[0].id], 120.0)
    assert life.run_until(life.all_done, HOUR_S), life.story()
    assert life.run_until(life.empty, IDLE_S + 300.0), life.story()
    assert life.count("launch") == 1
    assert life.daemon.core.store.intents() == []
    life.no_bug()


# --------------------------------------------------------------------------- terminate = no


def test_without_ends_nothing_is_drained_or_ended_and_the_log_says_what_would_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    life = Switched(terminate=False)
    life.begin()
    life.with_machines()
    life.run(3 * HOUR_S)
    assert life.acts == []
    would = [m for m in caplog.messages if m.startswith("terminate = no: would drain and end i-")]
    assert len(would) == 2, "once for each machine"
    assert life.state == "paused"
    life.switch(terminate=True)
    assert life.run_until(life.empty, 300.0), life.story()
    assert (life.count("drain"), life.count("terminate"), life.state) == (2, 2, "active")
    life.no_bug()


def test_without_ends_machines_are_still_launched_and_used() -> None:
    life = Switched(terminate=False)
    life.begin()
    life.submit(12)
    assert life.run_until(life.all_done, 2 * HOUR_S)
    assert life.count("launch") >= 1 and life.count(*ENDS) == 0


def test_without_ends_idle_machines_are_not_stopped() -> None:
    life = Switched(terminate=False)
    life.settings = replace(life.settings, pools=(pool(idle_action="stop"),))
    life.begin()
    life.with_machines(1)
    life.run(3 * HOUR_S)
    assert life.acts == []


def test_without_ends_a_machine_that_never_joins_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    life = Switched(terminate=False, estimated_vm_deploy_time_s=300.0)
    life.world.image = replace(life.world.image, join_s=(1e9, 1e9))
    life.begin()
    life.submit(1)
    life.run(3 * HOUR_S)
    assert life.count("launch") >= 1 and life.count(*ENDS) == 0
    assert any(m.startswith("terminate = no: would end i-") for m in caplog.messages)
    life.switch(terminate=True)
    assert life.run_until(lambda: life.count("terminate") >= 1, 300.0), life.story()
    life.no_bug()


def test_without_ends_a_lightly_used_machine_is_not_emptied() -> None:
    def begun(**switch: bool) -> Switched:
        eight = Resources(cpus=8, memory_mb=16384)
        life = Switched(consolidate=True, idle_for_time_s=HOUR_S, **switch)
        life.world.flavours = {"medium": eight}
        life.settings = replace(life.settings, pools=(Pool("ec2", "aws", ("medium",), capacity=eight),))
        life.begin()
        for number in range(24):
            life.submit(1, length_s=4 * HOUR_S if number % 8 == 0 else 900.0)
        life.run(HOUR_S)
        return life

    assert begun().count("drain") >= 1
    life = begun(terminate=False)
    assert life.count(*ENDS) == 0
    life.switch(terminate=True)
    assert life.run_until(lambda: life.count("drain") >= 1, 300.0), life.story()


def test_without_ends_a_pool_that_is_drained_or_too_old_keeps_its_machines() -> None:
    life = Switched(terminate=False)
    life.settings = replace(life.settings, pools=(pool(max_vm_lifetime_s=900.0),))
    life.begin()
    life.with_machines(1)
    assert life.daemon is not None
    life.daemon.core.drained = frozenset({"ec2"})
    life.run(2 * HOUR_S)
    assert life.acts == []
    life.no_bug()


def test_a_drain_in_flight_when_the_switch_comes_is_undone_in_time() -> None:
    life = Switched()
    life.begin()
    life.with_machines(1)
    assert life.run_until(lambda: life.count("drain") == 1, IDLE_S + 300.0, 0.05)
    assert life.count("terminate") == 0
    life.switch(terminate=False)
    life.run(life.settings.drain_timeout_s + 120.0)
    assert life.count("terminate", "stop") == 0
    assert life.count("undrain") == 1
    (worker,) = life.workers()
    assert worker.drained_by is None
    life.submit(1, length_s=60.0)
    assert life.run_until(life.all_done, 300.0), life.story()
    life.no_bug()


def test_an_end_in_flight_when_the_switch_comes_is_not_asked_again(tmp_path: Path) -> None:
    """It was asked for; that it is confirmed is taken in."""
    life = Switched()
    life.begin()
    life.with_machines(1)
    assert life.run_until(lambda: life.count("terminate") == 1, IDLE_S + 300.0, 0.05)
    life.switch(terminate=False)
    assert life.run_until(life.empty, 600.0), life.story()
    life.run(120.0)
    assert life.daemon is not None and len(life.daemon.core.registry) == 0
    assert life.count("terminate") == 1
    life.no_bug()


# --------------------------------------------------------------------------- both, and restarts


@pytest.mark.parametrize("by", ["configuration", "elastiqctl"])
def test_both_switches_outlive_kill_9(by: str, tmp_path: Path) -> None:
    life = Switched(store_path=str(tmp_path / "db"))
    life.begin()
    life.with_machines(1)
    if by == "configuration":
        life.switch(launch=False, terminate=False)
    else:
        assert life.daemon is not None
        change(life.daemon.core, "pause", {})
    life.submit(40, length_s=60.0)
    for _ in range(3):
        life.run(HOUR_S)
        life.restart()
        assert life.state == "paused"
    assert life.acts == []
    assert len(life.present()) == 1 and life.world.tally.done == 44, "what is there goes on working"
    if by == "configuration":
        life.switch(launch=True, terminate=True)
    else:
        assert life.daemon is not None
        change(life.daemon.core, "resume", {})
    assert life.run_until(life.empty, IDLE_S + 300.0), life.story()
    assert life.count("launch") == 0
    life.no_bug()


def test_both_ways_to_switch_off_have_to_be_switched_on_again(tmp_path: Path) -> None:
    life = Switched(launch=False)
    life.begin()
    assert life.daemon is not None
    change(life.daemon.core, "pause", {"launch": True})
    life.submit(4)
    life.switch(launch=True)
    life.run(HOUR_S)
    assert (life.count("launch"), life.state) == (0, "paused")
    change(life.daemon.core, "resume", {"launch": True})
    assert life.run_until(lambda: life.count("launch") == 1, 120.0), life.story()


@pytest.mark.parametrize("seed", range(3))
def test_switches_that_come_and_go_by_chance_break_nothing(seed: int, tmp_path: Path) -> None:
    """Jobs all the time, kills and reloads between; while a switch is off nothing of its kind takes effect later
    than a call can be under way."""
    life = Switched(seed=seed, store_path=str(tmp_path / "db"))
    life.begin()
    late: Counter[str] = Counter()
    for step in range(16):
        off = {"launch": bool((seed + step) % 3), "terminate": bool((seed + step) % 4)}
        life.switch(**off)
        life.run(10.0)
        before = len(life.acts)
        life.submit((seed * 7 + step * 5) % 9, length_s=200.0)
        life.run(900.0)
        new = [act.what for act in life.acts[before:]]
        late.update(what for what in new if not off["launch"] and what in ("launch", "start"))
        late.update(what for what in new if not off["terminate"] and what in ENDS)
        if step % 5 == seed:
            life.restart()
    assert late == {}
    life.switch(launch=True, terminate=True)
    life.finish()
