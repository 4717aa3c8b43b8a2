"""elastiqctl check makes every look by itself: none hides another, whatever it does."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable, Iterable, Iterator

import pytest

from elastiq import command
from elastiq.cli.side_by_side import AT_ONCE, Finding, found, worst
from elastiq.interfaces import Check, SourceError
from tests.waiting import PATIENCE_S, until

Look = Callable[[], Iterable[Check]]


def says(subject: str, level: str = "ok") -> Look:
    return lambda: [Check(subject, level, "said")]


def levels(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    return [(one.source, one.check.subject, one.check.level) for one in findings]


def test_what_is_found_comes_in_the_order_of_the_sources_and_their_looks() -> None:
    def slow() -> Iterator[Check]:
        time.sleep(0.05)
        yield Check("a", "ok", "late")
        yield Check("a, too", "error", "late")

    made = found({"x": {"a": slow, "b": says("b", "warning")}, "y": {}, "z": {"c": says("c")}}, PATIENCE_S)
    assert levels(made) == [("x", "a", "ok"), ("x", "a, too", "error"), ("x", "b", "warning"), ("z", "c", "ok")]


def test_a_look_that_finds_nothing_out_is_unknown_and_hides_no_other() -> None:
    def fails() -> Iterator[Check]:
        yield Check("a", "ok", "half")
        raise SourceError("the collector\ndoes not answer")

    first, second = found({"x": {"a": fails, "b": says("b")}}, PATIENCE_S)
    assert (first.check.level, first.check.text) == ("unknown", "the collector does not answer")
    assert second.check.level == "ok"


def test_a_fault_of_a_plugin_is_told_without_what_it_handled() -> None:
    def faulty() -> Iterator[Check]:
        raise KeyError("a-secret")

    made, other = found({"x": {"a": faulty, "b": says("b")}}, PATIENCE_S)
    assert made.check.level == "unknown" and made.check.remedy == "please report it"
    assert "KeyError" in made.check.text and "test_check_side_by_side.py" in made.check.text
    assert "a-secret" not in repr(made) and other.check.level == "ok"


def test_a_file_that_cannot_be_read_is_named() -> None:
    def fails() -> Iterator[Check]:
        raise PermissionError(13, "Permission denied", "/var/lib/elastiq")
        yield

    (made,) = found({"x": {"a": fails}}, PATIENCE_S)
    assert (made.check.level, made.check.text) == ("unknown", "/var/lib/elastiq: Permission denied")


def test_looks_that_hang_are_unknown_at_their_deadline_however_many_they_are() -> None:
    never = threading.Event()

    def hangs() -> Iterator[Check]:
        never.wait(600)
        yield Check("late", "ok", "too late")

    looks: dict[str, Look] = {**{f"h{number}": hangs for number in range(AT_ONCE + 1)}, "last": says("last")}
    told: list[list[str]] = []
    began = time.monotonic()
    made = found({"x": looks, "y": {"b": says("b")}}, 2, told.append)
    assert time.monotonic() - began < PATIENCE_S, "not when they answer"
    never.set()
    assert {level for _, subject, level in levels(made) if subject.startswith("h")} == {"unknown"}
    assert levels(made)[-2:] == [("x", "last", "ok"), ("y", "b", "ok")]
    assert "no answer within 2 s" in made[0].check.text and made[0].check.remedy


def test_a_command_that_hangs_is_ended_with_its_look() -> None:
    ended = threading.Event()

    def hangs() -> Iterator[Check]:
        try:
            command.run(["sleep", "300"], timeout_s=300)
        finally:
            ended.set()
        yield Check("a", "ok", "never")

    (made,) = found({"x": {"a": hangs}}, 0.2)
    assert made.check.level == "unknown" and ended.wait(PATIENCE_S)
    assert command.run(["true"], timeout_s=10).returncode == 0, "others can run again"


def test_sources_and_the_looks_of_each_are_made_side_by_side() -> None:
    together = threading.Barrier(2 * AT_ONCE)  # which nobody passes alone

    def look() -> Iterator[Check]:
        together.wait(PATIENCE_S)
        yield Check("a", "ok", "met")

    sources = {source: {f"{number}": look for number in range(AT_ONCE)} for source in ("x", "y")}
    assert {level for _, _, level in levels(found(sources, PATIENCE_S))} == {"ok"}


def test_a_person_who_waits_is_told_for_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastiq.cli.side_by_side.PATIENCE_S", 0.1)
    go, told = threading.Event(), list[list[str]]()

    def waits() -> Iterator[Check]:
        go.wait(PATIENCE_S)
        yield Check("a", "ok", "at last")

    def slow(whom: list[str]) -> None:
        told.append(whom)
        go.set()

    made = found({"x": {"a": waits, "b": says("b")}}, PATIENCE_S, slow)
    assert levels(made) == [("x", "a", "ok"), ("x", "b", "ok")] and told == [["x: a"]]


def test_unknown_is_worse_than_a_warning_and_an_error_is_worst() -> None:
    checks = [Check("a", level, "said") for level in ("ok", "unknown", "warning")]
    assert worst(checks) == "unknown"
    assert worst([*checks, Check("a", "error", "said")]) == "error"
    assert worst([]) == "ok"


def test_somebody_who_has_seen_enough_leaves_no_command_behind(tmp_path: Path) -> None:
    script = f"""
import sys
from elastiq import command
from elastiq.cli.side_by_side import found

def hangs():
    command.run(["sh", "-c", "echo $$ >{tmp_path}/pid; exec sleep 300"], timeout_s=300)

found({{"x": {{"a": hangs}}}}, 300)
"""
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as process:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) != 0
    pid = (tmp_path / "pid").read_text().strip()
    until(lambda: not Path(f"/proc/{pid}").exists(), "it is dead, and whose child it was then has noticed")


@pytest.mark.parametrize("started", range(3))
def test_whoever_has_seen_enough_while_the_looks_are_being_started_leaves_no_command_behind(
    started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes when it likes: here while so many lanes of looks work already."""
    ends: list[Exception] = []
    begun = threading.Event()
    count = itertools.count()
    start = threading.Thread.start

    def hangs() -> Iterable[Check]:
        begun.set()
        try:
            command.run(["sleep", "300"], timeout_s=300)
        except command.CommandError as error:
            ends.append(error)
            raise SourceError("ended") from None
        return ()

    def interrupted(thread: threading.Thread) -> None:
        lane = thread.name.startswith("elastiq check")
        if lane and next(count) == started:
            assert not started or begun.wait(PATIENCE_S)
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            found({"x": dict.fromkeys("abc", hangs)}, 300)
        assert command.stopping.is_set(), "no command begins any more"
        until(lambda: not any(one.name.startswith("elastiq check") for one in threading.enumerate()))
        assert [type(error) for error in ends] == [command.CommandInterrupted] * (3 if started else 0)
    finally:
        command.stopping.clear()


def test_a_look_that_is_just_being_started_is_no_obstacle_for_who_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is known before its thread runs, and a thread that does not run yet cannot be waited for."""
    start, lanes = threading.Thread.start, itertools.count()

    def interrupted(thread: threading.Thread) -> None:
        if not thread.name.startswith("elastiq check"):
            known.set()
            assert left.wait(PATIENCE_S)
        elif next(lanes):
            assert known.wait(PATIENCE_S)
            raise KeyboardInterrupt
        start(thread)

    known, left = threading.Event(), threading.Event()
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            found({"x": {"a": says("a"), "b": says("b")}}, 300)
    finally:
        left.set()
        until(lambda: not any(one.name.startswith("elastiq check") for one in threading.enumerate()))
        command.stopping.clear()
