"""The kill switches of the configuration in a real daemon: reloads, kill -9, and what was in flight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ec2_server import Rule
from tests.integration.at_work import AtWork
from tests.waiting import until


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[AtWork]:
    daemon = AtWork(tmp_path)
    yield daemon
    daemon.close()


def looks(daemon: AtWork, times: int = 5) -> None:
    """It looks at everything so many times more."""
    before = len(daemon.server.asked("DescribeInstances"))
    until(lambda: len(daemon.server.asked("DescribeInstances")) >= before + times)


def test_nothing_is_launched_then_nothing_ended_while_a_switch_is_off_and_all_of_it_once_it_is_on(
    daemon: AtWork,
) -> None:
    daemon.write(keys="launch = no")
    daemon.start()
    daemon.pool.submit(1)
    until(lambda: "launch = no: would launch 1 of ec2/m5.small" in daemon.text)
    looks(daemon)
    assert daemon.server.asked("RunInstances") == []
    status = daemon.status()
    assert status["state"] == "paused"
    assert status["queue"]["groups"][0]["explanation"] == "launch = no: would launch 1 of ec2/m5.small"

    daemon.write(keys="terminate = no")
    daemon.reload()
    daemon.join()
    until(lambda: "terminate = no: would drain and end i-" in daemon.text)
    for again in (False, True):
        if again:
            daemon.kill()
            daemon.start()
            until(lambda: daemon.text.count("terminate = no: would drain and end i-") == 2)
        looks(daemon)
        assert daemon.pool.calls("condor_drain") == [] and daemon.server.asked("TerminateInstances") == []
        assert daemon.status()["state"] == "paused"

    daemon.write()
    daemon.reload()
    until(lambda: len(daemon.server.asked("TerminateInstances")) == 1)
    assert daemon.status()["state"] == "active"
    assert len(daemon.server.asked("RunInstances")) == 1
    assert "this is a bug" not in daemon.text


def test_a_launch_whose_answer_was_lost_is_adopted_though_launches_are_switched_off(daemon: AtWork) -> None:
    daemon.server.script("RunInstances", Rule(effect=True, drop=True))
    daemon.write()
    daemon.start()
    daemon.pool.submit(1)
    until(lambda: len(daemon.machines()) == 1)
    daemon.kill()
    daemon.write(keys="launch = no\nterminate = no")
    daemon.start()
    (machine,) = daemon.machines()
    until(lambda: [node["id"] for node in daemon.status()["nodes"]] == [machine.id])
    daemon.pool.load()["jobs"].clear()
    daemon.pool.save()
    daemon.pool.add_worker("w1", machine.private_ip, cpus=1, memory_mb=4000)
    until(lambda: "terminate = no: would drain and end i-" in daemon.text)
    assert len(daemon.server.asked("RunInstances")) == 1 and daemon.server.asked("TerminateInstances") == []
