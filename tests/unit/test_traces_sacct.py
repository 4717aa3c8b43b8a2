"""Slurm's accounting as sacct prints it, in the forms of its versions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Iterator, Optional

import pytest

from elastiq.interfaces import Resources
from elastiq.traces.job import TraceError
from tests.unit.traces import opened, read

HEADER = "JobID|JobName|Submit|Start|End|ElapsedRaw|State|NNodes|NCPUS|ReqTRES|TimelimitRaw"
ROW = "61|train|2024-05-01T10:00:00|2024-05-01T10:00:30|2024-05-01T10:10:30|600|COMPLETED|1|8|cpu=8,mem=16G,node=1|60"


@pytest.fixture(autouse=True)
def in_stockholm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times of sacct are local."""
    monkeypatch.setenv("TZ", "Europe/Stockholm")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def row(header: str = HEADER, **changed: str) -> str:
    cells = dict(zip(HEADER.split("|"), ROW.split("|")))
    cells.update(changed)
    return "|".join(cells[name] for name in header.split("|")) + "\n"


def text(*rows: str) -> str:
    return HEADER + "\n" + "".join(rows)


def test_a_job_has_its_times_and_what_it_asked_for(tmp_path: Path) -> None:
    trace = opened(tmp_path, text(row()))
    (job,) = trace
    assert (trace.format, trace.began_at) == ("sacct", 1714550400.0)
    assert (job.name, job.run_s, job.request) == ("61", 600.0, Resources(cpus=8, memory_mb=16384))


def test_columns_may_be_in_any_order_and_end_in_a_bar(tmp_path: Path) -> None:
    names = [*reversed(HEADER.split("|"))]
    header = "|".join(names)
    ((job,), _lines) = read(tmp_path, f"{header}|\n" + row(header).strip() + "|\n")
    assert (job.name, job.run_s, job.request.cpus) == ("61", 600.0, 8)


def test_steps_are_parts_of_their_job(tmp_path: Path) -> None:
    steps = [row(JobID=f"61.{step}", Submit="2024-05-01T10:00:30") for step in ("batch", "extern", "0", "interactive")]
    jobs, lines = read(tmp_path, text(row(), *steps))
    assert len(jobs) == 1
    assert (lines.skipped, lines.bad) == ({"steps of jobs": 4}, 0)


@pytest.mark.parametrize("name", ["61_4", "61+0", "61_[7]"])
def test_tasks_of_arrays_and_parts_of_heterogeneous_jobs_are_jobs(tmp_path: Path, name: str) -> None:
    ((job,), _lines) = read(tmp_path, text(row(JobID=name)))
    assert job.name == name


@pytest.mark.parametrize(("elapsed", "run_s"), [
    ("00:10:00", 600.0), ("1-02:03:04", 93784.0), ("2-00:00:00", 172800.0), ("59:59", 3599.0), ("00:00:01.5", 1.5),
])  # fmt: skip
def test_elapsed_is_read_where_there_is_no_raw_one(tmp_path: Path, elapsed: str, run_s: float) -> None:
    header = "JobID|Submit|Elapsed|State"
    ((job,), _lines) = read(tmp_path, f"{header}\n61|2024-05-01T10:00:00|{elapsed}|COMPLETED\n")
    assert (job.run_s, job.request) == (run_s, Resources(cpus=1))


def test_start_and_end_stand_for_elapsed(tmp_path: Path) -> None:
    header = "JobIDRaw|Submit|Start|End|State"
    known = "61|2024-05-01T10:00:00|2024-05-01T10:00:30|2024-05-01T10:01:00|FAILED\n"
    unknown = "62|2024-05-01T10:00:00|Unknown|Unknown|FAILED\n"
    jobs, lines = read(tmp_path, f"{header}\n{known}{unknown}")
    assert [job.run_s for job in jobs] == [30.0]
    assert lines.left_out == {"cancelled, nobody knows when": 1}


CANCELLED = [
    # While it waited; old versions say that it started when it ended.
    ({"Start": "None", "End": "2024-05-01T10:05:00", "ElapsedRaw": "0"}, 3600.0, 300.0),
    ({"Start": "Unknown", "End": "2024-05-01T10:05:00", "ElapsedRaw": "0", "TimelimitRaw": "UNLIMITED"}, 300.0, 300.0),
    ({"Start": "2024-05-01T10:05:00", "End": "2024-05-01T10:05:00", "ElapsedRaw": "0"}, 3600.0, 300.0),
    # While it ran.
    ({"End": "2024-05-01T10:01:00", "ElapsedRaw": "30"}, 30.0, None),
]


