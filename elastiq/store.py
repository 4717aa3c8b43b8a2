"""Durable state: nodes, intents, what was learned, and the history of decisions, in SQLite.

Only the decision thread touches it. Never holds a secret. A store that cannot be written raises
`StoreError`: then nothing is launched, but drains and ends go on.
"""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import asdict
from typing import Any, Iterable, Optional, Sequence

from elastiq.demand import Standing, Trial
from elastiq.interfaces import Intent, Offer, Resources
from elastiq.nodes import Node, State

VERSION = 1
HISTORY_AT_MOST = 20_000
PRUNED_EVERY = 500

_SCHEMA = """
CREATE TABLE nodes (id TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE intents (id TEXT PRIMARY KEY, data TEXT NOT NULL, answered INTEGER NOT NULL DEFAULT 0);
CREATE TABLE trials (key TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE facts (key TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE history (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, what TEXT NOT NULL,
    node TEXT NOT NULL, pool TEXT NOT NULL, reason TEXT NOT NULL
);
"""

# What a node keeps across a restart; the rest is observed anew.
_KEPT = (
    "id pool site flavour network intent instance_id reason since created_at joined_at worker jobs "
    "job_starts idle_s boot_s lost_s was_busy number"
).split()


# One line of history, for people: wall time, what, node, pool, reason.
Line = tuple[float, str, str, str, str]


class StoreError(Exception):
    """The store cannot be read or written. One line, with the path."""


