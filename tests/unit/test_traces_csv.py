"""Plain tables of jobs: read by the names in their header, and what is written reads back as the same jobs."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Optional

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastiq.interfaces import Resources
from elastiq.traces.job import TraceError, TraceJob
from elastiq.traces.opening import open_trace
from elastiq.traces.write import Writer, write
from tests.unit.traces import opened, read


def test_columns_are_known_by_their_names_in_any_order(tmp_path: Path) -> None:
    text = "cores,Job ID,submitted,runtime,memory,gpu,comment\n4,a,100,60,2000,1,hello\n1,b,160,1:30,2G,,\n"
    jobs, lines = read(tmp_path, text)
    assert jobs == [
        TraceJob(0.0, Resources(cpus=4, memory_mb=2000, gpus=1), 60.0, "a"),
        TraceJob(60.0, Resources(cpus=1, memory_mb=2048), 90.0, "b"),
    ]
    assert lines.unused == ("comment",)


@pytest.mark.parametrize(("header", "cells", "run_s", "memory_mb"), [
    ("run_s,memory_mb", "90,512", 90.0, 512.0),
    ("runtime_min,memory_gb", "1.5,2", 90.0, 2048.0),
    ("Duration (h),mem_kb", "0.5,1024", 1800.0, 1.0),
    ("elapsed,ram", "1-00:00:10,4GiB", 86410.0, 4096.0),
    ("wall_time_ms,memory_bytes", "1500,1048576", 1.5, 1.0),
    ("start,end,mem", "2024-05-01T10:00:00,2024-05-01T10:01:30,512 MB", 90.0, 512.0),
])  # fmt: skip
def test_units_are_those_of_the_column_or_of_the_cell(
    tmp_path: Path, header: str, cells: str, run_s: float, memory_mb: float
) -> None:
    ((job,), _lines) = read(tmp_path, f"{header}\n{cells}\n")
    assert (job.run_s, job.request.memory_mb) == (run_s, memory_mb)


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_what_stands_between_the_columns_is_found_out(tmp_path: Path, separator: str) -> None:
    ((job,), _lines) = read(
        tmp_path, separator.join(("at_s", "run_s", "cpus")) + "\r\n" + separator.join("572") + "\r\n"
    )
    assert (job.run_s, job.request.cpus) == (7.0, 2.0)


def test_without_a_column_for_it_a_job_is_submitted_at_once_and_has_one_cpu(tmp_path: Path) -> None:
    jobs, _lines = read(tmp_path, "task,runtime_s,avg_cpu_pct,parent_tasks\n1,56.9,168.9,\n2,5,99,\n3,2,99,1 2\n")
    assert [(job.at_s, job.request, job.after) for job in jobs] == [
        (0.0, Resources(cpus=1), ()), (0.0, Resources(cpus=1), ()), (0.0, Resources(cpus=1), ("1", "2")),
    ]  # fmt: skip


def test_what_a_job_used_is_not_what_it_asks_for(tmp_path: Path) -> None:
    _jobs, lines = read(tmp_path, "task,category,runtime_s,avg_cpu_pct\n1,x,56.9,1680.9\n")
    assert lines.unused == ("category", "avg_cpu_pct")


def test_parents_may_come_later_and_be_separated_by_semicolons(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, "id,at,run_s,after\nc,0,1,a;b; d\na,0,1,\nb,0,1,a\nd,0,1,\n")
    assert [job.after for job in jobs] == [("a", "b", "d"), (), ("a",), ()]
    assert lines.noted == {}


def test_a_loop_of_two_is_cut_and_noted(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, "id,at,run_s,after\na,0,1,b\nb,0,1,a c\nc,0,1,c\n")
    assert [job.after for job in jobs] == [(), ("a", "c"), ()]
    assert lines.noted == {"waits for a job that waits for it": 1, "waits for itself": 1}
    assert sorted(lines.noted_lines) == sorted(lines.noted)


@pytest.mark.parametrize("first_at", [0, 9])
def test_each_pass_over_a_trace_finds_the_same_rings(tmp_path: Path, first_at: int) -> None:
    """In order, when the second is given as it is read, and out of order."""
    trace = opened(tmp_path, f"id,at,run_s,after\nz,{first_at},1,\na,0,1,c\nb,0,1,a\nc,0,1,b\n")
    passes = [(list(trace), trace.lines.noted_lines) for _ in range(3)]
    assert passes[0] == passes[1] == passes[2]
    assert passes[0][1] == {"waits for a job that waits for it": [3]}


@pytest.mark.parametrize(
    ("table", "comes_at", "note"),
    [
        ("start,end\n100,160\n40,100\n", [0.0, 60.0], "comes when it started: no column says when it was submitted"),
        ("run,end\n60,160\n60,100\n", [0.0, 60.0], "comes when it started: no column says when it was submitted"),
        ("run\n60\n60\n", [0.0, 0.0], "comes at once with all others: no column says when it was submitted"),
        ("run,submit\n60,5\n60,7\n", [0.0, 2.0], ""),
    ],
)
def test_without_a_submission_a_job_comes_when_it_started_and_that_is_noted(
    table: str, comes_at: list[float], note: str, tmp_path: Path
) -> None:
    jobs, lines = read(tmp_path, table)
    assert [(job.at_s, job.run_s) for job in jobs] == [(at_s, 60.0) for at_s in comes_at]
    assert lines.noted == ({note: 2} if note else {})


def test_a_time_that_is_missing_in_a_row_makes_it_none(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, "start,run\n100,60\n,60\nyesterday,60\n")
    assert len(jobs) == 1
    assert [(kind.example, kind.numbers) for kind in lines.bad_kinds.values()] == [
        ("no time of start", [3]),
        ("no time: 'yesterday'", [4]),
    ]


def test_a_row_may_stand_for_several_jobs_and_one_that_is_removed(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, "at_s,run_s,count,id,removed_after_s\n0,60,3,x,\n5,60,1,y,10\n")
    assert [(job.name, job.removed_after_s) for job in jobs] == [("x", None)] * 3 + [("y", 10.0)]
    assert (lines.jobs, lines.cancelled) == (4, 1)


def test_times_may_be_iso_with_a_zone_or_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Stockholm")
    time.tzset()
    try:
        rows = ("2024-03-31T01:59:00", "2024-03-31T01:01:00Z", "2024-03-31 03:02:00.5", "2024-03-31T03:03:00+02:00")
        trace = opened(tmp_path, "submit,run_s\n" + "".join(f"{row},1\n" for row in rows))
        jobs = list(trace)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [job.at_s for job in jobs] == [0.0, 120.0, 180.5, 240.0]  # summer time begins in between
    assert trace.began_at == 1711846740.0


BAD = (
    *("x,60,1", "5,x,1", "5,60,x", "5,60", "5,60,1,1", ",60,1", "5,-1,1", "5,nan,1", "inf,60,1", "5,60,-2"),
    *('5,"60,1', "5,1e400,1", "2024-13-01T00:00:00,60,1", "5,1:2:3:4,1", '"5"x,60,1'),
)


@pytest.mark.parametrize("bad", BAD)
def test_a_row_that_is_none_is_counted_with_its_number(tmp_path: Path, bad: str) -> None:
    jobs, lines = read(tmp_path, f"submit,run_s,cpus\n0,60,1\n{bad}\n\n9,60,1\n")
    assert [job.at_s for job in jobs] == [0.0, 9.0]
    assert (lines.bad, lines.bad_lines) == (1, [3])
    assert lines.bad_why


def test_a_lost_quote_costs_no_more_than_its_line(tmp_path: Path) -> None:
    rows = "".join(f'{number},60,"a, b"\n' for number in range(100))
    jobs, lines = read(tmp_path, 'submit,run_s,comment\n0,60,"lost\n' + rows)
    assert (len(jobs), lines.bad_lines) == (100, [2])


def test_only_the_first_bad_lines_are_listed(tmp_path: Path) -> None:
    _jobs, lines = read(tmp_path, "submit,run_s\n1,1\n" + "x,y\n" * 100)
    assert (lines.bad, lines.bad_lines) == (100, [3, 4, 5, 6, 7])


def test_comments_are_no_rows_and_a_mark_of_byte_order_is_no_name(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, "\ufeff# from the cluster\nrun_s,cpus\n# more\n60,2\n")
    assert (len(jobs), lines.bad) == (1, 0)


@pytest.mark.parametrize("text", ["1,60,4\n2,60,4\n", "submit,cpus\n1,2\n", '"run_s\n1\n'])
def test_a_table_that_does_not_say_how_long_jobs_ran_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match="is no table of jobs: line 1: "):
        read(tmp_path, text, "csv")
    with pytest.raises(TraceError, match="is no log of jobs that elastiq knows"):
        read(tmp_path, text)


# --------------------------------------------------------------------------- there and back

cpus = st.one_of(st.none(), st.floats(0, 1e7))
amounts = st.one_of(st.none(), st.floats(0, 1e12), st.integers(0, 10**6).map(float))
runs_s = st.floats(0, 3e8)
removals_s = st.one_of(st.none(), runs_s)
words = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), blacklist_characters=";"), max_size=8
)
some_words = words.filter(bool)


@st.composite
def traces(draw: st.DrawFn) -> list[TraceJob]:
    """Jobs in order, the first at 0; none waits for itself, as the reader would take that away."""
    gaps = draw(st.lists(st.one_of(st.floats(0, 1e7), st.integers(0, 1000).map(float)), min_size=1, max_size=6))
    at_s, jobs = 0.0, []
    for number, gap in enumerate(gaps):
        at_s += gap if number else 0.0
        request = Resources(draw(cpus), draw(amounts), draw(amounts), draw(amounts))
        after = tuple(f"parent-{word}" for word in draw(st.lists(some_words, max_size=3)))
        jobs.append(
            TraceJob(at_s, request, draw(runs_s), draw(words), draw(removals_s), after, draw(st.floats(0, 1e6)))
        )
    return jobs


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(traces())
def test_what_is_written_reads_back_as_the_same_jobs(tmp_path: Path, jobs: list[TraceJob]) -> None:
    path = tmp_path / "written"
    with open(path, "w", newline="", encoding="utf-8") as file:
        assert write(jobs, file) == len(jobs)
    trace = open_trace(path)
    assert list(trace) == jobs
    assert (trace.format, trace.lines.bad, trace.lines.unused, trace.began_at) == ("csv", 0, (), None)


def test_wall_times_are_kept_to_the_microsecond(tmp_path: Path) -> None:
    jobs = [TraceJob(at_s, Resources(cpus=1), 60.0, str(at_s)) for at_s in (0.0, 0.000001, 86400.123456, 3e7)]
    path = tmp_path / "written"
    with open(path, "w", newline="", encoding="utf-8") as file:
        write(jobs, file, began_at=1700000000.25)
    trace = open_trace(path)
    assert list(trace) == jobs
    assert trace.began_at == 1700000000.25


@pytest.mark.parametrize("name", ["a b", "a;b", "a\nb", "a\tb", "a\x00b"])
def test_a_name_that_would_be_several_is_written_as_one(tmp_path: Path, name: str) -> None:
    jobs = [TraceJob(0.0, Resources(cpus=1), 1.0, name), TraceJob(0.0, Resources(cpus=1), 1.0, "c", after=(name,))]
    file = io.StringIO(newline="")
    write(jobs, file)
    (parent, child), _lines = read(tmp_path, file.getvalue())
    assert parent.name == "a_b"
    assert child.after == ("a_b",)


def test_a_file_is_continued_without_a_second_header(tmp_path: Path) -> None:
    file = io.StringIO(newline="")
    job: Optional[TraceJob] = TraceJob(0.0, Resources(cpus=1), 1.0, "a")
    for header in (True, False):
        assert job is not None
        Writer(file, began_at=1.7e9, header=header).write(job)
    jobs, lines = read(tmp_path, file.getvalue())
    assert (len(jobs), lines.bad) == (2, 0)
