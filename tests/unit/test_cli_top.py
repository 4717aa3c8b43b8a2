"""elastiqctl top: what a frame shows, in a screen of any size."""

from __future__ import annotations

import itertools
import re
import sys
import time
from typing import Any

import pytest

from elastiq.cli.frame import KEYS, Size, bar, frame, help_frame
from elastiq.cli.style import columns
from elastiq.cli.table import Screen

NOW = time.mktime((2026, 11, 30, 14, 5, 0, 0, 0, -1))
STATES = ("busy", "idle", "booting", "draining", "lost")


def a_node(number: int, **changed: Any) -> dict[str, Any]:
    node: dict[str, Any] = {"id": f"i-{number:04}", "state": STATES[number % 5], "since": NOW - number * 60}
    node |= {"jobs": number % 5, "worker": f"ip-10-0-0-{number}.ec2.internal", "pool": "ec2", "flavour": "m5.large"}
    return {**node, "reason": "runs jobs", "explanation": "kept: reserved for 3 waiting jobs", **changed}


def a_status(nodes: int = 30, groups: int = 3, notices: int = 2, **changed: Any) -> dict[str, Any]:
    group = {"waiting": 7, "waiting_s": 65.0, "cpus": 1, "memory_mb": 2000, "gpus": None, "matchable": True}
    queue = {"known": True, "complete": True, "waiting_jobs": 7 * groups, "running_jobs": 40, "unmatchable_jobs": 1}
    return {
        "version": "2.0",
        "cluster": "alice",
        "state": "active",
        "queue": {**queue, "age_s": 4.0, "groups": [{**group, "reason": f"room {n}"} for n in range(groups)]},
        "nodes": [a_node(number) for number in range(nodes)],
        "quota": {"counted": nodes, "min_vms": 0, "max_vms": 40},
        "notices": [f"notice {number}: something is wrong" for number in range(notices)],
        "last_action": {"at": NOW - 90, "summary": "launch 2 of ec2/m5.large: 8 jobs wait"},
        **changed,
    }


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    made = Screen()
    made.width = 100
    return made


def shown(screen: Screen, status: dict[str, Any], lines: int = 40, **more: Any) -> list[str]:
    return frame(screen, more.pop("size", Size(lines)), status, more.pop("silent_s", 1.0), NOW, **more)


def test_a_frame_fills_the_screen_with_what_is_most_worth_to_know(screen: Screen) -> None:
    lines = shown(screen, a_status())
    assert len(lines) == 40
    assert lines[0] == "elastiq 2.0, cluster alice: active".ljust(91) + " 14:05:00"
    assert lines[1] == "jobs    21 waiting (1 unmatchable), 40 running; read 4 s ago"
    assert lines[2] == "nodes   30 of 40: 6 lost, 6 busy, 6 idle, 6 draining, 6 booting"
    assert lines[3].strip() == "#" * 6 + "=" * 6 + "+" * 6 + "~" * 6 + "!" * 6 + "." * 10
    assert lines[4:6] == ["! notice 0: something is wrong", "! notice 1: something is wrong"]
    assert any(line.startswith("7        65 s  1 cpu, 2000 MB  room 0") for line in lines)
    assert lines[-2:] == ["last action, 90 s ago: launch 2 of ec2/m5.large: 8 jobs wait", KEYS]


@pytest.mark.parametrize(("width", "height"), itertools.product((1, 10, 20, 40, 79, 200), (1, 2, 3, 5, 12, 24, 200)))
@pytest.mark.parametrize("nodes", [0, 1, 500])
def test_no_frame_is_larger_than_its_screen(screen: Screen, width: int, height: int, nodes: int) -> None:
    screen.width = width
    lines = shown(screen, a_status(nodes, groups=9, notices=9), height, trouble="no answer " * 9, silent_s=900.0)
    assert len(lines) <= height
    assert max(map(columns, lines)) <= width
    assert all(columns(line) <= width for line in help_frame(screen, Size(height)))


def test_machines_in_trouble_stand_first_and_the_rest_can_be_scrolled_to(screen: Screen) -> None:
    size = Size(20)

    def nodes() -> list[str]:
        return re.findall(r"^(i-\d+)", "\n".join(shown(screen, a_status(notices=0, groups=0), size=size)), re.M)

    first = nodes()
    assert first[0] == "i-0029" and all(int(name[2:]) % 5 == 4 for name in first[:6])
    size.scroll = 5
    assert nodes()[0] == first[5]
    size.scroll = 1000
    last = nodes()
    assert len(last) == len(first) and size.scroll == 30 - len(first)
    size.scroll = -7
    assert nodes() == first and size.scroll == 0


def test_many_notices_leave_room_for_the_nodes_and_are_counted(screen: Screen) -> None:
    lines = shown(screen, a_status(notices=30), 24)
    assert sum(line.startswith("!") for line in lines) < 8
    assert any(re.fullmatch(r"! and \d+ notices more: elastiqctl status", line) for line in lines)
    assert any(line.startswith("i-") for line in lines)


def test_a_status_that_cannot_be_renewed_is_said_to_be_old(screen: Screen) -> None:
    lines = shown(screen, a_status(), trouble="elastiq is not running", silent_s=120.0)
    assert "! elastiq is not running" in lines
    assert "! the decision loop has been silent for 2 min: it hangs" in lines


@pytest.mark.parametrize(
    ("counts", "most", "drawn"),
    [
        ({}, 0, "."),
        ({}, 20, "." * 10),
        ({"busy": 3, "idle": 1}, 6, "###=.."),
        ({"busy": 50, "idle": 50}, 100, "#####====="),
        ({"busy": 1}, 1000, "#" + "." * 9),
        ({"busy": 30, "lost": 1}, 20, "##########"),
        ({"stopped": 2, "draining": 1, "requested": 1}, 4, "+~zz"),
    ],
)
def test_the_bar_draws_machines_or_shares_of_them(counts: dict[str, int], most: int, drawn: str) -> None:
    assert bar(counts, most, 10) == drawn


def test_colours_change_no_letter(screen: Screen) -> None:
    plain = shown(screen, a_status())
    screen.colour = True
    coloured = shown(screen, a_status())
    assert "\033[32m" in "".join(coloured)
    assert [re.sub(r"\033\[\d*m", "", line) for line in coloured] == plain


def test_foreign_names_command_no_terminal(screen: Screen) -> None:
    evil = "\033[2J\nx\x9b"
    nodes = [a_node(1, worker=evil, explanation=evil), a_node(2, id=evil)]
    status = a_status(notices=0, cluster=evil, nodes=0) | {"nodes": nodes, "notices": [evil]}
    text = "".join(shown(screen, status))
    assert text.isprintable() and "?[2J?x?" in text
