"""Who has what another process wants: asked by elastiqctl, and by a daemon that finds its locks taken."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from typing import Optional

_FLOCK = "hhqqi"  # struct flock with 64-bit offsets, which every Python on Linux is built with


def lock_holder(fd: int) -> Optional[int]:
    """The process that holds the lock: None if nobody does, 0 if it is one that cannot be seen from here.

    Asking does not take the lock, so that it cannot get in the way of a start.
    """
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else max(0, pid)


def other_self(mine: socket.socket, address: str) -> Optional[int]:
    """The process of our user that listens at a Unix socket's address, 0 if it cannot be seen from here. None if it
    is another user's, who cannot be our other self: he may only mean to keep us out."""
    mine.settimeout(1.0)
    listens = mine.connect_ex(address) != errno.ECONNREFUSED  # one of ours would
    pid, uid, _ = struct.unpack("3i", mine.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid if listens and uid in (os.geteuid(), -1) else None  # -1: it does not let us ask
