"""The packages: as they are built, as the distributions' tools see them, and the Debian package's whole life.

The last part is one story on one head node, told in order: installed, configured, started, upgraded and rebooted with
machines at work, removed, purged.
"""

from __future__ import annotations

import re
import subprocess
from typing import Iterator

import pytest

from tests.e2e import booted
from tests.e2e.cluster import RUNNING, stays, wait_for
from tests.e2e.conftest import FAILED
from tests.e2e.daemon import DEFAULTS
from tests.e2e.headnode import HeadNode, head_node
from tests.e2e.packages import HIGHER, NEWS, Packages, Workshop, install, put
from tests.e2e.rig import places

CONFIGURATION = "/etc/elastiq.conf"


def run(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, f"{words[0]}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


# --------------------------------------------------------------------------- as they are built


@pytest.mark.timeout(300)
def test_the_same_commit_gives_the_same_bytes(packages: Packages, workshop: Workshop) -> None:
    clone = workshop.clone("another place", 0o077)

    again = workshop.build(clone, "again", 0o077, TZ="Asia/Tokyo", LC_ALL="C", SOURCE_DATE_EPOCH="")

    assert again.deb.name == packages.deb.name
    assert again.deb.read_bytes() == packages.deb.read_bytes()
    assert again.rpm.read_bytes() == packages.rpm.read_bytes()


def test_lintian_has_no_word_that_is_not_answered(packages: Packages) -> None:
    said = run("lintian", "--allow-root", "--display-info", "--pedantic", packages.deb).splitlines()

    # Of Debian 12's lintian, which wants scripts for another init; an override would be unknown to Debian 13's.
    assert [line for line in said if "package-supports-alternative-init-but-no-init.d-script" not in line] == []


def test_rpmlint_has_no_word_that_is_not_answered(packages: Packages) -> None:
    said = run("rpmlint", "--config", places.REPOSITORY / "packaging/rpm/rpmlint.toml", packages.rpm)

    assert "0 errors, 0 warnings" in said


def test_the_next_release_is_an_upgrade(packages: Packages, higher: Packages) -> None:
    old, new = (run("dpkg-deb", "--field", one.deb, "Version").strip() for one in (packages, higher))

    run("dpkg", "--compare-versions", old, "lt", new)
    assert new == f"{HIGHER}-1"


# --------------------------------------------------------------------------- a Debian head node


@pytest.fixture(scope="module")
def head(rig: None, debian: None) -> Iterator[HeadNode]:
    with head_node() as node:
        yield node


@pytest.fixture(autouse=True)
def _evidence(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if request.node.stash.get(FAILED, False) and "head" in request.fixturenames:
        print(request.getfixturevalue("head").evidence())


def configure(machine: booted.Machine, **more: dict[str, object]) -> None:
    """Write the configuration as an editor does that keeps owner and mode; ``more`` are further sections and keys."""
    sections = {**DEFAULTS, **{name: {**DEFAULTS.get(name, {}), **keys} for name, keys in more.items()}}
    lines: list[str] = []
    for name, keys in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in keys.items())]
    machine.run("sh", "-c", f"cat >{CONFIGURATION}", stdin="\n".join(lines))


def owner_and_mode(machine: booted.Machine, path: str) -> str:
    return machine.run("stat", "--format=%U:%G %a", path).strip()


def test_an_installation_starts_nothing_and_says_what_to_do(head: HeadNode, packages: Packages) -> None:
    machine = head.machine
    said = install(machine, packages.deb)

    assert "set five keys in /etc/elastiq.conf" in said
    assert owner_and_mode(machine, CONFIGURATION) == "root:elastiq 640"
    assert owner_and_mode(machine, "/var/lib/elastiq/tokens.d") == "elastiq:elastiq 700"
    assert machine.run("systemctl", "is-enabled", "elastiq").strip() == "enabled"
    assert machine.unit("elastiq", "ActiveState", "MainPID") == {"ActiveState": "inactive", "MainPID": "0"}
    assert machine.run("dpkg", "--verify", "elastiq") == ""


def test_another_python_gets_byte_code_of_its_own(head: HeadNode) -> None:
    compiled = "/usr/share/elastiq/elastiq/__pycache__"
    head.machine.run("rm", "-r", compiled)

    head.machine.run("/usr/share/python3/runtime.d/elastiq.rtupdate", "rtupdate", "python3.12", "python3.13")

    assert "service.cpython-313.pyc" in head.machine.run("ls", compiled)


