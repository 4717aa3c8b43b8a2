"""What is told on the way, and only where somebody looks on."""

from __future__ import annotations

import sys

import pytest

from elastiq.cli.progress import Progress


@pytest.mark.parametrize("looks_on", [True, False])
def test_a_line_that_stays_is_for_a_terminal_only(
    looks_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: looks_on)
    with Progress() as progress:
        progress.show(0.5, "half of it")
        progress.say("played 2 jobs")
    out, err = capsys.readouterr()
    assert out == "" and err.endswith("\033[Kplayed 2 jobs\n" if looks_on else "")
    assert bool(err) == looks_on
