"""A state file that is corrupt: kept aside, since what is ours is found again by the cloud's tags.

Imported when it is needed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Callable

from elastiq.errors import StoreError


def open_anew(path: str, why: Exception, start: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """Move the file out of the way, to PATH.corrupt, and start a new one."""
    try:
        os.replace(path, f"{path}.corrupt")
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path + suffix)
        return start()
    except (OSError, sqlite3.Error) as exc:
        raise StoreError(f"{path} is corrupt ({why}) and cannot be replaced: {exc}") from exc
