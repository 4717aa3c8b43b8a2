"""What anybody can read in a daemon's state file, by SQLite alone."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3


class StateFile:
    """Read only. ``broken_until`` is set by the simulated disk: until then nothing new can be in it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.intents_before: frozenset[str] = frozenset()  # which the present daemon found in it
        self._before = 0  # the last line of history when the present daemon started
        self.broken_until = -math.inf  # monotonic; infinite while it is broken

    def writable_since(self, when: float) -> bool:
        """Whether all that was decided since then must be in it."""
        return when > self.broken_until

    def has_intent(self, intent: str) -> bool:
        """Whether a journal of this launch is there. Of a torn file nobody can say: it counts as there."""
        return bool(self._one("SELECT COUNT(*) FROM records WHERE kind = 'intent' AND key = ?", 1, intent))

    def machines(self) -> int:
        """How many it knows. None of a torn file."""
        return int(str(self._one("SELECT COUNT(*) FROM records WHERE kind = 'node'", 0)))

    def reason(self, what: str, node: str) -> str:
        """The last reason that the history gives for this; empty if it gives none."""
        sql = "SELECT reason FROM history WHERE what = ? AND node = ? ORDER BY number DESC"
        return str(self._one(sql, "the file is torn", what, node) or "")

    def times(self, what: str, node: str) -> int:
        """How often the history says this of it; 0 of a torn file."""
        sql = "SELECT COUNT(*) FROM history WHERE what = ? AND node = ?"
        return int(str(self._one(sql, 0, what, node)))

    def last_move(self, node: str) -> str:
        """What the history says last of a machine."""
        return str(self._one("SELECT what FROM history WHERE node = ? ORDER BY number DESC", "", node) or "")

    def last_moves(self, node: str) -> str:
        """The last two things that the history says of a machine."""
        sql = "SELECT group_concat(what) FROM (SELECT what FROM history WHERE node = ? ORDER BY number DESC LIMIT 2)"
        return str(self._one(sql, "", node) or "")

    def new_life(self) -> None:
        """A daemon starts with what is there now."""
        self._before = int(str(self._one("SELECT MAX(number) FROM history", 0) or 0))
        found = self._one("SELECT group_concat(key) FROM records WHERE kind = 'intent'", "")
        self.intents_before = frozenset(str(found or "").split(","))

    def decided_before(self, what: str, node: str) -> bool:
        """Whether an earlier life had decided this."""
        sql = "SELECT MIN(number) FROM history WHERE what = ? AND node = ?"
        number = self._one(sql, None, what, node)
        return number is not None and int(str(number)) <= self._before

    def lines_after(self, number: int) -> list[tuple[int, str, str, str]]:
        """The history from there on: number, what, node, pool. Nothing of a torn file."""
        sql = "SELECT number, what, node, pool FROM history WHERE number > ? ORDER BY number"
        with contextlib.suppress(sqlite3.Error):
            with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
                return connection.execute(sql, (number,)).fetchall()
        return []

    def _one(self, sql: str, torn: object, *parameters: str) -> object:
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
                row = connection.execute(sql, parameters).fetchone()
                return row[0] if row else None
        except sqlite3.Error:
            return torn

    def holds(self, secret: bytes) -> bool:
        """Whether the file, or what SQLite keeps beside it, has these bytes."""
        return any(_contains(self.path + suffix, secret) for suffix in ("", "-wal", "-shm", ".corrupt"))


def _contains(path: str, secret: bytes) -> bool:
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        return secret in file.read()
