"""elastiq and elastiqctl with real background processes: HTCondor's commands are scripts, the cloud is a
port on loopback where nobody listens, so that the daemon lives but knows nothing."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

import pytest

from elastiq import client
from elastiq.cli import process
from elastiq.cli.running import holder, send_signal
from elastiq.control import ControlServer
from elastiq.exits import explained
from elastiq.paths import LOCK, Paths
from elastiq.protocol import Refused
from tests.waiting import PATIENCE_S, DeadPort, until

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = ("condor_q", "condor_status", "condor_config_val", "condor_version", "condor_drain")

# Another one for each process that runs tests: of one user on one machine there can be one daemon of a cluster.
CLUSTER = f"alice-{os.getpid()}"
CONFIG = f"""\
[elastiq]
cluster_name = {CLUSTER}
check_queue_every_s = 1
check_vms_every_s = 1
[ec2]
api_url = http://127.0.0.1:{{port}}/
region = nowhere
aws_access_key_id = AKIAEXAMPLE
aws_secret_access_key = s3cr3t
image_id = ami-12345678
flavour = m1.small
"""


class Head:
    """A head node in a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paths = Paths(path / "elastiq.conf", path / "log", path / "state", path / "run")
        (path / "bin").mkdir()
        for name in COMMANDS:
            self.command(name, "exit 0")
        self.nobody = DeadPort()
        self.configure()

    def command(self, name: str, script: str) -> None:
        new = self.path / "bin" / f"{name}.new"
        new.write_text(f"#!/bin/sh\n{script}\n")
        new.chmod(0o755)
        new.rename(self.path / "bin" / name)

    def configure(self, more: str = "", port: Optional[int] = None) -> None:
        self.paths.config.write_text(CONFIG.format(port=port or self.nobody.number) + more)
        self.paths.config.chmod(0o600)

    def arguments(self) -> list[str]:
        p = self.paths
        return ["--config", f"{p.config}", "--logdir", f"{p.logdir}", "--statedir", f"{p.statedir}",
                "--rundir", f"{p.rundir}"]  # fmt: skip

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{self.path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}

    def popen(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """elastiqctl as from a clone that is not installed."""
        argv = [sys.executable, "-m", "elastiq", *self.arguments(), *words]
        options = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
            **options,
        }
        return subprocess.Popen(argv, cwd=ROOT, env=self.environment(), text=True, **options)

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self.popen(*words) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in out + err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    @contextlib.contextmanager
    def foreground(self, *code: str, **env: str) -> Iterator[subprocess.Popen[str]]:
        """The daemon itself; ``code`` is run in its place, with its arguments."""
        argv = [sys.executable, *(("-c", *code) if code else ("-m", "elastiq.service")), *self.arguments()]
        options: dict[str, Any] = {"cwd": ROOT, "env": self.environment(**env), "text": True}
        with subprocess.Popen(argv, stderr=subprocess.PIPE, **options) as daemon:
            try:
                yield daemon
            finally:
                daemon.kill()

    def status(self) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = client.ask(self.paths.socket, "status")["status"]
        return answer

    def answers(self) -> bool:
        try:
            return bool(self.status())
        except (client.NotRunning, client.NoAnswer):
            return False

    def log(self) -> str:
        path = self.paths.logdir / "elastiq.log"
        return path.read_text() if path.exists() else ""

    def kill(self) -> int:
        """Kill whatever runs, and return its pid."""
        pid = holder(self.paths)
        if pid and send_signal(self.paths, pid, signal.SIGKILL):
            until(lambda: holder(self.paths) != pid)
        return pid or 0


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    head = Head(tmp_path)
    yield head
    head.kill()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --------------------------------------------------------------------------- start, status, stop


