"""The history of decisions, read back. Imported where a limit of launches or cost is set, or a person asks for it."""

from __future__ import annotations

from typing import Any

from elastiq.store import HISTORY_AT_MOST, Line, Store

KEYS = ("at", "what", "node", "pool", "reason")


def lines(store: Store, last: int = 100) -> list[Line]:
    """The last lines of history, oldest first."""
    latest = "SELECT * FROM history ORDER BY number DESC LIMIT ?"
    return store.read(f"SELECT at, what, node, pool, reason FROM ({latest}) ORDER BY number", (last,))


def answer(store: Store) -> dict[str, Any]:
    """All of it, as it goes over the control socket."""
    return {"history": [dict(zip(KEYS, line)) for line in lines(store, HISTORY_AT_MOST)]}
