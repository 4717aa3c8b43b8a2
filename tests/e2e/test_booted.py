"""That a booted machine does what the tests of packages and of the service rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import booted
from tests.e2e.rig import places
from tests.e2e.rig.process import RigError, poll


def test_systemd_is_pid_1_and_nothing_has_failed(machine: booted.Machine) -> None:
    assert machine.run("ps", "-o", "comm=", "-p", "1").strip() == "systemd"
    assert machine.run("systemctl", "--failed", "--no-legend") == ""


def test_its_root_is_not_ours(machine: booted.Machine) -> None:
    machine.put("/etc/only-here", "yes")

    assert machine.run("cat", "/etc/only-here") == "yes"
    assert not (booted.system() / "etc/only-here").exists()


def test_a_reboot_keeps_files_and_forgets_what_runs(machine: booted.Machine) -> None:
    machine.put("/etc/kept", "yes")
    machine.put("/run/forgotten", "no")
    machine.run("systemd-run", "--unit=sleeper", "sleep", "600")

    machine.reboot()

    assert machine.read("/etc/kept") == "yes"
    assert not machine.exists("/run/forgotten")
    assert machine.unit("sleeper", "ActiveState") == {"ActiveState": "inactive"}


def test_a_command_that_fails_says_so(machine: booted.Machine) -> None:
    with pytest.raises(RigError, match=r"exit 2: .*nowhere"):
        machine.run("ls", "/nowhere")


def test_dependencies_come_from_the_cache(machine: booted.Machine) -> None:
    for package in booted.IN_CACHE:
        assert machine.ask("dpkg", "--status", package).returncode != 0

    machine.run("apt-get", "install", "--yes", *booted.IN_CACHE)

    machine.run("python3", "-c", "import boto3, pythonjsonlogger")


def test_nothing_of_a_machine_is_left(debian: None) -> None:
    def files() -> set[Path]:
        return set(places.base().glob(f"elastiq-{os.getpid()}-*"))

    before = files()
    with booted.machine() as made:
        made.put("/etc/x", "x")
        assert files() > before

    assert files() == before


def test_a_machine_ends_with_the_test_run_however_that_ends(debian: None) -> None:
    code = "from tests.e2e import booted; m = booted.Machine(); m.start(); print(m.pid, flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=places.REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        inside = Path("/proc") / run.stdout.readline().decode().strip()
        assert (inside / "comm").read_text() == "systemd\n"
        run.kill()

    assert poll(lambda: not inside.exists(), 60)
