"""The trend in the state file: a table of its own, with a fixed number of rows. On the decision thread only.

It is made when a page is configured for the first time; an elastiq that does not know it leaves it alone. A file
that cannot be written costs nothing but these rows: they are tried again with the next ones.
"""

from __future__ import annotations

from typing import Iterable

from elastiq.errors import StoreError
from elastiq.store import Store
from elastiq.web.trend import Kept

_TABLE = "CREATE TABLE IF NOT EXISTS trend (tier INTEGER, slot INTEGER, row BLOB NOT NULL, PRIMARY KEY (tier, slot))"


def load(store: Store) -> list[tuple[int, bytes]]:
    """The tier and the row of all that is kept; nothing if it cannot be read."""
    try:
        if store.read("SELECT 1 FROM sqlite_master WHERE name = ?", ("trend",)):
            return [(tier, bytes(row)) for tier, row in store.read("SELECT tier, row FROM trend", ())]
    except (StoreError, TypeError):
        pass  # the chart begins anew; what is wrong with the file, others say
    return []


class Writer:
    """Keeps what is new, a few rows at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unsaved: dict[tuple[int, int], bytes] = {}  # by tier and slot: as bounded as the table

    def take(self, rows: Iterable[Kept]) -> None:
        self._unsaved.update({(one.tier, one.slot): one.row for one in rows})

    def save(self) -> bool:
        """Write what is not written yet; False if that failed."""
        try:
            with self._store.writing() as db:
                db.execute(_TABLE)
                rows = [(*key, row) for key, row in self._unsaved.items()]
                db.executemany("INSERT OR REPLACE INTO trend VALUES (?, ?, ?)", rows)
        except StoreError:
            return False
        self._unsaved.clear()
        return True
