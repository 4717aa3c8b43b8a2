"""The service on a booted machine: what systemd does with it, and what elastiqctl says of it.

One head node for all of it, told in order. HTCondor knows elastiq by FS authentication alone there, and the keys of the
cloud are in a file that only root can read.
"""

from __future__ import annotations

import json
import re
import shutil
from typing import Iterator

import pytest

from tests.e2e import booted
from tests.e2e.cluster import RUNNING, wait_for
from tests.e2e.conftest import FAILED
from tests.e2e.daemon import DEFAULTS
from tests.e2e.headnode import HeadNode, head_node
from tests.e2e.rig import places

CONFIGURATION = "/etc/elastiq.conf"
KEYS = "/etc/credstore/elastiq-aws"
SECRET = "nobody-else-reads-this"
LIBRARIES = "/usr/lib/python3/dist-packages"
MOST_EXPOSED = 3.0
# What takes minutes in the unit takes seconds here; nothing else is changed.
HASTY = """\
[Service]
WatchdogSec=4
RestartSec=100ms
RestartMaxDelaySec=500ms
"""
PROGRAM = "#!/usr/bin/python3 -I\nimport sys\nfrom {} import main\nsys.exit(main())\n"
TRIGGER = "/var/lib/elastiq/hang"
# A batch system whose answer, once, never lets go of who looks at it: the decision loop.
HANGING = f"""\
import dataclasses, os, time
from elastiq.plugins.batch.htcondor import HTCondor

class Endless(tuple):
    def __iter__(self):
        os.unlink({TRIGGER!r})
        while True:
            never_returns()

def never_returns():
    time.sleep(1)

def once_endless(jobs):
    return dataclasses.replace(jobs, groups=Endless(jobs.groups)) if os.path.exists({TRIGGER!r}) else jobs

class Hanging(HTCondor):
    @classmethod
    def from_config(cls, values, owner):
        made = super().from_config(values, owner)
        ask = made.jobs
        made.jobs = lambda: once_endless(ask())
        return made
"""


def configure(machine: booted.Machine, **more: dict[str, object]) -> None:
    """Write the configuration; ``more`` are further sections and keys."""
    sections = {name: {**DEFAULTS.get(name, {}), **more.get(name, {})} for name in {**DEFAULTS, **more}}
    sections["ec2"] = {key: value for key, value in sections["ec2"].items() if not key.startswith("aws_")}
    sections["ec2"]["credentials_file"] = KEYS
    sections["elastiq"]["batch_plugin"] = "hanging"
    text = ""
    for name, keys in sections.items():
        text += f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
    machine.run("sh", "-c", f"cat >{CONFIGURATION}", stdin=text)


def install(machine: booted.Machine) -> None:
    """As from a source tree, with the unit as it is."""
    machine.run("apt-get", "install", "--yes", *booted.IN_CACHE, timeout_s=120)
    at = machine.host_path(LIBRARIES)
    shutil.copytree(places.REPOSITORY / "elastiq", at / "elastiq", ignore=shutil.ignore_patterns("__pycache__"))
    for program, module in {"elastiq": "elastiq.service", "elastiqctl": "elastiq.cli"}.items():
        machine.put(f"/usr/bin/{program}", PROGRAM.format(module), 0o755)
    machine.put("/usr/lib/systemd/system/elastiq.service", (places.REPOSITORY / "systemd/elastiq.service").read_bytes())
    machine.put(f"{LIBRARIES}/hanging.py", HANGING)
    machine.run("mkdir", f"{LIBRARIES}/hanging-1.dist-info")
    machine.put(f"{LIBRARIES}/hanging-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: hanging\nVersion: 1\n")
    entry = "[elastiq.batch]\nhanging = hanging:Hanging\n"
    machine.put(f"{LIBRARIES}/hanging-1.dist-info/entry_points.txt", entry)
    machine.run("useradd", "--system", "--no-create-home", "--home-dir=/var/lib/elastiq", "elastiq")
    machine.run("install", "-d", "-m", "700", "/etc/credstore")
    keys = f"[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = {SECRET}\n"
    machine.put(KEYS, keys, 0o600)
    machine.run("install", "-m", "640", "-g", "elastiq", "/dev/null", CONFIGURATION)


@pytest.fixture(scope="module")
def head(rig: None, debian: None) -> Iterator[HeadNode]:
    with head_node() as node:
        install(node.machine)
        yield node


