"""What elastiqctl writes into a terminal: aligned, within its width, and no command of a foreign name."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from elastiq.cli import follow, view
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


@pytest.mark.parametrize("width", [20, 24])
def test_on_a_very_narrow_terminal_the_reason_is_below_its_row(screen: Screen, width: int) -> None:
    screen.width, screen.colour = width, False
    lines = screen.table(HEAD, ROWS, spare="WORKER")
    assert lines[0].split() == ["ID", "STATE"] and lines[1] == "    REASON" and "joined" in lines[3]
    assert " ".join(" ".join(lines).split()).endswith(ROWS[1][3]) and max(map(len, lines)) <= width


def test_a_column_without_content_is_not_shown(screen: Screen) -> None:
    assert "WORKER" not in screen.table(HEAD, [["i-1", "pending", "", "launched"]])[0]


def test_what_is_no_terminal_gets_whole_lines_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    lines = Screen().table(HEAD, [["i-1", "busy", "w", "long " * 100]], ["good"])
    assert lines[1].endswith("long") and "\033" not in "".join(lines)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(screen: Screen, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    assert "\033[32m" in screen.table(HEAD, ROWS, ["good", ""])[1]
    monkeypatch.setenv(name, value)
    assert "\033" not in "".join(Screen().table(HEAD, ROWS, ["good", ""]))


def test_a_name_cannot_command_the_terminal(screen: Screen) -> None:
    assert clean("w\033[2J\r\n\x9b1m\u202e") == "w?[2J???1m?"
    assert "\033[2J" not in screen.table(("ID", "REASON"), [["\033[2J", "x\ny"]])[1]


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (45.4, "45 s"), (700, "11 min"), (11_100, "3 h 05 min"), (352_800, "4 d 2 h")]
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


# ------------------------------------------------------------------ what holds launches back


def status(quota: dict[str, Any], *pools: dict[str, Any]) -> dict[str, Any]:
    """A status by the keys of docs/status.md, of a cluster at rest."""
    pool: dict[str, Any] = {"site": "aws", "flavours": ["m1"], "max_vms": None, "counted": 0}
    pool |= {"breaker": None, "blocked": {}, "drained": False, "min_vms": 0, "min_idle_vms": 0, "priority": 0.0}
    queue = {"known": True, "complete": True, "waiting_jobs": 0, "running_jobs": 0, "unmatchable_jobs": 0}
    return {
        "version": "2.0",
        "cluster": "cms",
        "state": "active",
        "notices": [],
        "queue": {**queue, "age_s": 1.0, "groups": []},
        "nodes": [],
        "quota": {"min_vms": 0, "max_vms": 3, "counts": "owned", "counted": 0, "limits": [], **quota},
        "pools": [{**pool, **one} for one in pools],
        "schedules": [],
        "sources": [{"name": "the queue", "age_s": 1.0, "known": True, "error": ""}],
        "last_plan": {"at": None},
        "last_action": {"at": None, "summary": ""},
    }


def lines_of(quota: dict[str, Any], *pools: dict[str, Any]) -> list[str]:
    return view.text(status(quota, *pools), 4711, 1.0).splitlines()


def test_running_jobs_that_the_batch_system_does_not_count_are_not_called_none() -> None:
    assert "jobs: 0 waiting, 0 running; read 1 s ago" in view.text(status({}), 4711, 1.0)
    group = {"waiting": 0, "running": None}
    untold = status({})
    untold["queue"]["groups"] = [group]
    assert "jobs: 0 waiting, running ones not told; read 1 s ago" in view.text(untold, 4711, 1.0)


def test_a_queue_that_was_never_read_has_no_counts() -> None:
    unread = status({})
    unread["queue"] |= {"known": False, "age_s": None}
    assert "jobs: not known yet" in view.text(unread, 4711, 1.0).splitlines()


@pytest.mark.parametrize(("explained", "said"), [({"explanation": "by 12:18"}, "by 12:18"), ({}, "room")])
def test_of_a_group_the_explanation_is_shown_once_there_is_one(explained: dict[str, str], said: str) -> None:
    waits = status({})
    asks = {"waiting": 2, "held": 2, "launching": 0, "waiting_s": 5.0, "cpus": 1, "memory_mb": None, "gpus": None}
    waits["queue"]["groups"] = [{**asks, "sample_job": "7.0", "matchable": True, "reason": "room", **explained}]
    (line,) = (line for line in view.text(waits, 4711, 1.0).splitlines() if "7.0" in line)
    assert line.endswith(said)


def test_an_open_breaker_is_shown_with_its_reason_under_its_pool() -> None:
    why = "the last 3 machines of pool ec2 never joined: one at a time until one does"
    lines = lines_of({}, {"name": "ec2", "breaker": why, "counted": 1, "max_vms": 5})
    at = lines.index("pool ec2: 1 counts of at most 5")
    assert lines[at + 1] == f"  ! breaker: {why}"


def test_each_block_is_shown_once_with_what_it_holds_back_and_for_how_long() -> None:
    full = "offer ec2/m1 is held back for another 42 s: InsufficientInstanceCapacity"
    quota = "pool gpu is held back for another 60 s: VcpuLimitExceeded"
    lines = lines_of(
        {}, {"name": "ec2", "blocked": {"ec2/m1": full}}, {"name": "gpu", "blocked": {"gpu/g1": quota, "gpu/g2": quota}}
    )
    assert lines[lines.index("pool ec2: 0 count") + 1] == f"  ! block: {full}"
    assert lines[lines.index("pool gpu: 0 count") + 1] == f"  ! block: {quota}"
    assert sum("held back" in line for line in lines) == 2, "a block of a pool is one, not one for each offer"


def test_a_log_that_loses_records_is_told_as_a_notice_is() -> None:
    assert "log" not in view.text({**status({}), "log_failures": 0}, 4711, 1.0)
    lines = view.text({**status({}), "log_failures": 8}, 4711, 1.0).splitlines()
    assert lines[1].startswith("! log: could not be written 8 times") and "full" in lines[1]


def test_where_nothing_is_held_back_one_pool_needs_no_line() -> None:
    lines = lines_of({}, {"name": "ec2"})
    assert not [line for line in lines if line.startswith(("pool", "limits")) or "!" in line]


LAUNCHES = {"limit": "max_launches_per_hour 10", "used": 3, "left": 7, "counts": "asked for"}
COST = {"limit": "max_cost_per_day 20", "used": 20.125, "left": -0.125, "counts": "in 24 hours and the next one"}


def test_limits_of_launches_and_cost_are_shown_with_what_is_left() -> None:
    lines = lines_of({"limits": [LAUNCHES]}, {"name": "ec2"})
    assert "limits: max_launches_per_hour 10: 3 asked for, 7 left" in lines
    assert not [line for line in lines if line.startswith("!")]


def test_a_limit_that_is_reached_is_pointed_at() -> None:
    lines = lines_of({"limits": [LAUNCHES, COST]}, {"name": "ec2"})
    at = next(at for at, line in enumerate(lines) if line.startswith("limits: "))
    assert lines[at].endswith("max_cost_per_day 20: 20.12 in 24 hours and the next one, 0 left")
    assert lines[at + 1] == "! reached, nothing is launched: max_cost_per_day 20"


@pytest.mark.parametrize(("left", "reached"), [(0.5, False), (0.5 - 1e-12, False), (0.3, True), (0.0, True)])
def test_a_cap_that_cannot_pay_for_one_more_machine_is_reached(left: float, reached: bool) -> None:
    cap = {"limit": "max_cost_per_hour 2", "used": 2.0 - left, "left": left, "least": 0.5, "counts": "an hour"}
    told = "! reached, nothing is launched: max_cost_per_hour 2" in lines_of({"limits": [cap]}, {"name": "ec2"})
    assert told is reached


# ------------------------------------------------------------------ the log


def test_log_lines_are_objects_for_programs_also_one_without_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text('an old one\n{"level": "INFO", "message": "as it is"}\na "quoted" one\nwithout an end')
    assert follow.show(path, 3, False, as_json=True) == 0
    said = ['{"level": "INFO", "message": "as it is"}', '{"line": "a \\"quoted\\" one"}', '{"line": "without an end"}']
    assert capsys.readouterr().out.splitlines() == said


def test_the_log_cannot_command_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_text("of another program: \033[2J\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert follow.show(path, 3, False) == 0
    assert capsys.readouterr().out == "of another program: ?[2J\n"


def test_what_a_person_ordered_is_shown_until_it_is_the_reason() -> None:
    node = {"id": "i-1", "node": "a.1", "state": "busy", "since": 0.0, "jobs": 2, "worker": "w1", "pool": "ec2"}
    shown = status({}) | {
        "nodes": [{**node, "flavour": "m1", "reason": "runs 2 jobs", "ordered": "elastiqctl drain: x"}]
    }
    assert "runs 2 jobs; goes: elastiqctl drain: x" in view.text(shown, 4711, 1.0)
    shown["nodes"][0] |= {"state": "draining", "reason": "elastiqctl drain: x"}
    assert view.text(shown, 4711, 1.0).count("elastiqctl drain: x") == 1


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({}, "2 cpus, 512 MB"),
        ({"nodes": 1, "apart": False}, "2 cpus, 512 MB"),
        ({"nodes": 8, "apart": False}, "8 times 2 cpus, 512 MB, at once"),
        ({"nodes": 3, "apart": True}, "3 machines with 2 cpus, 512 MB, at once"),
        ({"nodes": 1, "apart": True}, "2 cpus, 512 MB, alone on a machine"),
    ],
)
def test_what_a_job_asks_for_says_how_many_times(parts: dict[str, Any], told: str) -> None:
    assert view.request({"cpus": 2, "memory_mb": 512, "gpus": None, **parts}) == told
