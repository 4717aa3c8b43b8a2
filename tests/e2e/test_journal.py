"""What systemd's journal makes of the log, on a booted machine."""

from __future__ import annotations

import json
import shutil
from typing import Any

from tests.e2e import booted
from tests.e2e.rig import places

PROGRAM = """\
import logging
from elastiq import logs
logs.setup("debug", "text")
log = logging.getLogger("elastiq.service")
for word in ("debug", "info", "warning", "error", "critical"):
    getattr(log, word)("said at %s", word)
log.info("<0>pretends")
try:
    raise RuntimeError("x")
except RuntimeError:
    log.exception("failed")
"""
UNIT = "said.service"


def test_journalctl_shows_levels_once_and_times_once(machine: booted.Machine) -> None:
    there = machine.host_path("/opt/elastiq")
    shutil.copytree(places.REPOSITORY / "elastiq", there, ignore=shutil.ignore_patterns("__pycache__", "plugins"))
    machine.put("/opt/say.py", PROGRAM)
    machine.run("systemd-run", f"--unit={UNIT}", "--wait", "--setenv=PYTHONPATH=/opt", "python3", "/opt/say.py")
    machine.run("journalctl", "--sync")

    def entries(*filters: str) -> list[dict[str, Any]]:
        lines = machine.run("journalctl", "--output=json", f"_SYSTEMD_UNIT={UNIT}", *filters).splitlines()
        return [json.loads(line) for line in lines]

    assert [(entry["PRIORITY"], entry["MESSAGE"]) for entry in entries()][:6] == [
        ("7", "said at debug"),
        ("6", "said at info"),
        ("4", "said at warning"),
        ("3", "said at error"),
        ("2", "said at critical"),
        ("6", "<0>pretends"),
    ]
    assert {entry["PRIORITY"] for entry in entries()[6:]} == {"3"} and len(entries()) >= 9, "a traceback has its level"
    assert [entry["MESSAGE"] for entry in entries("--priority=warning")][:3] == [
        "said at warning",
        "said at error",
        "said at critical",
    ]
