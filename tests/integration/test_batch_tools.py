"""A batch system's own commands: found where they lie, ended at their deadline, and believed only if they succeed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from elastiq.interfaces import SourceError
from elastiq.plugins.batch.tools import Tools, failed
from tests.waiting import PATIENCE_S

HINT = "install bat-tools"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "bin"
    made.mkdir()
    return made


def command(folder: Path, text: str, name: str = "batq") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def tools(folder: Path, timeout_s: float = 20.0, **more: Any) -> Tools:
    return Tools(timeout_s, HINT, str(folder), **more)


def test_what_a_command_prints_is_its_answer(folder: Path) -> None:
    command(folder, 'echo "$@"; cat')
    assert tools(folder).ask("batq", "-f", "two words", stdin=b"more\n") == "-f two words\nmore\n"


def test_a_command_of_the_folder_goes_before_one_of_the_path_also_for_those_that_it_calls(folder: Path) -> None:
    command(folder, "uname")
    command(folder, "echo ours", "uname")
    assert tools(folder).ask("batq") == "ours\n"


def test_without_a_folder_the_path_is_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command(folder, "echo here")
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    assert Tools(20.0, HINT).ask("batq") == "here\n"


def test_it_speaks_no_language_and_has_what_the_plugin_sets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    command(folder, 'echo "$LC_ALL $BAT_ROOT"')
    assert tools(folder, environment={"BAT_ROOT": "/opt/bat"}).ask("batq") == "C /opt/bat\n"


def test_variables_that_would_change_what_it_says_are_kept_from_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATQ_ONLY_MINE", "yes")
    monkeypatch.setenv("OTHER", "stays")
    command(folder, 'echo "$BATQ_ONLY_MINE-$OTHER"')
    assert tools(folder, but=("BATQ_",)).ask("batq") == "-stays\n"


def test_a_command_that_is_not_there_says_what_to_install(folder: Path) -> None:
    with pytest.raises(SourceError, match=HINT) as caught:
        tools(folder).ask("batq")
    assert "batq" in str(caught.value) and "\n" not in str(caught.value)


def test_a_command_that_fails_has_not_answered_whatever_it_printed(folder: Path) -> None:
    command(folder, "echo '[]'; echo 'cannot connect to batd' >&2; exit 3")
    with pytest.raises(SourceError) as caught:
        tools(folder).ask("batq", "-x")
    assert str(caught.value) == "batq -x failed with exit code 3: cannot connect to batd"


def test_how_it_ended_can_be_asked(folder: Path) -> None:
    command(folder, "echo partly; exit 3")
    result = tools(folder).run("batq")
    assert (result.returncode, result.text) == (3, "partly\n")


def test_a_long_command_line_is_not_told_whole(folder: Path) -> None:
    command(folder, "exit 1")
    result = tools(folder).run("batq")
    assert str(failed(result, ["batq", "x" * 100])) == "batq failed with exit code 1"


def test_a_command_that_never_ends_is_ended_with_all_that_it_started(folder: Path) -> None:
    command(folder, "sleep 300 & echo begun; wait")
    began = time.monotonic()
    with pytest.raises(SourceError) as caught:
        tools(folder, timeout_s=0.4).ask("batq")
    assert time.monotonic() - began < PATIENCE_S, "not at its own end"
    assert "batq" in str(caught.value) and HINT not in str(caught.value)


def test_one_call_may_have_a_deadline_of_its_own(folder: Path) -> None:
    command(folder, "sleep 300")
    with pytest.raises(SourceError):
        tools(folder).run("batq", timeout_s=0.3)


def test_where_a_command_lies_is_told_of_those_that_we_may_execute(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(folder, "true")
    (folder / "text").write_text("no program")
    assert tools(folder).where("batq") == str(folder / "batq")
    assert tools(folder).where("text") is None and tools(folder).where("sh") is None
    monkeypatch.setenv("PATH", str(folder))
    assert Tools(20.0, HINT).where("batq") == str(folder / "batq")


def test_what_is_not_there_is_told_with_the_folder_that_was_to_have_it(folder: Path) -> None:
    command(folder, "true")
    assert tools(folder).absent("batq", key="bin_dir") == ""
    assert tools(folder).absent("batq", "no", "not", key="bin_dir") == f"no, not not found in bin_dir {folder}"
    gone = tools(folder / "gone").absent("batq", key="bin_dir")
    assert gone == f"batq not found in bin_dir {folder}/gone, which is no directory"
    assert Tools(20.0, HINT).absent("no-such-tool", key="bin_dir") == "no-such-tool not found"
