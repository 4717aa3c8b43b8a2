"""Traces in the Standard Workload Format: what archives really hold, broken lines included."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from elastiq.interfaces import Resources
from elastiq.simulation import replay
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.model import JobState
from elastiq.simulation.swf import Trace, TraceError
from elastiq.simulation.workload import Arrival, feed
from elastiq.simulation.world import World

# job submit wait run allocated cpu memory requested requested_s requested_memory status, then seven more
REST = "7 1 -1 -1 1 -1 -1"
HEADER = "; Version: 2.2\n; Computer: A small cluster\n;   MaxNodes: 12\n; Note: two: colons\n;\n;---\n"


def line(**fields: Any) -> str:
    known: dict[str, Any] = {"job": 1, "submit": 100, "wait": 5, "run": 60, "allocated": 2, "cpu": 55.5, "memory": -1}
    known.update(requested=2, requested_s=120, requested_memory=-1, status=1)
    known.update(fields)
    return " ".join(str(value) for value in known.values()) + f" {REST}\n"


def read(tmp_path: Path, text: str, **options: Any) -> tuple[list[Arrival], Trace]:
    path = tmp_path / "log.swf"
    path.write_text(text)
    trace = Trace(path, **options)
    return list(trace), trace


def test_jobs_come_with_their_time_since_the_first_and_what_they_asked_for(tmp_path: Path) -> None:
    text = HEADER + line() + line(submit=160, run=3600.25, requested=4, allocated=8, requested_memory=2048)
    arrivals, trace = read(tmp_path, text)
    assert arrivals == [Arrival(0.0, Resources(cpus=2), 60.0), Arrival(60.0, Resources(cpus=4, memory_mb=8.0), 3600.25)]
    assert trace.header == {
        "Version": "2.2", "Computer": "A small cluster", "MaxNodes": "12", "Note": "two: colons",
    }  # fmt: skip
    assert (trace.jobs, trace.cancelled, trace.unknown, trace.bad) == (2, 0, 0, 0)


def test_what_was_allocated_and_used_stands_for_what_was_not_asked_for(tmp_path: Path) -> None:
    ((job,), _trace) = read(tmp_path, line(requested=-1, allocated=3, memory=1024, requested_memory=-1))
    assert job.request == Resources(cpus=3, memory_mb=3.0)


@pytest.mark.parametrize("status", [5, -1, 0])
def test_a_job_cancelled_while_it_waited_is_submitted_and_removed(tmp_path: Path, status: int) -> None:
    ((job,), trace) = read(tmp_path, line(run=-1, status=status, wait=300, requested_s=7200))
    assert (job.length_s, job.removed_after_s) == (7200.0, 300.0)
    assert (trace.jobs, trace.cancelled) == (1, 1)


def test_a_job_cancelled_while_it_ran_ran_so_long(tmp_path: Path) -> None:
    ((job,), trace) = read(tmp_path, line(run=44, status=5))
    assert (job.length_s, job.removed_after_s, trace.cancelled) == (44.0, None, 0)


NOT_SAID = ({"run": -1, "requested_s": -1, "status": -1}, {"requested": -1, "allocated": 0})
BROKEN = (
    *("hello\n", "1 2 3\n", line().strip() + " 1 2 3\n", "1 0x10 " + line()),
    *(line(submit=-1), line(run="nan"), line(run="inf")),
)


@pytest.mark.parametrize("fields", NOT_SAID)
def test_a_job_of_which_too_little_is_known_is_counted_and_left_out(tmp_path: Path, fields: dict[str, int]) -> None:
    arrivals, trace = read(tmp_path, line(**fields) + line(submit=130))
    assert [job.at_s for job in arrivals] == [30.0]
    assert (trace.jobs, trace.unknown, trace.bad) == (1, 1, 0)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_line_is_counted_and_left_out(tmp_path: Path, broken: str) -> None:
    arrivals, trace = read(tmp_path, line() + broken + "\n   \n" + line())
    assert len(arrivals) == 2
    assert (trace.jobs, trace.bad) == (2, 1)


def test_a_line_without_the_last_fields_is_a_job(tmp_path: Path) -> None:
    arrivals, trace = read(tmp_path, " ".join(line().split()[:11]) + "\n")
    assert (len(arrivals), trace.bad) == (1, 0)


def test_a_line_out_of_order_is_never_before_the_first(tmp_path: Path) -> None:
    arrivals, _trace = read(tmp_path, line(submit=1000) + line(submit=1030) + line(submit=990))
    assert [job.at_s for job in arrivals] == [0.0, 30.0, 0.0]


def test_a_job_larger_than_a_machine_is_split(tmp_path: Path) -> None:
    arrivals, trace = read(tmp_path, line(requested=10, requested_memory=1024), split_at=4)
    assert [(job.request.cpus, job.request.memory_mb) for job in arrivals] == [(4, 4.0), (4, 4.0), (2, 2.0)]
    assert trace.jobs == 1


def test_a_zipped_trace_is_read_whatever_its_name(tmp_path: Path) -> None:
    for name in ("log.swf.gz", "log.swf"):
        path = tmp_path / name
        path.write_bytes(gzip.compress((HEADER + line() * 3).encode()))
        assert len(list(Trace(path))) == 3


def test_a_trace_is_read_as_often_as_one_likes(tmp_path: Path) -> None:
    arrivals, trace = read(tmp_path, line() + "broken\n")
    assert list(trace) == arrivals
    assert (trace.jobs, trace.bad) == (1, 1)


def test_a_trace_is_not_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(line() * 50_000)
    trace = Trace(path)
    stream = iter(trace)
    next(stream)
    assert trace.jobs == 1


def test_what_is_no_trace_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\nworld\n")
    with pytest.raises(TraceError, match=r"notes\.txt: none of its 2 lines"):
        list(Trace(path))


def test_a_zipped_trace_that_was_cut_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress("".join(line(submit=n) for n in range(5000)).encode())[:-2000])
    with pytest.raises(TraceError, match="damaged"):
        list(Trace(path))


def test_an_empty_trace_has_no_jobs(tmp_path: Path) -> None:
    assert read(tmp_path, HEADER)[0] == []


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
    jobs = [
        line(submit=1000 + 200 * number, run=100 + 37 * number, requested=1 + 7 * number % 40) for number in range(40)
    ]
    path.write_text("".join(jobs) + line(submit=1500, run=-1, wait=1, status=5) + "no job\n")
    assert replay.main([str(path), "--cpus", "8", "--max-vms", "6"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["trace_jobs"], summary["trace_bad_lines"], summary["jobs_killed"]) == (41, 1, 0)
    assert summary["jobs_done"] == summary["jobs_submitted"] - 1 > 60
    assert 1 <= summary["peak_vms"] <= 6
    assert replay.main([str(path), "--days", "0.01"]) == 0
    assert json.loads(capsys.readouterr().out)["trace_jobs"] < 10


def test_what_cannot_be_replayed_is_said_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    for path in (tmp_path / "notes.txt", tmp_path / "nowhere.swf"):
        assert replay.main([str(path)]) == 2
        assert path.name in capsys.readouterr().err
