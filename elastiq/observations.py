"""What was last read of each source, when, and whether it can be believed.

Pure. Unknown is never empty: an observation that failed or is too old is None for those who decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Optional, TypeVar

from elastiq.interfaces import Workers

T = TypeVar("T")

# A read older than so many periods (and its own deadline) is not acted upon.
STALE_PERIODS = 3


@dataclass
class Observation(Generic[T]):
    """The last good read of one source and the last failure, with monotonic times."""

    name: str
    stale_after_s: float
    value: Optional[T] = None
    previous: Optional[T] = None  # of the good read before
    began: float = 0.0
    error: str = ""
    failures: int = 0  # in a row

    def succeeded(self, began: float, value: T) -> None:
        self.previous, self.value, self.began, self.error, self.failures = self.value, value, began, "", 0

    def failed(self, error: str) -> None:
        self.error, self.failures = error, self.failures + 1

    def known(self, now: float) -> Optional[T]:
        """The value, None if the last read failed or the last good one is too old to act upon."""
        return self.value if self.why_unknown(now) == "" else None

    def why_unknown(self, now: float) -> str:
        if self.failures:
            return f"{self.name} could not be read: {self.error}"
        if self.value is None:
            return f"{self.name} was not read yet"
        if now - self.began > self.stale_after_s:
            return f"{self.name} was last read {now - self.began:.0f} s ago"
        return ""


class SettleJudge:
    """Whether a view of the workers can be believed to be complete.

    A collector that was just restarted knows nobody and says so with a valid, empty answer: a source
    must have been up for ``settle_s``, and when more than half of the expected workers vanish at once,
    they must stay away for as long.
    """

    def __init__(self, settle_s: float) -> None:
        self.settle_s = settle_s
        self.vanished_at: Optional[float] = None

    def why_unsettled(self, view: Workers, expected: frozenset[str], began: float) -> str:
        """Empty if settled. ``expected``: names of the workers that should be there."""
        missing = expected - {worker.name for worker in view.workers}
        young = view.source_up_s is not None and view.source_up_s < self.settle_s
        if view.missing or young or len(missing) * 2 > len(expected):
            from elastiq.unsettled import why

            return why(self, view, len(missing), len(expected), began)
        self.vanished_at = None
        return ""


@dataclass
class Watch:
    """Counts the time in which somebody looked."""

    last_good: Optional[float] = None  # the beginning of the last good read, None if the last was not good

    def passed_s(self, began: float, good: bool, longest_s: float) -> float:
        """The time since the read before this one if both are good. Reads further apart than ``longest_s`` left
        a time in which nobody looked: the daemon was stopped in its tracks."""
        before, self.last_good = self.last_good, began if good else None
        passed_s = began - before if good and before is not None else 0.0
        return passed_s if passed_s <= longest_s else 0.0
