"""elastiqctl where elastiq is a service of systemd, with a systemctl and a journalctl that are scripts.

On a booted machine with the real ones: tests/e2e/test_service.py.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest

from elastiq import client, config
from elastiq.cli import as_service, follow, main, systemd
from elastiq.paths import LOCK
from tests.waiting import PATIENCE_S, until

CONFIG = "[elastiq]\ncluster_name = alice\n[ec2]\nimage_id = ami-1\n"
EXEC_START = (
    "{{ path=/usr/bin/elastiq ; argv[]=/usr/bin/elastiq --config {0}/elastiq.conf --statedir={0}/state"
    " --rundir {0}/run{1} ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }}"
)
STOPPED = {"ActiveState": "inactive", "SubState": "dead", "MainPID": "0", "Result": "success"}
RUNNING = {"ActiveState": "active", "SubState": "running", "MainPID": "4711", "Result": "success"}
FAILED = {
    "ActiveState": "failed", "SubState": "failed", "MainPID": "0", "Result": "exit-code", "ExecMainCode": "1",
    "ExecMainStatus": "78",
}  # fmt: skip
TRIES_AGAIN = {**FAILED, "ActiveState": "activating", "SubState": "auto-restart", "ExecMainStatus": "73"}
DENIED = "Failed to {} elastiq.service: Access denied\nSee system logs and 'systemctl status' for details.\n"

AT = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(1764511201))

SYSTEMCTL = """\
#!{python} -SEs
import json, os, sys
home = {home!r}
words = [word for word in sys.argv[1:] if word not in ("--no-pager", "--no-ask-password")]
with open(home + "/calls", "a") as calls:
    calls.write(" ".join(words) + "\\n")
unit = json.load(open(home + "/unit"))
if words[0] == "show":
    print(*(f"{{key}}={{value}}" for key, value in unit.items() if key != "acts"), sep="\\n")
    sys.exit(unit.get("show", 0))
act = unit["acts"][words[0]]
json.dump({{**unit, **act.get("then", {{}})}}, open(home + "/unit", "w"))
sys.stderr.write(act.get("says", ""))
sys.exit(act.get("code", 0))
"""
JOURNALCTL = """\
#!{python} -SEs
import sys
open({home!r} + "/journal_calls", "a").write(" ".join(sys.argv[1:]) + "\\n")
sys.stderr.write(open({home!r} + "/hint").read())
print(open({home!r} + "/entries").read(), end="", flush=True)
if "--follow" in sys.argv:
    import os, time
    open({home!r} + "/follows", "w").write(str(os.getpid()))
    time.sleep(60)
"""


class Systemd:
    """What systemd knows of the unit, and how it does what it is told."""

    def __init__(self, home: Path) -> None:
        self.home = home
        bin = home / "bin"
        bin.mkdir()
        for name, script in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
            (bin / name).write_text(script.format(python=sys.executable, home=str(home)))
            (bin / name).chmod(0o755)
        (home / "hint").touch()
        self.journal({"MESSAGE": "the last words"})
        self.acts: dict[str, Any] = {}
        self.unit: dict[str, Any] = {
            "LoadState": "loaded", "UnitFileState": "enabled", "ExecMainCode": "0", "ExecMainStatus": "0",
            "ExecStart": EXEC_START.format(home, ""), "User": pwd.getpwuid(os.getuid()).pw_name,
            "NeedDaemonReload": "no",
        }  # fmt: skip
        self.now(STOPPED)
        self.configure(CONFIG)

    def journal(self, *entries: Mapping[str, Any]) -> None:
        usual = {"__REALTIME_TIMESTAMP": "1764511201500000", "PRIORITY": "6", "SYSLOG_IDENTIFIER": "elastiq"}
        (self.home / "entries").write_text("".join(json.dumps({**usual, **entry}) + "\n" for entry in entries))

    def configure(self, text: str) -> None:
        path = self.home / "elastiq.conf"
        path.write_text(text)
        path.chmod(0o600)

    def now(self, state: Mapping[str, str], **more: str) -> None:
        self.unit = {**self.unit, **state, **more, "acts": self.acts}
        (self.home / "unit").write_text(json.dumps(self.unit))

    def on(self, verb: str, then: Mapping[str, str], code: int = 0, says: str = "") -> None:
        self.acts[verb] = {"then": dict(then), "code": code, "says": says}
        self.now({})

    def told(self) -> list[str]:
        """What systemctl was told to do, but for looks."""
        calls = self.home / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [line for line in lines if not line.startswith("show ")]


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    made = Systemd(tmp_path)
    monkeypatch.setattr(systemd, "BOOTED", tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return made


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the state as a daemon does, and ends as one does."""
    (tmp_path / "state").mkdir()
    script = (
        "import signal, sys, pathlib; from elastiq.paths import Lock; lock = Lock(pathlib.Path(sys.argv[1]))\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('up', flush=True); signal.pause()"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / "state" / LOCK)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        yield process
        process.kill()