def test_what_is_not_configured_does_not_start_and_is_no_failure(head: HeadNode) -> None:
    machine = head.machine
    machine.reboot()
    machine.run("systemctl", "start", "elastiq")
    told = machine.ask("elastiqctl", "start")

    assert machine.run("systemctl", "--failed", "--no-legend") == ""
    assert machine.unit("elastiq", "ActiveState", "NRestarts") == {"ActiveState": "inactive", "NRestarts": "0"}
    assert "not configured yet" in machine.journal("elastiq")
    assert told.returncode == 78 and "image_id" in told.stderr
    assert head.cloud.log() == []
    head.wait_for_htcondor()


def test_the_manual_pages_are_well_formed_and_found(head: HeadNode) -> None:
    for page, word in {"8 elastiq": "SIGNALS", "8 elastiqctl": "drain-pool", "5 elastiq.conf": "max_vms"}.items():
        done = head.machine.ask("env", "MANWIDTH=80", "MANROFFOPT=-ww", "man", "--warnings", *page.split())
        assert word in done.stdout and done.stderr == ""


def test_bash_completes_commands_options_and_files(head: HeadNode) -> None:
    script = """
        . /usr/share/bash-completion/bash_completion
        complete() { builtin complete "$@"; }
        _comp_load elastiqctl || _completion_loader elastiqctl
        function=$(builtin complete -p elastiqctl | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); $function; echo "${COMPREPLY[*]}"; }
        try elastiqctl sta; try elastiqctl log --no; try elastiqctl --config /etc/elastiq.c"""
    found = head.machine.run("bash", "-c", script).splitlines()

    assert [sorted(line.split()) for line in found] == [["start", "status"], ["--no-follow"], [CONFIGURATION]]


def test_plugins_of_others_are_found_where_the_distribution_puts_them(head: HeadNode) -> None:
    place = "/usr/lib/python3/dist-packages/somebodys-1.0.dist-info"
    head.machine.run("mkdir", place)
    head.machine.put(f"{place}/METADATA", "Metadata-Version: 2.1\nName: somebodys\nVersion: 1.0\n")
    head.machine.put(f"{place}/entry_points.txt", "[elastiq.batch]\nqueueing = somebodys:Batch\n")
    head.machine.put("/srv/other.conf", "[elastiq]\nbatch_plugin = x\n[ec2]\nimage_id = ami-1\n")

    said = head.machine.ask("elastiqctl", "--config", "/srv/other.conf", "conf")

    known = said.stderr.partition("known are: ")[2].split("\n")[0]
    assert said.returncode == 78 and {"htcondor", "slurm", "queueing"} <= set(re.findall(r"\w+", known)), said.stderr


def test_started_it_scales_the_pool_up_and_down(head: HeadNode) -> None:
    configure(head.machine)
    assert "elastiq started" in head.machine.run("elastiqctl", "start")
    assert head.machine.unit("elastiq", "ActiveState", "User") == {"ActiveState": "active", "User": "elastiq"}

    head.submit(8, 5)

    wait_for(lambda: len(head.alive()) == 2, 30, "two machines for eight jobs")
    wait_for(lambda: not head.jobs(), 40, "the end of all jobs")
    wait_for(lambda: not head.alive(), 40, "the end of the idle machines")
    assert len(head.cloud.instances()) == 2
    assert owner_and_mode(head.machine, CONFIGURATION) == "root:elastiq 640"


@pytest.fixture(scope="module")
def at_work(head: HeadNode) -> list[str]:
    """Two machines with four long jobs each; their instances."""
    head.submit(8, 75)
    wait_for(lambda: len(head.jobs(RUNNING)) == 8, 60, "eight running jobs")
    wait_for(lambda: len(head.nodes()) == 2, 10, "two nodes")
    return head.nodes()


def test_an_upgrade_keeps_machines_state_user_and_configuration(
    head: HeadNode, packages: Packages, higher: Packages, at_work: list[str]
) -> None:
    machine = head.machine
    before = machine.unit("elastiq", "MainPID"), machine.read(CONFIGURATION), machine.run("id", "elastiq")
    launches = len(head.cloud.log("RunInstances"))

    install(machine, higher.deb)

    assert machine.unit("elastiq", "ActiveState") == {"ActiveState": "active"}
    after = machine.unit("elastiq", "MainPID"), machine.read(CONFIGURATION), machine.run("id", "elastiq")
    assert after[0] != before[0] and after[1:] == before[1:]
    assert NEWS in machine.read("/usr/share/elastiq/elastiq.conf")
    assert machine.run("find", "/etc", "-name", "elastiq.conf?*") == ""
    wait_for(lambda: head.status().get("version") == HIGHER, 10, "the new version")
    wait_for(lambda: head.status()["state"] == "active", 30, "good reads of both sides")
    stays(lambda: head.nodes() == head.alive() == at_work, 8, "the machines that were there", 1)
    assert len(head.cloud.log("RunInstances")) == launches
    assert head.no_job_started_twice()


