"""A state file that cannot be opened or used. One that is corrupt is kept aside: what is ours is found by the cloud's
tags.

Imported when it is needed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Callable

from elastiq.errors import StoreError


def open_anew(path: str, why: Exception, start: Callable[[], sqlite3.Connection]) -> tuple[sqlite3.Connection, str]:
    """Move a corrupt file out of the way, to PATH.corrupt, and start a new one. Returns it, and what a person should
    know. Raises `StoreError`, for other reasons than a corrupt file too."""
    if isinstance(why, OSError):
        raise StoreError(f"{path}: {why.strerror}: the state directory must be there and writable") from why
    if isinstance(why, sqlite3.OperationalError):
        raise StoreError(f"{path}: {why}: check the state directory's rights and its free space") from why
    try:
        os.replace(path, f"{path}.corrupt")
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path + suffix)
        notice = f"{path} was corrupt ({why}): kept as {path}.corrupt; starting from the cloud's tags"
        return start(), notice
    except (OSError, sqlite3.Error) as exc:
        raise StoreError(f"{path} is corrupt ({why}) and cannot be replaced: {exc}") from exc


def newer(path: str, schema: int, known: int) -> StoreError:
    """Why a file with a schema that is above the known one is not used."""
    return StoreError(
        f"{path}: written by a newer elastiq (schema {schema}, this one knows {known}): "
        "install that version again, or move the file away"
    )


def of_another(path: str, machines: int, before: object, cluster: str) -> StoreError:
    """Why a file with machines of another cluster_name is not used."""
    return StoreError(
        f"{path}: holds machines ({machines}) of cluster_name {before}, which would be "
        f"lost to {cluster}: set the old name again, or end them and move the file away"
    )
