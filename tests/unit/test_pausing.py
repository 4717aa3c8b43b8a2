"""A person stops launches, or drains and ends, and lets them go on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from elastiq import history
from elastiq.commanding import carry_out
from elastiq.interfaces import Jobs
from elastiq.nodes import State
from elastiq.protocol import Refused
from elastiq.status import snapshot
from elastiq.store import StoreError
from tests.unit.test_daemon import Rig
from tests.unit.values import a_node, a_worker, an_instance, group, state_of


def asked(rig: Rig, verb: str = "pause", **args: Any) -> dict[str, str]:
    answer: dict[str, str] = carry_out(rig.daemon, verb, args)["paused"]
    return answer


def idle_rig(**changed: Any) -> tuple[Rig, Any]:
    """With a machine that is idle for long, and a job that waits for another."""
    node = a_node(State.IDLE, seen=None, idle_s=9000.0)
    rig = Rig(node, **changed)
    rig.batch.set_workers(a_worker())
    rig.cloud.set_instances(an_instance())
    return rig, node


def test_pause_stops_both_and_each_can_be_stopped_and_resumed_by_itself() -> None:
    rig = Rig()
    assert asked(rig, reason="upgrade of the site") == dict.fromkeys(
        ("launch", "terminate"), "paused: upgrade of the site"
    )
    assert asked(rig, "resume", launch=True) == {"terminate": "paused: upgrade of the site"}
    assert asked(rig, launch=True) == {"launch": "paused by elastiqctl", "terminate": "paused: upgrade of the site"}
    assert asked(rig, "resume") == {}
    assert [(what, reason) for _, what, _, _, reason in history.lines(rig.store)] == [
        ("pause", "elastiqctl pause launch and terminate: upgrade of the site"),
        ("resume", "elastiqctl resume launch"),
        ("pause", "elastiqctl pause launch"),
        ("resume", "elastiqctl resume launch and terminate"),
    ]


def test_the_keys_of_the_file_are_told_to_who_resumes_and_in_the_status() -> None:
    rig = Rig(launch=False)
    answer = carry_out(rig.daemon, "resume", {})
    assert answer == {"paused": {}, "configured": {"launch": "launch = no"}}
    rig.daemon.asked = True
    assert "switches: launch = no in [elastiq] of the configuration" in snapshot(rig.daemon)["notices"]


def test_while_launches_are_paused_what_would_be_launched_is_logged_and_not_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    asked(rig, launch=True, reason="no money")
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    with caplog.at_level(logging.INFO):
        rig.pass_time(60.0)
    assert rig.executor.acts() == []
    assert caplog.text.count("paused: no money: would launch 1 of ec2/medium") == 1
    with caplog.at_level(logging.INFO):
        asked(rig, "resume", terminate=True)
        asked(rig, terminate=True)  # a new pause tells anew what it keeps from being done
        rig.pass_time(60.0)
    assert caplog.text.count("paused: no money: would launch 1 of ec2/medium") == 2
    asked(rig, "resume")
    rig.run()
    assert len(rig.executor.acts("cloud")) == 1


def test_while_ends_are_paused_what_would_be_drained_is_logged_and_not_done(caplog: pytest.LogCaptureFixture) -> None:
    rig, node = idle_rig()
    asked(rig, terminate=True)
    with caplog.at_level(logging.INFO):
        rig.pass_time(60.0)
    assert rig.executor.acts() == [] and state_of(node) is State.IDLE
    assert "paused by elastiqctl: would drain and end i-1" in caplog.text
    asked(rig, "resume", terminate=True)
    rig.run()
    assert state_of(node) is State.DRAINING


def test_it_outlives_a_restart_and_is_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    rig = Rig(store_path=path)
    asked(rig, launch=True, reason="no money")
    rig.store.close()
    again = Rig(store_path=path)
    again.answer()
    again.daemon.asked = True
    status = snapshot(again.daemon)
    assert (status["state"], status["paused"]) == ("paused", {"launch": "paused: no money"})
    assert "switches: no launch (paused: no money), until elastiqctl resume" in status["notices"]
    asked(again, "resume")
    assert not [line for line in snapshot(again.daemon)["notices"] if line.startswith("switches")]
    again.store.close()
    assert snapshot(Rig(store_path=path).daemon)["paused"] == {}


def test_where_it_cannot_be_stored_nothing_is_changed() -> None:
    rig = Rig()

    def full(key: str, value: Any) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.remember = full  # type: ignore[method-assign]
    with pytest.raises(Refused) as refused:
        asked(rig)
    assert refused.value.code == "impossible" and rig.core.paused == {}


@pytest.mark.parametrize("args", [{"launch": 1}, {"terminate": "yes"}, {"reason": 7}, {"reason": ["x"]}])
def test_what_is_no_such_argument_is_refused(args: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        asked(Rig(), **args)
    assert refused.value.code == "malformed"


def test_a_reason_is_kept_as_one_short_line() -> None:
    paused = asked(Rig(), reason="one\n\x1b[2J two " + "x" * 300)
    assert paused["launch"].startswith("paused: one [2J two xxx") and len(paused["launch"]) == len("paused: ") + 200