def test_a_reboot_brings_it_back_with_its_machines(head: HeadNode, at_work: list[str]) -> None:
    launches = len(head.cloud.log("RunInstances"))

    head.machine.reboot()

    head.wait_for_htcondor()
    assert head.machine.unit("elastiq", "ActiveState") == {"ActiveState": "active"}
    wait_for(lambda: head.status()["state"] == "active", 40, "good reads of both sides")
    stays(lambda: head.nodes() == head.alive() == at_work, 5, "the machines that were there", 1)
    assert len(head.cloud.log("RunInstances")) == launches
    assert head.no_job_started_twice()


def test_a_removal_stops_it_and_says_which_machines_run_on(head: HeadNode, at_work: list[str]) -> None:
    machine = head.machine
    done = machine.ask("apt-get", "remove", "--yes", "elastiq")

    assert done.returncode == 0
    assert "elastiq: leaves 2 machines behind: they run on" in done.stdout + done.stderr
    assert machine.unit("elastiq", "LoadState") == {"LoadState": "not-found"}
    assert machine.ask("pgrep", "--uid", "elastiq").stdout == ""
    assert owner_and_mode(machine, CONFIGURATION) == "root:elastiq 640"
    assert machine.exists("/var/lib/elastiq/elastiq.db")
    assert not machine.exists("/usr/share/elastiq")
    assert head.alive() == at_work


def test_installed_again_it_waits_to_be_started_and_knows_its_machines(
    head: HeadNode, higher: Packages, at_work: list[str]
) -> None:
    install(head.machine, higher.deb)
    assert head.machine.unit("elastiq", "ActiveState") == {"ActiveState": "inactive"}

    head.machine.run("elastiqctl", "start")

    assert head.nodes() == at_work
    head.machine.run("condor_rm", "-all")
    wait_for(lambda: not head.alive(), 60, "the end of the machines that are idle now")


def test_an_upgrade_does_not_start_what_was_stopped(head: HeadNode, higher: Packages) -> None:
    head.machine.run("elastiqctl", "stop")

    head.machine.run("apt-get", "install", "--yes", "--reinstall", f"/srv/{higher.deb.name}", timeout_s=120)

    assert head.machine.unit("elastiq", "ActiveState") == {"ActiveState": "inactive"}
    assert not head.machine.exists("/run/elastiq.stopped")


def test_a_purge_leaves_nothing_but_the_user_and_says_so(head: HeadNode) -> None:
    machine = head.machine
    said = machine.run("apt-get", "purge", "--yes", "elastiq")

    assert "user elastiq stays" in said
    places = ("/etc", "/usr", "/var/lib", "/var/log", "/run", "/tmp")
    left = machine.run("find", *places, "-xdev", "-iname", "*elastiq*", "-print")
    assert left == ""
    machine.run("id", "elastiq")
    assert machine.ask("systemctl", "status", "elastiq").returncode == 4
    assert machine.run("systemctl", "--failed", "--no-legend") == ""


# --------------------------------------------------------------------------- the RPM, as far as Debian's rpm allows


@pytest.fixture(scope="module")
def of_rpm(debian: None) -> Iterator[booted.Machine]:
    """A machine with rpm, and with what the package depends on from Debian: --nodeps, for rpm does not see that."""
    with booted.machine() as machine:
        machine.run("apt-get", "install", "--yes", "rpm", "python3-boto3", timeout_s=120)
        yield machine


def rpm(machine: booted.Machine, action: str, *what: str) -> str:
    done = machine.ask("rpm", "--nodeps", action, *what)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_rpm_asks_for_what_enterprise_linux_has(packages: Packages) -> None:
    needs = run("rpm", "--query", "--requires", "--package", packages.rpm).split("\n")

    assert {"python3dist(boto3)", "python3 >= 3.9", "/usr/bin/python3", "systemd", "diffutils"} <= set(needs)
    weak = run("rpm", "--query", "--recommends", "--package", packages.rpm).split()
    assert set(weak) == {"python3dist(python-json-logger)"}