@pytest.fixture(autouse=True)
def _evidence(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if request.node.stash.get(FAILED, False):
        print(request.getfixturevalue("head").evidence())


def ctl(head: HeadNode, *words: str, user: str = "") -> tuple[int, str, str]:
    done = head.machine.ask("elastiqctl", *words, user=user)
    return done.returncode, done.stdout, done.stderr


def main_pid(head: HeadNode) -> str:
    return head.machine.unit("elastiq", "MainPID")["MainPID"]


def wait_for_another(head: HeadNode, before: str) -> None:
    wait_for(lambda: main_pid(head) not in (before, "0") and head.status(), 30, "another process, and its answer", 0.05)


# --------------------------------------------------------------------------- the unit


def test_systemd_knows_every_line_of_the_unit_and_finds_it_little_exposed(head: HeadNode) -> None:
    head.machine.run("systemctl", "daemon-reload")
    verified = head.machine.ask("systemd-analyze", "verify", "--man=no", "elastiq.service")
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")

    rated = head.machine.run("systemd-analyze", "security", "--no-pager", "elastiq.service")

    found = re.search(r"Overall exposure level for elastiq\.service: ([0-9.]+)", rated)
    assert found and float(found[1]) <= MOST_EXPOSED


def test_a_tmp_of_its_own_would_end_fs_authentication(head: HeadNode) -> None:
    """Why the unit has no PrivateTmp."""

    def asked(private: str) -> str:
        as_service = ["systemd-run", "--quiet", "--pipe", "--wait", "-p", "User=elastiq", "-p", f"PrivateTmp={private}"]
        only_fs = "--setenv=_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS=FS"
        ping = ["condor_ping", "-type", "COLLECTOR", "-table", "ADMINISTRATOR"]
        return head.machine.ask(*as_service, only_fs, *ping).stdout

    assert re.search(r"ADMINISTRATOR +FS .*ALLOW +elastiq@rig", asked("no"))
    assert "ALLOW" not in asked("yes")


# --------------------------------------------------------------------------- elastiqctl, with systemd


def test_a_wrong_configuration_is_told_before_it_is_started(head: HeadNode) -> None:
    configure(head.machine, quota={"max_vms": 0})

    code, out, err = ctl(head, "start")

    assert (code, out) == (78, "") and err.startswith(f"elastiqctl: {CONFIGURATION}:") and "max_vms" in err
    assert head.machine.journal("elastiq.service").count("\n") <= 1, "systemd was not asked"


def test_before_the_first_start_a_check_by_root_looks_as_the_service_and_with_its_keys(head: HeadNode) -> None:
    configure(head.machine)

    code, out, err = ctl(head, "check", "--json")

    found = {(one["source"], one["subject"]): one for one in json.loads(out)["checks"]}
    levels = {subject: one["level"] for (_, subject), one in found.items()}
    assert code == 0 and err == "" and SECRET not in out
    assert found["this machine", "user"]["text"] == "looked at as elastiq, as whom elastiq runs"
    assert {levels[one] for one in ("endpoint and credentials", "file of keys", "drain", "queue")} == {"ok"}
    assert found["this machine", "service"]["text"].startswith("inactive, and disabled")
    assert main_pid(head) == "0" and head.machine.ask("test", "-e", "/var/lib/elastiq/elastiq.db").returncode != 0
    assert head.machine.run("ls", "/dev/shm") == "", "the copy of the keys is gone"
    assert {call["action"].startswith("Describe") for call in head.cloud.log()} == {True}


def test_it_is_started_and_stopped_with_the_usual_words_and_codes(head: HeadNode) -> None:
    configure(head.machine)
    assert ctl(head, "status")[0] == 3
    assert ctl(head, "stop") == (0, "elastiq is not running\n", "")

    code, out, err = ctl(head, "start")

    pid = main_pid(head)
    assert code == 0 and out.startswith(f"elastiq started (pid {pid})\n") and "systemctl enable elastiq" in err
    assert ctl(head, "start") == (0, f"elastiq runs already (pid {pid})\n", "")
    assert head.status()["pid"] == int(pid)
    assert ctl(head, "stop") == (0, f"elastiq stopped (pid {pid})\n", "")
    assert ctl(head, "status")[0] == 3


def test_the_log_is_in_the_journal(head: HeadNode) -> None:
    code, out, _ = ctl(head, "log", "-n", "100", "--no-follow")

    assert code == 0 and re.search(r"^\S+[+-]\d{4} INFO elastiq: elastiq ends$", out, re.MULTILINE)


def test_who_may_not_gets_one_clear_line(head: HeadNode) -> None:
    ctl(head, "start")
    for verb in ("start", "stop", "restart", "status", "log"):
        code, out, err = ctl(head, verb, user="jobuser")
        expected = 0 if verb == "start" else 4
        assert code == expected and len((out + err).splitlines()) == 1, verb
        assert expected == 0 or "no permission" in err
    assert ctl(head, "status", user="elastiq")[0] == 0
    assert ctl(head, "stop")[0] == 0
    code, _, err = ctl(head, "start", user="jobuser")
    assert code == 4 and "no permission to start" in err and err.count("\n") == 1


def test_a_start_that_fails_says_why_with_the_daemon_s_code(head: HeadNode) -> None:
    head.machine.run("mv", "/var/lib/elastiq/elastiq.db", "/var/lib/elastiq/aside")
    head.machine.run("mkdir", "/var/lib/elastiq/elastiq.db")

    code, out, err = ctl(head, "start")

    assert (code, out) == (73, "") and "elastiq.db: Is a directory" in err and "`elastiqctl stop` ends that" in err
    assert "systemd will start it again" in ctl(head, "status")[2]
    assert ctl(head, "stop")[0] == 0
    assert head.machine.unit("elastiq", "ActiveState") == {"ActiveState": "inactive"}
    head.machine.run("rmdir", "/var/lib/elastiq/elastiq.db")
    head.machine.run("mv", "/var/lib/elastiq/aside", "/var/lib/elastiq/elastiq.db")


# --------------------------------------------------------------------------- what systemd does


def test_it_works_in_its_cage_and_a_loop_that_hangs_is_started_anew_with_nothing_lost(head: HeadNode) -> None:
    head.machine.run("mkdir", "/etc/systemd/system/elastiq.service.d")
    head.machine.put("/etc/systemd/system/elastiq.service.d/hasty.conf", HASTY)
    head.machine.run("systemctl", "daemon-reload")
    ctl(head, "start")
    head.submit(4, 20)
    wait_for(lambda: len(head.jobs(RUNNING)) == 4, 40, "four running jobs")
    wait_for(lambda: head.nodes() == head.alive(), 10, "the node of their machine")
    (instance,) = head.nodes()
    before = main_pid(head)

    head.machine.run("touch", TRIGGER)

    wait_for_another(head, before)
    assert head.machine.unit("elastiq", "NRestarts") == {"NRestarts": "1"}
    assert head.nodes() == head.alive() == [instance]
    journal = head.machine.journal("elastiq.service")
    assert "Watchdog timeout" in journal and "in never_returns" in journal, "where it hung is in the journal"
    assert head.no_job_started_twice()
    wait_for(lambda: not head.jobs(), 40, "the end of all jobs")
    # Which takes a drain, and that the right to it, by FS.
    wait_for(lambda: not head.alive(), 40, "the end of the idle machine")
    assert len(head.cloud.log("RunInstances")) == 1


def test_no_secret_is_anywhere_but_in_its_file(head: HeadNode) -> None:
    machine, pid = head.machine, main_pid(head)
    assert machine.ask("cat", KEYS, user="elastiq").returncode != 0
    shown = machine.run("systemctl", "show", "elastiq") + machine.journal() + machine.read(CONFIGURATION)
    files = ["/proc/{pid}/environ", "/proc/{pid}/cmdline"]
    shown += "".join(machine.run("cat", path.format(pid=pid)) for path in files)
    assert SECRET not in shown
    assert machine.ask("grep", "--recursive", "--quiet", SECRET, "/var/lib/elastiq", "/run/elastiq").returncode == 1
    assert "Max core file size        0                    0" in machine.read(f"/proc/{pid}/limits")


def test_a_reload_takes_a_right_file_and_leaves_a_wrong_one(head: HeadNode) -> None:
    before = main_pid(head)
    configure(head.machine, quota={"max_vms": 9})
    head.machine.run("systemctl", "reload", "elastiq")
    wait_for(lambda: head.status()["quota"]["max_vms"] == 9, 10, "the new setting")

    configure(head.machine, quota={"max_vms": 0})
    head.machine.run("systemctl", "reload", "elastiq")

    wait_for(lambda: any("old settings stay" in line for line in head.status()["notices"]), 10, "a notice")
    assert head.status()["quota"]["max_vms"] == 9 and main_pid(head) == before
    assert head.machine.unit("elastiq", "ActiveState") == {"ActiveState": "active"}


def test_a_restart_is_refused_when_the_service_could_not_read_what_it_needs(head: HeadNode) -> None:
    """Root, who asks for it, can."""
    configure(head.machine)
    before = main_pid(head)
    head.machine.run("chown", "root:root", CONFIGURATION)
    head.machine.run("chmod", "600", CONFIGURATION)

    code, out, err = ctl(head, "restart")

    who = "cannot be read (Permission denied) by elastiq, as whom elastiq runs: chown root:elastiq and chmod 640 it"
    assert (code, out, err) == (78, "", f"elastiqctl: {CONFIGURATION}: {who}\n") and main_pid(head) == before
    code, _, err = ctl(head, "reload")
    assert code == 78 and who in err
    head.machine.run("chown", "root:elastiq", CONFIGURATION)
    head.machine.run("chmod", "640", CONFIGURATION)
    assert ctl(head, "restart")[0] == 0 and main_pid(head) != before


def test_the_drop_in_for_another_place_of_the_configuration_starts_it(head: HeadNode) -> None:
    """Also beside a package's /etc/elastiq.conf that nobody has edited, for which it would not be started."""
    machine, elsewhere = head.machine, "/etc/cluster/elastiq.conf"
    dropped, files = "/etc/systemd/system/elastiq.service.d", places.REPOSITORY / "packaging/files"
    assert ctl(head, "stop")[0] == 0
    machine.run("install", "-D", "-m", "640", "-g", "elastiq", CONFIGURATION, elsewhere)
    machine.run("sh", "-c", f"install -D -m 644 {CONFIGURATION} /usr/share/elastiq/elastiq.conf")
    machine.run("mkdir", "-p", "/usr/libexec/elastiq", "/usr/lib/systemd/system/elastiq.service.d", dropped)
    machine.put("/usr/libexec/elastiq/is-configured", (files / "is-configured").read_bytes(), 0o755)
    packaged = "/usr/lib/systemd/system/elastiq.service.d/configured.conf"
    machine.put(packaged, (files / "configured.conf").read_bytes())
    machine.run("systemctl", "daemon-reload")
    code, out, err = ctl(head, "start")
    assert code and "started" not in out and "ExecCondition=" in err and main_pid(head) == "0"

    told = (places.REPOSITORY / "docs/service.md").read_text().partition("Another place of the configuration")[2]
    lines = [line.strip() for line in told.splitlines()[2:6]]
    machine.put(f"{dropped}/place.conf", "\n".join(lines) + "\n")
    machine.run("systemctl", "daemon-reload")
    code, out, _ = ctl(head, "start")
    assert (code, out) == (0, f"elastiq started (pid {main_pid(head)})\n") and main_pid(head) != "0"
    assert f"config     {elsewhere}\n" in ctl(head, "conf")[1]

    assert ctl(head, "stop")[0] == 0
    machine.run("rm", f"{dropped}/place.conf", packaged, elsewhere)
    machine.run("systemctl", "daemon-reload")
    assert ctl(head, "start")[0] == 0


def test_with_a_wrong_configuration_it_stays_down_and_says_so(head: HeadNode) -> None:
    configure(head.machine, quota={"max_vms": 0})
    assert ctl(head, "restart")[0] == 78 and head.status(), "what runs goes on"

    head.machine.ask("systemctl", "restart", "elastiq")

    state = head.machine.unit("elastiq", "ActiveState", "NRestarts", "ExecMainStatus")
    assert state == {"ActiveState": "failed", "NRestarts": "0", "ExecMainStatus": "78"}
    code, _, err = ctl(head, "status")
    assert code == 3 and "exit code 78" in err and f"until it is started: {CONFIGURATION}:" in err
    said = head.machine.run("journalctl", "--unit=elastiq", "--priority=err", "--output=cat", "--lines=3")
    assert f"{CONFIGURATION}:" in said and "max_vms" in said
    configure(head.machine)
    assert ctl(head, "start")[0] == 0


def test_however_often_it_dies_it_is_started_again_and_later_each_time(head: HeadNode) -> None:
    waits = []
    for _ in range(6):  # systemd's usual limit is five starts in ten seconds
        before = main_pid(head)
        waits.append(head.machine.unit("elastiq", "RestartUSecNext")["RestartUSecNext"])
        head.machine.run("kill", "-KILL", before)
        wait_for_another(head, before)
    times = [float(text[:-2]) for text in waits]
    assert all(text.endswith("ms") for text in waits) and times == sorted(times) and times[0] < times[-1], waits


# --------------------------------------------------------------------------- one that was started by hand


def test_one_that_was_started_by_hand_becomes_the_service_by_a_restart(head: HeadNode) -> None:
    machine = head.machine
    ctl(head, "stop")
    places_of_it = ["--config", CONFIGURATION, "--statedir", "/var/lib/elastiq", "--rundir", "/run/elastiq"]
    machine.run("rm", "/var/lib/elastiq/elastiq.db")
    machine.run("systemd-run", "--quiet", "--unit=by-hand", "/usr/bin/elastiq", *places_of_it)
    wait_for(head.status, 10, "an answer of the one that was started by hand")
    pid = head.status()["pid"]
    machine.ask("systemctl", "start", "elastiq")  # it is in the way

    code, out, _ = ctl(head, "start")
    assert code == 0 and f"runs already (pid {pid}), not as the service" in out
    assert head.status()["pid"] == pid, "its socket is left to it"
    code, out, err = ctl(head, "restart")

    assert code == 0 and out == f"elastiq stopped (pid {pid})\nelastiq started (pid {main_pid(head)})\n"
    assert "`elastiqctl adopt`" in err, "root and elastiq are two head nodes to the cloud"
    assert machine.run("stat", "--format=%U", "/var/lib/elastiq/elastiq.db").strip() == "elastiq"
    assert json.loads(ctl(head, "stop", "--json")[1])["running"] is False
