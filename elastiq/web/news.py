"""What was done and why, for the page: the newest entries, from the state file's history and from what is said since.

On the decision thread; ``entries`` is replaced whole, so that any thread may read it.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Iterator, Mapping, Optional

from elastiq.core import Core
from elastiq.errors import StoreError
from elastiq.nodes import AT_BOOT, IN_SERVICE, State

ENTRIES = 120
_LINES = 2000  # of the history, most of which tell of jobs that come and go

_STATES = {state.value for state in State}
_COMING = {state.value for state in AT_BOOT} | {State.REQUESTED.value, State.FAILED.value}
_THERE = {state.value for state in IN_SERVICE}
_TOLD = {
    State.DRAINING.value: "drain",
    State.TERMINATING.value: "end",
    State.STOPPED.value: "stop",
    State.LOST.value: "lost",
    State.FAILED.value: "failed",
    State.GONE.value: "gone",
}

Entry = Mapping[str, Any]


class News:
    """A listener of `Core.say`. What is no move of a machine, as a launch, has a line of history only."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._number = 0  # of the last line that was read
        self._found: deque[Entry] = deque(maxlen=ENTRIES)
        before: dict[str, str] = {}
        for at, what, node, pool, reason in self._lines():
            kind = _kind(before.get(node, ""), what) if what in _STATES else what
            before[node] = what
            if kind:
                self._add(at, kind, node, pool, reason)
        self.entries = tuple(self._found)

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        kind = _kind(fields["before"], fields["after"]) if event == "node" else None
        if kind:
            self._add(self._core.wall(), kind, fields["node"], fields["pool"], fields["reason"])

    def look(self) -> None:
        """Take up what was written into the history since."""
        for at, what, node, pool, reason in self._lines():
            if what not in _STATES:  # moves were heard of already, whether or not they could be written
                self._add(at, what, node, pool, reason)
        self.entries = tuple(sorted(self._found, key=lambda entry: float(entry["at"])))

    def _add(self, at: float, kind: str, node: str, pool: str, reason: str) -> None:
        """An end takes the place of the drain that it follows for the same reason."""
        drained = (one for one in self._found if (one["kind"], one["node"], one["reason"]) == ("drain", node, reason))
        if kind == "end" and (before := next(drained, None)):
            self._found.remove(before)
        self._found.append({"at": at, "kind": kind, "node": node, "pool": pool, "reason": reason})

    def _lines(self) -> Iterator[tuple[float, str, str, str, str]]:
        newest = "SELECT * FROM history WHERE number > ? ORDER BY number DESC LIMIT ?"
        sql = f"SELECT number, at, what, node, pool, reason FROM ({newest}) ORDER BY number"
        try:
            rows = self._core.store.read(sql, (self._number, _LINES))
        except StoreError:
            rows = []  # what is wrong with the file, others say
        for number, *line in rows:
            self._number = number
            at, what, node, pool, reason = line
            yield at, what, node, pool, reason


def _kind(before: str, after: str) -> Optional[str]:
    """What a person calls this move of a machine; None: nothing that a person waits for."""
    if after in _THERE:
        return "joined" if before in _COMING else "back" if before == State.DRAINING.value else None
    if (before, after) == (State.TERMINATING.value, State.GONE.value):
        return None  # its end was told
    return _TOLD.get(after)
