"""elastiqctl status for a person, of real daemons on simulated clusters."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import pytest

from elastiq import status
from elastiq.cli import view
from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.world import Image

SETTINGS = Settings(
    cluster_name="alice",
    pools=(Pool("ec2", "cloud", ("m1",), capacity=Resources(4, 8000)),),
    check_queue_every_s=5,
    check_vms_every_s=10,
    waiting_jobs_time_s=0,
    batch_settle_s=0,
    estimated_vm_deploy_time_s=200,
)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)


def cluster(image: Image = Image(), settings: Settings = SETTINGS) -> Cluster:  # noqa: B008 - not changed
    made = Cluster(settings, {"m1": Resources(4, 8000)}, random.Random(1), image=image)
    made.start_daemon()
    return made


def snapshot(cluster: Cluster) -> dict[str, Any]:
    assert cluster.daemon is not None
    cluster.run(6)  # until it is published again
    return status.snapshot(cluster.daemon)


def shown(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("time.time", cluster.clock.time)
    return view.text(snapshot(cluster), 4711, 1.0)


def test_an_empty_cluster_in_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(cluster(), monkeypatch)
    assert "cluster alice: active (pid 4711)" in text
    assert "jobs: 0 waiting, 0 running; read " in text
    assert "nodes: 0; quota: 0 count, min_vms 0, max_vms 3" in text
    assert "no job waits" in text
    assert len(text.splitlines()) < 15


def test_machines_are_shown_with_state_age_worker_and_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = cluster()
    for _ in range(6):
        alice.world.submit(Resources(1, 500), 10_000.0)
    alice.run(300)
    text = shown(alice, monkeypatch)
    status = snapshot(alice)
    assert "2 busy" in text and "NODE" in text
    for node in status["nodes"]:
        line = next(line for line in text.splitlines() if line.startswith(node["id"]))
        for part in ("busy", " min", node["worker"], "ec2/m1", node["reason"]):
            assert part in line
    assert "last action, " in text and "launch 2 of ec2/m1" in text


def test_jobs_that_are_not_served_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = cluster()
    alice.world.submit(Resources(64, 500), 100.0)
    alice.run(100)
    text = shown(alice, monkeypatch)
    assert "1 waiting (1 of them unmatchable)" in text
    assert "asks 64 cpus, the machine has 4" in text and "64 cpus, 500 MB" in text


def test_how_many_of_a_group_are_held_and_launched_for_stands_beside_why_the_rest_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status = snapshot(cluster())
    group = {"key": "g", "sample_job": "7.0", "cpus": 1, "memory_mb": 0, "disk_mb": 0, "gpus": 0, "requirements": ""}
    why = {"matchable": True, "standing": "served", "reason": "max_vms 3 is reached"}
    jobs = {"waiting": 7, "running": 0, "waiting_s": 50.0, "held": 4, "launching": 2}
    status["queue"] = {**status["queue"], "groups": [{**group, **why, **jobs}]}
    lines = view.text(status, 1, 1.0).splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("WAITING"))
    assert lines[head].split()[:4] == ["WAITING", "HELD", "LAUNCHING", "FOR"]
    assert lines[head + 1].split()[:3] == ["7", "4", "2"] and lines[head + 1].endswith("max_vms 3 is reached")
    status["queue"]["groups"] = [{**group, **why, **jobs, "launching": 0}]
    assert "LAUNCHING" not in view.text(status, 1, 1.0)


def test_more_machines_than_the_limit_are_pointed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    status = snapshot(cluster())
    status["quota"] = {**status["quota"], "max_vms": 1, "counted": 1}
    assert "quota: 1 counts, min_vms 0, max_vms 1" in view.text(status, 1, 1.0)
    assert "! above" not in view.text(status, 1, 1.0)
    status["quota"]["counted"] = 2
    assert "\n! above max_vms: 2 count, 1 may; none is launched until fewer do" in view.text(status, 1, 1.0)
    status["quota"]["max_vms"] = None
    assert "! above" not in view.text(status, 1, 1.0)
    status["pools"] = [{**status["pools"][0], "max_vms": 1, "counted": 3}]
    assert "pool ec2: 3 count of at most 1\n  ! above max_vms: 3 count" in view.text(status, 1, 1.0)


def test_a_pool_whose_machines_never_join_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = cluster(Image(joins=False))
    for _ in range(20):
        alice.world.submit(Resources(4, 500), 100.0)
    alice.run(400)
    assert "one at a time until one does" in shown(alice, monkeypatch)


def test_a_hanging_loop_is_the_first_thing_one_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    status = snapshot(cluster())
    assert "hangs" not in view.text(status, 1, 5.0)
    assert "silent for 5 min: it hangs" in view.text(status, 1, 300.0).splitlines()[1]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_line_fits_into_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((width, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    alice = cluster()
    for cpus in (1, 2, 64):
        alice.world.submit(Resources(cpus, 500), 10_000.0)
    alice.run(300)
    text = shown(alice, monkeypatch)
    assert all(len(line) <= width for line in text.splitlines()), text
    assert "\033" not in text
