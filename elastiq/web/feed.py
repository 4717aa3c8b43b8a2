"""What the decision thread hands over to the page's server, and how the server asks for it.

Nothing here is locked, and neither side waits for the other: what is published is replaced whole and never changed;
that somebody looks is a number that the loop reads when it comes to it.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Mapping, NamedTuple, Optional

from elastiq.web.news import Entry
from elastiq.web.trend import TIERS, Rows, Tier

WATCHED_S = 20.0  # after a look, so long
PATIENCE_S = 3.0  # for the first look after a while, until the loop has heard of it
FRESH_S = 5.0


class Pace(NamedTuple):
    """How often what is done; ``speed`` and ``began`` (wall time) are for the demo, whose time is not the real one."""

    tick_s: float = 2.0  # a look at whether somebody looks; what is published for them
    tiers: tuple[Tier, ...] = TIERS
    speed: float = 1.0
    began: Optional[float] = None


class Published(NamedTuple):
    """One look. ``made`` is real monotonic time; ``cost`` what the machines cost an hour, None without prices; ``off``
    why there is to be no "launch" or no "terminate" by a person's wish."""

    made: float
    status: Mapping[str, Any]
    entries: tuple[Entry, ...]
    rows: Rows
    cost: Optional[float]
    off: Mapping[str, str]


class Feed:
    """The seam between the loop's thread and the server's."""

    def __init__(self, pace: Pace, first: Published) -> None:
        self.pace = pace
        self.latest = first
        self._began = self._asked = -math.inf  # of the looks that follow one another, the first and the last
        self._renewed = threading.Event()

    def is_watched(self) -> bool:
        """Whether somebody looked lately. For the loop."""
        return time.monotonic() - self._asked < WATCHED_S

    def publish(self, published: Published) -> None:
        self.latest = published
        self._renewed.set()

    def look(self) -> Published:
        """What was published last; where nobody has looked for a while, what the loop publishes next, if that
        comes soon. For the server."""
        now = time.monotonic()
        if not self.is_watched():
            self._began = now
        self._asked = now
        if now - self.latest.made > FRESH_S and (patience_s := self._began + PATIENCE_S - now) > 0:
            self._renewed.clear()
            self._renewed.wait(patience_s)
        return self.latest
