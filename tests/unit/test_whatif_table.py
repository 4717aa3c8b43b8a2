"""Results as a table, as CSV, and the notes below."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from elastiq.interfaces import Resources
from elastiq.traces.job import BadLine, Lines
from elastiq.whatif import table
from elastiq.whatif.source import Seen
from elastiq.whatif.table import seconds
from elastiq.whatif.terms import Result

RESULT = Result(
    jobs=1200, jobs_done=1199, mean_wait_s=45.2, median_wait_s=9.84, p95_wait_s=8100.0, mean_slowdown=1.234,
    machine_hours=1234.5, idle_machine_hours=123.45, boot_machine_hours=0.0, peak_vms=12, launches=34, cost=12.5,
    unmatchable_jobs=1, cancelled_jobs=0, killed_jobs=0, left_jobs=0, bad_lines=0, left_out=0, simulated_s=86400.0,
)  # fmt: skip
MACHINES = (Resources(cpus=8.0), Resources(cpus=2.0))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.0 s"), (9.84, "9.8 s"), (131.4, "131 s"), (852.0, "14.2 min"), (12_240.0, "3.4 h"),
     (259_200.0, "3.0 d")],
)  # fmt: skip
def test_waits_have_about_three_figures(value: float, text: str) -> None:
    assert table.seconds(value) == text


def test_one_result_is_a_line_for_each_figure() -> None:
    lines = {line[:15].strip(): line[15:] for line in table.of_one(RESULT)}
    assert "1,199  of 1,200" in lines["jobs done"]
    assert "10.0 %" in lines["idle"] and "12.50" in lines["cost"]


def test_unknown_is_a_dash_and_not_nothing() -> None:
    lines = table.of_one(replace(RESULT, cost=None, mean_wait_s=None))
    assert [line.split()[-1] for line in lines if line.startswith("cost")] == ["-"]


def test_several_results_have_their_settings_first_and_the_present_ones_are_marked() -> None:
    results = [replace(RESULT, settings={"max_vms": "2"}), replace(RESULT, cost=None, settings={"max_vms": "10"})]
    head, rows = table.of_several(results, present=1)
    assert head[:3] == ["", "max_vms", " DONE"]
    assert [row[:2] for row in rows] == [["", "2"], [table.PRESENT, "10"]]
    assert {len(row) for row in rows} == {len(head)}
    assert [row[head.index(" COST")].strip() for row in rows] == ["12.50", "-"]


def test_csv_has_the_names_of_json_and_leaves_unknown_empty() -> None:
    out = io.StringIO()
    table.write_csv([replace(RESULT, cost=None, settings={"max_vms": "2"})], out)
    (row,) = csv.DictReader(io.StringIO(out.getvalue()))
    assert row["max_vms"] == "2" and row["cost"] == "" and row["jobs_done"] == "1199"
    assert set(row) == {"max_vms", *(key for key in RESULT.as_dict())}


def test_bad_lines_are_told_with_the_first_numbers_and_why() -> None:
    lines = Lines(left_out={"no run time": 3})
    for number in (4, 7, 9, 10, 12, 13):
        lines.is_bad(number, BadLine(f"{number} fields, not 18" if number == 13 else "2 fields, not 18"))
    for number in (14, 15, 16, 17):
        lines.is_bad(number, BadLine("2 fields, not 18"))
    notes = table.notes(replace(RESULT, unmatchable_jobs=0), Seen(lines=lines), MACHINES)
    assert notes == [
        "9 lines are no jobs and left out (lines 4, 7, 9, 10, 12, ...): 2 fields, not 18",
        "1 line is no job and left out (line 13): 13 fields, not 18",
        "3 jobs left out: no run time",
    ]


def test_what_is_odd_is_told_with_its_first_lines_where_they_are_known() -> None:
    lines = Lines(unused=tuple("abcdefghijklmnopqrstuvwxyz"))
    for number in (3, 0, 8):
        lines.note("waits" if number else "came", number)
    for number in range(9, 13):
        lines.note("waits", number)
    result = replace(RESULT, unmatchable_jobs=0, left_jobs=4, held_jobs=3)
    assert table.notes(result, Seen(lines=lines), MACHINES) == [
        "6 jobs (lines 3, 8, 9, 10, 11, ...): waits",
        "1 job: came",
        "columns of which nothing is read: a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t and 6 more",
        "4 jobs had not started when nothing happened any more, though a flavour fits",
        "3 jobs of these waited for jobs that never ended",
    ]


def test_jobs_that_fit_nowhere_are_told_with_what_would_fit() -> None:
    (note,) = table.notes(RESULT, Seen(misfits=1, too_large=Resources(cpus=16.0, memory_mb=1000.0)), MACHINES)
    assert note.startswith("1 job fits on no flavour and never ran: the largest asks 16 cores and 1000 MB of memory")
    assert "--split-at 8" in note


def test_a_job_that_lacks_only_memory_is_not_to_be_split() -> None:
    (note,) = table.notes(RESULT, Seen(misfits=1, too_large=Resources(cpus=1.0, memory_mb=9e9)), MACHINES)
    assert "--split-at" not in note and "flavour that has it" in note


def test_a_job_that_is_too_small_for_every_machine_asks_for_a_flavour_of_its_size() -> None:
    small = Seen(misfits=1, too_small=Resources(cpus=2.0))
    (note,) = table.notes(RESULT, small, MACHINES)
    assert "the smallest asks 2 cores, not more than half of any machine" in note and "the largest" not in note
    (both,) = table.notes(RESULT, replace(small, too_large=Resources(cpus=64.0)), MACHINES)
    assert "a flavour for each size; the largest asks 64 cores; try" in both


def test_a_killed_job_is_called_a_bug() -> None:
    notes = table.notes(replace(RESULT, unmatchable_jobs=0, killed_jobs=2), Seen(), MACHINES)
    assert notes == ["2 jobs were killed by elastiq: that is a bug, please report it"]


def test_values_that_are_compared_have_one_unit() -> None:
    assert [seconds(value, 900.0) for value in (60.0, 900.0, 86_400.0)] == ["1.0 min", "15.0 min", "1440.0 min"]
