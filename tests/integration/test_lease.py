"""The lease of a worker: the script that is shipped, run by the shells that are here, with a real listener for a
head node. Its time is ours: `sleep` is a command that waits until the test has moved the uptime on."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable, Iterator, Optional

import pytest

from elastiq import userdata

SCRIPT = Path(__file__).resolve().parents[2] / "packaging/worker-lease/elastiq-lease"
SHELLS = {name: [found, *more] for name, *more in (("dash",), ("busybox", "sh"), ("bash", "--posix"))
          if (found := shutil.which(name))}  # fmt: skip
LIMIT_S, EVERY_S = 600, 60
DEADLINE_S = 90


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


class HeadNode:
    """A port that takes connections, or refuses them."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host, self.port = host, 0
        self._listener: Optional[socket.socket] = None
        self.open()

    def open(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((self.host, self.port))
        self._listener.listen(1000)
        self.port = self._listener.getsockname()[1]

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    @property
    def place(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Worker:
    """A machine in a directory: its /proc, its commands, and the lease that watches it."""

    def __init__(self, path: Path, shell: list[str], head: HeadNode) -> None:
        self.path, self.shell, self.head = path, shell, head
        self.proc, self.bin, self.off = path / "proc", path / "bin", path / "off"
        self.uptime = 100
        for folder in (self.proc / "sys/kernel/random", self.bin):
            folder.mkdir(parents=True)
        self.boot("boot-1")
        self.process(1, "systemd")
        os.mkfifo(path / "asleep")
        os.mkfifo(path / "awake")
        self._asleep, self._awake = (os.open(path / name, os.O_RDWR) for name in ("asleep", "awake"))
        self.command("sleep", f'echo "$1" >"{path}/asleep"\nread -r _ <"{path}/awake"')
        for dangerous in ("shutdown", "poweroff", "systemctl", "logger"):  # never this machine's own
            self.command(dangerous, f'echo "{dangerous} $*" >>"{self.off}"')
        self.lease: Optional[subprocess.Popen[str]] = None

    def command(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def boot(self, boot_id: str) -> None:
        (self.proc / "sys/kernel/random/boot_id").write_text(f"{boot_id}\n")

    def process(self, pid: int, name: str) -> None:
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "comm").write_text(f"{name}\n")

    def end_process(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def environment(self, **more: str) -> dict[str, str]:
        own = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "LEASE_POWEROFF": f"echo off >>{self.off}",
            "LEASE_MINUTES": str(LIMIT_S // 60),
            "LEASE_SLEEP": str(self.bin / "sleep"),  # by its path: busybox has one of its own
            "LEASE_PROC": str(self.proc),
            "LEASE_STATE": str(self.path / "state"),
            "LEASE_SYSTEMD": str(self.path / "systemd"),
            "LEASE_CONF": str(self.path / "conf"),
            "LEASE_BIN": str(self.path / "installed"),
            "LEASE_UNIT": str(self.path / "unit"),
        }
        return {**own, **more}

    def start(self, *arguments: str, **more: str) -> None:
        """Run the lease in the foreground up to its first pause."""
        self.show_uptime()
        places = arguments or (self.head.place,)
        self.lease = subprocess.Popen(
            [*self.shell, str(SCRIPT), "-f", *places], env=self.environment(**more), stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.looked()

    def show_uptime(self) -> None:
        new = self.proc / "uptime.new"
        new.write_text(f"{self.uptime}.07 {self.uptime * 2}.50\n")
        new.rename(self.proc / "uptime")

    def looked(self) -> int:
        """It has looked and acted, and pauses: for how long."""
        assert select.select([self._asleep], [], [], DEADLINE_S)[0], "the lease does not go on"
        return int(os.read(self._asleep, 100).split()[-1])

    def after(self, seconds: int, passes: Optional[int] = None) -> None:
        """Let it look again and again until so many seconds have passed, or once after a pause of ``passes``."""
        for _ in range(1 if passes else seconds // EVERY_S):
            self.uptime += passes or EVERY_S
            self.show_uptime()
            os.write(self._awake, b"on\n")
            self.looked()

    def offs(self) -> int:
        return len(self.off.read_text().splitlines()) if self.off.exists() else 0

    def kill(self) -> str:
        """As kill -9 does; what it had said."""
        assert self.lease is not None
        os.killpg(self.lease.pid, signal.SIGKILL)
        return self.lease.communicate(timeout=DEADLINE_S)[1]

    def close(self) -> None:
        if self.lease is not None and self.lease.poll() is None:
            self.kill()
        os.close(self._asleep)
        os.close(self._awake)


@pytest.fixture
def head() -> Iterator[HeadNode]:
    node = HeadNode()
    yield node
    node.close()


@pytest.fixture(params=list(SHELLS))
def worker(request: pytest.FixtureRequest, tmp_path: Path, head: HeadNode) -> Iterator[Worker]:
    machine = Worker(tmp_path, SHELLS[request.param], head)
    yield machine
    machine.close()


@pytest.fixture
def one(tmp_path: Path, head: HeadNode) -> Iterator[Worker]:
    """For what does not depend on the shell."""
    machine = Worker(tmp_path, ["sh"], head)
    yield machine
    machine.close()


def test_it_powers_off_when_the_head_node_was_away_for_the_whole_time_and_not_before(worker: Worker) -> None:
    worker.start()
    worker.after(2 * LIMIT_S)
    assert worker.offs() == 0, "the head node is there"
    worker.head.close()
    worker.after(LIMIT_S - EVERY_S)
    assert worker.offs() == 0, "not long enough"
    worker.after(EVERY_S)
    assert worker.offs() == 1
    said = worker.kill()
    assert "the head node does not answer" in said and f"not seen for {LIMIT_S} s and no job runs" in said


def test_one_sight_of_the_head_node_begins_the_time_anew(worker: Worker) -> None:
    worker.start()
    worker.head.close()
    worker.after(LIMIT_S - EVERY_S)
    worker.head.open()
    worker.after(EVERY_S)
    worker.head.close()
    worker.after(LIMIT_S - EVERY_S)
    assert worker.offs() == 0
    worker.after(EVERY_S)
    assert worker.offs() == 1


@pytest.mark.parametrize("job", ["condor_starter", "slurmstepd", "sge_shepherd"])
def test_nothing_is_powered_off_under_a_job(one: Worker, job: str) -> None:
    one.process(4711, job)
    one.start()
    one.head.close()
    one.after(2 * LIMIT_S)
    assert one.offs() == 0
    one.end_process(4711)
    one.after(EVERY_S)
    one.process(4712, job)  # the next job of the same claim
    one.after(EVERY_S)
    one.end_process(4712)
    one.after(2 * EVERY_S)
    assert one.offs() == 0, "the end of a job may be the moment before the next"
    one.after(EVERY_S)
    assert one.offs() == 1


def test_not_to_know_whether_a_job_runs_counts_as_a_job(worker: Worker) -> None:
    worker.end_process(1)  # as where /proc shows a user his own processes only
    worker.start()
    worker.head.close()
    worker.after(2 * LIMIT_S)
    assert worker.offs() == 0
    worker.process(1, "systemd")
    worker.after(3 * EVERY_S)
    assert worker.offs() == 1


@pytest.mark.parametrize(
    ("ends", "offs"), [("exit 0", 0), ("exit 1", 1), ("exit 2", 0), ("kill -9 $$", 0), ("nosuch", 0)]
)
def test_a_command_of_ones_own_may_tell_of_jobs(one: Worker, ends: str, offs: int) -> None:
    one.start(LEASE_JOBS=ends)
    one.head.close()
    one.after(LIMIT_S)
    assert one.offs() == offs


def test_after_a_boot_it_has_the_whole_time_to_see_the_head_node(worker: Worker) -> None:
    worker.uptime = 20
    worker.head.close()
    worker.start()
    worker.after(LIMIT_S - EVERY_S)
    assert worker.offs() == 0
    worker.after(EVERY_S)
    assert worker.offs() == 1


def test_started_late_it_does_not_take_the_time_before_for_absence(worker: Worker) -> None:
    worker.uptime = 10 * 86_400
    worker.head.close()
    worker.start()
    worker.after(LIMIT_S - EVERY_S)
    assert worker.offs() == 0
    worker.after(EVERY_S)
    assert worker.offs() == 1


def test_a_kill_does_not_make_it_forget(worker: Worker) -> None:
    worker.start()
    worker.head.close()
    for _ in range(3):
        worker.after(EVERY_S)
        worker.kill()
        worker.uptime += EVERY_S  # until it is started again
        worker.start()
    worker.after(LIMIT_S - 7 * EVERY_S)
    assert worker.offs() == 0
    worker.after(EVERY_S)
    assert worker.offs() == 1


def test_whatever_it_remembers_nothing_is_done_soon_after_a_boot(one: Worker) -> None:
    (one.path / "state").write_text("boot-1 9000 50\n")
    one.uptime = 60
    one.head.close()
    one.start()
    one.after(LIMIT_S - 2 * EVERY_S)
    assert one.offs() == 0
    one.after(EVERY_S)
    assert one.offs() == 1


@pytest.mark.parametrize("state", ["boot-0 9000 50\n", "boot-1 9000 99999999\n", "boot-1\n", "boot-1 x 5\n", "", "\0"])
def test_what_is_of_another_boot_or_makes_no_sense_is_forgotten(one: Worker, state: str) -> None:
    (one.path / "state").write_text(state)
    one.uptime = 9000
    one.head.close()
    one.start()
    one.after(LIMIT_S - EVERY_S)
    assert one.offs() == 0
    one.after(EVERY_S)
    assert one.offs() == 1


def test_where_the_state_cannot_be_kept_the_lease_holds_all_the_same(one: Worker) -> None:
    one.start(LEASE_STATE=str(one.path / "none" / "state"))
    one.head.close()
    one.after(LIMIT_S)
    assert one.offs() == 1


def test_time_in_which_the_machine_slept_is_no_absence(worker: Worker) -> None:
    worker.start()
    worker.head.close()
    worker.after(EVERY_S)
    worker.after(0, passes=20 * LIMIT_S)
    assert worker.offs() == 0
    worker.after(LIMIT_S - 3 * EVERY_S)
    assert worker.offs() == 0
    worker.after(EVERY_S)
    assert worker.offs() == 1


def test_a_power_off_that_fails_is_tried_again(worker: Worker) -> None:
    worker.start(LEASE_POWEROFF=f"echo off >>{worker.off}; exit 7")
    worker.head.close()
    worker.after(LIMIT_S + 2 * EVERY_S)
    assert worker.offs() == 3
    assert "that failed with 7, it will be tried again" in worker.kill()


def test_by_default_it_is_shut_down_and_where_that_fails_powered_off(one: Worker) -> None:
    one.start(LEASE_POWEROFF="")
    one.head.close()
    one.after(LIMIT_S)
    assert one.off.read_text() == "shutdown -h now\n"
    one.command("shutdown", "exit 1")
    one.after(EVERY_S)
    assert one.off.read_text() == "shutdown -h now\npoweroff -f\n"


def test_any_of_several_places_or_a_command_shows_the_head_node(worker: Worker) -> None:
    sign = worker.path / "sign"
    second = HeadNode()
    worker.start("127.0.0.1:1", second.place, LEASE_CHECK=f"test -e {sign}")
    worker.after(2 * EVERY_S)
    second.close()
    sign.touch()
    worker.after(LIMIT_S)
    assert worker.offs() == 0
    sign.unlink()
    worker.after(LIMIT_S)
    assert worker.offs() == 1
    assert worker.kill().count("does not answer") == 1, "it had been there all the time until then"


@pytest.mark.parametrize("program", ["bash", "python3"])
def test_it_connects_with_what_the_worker_has_also_by_ipv6(one: Worker, program: str) -> None:
    """Only these commands are there; without bash, Python connects."""
    tools = one.path / "tools"
    tools.mkdir()
    for name in ("sh", "timeout", "mv"):
        (tools / name).symlink_to(os.path.realpath(str(shutil.which(name))))
    one.command(program, f'exec {sys.executable if program == "python3" else shutil.which(program)} "$@"')
    node = HeadNode("::1")
    one.start(node.place, PATH=f"{one.bin}:{tools}")
    one.after(2 * EVERY_S)
    node.close()
    one.after(EVERY_S)
    said = one.kill()
    assert said.count("does not answer") == 1, said
    assert (one.path / "state").read_text().split()[1] == str(EVERY_S)


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({}, "name the head node, or set LEASE_CHECK"),
        ({"LEASE_HEAD": "h", "LEASE_MINUTES": "0"}, "'0' is no whole number above 0"),
        ({"LEASE_HEAD": "h", "LEASE_MINUTES": "08"}, "'08' is no whole number above 0"),
        ({"LEASE_HEAD": "h", "LEASE_EVERY_S": "1 minute"}, "'1 minute' is no whole number above 0"),
        ({"LEASE_HEAD": "h", "LEASE_PROC": "/nonexistent"}, "/nonexistent/uptime cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_in_one_line(worker: Worker, variables: dict[str, str], complaint: str) -> None:
    argv = [*worker.shell, str(SCRIPT), "-f"]
    env = worker.environment(**variables)
    done = subprocess.run(argv, env=env, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (2, f"elastiq-lease: {complaint}: this worker has no lease\n")


def test_in_elastiqs_user_data_it_needs_no_setting(worker: Worker) -> None:
    """elastiq has put in its own address; only the port is changed here, to one that nobody else may have. The
    hour is the default's."""
    data = userdata.substitute(SCRIPT.read_bytes(), {"ipv4": worker.head.host})
    part = worker.path / "part-001"
    part.write_bytes(data.replace(b"PORT=9618", b"PORT=%d" % worker.head.port))
    worker.show_uptime()
    argv = [*worker.shell, str(part), "-f"]
    env = worker.environment(LEASE_MINUTES="")
    worker.lease = subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)
    worker.looked()
    worker.after(EVERY_S)
    worker.head.close()
    worker.after(3600 - EVERY_S)
    assert worker.offs() == 0
    worker.after(EVERY_S)
    assert worker.offs() == 1
    assert len(data) < userdata.LIMIT * 0.6, "there is room for the user data of others"


def test_it_installs_itself_as_a_service_that_keeps_its_settings(worker: Worker) -> None:
    (worker.path / "systemd").mkdir()
    worker.show_uptime()
    settings = {"LEASE_MINUTES": "30", "LEASE_CHECK": "test 'a b' = \"$HOME\" # 100%"}
    done = subprocess.run(
        [*worker.shell, str(SCRIPT), worker.head.place], env=worker.environment(**settings), timeout=DEADLINE_S,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert worker.off.read_text().splitlines() == [
        "systemctl daemon-reload", "systemctl enable elastiq-lease.service",
        "systemctl --no-block restart elastiq-lease.service",
    ]  # fmt: skip
    worker.off.unlink()
    unit = dict(line.split("=", 1) for line in (worker.path / "unit").read_text().splitlines() if "=" in line)
    assert (unit["Restart"], unit["RestartPreventExitStatus"]) == ("always", "2")
    shell, flags, text = unit["ExecStart"].split(" ", 2)
    assert text[0] == text[-1] == "'" and "'" not in text[1:-1], "one word for systemd"
    # As systemd runs it: with nothing of ours in the environment.
    env = {"PATH": worker.environment()["PATH"], "HOME": "a b"}
    worker.lease = subprocess.Popen(
        [shell, flags, text[1:-1]], env=env, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    worker.looked()
    worker.head.close()
    worker.after(LIMIT_S)
    assert worker.offs() == 0, "the command sees it"
    assert "power off after 1800 s" in worker.kill()


def test_without_systemd_it_runs_in_the_background_and_survives_a_kill(worker: Worker) -> None:
    worker.command("logger", f'exec cat >>"{worker.path}/log"')
    worker.show_uptime()
    argv = [*worker.shell, str(SCRIPT), worker.head.place]
    starter = subprocess.Popen(argv, env=worker.environment(), stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert starter.wait(DEADLINE_S) == 0
        worker.looked()
        worker.head.close()
        worker.after(EVERY_S)
        (loop,) = processes_with(f"{SCRIPT} -f", session=starter.pid)
        os.killpg(starter.pid, signal.SIGHUP)  # as of a terminal that goes
        (pause,) = processes_with(f"{worker.bin}/sleep", session=starter.pid)
        for pid in (loop, pause):
            os.kill(pid, signal.SIGKILL)
        assert worker.looked() == 10, "a pause before it is started again"
        worker.after(0, passes=10)
        worker.after(LIMIT_S - EVERY_S)
        assert worker.offs() == 1
        if "busybox" not in worker.shell[0]:  # which has a `logger` of its own
            assert "no job runs: powering off" in (worker.path / "log").read_text(), "the system's log has it"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(starter.pid, signal.SIGKILL)


def processes_with(words: str, session: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            if words in line and int(stat[3]) == session:
                found.append(int(folder.name))
    return found


def test_in_real_time_with_a_real_job(tmp_path: Path, head: HeadNode) -> None:
    """No fake of ours but the power-off: the kernel's uptime, a process with the name of a job, real pauses."""
    job, off = tmp_path / "a_lease_job", tmp_path / "off"
    shutil.copy(os.path.realpath(str(shutil.which("sleep"))), job)
    env = {
        "PATH": os.environ["PATH"], "LEASE_POWEROFF": f"echo off >>{off}", "LEASE_STATE": f"{tmp_path}/state",
        "LEASE_EVERY_S": "1", "LEASE_LIMIT_S": "1", "LEASE_PROCESSES": job.name,
    }  # fmt: skip
    running = subprocess.Popen([str(job), "300"])
    lease = subprocess.Popen(
        ["sh", str(SCRIPT), "-f", head.place], env=env, stderr=subprocess.PIPE, text=True, start_new_session=True
    )

    def away_s() -> int:
        with suppress(OSError, IndexError):
            return int((tmp_path / "state").read_text().split()[1])
        return 0

    try:
        head.close()
        wait_for(lambda: away_s() >= 2, "twice the limit without the head node")
        assert not off.exists(), "the job runs"
        running.kill()
        running.wait(DEADLINE_S)
        wait_for(off.exists, "the power-off")
    finally:
        running.kill()
        os.killpg(lease.pid, signal.SIGKILL)
    assert "no job runs: powering off" in lease.communicate(timeout=DEADLINE_S)[1]


def test_it_is_plain_posix_shell() -> None:
    checks = [[*shell, "-n"] for shell in SHELLS.values()]
    if shellcheck := shutil.which("shellcheck"):
        checks.append([shellcheck, "--shell=sh", "--severity=warning"])
    for check in checks:
        done = subprocess.run([*check, str(SCRIPT)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert (done.returncode, done.stdout) == (0, "")
