"""Accounting records of Torque and of PBS Pro."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from elastiq.traces.torque import Chunk, chunks
from tests.unit.traces import opened, read

TIMES = "ctime=1700000000 qtime=1700000000 etime=1700000000 start=1700000020"


def ended(asked: str, job: str = "123.head", times: str = TIMES, end: Optional[int] = 1700000080) -> str:
    """Keys of what was asked for are ``Resource_List.``'s."""
    listed = " ".join(f"Resource_List.{part}" for part in asked.split())
    rest = f"end={end} " if end is not None else ""
    return (
        f"11/14/2023 22:14:40;E;{job};user=ann group=users jobname=a.sh queue=batch {times} owner=ann@head "
        f"exec_host=n1/0+n1/1 {listed} session=99 {rest}Exit_status=0 resources_used.cput=00:00:50 "
        "resources_used.mem=5000kb resources_used.walltime=00:00:55\n"
    )


def test_a_job_has_its_times_and_what_it_asked_for(tmp_path: Path) -> None:
    trace = opened(tmp_path, ended("neednodes=1:ppn=2 nodect=1 nodes=1:ppn=2 mem=4gb walltime=01:00:00"))
    (job,) = trace
    assert (trace.format, trace.began_at) == ("torque", 1700000000.0)
    assert (job.name, job.run_s, job.request.cpus, job.request.memory_mb) == ("123.head", 60.0, 2, 4096)


def test_a_job_on_several_machines_is_a_part_on_each(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, ended("nodes=4:ppn=8 nodect=4 mem=64gb"))
    assert [(job.name, job.request.cpus, job.request.memory_mb) for job in jobs] == [("123.head", 8, 16384)] * 4
    assert lines.jobs == 4


ASKED: list[tuple[str, list[Chunk]]] = [
    ("nodes=2:ppn=4+1:ppn=8:gpus=1", [Chunk(2, 4), Chunk(1, 8, None, 1)]),
    ("nodes=w3:ppn=2+w4:ppn=2#shared", [Chunk(1, 2), Chunk(1, 2)]),
    ("nodes=3", [Chunk(3, 1)]),
    ("nodes=1 ncpus=8", [Chunk(1, 8)]),
    ("nodes=1:gpus=2 procs=4", [Chunk(1, 4, None, 2)]),
    ("ncpus=8 mem=1000000000b", [Chunk(1, 8, 1e9 / 2**20)]),
    ("procs=12 pmem=500mb nodect=3", [Chunk(3, 4, 2000)]),
    ("nodes=2:ppn=2 mem=8gb pmem=3gb", [Chunk(2, 2, 6144)]),
    ("mem=2mw", [Chunk(1, 1, 16)]),
    ("", [Chunk(1, 1)]),
    ("select=2:ncpus=4:mem=8gb+1:ncpus=1:ngpus=1 ncpus=9 nodect=3 mem=16gb", [Chunk(2, 4, 8192), Chunk(1, 1, None, 1)]),
    ("select=2:ncpus=4:mem=8gb+1:ncpus=1:ngpus=1 place=pack", [Chunk(1, 9, 16384, 1)]),
    ("select=ncpus=4:mem=1gb place=free", [Chunk(1, 4, 1024)]),
    ("select=3:host=a:mpiprocs=2 place=scatter:excl", [Chunk(3, 1)]),
]


@pytest.mark.parametrize(("asked", "found"), ASKED)
def test_both_languages_of_requests_are_read(asked: str, found: list[Chunk]) -> None:
    said = dict(part.split("=", 1) for part in asked.split())
    assert chunks({f"Resource_List.{key}": value for key, value in said.items()}) == found


def test_the_run_is_the_last_one_or_what_was_used(tmp_path: Path) -> None:
    again = ended("ncpus=1", times=TIMES.replace("start=1700000020", "start=1700000050 run_count=2"))
    without = ended("ncpus=1", end=None)
    assert [job.run_s for job in read(tmp_path, again + without)[0]] == [30.0, 55.0]


def test_other_records_and_arrays_as_a_whole_are_no_jobs(tmp_path: Path) -> None:
    others = "".join(f"11/14/2023 22:13:40;{kind};123.head;queue=batch\n" for kind in ("Q", "S", "R", "L", "c"))
    text = others + ended("ncpus=1") + ended("ncpus=1", "124[].head") + ended("ncpus=1", "124[3].head")
    jobs, lines = read(tmp_path, text)
    assert [job.name for job in jobs] == ["123.head", "124[3].head"]
    assert lines.skipped == {
        "jobs' starts, queue and other records": 5, "arrays as a whole, whose jobs have records of their own": 1,
    }  # fmt: skip
    assert lines.bad == 0


def test_a_job_deleted_while_it_waited_is_removed_where_the_log_says_what_it_asked_for(tmp_path: Path) -> None:
    asked = "ctime=1700000000 qtime=1700000000 Resource_List.ncpus=4 Resource_List.walltime=00:30:00"
    text = (
        f"11/14/2023 22:13:20;Q;7.head;user=ann queue=batch {asked}\n"
        "11/14/2023 22:13:20;Q;8.head;queue=batch\n"
        "11/14/2023 22:18:20;D;7.head;requestor=ann@head\n"
        "11/14/2023 22:18:20;D;8.head;requestor=ann@head\n"
        "11/14/2023 22:18:21;D;9.head;requestor=ann@head\n"
    )
    jobs, lines = read(tmp_path, text + ended("ncpus=1"))
    removed = [job for job in jobs if job.name == "7.head"]
    assert [(job.run_s, job.request.cpus, job.removed_after_s is None) for job in removed] == [(1800.0, 4, False)]
    assert lines.cancelled == 1
    assert lines.left_out == {"deleted while they waited, the log does not say what they asked for": 1}


def test_a_job_deleted_while_it_ran_is_no_two(tmp_path: Path) -> None:
    text = (
        "11/14/2023 22:13:20;Q;123.head;queue=batch\n11/14/2023 22:13:40;S;123.head;user=ann\n"
        "11/14/2023 22:14:39;D;123.head;requestor=ann@head\n"
    )
    jobs, lines = read(tmp_path, text + ended("ncpus=1"))
    assert (len(jobs), lines.left_out, lines.cancelled) == (1, {}, 0)


def test_values_in_quotes_may_hold_blanks(tmp_path: Path) -> None:
    text = ended("ncpus=2").replace("jobname=a.sh", "jobname=\"start=5 of b\" account='ctime=3 x'")
    ((job,), _lines) = read(tmp_path, text)
    assert (job.run_s, job.request.cpus) == (60.0, 2)


@pytest.mark.parametrize("bad", [
    "no record\n", ended("ncpus=1", times="start=5"), ended("nodes=0:ppn=4 mem=1gb"), ended("mem=plenty"),
    ended("ncpus=1", times=TIMES.replace("1700000000", "x")), ended("nodes=99999999:ppn=1"), "11/14/2023;E;1;x=1\n",
])  # fmt: skip
def test_a_line_that_is_none_is_counted_with_its_number(tmp_path: Path, bad: str) -> None:
    jobs, lines = read(tmp_path, ended("ncpus=1") + bad + "\n" + ended("ncpus=1"))
    assert (len(jobs), lines.bad, lines.bad_lines) == (2, 1, [2])


def test_what_was_deleted_after_it_was_forgotten_costs_nothing(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, "11/14/2023 22:18:20;D;7.head;requestor=ann@head\n" + ended("ncpus=1"))
    assert (len(jobs), lines.left_out, lines.bad) == (1, {}, 0)
