"""Is a pool whose machines never join tried by one machine at a time, with pauses that grow?

A part of the `elastiq.simulation.checker`. It knows what anybody can read in the history: how each machine went on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable

from elastiq.interfaces import Intent
from elastiq.settings import Settings
from elastiq.simulation.book import Book
from elastiq.simulation.statefile import StateFile
from elastiq.simulation.witness import Record

BOOTS_BEFORE_BREAK = 3
FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 600.0
AT_BOOT, SPENT, IN_SERVICE = ("pending", "booting"), ("failed", "terminating", "gone"), ("idle", "busy")


@dataclass
class _Tried:
    """Of one pool: how many boots in a row failed, and since when; monotonic."""

    failed: list[tuple[float, Settings]] = field(default_factory=list)
    forgiven: int = 0  # of them, a daemon that was killed may have lost those that its last look told

    def open_since(self, when: float) -> float:
        """When the last boot had failed that made the breaker open before then; infinite if it was not open."""
        before = [at for at, _ in self.failed if at < when]
        return before[-1] if len(before) - self.forgiven >= BOOTS_BEFORE_BREAK else math.inf


class Canaries:
    """Told by `moved` that machines have gone on, by `born` that a daemon starts."""

    def __init__(self, book: Book, state: StateFile, settings: Callable[[], Settings]) -> None:
        self._book, self._state, self._settings = book, state, settings
        self._last = 0  # line of the history
        self._states: dict[str, str] = {}
        self._tried: dict[str, _Tried] = {}
        self._born_s = -math.inf

    def lost(self) -> None:
        """The state file that knew of all this was lost."""
        self._last = 0
        self._states.clear()
        self._tried.clear()

    def born(self) -> None:
        """A daemon starts."""
        self.moved()
        self._born_s = self._book.world.now
        for tried in self._tried.values():
            last = tried.failed[-1][0]
            tried.forgiven += sum(1 for at, _ in tried.failed if at == last)

    def moved(self) -> None:
        """Read on in the history."""
        now = self._book.world.now
        if not self._state.writable_since(now):
            self._tried.clear()  # who joins now is not written down
        for number, what, node, pool in self._state.lines_after(self._last):
            self._last = number
            before = self._states.get(node, "")
            if what in IN_SERVICE and before not in IN_SERVICE:
                self._tried.pop(pool, None)
            elif what in SPENT and before in AT_BOOT and node not in self._book.orders.out:
                self._tried.setdefault(pool, _Tried()).failed.append((now, self._settings()))
            self._states[node] = what

    def hasty(self, record: Record, intent: Intent) -> str:
        """What is wrong with the launch, empty if it keeps the pace."""
        pool, when = intent.offer.pool, record.decided_s
        tried = self._tried.get(pool)
        since = tried.open_since(when) if tried is not None else math.inf
        if tried is None or since == math.inf:
            return ""
        failed = len([at for at, _ in tried.failed if at < when]) - tried.forgiven
        what = f"though the last {failed} machines of pool {pool} never joined"
        others = [one.args[0] for one in self._book.intents.values() if one.decided_s == when and one is not record]
        count = intent.count + sum(one.count for one in others if one.offer.pool == pool)
        if count > 1:
            return f"{count} machines at once {what}"
        booting = [name for name, state in self._states.items() if state in AT_BOOT and self._before(name, when)]
        coming = [name for name in booting if self._book.pool_of(self._book.ours[name]) == pool]
        if coming:
            return f"another machine {what}, and {coming[0]} is still to come"
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (failed - BOOTS_BEFORE_BREAK))
        same = self._born_s < since and tried.failed[-1][1] is record.settings  # a reload forgets the pauses, too
        if same and when < since + pause_s - 1.0:
            return f"another machine {when - since:.0f} s after a failure {what}: the pause is {pause_s:.0f} s"
        return ""

    def _before(self, name: str, when: float) -> bool:
        """Whether it is there, and was made before then."""
        machine = self._book.ours.get(name)
        return machine is not None and not machine.ended and self._book.born[name] < when
