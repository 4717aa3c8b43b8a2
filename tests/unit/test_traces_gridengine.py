"""Grid Engine's accounting file, of Sun's line and of those after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import pytest

from elastiq.interfaces import Resources
from tests.unit.traces import opened, read

USAGE = ":0.05:0.02:3000.0:0:0:0:0:9000:1:0:0.0:16:0:0:0:300:5"


def record(
    job: int = 7, submitted: Any = 1700000000, started: Any = 1700000020, ended: Any = 1700000080, failed: str = "0",
    slots: int = 1, task: str = "0", category: str = "-U users", part: str = "NONE", wallclock: Any = 60,
) -> str:  # fmt: skip
    pe = "smp" if slots > 1 else "NONE"
    head = f"all.q:node1:users:ann:job.sh:{job}:sge:0:{submitted}:{started}:{ended}:{failed}:0:{wallclock}{USAGE}"
    return f"{head}:NONE:defaultdepartment:{pe}:{slots}:{task}:0.07:0.01:0.0:{category}:0.000000:{part}:222.0:0:0\n"


def of_json(**changed: Any) -> str:
    known: dict[str, Any] = {
        "job_number": 4, "task_number": 0, "start_time": 1725898198580794, "end_time": 1725898298874079, "owner": "ann",
        "qname": "all.q", "slots": 2, "submission_time": 1725898190122999, "category": "-l gpu=2,h_vmem=1G",
        "failed": 0, "exit_status": 0, "usage": {"rusage": {"ru_wallclock": 100}, "usage": {"wallclock": 100.9}},
    }  # fmt: skip
    return json.dumps({**known, **changed}) + "\n"


def test_a_job_has_its_times_and_slots(tmp_path: Path) -> None:
    trace = opened(
        tmp_path, "# Version: 8.1.9\n#\n" + record() + record(job=8, submitted=1700000100, slots=4, task="3")
    )
    jobs = list(trace)
    assert trace.format == "gridengine"
    assert [(job.name, job.at_s, job.run_s, job.request.cpus) for job in jobs] == [
        ("7", 0.0, 60.0, 1), ("8.3", 100.0, 60.0, 4),
    ]  # fmt: skip
    assert (trace.began_at, trace.lines.bad) == (1700000000.0, 0)


def test_times_may_be_in_milliseconds(tmp_path: Path) -> None:
    text = record(submitted=1700000000250, started=1700000020000, ended=1700000080500)
    trace = opened(tmp_path, text + record(job=8, submitted=1700000001500, started=1700000020000, ended=1700000080000))
    assert [(job.at_s, job.run_s) for job in trace] == [(0.0, 60.5), (1.25, 60.0)]
    assert trace.began_at == 1700000000.25


def test_lines_of_json_are_read_as_well(tmp_path: Path) -> None:
    trace = opened(tmp_path, of_json() + of_json(job_number=5, task_number=2, submission_time=1725898191122999))
    jobs = list(trace)
    assert trace.format == "gridengine"
    assert [(job.name, job.at_s, round(job.run_s, 2)) for job in jobs] == [("4", 0.0, 100.29), ("5.2", 1.0, 100.29)]
    assert jobs[0].request == Resources(cpus=2, memory_mb=2048, gpus=2)


@pytest.mark.parametrize(("category", "slots", "memory_mb", "gpus"), [
    ("-U users -l h_vmem=4G,h_rt=3600 -pe smp 4", 4, 16384.0, None),
    ("-l h_rt=3600,gpu=1,mem_free=2048M -u ann", 1, 2048.0, 1.0),
    ("-l h_vmem=INFINITY", 1, None, None),
    ("-l h_vmem=1048576", 1, 1.0, None),
    ("-l h_vmem=1000000k,mem_free=1M", 1, 953.67, None),
    ("", 2, None, None),
])  # fmt: skip
def test_memory_is_of_each_slot_and_gpus_are_of_the_job(
    tmp_path: Path, category: str, slots: int, memory_mb: Optional[float], gpus: Optional[float]
) -> None:
    ((job,), _lines) = read(tmp_path, record(category=category, slots=slots))
    assert (job.request.memory_mb and round(job.request.memory_mb, 2), job.request.gpus) == (memory_mb, gpus)


def test_tasks_of_a_parallel_job_and_runs_that_were_repeated_are_no_jobs(tmp_path: Path) -> None:
    text = record(slots=8) + record(slots=1, part="1.node1") + record(failed="25") + record(failed="24")
    jobs, lines = read(tmp_path, text + of_json(pe_task_id="1.node2"))
    assert [job.request.cpus for job in jobs] == [8]
    assert lines.skipped == {"tasks of parallel jobs": 2, "runs of jobs that were run again": 2}
    assert lines.bad == 0


def test_a_job_that_never_started_is_left_out(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, record() + record(started=0, ended=0, failed="26", wallclock=0))
    assert (len(jobs), lines.left_out) == (1, {"never started": 1})


def test_a_job_that_was_killed_ran_as_long_as_it_did(tmp_path: Path) -> None:
    ((job,), _lines) = read(tmp_path, record(failed="100", wallclock=0))
    assert job.run_s == 60.0


@pytest.mark.parametrize("bad", [
    "all.q:node1:users:ann\n", record(submitted="x"), record(submitted=0), record(slots=0), record(failed="?"),
    '{"job_number": 5}\n', '{"job_number": 5, "submission_time": "x"}\n', "{" * 20_000 + "\n", of_json()[:-20] + "\n",
    of_json(submission_time=float("inf")),
])  # fmt: skip
def test_a_line_that_is_none_is_counted_with_its_number(tmp_path: Path, bad: str) -> None:
    jobs, lines = read(tmp_path, record() + bad + "\n \nx\n" + record())
    assert (len(jobs), lines.bad, lines.bad_lines) == (2, 1, [2])
