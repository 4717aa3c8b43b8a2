"""elastiqctl start, stop and restart: the daemon as a background process of its own session."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO, Mapping, Optional

import elastiq
from elastiq import client
from elastiq.cli.follow import last_lines
from elastiq.cli.running import alive, holders, send_signal
from elastiq.exits import REMEDIES
from elastiq.logfiles import LOG_FILE
from elastiq.paths import LOCK, SOCKET_LOCK, Paths
from elastiq.protocol import Refused

START_S = 60.0
STOP_S = 15.0  # the daemon itself leaves within 10
STDERR = "elastiq.err"  # what does not come through the log: a traceback of the interpreter
STDERR_MAX = 1_000_000  # bytes; a longer one is begun anew


def start(paths: Paths) -> int:
    """Start it and wait until it answers. 0 also if it runs already; else why not, and its exit code. Root becomes the
    owner of the state first."""
    from elastiq.cli import service_user  # which imports `systemd`, which imports us

    if (code := _runs_already(paths)) is not None:
        return code
    try:
        if user := service_user.of_start(paths):
            service_user.begin_as(user, (paths.rundir, paths.logdir))
        paths.logdir.mkdir(mode=0o750, parents=True, exist_ok=True)
        log_at = _size(paths.logdir / LOG_FILE)
        with _open_stderr(paths.logdir / STDERR) as stderr:
            stderr_at = stderr.tell()
            child = _spawn(paths, stderr)
    except OSError as error:
        why = f"{error.strerror}, cannot start{REMEDIES.get(error.errno or 0, '')}"
        print(f"elastiqctl: {error.filename or sys.executable}: {why}", file=sys.stderr)
        return 73
    except LookupError as error:
        print(f"elastiqctl: {error}: cannot start", file=sys.stderr)
        return 73
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if _answers(paths, child.pid):
            print(f"elastiq started (pid {child.pid})" + (f" as {user.pw_name}, who owns its state" if user else ""))
            return 0
        code = child.poll()
        if code is not None:
            return _died(paths, code, log_at, stderr_at)
        time.sleep(0.05)
    print(
        f"elastiqctl: elastiq (pid {child.pid}) was started, but does not answer yet: see `elastiqctl log`",
        file=sys.stderr,
    )
    return 1


def stop(paths: Paths) -> int:
    """End it and wait for the end; 0 also if it does not run."""
    found = _holders(paths)
    if not found:
        print("elastiq is not running")
        return 0
    if len(set(found.values())) > 1:
        which = ", ".join(f"{path}{named(pid)}" for path, pid in found.items())
        print(f"elastiqctl: two daemons hold these, name the directories of one: {which}", file=sys.stderr)
        return 1
    pid = next(iter(found.values()))
    if pid == 0:
        print("elastiqctl: elastiq runs on another machine or in another container: stop it there", file=sys.stderr)
        return 1
    for number, patience_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, 5.0)):
        try:
            send_signal(paths, pid, number)
        except PermissionError:
            print(f"elastiqctl: elastiq (pid {pid}) belongs to another user: no permission", file=sys.stderr)
            return 4
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            # The socket closes before the process ends, a lock ends with it.
            if pid not in holders(paths).values() and not alive(pid):
                print(f"elastiq stopped (pid {pid})" + (", killed" if number == signal.SIGKILL else ""))
                return 0
            time.sleep(0.05)
        print(f"elastiqctl: pid {pid} did not end within {patience_s:g} s of {number.name}", file=sys.stderr)
    return 1


def restart(paths: Paths) -> int:
    """End it and start it again. Refused if one of its directories is not the one that it would come up with: a
    daemon with another state knows none of its machines."""
    found = _holders(paths)
    pid = next(iter(found.values()), 0)
    held = _held_by(pid)
    for option, path in (("--statedir", paths.statedir / LOCK), ("--rundir", paths.rundir / SOCKET_LOCK)):
        others = [one for one in held if one.name == path.name and one != path.resolve()]
        if path not in found and others:
            its = f"{option} {others[0].parent}"
            print(f"elastiqctl: elastiq{named(pid)} was started with {its}: give that, too", file=sys.stderr)
            return 75
    from elastiq.cli import service_user

    try:
        service_user.of_start(paths)
    except LookupError as error:
        print(f"elastiqctl: {error}: not stopped", file=sys.stderr)
        return 73
    return stop(paths) or start(paths)


def _held_by(pid: int) -> list[Path]:
    """The files that a process has open, also those that are removed; empty where that cannot be seen."""
    held = []
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                held.append(Path(os.readlink(descriptor).partition(" (deleted)")[0]))
    return held


def _holders(paths: Paths) -> Mapping[Path, int]:
    """Who holds what; looked at twice where it is no whole daemon, since one that ends drops one lock first."""
    found = holders(paths)
    if found and (paths.statedir / LOCK not in found or len(set(found.values())) > 1):
        time.sleep(0.5)
        return holders(paths)
    return found


def _runs_already(paths: Paths) -> Optional[int]:
    """An exit code after saying that it runs, None if it does not."""
    found = _holders(paths)
    if not found:
        return None
    state, pid = paths.statedir / LOCK, next(iter(found.values()))
    if state in found and set(found.values()) == {pid}:
        print(f"elastiq runs already{named(pid)}")
        return 0
    path, pid = list(found.items())[-1]
    print(
        f"elastiqctl: another elastiq{named(pid)} has {path.parent}, but not the state in {state.parent}: "
        "stop it first",
        file=sys.stderr,
    )
    return 75


def named(pid: int) -> str:
    """A process for a person; 0 is one that cannot be seen from here."""
    return f" (pid {pid})" if pid else " on another machine or in another container"


def _spawn(paths: Paths, stderr: BinaryIO) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "elastiq.service", "--background", "--config", str(paths.config)]
    argv += ["--logdir", str(paths.logdir), "--statedir", str(paths.statedir), "--rundir", str(paths.rundir)]
    # From / and not from here: `-m` looks for modules in the working directory first.
    return subprocess.Popen(
        argv, cwd="/", env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
        start_new_session=True,
    )  # fmt: skip


def _environment() -> Mapping[str, str]:
    """Ours, without what systemd said to us, and so that a clone that is not installed is found."""
    env = {key: value for key, value in os.environ.items() if key not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}
    root, given = str(Path(elastiq.__file__).resolve().parent.parent), env.get("PYTHONPATH")
    if given or root not in sys.path[1:]:  # a given one may be relative, to where we are
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (root, given)))
    return env


def _open_stderr(path: Path) -> BinaryIO:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    file = os.fdopen(fd, "ab")
    if file.tell() > STDERR_MAX:
        file.truncate(0)
    return file


def _answers(paths: Paths, pid: int) -> bool:
    try:
        return bool(client.ask(paths.socket, "status", timeout_s=5.0).get("pid") == pid)
    except (client.NotRunning, client.NoAnswer, Refused, PermissionError):
        return False


def _died(paths: Paths, code: int, log_at: int, stderr_at: int) -> int:
    """It ended before it answered: say why, as it said it."""
    if (running := _runs_already(paths)) is not None:  # another start was faster
        return running
    how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
    print(f"elastiqctl: elastiq did not start ({how}); the end of its log:", file=sys.stderr)
    for path, since in ((paths.logdir / LOG_FILE, log_at), (paths.logdir / STDERR, stderr_at)):
        for line in last_lines(path, 20, since):
            print(f"  {line}", file=sys.stderr)
    return code if code > 0 else 1


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
