"""elastiqctl log of a service whose log is in systemd's journal."""

from __future__ import annotations

import os
import subprocess
from typing import Optional

from elastiq.cli.asking import FAILED, UNKNOWN, tell

SYNC_S = 10.0
ENOUGH = 20  # lines of a start that failed


def show(unit: str, lines: int, follow: bool) -> int:
    """Print the unit's last lines, and with ``follow`` all further ones until Ctrl-C. Returns the exit code."""
    asked = _journalctl(unit, f"--lines={lines}")
    if (why := _why_not(asked)) is not None:
        return why
    try:
        done = subprocess.run([*asked, *(["--follow"] if follow else [])], stdin=subprocess.DEVNULL, check=False)
    except KeyboardInterrupt:  # how one leaves
        return 0
    return FAILED if done.returncode > 0 else 0  # a signal: the reader has had enough


def lines_since(unit: str, moment: float) -> list[str]:
    """What the unit and systemd said since a moment (seconds of the epoch), its last lines; none where that is not
    ours to read."""
    try:
        if os.geteuid() == 0:  # what was said last may still be on its way
            subprocess.run(["journalctl", "--sync"], capture_output=True, timeout=SYNC_S, check=False)
        asked = _journalctl(unit, f"--lines={ENOUGH}", f"--since=@{moment:.6f}", "--quiet")
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace", timeout=SYNC_S, check=False)
    except (subprocess.TimeoutExpired, FileNotFoundError):
        return []
    return done.stdout.splitlines()


def _journalctl(unit: str, *more: str) -> list[str]:
    # cat: the lines have their own time, as those of the log files
    return ["journalctl", "--no-pager", "--output=cat", f"--unit={unit}", *more]


def _why_not(asked: list[str]) -> Optional[int]:
    """An exit code after saying why there is nothing to see; None if there is."""
    if os.geteuid() == 0:
        return None
    # Without the right to see other users' messages, journalctl finds none and goes on: its hint is all it says.
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        [*asked, "--lines=1"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        check=False,
    )  # fmt: skip
    if "insufficient permissions" in done.stderr or "not seeing messages" in done.stderr:
        tell("no permission to read the log of the service: it is for root and the groups adm and systemd-journal")
        return UNKNOWN
    return None
