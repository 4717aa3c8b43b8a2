"""How long jobs wait, as far as the reads of the queue show it.

Pure. A read has counts of groups, not jobs: where a group has fewer waiting jobs than in the read before, those that
came first are taken to have left, be it for a machine or because they were removed or held. What comes and goes
between two reads is not seen.
"""

from __future__ import annotations

from collections import deque
from typing import Optional

from elastiq.interfaces import Jobs
from elastiq.metrics.families import Histogram

BOUNDS_S = (15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 259200)
ENTRIES = 500  # of one group; beyond, those that came one after the other count as one


class Waits:
    """The jobs of each group by the time at which they came."""

    def __init__(self) -> None:
        self.histogram = Histogram(BOUNDS_S)
        self._began: Optional[float] = None
        self._came: dict[str, deque[tuple[float, int]]] = {}

    def take(self, began: float, jobs: Jobs) -> None:
        """Take a read that began then, once; one that is not complete says nothing of who left."""
        if began == self._began or not jobs.complete:
            return
        # Of jobs that were there before the first read nobody knows for how long.
        known, self._began = self._began is not None, began
        waiting: dict[str, int] = {}
        for group in jobs.groups:
            if not group.not_eligible:
                waiting[group.key] = waiting.get(group.key, 0) + group.waiting
        for key in [*self._came]:
            self._left(key, sum(count for _, count in self._came[key]) - waiting.get(key, 0), began)
        for key, count in waiting.items():
            came = self._came.get(key, deque())
            new = count - sum(count for _, count in came)
            if new > 0:
                came.append((began if known else float("nan"), new))
                self._came[key] = came
            while len(came) > ENTRIES:
                (at, first), (_, second) = came.popleft(), came.popleft()
                came.appendleft((at, first + second))

    def _left(self, key: str, count: int, at: float) -> None:
        came = self._came[key]
        while count > 0 and came:
            since, jobs = came.popleft()
            gone = min(count, jobs)
            if gone < jobs:
                came.appendleft((since, jobs - gone))
            count -= gone
            if since == since:  # else it was there at the start
                self.histogram.observe(at - since, gone)
        if not came:
            del self._came[key]
