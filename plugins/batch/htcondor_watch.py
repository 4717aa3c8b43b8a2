"""Sees that a schedd of this machine has changed its queue, without asking it.

The schedd writes every change to JOB_QUEUE_LOG before it answers. Only its own user may read that file (mode 0600,
LoadClassAdLog in condor_utils/classad_log.cpp), but who may read the directory can have the kernel tell when something
in it is written: F_NOTIFY of fcntl(2), which needs no thread, and no time while nothing happens. It comes as SIGURG,
since a process without a handler ignores that one, where the usual SIGIO would end it. The negotiator and others
write there too, so it is the file's own size and time that decide; its inode too: the schedd compacts the file, at its
start and once a day, by writing another and renaming it.

A directory on a network file system tells only of what this machine writes. Whatever fails, the queue is polled.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading

from elastiq.command import CommandError, run
from elastiq.errors import SourceError


class QueueWatch:
    """Of one file. Any thread may call."""

    def __init__(self, log: str) -> None:
        self._log, self._lock = log, threading.Lock()
        self._directory = -1  # open while it is watched
        self._read: tuple[int, ...] = ()  # the file as it was when the queue was last read

    def news(self, reading: bool = False) -> bool:
        """Whether the file has changed since the queue was read, which ``reading`` says begins now. Changes from now on
        are told of; but if this says that it has changed, none is until the next read, since a busy schedd writes a
        hundred times a second. Raises `SourceError`."""
        with self._lock:
            try:
                self._arm()
                now = self._now()
            except OSError as error:
                raise SourceError(f"{error.filename or self._log}: {error.strerror}") from None
            changed = now != self._read
            if reading:
                self._read = now
            elif changed:
                self._disarm()
            return changed

    def _arm(self) -> None:
        self._disarm()  # opened anew each time: it may have been replaced
        self._directory = os.open(os.path.dirname(self._log), os.O_RDONLY | os.O_DIRECTORY)
        once = fcntl.DN_MODIFY | fcntl.DN_RENAME
        ours = ((fcntl.F_SETOWN, os.getpid()), (fcntl.F_SETSIG, signal.SIGURG), (fcntl.F_NOTIFY, once))
        for request, value in ours:
            fcntl.fcntl(self._directory, request, value)

    def _disarm(self) -> None:
        if self._directory >= 0:
            os.close(self._directory)
        self._directory = -1

    __del__ = _disarm

    def _now(self) -> tuple[int, ...]:
        found = os.stat(self._log)
        return found.st_ino, found.st_size, found.st_mtime_ns


def queue_log(timeout_s: float) -> str:
    """Where the schedd of this machine keeps its queue, by its configuration. Raises `SourceError`."""
    try:
        result = run(("condor_config_val", "-subsystem", "SCHEDD", "JOB_QUEUE_LOG", "SPOOL"), timeout_s=timeout_s)
    except CommandError as error:
        raise SourceError(str(error)) from None
    said = result.text.split("\n")[:-1]  # one line each, none for what is not defined
    if not said or not os.path.isabs(said[0]):
        raise SourceError(f"condor_config_val names no SPOOL: {result.complaint}")
    return said[0] if len(said) > 1 else os.path.join(said[0], "job_queue.log")
