"""Which process the running daemon is, and signals for it alone."""

from __future__ import annotations

import os
import signal
import socket
import struct
from pathlib import Path
from typing import Optional

from elastiq.control import address
from elastiq.holder import lock_holder
from elastiq.paths import LOCK, SOCKET_LOCK, Paths

CONNECT_S = 5.0


def holders(paths: Paths) -> dict[Path, int]:
    """Who holds the state, and who the run directory: the pid behind each file, 0 where it cannot be seen.

    Both, because each can be lost or meant without the other: a removed state directory, a `--rundir` alone.
    The socket is only asked where no lock says anything. Empty if nothing runs. Raises OSError.
    """
    files = (paths.statedir / LOCK, paths.rundir / SOCKET_LOCK)
    found = {path: pid for path in files if (pid := _lock_holder(path)) is not None}
    if not found and (pid := _listener(paths.socket)) is not None:
        found[paths.socket] = pid
    return found


def holder(paths: Paths) -> Optional[int]:
    """The pid of the running daemon, proved by its locks or its socket; 0 if it runs where no pid can be
    seen, None if it does not run. Raises OSError."""
    return next(iter(holders(paths).values()), None)


def _lock_holder(path: Path) -> Optional[int]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        return lock_holder(fd)
    finally:
        os.close(fd)


def _listener(path: Path) -> Optional[int]:
    """The process that listens at a Unix socket, as the kernel knows it (SO_PEERCRED, unix(7))."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(CONNECT_S)
        try:
            with address(path) as name:
                sock.connect(name)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", credentials)[0]
    return pid


def alive(pid: int) -> bool:
    """Whether there is a process of that number which has not ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def send_signal(paths: Paths, pid: int, number: signal.Signals) -> bool:
    """Signal the daemon, and no process that has inherited its pid. False if it is gone."""
    try:
        if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
            if pid not in holders(paths).values():
                return False
            os.kill(pid, number)
            return True
        fd = os.pidfd_open(pid)
        try:
            # The descriptor stays with this process whatever becomes of the number, and it holds a lock.
            if pid not in holders(paths).values():
                return False
            signal.pidfd_send_signal(fd, number)
            return True
        finally:
            os.close(fd)
    except ProcessLookupError:
        return False
