"""What is wrong with the lines of a trace: counted by what it is, in our words."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from elastiq.traces.job import TraceError
from elastiq.traces.opening import FORMATS
from tests.unit.traces import read

SAMPLES = {
    "condor": '[\n{"ClusterId": 1, "ProcId": 0, "QDate": 1700000000, "JobStatus": 4, "RequestCpus": 2, '
    '"RequestMemory": "/Expr(ifThenElse(MemoryUsage =!= undefined, 9, 5))/", "CommittedTime": 60, "DAGManJobId": 3, '
    '"DAGNodeName": "B", "DAGParentNodeNames": "A,B"}\n]\n',
    "csv": "submit,run_s,cpus,memory_gb,id,after,count\n"
    "2024-05-01T10:00:00.5Z,1:30,2,4,a,b c,1\n1,2-01:02:03,1,1e3,b,,2\n",
    "gridengine": "all.q:node1:users:me:job:7:sge:0:1700000000:1700000010:1700000070:0:0:60"
    + ":0" * 20
    + ":2:0:0:0:0:-l h_vmem=4G,gpu=1 -pe smp 2:0:NONE\n",
    "sacct": "JobID|Submit|Start|End|ElapsedRaw|State|ReqTRES|NNodes|TimelimitRaw\n"
    "61|2024-05-01T10:00:00|2024-05-01T10:01:00|2024-05-01T10:02:00|60|COMPLETED|cpu=4,mem=8G,gres/gpu:a100=1|2|60\n",
    "swf": "; UnixStartTime: 1700000000\n1 0 10 60 4 -1 -1 4 100 1024 1 1 1 1 1 1 2 5\n",
    "torque": "04/18/2024 12:00:00;E;1.s;ctime=1700000000 start=1700000010 end=1700000070 Resource_List.nodes=2:ppn=4"
    "+1:gpus=1 Resource_List.mem=4gb\n04/18/2024 12:00:00;Q;2.s;ctime=1700000000 Resource_List.walltime=01:00:00\n"
    "04/18/2024 12:00:09;D;2.s;\n",
}
TOKENS = [
    "-1",
    "nan",
    "inf",
    "1e999",
    "1e300",
    "9" * 5000,
    "",
    "\x1b[31m",
    "²",
    "٣",
    '"',
    "{" * 50,
    "0x10",
    "1.2.3",
    ":",
]
PYTHONS = ("could not convert", "invalid literal", "isoformat", "does not match", "unconverted", "Exceeds", "out of r")


def bent(text: str, chance: random.Random) -> str:
    """With some of its words and characters changed."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        end = at if chance.random() < 0.3 else min(len(text), at + chance.randint(1, 12))
        text = text[:at] + chance.choice([*TOKENS, text[at:end] * 2, text[:at]]) + text[end:]
    return text


@pytest.mark.parametrize("format", FORMATS)
def test_a_line_that_is_bent_is_a_job_or_counted_by_what_is_wrong_with_it_in_our_words(
    format: str, tmp_path: Path
) -> None:
    sample, chance, bad = SAMPLES[format], random.Random(format), 0
    assert read(tmp_path, sample, format)[1].bad == 0
    for _ in range(400):
        try:
            jobs, lines = read(tmp_path, sample + bent(sample, chance), format)
        except TraceError as exc:
            text = str(exc)
            assert text.isprintable() and not any(words in text for words in PYTHONS)
            continue
        assert len(jobs) == lines.jobs
        assert sum(kind.count for kind in lines.bad_kinds.values()) == lines.bad
        bad += lines.bad
        for kind in lines.bad_kinds.values():
            assert kind.example.isprintable() and len(kind.example) < 200
            assert not any(words in kind.example for words in PYTHONS)
    assert bad > 20, "or nothing was bent"


def test_each_thing_that_is_wrong_is_told_with_its_own_lines(tmp_path: Path) -> None:
    table = "submit,run_s,cpus\n0,60,1\nsoon,60,1\n0,60\n0,-5,1\n0,1e16,1\n0,60,-2\n0,60,1e9\n0,60,x\nlate,60,1\n"
    _jobs, lines = read(tmp_path, table)
    assert {kind.example: (kind.count, kind.numbers) for kind in lines.bad_kinds.values()} == {
        "no time: 'soon'": (2, [3, 10]),
        "2 columns, the header has 3": (1, [4]),
        "a negative run time: -5.0": (1, [5]),
        "too long a run time: 1e+16": (1, [6]),
        "less than no cpus: -2.0": (1, [7]),
        "too many cpus: 1000000000.0": (1, [8]),
        "no number: 'x'": (1, [9]),
    }
    assert (lines.bad, lines.bad_lines, lines.bad_why) == (8, [3, 4, 5, 6, 7], "no time: 'soon'")


def test_a_hostile_name_of_a_column_is_told_as_a_text(tmp_path: Path) -> None:
    _jobs, lines = read(tmp_path, f"run_s,\x1b[31mred,{'x' * 5000},plain\n1,1,1,1\n")
    assert lines.unused == ("'\\x1b[31mred'", repr("x" * 40), "plain")


def test_of_endless_kinds_of_faults_some_are_told_apart(tmp_path: Path) -> None:
    _jobs, lines = read(
        tmp_path, "run_s,cpus\n1,1\n" + "".join("1" + ",1" * (number + 2) + "\n" for number in range(50))
    )
    assert lines.bad == 50 == sum(kind.count for kind in lines.bad_kinds.values())
    assert len(lines.bad_kinds) == 21 and lines.bad_kinds["something else"].count == 30


def test_a_time_that_is_wrong_lets_nobody_play_half_a_century(tmp_path: Path) -> None:
    """A 0 among the seconds since 1970, or a century between: four weeks are left, and whole weeks go."""
    table = "submit_s,run_s\n0,60\n1700000000,60\n1700000600,60\n1700000600,4e8\n5e9,60\n"
    jobs, lines = read(tmp_path, table)
    week_s = 7 * 86_400.0
    gaps = [later.at_s - sooner.at_s for sooner, later in zip(jobs, jobs[1:])]
    assert len(jobs) == 4 and gaps[1] == 600.0
    for gap, real_s in zip(gaps[::2], (1_700_000_000.0, 5e9 - 1_700_000_600.0)):
        assert 4 * week_s <= gap < 5 * week_s and (real_s - gap) % week_s == 0.0
    assert [(why.partition(" (")[0], count) for why, count in lines.noted.items()] == [
        ("comes more than a year after the one before", 2)
    ]
    assert lines.bad_why == "too long a run time: 400000000.0"


def test_a_pause_of_a_year_is_none(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, f"submit_s,run_s\n0,60\n{366 * 86_400},60\n")
    assert (jobs[1].at_s, lines.noted) == (366 * 86_400.0, {})
