"""External commands: bounded in time and in output, in a session of their own, never by a shell.

`communicate()` with a time-out waits for the child. Its output goes into memory files of the kernel and not into
pipes: `communicate()` keeps all that comes through a pipe, without bound, and waits for the pipe's end, which a
grandchild (even one that escaped by setsid) can hold open for ever. A memory file has no end to wait for, a full
disk does not touch it, and the limit on the size of the child's files (RLIMIT_FSIZE) stops one that floods.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Sequence

MAX_OUTPUT = 16_000_000  # bytes of stdout, and of stderr
Env = Optional[Mapping[str, str]]
SLICE_S = 0.1  # how soon a running command ends when commands are being stopped
REAP_S = 2.0  # a killed child that is not gone by then hangs in the kernel (a dead file server): leave it


class CommandError(Exception):
    """A command gave no answer. The text is one line; ``argv`` is the command (never with a secret in it)."""

    def __init__(self, argv: Sequence[str], what: str) -> None:
        self.argv, self.what = tuple(argv), what
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

    @property
    def text(self) -> str:
        """The standard output; a byte that is not UTF-8 becomes U+FFFD."""
        return self.stdout.decode("utf-8", errors="replace")

    @property
    def complaint(self) -> str:
        """The standard error (or, if empty, the output) as one short line, for a person."""
        said = (self.stderr.strip() or self.stdout.strip())[:2000].decode("utf-8", errors="replace")
        line = " ".join("".join(c if c.isprintable() else " " for c in said).split())
        return (line if len(line) <= 300 else line[:297] + "...") or self.ending

    @property
    def ending(self) -> str:
        """How it ended, for a person."""
        code = self.returncode
        return f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"


# The first is set by `kill_all`; the others are called then, and do not raise.
stopping, at_stop = threading.Event(), list[Callable[[], None]]()


def run(
    argv: Sequence[str], *, timeout_s: float, max_output: int = MAX_OUTPUT, stdin: bytes = b"", env: Env = None
) -> CommandResult:
    """Run a command to its end; any exit code is a result. Raises a `CommandError` if it has none.

    ``timeout_s`` counts from the start, ``max_output`` (bytes) for each of stdout and stderr; ``env`` is its
    environment, where that is not ours. No process of the command's group outlives the call. Any thread may call.
    """
    if stopping.is_set():
        raise CommandInterrupted(argv, "not started, commands are being stopped")
    end = time.monotonic() + timeout_s
    with contextlib.ExitStack() as files:
        given, out, err = (files.enter_context(open(os.memfd_create("command"), "w+b", 0)) for _ in range(3))
        os.pwrite(given.fileno(), stdin, 0)
        try:
            child = subprocess.Popen(argv, stdin=given, stdout=out, stderr=err, start_new_session=True, env=env)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            raise CommandNotFound(argv, f"cannot be executed: {error.strerror}") from None
        except OSError as error:
            raise CommandError(argv, f"could not be started: {error.strerror}") from None
        try:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended; or it is setuid
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (max_output + 1, max_output + 1))
            _wait(child, argv, end, timeout_s)
        finally:
            # The group's number is the child's. After the child was reaped it stays taken while the group has a
            # member; else it is free, but the kernel hands it out again only after all other numbers.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            _ended(child, REAP_S)  # if not, `subprocess` itself tries again later
            if any(os.fstat(file.fileno()).st_size > max_output for file in (out, err)):
                raise CommandTooMuchOutput(argv, f"wrote more than {max_output:,} bytes, killed")
        stdout, stderr = (os.pread(file.fileno(), max_output, 0) for file in (out, err))
    return CommandResult(child.returncode, stdout, stderr)


def _wait(child: subprocess.Popen[bytes], argv: Sequence[str], end: float, timeout_s: float) -> None:
    while not _ended(child, max(0.0, min(SLICE_S, end - time.monotonic()))):
        if stopping.is_set():
            raise CommandInterrupted(argv, "ended, commands are being stopped")
        if time.monotonic() >= end:
            raise CommandTimeout(argv, f"did not end within {timeout_s:g} s, killed")


def _ended(child: subprocess.Popen[bytes], wait_s: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=wait_s)
    return child.returncode is not None


def kill_all() -> None:
    """End every running command at once (each within `SLICE_S`), and let none start until ``stopping`` is cleared.
    Any thread may call."""
    stopping.set()
    [end() for end in at_stop]
