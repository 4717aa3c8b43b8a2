"""HTCondor's history in all its forms: the same jobs, whatever prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

import pytest

from elastiq.interfaces import Resources
from elastiq.traces.classads import Expression, number
from elastiq.traces.job import TraceError
from elastiq.traces.jsons import objects
from tests.unit.traces import opened, read

EXPRESSION = "ifthenelse(MemoryUsage =!= undefined,MemoryUsage,(ImageSize + 1023) / 1024)"  # condor_submit's own


def ad(**changed: Any) -> dict[str, Any]:
    """What HTCondor 23.9 leaves of a job, most of it left away; None takes an attribute away."""
    known: dict[str, Any] = {
        "ClusterId": 12, "ProcId": 0, "QDate": 1700000000, "JobStatus": 4, "LastJobStatus": 2, "JobUniverse": 5,
        "Cmd": "/bin/sleep \"x\"", "Environment": "", "Requirements": Expression('(TARGET.Arch == "X86_64")'),
        "JobStartDate": 1700000020, "JobCurrentStartDate": 1700000020, "CompletionDate": 1700000080,
        "EnteredCurrentStatus": 1700000080, "RemoteWallClockTime": 60.0, "CommittedTime": 60, "NumJobStarts": 1,
        "RequestCpus": 2, "RequestMemory": 1500, "RequestDisk": 2048, "CpusProvisioned": 2, "MemoryProvisioned": 1536,
        "ExitBySignal": False, "WantCheckpoint": Expression("undefined"),
        "ToE": Expression('[ How = "OF_ITS_OWN_ACCORD"; When = 1700000080 ]'),
    }  # fmt: skip
    known.update(changed)
    return {name: value for name, value in known.items() if value is not None}


def old(value: Any) -> str:
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


def as_lines(ads: Sequence[Mapping[str, Any]]) -> str:
    return "".join("".join(f"{name} = {old(value)}\n" for name, value in one.items()) + "\n" for one in ads)


def as_file(ads: Sequence[Mapping[str, Any]]) -> str:
    """The schedd's own: a banner after each."""
    text = ""
    for one in ads:
        offset = len(text)
        text += "".join(f"{name} = {old(value)}\n" for name, value in one.items())
        text += f'*** Offset = {offset} ClusterId = {one["ClusterId"]} ProcId = 0 Owner = "u" CompletionDate = 1\n'
    return text


def _json(one: Mapping[str, Any], **options: Any) -> str:
    values = {name: f"/Expr({value})/" if isinstance(value, Expression) else value for name, value in one.items()}
    return json.dumps(values, **options).replace('"/Expr', '"\\/Expr').replace(')/"', ')\\/"')


def as_json(ads: Sequence[Mapping[str, Any]]) -> str:
    return "[\n" + "\n,\n".join(_json(one, indent=2) for one in ads) + "\n]\n"


def as_jsonl(ads: Sequence[Mapping[str, Any]]) -> str:
    return "".join(_json(one) + "\n" for one in ads)


def as_one_line(ads: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps([json.loads(_json(one)) for one in ads])


FORMS: list[Callable[[Sequence[Mapping[str, Any]]], str]] = [as_lines, as_file, as_json, as_jsonl, as_one_line]


@pytest.mark.parametrize("form", FORMS)
def test_jobs_are_the_same_in_every_form(tmp_path: Path, form: Callable[..., str]) -> None:
    """In the order of their completion: the first to come was the last to end."""
    ads = [
        ad(ClusterId=13, QDate=1700000100, CommittedTime=5),
        ad(RequestMemory=Expression(EXPRESSION), MemoryUsage=Expression("((ResidentSetSize + 1023) / 1024)"),
           ResidentSetSize=100_000, ImageSize=200_000, RequestGPUs=1),
    ]  # fmt: skip
    trace = opened(tmp_path, form(ads))
    jobs = list(trace)
    assert trace.format == "condor"
    assert [(job.name, job.at_s, job.run_s, job.removed_after_s) for job in jobs] == [
        ("12.0", 0.0, 60.0, None), ("13.0", 100.0, 5.0, None),
    ]  # fmt: skip
    assert [job.request for job in jobs] == [
        Resources(cpus=2, memory_mb=98, disk_mb=2, gpus=1), Resources(cpus=2, memory_mb=1500, disk_mb=2),
    ]  # fmt: skip
    assert (trace.began_at, trace.lines.bad) == (1700000000.0, 0)


RUNS: list[tuple[dict[str, Any], float, Optional[float]]] = [
    ({}, 60.0, None),
    # Evicted before: only the last run counts.
    ({"RemoteWallClockTime": 5060.0, "NumJobStarts": 2}, 60.0, None),
    ({"RemoteWallClockTime": 5060.0, "CommittedTime": None}, 60.0, None),
    ({"CommittedTime": 0, "JobCurrentStartDate": None}, 60.0, None),
    ({"CommittedTime": 0, "RemoteWallClockTime": 0.0, "JobCurrentStartDate": 1700000080}, 0.0, None),
    # Removed while it ran, and while it waited.
    ({"JobStatus": 3, "CompletionDate": 0, "CommittedTime": 0, "RemoteWallClockTime": 44.0}, 44.0, None),
    ({"JobStatus": 3, "CompletionDate": 0, "CommittedTime": 0, "RemoteWallClockTime": 0.0}, 60.0, None),
    ({"JobStatus": 3, "CompletionDate": 0, "CommittedTime": 0, "RemoteWallClockTime": 0.0, "NumJobStarts": 0,
      "JobStartDate": None, "JobCurrentStartDate": None}, 80.0, 80.0),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "run_s", "removed_after_s"), RUNS)
