"""Durable state: nodes, intents, what was learned, and the history of decisions, in SQLite.

Only the decision thread touches it. Never holds a secret. A store that cannot be written raises
`StoreError`: then nothing is launched, but drains and ends go on.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import sqlite3
from dataclasses import asdict
from typing import Any, Iterable, Iterator, Optional, Sequence

from elastiq.demand import Standing, Trial
from elastiq.errors import StoreError as StoreError
from elastiq.interfaces import Intent, Offer, Resources
from elastiq.nodes import Node, State

VERSION = 1
HISTORY_AT_MOST = 20_000

# A record's data is JSON; its kind is "node", "intent" or "fact".
_SCHEMA = """
CREATE TABLE records (kind TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (kind, key));
CREATE TABLE history (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, what TEXT NOT NULL,
    node TEXT NOT NULL, pool TEXT NOT NULL, reason TEXT NOT NULL
);
"""

# What a node keeps across a restart; the rest is observed anew.
_KEPT = (
    "id pool site state flavour network market build replaced was_stopped ran_since intent instance_id reason "
    "since created_at joined_at addresses worker jobs job_starts idle_s boot_s lost_s condemned ordered emptied groups "
    "was_busy number"
).split()


# One line of history, for people: wall time, what, node, pool, reason.
Line = tuple[float, str, str, str, str]


class Store:
    """The state file. ``notice`` says what a person should know of its opening, else empty."""

    def __init__(self, path: str) -> None:
        self.path, self.notice = path, ""
        try:
            self._db = self._open()
        except (OSError, sqlite3.DatabaseError) as exc:
            from elastiq.torn import open_anew

            self._db, self.notice = open_anew(path, exc, self._open)

    def close(self) -> None:
        self._db.close()

    # ------------------------------------------------------------------ writing

    def save(self, nodes: Iterable[Node], history: Sequence[Line] = ()) -> None:
        """Write these nodes as they are; those that are gone are removed. With lines of history, in one;
        the oldest lines go."""
        with self.writing() as db:
            self._put_nodes(nodes)
            db.executemany("INSERT INTO history (at, what, node, pool, reason) VALUES (?, ?, ?, ?, ?)", history)
            db.execute("DELETE FROM history WHERE number <= (SELECT MAX(number) FROM history) - ?", (HISTORY_AT_MOST,))

    def journal(self, intent: Intent, nodes: Iterable[Node]) -> None:
        """Record a launch that is about to be asked for, with the nodes it should make."""
        with self.writing():
            self._put("intent", intent.id, asdict(intent))
            self._put_nodes(nodes)

    def close_intent(self, intent_id: str) -> None:
        with self.writing():
            self._delete("intent", intent_id)

    def replace_trials(self, trials: Iterable[Trial]) -> None:
        self.remember("trials", [asdict(trial) for trial in trials])

    def remember(self, key: str, value: Any) -> None:
        """Keep one small fact (JSON)."""
        with self.writing():
            self._put("fact", key, value)

    # ------------------------------------------------------------------ reading at the start

    def nodes(self) -> list[Node]:
        rows = self._records("node")
        return [Node(**{**one, "state": State(one["state"]), "addresses": frozenset(one["addresses"])}) for one in rows]

    def intents(self) -> list[Intent]:
        """Launches that were about to be asked for, or were, and are not settled."""
        return [Intent(**{**data, "offer": Offer(**data["offer"])}) for data in self._records("intent")]

    def trials(self) -> list[Trial]:
        return [
            Trial(**{**data, "standing": Standing(data["standing"]), "refused_by": tuple(data["refused_by"])})
            for data in self.recall("trials") or ()
        ]

    def recall(self, key: str) -> Optional[Any]:
        return next(iter(self._records("fact", key)), None)

    # ------------------------------------------------------------------ inside

    def _open(self) -> sqlite3.Connection:
        size = os.path.getsize(self.path) if os.path.exists(self.path) else None
        if size == 0:
            self.notice = f"{self.path} was empty: starting from the cloud's tags"
        if self.path != ":memory:":
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        self._db = db = sqlite3.connect(self.path, isolation_level=None, timeout=2.0)
        try:
            # A launch must be on the disk before it is asked for; and in the file itself, not in the log alone, for
            # SQLite takes a damaged or missing log for an empty one.
            db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1;")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                from elastiq.torn import newer

                raise newer(self.path, version, VERSION)
            # A file that was cut within its first page is an empty database to SQLite.
            broken = "no state" if size and not version else db.execute("PRAGMA quick_check").fetchone()[0]
            if broken != "ok":
                raise sqlite3.DatabaseError(broken)
            if version == 0:
                db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
            self._file = self._file_now()
            # A row that makes no sense must show now, not in the middle of a start.
            self.nodes(), self.intents(), self.trials()
        except BaseException as exc:
            db.close()
            if isinstance(exc, (ValueError, KeyError, TypeError)):
                raise sqlite3.DatabaseError(f"a row makes no sense: {exc!r}") from exc
            raise
        return db

    def _file_now(self) -> Optional[tuple[int, int]]:
        """What the path leads to: SQLite itself would go on writing into a file that nobody finds again."""
        with contextlib.suppress(OSError):
            found = os.stat(self.path)
            return found.st_dev, found.st_ino
        return None

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; sqlite's errors become `StoreError`."""
        try:
            if self._file != self._file_now():
                raise sqlite3.OperationalError("was removed or replaced while elastiq runs: restart elastiq")
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
        except sqlite3.Error as exc:
            raise StoreError(f"{self.path}: {exc}") from exc

    def _put(self, kind: str, key: str, data: Any) -> None:
        row = (kind, key, json.dumps(data, default=_plain))
        self._db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", row)

    def _delete(self, kind: str, key: str) -> None:
        self._db.execute("DELETE FROM records WHERE kind = ? AND key = ?", (kind, key))

    def _put_nodes(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.state is State.GONE:
                self._delete("node", node.id)
            else:
                self._put("node", node.id, {name: getattr(node, name) for name in _KEPT})

    def _records(self, kind: str, key: str = "") -> list[Any]:
        """The data of all records of a kind, or of the one with this key, in the order of writing."""
        rows = self.read("SELECT data FROM records WHERE kind = ? AND ? IN ('', key) ORDER BY rowid", (kind, key))
        return [json.loads(data) for (data,) in rows]

    def read(self, sql: str, parameters: tuple[Any, ...]) -> list[Any]:
        try:
            return self._db.execute(sql, parameters).fetchall()
        except sqlite3.Error as exc:
            raise StoreError(f"{self.path}: {exc}") from exc


def _plain(value: Any) -> Any:
    """What JSON does not know."""
    return value.value if isinstance(value, enum.Enum) else sorted(value)


def learned_to_json(learned: dict[tuple[str, str], Resources]) -> list[Any]:
    return [[pool, flavour, {**vars(total)}] for (pool, flavour), total in learned.items()]


def learned_from_json(rows: Iterable[Any]) -> dict[tuple[str, str], Resources]:
    return {(pool, flavour): Resources(**total) for pool, flavour, total in rows}
