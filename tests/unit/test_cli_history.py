"""elastiqctl history: what of the state file is shown, and how."""

from __future__ import annotations

import json
import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

from elastiq.cli import main
from elastiq.cli.history import chosen, text
from elastiq.cli.when import since
from elastiq.store import Store

LINES = [
    (1000.0, "launch", "ab12", "gpu", "2 of gpu/g1: 4 jobs wait"),
    (1001.0, "pending", "i-1", "gpu", "launched as i-1: 4 jobs wait"),
    (1002.0, "gone", "ab12.1", "gpu", "the cloud gave fewer than asked for"),
    (1060.0, "booting", "i-1", "gpu", "launched as i-1: 4 jobs wait"),
    (1100.0, "busy", "i-1", "gpu", "runs 4 jobs"),
    (1500.0, "pause", "", "", "elastiqctl pause launch: no money"),
    (2000.0, "draining", "i-1", "gpu", "idle for 600 s"),
    (2001.0, "terminating", "i-1", "gpu", "idle for 600 s"),
    (2060.0, "gone", "i-1", "gpu", "idle for 600 s"),
    (2100.0, "gone", "i-2", "ec2", "the cloud says terminated: spot interruption"),
]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    store = Store(str(tmp_path / "elastiq.db"))
    store.save((), LINES)
    store.close()
    return tmp_path


def shown(state: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    code = main(["history", "--statedir", str(state), "--rundir", str(state), "--json", *words])
    assert code == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"schema", "history"}
    return list(found["history"])


def places(lines: list[dict[str, Any]]) -> list[int]:
    """Which of LINES they are."""
    return [LINES.index(tuple(line[key] for key in ("at", "what", "node", "pool", "reason"))) for line in lines]


def test_launches_ends_and_commands_are_shown_newest_last(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert places(shown(state, capsys)) == [0, 1, 2, 5, 7, 9], "of an end that was confirmed, only the decision"
    assert places(shown(state, capsys, "--all")) == list(range(10))


@pytest.mark.parametrize(
    ("words", "which"),
    [
        (("--node", "i-1"), [1, 7]),
        (("--node", "ab12"), [0, 2]),
        (("--node", "i-1", "--all"), [1, 3, 4, 6, 7, 8]),
        (("--pool", "ec2"), [9]),
        (("-n", "2"), [7, 9]),
        (("-n", "0", "--all"), list(range(10))),
        (("--since", "1970-01-02"), []),
        (("--pool", "gpu", "-n", "1"), [7]),
    ],
)
def test_it_can_be_narrowed(
    state: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], which: list[int]
) -> None:
    assert places(shown(state, capsys, *words)) == which


def test_for_a_person_each_line_has_its_time_and_its_reason(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--statedir", str(state)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["TIME", "WHAT", "NODE", "POOL", "WHY"] and len(lines) == 6
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(2001.0))
    assert lines[4].split(maxsplit=3)[:3] == [*at.split(), "ended"] and lines[4].endswith("gpu   idle for 600 s")
    assert text([]) == "nothing that was asked for is in the history"


def test_a_name_in_the_history_commands_no_terminal() -> None:
    line = {"at": 1.0, "what": "launch", "node": "i-\x1b[2J", "pool": "p\n", "reason": "\x9b1m"}
    assert "\x1b" not in text([line]) and "\x9b" not in text([line]) and len(text([line]).splitlines()) == 2


def test_nothing_is_written_beside_the_state(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.name for path in state.iterdir())
    shown(state, capsys)
    assert sorted(path.name for path in state.iterdir()) == before


def test_without_a_state_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--statedir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_that_is_no_state_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "elastiq.db").write_text("this is no database" * 100)
    assert main(["history", "--statedir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "ago_s"),
    [("90s", 90), ("30m", 1800), ("5min", 300), ("1.5h", 5400), ("7d", 604_800), (" 2 w ", 1_209_600)],
)
def test_a_time_ago(typed: str, ago_s: float) -> None:
    assert since(typed) == pytest.approx(time.time() - ago_s, abs=5.0)


def test_a_local_date_or_a_time_of_today() -> None:
    assert since("2026-11-30") == time.mktime((2026, 11, 30, 0, 0, 0, 0, 0, -1))
    assert since("2026-11-30 14:05") == time.mktime((2026, 11, 30, 14, 5, 0, 0, 0, -1))
    today = time.localtime()[:3]
    assert since("14:05") == time.mktime((*today, 14, 5, 0, 0, 0, -1))


@pytest.mark.parametrize("typed", ["", "yesterday", "2x", "25:00", "2026-13-01", "-2h", "99999999-01-01"])
def test_what_is_no_time_is_refused_with_examples(typed: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is no time: say it as 30m"):
        since(typed)


def test_a_machine_that_is_seen_before_its_launch_was_answered_is_shown_as_launched() -> None:
    lines = [dict(zip(("at", "what", "node", "pool", "reason"), line)) for line in LINES[3:5]]
    assert chosen(lines, False, None, None, None) == lines[:1]
    assert text(lines[:1]).splitlines()[1].split()[2] == "launched"


def test_the_end_of_another_machine_with_the_same_reason_is_shown() -> None:
    lines = [dict(zip(("at", "what", "node", "pool", "reason"), line)) for line in LINES]
    assert [one["node"] for one in chosen(lines[8:], False, None, None, None)] == ["i-1", "i-2"]
