"""Calls to the outside: off the decision thread, with deadlines, results posted back as events.

Reads of one source go one at a time and never wait behind acts. Acts of one node go in the order
they were asked for, up to eight at once per source. A call that does not return by its deadline is
reported as unknown and abandoned: its thread is left to end by itself, and what it returns later
is dropped. An act that could not be sent in time is given back unsent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of a call. ``began`` and ``ended`` are monotonic seconds.

    Exactly one of ``value`` and ``error`` is meaningful: ``error`` is None for a call that returned.
    """

    began: float
    ended: float
    value: Optional[T] = None
    error: Optional[BaseException] = None


Done = Callable[[Outcome[T]], None]
Still = Callable[[], bool]


def always() -> bool:
    """Of an act that is sent whatever has happened since."""
    return True


class DeadlineError(Exception):
    """The call did not return in time: what it did is unknown."""


class UnsentError(DeadlineError):
    """The call was not made: when its turn came, what had decided upon it was too old, or not so any more."""


class Executor(Protocol):
    """Where the daemon sends its calls; `elastiq.simulation` has one in virtual time."""

    def read(self, source: str, call: Callable[[], T], done: Done[T], deadline_s: float) -> bool:
        """Start a read unless one of this source is in flight (then False). ``done`` runs on the loop."""

    def act(
        self, source: str, node: str, call: Callable[[], T], done: Done[T], deadline_s: float, still: Still = always
    ) -> None:
        """Queue an act on a node of a source. ``done`` runs on the decision thread, and so does ``still`` when its
        turn comes: if that says False, it is given back unsent."""

    def close(self, wait_s: float) -> Any:
        """Take no more calls; wait up to ``wait_s`` for those in flight."""
