"""What the packages' scripts say and do: of machines that are left behind, and of what is not stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Optional

import pytest

from elastiq.cli import packaged
from elastiq.cli.copied import STATE
from elastiq.nodes import Node, State
from elastiq.paths import Paths
from elastiq.store import Store

Leave = Callable[..., list[str]]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(*(tmp_path / name for name in ("elastiq.conf", "log", "state", "run")))


@pytest.fixture
def leave(paths: Paths) -> Leave:
    """What is said of a state with nodes in these states."""

    def said(*states: State) -> list[str]:
        paths.statedir.mkdir()
        store = Store(str(paths.statedir / STATE))
        store.save([Node(id=f"x.{n}", state=state, pool="p", site="s") for n, state in enumerate(states)])
        store.close()
        return packaged.left_behind(paths)

    return said


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ((), []),
        ((State.TERMINATING,), []),
        ((State.BUSY,), ["leaves 1 machine behind: it runs on, and nobody ends it now"]),
        ((State.IDLE, State.LOST, State.FAILED), ["leaves 3 machines behind: they run on, and nobody ends them now"]),
        ((State.STOPPED,), ["leaves 1 machine behind that can be started again: disks cost, and nobody ends them"]),
        ((State.REQUESTED,) * 2, ["leaves the launch of 2 machines unsettled: look at the cloud's own list"]),
    ],
)
def test_a_removal_tells_of_each_machine_that_is_left(leave: Leave, states: tuple[State, ...], said: list[str]) -> None:
    assert leave(*states) == said


def test_without_a_state_nothing_is_left(paths: Paths) -> None:
    assert packaged.left_behind(paths) == []


def test_a_state_that_cannot_be_read_is_not_a_state_without_machines(paths: Paths) -> None:
    paths.statedir.mkdir()
    (paths.statedir / STATE).write_bytes(b"no state at all" * 100)

    (line,) = packaged.left_behind(paths)

    assert line.startswith("how many machines run on is not known (") and "the cloud's own list" in line


@pytest.mark.parametrize(("code", "allowed"), [(0, True), (104, True), (101, False), (1, False)])
def test_the_local_policy_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, allowed: bool) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(f'#!/bin/sh\n[ "$*" = "elastiq.service restart" ] || exit 103\nexit {code}\n')
    policy.chmod(0o755)
    monkeypatch.setattr(packaged, "POLICY", policy)

    assert packaged.policy_allows() is allowed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            None,
            "there is no {config}: install -m 640 -g elastiq {installed} {config}, set five keys, then run: "
            "elastiqctl start",
        ),
        ("as installed\n", "set five keys in {config} (it says which), then run: elastiqctl start"),
        ("changed\n", "it did not run before, and {config} was kept; to start it: elastiqctl start"),
    ],
)
def test_an_installation_starts_nothing_and_says_what_is_to_be_done(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    text: Optional[str], said: str,
) -> None:  # fmt: skip
    installed = tmp_path / "installed.conf"
    installed.write_text("as installed\n")
    monkeypatch.setattr(packaged, "INSTALLED", installed)
    monkeypatch.setattr(packaged, "STOPPED", tmp_path / "stopped")
    if text is not None:
        paths.config.write_text(text)

    assert packaged.after(None, paths) == 0

    expected = said.format(config=paths.config, installed=installed)
    assert capsys.readouterr().out == f"elastiq is not started: {expected}\n"