def test_no_package_brings_a_batch_system_to_a_head_node_that_has_another(packages: Packages) -> None:
    batch = {"condor", "htcondor", "slurm-client", "gridengine-client", "python3-condor", "python3-kombu"}
    for field in ("Depends", "Recommends"):
        named = set(re.findall(r"[a-z0-9.+-]+", run("dpkg-deb", "--field", packages.deb, field)))
        assert not named & batch, field
    weak = set(run("rpm", "--query", "--recommends", "--package", packages.rpm).split())
    assert not weak & batch


def test_the_rpm_marks_configuration_documentation_and_licence(packages: Packages) -> None:
    rows = run("rpm", "--query", "--queryformat", "[%{FILENAMES} %{FILEFLAGS:fflags}\\n]", "--package", packages.rpm)
    marks = dict(row.split(" ", 1) for row in rows.splitlines())

    assert marks[CONFIGURATION] == "cn"  # config(noreplace)
    assert marks["/usr/share/licenses/elastiq/LICENSE"] == "l"
    assert marks["/usr/share/man/man5/elastiq.conf.5.gz"] == "d"
    assert not [name for name in marks if name.endswith((".pyc", "__pycache__")) or "site-packages" in name]


def test_the_rpm_installs_and_starts_nothing(of_rpm: booted.Machine, packages: Packages) -> None:
    said = rpm(of_rpm, "--install", put(of_rpm, packages.rpm))

    assert "set five keys in /etc/elastiq.conf" in said
    assert owner_and_mode(of_rpm, CONFIGURATION) == "root:elastiq 640"
    assert of_rpm.run("systemctl", "is-enabled", "elastiq").strip() == "enabled"
    assert of_rpm.unit("elastiq", "ActiveState") == {"ActiveState": "inactive"}
    assert of_rpm.run("rpm", "--verify", "--nodeps", "elastiq") == ""
    assert of_rpm.run("find", "/usr/share/elastiq", "-name", "service.cpython-*.pyc").count("\n") == 1


def test_the_rpms_daemon_runs_and_an_upgrade_restarts_it(
    of_rpm: booted.Machine, packages: Packages, higher: Packages
) -> None:
    of_rpm.run("sed", "--in-place", "s/^image_id =/& ami-1/; s/^region =/& eu-west-1/", CONFIGURATION)
    of_rpm.run("elastiqctl", "start")
    before = of_rpm.unit("elastiq", "MainPID"), of_rpm.read(CONFIGURATION)

    rpm(of_rpm, "--upgrade", put(of_rpm, higher.rpm))

    assert of_rpm.unit("elastiq", "ActiveState") == {"ActiveState": "active"}
    assert of_rpm.unit("elastiq", "MainPID") != before[0]
    assert of_rpm.read(CONFIGURATION) == before[1]
    assert NEWS in of_rpm.read(f"{CONFIGURATION}.rpmnew")
    assert f'"version": "{HIGHER}"' in of_rpm.run("elastiqctl", "status", "--json")


def test_the_rpm_does_not_stop_what_a_mistake_would_keep_down(of_rpm: booted.Machine, higher: Packages) -> None:
    before = of_rpm.unit("elastiq", "ActiveState", "MainPID")
    of_rpm.run("sed", "--in-place", "s/^max_vms/max_wms/", CONFIGURATION)

    done = of_rpm.ask("rpm", "--nodeps", "--upgrade", "--force", put(of_rpm, higher.rpm))

    assert done.returncode == 0 and "[quota]" in done.stderr and "max_wms" in done.stderr
    assert of_rpm.unit("elastiq", "ActiveState", "MainPID") == before
    of_rpm.run("sed", "--in-place", "s/^max_wms/max_vms/", CONFIGURATION)


def test_erased_the_rpm_stops_it_and_keeps_what_is_the_administrators(of_rpm: booted.Machine) -> None:
    said = rpm(of_rpm, "--erase", "elastiq")

    assert "The state in /var/lib/elastiq" in said
    assert of_rpm.unit("elastiq", "LoadState") == {"LoadState": "not-found"}
    assert of_rpm.ask("pgrep", "--uid", "elastiq").stdout == ""
    assert of_rpm.exists(f"{CONFIGURATION}.rpmsave") and of_rpm.exists("/var/lib/elastiq/elastiq.db")
    for gone in (
        CONFIGURATION,
        "/usr/share/elastiq",
        "/usr/share/licenses/elastiq",
        "/etc/systemd/system/multi-user.target.wants/elastiq.service",
    ):
        assert not of_rpm.exists(gone)
