"""elastiqctl log of a service whose log is in systemd's journal, in the form of the log files."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any, Mapping, Optional

from elastiq.cli.asking import FAILED, UNKNOWN, tell

READ_S = 30.0  # the end of a long journal that is not in memory
ENOUGH = 20  # lines of a start that failed
LEVELS = {"0": "CRITICAL", "1": "CRITICAL", "2": "CRITICAL", "3": "ERROR", "4": "WARNING", "7": "DEBUG"}  # else INFO


def show(unit: str, lines: int, follow: bool, as_json: bool) -> int:
    """Print the unit's last lines, and with ``follow`` all further ones until Ctrl-C; ``as_json``: each as an object,
    its text as `line` if it is none. Returns the exit code."""
    asked = _journalctl(unit, f"--lines={lines}")
    if (why := _why_not(asked)) is not None:
        return why
    asked += ["--follow"] if follow else []
    any_there = lines == 0 or follow
    with subprocess.Popen(asked, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            for entry in process.stdout:
                any_there = True
                for line in _lines(entry):
                    print(json.dumps({"line": line}) if as_json and line[:1] != "{" else line, flush=follow)
        except KeyboardInterrupt:  # how one leaves
            return 0
        finally:
            process.terminate()
    if not any_there:
        tell("the journal has nothing of elastiq: it has not been started, or what it said is too old")
    return FAILED if process.returncode > 0 else 0


def lines_since(unit: str, moment: float) -> list[str]:
    """What the unit and systemd said since a moment (seconds of the epoch), its last lines; none where that is not
    ours to read."""
    try:
        if os.geteuid() == 0:  # what was said last may still be on its way
            subprocess.run(["journalctl", "--sync"], capture_output=True, timeout=READ_S, check=False)
        asked = _journalctl(unit, f"--lines={ENOUGH}", f"--since=@{moment:.6f}", "--quiet")
        done = subprocess.run(asked, capture_output=True, timeout=READ_S, check=False)
    except (subprocess.TimeoutExpired, FileNotFoundError):
        return []
    return [text for line in done.stdout.splitlines() for text in _lines(line)]


def last_error(unit: str, invocation: str) -> str:
    """The last that a process of the unit called an error, in that run of it; empty where there is none, or that is not
    ours to read."""
    if not invocation:  # of a unit that was never started, or is forgotten
        return ""
    asked = ["journalctl", "--no-pager", "--output=cat", "--all", "--quiet", "--priority=err", "--lines=1"]
    asked += [f"_SYSTEMD_UNIT={unit}", f"_SYSTEMD_INVOCATION_ID={invocation}"]  # not what systemd says of it
    try:
        done = subprocess.run(asked, capture_output=True, timeout=READ_S, check=False)
    except (subprocess.TimeoutExpired, FileNotFoundError):
        return ""
    return " ".join(done.stdout.decode("utf-8", "replace").split())


def _journalctl(unit: str, *more: str) -> list[str]:
    # all: without it, a long message is left out of the object
    return ["journalctl", "--no-pager", "--output=json", "--all", f"--unit={unit}", *more]


def _lines(entry: bytes) -> list[str]:
    """An entry of the journal as lines of the log; elastiq leaves time and level to the journal."""
    found: Mapping[str, Any] = json.loads(entry)
    message = found.get("MESSAGE") or ""
    if isinstance(message, list):  # of bytes that are no text: systemd.io/JOURNAL_EXPORT_FORMATS
        message = bytes(message).decode("utf-8", "replace")
    if message.startswith("{"):  # log_format = json: it has all of its own
        return [str(message)]
    at = time.localtime(int(found["__REALTIME_TIMESTAMP"]) / 1e6)
    head = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z', at)} {LEVELS.get(found.get('PRIORITY', ''), 'INFO')}"
    who = found.get("SYSLOG_IDENTIFIER") or "elastiq"  # or systemd
    return [f"{head} {who}: {line}" for line in message.splitlines() or [""]]


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
