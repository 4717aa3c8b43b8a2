"""A real workload fed into a world, and played through the daemon."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from elastiq.interfaces import Resources
from elastiq.simulation import replay
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.model import JobState
from elastiq.simulation.workload import Arrival, feed
from elastiq.simulation.world import World


def line(submit: int, run: int, requested: int = 2, wait: int = 5, status: int = 1) -> str:
    return f"1 {submit} {wait} {run} 2 55.5 -1 {requested} 120 -1 {status} 7 1 -1 -1 1 -1 -1\n"


def test_arrivals_are_fed_into_a_world_at_their_time() -> None:
    clock = VirtualClock()
    events = VirtualQueue(clock)
    world = World(events, clock, random.Random(1), {})

    def stream() -> Any:
        yield Arrival(10.0, Resources(cpus=1), 5.0)
        yield Arrival(20.0, Resources(cpus=1), 5.0, removed_after_s=7.5)
        yield Arrival(15.0, Resources(cpus=2), 5.0)  # out of order
        taken.append("all")

    taken: list[str] = []
    feed(world, stream())
    seen = []
    for _ in range(4):
        events.after(9.0, events.stop)
        events.run()
        seen.append(world.waiting())
    assert seen == [0, 1, 3, 2]
    assert taken == ["all"]
    assert sorted(job.request.cpus or 0 for job in world.jobs.values() if job.state is JobState.WAITING) == [1, 2]


def test_the_daemon_serves_a_trace_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.swf"
    jobs = [line(1000 + 200 * number, 100 + 37 * number, requested=1 + 7 * number % 40) for number in range(40)]
    path.write_text("".join(jobs) + line(1500, -1, wait=1, status=5) + "no job\n")
    assert replay.main([str(path), "--cpus", "8", "--max-vms", "6"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["trace_bad_lines"], summary["jobs_killed"]) == (1, 0)
    assert summary["trace_jobs"] == summary["jobs_submitted"]
    assert summary["jobs_done"] == summary["jobs_submitted"] - 1 > 60
    assert 1 <= summary["peak_vms"] <= 6
    assert replay.main([str(path), "--days", "0.01"]) == 0
    assert json.loads(capsys.readouterr().out)["trace_jobs"] < 10


def test_what_cannot_be_replayed_is_said_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    for path in (tmp_path / "notes.txt", tmp_path / "nowhere.swf"):
        assert replay.main([str(path)]) == 2
        assert path.name in capsys.readouterr().err