def test_how_long_a_job_ran(tmp_path: Path, changed: Any, run_s: float, removed_after_s: Optional[float]) -> None:
    for form in (as_file, as_json):
        ((job,), lines) = read(tmp_path, form([ad(**changed)]))
        assert (job.run_s, job.removed_after_s) == (run_s, removed_after_s)
        assert lines.cancelled == (removed_after_s is not None)


REQUESTS = [
    ({"RequestCpus": Expression("ifThenElse(NumJobStarts > 0, 8, 1)")}, "cpus", 8),
    ({"RequestCpus": Expression("something(strange)")}, "cpus", 2),  # what it got
    ({"RequestCpus": 2.0}, "cpus", 2),
    ({"RequestCpus": 0}, "cpus", 2),
    ({"RequestCpus": -1, "CpusProvisioned": None}, "cpus", 1),
    ({"RequestCpus": "2"}, "cpus", 2),
    ({"RequestCpus": Expression("undefined"), "CpusProvisioned": None}, "cpus", 1),
    ({"RequestMemory": None}, "memory_mb", 1536),
    ({"RequestMemory": Expression("2048 * RequestCpus")}, "memory_mb", 4096),
    ({"RequestMemory": None, "MemoryProvisioned": None}, "memory_mb", None),
    ({"RequestDisk": Expression("DiskUsage"), "DiskUsage": 3072}, "disk_mb", 3),
    ({"RequestDisk": None}, "disk_mb", None),
    ({"RequestGPUs": Expression("undefined")}, "gpus", None),
]


@pytest.mark.parametrize(("changed", "size", "value"), REQUESTS)
def test_what_a_job_asks_for_may_be_an_expression(tmp_path: Path, changed: Any, size: str, value: Any) -> None:
    for form in (as_file, as_json):
        ((job,), _lines) = read(tmp_path, form([ad(**changed)]))
        assert getattr(job.request, size) == value


def test_what_is_no_demand_or_has_not_ended_is_counted_and_left_out(tmp_path: Path) -> None:
    others = [
        *(ad(JobUniverse=universe) for universe in (7, 9, 12)),
        ad(RoutedToJobId="77.0"), ad(ProcId=None, JobMaterializeMaxIdle=50),
        *(ad(JobStatus=status) for status in (1, 2, 5)),
        ad(JobStatus=3, NumJobStarts=0, JobCurrentStartDate=None, EnteredCurrentStatus=None, RemoteWallClockTime=0.0),
    ]  # fmt: skip
    jobs, lines = read(tmp_path, as_json([ad(), *others]))
    assert len(jobs) == 1
    assert lines.skipped == {
        "jobs of the scheduler, local or grid universe": 3,
        "jobs that were routed, their copies count": 1,
        "clusters without a job of their own": 1,
    }
    assert lines.left_out == {
        "still waiting": 1, "still running": 1, "held": 1, "removed while they waited, nobody knows when": 1,
    }  # fmt: skip
    with pytest.raises(TraceError, match="no job in it can be played: 1 still waiting"):
        read(tmp_path, as_json([ad(JobStatus=1)]))


def test_a_parallel_job_is_a_part_on_each_of_its_machines(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, as_file([ad(JobUniverse=11, MaxHosts=3)]))
    assert [(job.name, job.request.cpus) for job in jobs] == [("12.0", 2)] * 3
    assert lines.jobs == 3


