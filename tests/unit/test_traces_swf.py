"""Traces in the Standard Workload Format: what archives really hold, broken lines included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastiq.interfaces import Resources
from elastiq.traces.job import TraceError, TraceJob
from tests.unit.traces import opened, read

# job submit wait run allocated cpu memory requested requested_s requested_memory status, then seven more
REST = "7 1 -1 -1 1"
HEADER = "; Version: 2.2\n; Computer: A small cluster\n;   MaxNodes: 12\n; Note: two: colons\n;\n;---\n"


def line(preceding: int = -1, think: int = -1, **fields: Any) -> str:
    known: dict[str, Any] = {"job": 1, "submit": 100, "wait": 5, "run": 60, "allocated": 2, "cpu": 55.5, "memory": -1}
    known.update(requested=2, requested_s=120, requested_memory=-1, status=1)
    known.update(fields)
    return " ".join(str(value) for value in known.values()) + f" {REST} {preceding} {think}\n"


def test_jobs_come_with_their_time_since_the_first_and_what_they_asked_for(tmp_path: Path) -> None:
    text = HEADER + line() + line(job=2, submit=160, run=3600.25, requested=4, allocated=8, requested_memory=2048)
    trace = opened(tmp_path, text)
    assert list(trace) == [
        TraceJob(0.0, Resources(cpus=2), 60.0, "1"),
        TraceJob(60.0, Resources(cpus=4, memory_mb=8.0), 3600.25, "2"),
    ]
    assert trace.format == "swf"
    assert trace.header == {
        "Version": "2.2", "Computer": "A small cluster", "MaxNodes": "12", "Note": "two: colons",
    }  # fmt: skip
    assert (trace.lines.jobs, trace.lines.cancelled, trace.lines.left_out, trace.lines.bad) == (2, 0, {}, 0)


@pytest.mark.parametrize(("header", "submit", "began_at"), [
    ("", 100, None),
    ("; UnixStartTime: 1027839845\n", 100, 1027839945.0),
    ("; UnixStartTime: yesterday\n", 100, None),
    ("; UnixStartTime: 0\n", 1027839845, 1027839845.0),  # absolute times of submission
])  # fmt: skip
def test_the_wall_time_of_the_first_job_is_known_where_the_log_tells_it(
    tmp_path: Path, header: str, submit: int, began_at: float
) -> None:
    trace = opened(tmp_path, header + line(submit=submit))
    assert trace.began_at is None
    assert next(iter(trace)).at_s == 0.0
    assert trace.began_at == began_at


def test_what_was_allocated_and_used_stands_for_what_was_not_asked_for(tmp_path: Path) -> None:
    ((job,), _lines) = read(tmp_path, line(requested=-1, allocated=3, memory=1024, requested_memory=-1))
    assert job.request == Resources(cpus=3, memory_mb=3.0)


@pytest.mark.parametrize("status", [5, -1, 0])
def test_a_job_cancelled_while_it_waited_is_submitted_and_removed(tmp_path: Path, status: int) -> None:
    ((job,), lines) = read(tmp_path, line(run=-1, status=status, wait=300, requested_s=7200))
    assert (job.run_s, job.removed_after_s) == (7200.0, 300.0)
    assert (lines.jobs, lines.cancelled) == (1, 1)


def test_a_cancelled_job_of_unknown_length_would_have_run_as_long_as_it_waited(tmp_path: Path) -> None:
    ((job,), _lines) = read(tmp_path, line(run=-1, status=5, wait=300, requested_s=-1))
    assert (job.run_s, job.removed_after_s) == (300.0, 300.0)


def test_a_job_cancelled_while_it_ran_ran_so_long(tmp_path: Path) -> None:
    ((job,), lines) = read(tmp_path, line(run=44, status=5))
    assert (job.run_s, job.removed_after_s, lines.cancelled) == (44.0, None, 0)


def test_a_job_that_follows_another_waits_for_its_end_and_thinks(tmp_path: Path) -> None:
    jobs, _lines = read(tmp_path, line(job=7) + line(job=8, preceding=7, think=90) + line(job=9, preceding=8))
    assert [(job.after, job.think_s) for job in jobs] == [((), 0.0), (("7",), 90.0), (("8",), 0.0)]


def test_a_job_that_follows_itself_is_given_and_noted(tmp_path: Path) -> None:
    ((job,), lines) = read(tmp_path, line(job=7, preceding=7))
    assert job.after == ()
    assert lines.noted == {"waits for itself": 1}


def test_parts_of_a_checkpointed_job_are_not_counted_beside_the_whole(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, line(run=90) + line(run=40, status=2) + line(run=50, status=3))
    assert [job.run_s for job in jobs] == [90.0]
    assert lines.skipped == {"parts of jobs that were checkpointed": 2}


NOT_SAID = ({"run": -1, "requested_s": -1, "status": -1}, {"requested": -1, "allocated": 0})
BROKEN = (
    *("hello\n", "1 2 3\n", line().strip() + " 1 2 3\n", "1 0x10 " + line()),
    *(line(submit=-1), line(run="nan"), line(run="inf"), line(requested="1e300"), line(submit="9" * 400)),
    *(line(wait="x"), "\x00" * 80 + "\n", "﷽" * 20 + "\n"),
)


@pytest.mark.parametrize("fields", NOT_SAID)
def test_a_job_of_which_too_little_is_known_is_counted_and_left_out(tmp_path: Path, fields: dict[str, int]) -> None:
    jobs, lines = read(tmp_path, line() + line(**fields) + line(submit=130))
    assert [job.at_s for job in jobs] == [0.0, 30.0]
    assert (lines.jobs, sum(lines.left_out.values()), lines.bad) == (2, 1, 0)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_line_is_counted_with_its_number(tmp_path: Path, broken: str) -> None:
    jobs, lines = read(tmp_path, line() + broken + "\n   \n" + line() * 2)
    assert len(jobs) == 3
    assert (lines.jobs, lines.bad, lines.bad_lines) == (3, 1, [2])
    assert lines.bad_why


def test_a_header_longer_than_what_is_looked_at_is_one(tmp_path: Path) -> None:
    assert len(read(tmp_path, "; Note: so\n" * 10_000 + line())[0]) == 1


def test_a_line_without_the_last_fields_is_a_job(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, " ".join(line().split()[:11]) + "\n")
    assert (len(jobs), lines.bad) == (1, 0)


def test_jobs_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    jobs, _lines = read(tmp_path, line(submit=1000) + line(submit=1030) + line(submit=990))
    assert [job.at_s for job in jobs] == [0.0, 10.0, 40.0]


def test_a_job_larger_than_a_machine_is_split_if_that_is_asked_for(tmp_path: Path) -> None:
    text = line(requested=10, requested_memory=1024)
    jobs, lines = read(tmp_path, text, split_at=4)
    assert [(job.request.cpus, job.request.memory_mb) for job in jobs] == [(4, 4.0), (4, 4.0), (2, 2.0)]
    assert lines.jobs == 3
    assert [job.request.cpus for job in read(tmp_path, text)[0]] == [10]


def test_a_job_of_parts_without_number_is_no_job(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, line() + line(requested=10**6), split_at=0.5)
    assert (len(jobs), lines.bad, lines.bad_why) == (4, 1, "a job of too many parts: 2000000.0")


def test_what_is_no_job_at_all_is_said_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"jobs: is no log in the Standard Workload Format: line 1: 1 fields, not 18$"):
        read(tmp_path, "hello\nworld\n", "swf")
    with pytest.raises(TraceError, match=r"jobs: is no log in the Standard Workload Format: no line of it is a job$"):
        read(tmp_path, HEADER, "swf")
    with pytest.raises(TraceError, match=r"jobs: no job in it can be played: 2 without a run time$"):
        read(tmp_path, line(**NOT_SAID[0]) * 2)