def ctl(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    out, err = capfd.readouterr()
    return code, out, err


# --------------------------------------------------------------------------- when it is meant


def given(**places: str) -> Namespace:
    return Namespace(**{**dict.fromkeys(("config", "logdir", "statedir", "rundir")), **places})


def test_the_places_are_those_of_the_unit(unit: Systemd) -> None:
    service = systemd.found(given())
    assert service is not None and service.in_journal
    paths = service.paths
    assert paths.config == unit.home / "elastiq.conf" and paths.logdir == Path("/var/log/elastiq")
    assert (paths.statedir, paths.rundir) == (unit.home / "state", unit.home / "run")


def test_a_place_that_is_the_unit_s_own_means_the_service_and_another_does_not(unit: Systemd) -> None:
    assert systemd.found(given(statedir=f"{unit.home}/state", config=f"{unit.home}/elastiq.conf")) is not None
    for name in ("config", "logdir", "statedir", "rundir"):
        assert systemd.found(given(**{name: f"{unit.home}/other"})) is None, name


def test_without_systemd_as_pid_1_or_without_the_unit_there_is_no_service(
    unit: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit.now(STOPPED, LoadState="not-found")
    assert systemd.found(given()) is None
    unit.now(STOPPED, LoadState="loaded")
    assert systemd.found(given()) is not None
    monkeypatch.setattr(systemd, "BOOTED", unit.home / "none")
    assert systemd.found(given()) is None


def test_a_user_with_a_configuration_of_his_own_means_his_own_daemon(
    unit: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert systemd.found(given()) is not None
    own = unit.home / "home" / ".elastiq" / "elastiq.conf"
    own.parent.mkdir(parents=True)
    own.touch()
    assert systemd.found(given()) is None


def test_systemd_that_does_not_answer_is_told_and_nothing_is_started(
    unit: Systemd, capfd: pytest.CaptureFixture[str]
) -> None:
    script = "#!/bin/sh\necho 'Failed to connect to bus: Host is down' >&2\nexit 1\n"
    (unit.home / "bin" / "systemctl").write_text(script)
    assert ctl(capfd, "start") == (1, "", "elastiqctl: systemctl: Failed to connect to bus: Host is down\n")


# --------------------------------------------------------------------------- start


def test_a_start_says_what_a_start_without_systemd_says(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    unit.on("start", RUNNING)
    code, out, _ = ctl(capfd, "start")
    assert (code, out) == (0, "elastiq started (pid 4711)\n")
    assert ctl(capfd, "start")[:2] == (0, "elastiq runs already (pid 4711)\n")
    assert unit.told() == ["start elastiq.service"]


def test_a_start_of_what_the_next_boot_would_not_start_says_so(
    unit: Systemd, capfd: pytest.CaptureFixture[str]
) -> None:
    unit.on("start", RUNNING)
    unit.now(STOPPED, UnitFileState="disabled", NeedDaemonReload="yes")
    code, _, err = ctl(capfd, "start")
    assert code == 0 and "systemctl enable elastiq" in err and "systemctl daemon-reload" in err


def test_a_wrong_configuration_is_told_before_systemd_is_asked(
    unit: Systemd, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unit.configure(CONFIG + "flavuor = x\n")
    unit.now(RUNNING)
    asked = {verb: ctl(capfd, verb) for verb in ("start", "restart")}
    monkeypatch.setattr(systemd, "BOOTED", unit.home / "none")
    places = ("--statedir", f"{unit.home}/s", "--rundir", f"{unit.home}/r", "--logdir", f"{unit.home}/l")
    without = ctl(capfd, "--config", f"{unit.home}/elastiq.conf", *places, "start")
    assert asked == {"start": without, "restart": without}
    assert without[0] == 78 and "flavuor" in without[2] and not unit.told()


def test_who_may_not_read_what_the_service_reads_leaves_the_check_to_it(
    unit: Systemd, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unit.on("start", RUNNING)
    unit.configure(CONFIG + "credentials_file = for-root-alone\n")
    assert ctl(capfd, "start")[0] == (78 if os.geteuid() == 0 else 0)
    unit.now(STOPPED)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert ctl(capfd, "start")[:2] == (0, "elastiq started (pid 4711)\n")
    unit.configure(CONFIG + "credentials_file = for-root-alone\nflavuor = x\n")
    assert ctl(capfd, "restart")[0] == 78, "what it can see is wrong"


def test_what_the_service_s_user_cannot_read_is_told_before_it_is_stopped(
    unit: Systemd, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root reads everything, so its own look says nothing about the service."""
    unit.now(RUNNING)
    unit.on("restart", {**RUNNING, "MainPID": "4712"})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = ["elastiq.conf: cannot be read (Permission denied) by elastiq"]
    monkeypatch.setattr(as_service, "problems", {unit.home / "elastiq.conf": found}.__getitem__)
    code, _, err = ctl(capfd, "restart")
    assert (code, err.splitlines()[-1]) == (78, f"elastiqctl: {found[0]}") and not unit.told()
    found.clear()
    assert ctl(capfd, "restart")[0] == 0 and unit.told() == ["restart elastiq.service"]


@pytest.mark.parametrize("verb", ["plan", "conf"])
def test_who_may_not_read_the_configuration_is_told_to_be_root(
    unit: Systemd, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """As a member of the group elastiq, with keys in /etc/credstore: nothing is wrong with the configuration."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    file, denied = f"{unit.home}/elastiq.conf", "cannot be read (Permission denied), check name and permissions"
    problems = [f"{file}:5: [ec2] credentials_file: {denied}"]

    def load(path: Path) -> None:
        raise config.ConfigError(problems)

    monkeypatch.setattr(config, "load", load)
    code, _, err = ctl(capfd, verb)
    assert (code, err) == (4, f"elastiqctl: {problems[0].partition('cannot')[0]}no permission to read it: be root\n")
    problems.append("flavuor: unknown")
    assert ctl(capfd, verb)[0] == 78


def test_the_service_s_user_is_asked_in_a_process_of_his_own(unit: Systemd) -> None:
    """Here he is our own: systemctl says so."""
    file = unit.home / "elastiq.conf"
    assert as_service.problems(file) == []
    unit.configure(CONFIG + "flavuor = x\n")
    (problem,) = as_service.problems(file)
    assert "flavuor" in problem
    unit.now(STOPPED, User="nobody-of-this-name")
    assert as_service.problems(file) == [], "systemd says that"


@pytest.mark.parametrize(
    ("ended", "code", "how"),
    [
        ({}, 78, "exit code 78"),
        ({"ExecMainStatus": "217"}, 1, "exit code 217"),
        ({"Result": "signal", "ExecMainCode": "2", "ExecMainStatus": "9"}, 1, "signal SIGKILL"),
        ({"Result": "timeout", "ExecMainCode": "2", "ExecMainStatus": "15"}, 1, "timeout, signal SIGTERM"),
        ({"Result": "resources", "ExecMainCode": "0", "ExecMainStatus": "0"}, 1, "resources"),
    ],
)
def test_a_start_that_fails_says_why_and_has_the_daemon_s_exit_code(
    unit: Systemd, capfd: pytest.CaptureFixture[str], ended: Mapping[str, str], code: int, how: str
) -> None:
    unit.on("start", {**FAILED, **ended}, code=1, says="Job for elastiq.service failed.\n")
    found, out, err = ctl(capfd, "start")
    assert (found, out) == (code, "")
    why = f"elastiqctl: elastiq did not start ({how}); the end of its log:"
    assert err.splitlines()[-2:] == [why, f"  {AT} INFO elastiq: the last words"]


@pytest.mark.parametrize("result", ["success", "exec-condition"])
def test_a_start_that_its_condition_skips_is_told_with_its_words(
    unit: Systemd, capfd: pytest.CaptureFixture[str], result: str
) -> None:
    """As of a package that is not configured: systemctl calls that done."""
    unit.on("start", {**STOPPED, "Result": result})
    code, out, err = ctl(capfd, "start")
    why = "elastiqctl: elastiq did not start (its ExecCondition= does not hold); the end of its log:"
    assert (code, out) == (1, "") and err.splitlines()[-2:] == [why, f"  {AT} INFO elastiq: the last words"]


def test_a_start_that_systemd_will_try_again_says_that_too(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    unit.on("start", TRIES_AGAIN, code=1)
    code, _, err = ctl(capfd, "start")
    assert code == 73 and err.endswith("systemd goes on trying to start it: `elastiqctl stop` ends that\n")


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_who_has_no_permission_gets_one_line(unit: Systemd, capfd: pytest.CaptureFixture[str], verb: str) -> None:
    unit.now(STOPPED if verb == "start" else RUNNING)
    unit.on(verb, {}, code=4, says=DENIED.format(verb))
    code, out, err = ctl(capfd, verb)
    line = err.splitlines()[-1]
    assert (code, out) == (4, "") and f"no permission to {verb} the service" in line and "Access denied" in line


def test_what_systemd_will_not_do_is_told_in_its_words(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    why = "Failed to start elastiq.service: Unit elastiq.service is masked.\n"
    unit.on("start", {}, code=1, says=why)
    code, _, err = ctl(capfd, "start")
    assert code == 1 and err.endswith(f"elastiqctl: systemctl start: {why}")


# --------------------------------------------------------------------------- stop and restart


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (RUNNING, STOPPED, "elastiq stopped (pid 4711)\n"),
        (RUNNING, {**FAILED, "Result": "timeout"}, "elastiq stopped (pid 4711), killed\n"),
        (TRIES_AGAIN, STOPPED, "elastiq stopped (it had failed, and waited for its next start)\n"),
    ],
)
def test_a_stop_says_what_it_stopped(
    unit: Systemd, capfd: pytest.CaptureFixture[str], before: Mapping[str, str], after: Mapping[str, str], said: str
) -> None:
    unit.now(before)
    unit.on("stop", after)
    assert ctl(capfd, "stop") == (0, said, "")


@pytest.mark.parametrize("state", [STOPPED, FAILED])
def test_a_stop_of_what_does_not_run_is_done(
    unit: Systemd, capfd: pytest.CaptureFixture[str], state: Mapping[str, str]
) -> None:
    unit.now(state)
    assert ctl(capfd, "stop") == (0, "elastiq is not running\n", "")
    assert not unit.told()


def test_a_restart_says_what_it_stopped_and_started(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    unit.on("restart", {**RUNNING, "MainPID": "4712"})
    assert ctl(capfd, "restart")[:2] == (0, "elastiq is not running\nelastiq started (pid 4712)\n")
    unit.now(RUNNING)
    assert ctl(capfd, "restart")[:2] == (0, "elastiq stopped (pid 4711)\nelastiq started (pid 4712)\n")
    assert unit.told() == ["restart elastiq.service"] * 2


def test_with_json_what_was_said_is_a_part_of_the_object(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    unit.on("start", RUNNING)
    code, out, _ = ctl(capfd, "start", "--json")
    said = ["elastiq started (pid 4711)"]
    assert json.loads(out) == {"exit_code": code, "running": True, "pid": 4711, "said": said}


# --------------------------------------------------------------------------- one that was started by hand


def test_one_that_was_started_by_hand_is_told_and_left(
    unit: Systemd, capfd: pytest.CaptureFixture[str], by_hand: subprocess.Popen[str]
) -> None:
    code, out, _ = ctl(capfd, "start")
    assert code == 0 and f"runs already (pid {by_hand.pid}), not as the service" in out
    assert by_hand.poll() is None and not unit.told()


@pytest.mark.parametrize("state", [STOPPED, TRIES_AGAIN])
def test_a_stop_stops_it_and_the_service_that_it_kept_from_starting(
    unit: Systemd, capfd: pytest.CaptureFixture[str], by_hand: subprocess.Popen[str], state: Mapping[str, str]
) -> None:
    unit.now(state)
    unit.on("stop", STOPPED)
    code, out, _ = ctl(capfd, "stop")
    assert code == 0 and out.endswith(f"elastiq stopped (pid {by_hand.pid})\n")
    assert by_hand.wait(PATIENCE_S) == 0
    assert unit.told() == ([] if state is STOPPED else ["stop elastiq.service"])


def test_a_restart_makes_the_service_of_it(
    unit: Systemd, capfd: pytest.CaptureFixture[str], by_hand: subprocess.Popen[str]
) -> None:
    unit.on("start", RUNNING)
    code, out, err = ctl(capfd, "restart")
    assert (code, out) == (0, f"elastiq stopped (pid {by_hand.pid})\nelastiq started (pid 4711)\n")
    assert by_hand.wait(PATIENCE_S) == 0 and "adopt" not in err, "it was the service's own user"
    assert unit.told() == ["start elastiq.service"]


def test_a_restart_of_another_user_s_says_that_its_machines_are_another_head_s(
    unit: Systemd, capfd: pytest.CaptureFixture[str], by_hand: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "_uid", lambda pid: os.getuid() + 1)
    unit.on("start", RUNNING)
    code, _, err = ctl(capfd, "restart")
    assert code == 0 and "another head node" in err and "`elastiqctl adopt`" in err


@pytest.mark.parametrize(
    ("cgroup", "of_unit"),
    [
        ("0::/system.slice/elastiq.service\n", True),
        ("3:pids:/system.slice/elastiq.service\n1:name=systemd:/system.slice/elastiq.service\n0::/\n", True),
        ("0::/machine.slice/c1/system.slice/elastiq.service/sub\n", True),
        ("0::/system.slice/by-elastiq.service\n", False),
        ("0::/user.slice/user-1000.slice/session-2.scope\n", False),
        (None, True),
    ],
)
def test_a_process_is_the_service_s_by_its_control_group(tmp_path: Path, cgroup: str | None, of_unit: bool) -> None:
    """It may have been started again between two looks; one that has ended is nobody's."""
    if cgroup is not None:
        (tmp_path / "4711").mkdir()
        (tmp_path / "4711" / "cgroup").write_text(cgroup)
    assert systemd.is_of_unit(4711, tmp_path) is of_unit
    assert not systemd.is_of_unit(0, tmp_path), "one that cannot be seen from here is not ours"


def test_only_plain_files_of_its_user_are_given_to_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's user could put links to root's files there, and have them given to himself."""
    (tmp_path / "elastiq.db").touch()
    (tmp_path / "linked").touch()
    os.link(tmp_path / "linked", tmp_path / "again")
    (tmp_path / "symlink").symlink_to(tmp_path / "elastiq.db")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    given = []
    monkeypatch.setattr(os, "fchown", lambda fd, *whom: given.append((os.readlink(f"/proc/self/fd/{fd}"), whom)))
    user = pwd.getpwuid(os.getuid())
    systemd._give(tmp_path, os.getuid(), user)
    assert given == [(str(tmp_path / "elastiq.db"), (user.pw_uid, user.pw_gid))]
    given.clear()
    systemd._give(tmp_path, os.getuid() + 1, user)
    systemd._give(tmp_path / "none", os.getuid(), user)
    assert not given


# --------------------------------------------------------------------------- status and log


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (STOPPED, ""),
        (FAILED, "the service failed (exit code 78), and stays down until it is started"),
        (TRIES_AGAIN, "the service failed (exit code 73), and systemd will start it again"),
        ({**STOPPED, "ActiveState": "activating", "SubState": "start"}, "the service is activating"),
    ],
)
def test_the_status_of_what_does_not_run_says_why(
    unit: Systemd, capfd: pytest.CaptureFixture[str], state: Mapping[str, str], said: str
) -> None:
    unit.now(state)
    code, out, err = ctl(capfd, "status")
    assert (code, out) == (3, "") and "elastiq is not running" in err.splitlines()[0]
    assert (said in err) if said else len(err.splitlines()) == 1


@pytest.mark.parametrize("verb", ["status", "metrics", "explain", "top"])
@pytest.mark.parametrize(("of_unit", "what"), [(True, "watchdog of systemd ends it"), (False, "restart ends it")])
def test_one_that_hangs_is_told_to_hang_after_some_seconds(
    unit: Systemd, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    by_hand: subprocess.Popen[str], verb: str, of_unit: bool, what: str,
) -> None:  # fmt: skip
    assert client.LOOK_S <= 10
    monkeypatch.setattr(client, "LOOK_S", 0.1)
    monkeypatch.setattr(systemd, "is_of_unit", lambda pid: of_unit)
    (unit.home / "run").mkdir()
    unit.now(RUNNING)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(unit.home / "run" / "elastiq.sock"))
        listener.listen(0)
        for _ in range(3):  # also where so many wait that no more can connect
            code, out, err = ctl(capfd, verb)
            assert (code, out, err.count("\n")) == (4, "", 1)
            assert "does not answer `" in err and f"(pid {by_hand.pid}) hangs" in err and what in err


def test_the_status_of_what_failed_has_its_last_words(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    (unit.home / "entries").write_text("elastiq.conf:5: flavuor: unknown key\n")
    unit.now(FAILED, InvocationID="abc")
    assert "stays down until it is started: elastiq.conf:5: flavuor: unknown key\n" in ctl(capfd, "status")[2]
    asked = (unit.home / "journal_calls").read_text().split()
    assert {"--priority=err", "--lines=1", "_SYSTEMD_INVOCATION_ID=abc"} <= set(asked)
    (unit.home / "entries").write_text("")
    assert "stays down until it is started: see `elastiqctl log`\n" in ctl(capfd, "status")[2]


def test_the_log_is_the_journal_s_where_the_unit_names_no_directory(
    unit: Systemd, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ctl(capfd, "log", "-n", "7", "--no-follow") == (0, f"{AT} INFO elastiq: the last words\n", "")
    asked = (unit.home / "journal_calls").read_text().splitlines()[-1].split()
    assert {"--unit=elastiq.service", "--lines=7", "--output=json"} <= set(asked) and "--follow" not in asked


def test_a_journal_with_nothing_of_it_is_said_to_have_nothing(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    unit.journal()
    said = "elastiqctl: the journal has nothing of elastiq: it has not been started, or what it said is too old\n"
    assert ctl(capfd, "log", "--no-follow") == (0, "", said)
    assert ctl(capfd, "log", "-n", "0", "--no-follow") == (0, "", "")


def test_the_journal_is_followed_until_ctrl_c(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    follows = unit.home / "follows"

    def interrupt() -> None:
        until(lambda: follows.exists() and follows.read_text() and os.fstat(1).st_size, "the line is written")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert ctl(capfd, "log") == (0, f"{AT} INFO elastiq: the last words\n", "")
    assert not Path(f"/proc/{follows.read_text()}").exists()


def test_a_line_of_the_journal_has_the_form_of_the_log_files(unit: Systemd, capfd: pytest.CaptureFixture[str]) -> None:
    unit.journal(
        {"MESSAGE": "node: gone", "PRIORITY": "4"},
        {"MESSAGE": '{"event": "plan"}'},
        {"MESSAGE": "Started it.", "SYSLOG_IDENTIFIER": "systemd"},
        {"MESSAGE": [110, 111, 32, 255], "PRIORITY": "2"},
    )
    lines = [f"{AT} WARNING elastiq: node: gone", '{"event": "plan"}', f"{AT} INFO systemd: Started it."]
    lines += [f"{AT} CRITICAL elastiq: no \N{REPLACEMENT CHARACTER}"]
    assert ctl(capfd, "log", "--no-follow")[1].splitlines() == lines
    objects = [json.loads(line) for line in ctl(capfd, "log", "--no-follow", "--json")[1].splitlines()]
    assert objects == [{"event": "plan"} if line[0] == "{" else {"line": line} for line in lines]


def test_the_log_is_that_of_the_files_where_the_unit_or_the_hand_wrote_them(
    unit: Systemd, capfd: pytest.CaptureFixture[str]
) -> None:
    (unit.home / "log").mkdir()
    (unit.home / "log" / "elastiq.log").write_text("of the file\n")
    unit.now(RUNNING, ExecStart=EXEC_START.format(unit.home, f" --logdir {unit.home}/log"))
    assert ctl(capfd, "log", "--no-follow") == (0, "of the file\n", "")
    assert not (unit.home / "journal_calls").exists()


def test_the_log_of_one_that_was_started_by_hand_is_in_its_files(
    unit: Systemd, capfd: pytest.CaptureFixture[str], by_hand: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []

    def show(path: Path, *_: object) -> int:
        shown.append(path)
        return 0

    monkeypatch.setattr(follow, "show", show)
    assert ctl(capfd, "log")[0] == 0
    assert shown == [Path("/var/log/elastiq/elastiq.log")] and not (unit.home / "journal_calls").exists()


def test_who_may_not_read_the_journal_gets_one_line(
    unit: Systemd, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (unit.home / "hint").write_text("No journal files were opened due to insufficient permissions.\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, out, err = ctl(capfd, "log")
    assert (code, out) == (4, "") and err.count("\n") == 1 and "no permission to read the log" in err