def test_start_status_stop(head: Head) -> None:
    assert head.ctl("status").returncode == 3
    started = head.ctl("start")
    pid = holder(head.paths)
    assert (started.returncode, started.stdout) == (0, f"elastiq started (pid {pid})\n")
    shown = head.ctl("status")
    assert shown.returncode == 0
    assert shown.stdout.startswith("elastiq ") and CLUSTER in shown.stdout
    stopped = head.ctl("stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"elastiq stopped (pid {pid})\n")
    assert head.ctl("status").returncode == 3
    assert head.ctl("stop").stdout == "elastiq is not running\n"
    assert not head.paths.socket.exists()


def test_it_starts_from_a_clone_that_is_found_by_a_relative_path(head: Head) -> None:
    argv = [sys.executable, "-m", "elastiq", *head.arguments(), "start"]
    done = subprocess.run(argv, cwd=ROOT, env=head.environment(PYTHONPATH="."), capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_json_status_has_the_stable_keys(head: Head) -> None:
    head.ctl("start")
    until(lambda: head.status()["queue"]["known"])
    shown = head.ctl("status", "--json")
    assert shown.returncode == 0
    status = json.loads(shown.stdout)
    assert {"version", "cluster", "state", "queue", "nodes", "pools", "quota", "last_plan"} <= set(status)
    queue = {"waiting_jobs", "unmatchable_jobs", "groups", "observed_at", "age_s", "known"}
    assert queue <= set(status["queue"])
    assert {"min_vms", "max_vms", "counted"} <= set(status["quota"])
    assert {"at", "launch", "drain", "terminate", "reasons"} <= set(status["last_plan"])
    assert status["state"] in ("starting", "active")
    assert status["pid"] == holder(head.paths)


def test_every_key_of_the_status_is_documented(head: Head) -> None:
    head.ctl("start")
    documented = (ROOT / "docs/status.md").read_text()

    def keys(value: Any) -> Iterator[str]:
        for key, inner in value.items() if isinstance(value, dict) else ():
            if key not in ("counters", "faults", "blocked"):
                yield key
                yield from keys(inner)
        for inner in value if isinstance(value, list) else ():
            yield from keys(inner)

    status = json.loads(head.ctl("status", "--json").stdout)
    assert not [key for key in keys(status) if f"`{key}`" not in documented]


def test_a_second_start_says_that_it_runs_already(head: Head) -> None:
    head.ctl("start")
    pid = holder(head.paths)
    again = head.ctl("start")
    assert (again.returncode, again.stdout) == (0, f"elastiq runs already (pid {pid})\n")
    assert holder(head.paths) == pid


def test_of_many_starts_at_once_one_daemon_comes(head: Head) -> None:
    starts = [head.popen("start") for _ in range(4)]
    said = [start.communicate(timeout=PATIENCE_S) for start in starts]
    pid = holder(head.paths)
    assert [start.returncode for start in starts] == [0] * 4, said
    assert pid and all(f"(pid {pid})" in out for out, _ in said)
    assert sum("started" in out for out, _ in said) == 1
    argv = [f"/proc/{name}/cmdline" for name in os.listdir("/proc") if name.isdigit()]
    mine = [
        path for path in argv if os.path.exists(path) and str(head.paths.statedir) in Path(path).read_text()
    ]
    assert len(mine) == 1


def test_a_restart_is_another_process(head: Head) -> None:
    head.ctl("start")
    before = holder(head.paths)
    done = head.ctl("restart")
    assert done.returncode == 0
    assert holder(head.paths) not in (before, None)


def test_a_restart_with_a_wrong_configuration_leaves_it_running(head: Head) -> None:
    head.ctl("start")
    before = holder(head.paths)
    head.configure("[quota]\nmax_vms = none of your business\n")
    assert head.ctl("restart").returncode == 78
    assert holder(head.paths) == before and head.answers()


def test_a_wrong_configuration_starts_nothing_and_all_of_it_is_told(head: Head) -> None:
    head.configure("[quota]\nmax_vms = many\nmin_vms = -1\n")
    done = head.ctl("start")
    assert done.returncode == 78
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and all("elastiq.conf:1" in line and "[quota]" in line for line in lines)
    assert holder(head.paths) is None and not head.paths.statedir.exists()


def test_a_daemon_that_dies_at_its_start_is_shown_with_the_end_of_its_log(head: Head) -> None:
    (head.paths.statedir / "elastiq.db").mkdir(parents=True)
    done = head.ctl("start")
    assert done.returncode == 73
    assert "did not start (exit code 73)" in done.stderr and "elastiq.db" in done.stderr


def test_the_background_process_has_left_everything_behind(head: Head) -> None:
    head.ctl("start")
    pid = holder(head.paths)
    assert os.getsid(pid or 0) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert "s3cr3t" not in Path(f"/proc/{pid}/cmdline").read_text()


# --------------------------------------------------------------------------- what goes wrong


def test_after_a_kill_status_says_so_and_a_start_works(head: Head) -> None:
    head.ctl("start")
    killed = head.kill()
    assert head.paths.socket.exists(), "left behind"
    assert head.ctl("status").returncode == 3
    assert head.ctl("start").returncode == 0
    assert holder(head.paths) not in (None, killed)
    assert head.ctl("status").returncode == 0


def test_a_pid_that_another_process_has_now_is_neither_believed_nor_stopped(head: Head) -> None:
    head.ctl("start")
    head.kill()
    with subprocess.Popen(["sleep", "60"]) as stranger:
        for path in (head.paths.statedir / LOCK, head.paths.rundir / "elastiq.pid"):
            path.write_text(f"{stranger.pid}\n")
        assert head.ctl("status").returncode == 3
        assert head.ctl("stop").stdout == "elastiq is not running\n"
        assert stranger.poll() is None
        assert head.ctl("start").returncode == 0
        assert holder(head.paths) not in (None, stranger.pid)
        assert head.ctl("stop").returncode == 0
        assert stranger.poll() is None
        stranger.kill()


def test_a_second_daemon_in_the_foreground_is_refused_with_one_line(head: Head) -> None:
    head.ctl("start")
    with head.foreground() as second:
        _, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 75
    assert len(err.splitlines()) == 1 and f"pid {holder(head.paths)}" in err
    assert head.answers()


def test_a_stop_ends_a_hung_command_at_once(head: Head) -> None:
    mark = head.path / "hangs"
    head.command("condor_q", f"trap '' TERM; echo $$ > {mark}; sleep 600 & wait; sleep 600")
    head.ctl("start")
    until(lambda: mark.exists() and mark.read_text().strip())
    hung = int(mark.read_text())
    stopped = head.ctl("stop")
    assert stopped.returncode == 0 and "killed" not in stopped.stdout
    assert not alive(hung)
    assert "killed" not in head.log() and "did not end" not in head.log()


def test_a_daemon_that_does_not_end_is_killed_by_stop(head: Head) -> None:
    head.ctl("start")
    pid = holder(head.paths)
    os.kill(pid or 0, signal.SIGSTOP)
    done = head.ctl("stop")
    assert (done.returncode, done.stdout) == (0, f"elastiq stopped (pid {pid}), killed\n")
    assert "did not end within" in done.stderr
    assert holder(head.paths) is None


def test_a_daemon_that_does_not_answer_is_not_called_stopped(head: Head) -> None:
    head.ctl("start")
    head.paths.socket.unlink()
    done = head.ctl("status")
    assert done.returncode == 4 and f"pid {holder(head.paths)}" in done.stderr


REMOVED = {
    "the state directory": "state",
    "the state's lock": "state/elastiq.lock",
    "the run directory": "run",
    "both locks": "*/elastiq.[lp]*[kd]",
}


@pytest.mark.parametrize("what", REMOVED)
def test_whatever_is_removed_under_a_daemon_it_is_stopped_all_the_same(head: Head, what: str) -> None:
    head.ctl("start")
    pid = holder(head.paths)
    for path in list(head.path.glob(REMOVED[what])):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not list(head.path.glob(REMOVED[what])) and alive(pid or 0)
    again = head.ctl("start")
    assert "started" not in again.stdout and f"(pid {pid})" in again.stdout + again.stderr
    assert again.returncode == (0 if what == "the run directory" else 75)
    done = head.ctl("stop")
    assert (done.returncode, done.stdout) == (0, f"elastiq stopped (pid {pid})\n")
    assert not alive(pid or 0)


@pytest.mark.parametrize("other", ["--statedir", "--rundir"])
def test_one_directory_alone_is_enough_to_stop_it(head: Head, other: str) -> None:
    head.ctl("start")
    pid = holder(head.paths)
    if other == "--statedir":
        started = head.ctl(other, str(head.path / "none"), "start")
        assert started.returncode == 75 and f"(pid {pid})" in started.stderr
        assert str(head.path / "none") in started.stderr
    done = head.ctl(other, str(head.path / "none"), "stop")
    assert (done.returncode, done.stdout) == (0, f"elastiq stopped (pid {pid})\n")


@pytest.mark.parametrize(("option", "directory"), [("--statedir", "state"), ("--rundir", "run")])
def test_a_restart_that_names_one_directory_alone_changes_nothing_and_names_the_other(
    head: Head, option: str, directory: str
) -> None:
    """It would come up again with the usual one, and with none of the state that it had."""
    head.ctl("start")
    pid = holder(head.paths)
    done = head.ctl(option, str(head.path / "none"), "restart")
    assert done.returncode == 75 and f"(pid {pid})" in done.stderr
    assert f"{option} {head.path / directory}" in done.stderr
    assert holder(head.paths) == pid and head.answers()


def test_a_restart_after_the_state_directory_was_removed_is_another_process(head: Head) -> None:
    head.ctl("start")
    before = holder(head.paths)
    shutil.rmtree(head.paths.statedir)
    assert head.ctl("restart").returncode == 0
    assert holder(head.paths) not in (before, None) and not alive(before or 0)


def test_directories_of_two_daemons_stop_neither(head: Head) -> None:
    """The state of one, the socket of the other: which one is meant is not ours to guess."""
    head.ctl("start")
    first = holder(head.paths)
    config, state, run = head.path / "bob.conf", head.path / "state2", head.path / "run2"
    config.touch(0o600)
    config.write_text(head.paths.config.read_text().replace(CLUSTER, f"bob-{CLUSTER}"))
    second = Paths(config, head.paths.logdir, state, run)
    others = ["--config", str(config), "--statedir", str(state), "--rundir", str(run)]
    assert head.ctl(*others, "start").returncode == 0
    try:
        done = head.ctl("--statedir", str(state), "stop")
        assert done.returncode == 1
        assert f"(pid {first})" in done.stderr and f"(pid {holder(second)})" in done.stderr
        assert alive(first or 0) and alive(holder(second) or 0)
    finally:
        send_signal(second, holder(second) or 0, signal.SIGKILL)


def test_a_file_that_is_in_the_way_of_a_lock_does_not_hang_a_stop(head: Head) -> None:
    head.paths.statedir.mkdir()
    os.mkfifo(head.paths.statedir / LOCK)
    done = head.ctl("stop")
    assert done.returncode in (0, 1) and "started" not in done.stdout


# --------------------------------------------------------------------------- signals


@pytest.fixture
def silent_cloud() -> Iterator[socket.socket]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener


def begin_a_call_that_hangs(head: Head, silent_cloud: socket.socket) -> socket.socket:
    """Once this returns, a call is in flight, as long as what is returned is kept."""
    until(lambda: head.answers() and head.status()["queue"]["known"])
    return silent_cloud.accept()[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(head: Head, number: signal.Signals) -> None:
    with head.foreground() as daemon:
        until(head.answers)
        daemon.send_signal(number)
        _, err = daemon.communicate(timeout=PATIENCE_S)
    assert daemon.returncode == 0
    assert number.name in err and "elastiq ends" in err and "Traceback" not in err
    assert "s3cr3t" not in err


def test_no_signal_right_after_the_start_is_lost(head: Head) -> None:
    for _ in range(8):  # the kernel may give it to any thread, and one in ten was once not noticed
        with head.foreground() as daemon:
            until(head.answers)
            daemon.send_signal(signal.SIGTERM)
            daemon.communicate(timeout=PATIENCE_S)
        assert daemon.returncode == 0


def test_a_call_that_hangs_holds_the_end_up_for_some_seconds_only(head: Head, silent_cloud: socket.socket) -> None:
    head.configure(port=silent_cloud.getsockname()[1])
    with head.foreground() as daemon, begin_a_call_that_hangs(head, silent_cloud):
        began = time.monotonic()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(PATIENCE_S) == 0, "it left by itself, before LEAVE_S was over"
        assert time.monotonic() - began > 2, "it should have given the call some time"


def test_a_second_signal_ends_it_at_once(head: Head, silent_cloud: socket.socket) -> None:
    head.configure(port=silent_cloud.getsockname()[1])
    with head.foreground() as daemon, begin_a_call_that_hangs(head, silent_cloud):
        daemon.send_signal(signal.SIGTERM)
        until(lambda: "SIGTERM: ending" in head.log())  # or the kernel makes one signal of two
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(PATIENCE_S) == 128 + signal.SIGTERM, "which says that it did not wait for the call"


HANG = """
import sys, time
from elastiq import service
from elastiq.daemon import Daemon
def hang(self):
    print("hangs", file=sys.stderr, flush=True)
    while True: time.sleep(1)
Daemon.check_vms = hang
sys.exit(service.main())
"""


def test_a_loop_that_hangs_answers_feeds_no_watchdog_and_can_be_ended(head: Head, tmp_path: Path) -> None:
    with Notified(str(tmp_path / "notify")) as systemd:
        with head.foreground(HANG, NOTIFY_SOCKET=systemd.name, WATCHDOG_USEC="400000") as daemon:
            assert daemon.stderr is not None
            while daemon.stderr.readline() != "hangs\n":
                pass
            systemd.read_all(0.3)  # what came before
            assert "WATCHDOG=1" not in systemd.read_all(1.0)
            assert head.answers(), "the last published status is answered all the same"
            daemon.send_signal(signal.SIGTERM)
            _, err = daemon.communicate(timeout=PATIENCE_S)
    assert daemon.returncode == 70 and "did not end" in err


def test_the_watchdog_s_abort_shows_where_the_loop_hung(head: Head) -> None:
    with head.foreground(HANG) as daemon:
        assert daemon.stderr is not None
        while daemon.stderr.readline() != "hangs\n":
            pass
        daemon.send_signal(signal.SIGABRT)
        _, err = daemon.communicate(timeout=PATIENCE_S)
    assert daemon.returncode == -signal.SIGABRT and "in hang" in err


# --------------------------------------------------------------------------- reload


def test_a_reload_takes_the_new_settings(head: Head) -> None:
    head.ctl("start")
    head.configure("[quota]\nmax_vms = 7\n")
    os.kill(holder(head.paths) or 0, signal.SIGHUP)
    until(lambda: head.status()["quota"]["max_vms"] == 7)


def test_a_reload_of_an_invalid_file_keeps_the_old_settings_and_says_so(head: Head) -> None:
    head.ctl("start")
    head.configure("[quota]\nmax_vms = 7\nmin_vms = 9\n")
    os.kill(holder(head.paths) or 0, signal.SIGHUP)
    until(lambda: any("old settings stay" in notice for notice in head.status()["notices"]))
    assert head.status()["quota"]["max_vms"] == 3
    assert "old settings stay" in head.log() and "min_vms" in head.log()
    assert "old settings stay" in head.ctl("status").stdout
    head.configure("[quota]\nmax_vms = 8\n")
    os.kill(holder(head.paths) or 0, signal.SIGHUP)
    until(lambda: head.status()["quota"]["max_vms"] == 8)
    assert not any("old settings stay" in notice for notice in head.status()["notices"])


def test_the_cluster_s_name_cannot_change_under_way(head: Head) -> None:
    head.ctl("start")
    head.paths.config.write_text(head.paths.config.read_text().replace(CLUSTER, f"bob-{CLUSTER}"))
    with pytest.raises(Refused, match="cluster_name"):
        client.ask(head.paths.socket, "reload")
    assert head.status()["cluster"] == CLUSTER


def test_a_reload_over_the_socket_says_what_is_wrong(head: Head) -> None:
    head.ctl("start")
    assert client.ask(head.paths.socket, "reload")["ok"]
    head.configure("[quota]\nmax_vms = 0\n")
    with pytest.raises(Refused, match="unlimited") as refused:
        client.ask(head.paths.socket, "reload")
    assert refused.value.code == "config"


def test_the_status_counts_what_the_log_could_not_take(head: Head) -> None:
    with head.foreground() as daemon:
        until(head.answers)
        assert head.status()["log_failures"] == 0
        assert daemon.stderr is not None
        daemon.stderr.close()
        daemon.send_signal(signal.SIGHUP)  # there is something to log
        until(lambda: head.status()["log_failures"] > 0)
        until(lambda: "configuration read again" in head.log())  # the other sink is not held up


# --------------------------------------------------------------------------- systemd


class Notified:
    """Where systemd listens."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Notified:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind("\0" + self.name[1:] if self.name.startswith("@") else self.name)
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def read_all(self, for_s: float, until: str = "\0") -> list[str]:
        """The lines of all messages for so long, or until one of them comes."""
        lines: list[str] = []
        end = time.monotonic() + for_s
        while until not in lines and time.monotonic() < end:
            self._sock.settimeout(max(0.01, end - time.monotonic()))
            try:
                lines += self._sock.recv(4096).decode().splitlines()
            except socket.timeout:
                break
        return lines


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_of_start_life_reload_and_end(head: Head, tmp_path: Path, abstract: bool) -> None:
    name = f"@elastiq-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with Notified(name) as systemd:
        with head.foreground(NOTIFY_SOCKET=name, WATCHDOG_USEC="400000") as daemon:
            assert systemd.read_all(PATIENCE_S, until="READY=1") == ["READY=1"]
            assert head.answers(), "READY means that it answers"
            assert "WATCHDOG=1" in systemd.read_all(PATIENCE_S, until="WATCHDOG=1")
            daemon.send_signal(signal.SIGHUP)
            reload = systemd.read_all(PATIENCE_S, until="READY=1")
            assert "RELOADING=1" in reload and any(line.startswith("MONOTONIC_USEC=") for line in reload)
            daemon.send_signal(signal.SIGTERM)
            assert "STOPPING=1" in systemd.read_all(PATIENCE_S, until="STOPPING=1")
            daemon.communicate(timeout=PATIENCE_S)
    assert daemon.returncode == 0


def test_the_watchdog_of_another_process_is_not_ours(head: Head, tmp_path: Path) -> None:
    with Notified(str(tmp_path / "notify")) as systemd:
        with head.foreground(NOTIFY_SOCKET=systemd.name, WATCHDOG_USEC="200000", WATCHDOG_PID="1") as daemon:
            assert systemd.read_all(PATIENCE_S, until="READY=1") == ["READY=1"]
            assert systemd.read_all(1.0) == []
            daemon.send_signal(signal.SIGTERM)
            daemon.communicate(timeout=PATIENCE_S)


# --------------------------------------------------------------------------- log, conf, and the rest


def test_the_log_shows_its_end(head: Head) -> None:
    head.paths.logdir.mkdir()
    (head.paths.logdir / "elastiq.log").write_text("".join(f"line {n}\n" for n in range(100)))
    assert head.ctl("log", "-n", "2", "--no-follow").stdout == "line 98\nline 99\n"
    assert len(head.ctl("log", "--no-follow").stdout.splitlines()) == 20


def test_the_log_is_followed_across_a_rotation_until_ctrl_c(head: Head) -> None:
    head.paths.logdir.mkdir()
    path = head.paths.logdir / "elastiq.log"
    path.write_text("first\n")
    with head.popen("log") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        with path.open("a") as file:
            file.write("second\n")
        assert process.stdout.readline() == "second\n"
        with path.open("a") as file:
            file.write("last of the old\n")
            path.rename(path.with_suffix(".log.1"))
            path.write_text("first of the new\n")
        assert process.stdout.readline() == "last of the old\n"
        assert process.stdout.readline() == "first of the new\n"
        path.write_text("cut\n")
        assert process.stdout.readline() == "cut\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")


def test_a_reader_that_leaves_early_is_no_error(head: Head) -> None:
    head.paths.logdir.mkdir()
    (head.paths.logdir / "elastiq.log").write_text("line\n" * 500_000)
    with head.popen("log", "-n", "500000", "--no-follow") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize(("where", "code"), [("> /dev/full", 1), (">&-", 0), ("2>&-", 0), (">&- 2>&-", 0)])
def test_an_output_that_cannot_be_written_is_no_traceback(head: Head, where: str, code: int) -> None:
    script = f'"$@" {where}'
    argv = ["sh", "-c", script, "sh", sys.executable, "-m", "elastiq", *head.arguments(), "conf"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert len(done.stderr.splitlines()) == code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scale", "-1"), "'-1' is no whole number, 0 or more, nor `auto`"),
        (("scale", "1.5"), "'1.5' is no whole number, 0 or more, nor `auto`"),
        (("history", "-n", "-3"), "'-3' is no whole number, 0 or more"),
        (("log", "-n", "-5"), "'-5' is no whole number, 0 or more"),
        (("drain", ""), "argument NODE: it is empty: most likely a variable that is not set"),
        (("explain", " "), "it is empty"),
        (("scale", "1", "--pool", ""), "argument --pool: it is empty"),
        (("pause", "--reason", "x" * 70_000), "argument --reason: it is too long, write at most 200 characters"),
    ],
)
def test_wrong_words_are_told_with_what_is_right(head: Head, words: tuple[str, ...], said: str) -> None:
    done = head.ctl(*words)
    assert done.returncode == 2 and said in done.stderr.splitlines()[-1] and len(done.stderr) < 1000


def test_a_demo_names_its_page_only_where_there_is_one(head: Head) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = head.ctl("demo", "--web", port)
    assert done.returncode == 1 and "the page" not in done.stdout
    assert done.stderr == f"elastiqctl demo: port {port}: Address already in use; another: --web PORT\n"


def test_a_start_that_cannot_write_its_log_says_what_to_do(
    head: Head, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/log/elastiq.err")

    monkeypatch.setattr(process, "_open_stderr", full)
    assert process.start(head.paths) == 73
    said = "elastiqctl: /log/elastiq.err: No space left on device, cannot start: free some space\n"
    assert capsys.readouterr().err == said


def test_a_start_on_a_full_disk_says_what_to_do() -> None:
    def said(number: int) -> str:
        return explained(OSError(number, os.strerror(number), "/state"))[1][0]

    assert said(errno.ENOSPC) == "/state: No space left on device, cannot start: free some space"
    assert said(errno.EROFS).endswith("cannot start: remount it, read and write")
    assert said(errno.EIO) == "/state: Input/output error, cannot start"


AS_ANOTHER = """
import os, sys
from elastiq import config
from elastiq.cli import main, commands, follow, parser, process, systemd
config.load(sys.argv[1].partition("=")[2])  # another may not be able to import what that does
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("verb", ["stop", "restart", "start", "log"])
def test_who_may_not_look_is_told_for_whom_it_is(head: Head, verb: str) -> None:
    """The directories are closed even to their owner, and root is another meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        config, closed = Path(name) / "elastiq.conf", Path(name) / "closed"
        shutil.copy(head.paths.config, config)
        config.chmod(0o644)
        closed.mkdir(mode=0o000)
        places = [f"--{one}={closed / one}" for one in ("statedir", "rundir", "logdir")]
        argv = [sys.executable, "-c", AS_ANOTHER, f"--config={config}", *places]
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "cwd": "/"}
        env = head.environment(PYTHONPATH=str(ROOT))
        done = subprocess.run([*argv, verb], env=env, **options)
        closed.chmod(0o700)
    *warnings, said = done.stderr.splitlines()
    assert all("warning: " in line for line in warnings)
    assert said.startswith(f"elastiqctl: no permission to use {closed}/") and said.endswith("elastiq's user and group")
    assert (done.returncode, done.stdout) == (4, "")


@pytest.mark.parametrize("command", ["elastiq", "elastiq.service"])
@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_a_help_that_nobody_reads_or_that_cannot_be_written_is_no_noise(command: str, words: tuple[str, ...]) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    def left(script: str) -> tuple[int, str]:
        argv = ["bash", "-o", "pipefail", "-c", script, "bash", sys.executable, "-m", command, *words]
        done = subprocess.run(argv, cwd=ROOT, env=buffered, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stderr

    name = "elastiqctl" if command == "elastiq" else "elastiq"
    assert left('"$@" > /dev/full') == (1, f"{name}: output: No space left on device\n")
    assert left('"$@" | exec true') == (0, "")


def test_what_keeps_it_from_starting_is_an_error_in_the_journal(head: Head) -> None:
    head.configure("flavuor = x\n")
    with open(head.path / "stderr", "w+") as stream:
        its = os.fstat(stream.fileno())
        environment = head.environment(JOURNAL_STREAM=f"{its.st_dev}:{its.st_ino}")
        argv = [sys.executable, "-m", "elastiq.service", *head.arguments()]
        done = subprocess.run(argv, cwd=ROOT, env=environment, stderr=stream, timeout=PATIENCE_S)
        assert done.returncode == 78
        stream.seek(0)
        (line,) = stream.read().splitlines()
    assert line.startswith(f"<3>{head.paths.config}:") and "flavuor" in line


def test_a_daemon_of_another_version_is_said_to_be_one(head: Head) -> None:
    head.paths.rundir.mkdir()
    server = ControlServer(head.paths.socket, lambda: {"version": "1.9"}, lambda *_: Future())
    done = head.ctl("status")
    server.close()
    assert done.returncode == 0 and "1.9" in done.stdout and "restart" in done.stdout


def test_conf_shows_versions_places_and_keys_but_no_secret(head: Head) -> None:
    done = head.ctl("conf")
    assert done.returncode == 0
    for text in (sys.version.split()[0], str(head.paths.config), str(head.paths.statedir), "ec2.image_id"):
        assert text in done.stdout
    assert "s3cr3t" not in done.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("nonsense",), 2),
        (("status", "--nonsense"), 2),
        (("log", "-n", "-1"), 2),
        (("log", "-n", "x"), 2),
        (("--config", "", "start"), 2),
        (("--logdir", "", "log"), 2),
        (("--statedir", "", "stop"), 2),
        (("status", "--rundir", ""), 2),
        (("--config", "/nowhere/x", "start"), 78),
        (("--config", "/", "conf"), 78),
        (("--rundir", "/proc/nowhere", "start"), 73),
        (("--logdir", "/proc/nowhere", "start"), 73),
        (("--statedir", "/dev/null", "status"), 3),
        (("--statedir", "/dev/null/x", "stop"), 1),
        (("--rundir", "/" + "x" * 300, "status"), 4),
        (("log",), 1),
        (("adopt", "--yes"), 3),
        (("--help",), 0),
        (("start", "--help"), 0),
        (("--version",), 0),
    ],
)
def test_no_input_ends_in_a_traceback(head: Head, words: tuple[str, ...], code: int) -> None:
    done = head.ctl(*words)
    assert done.returncode == code, done
    if code not in (0, 2):
        assert len(done.stderr.splitlines()) >= 1


@pytest.mark.parametrize("option", ["--config", "--logdir", "--statedir", "--rundir"])
def test_an_empty_path_is_not_taken_for_the_usual_one(option: str) -> None:
    argv = [sys.executable, "-m", "elastiq.service", option, ""]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2 and f"argument {option}: invalid path value: ''" in done.stderr


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_an_error_that_no_file_is_known_for_is_told_without_one(number: int) -> None:
    assert explained(OSError(number, os.strerror(number)))[1] == [f"system: {os.strerror(number)}, cannot start"]
    assert explained(OSError(number, "x", "/f"))[1][0].startswith("/f: x, cannot start")


def test_the_demo_needs_no_configuration(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "elastiq", "demo", "--help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and "--speed" in done.stdout


def test_without_another_head_s_instances_there_is_nothing_to_adopt(head: Head) -> None:
    head.ctl("start")
    done = head.ctl("adopt")
    assert done.returncode == 0 and "nothing to adopt" in done.stdout


@pytest.fixture
def adoptions(head: Head) -> Iterator[list[Mapping[str, Any]]]:
    """A daemon that knows two instances of another head; what it was asked comes in here."""
    asked: list[Mapping[str, Any]] = []

    def command(verb: str, args: Mapping[str, Any]) -> Future[Mapping[str, Any]]:
        asked.append({"verb": verb, **args})
        future: Future[Mapping[str, Any]] = Future()
        future.set_result({"adopted": args["ids"]} if "ids" in args else {"instances": ["i-1", "i-2"]})
        return future

    head.paths.rundir.mkdir()
    server = ControlServer(head.paths.socket, dict, command)
    yield asked
    server.close()


def test_adopt_does_nothing_without_a_yes(head: Head, adoptions: list[Mapping[str, Any]]) -> None:
    done = head.ctl("adopt")
    assert done.returncode == 1 and "i-1" in done.stdout and "--yes" in done.stderr
    assert adoptions == [{"verb": "adopt"}]
    assert head.ctl("adopt", "--yes").returncode == 0
    assert adoptions[1:] == [{"verb": "adopt"}, {"verb": "adopt", "ids": ["i-1", "i-2"]}]


@pytest.mark.parametrize(
    ("typed", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), ("\x04", 1), ("\x03", 130)]
)
def test_adopt_asks_in_a_terminal(
    head: Head, adoptions: list[Mapping[str, Any]], typed: str, code: int
) -> None:
    terminal, its_end = pty.openpty()
    with head.popen("adopt", stdin=its_end, start_new_session=True, preexec_fn=_take_terminal) as process:
        os.close(its_end)
        assert process.stdout is not None
        shown = b""
        while b"[y/N]" not in shown:
            more = os.read(process.stdout.fileno(), 1000)
            assert more, "it ended without a question"
            shown += more
        os.write(terminal, typed.encode())
        end = time.monotonic() + PATIENCE_S
        # A ^C between the question and the wait for its answer is heard with the next key.
        while typed == "\x03" and process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
                break
            os.write(terminal, typed.encode())
        _, err = process.communicate(timeout=PATIENCE_S)
    os.close(terminal)
    assert process.returncode == code and "Traceback" not in err
    assert ({"verb": "adopt", "ids": ["i-1", "i-2"]} in adoptions) == (code == 0)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_pool_is_taken_out_of_service_and_back(head: Head) -> None:
    assert head.ctl("drain-pool", "ec2").returncode == 3
    assert head.ctl("drain-pool").returncode == 2
    head.configure("[ec2:gpu]\nflavour = g1.large\n")
    head.ctl("start")
    wrong = head.ctl("drain-pool", "gpus")
    assert (wrong.returncode, wrong.stderr) == (1, "elastiqctl: there is no pool `gpus`; there are ec2, gpu\n")
    done = head.ctl("drain-pool", "gpu")
    assert (done.returncode, done.stdout) == (
        0,
        "pool gpu is out of service: nothing is launched there, and what is idle there ends "
        "(undone by: elastiqctl undrain-pool gpu)\n",
    )
    head.ctl("restart")
    assert [pool["drained"] for pool in head.status()["pools"]] == [False, True]
    assert "  ! out of service, until elastiqctl undrain-pool gpu" in head.ctl("status").stdout.splitlines()
    done = head.ctl("undrain-pool", "gpu")
    assert (done.returncode, done.stdout) == (0, "pool gpu is in service\n")
    assert [pool["drained"] for pool in head.status()["pools"]] == [False, False]


def test_a_default_daemon_does_not_import_elastiqctl() -> None:
    code = "import sys, elastiq.service; print([m for m in sys.modules if m.startswith(('elastiq.cli', 'elastiq.client', 'elastiq.simulation'))])"  # noqa: E501
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