def test_nodes_of_a_dag_wait_for_their_parents(tmp_path: Path) -> None:
    nodes = [ad(ClusterId=21, DAGManJobId=20, DAGNodeName="B", DAGParentNodeNames="A,C"),
             ad(ClusterId=22, DAGManJobId=20, DAGNodeName="A", DAGParentNodeNames="")]  # fmt: skip
    jobs, _lines = read(tmp_path, as_json(nodes))
    assert [(job.name, job.after) for job in jobs] == [("20/B", ("20/A", "20/C")), ("20/A", ())]


def test_a_broken_ad_costs_no_other(tmp_path: Path) -> None:
    good = _json(ad(), indent=2)
    broken = [good.replace('"QDate": 1700000000,', '"QDate": 17000 00000,'), good.replace('"JobStatus"', '"JobStatus'),
              good[: len(good) // 2], '{"QDate": "x"}', "{}", '"text"']  # fmt: skip
    for one in broken:
        jobs, lines = read(tmp_path, "[\n" + "\n,\n".join((good, one, good, good)) + "\n]\n")
        assert len(jobs) == 3, one
        assert lines.bad >= 1
        assert lines.bad_lines[0] == good.count("\n") + 4


def test_a_broken_line_of_a_history_costs_no_more_than_itself(tmp_path: Path) -> None:
    text = as_file([ad(), ad(ClusterId=13), ad(ClusterId=14, QDate=None)])
    lines_of = text.split("\n")
    lines_of.insert(5, "torn by a full disk")
    jobs, lines = read(tmp_path, "\n".join(lines_of))
    assert len(jobs) == 2
    assert lines.bad_lines == [6, 2 * len(ad()) + 4]
    assert lines.bad_why == "no attribute of a ClassAd"


def test_an_ad_without_its_end_counts_as_far_as_it_goes(tmp_path: Path) -> None:
    jobs, _lines = read(tmp_path, as_file([ad(), ad(ClusterId=13)]).rpartition("*** ")[0])
    assert len(jobs) == 2


def test_a_history_that_begins_with_an_empty_answer_is_one(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is no log of jobs"):
        read(tmp_path, "[\n]\n")


# --------------------------------------------------------------------------- the parts


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_objects_come_out_of_blocks_of_any_size(size: int) -> None:
    values = [{"a": number, "b": '}{ \\" [' * 3, "c": [{"d": None}]} for number in range(5)]
    text = json.dumps(values, indent=1) + "\n" + "\n".join(json.dumps(value) for value in values)
    found = list(objects(text[at : at + size] for at in range(0, len(text), size)))
    assert [value for _line, value in found] == values * 2
    assert [line for line, _value in found][-2:] == [text.count("\n"), text.count("\n") + 1]


def test_a_text_that_never_ends_takes_bounded_work() -> None:
    block = '{"a": "' + "x" * 100_000
    found = list(objects([block] * 200))
    assert {type(value) for _line, value in found} == {str}


@pytest.mark.parametrize(("text", "value"), [
    ("1 + 2 * 3", 7), ("7 / 2", 3), ("7 / 2.0", 3.5), ("-(3)", -3), ("10 % 4", 2), ("A + 1", 5), ("my.a", 4),
    ("TARGET.A", None), ("A isnt undefined", 1), ("B =?= undefined", 1), ("!(A > 3) || A == 4", 1), ("A && B", 0),
    ("quantize(5, 4)", 8), ("max(1, A)", 4), ("isUndefined(B)", 1), ("ifThenElse(B, 1, 2)", 2), ("B + 1", None),
    ("1 / 0", None), ("Loop + 1", None), ("(" * 500, None), ("-" * 1500 + "1", None), ("'x' * 3", None),
    ('"a" * 999999999', None), ("9" * 1900 + " * " + "9" * 50, None), ("open('x')", None), ("().__class__", None),
    ("[1 for x in 2]", None), ("lambda: 1", None), ("strcat(1)", None), ("", None), ("\x00", None),
    ("max(" + ",".join(["Loop"] * 500) + ")", None), ("1 < 2 < 3", None), ("real('1.5')", 1.5),
])  # fmt: skip
def test_numbers_are_worked_out_of_simple_expressions_only(text: str, value: Optional[float]) -> None:
    found = {"a": 4, "b": None, "loop": Expression("Loop + Loop"), "x": Expression(text)}
    assert number(found, "X") == value
