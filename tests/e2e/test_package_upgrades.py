"""Installations, upgrades and removals where something is in the way: a service that is masked or disabled, a mistake
in the configuration, a daemon that was started by hand, no systemd. What runs is not left down, and none left behind.
"""

from __future__ import annotations

import subprocess

import pytest

from tests.e2e import booted
from tests.e2e.cluster import wait_for
from tests.e2e.packages import HIGHER, Packages, install, put

CONFIGURATION = "/etc/elastiq.conf"
DIRECTORIES = ("--config", CONFIGURATION, "--statedir", "/var/lib/elastiq", "--rundir", "/run/elastiq")
# What a chroot or a container has not: /run/systemd/system says whether systemd runs the machine, sd_booted(3).
NO_SYSTEMD = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run/systemd && exec "$@"', "sh")
REMEMBER = """
import sys
sys.path.insert(0, "/usr/share/elastiq")
from elastiq.nodes import Node, State
from elastiq.store import Store
Store("/var/lib/elastiq/elastiq.db").save([Node(id="x.1", state=State.IDLE, pool="ec2", site="s", instance_id="i-1")])
"""


@pytest.fixture
def configured(machine: booted.Machine, packages: Packages) -> booted.Machine:
    """A machine with elastiq, be it of this version or of the higher one, its keys set, and running."""
    if not machine.exists("/usr/bin/elastiq"):
        install(machine, packages.deb)
    set_keys(machine)
    machine.run("elastiqctl", "start")
    return machine


def set_keys(machine: booted.Machine) -> None:
    values = {"image_id": "ami-1", "region": "eu-west-1", "flavour": "c5.large", "cluster_name": "c"}
    machine.run("sed", "--in-place", "; ".join(f"s/^{k} =.*/{k} = {v}/" for k, v in values.items()), CONFIGURATION)


def main_pid(machine: booted.Machine) -> str:
    found = machine.unit("elastiq", "ActiveState", "MainPID")
    assert found["ActiveState"] == "active"
    return found["MainPID"]


def daemons(machine: booted.Machine) -> list[str]:
    return machine.ask("pgrep", "--full", "/usr/bin/elastiq |elastiq[.]service --").stdout.split()


def ask(machine: booted.Machine, *words: str) -> str:
    done: subprocess.CompletedProcess[str] = machine.ask(*words, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_masked_service_is_installed_and_stays_masked(machine: booted.Machine, packages: Packages) -> None:
    machine.run("systemctl", "mask", "elastiq.service")

    install(machine, packages.deb)

    assert machine.run("dpkg-query", "--show", "--showformat=${Status}", "elastiq") == "install ok installed"
    assert machine.ask("systemctl", "is-enabled", "elastiq").stdout.strip() == "masked"
    machine.run("systemctl", "unmask", "elastiq")


def test_an_upgrade_asks_nothing_and_restarts_a_service_that_is_disabled(
    configured: booted.Machine, higher: Packages
) -> None:
    configured.run("systemctl", "disable", "elastiq")
    before, text = main_pid(configured), configured.read(CONFIGURATION)

    install(configured, higher.deb)

    assert main_pid(configured) != before and configured.read(CONFIGURATION) == text
    assert configured.ask("systemctl", "is-enabled", "elastiq").stdout.strip() == "disabled"


def test_what_could_not_be_started_again_is_not_stopped_by_an_upgrade(
    configured: booted.Machine, packages: Packages, higher: Packages
) -> None:
    before = main_pid(configured)
    configured.run("systemctl", "mask", "elastiq")
    said = install(configured, higher.deb)
    assert main_pid(configured) == before and "systemctl unmask elastiq; elastiqctl restart" in said

    configured.run("systemctl", "unmask", "elastiq")
    configured.run("sed", "--in-place", "s/^flavour/flavor/", CONFIGURATION)
    said = install(configured, higher.deb)
    assert main_pid(configured) == before
    assert f"{CONFIGURATION}:" in said and "[ec2]" in said and "flavor" in said and "elastiqctl restart" in said

    configured.run("sed", "--in-place", "s/^flavor/flavour/", CONFIGURATION)
    configured.run("elastiqctl", "restart")
    assert HIGHER in configured.run("elastiqctl", "status", "--json")


def test_removed_while_it_is_stopped_it_tells_of_machines(configured: booted.Machine, packages: Packages) -> None:
    configured.run("elastiqctl", "stop")
    configured.run("python3", "-I", "-c", REMEMBER, user="elastiq")

    said = ask(configured, "apt-get", "remove", "--yes", "elastiq")

    assert "elastiq: leaves 1 machine behind: it runs on" in said
    assert "to start it: elastiqctl start" in install(configured, packages.deb)


def test_one_that_was_started_by_hand_is_named_by_an_upgrade_and_stopped_by_a_removal(
    configured: booted.Machine, higher: Packages
) -> None:
    configured.run("elastiqctl", "stop")
    by_hand = ("setsid", "--fork", "elastiq", *DIRECTORIES)
    configured.run("sh", "-c", 'exec "$@" </dev/null >/dev/null 2>&1', "sh", *by_hand, user="elastiq")
    wait_for(lambda: configured.ask("elastiqctl", "status").returncode == 0, 20, "its answer")
    (pid,) = daemons(configured)

    said = install(configured, higher.deb)
    assert daemons(configured) == [pid] and f"by hand (pid {pid})" in said

    ask(configured, "apt-get", "remove", "--yes", "elastiq")
    assert daemons(configured) == []


def test_a_purge_after_that_names_what_it_leaves(machine: booted.Machine) -> None:
    machine.run("mkdir", "--parents", "/etc/credstore")
    for place in ("/etc/credstore/elastiq-aws", "/etc/elastiq.user-data"):
        machine.put(place, "secret", 0o600)

    said = ask(machine, "apt-get", "purge", "--yes", "elastiq")

    assert "/etc/credstore/elastiq-aws stays" in said and "/etc/elastiq.user-data stays" in said
    assert not machine.exists(CONFIGURATION)


def test_without_systemd_it_says_what_to_do_and_restarts_and_stops_what_runs(
    machine: booted.Machine, packages: Packages, higher: Packages
) -> None:
    apt = (*NO_SYSTEMD, "apt-get", "--yes")
    assert not machine.exists("/usr/bin/elastiq")
    assert f"set five keys in {CONFIGURATION}" in ask(machine, *apt, "install", put(machine, packages.deb))
    set_keys(machine)
    machine.run(*NO_SYSTEMD, "elastiqctl", "start")
    (before,) = daemons(machine)

    ask(machine, *apt, "install", put(machine, higher.deb))
    (now,) = daemons(machine)
    assert now != before

    ask(machine, *apt, "remove", "elastiq")
    assert daemons(machine) == []
