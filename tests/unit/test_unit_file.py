"""systemd/elastiq.service: what an administrator relies on. On a booted machine: tests/e2e/test_service.py."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from elastiq.exits import EXIT_CONFIG
from elastiq.service import LEAVE_S

UNIT = Path(__file__).resolve().parents[2] / "systemd/elastiq.service"
MOST_EXPOSED = 3.0


def said() -> dict[str, str]:
    pairs = [line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match(r"[A-Za-z]", line)]
    assert len(dict(pairs)) == len(pairs), "a key that is there twice"
    return dict(pairs)


def test_a_daemon_that_fails_is_started_again_for_ever_and_later_and_later() -> None:
    unit = said()
    assert (unit["Restart"], unit["StartLimitIntervalSec"]) == ("always", "0")
    assert 0 < int(unit["RestartSec"]) < int(unit["RestartMaxDelaySec"]) <= 600 and int(unit["RestartSteps"]) > 1


def test_a_wrong_configuration_is_not_tried_again() -> None:
    assert said()["RestartPreventExitStatus"] == str(EXIT_CONFIG)


def test_the_watchdog_and_the_end_leave_the_daemon_its_time() -> None:
    unit = said()
    assert (unit["Type"], unit["NotifyAccess"]) == ("notify", "main")
    assert int(unit["WatchdogSec"]) >= 30
    assert int(unit["TimeoutStopSec"]) > LEAVE_S


def test_everything_it_writes_is_in_a_directory_that_systemd_makes() -> None:
    unit = said()
    words = unit["ExecStart"].split()
    assert words[:3] == ["/usr/bin/elastiq", "--config", "/etc/elastiq.conf"]
    places = dict(zip(words[3::2], words[4::2]))
    assert places == {"--statedir": "/var/lib/elastiq", "--rundir": "/run/elastiq"}
    assert {unit[f"{kind}Directory"] for kind in ("State", "Runtime", "Logs")} == {"elastiq"}
    assert {unit[f"{kind}DirectoryMode"] for kind in ("State", "Runtime", "Logs")} == {"0750"}


def test_fs_authentication_has_the_tmp_that_htcondor_sees() -> None:
    unit = said()
    assert "PrivateTmp" not in unit and unit["ReadWritePaths"] == "-/tmp"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_it_little_exposed() -> None:
    argv = ["systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}"]
    done = subprocess.run([*argv, str(UNIT)], capture_output=True, text=True, timeout=60, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd before 250 rates no unit that is not loaded")
    found = re.search(r"Overall exposure level for elastiq\.service: ([0-9.]+)", done.stdout)
    assert found and float(found[1]) <= MOST_EXPOSED and done.returncode == 0
