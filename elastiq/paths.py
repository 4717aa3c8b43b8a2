"""Where things are, for root and for others, and the lock that lets one daemon run."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

LOCK = "elastiq.lock"  # in the state directory: one daemon for one state
SOCKET_LOCK = "elastiq.pid"  # in the run directory: one daemon for one socket

_Given = Optional[str]


def path(text: str) -> str:
    """An argument that names a file. Raises ValueError: an empty one is most likely a variable that is not set."""
    if not text:
        raise ValueError
    return text


@dataclass(frozen=True)
class Paths:
    """The configuration file and the directories of one daemon; absolute."""

    config: Path
    logdir: Path
    statedir: Path
    rundir: Path

    @classmethod
    def of(cls, config: _Given = None, logdir: _Given = None, statedir: _Given = None, rundir: _Given = None) -> Paths:
        """What is None has its usual place: the system's for root, ~/.elastiq for others."""
        usual = ("/etc/elastiq.conf", "/var/log/elastiq", "/var/lib/elastiq", "/run/elastiq")
        if os.geteuid() != 0:
            home = os.path.join("/nonexistent", os.path.expanduser("~"), ".elastiq")  # a user may have none
            usual = (f"{home}/elastiq.conf", f"{home}/log", f"{home}/state", f"{home}/run")
        given = (config, logdir, statedir, rundir)
        return cls(*(Path(os.path.abspath(mine or default)) for mine, default in zip(given, usual)))

    @property
    def socket(self) -> Path:
        return self.rundir / "elastiq.sock"


class LockedError(Exception):
    """Another process holds it. ``pid`` is None if it is on another machine or hidden from here."""

    def __init__(self, what: object, pid: Optional[int]) -> None:
        self.pid = pid
        where = f"pid {pid}" if pid else "on another machine or in another container"
        super().__init__(f"elastiq runs already ({where}): it holds {what}")


def _taken(take: Callable[[], object], wait_s: float) -> bool:
    """Take it, waiting a moment for one who is just leaving."""
    end = time.monotonic() + wait_s
    while True:
        try:
            take()
            return True
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EADDRINUSE):
                raise
        if time.monotonic() >= end:
            return False
        time.sleep(0.05)


class Lock:
    """A lock that ends with its process, however that ends; the file's content is only for people.

    A POSIX record lock, because the kernel itself then says which process holds it (`elastiq.holder`): a pid
    that is read from a file may have been recycled. The process must not open this file a second time,
    since closing any descriptor of it would drop the lock.
    """

    def __init__(self, path: Path, wait_s: float = 0.5) -> None:
        """Take it. Raises `LockedError` or OSError."""
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if not _taken(lambda: fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB), wait_s):
                from elastiq.holder import lock_holder

                pid = lock_holder(self.fd)
                os.close(self.fd)
                raise LockedError(path, pid or None)
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:  # of a descriptor: it names no file
            raise OSError(error.errno, error.strerror, str(path)) from None


def claim(name: str, what: str, wait_s: float = 0.5) -> socket.socket:
    """Take a name that only one process of this machine can have (an abstract socket, unix(7)); it ends with
    the process. Raises `LockedError` if a process of ours has it. One of another user cannot be our other self:
    it may only mean to keep us out, and does not.
    """
    mine, address = socket.socket(socket.AF_UNIX), f"\0{name}"
    if _taken(lambda: mine.bind(address), wait_s):
        mine.listen()
        return mine
    from elastiq.holder import other_self

    pid = other_self(mine, address)
    if pid is not None:
        raise LockedError(what, pid or None)
    return mine