class Store:
    """The state file. ``notice`` says what a person should know of its opening, else empty."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notice = ""
        self._history_writes = PRUNED_EVERY - 1  # so that the first line of a run prunes
        try:
            self._db = self._open()
            self._understand()
        except OSError as exc:
            raise StoreError(f"{path}: {exc.strerror}: the state directory must be there and writable") from exc
        except sqlite3.OperationalError as exc:
            raise StoreError(f"{path}: {exc}: check the state directory's rights and its free space") from exc
        except sqlite3.DatabaseError as exc:
            self._db = self._open_anew(exc)

    def close(self) -> None:
        self._db.close()

    # ------------------------------------------------------------------ nodes and intents

    def save(self, nodes: Iterable[Node], history: Sequence[Line] = ()) -> None:
        """Write these nodes as they are; those that are gone are removed. With lines of history, in one."""
        with self._writing() as db:
            self._put_nodes(db, nodes)
            self._put_history(db, history)

    def journal(self, intent: Intent, nodes: Iterable[Node]) -> None:
        """Record a launch that is about to be asked for, with the nodes it should make."""
        data = {**asdict(intent), "offer": [intent.offer.pool, intent.offer.flavour, intent.offer.network]}
        with self._writing() as db:
            db.execute("INSERT INTO intents (id, data) VALUES (?, ?)", (intent.id, json.dumps(data)))
            self._put_nodes(db, nodes)

    def close_intent(self, intent_id: str) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM intents WHERE id = ?", (intent_id,))

    def replace_trials(self, trials: Iterable[Trial]) -> None:
        rows = [(trial.key, json.dumps({**asdict(trial), "standing": trial.standing.value})) for trial in trials]
        with self._writing() as db:
            db.execute("DELETE FROM trials")
            db.executemany("INSERT INTO trials VALUES (?, ?)", rows)

    def remember(self, key: str, value: Any) -> None:
        """Keep one small fact (JSON)."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, json.dumps(value)))

    def record(self, history: Sequence[Line]) -> None:
        """Add to the history; the oldest lines go."""
        with self._writing() as db:
            self._put_history(db, history)

    # ------------------------------------------------------------------ reading at the start

    def nodes(self) -> list[Node]:
        return [_node(json.loads(data)) for (data,) in self._read("SELECT data FROM nodes")]

    def intents(self) -> list[Intent]:
        """Launches that were about to be asked for, or were, and are not settled."""
        found = []
        for (data,) in self._read("SELECT data FROM intents"):
            fields = json.loads(data)
            fields["offer"] = Offer(*fields["offer"])
            found.append(Intent(**fields))
        return found

    def trials(self) -> list[Trial]:
        rows = (json.loads(data) for (data,) in self._read("SELECT data FROM trials ORDER BY rowid"))
        return [
            Trial(**{**row, "standing": Standing(row["standing"]), "refused_by": tuple(row["refused_by"])})
            for row in rows
        ]

    def recall(self, key: str) -> Optional[Any]:
        rows = self._read("SELECT data FROM facts WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else None

    def history(self, last: int = 100) -> list[Line]:
        """The last lines of history, oldest first."""
        rows = self._read("SELECT at, what, node, pool, reason FROM history ORDER BY number DESC LIMIT ?", (last,))
        return [(row[0], row[1], row[2], row[3], row[4]) for row in reversed(rows)]

    # ------------------------------------------------------------------ inside

    def _understand(self) -> None:
        """Read all that decides: a row that makes no sense must show now, not in the middle of a start."""
        try:
            self.nodes(), self.intents(), self.trials()
        except (ValueError, KeyError, TypeError) as exc:
            self._db.close()
            raise sqlite3.DatabaseError(f"a row makes no sense: {exc!r}") from exc

    def _open(self) -> sqlite3.Connection:
        new = self.path == ":memory:" or not os.path.exists(self.path)
        if new and self.path != ":memory:":
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        elif not new and os.path.getsize(self.path) == 0:
            self.notice = f"{self.path} was empty: starting from the cloud's tags"
        db = sqlite3.connect(self.path, isolation_level=None, timeout=2.0)
        try:
            # A launch must be on the disk before it is asked for.
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise StoreError(
                    f"{self.path}: written by a newer elastiq (schema {version}, this one knows {VERSION}): "
                    "install that version again, or move the file away"
                )
            if version == 0:
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.split(";\n"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
                db.execute("COMMIT")
            broken = db.execute("PRAGMA quick_check").fetchone()[0]
            if broken != "ok":
                raise sqlite3.DatabaseError(broken)
        except BaseException:
            db.close()
            raise
        return db

    def _open_anew(self, why: sqlite3.DatabaseError) -> sqlite3.Connection:
        """A torn file is kept aside; what is ours is found again by the cloud's tags."""
        aside = f"{self.path}.corrupt"
        try:
            os.replace(self.path, aside)
            for suffix in ("-wal", "-shm"):
                if os.path.exists(self.path + suffix):
                    os.remove(self.path + suffix)
            self.notice = f"{self.path} was corrupt ({why}): moved to {aside}; starting from the cloud's tags"
            return self._open()
        except (OSError, sqlite3.Error) as exc:
            raise StoreError(f"{self.path} is corrupt and cannot be replaced: {exc}") from exc

    def _writing(self) -> _Transaction:
        return _Transaction(self._db, self.path)

    def _read(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._db.execute(sql, parameters).fetchall()
        except sqlite3.Error as exc:
            raise StoreError(f"{self.path}: {exc}") from exc

    def _put_history(self, db: sqlite3.Connection, history: Sequence[Line]) -> None:
        db.executemany("INSERT INTO history (at, what, node, pool, reason) VALUES (?, ?, ?, ?, ?)", history)
        written = self._history_writes + len(history)
        if written // PRUNED_EVERY != self._history_writes // PRUNED_EVERY:
            db.execute("DELETE FROM history WHERE number <= (SELECT MAX(number) FROM history) - ?", (HISTORY_AT_MOST,))
        self._history_writes = written

    @staticmethod
    def _put_nodes(db: sqlite3.Connection, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.state is State.GONE:
                db.execute("DELETE FROM nodes WHERE id = ?", (node.id,))
                continue
            data = {name: getattr(node, name) for name in _KEPT}
            data.update(state=node.state.value, addresses=sorted(node.addresses), groups=node.groups)
            db.execute("INSERT OR REPLACE INTO nodes VALUES (?, ?)", (node.id, json.dumps(data)))


class _Transaction:
    """All or nothing; sqlite's errors become `StoreError`."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db, self._path = db, path

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as exc:
            raise StoreError(f"{self._path}: {exc}") from exc
        return self._db

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if error is None:
                self._db.execute("COMMIT")
            elif self._db.in_transaction:  # a full disk may have ended it already
                self._db.rollback()
        except sqlite3.Error as exc:
            if self._db.in_transaction:
                self._db.rollback()
            raise StoreError(f"{self._path}: {exc}") from (error or exc)
        if isinstance(error, sqlite3.Error):
            raise StoreError(f"{self._path}: {error}") from error


def _node(data: dict[str, Any]) -> Node:
    data["state"] = State(data["state"])
    data["addresses"] = frozenset(data["addresses"])
    return Node(**data)


def learned_to_json(learned: dict[tuple[str, str], Resources]) -> list[Any]:
    return [[pool, flavour, asdict(total)] for (pool, flavour), total in learned.items()]


def learned_from_json(rows: Iterable[Any]) -> dict[tuple[str, str], Resources]:
    return {(pool, flavour): Resources(**total) for pool, flavour, total in rows}
