"""External commands: bounded in time and in output, in a session of their own, never by a shell.

`communicate()` with a time-out waits for the child, but it does not read for us: it keeps all that comes
through a pipe, without bound, and it waits for the pipe's end, which a grandchild (even one that escaped by
setsid) can hold open for ever. So the pipes are ours: read as output comes, up to a bound, and left as soon
as the child has ended and nothing more is in them. Pipes and not files, because a full disk must not stop
the daemon from reading its queue, and because a child that floods a pipe is stopped by the pipe.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Sequence

MAX_OUTPUT = 16_000_000  # bytes of stdout, and of stderr
MAX_INPUT = 65_536  # bytes: what a pipe holds on Linux (pipe(7)), so that writing them never blocks
SLICE_S = 0.1  # how often a child is looked at whose pipes stay open
REAP_S = 2.0  # a killed child that is not gone by then hangs in the kernel (a dead file server): leave it


class CommandError(Exception):
    """A command gave no answer. The text is one line; ``argv`` is the command (never with a secret in it)."""

    def __init__(self, argv: Sequence[str], what: str) -> None:
        self.argv = tuple(argv)
        shown = " ".join(shlex.join(self.argv).split())
        super().__init__(f"{shown if len(shown) <= 100 else shown[:97] + '...'}: {what}")


class CommandTimeout(CommandError):
    """It did not end in time and was killed: what it did is unknown."""


class CommandNotFound(CommandError):
    """There is no such executable, or we may not execute it."""


class CommandTooMuchOutput(CommandError):
    """It wrote more than allowed and was killed."""


class CommandInterrupted(CommandError):
    """`kill_all` ended it, or did not let it start."""


@dataclass(frozen=True)
class CommandResult:
    """What a command left behind when it ended by itself; ``returncode`` is -N if signal N ended it."""

    returncode: int
    stdout: bytes
    stderr: bytes
    duration_s: float

    @property
    def text(self) -> str:
        """The standard output; a byte that is not UTF-8 becomes U+FFFD."""
        return self.stdout.decode("utf-8", errors="replace")

    @property
    def complaint(self) -> str:
        """The standard error (or, if empty, the output) as one short line, for a person."""
        said = (self.stderr.strip() or self.stdout.strip())[:2000].decode("utf-8", errors="replace")
        line = " ".join("".join(c if c.isprintable() else " " for c in said).split())
        return (line if len(line) <= 300 else line[:297] + "...") or f"exit code {self.returncode}"


Child = subprocess.Popen[bytes]
_stopping = threading.Event()


def run(argv: Sequence[str], *, timeout_s: float, max_output: int = MAX_OUTPUT, stdin: bytes = b"") -> CommandResult:
    """Run a command to its end; any exit code is a result. Raises a `CommandError` if it has none.

    ``timeout_s`` counts from the start, ``max_output`` (bytes) for each of stdout and stderr; ``stdin`` is
    at most `MAX_INPUT` bytes. No process of the command's group outlives the call. Any thread may call.
    """
    if len(stdin) > MAX_INPUT:
        raise CommandError(argv, f"input of more than {MAX_INPUT:,} bytes")
    if _stopping.is_set():
        raise CommandInterrupted(argv, "not started, commands are being stopped")
    began = time.monotonic()
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(argv, 0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise CommandNotFound(argv, f"cannot be executed: {error.strerror}") from None
    except OSError as error:
        raise CommandError(argv, f"could not be started: {error.strerror}") from None
    assert child.stdin and child.stdout and child.stderr
    read = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    with child.stdout, child.stderr:
        try:
            with contextlib.suppress(BrokenPipeError), child.stdin:  # it need not read it
                child.stdin.write(stdin)
            _collect(child, argv, read, max_output, began, timeout_s)
        finally:
            # The group's number is the child's. After the child was reaped it stays taken while the group has a
            # member; else it is free, but the kernel hands it out again only after all other numbers.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # `subprocess` itself tries again later
                child.wait(REAP_S)
    out, err = map(bytes, read.values())
    return CommandResult(child.returncode, out, err, time.monotonic() - began)


def kill_all() -> None:
    """End every running command at once (each within `SLICE_S`), and let none start until `reset`. Any thread
    may call."""
    _stopping.set()


def reset() -> None:
    """Let commands run again after `kill_all`."""
    _stopping.clear()


def _collect(
    child: Child, argv: Sequence[str], read: dict[int, bytearray], max_output: int, began: float, timeout_s: float
) -> None:
    """Read until the child has ended and its pipes hold nothing, or raise the error that says why not."""
    poll = select.poll()
    for fd in read:
        poll.register(fd, select.POLLIN)
    open_pipes = len(read)
    while True:
        remaining = began + timeout_s - time.monotonic()
        wait_s = max(0.0, min(SLICE_S, remaining))
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.0 if open_pipes else wait_s)  # before the pipes: what it wrote is in them by now
        ended = child.returncode is not None
        ready = poll.poll(0 if ended else wait_s * 1000) if open_pipes else []
        for fd, _ in ready:
            chunk = os.read(fd, 65_536)
            read[fd] += chunk
            if not chunk:
                poll.unregister(fd)
                open_pipes -= 1
        if _stopping.is_set():
            raise CommandInterrupted(argv, "ended, commands are being stopped")
        if any(len(data) > max_output for data in read.values()):
            raise CommandTooMuchOutput(argv, f"wrote more than {max_output:,} bytes, killed")
        if ended and not ready:
            return
        if remaining <= 0:
            raise CommandTimeout(argv, f"did not end within {timeout_s:g} s, killed")
