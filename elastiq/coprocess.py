"""Children that stay and answer requests, a line for a line: bounded in time and in output, as a command is.

For a library that must not be in our process, because a call of it can hang or crash. One child serves one
request at a time; requests at the same time get a child each, and afterwards one child is kept. A child that
does not answer in time is killed, with its process group; the next request gets a new one. A child ends when its
standard input does: when we end, however we end. With `command.kill_all` we end those that have nothing to do
ourselves, before systemd finds them left over.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import threading
import time
import weakref
from typing import IO, Optional, Sequence

from elastiq import command
from elastiq.command import CommandError, CommandInterrupted, CommandNotFound, CommandTimeout, CommandTooMuchOutput

CHUNK = 1 << 20  # bytes
MAX_COMPLAINTS = 1_000_000  # bytes of stderr in a child's life
REQUESTS_AT_MOST = 1000  # then a child makes room for a new one, so that what its library leaks is bounded


class _Child:
    """One process, and what it says."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv, self.requests = argv, 0
        self._errors = open(os.memfd_create("stderr"), "r+b", 0)
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                argv, bufsize=0, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True
            )
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            raise CommandNotFound(argv, f"cannot be executed: {error.strerror}") from None
        except OSError as error:
            raise CommandError(argv, f"could not be started: {error.strerror}") from None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (MAX_COMPLAINTS, MAX_COMPLAINTS))
        self.stdin, self.stdout = _pipe(self.process.stdin), _pipe(self.process.stdout)
        for end in (self.stdin, self.stdout):
            os.set_blocking(end.fileno(), False)

    def answer(self, line: bytes, timeout_s: float, max_output: int) -> bytes:
        """Send a line, and return the one that comes back, without its end."""
        self.requests += 1
        until, unsent, said = time.monotonic() + timeout_s, memoryview(line + b"\n"), bytearray()
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        poll.register(self.stdin, select.POLLOUT)
        while not said.endswith(b"\n"):  # a line for a line: nothing comes after it
            if command.stopping.is_set():
                raise CommandInterrupted(self.argv, "ended, commands are being stopped")
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise CommandTimeout(self.argv, f"did not answer within {timeout_s:g} s, killed")
            for fd, _ in poll.poll(1000 * min(left_s, command.SLICE_S)):
                if fd == self.stdout.fileno():
                    said += self._read()
                else:
                    unsent = unsent[self._write(unsent) :]
                    if not unsent:
                        poll.unregister(self.stdin)
            if len(said) > max_output:
                raise CommandTooMuchOutput(self.argv, f"answered more than {max_output:,} bytes, killed")
        return bytes(said[:-1])

    def _read(self) -> bytes:
        said = os.read(self.stdout.fileno(), CHUNK)
        if not said:
            raise CommandError(self.argv, self._ending())
        return said

    def _write(self, unsent: memoryview) -> int:
        try:
            return os.write(self.stdin.fileno(), unsent[:CHUNK])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise CommandError(self.argv, self._ending()) from None

    def _ending(self) -> str:
        """Why it is gone, for a person."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(command.REAP_S)
        code = self.process.poll()
        if code is None:
            return "closed its output, killed"
        size = os.fstat(self._errors.fileno()).st_size
        errors = os.pread(self._errors.fileno(), 2000, max(0, size - 2000)).strip().splitlines()[-1:]
        result = command.CommandResult(code, b"", b"".join(errors))
        return f"ended with {result.ending}" + (f": {result.complaint}" if errors else "")

    def __del__(self) -> None:
        """At the end of its input it ends by itself; `subprocess` would keep the pipe of a forgotten process open."""
        if hasattr(self, "stdin"):
            self.stdin.close()

    def end(self) -> None:
        """Kill it with all that it started, and reap it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for file in (self.stdin, self.stdout, self._errors):
            file.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel: leave it
            self.process.wait(command.REAP_S)


def _pipe(end: Optional[IO[bytes]]) -> IO[bytes]:
    assert end is not None, "it was asked for"
    return end


class Coprocess:
    """A program that answers each line on its standard input with one on its standard output.

    ``argv`` is started when there is something to ask. Any thread may call.
    """

    def __init__(self, argv: Sequence[str], max_output: int = command.MAX_OUTPUT) -> None:
        self.argv, self._max_output = tuple(argv), max_output
        self._idle: Optional[_Child] = None
        self._lock = threading.Lock()
        with _all_lock:
            _all.add(self)

    def ask(self, line: bytes, timeout_s: float) -> bytes:
        """The answer, without the end of its line. Raises a `CommandError`: then it is unknown what was done."""
        if command.stopping.is_set():
            raise CommandInterrupted(self.argv, "not started, commands are being stopped")
        child = self._take() or _Child(self.argv)
        try:
            said = child.answer(line, timeout_s, self._max_output)
        except BaseException:  # not hidden: only, what it would say next may be the answer to this request
            child.end()
            raise
        self._give_back(child)
        return said

    def close(self) -> None:
        """End the child that waits for requests; the next request starts another."""
        child = self._take()
        if child is not None:
            child.end()

    def _take(self) -> Optional[_Child]:
        with self._lock:
            child, self._idle = self._idle, None
        if child is not None and child.process.poll() is not None:  # killed while it had nothing to do
            child.end()
            return None
        return child

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            stays = child.requests < REQUESTS_AT_MOST and not command.stopping.is_set()
            if self._idle is None and stays:
                self._idle = child
                return
        child.end()


_all: weakref.WeakSet[Coprocess] = weakref.WeakSet()
_all_lock = threading.Lock()  # of additions: they are made on any thread


def _close_all() -> None:
    with _all_lock:
        every = list(_all)
    for one in every:
        one.close()


command.at_stop.append(_close_all)
