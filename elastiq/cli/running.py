"""Which process the running daemon is, and signals for it alone."""

from __future__ import annotations

import os
import signal
from typing import Optional

from elastiq.paths import LOCK, Paths, lock_holder


def holder(paths: Paths) -> Optional[int]:
    """The pid of the running daemon, proved by its lock; 0 if it runs where no pid can be seen, None if it
    does not run. Raises OSError."""
    try:
        fd = os.open(paths.statedir / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return lock_holder(fd)
    finally:
        os.close(fd)


def send_signal(paths: Paths, pid: int, number: signal.Signals) -> bool:
    """Signal the daemon, and no process that has inherited its pid. False if it is gone."""
    try:
        if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
            if holder(paths) != pid:
                return False
            os.kill(pid, number)
            return True
        fd = os.pidfd_open(pid)
        try:
            # The descriptor stays with this process whatever becomes of the number, and it holds the lock.
            if holder(paths) != pid:
                return False
            signal.pidfd_send_signal(fd, number)
            return True
        finally:
            os.close(fd)
    except ProcessLookupError:
        return False
