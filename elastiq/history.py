"""The history of decisions, read back. Imported where a limit of launches or cost is set, or a person asks for it."""

from __future__ import annotations

from elastiq.store import Line, Store


def lines(store: Store, last: int = 100) -> list[Line]:
    """The last lines of history, oldest first."""
    latest = "SELECT * FROM history ORDER BY number DESC LIMIT ?"
    return store.read(f"SELECT at, what, node, pool, reason FROM ({latest}) ORDER BY number", (last,))
