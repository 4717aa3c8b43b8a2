"""One daemon for one state directory, and the proof of which process that is."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from elastiq.cli.running import holder, send_signal
from elastiq.paths import LOCK, Lock, LockedError, Paths

HOLD = """
import sys
from pathlib import Path
from elastiq.paths import Lock
lock = Lock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""
ASK = """
import sys
from elastiq.cli.running import holder
from elastiq.paths import Paths
paths = Paths.of(statedir=sys.argv[1])
while True:
    holder(paths)
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "c", tmp_path, tmp_path, tmp_path)


@pytest.fixture
def other(paths: Paths) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock."""
    argv = [sys.executable, "-c", HOLD, str(paths.statedir / LOCK)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield process
        process.kill()


def test_nobody_runs_where_there_is_no_lock_file_or_one_that_nobody_holds(paths: Paths) -> None:
    assert holder(paths) is None
    (paths.statedir / LOCK).write_text(f"{os.getpid()}\n")
    assert holder(paths) is None, "what a file says proves nothing"


def test_the_holder_is_known_whatever_the_file_says(paths: Paths, other: subprocess.Popen[bytes]) -> None:
    assert (paths.statedir / LOCK).read_text() == f"{other.pid}\n"
    (paths.statedir / LOCK).write_text("1\n")
    assert holder(paths) == other.pid


def test_a_second_one_is_refused_with_the_pid_of_the_first(
    paths: Paths, other: subprocess.Popen[bytes]
) -> None:
    with pytest.raises(LockedError, match=f"pid {other.pid}") as refused:
        Lock(paths.statedir / LOCK, wait_s=0)
    assert refused.value.pid == other.pid


def test_the_lock_ends_with_a_process_that_is_killed(paths: Paths, other: subprocess.Popen[bytes]) -> None:
    assert send_signal(paths, other.pid, signal.SIGKILL)
    assert other.wait(10) == -signal.SIGKILL
    assert holder(paths) is None
    Lock(paths.statedir / LOCK).release()


def test_a_process_that_does_not_hold_the_lock_is_never_signalled(paths: Paths) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (paths.statedir / LOCK).write_text(f"{stranger.pid}\n")
        assert not send_signal(paths, stranger.pid, signal.SIGKILL)
        assert stranger.poll() is None
        stranger.kill()


def test_a_pid_that_is_gone_is_no_error(paths: Paths) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait(10)
    assert not send_signal(paths, gone.pid, signal.SIGKILL)


def test_without_pidfds_the_lock_is_asked_too(paths: Paths, other: subprocess.Popen[bytes],
                                               monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert not send_signal(paths, os.getpid(), signal.SIGKILL)
    assert send_signal(paths, other.pid, signal.SIGKILL)
    assert other.wait(10) == -signal.SIGKILL


def test_asking_never_gets_in_the_way_of_a_start(paths: Paths) -> None:
    (paths.statedir / LOCK).touch()
    with subprocess.Popen([sys.executable, "-c", ASK, str(paths.statedir)]) as asker:
        for _ in range(200):
            Lock(paths.statedir / LOCK, wait_s=0).release()
        asker.kill()


@pytest.mark.parametrize("call", ["fcntl.lockf", "os.ftruncate", "os.pwrite"])
def test_a_lock_that_cannot_be_written_is_named(paths: Paths, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(f"elastiq.paths.{call}", full)
    with pytest.raises(OSError, match="No space left") as refused:
        Lock(paths.statedir / LOCK)
    assert refused.value.filename == str(paths.statedir / LOCK)


def test_the_usual_places_are_the_system_s_for_root_and_the_home_s_for_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert Paths.of() == Paths(
        *map(Path, ("/etc/elastiq.conf", "/var/log/elastiq", "/var/lib/elastiq", "/run/elastiq"))
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".elastiq"
    assert Paths.of() == Paths(home / "elastiq.conf", home / "log", home / "state", home / "run")
    monkeypatch.chdir(tmp_path)
    assert Paths.of(config="a/b").config == tmp_path / "a/b"
