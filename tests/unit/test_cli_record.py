"""elastiqctl record: the trace, the line about it, and what is wrong in one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from elastiq.cli import main
from elastiq.recording import FOLDER, HEADER
from elastiq.traces.opening import open_trace
from elastiq.traces.write import COLUMNS
from elastiq.whatif.recorded import Looks, Recorded

AT = 1_700_000_000
LOOKS = (
    *(f"{AT} 0:0:0", f"{AT + 60} 0:4:0", f"{AT + 120} 0:2:2", f"{AT + 180} 0:0:2", f"{AT + 240} 0:0:0"),
    *(f"{AT + 7440} 0:5:1", f"{AT + 7500} 0:2:1", f"{AT + 7560}"),
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / FOLDER
    folder.mkdir(parents=True)
    lines = ("", HEADER, '= 0 ["a", 2, 1500, null, null, 1]', *LOOKS, "")
    (folder / "2023-11-14.txt").write_text("\n".join(lines))
    return tmp_path / "state"


def run(state: Path, *words: str) -> int:
    return main(["record", "--statedir", str(state), "--rundir", str(state), *words])


def test_the_jobs_are_a_csv_file_with_wall_times(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(state, "-o", "-") == 0
    shown = capsys.readouterr()
    assert run(state) == 0 and capsys.readouterr() == shown
    head, *rows = csv.reader(shown.out.splitlines())
    assert tuple(head) == COLUMNS
    assert [row[:4] for row in rows[:4]] == [[str(AT + 60), "60", "2", "1500"]] * 4
    assert len(rows) == 4 + 4, "and after the gap: one runs, three run or are removed; two wait and are left out"


def test_what_is_printed_is_read_back_as_the_same_jobs(state: Path, tmp_path: Path) -> None:
    assert run(state, "-o", str(tmp_path / "queue.csv")) == 0
    trace, made = open_trace(tmp_path / "queue.csv"), Recorded(Looks(state / FOLDER))
    assert sorted(trace) == sorted(made) and len(list(made)) == 8
    assert (trace.began_at, trace.lines.bad, trace.lines.left_out) == (AT + 60, 0, {})


def test_one_line_says_how_many_jobs_of_which_time_and_what_is_not_exact(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = state / FOLDER / "2023-11-14.txt"
    file.write_text(f"{file.read_text()}nonsense\n\nelastiq queue 2\n")
    assert run(state) == 0
    (line,) = capsys.readouterr().err.splitlines()
    for part in (
        *("elastiqctl: 8 jobs, 0.2 core hours, 2023-11-1", "1 gap, 2.0 h not seen", "2 cut off there or at an end"),
        *("2 that had not started are left out", "1 damaged line", "of a newer elastiq: 2023-11-14.txt"),
        "jobs shorter than the time between two looks are not seen; exact is the batch system's own history",
    ):
        assert part in line


def test_for_programs_it_is_an_object_without_the_jobs(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(state, "--json") == 0
    shown = capsys.readouterr()
    found: dict[str, Any] = json.loads(shown.out)
    assert shown.err == ""
    assert {key: found[key] for key in ("schema", "since", "until", "jobs", "left_waiting", "gaps")} == {
        "schema": 1,
        "since": AT,
        "until": AT + 7560,
        "jobs": 8,
        "left_waiting": 2,
        "gaps": [{"since": AT + 240, "until": AT + 7440}],
    }


def test_into_a_file_whole_or_not_at_all(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queue.csv"
    assert run(state, "-o", str(file), "--json") == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 8 and len(file.read_text().splitlines()) == 1 + 8
    file.write_text("before\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr("elastiq.cli.record.write", full)
    assert run(state, "--output", str(file)) == 1
    assert capsys.readouterr().err == f"elastiqctl: {file}: No space left on device\n"
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["queue.csv"] and file.read_text() == "before\n"


def test_a_time_can_be_chosen(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(state, "--json", "--since", "2023-11-01", "--until", "2023-12-01") == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 8
    assert run(state, "--since", "1h") == 1
    assert capsys.readouterr().err.startswith("elastiqctl: nothing was recorded in that time")
    assert run(state, "--since", "2023-12-01", "--until", "2023-11-01") == 2
    assert "is not before" in capsys.readouterr().err


def test_where_nothing_is_recorded_it_says_when_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        "",
        f"elastiqctl: {tmp_path / FOLDER}: nothing is recorded yet: the queue is recorded while elastiq runs, unless"
        " record_days = 0\n",
    )


def test_who_may_not_read_it_is_told(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(place: object) -> list[str]:  # root may read everything
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr("elastiq.whatif.recorded.os.listdir", denied)
    assert run(state) == 4
    shown = capsys.readouterr()
    assert shown.err == (
        f"elastiqctl: {state / FOLDER}: no permission to read it: be root, or the user as whom elastiq runs\n"
    )
    assert shown.out == ""


def test_nothing_is_written_beside_what_is_recorded(state: Path) -> None:
    before = sorted((file.name, file.stat().st_mtime_ns) for file in state.rglob("*"))
    assert run(state, "--json") == 0
    assert sorted((file.name, file.stat().st_mtime_ns) for file in state.rglob("*")) == before
