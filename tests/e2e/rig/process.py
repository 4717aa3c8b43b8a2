"""Commands, and background processes that are ended only when they are surely ours.

A process is remembered by its id and its start time, since an id alone may belong to another
program by the time a rig that was killed is cleaned up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence


class RigError(Exception):
    """The rig could not be built or used; the text says what and why."""


def run(
    argv: Sequence[object], check: bool = True, timeout_s: float = 60, environment: Optional[Mapping[str, str]] = None
) -> str:
    """Run a command and return its standard output; `RigError` with its standard error if it fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=timeout_s, env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RigError(f"{' '.join(words)}: {error}") from None
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise RigError(f"{' '.join(words)}: exit {done.returncode}: {said}")
    return str(done.stdout)


def start(argv: Sequence[object], log: Path, pid_file: Path, environment: Optional[Mapping[str, str]] = None) -> int:
    """Start a background process in a session of its own and remember it in ``pid_file``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            start_new_session=True, env=None if environment is None else dict(environment),
        )  # fmt: skip
    pid_file.write_text(f"{process.pid} {_started_at(process.pid)}\n")
    return process.pid


def running(pid_file: Path) -> Optional[int]:
    """The id of the process remembered there, if it still is that process."""
    try:
        pid, started = pid_file.read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if _started_at(int(pid)) == started else None


def end(pid_file: Path, first: int = signal.SIGTERM, patience_s: float = 10) -> None:
    """End the remembered process, with SIGKILL if it does not go by itself."""
    pid = running(pid_file)
    if pid is not None:
        send(pid, first)
        if not poll(lambda: running(pid_file) is None, patience_s):
            send(pid, signal.SIGKILL)
            poll(lambda: running(pid_file) is None, patience_s)
    pid_file.unlink(missing_ok=True)


def send(pid: int, number: int) -> None:
    """Signal a process; no error if it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def child(pid: int) -> Optional[int]:
    """The first process that this one has started and that lives still."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def poll(condition: Callable[[], object], deadline_s: float, every_s: float = 0.05) -> bool:
    """Wait until the condition holds; False if it did not in time."""
    until = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(every_s)
    return True


def _started_at(pid: int) -> str:
    """The start time of a live process in clock ticks since boot (proc(5), field 22); empty if it is none."""
    try:
        _reap(pid)
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] == "Z" else after_name[19]


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