@pytest.mark.parametrize(("changed", "run_s", "removed_after_s"), CANCELLED)
@pytest.mark.parametrize("state", ["CANCELLED by 1000", "CANCELLED", "CANCELLED+"])
def test_a_cancelled_job_is_removed_if_it_waited(
    tmp_path: Path, changed: dict[str, str], run_s: float, removed_after_s: Optional[float], state: str
) -> None:
    ((job,), lines) = read(tmp_path, text(row(State=state, **changed)))
    assert (job.run_s, job.removed_after_s) == (run_s, removed_after_s)
    assert lines.cancelled == (removed_after_s is not None)


def test_jobs_without_an_end_are_counted_and_left_out(tmp_path: Path) -> None:
    states = ("RUNNING", "PENDING", "SUSPENDED", "REQUEUED")
    waiting = [row(State=state, End="Unknown") for state in states]
    jobs, lines = read(tmp_path, text(row(), *waiting))
    assert len(jobs) == 1
    assert lines.left_out == {
        "still running": 2, "still waiting": 1, "requeued, the run that counts has a line of its own": 1,
    }  # fmt: skip


def test_a_job_on_several_nodes_is_a_part_on_each(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, text(row(NNodes="4", NCPUS="32", ReqTRES="cpu=32,mem=64G,node=4,gres/gpu:a100=8")))
    assert [job.request for job in jobs] == [Resources(cpus=8, memory_mb=16384, gpus=2)] * 4
    assert {job.name for job in jobs} == {"61"}
    assert lines.jobs == 4


@pytest.mark.parametrize(("memory", "nodes", "memory_mb"), [
    ("4Gn", "2", 4096.0), ("2000Mc", "1", 16000.0), ("2000Mc", "2", 8000.0), ("4G", "1", 4096.0), ("8G", "2", 4096.0),
    ("512M", "1", 512.0), ("1T", "1", 1048576.0), ("0n", "1", None), ("", "1", None), ("?", "1", None),
])  # fmt: skip
def test_memory_is_read_in_the_forms_of_all_versions(
    tmp_path: Path, memory: str, nodes: str, memory_mb: Optional[float]
) -> None:
    header = "JobID|Submit|ElapsedRaw|State|NNodes|ReqCPUS|ReqMem"
    jobs, _lines = read(tmp_path, f"{header}\n61|2024-05-01T10:00:00|60|COMPLETED|{nodes}|8|{memory}\n")
    assert {job.request.memory_mb for job in jobs} == {memory_mb}


def test_what_it_got_stands_for_what_it_asked_for(tmp_path: Path) -> None:
    header = "JobID|Submit|ElapsedRaw|State|AllocTRES"
    ((job,), _lines) = read(tmp_path, f"{header}\n61|1714550400|60|TIMEOUT|billing=9,cpu=4,gres/gpu=1,mem=500M\n")
    assert job.request == Resources(cpus=4, memory_mb=500, gpus=1)


def test_times_may_be_seconds_since_1970(tmp_path: Path) -> None:
    trace = opened(tmp_path, text(row(Submit="1714550400", Start="1714550430", End="1714551030")))
    assert next(iter(trace)).run_s == 600.0
    assert trace.began_at == 1714550400.0


def test_the_hour_that_comes_twice_is_taken_for_the_first(tmp_path: Path) -> None:
    times = ("2023-10-29T01:30:00", "2023-10-29T02:30:00", "2023-10-29T03:30:00")
    jobs, _lines = read(tmp_path, text(*(row(Submit=at) for at in times)))
    assert [job.at_s for job in jobs] == [0.0, 3600.0, 10800.0]


@pytest.mark.parametrize("bad", [
    "61|train|2024-05-01T10:00:00\n", row(JobName="a|b"), row(Submit="Unknown"), row(Submit="yesterday"),
    row(ElapsedRaw="many"), row(ReqTRES="cpu=many"), row(JobID=""), row(Submit="2024-05-01T10:61:00"), row(NNodes="-"),
    row(ElapsedRaw="-5"), "slurmdbd: error\n",
])  # fmt: skip
def test_a_row_that_is_none_is_counted_with_its_number(tmp_path: Path, bad: str) -> None:
    jobs, lines = read(tmp_path, text(row(), bad, "\n", row()))
    assert (len(jobs), lines.bad, lines.bad_lines) == (2, 1, [3])


def test_outputs_put_together_have_more_than_one_header(tmp_path: Path) -> None:
    other = "JobID|Submit|ElapsedRaw|State\n62|2024-05-02T10:00:00|5|COMPLETED\n"
    jobs, lines = read(tmp_path, "Welcome to the cluster\n" + text(row()) + other)
    assert [(job.name, job.run_s) for job in jobs] == [("61", 600.0), ("62", 5.0)]
    assert lines.bad_lines == [1]


def test_rows_without_a_header_are_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is no output of sacct --parsable2: line 1: no header with JobID"):
        read(tmp_path, row(), "sacct")
