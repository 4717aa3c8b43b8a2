"""What elastiqctl writes into a terminal: aligned, within its width, and no command of a foreign name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from elastiq.cli import follow
from elastiq.cli.table import Screen, clean, duration

HEAD = ("ID", "STATE", "WORKER", "REASON")
ROWS = [
    ["i-1", "busy", "ip-10-0-0-7.ec2.internal", "joined"],
    ["i-22222", "idle", "ip-10-0-0-8.ec2.internal", "idle for 100 s, below idle_for_time_s of 3600 s"],
]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Of a terminal with colours, 80 wide."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Screen()


def test_columns_begin_below_their_names(screen: Screen) -> None:
    head, *rows = screen.table(HEAD, ROWS)
    for name, first in (("STATE", "busy"), ("WORKER", "ip-10-0-0-7"), ("REASON", "joined")):
        assert head.replace("\033[2m", "").index(name) == rows[0].index(first)


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_no_line_is_wider_than_the_terminal(screen: Screen, width: int) -> None:
    screen.width, screen.colour = width, False
    lines = [*screen.table(HEAD, ROWS, spare="WORKER"), *screen.line("x " * 300).splitlines()]
    assert all(len(line) <= width for line in lines)


def test_a_long_reason_is_wrapped_and_not_lost(screen: Screen) -> None:
    lines = screen.table(HEAD, ROWS, spare="WORKER")
    assert lines[2].startswith("i-22222") and lines[3].startswith(" ")
    assert " ".join(" ".join(lines[2:]).split()).endswith(ROWS[1][3])


def test_a_narrow_terminal_loses_the_spare_columns_first(screen: Screen) -> None:
    screen.width = 60
    lines = screen.table(HEAD, ROWS, spare="WORKER")
    assert "WORKER" not in lines[0] and "idle for 100 s" in lines[2]
    screen.width = 90
    assert "WORKER" in screen.table(HEAD, ROWS, spare="WORKER")[0]


def test_a_column_without_content_is_not_shown(screen: Screen) -> None:
    assert "WORKER" not in screen.table(HEAD, [["i-1", "pending", "", "launched"]])[0]


def test_what_is_no_terminal_gets_whole_lines_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    lines = Screen().table(HEAD, [["i-1", "busy", "w", "long " * 100]], ["good"])
    assert lines[1].endswith("long") and "\033" not in "".join(lines)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert "\033[32m" in screen.table(HEAD, ROWS, ["good", ""])[1]
    monkeypatch.setenv(name, value)
    assert "\033" not in "".join(Screen().table(HEAD, ROWS, ["good", ""]))


def test_a_name_cannot_command_the_terminal(screen: Screen) -> None:
    assert clean("w\033[2J\r\n\x9b1m\u202e") == "w?[2J???1m?"
    assert "\033[2J" not in screen.table(("ID", "REASON"), [["\033[2J", "x\ny"]])[1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (45.4, "45 s"), (700, "11 min"), (11_100, "3 h 05 min"), (352_800, "4 d 2 h")],
)
def test_durations_are_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("size", [1, 10, 100_000])
@pytest.mark.parametrize("ending", ["", "\n"])
def test_the_last_lines_of_a_log_of_any_length(tmp_path: Path, size: int, ending: str) -> None:
    path = tmp_path / "log"
    lines = [f"line {number} é" for number in range(size)]
    path.write_text("\n".join(lines) + ending, "utf-8")
    for count in (0, 1, 2, 20, size, size + 1):
        assert follow.last_lines(path, count) == (lines[-count:] if count else [])


def test_the_last_lines_since_a_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\nolder\n")
    since = path.stat().st_size
    assert follow.last_lines(path, 5, since) == []
    with path.open("a") as file:
        file.write("new\nnewer\n")
    assert follow.last_lines(path, 5, since) == ["new", "newer"]
    path.write_text("cut\n")
    assert follow.last_lines(path, 5, since) == ["cut"]
    assert follow.last_lines(tmp_path / "none", 5) == []
