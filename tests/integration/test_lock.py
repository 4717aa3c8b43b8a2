"""One daemon for one state directory and for one head node's name, and the proof of which process that is."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Iterator

import pytest

from elastiq import identity
from elastiq.cli.running import holder, send_signal
from elastiq.paths import LOCK, Lock, LockedError, Paths, claim
from tests.integration.test_elastiqctl import Head, alive
from tests.waiting import PATIENCE_S, until

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
    assert other.wait(PATIENCE_S) == -signal.SIGKILL
    assert holder(paths) is None
    os.close(Lock(paths.statedir / LOCK).fd)


def test_a_process_that_does_not_hold_the_lock_is_never_signalled(paths: Paths) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (paths.statedir / LOCK).write_text(f"{stranger.pid}\n")
        assert not send_signal(paths, stranger.pid, signal.SIGKILL)
        assert stranger.poll() is None
        stranger.kill()


def test_a_pid_that_is_gone_is_no_error(paths: Paths) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait(PATIENCE_S)
    assert not send_signal(paths, gone.pid, signal.SIGKILL)


def test_without_pidfds_the_lock_is_asked_too(paths: Paths, other: subprocess.Popen[bytes],
                                               monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert not send_signal(paths, os.getpid(), signal.SIGKILL)
    assert send_signal(paths, other.pid, signal.SIGKILL)
    assert other.wait(PATIENCE_S) == -signal.SIGKILL


def test_asking_never_gets_in_the_way_of_a_start(paths: Paths) -> None:
    (paths.statedir / LOCK).touch()
    with subprocess.Popen([sys.executable, "-c", ASK, str(paths.statedir)]) as asker:
        for _ in range(200):
            os.close(Lock(paths.statedir / LOCK, wait_s=0).fd)
        asker.kill()


@pytest.mark.parametrize(
    ("call", "number", "why"),
    [
        ("fcntl.lockf", errno.ENOLCK, "No locks available"),  # NFS without its lock daemon
        ("os.ftruncate", errno.ENOSPC, "No space left"),
        ("os.pwrite", errno.ENOSPC, "No space left"),
    ],
)
def test_a_lock_that_cannot_be_taken_is_named(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, call: str, number: int, why: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"elastiq.paths.{call}", full)
    with pytest.raises(OSError, match=why) as refused:
        Lock(paths.statedir / LOCK)
    assert refused.value.filename == str(paths.statedir / LOCK)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a container")
def test_a_holder_in_another_container_is_one_without_a_pid(paths: Paths) -> None:
    """As one on another machine that shares the directory by NFS: the kernel tells of no process."""
    argv = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", HOLD, str(paths.statedir / LOCK)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as container:
        assert container.stdout is not None
        assert container.stdout.readline() == b"locked\n"
        # From inside, the holder is process 1; here it has a number of ours, so we look from a container, too.
        look = [
            "unshare", "--pid", "--fork", sys.executable, "-c",
            "import sys; from pathlib import Path; from elastiq.paths import Lock; Lock(Path(sys.argv[1]), 0)",
            str(paths.statedir / LOCK),
        ]  # fmt: skip
        refused = subprocess.run(look, capture_output=True, text=True, timeout=PATIENCE_S)
        container.kill()
    assert "elastiq runs already (on another machine or in another container)" in refused.stderr


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


# ------------------------------------------------------------------ one daemon for one head node's name


@pytest.fixture
def cluster() -> str:
    """A name that no other test of this machine has just now."""
    return f"lock-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def heads(tmp_path: Path, cluster: str) -> list[Head]:
    """Three head nodes of one user and one cluster, with directories of their own."""
    found = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        found.append(Head(tmp_path / str(number)))
        name_cluster(found[-1], cluster)
    return found


def name_cluster(head: Head, name: str) -> None:
    text = head.paths.config.read_text()
    head.paths.config.write_text(re.sub("cluster_name = .*", f"cluster_name = {name}", text))


def refusal(head: Head) -> str:
    """What a daemon that does not start says, and that it does so with the right code."""
    with head.foreground() as daemon:
        _, err = daemon.communicate(timeout=PATIENCE_S)
    assert daemon.returncode == 75, err
    assert len(err.splitlines()) == 1
    return err


def test_two_daemons_of_one_cluster_are_one_head_node_to_the_cloud_so_the_second_is_refused(
    heads: list[Head], cluster: str
) -> None:
    with heads[0].foreground() as first:
        until(heads[0].answers)
        said = refusal(heads[1])
        assert f"(pid {first.pid}): it holds cluster {cluster} of this user" in said
        its = heads[0].paths
        assert f"other directories; elastiqctl --statedir {its.statedir} --rundir {its.rundir} stop ends it" in said
        assert heads[0].answers()
        done = heads[1].ctl("start")
        assert done.returncode == 75 and f"pid {first.pid}" in done.stderr


def test_another_cluster_of_the_same_user_may_run_beside_it(heads: list[Head], cluster: str) -> None:
    name_cluster(heads[1], f"{cluster}-2")
    with heads[0].foreground(), heads[1].foreground():
        until(lambda: heads[0].answers() and heads[1].answers())
        assert heads[0].status()["head"] != heads[1].status()["head"]


def test_of_several_that_start_at_once_one_runs(heads: list[Head]) -> None:
    with contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(head.foreground()) for head in heads]
        until(lambda: sum(daemon.poll() is not None for daemon in daemons) == 2)
        assert sorted(daemon.poll() or 0 for daemon in daemons) == [0, 75, 75]
        (winner,) = (head for head, daemon in zip(heads, daemons) if daemon.poll() is None)
        until(winner.answers)


def test_a_state_directory_by_another_name_is_the_same(heads: list[Head], tmp_path: Path, cluster: str) -> None:
    with heads[0].foreground() as first:
        until(heads[0].answers)
        (tmp_path / "link").symlink_to(heads[0].paths.statedir)
        heads[1].paths = Paths(heads[1].paths.config, heads[1].paths.logdir, tmp_path / "link", heads[1].paths.rundir)
        name_cluster(heads[1], f"{cluster}-2")
        assert f"(pid {first.pid}): it holds {tmp_path / 'link' / LOCK}" in refusal(heads[1])


def test_what_a_killed_daemon_leaves_behind_keeps_nobody_out(heads: list[Head]) -> None:
    """Its command goes on, with what it may have inherited; its lock files and its socket are still there."""
    mark = heads[0].path / "hangs"
    heads[0].command("condor_q", f"trap '' TERM HUP; echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 300")
    with heads[0].foreground() as first:
        until(mark.exists)
        first.kill()
        first.wait(PATIENCE_S)
    orphan = int(mark.read_text())
    try:
        assert alive(orphan)
        heads[1].paths = heads[0].paths
        with heads[1].foreground():
            until(heads[1].answers)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(os.getpgid(orphan), signal.SIGKILL)


def test_the_name_is_free_again_with_the_process_that_had_it(cluster: str) -> None:
    first = claim(cluster, "the name", wait_s=0)
    with pytest.raises(LockedError, match=rf"\(pid {os.getpid()}\): it holds the name") as refused:
        claim(cluster, "the name", wait_s=0)
    assert refused.value.pid == os.getpid()
    first.close()
    claim(cluster, "the name", wait_s=0).close()


def test_one_who_lets_nobody_ask_counts_as_ours(cluster: str) -> None:
    with socket.socket(socket.AF_UNIX) as mine, contextlib.ExitStack() as crowd:
        mine.bind(f"\0{cluster}")
        mine.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                caller = crowd.enter_context(socket.socket(socket.AF_UNIX))
                caller.setblocking(False)
                caller.connect(f"\0{cluster}")
        with pytest.raises(LockedError):
            claim(cluster, "the name", wait_s=0)


def test_one_who_only_sits_on_the_name_keeps_nobody_out(cluster: str) -> None:
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(f"\0{cluster}")
        claim(cluster, "the name", wait_s=0).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
def test_another_user_cannot_keep_us_out(cluster: str) -> None:
    ready, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX) as squatter:
                squatter.bind(f"\0{cluster}")
                squatter.listen()
                os.write(telling, b"listens")
                signal.pause()
        finally:
            os._exit(1)
    try:
        assert os.read(ready, 10) == b"listens"
        claim(cluster, "the name", wait_s=0).close()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_two_users_are_two_head_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = identity.owner("cms", tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    other = identity.owner("cms", tmp_path)
    assert mine.head != other.head and mine.mark != other.mark
