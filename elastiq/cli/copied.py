"""A copy of the state file in memory: to plan from, while the daemon runs or does not, and without its noticing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Optional
from urllib.parse import quote

from elastiq.store import VERSION, Store, StoreError
from elastiq.torn import newer

STATE = "elastiq.db"  # in the state directory
BUSY_S = 5.0


class CopiedStore(Store):
    """What the file held when it was copied; empty where there is none. What is written stays in memory."""

    def __init__(self, file: Path) -> None:
        """Raises `StoreError` for a file that cannot be used, PermissionError for one that may not be read."""
        super().__init__(":memory:")
        self.found = file.exists() and file.stat().st_size > 0
        if self.found:
            self._copy(file)
        self.path = str(file)

    def _file_now(self) -> Optional[tuple[int, int]]:
        return None  # whatever becomes of the file, the copy stays

    def _copy(self, file: Path) -> None:
        with open(file, "rb"):
            pass  # SQLite would not say whose permission is missing
        try:
            with closing(sqlite3.connect(_address(file), uri=True, timeout=BUSY_S)) as source:
                source.backup(self._db)
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            broken = self._db.execute("PRAGMA quick_check").fetchone()[0]
            if version == VERSION and broken == "ok":
                self.nodes(), self.intents(), self.trials()
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            version, broken = VERSION, str(error)
        if version > VERSION:
            raise newer(str(file), version, VERSION)
        if version != VERSION:
            other = "an older elastiq, or is none of its files"
            raise StoreError(f"{file}: written by {other} (schema {version}, this one knows {VERSION})")
        if broken != "ok":
            raise StoreError(f"{file}: cannot be read as elastiq's state ({broken}); elastiq repairs it when it starts")


def _address(file: Path) -> str:
    """How SQLite is to open the file so that nothing is created or written beside it.

    The -shm file is there while an elastiq runs, and after one was killed: it is then only read (readonly_shm, a
    parameter of SQLite's unix VFS). Without one, nobody writes: immutable, or SQLite would make one.
    https://www.sqlite.org/uri.html, https://www.sqlite.org/wal.html#readonly
    """
    used = os.path.exists(f"{file}-shm")
    return f"file:{quote(str(file))}?mode=ro&" + ("readonly_shm=1" if used else "immutable=1")
