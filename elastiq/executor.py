"""What becomes of calls to the outside. They are made off the decision thread, with deadlines, and their results
are posted back as events (`elastiq.calling`).

Reads of one source go one at a time and never wait behind acts. Acts of one node go in the order
they were asked for, up to eight at once per source. A call that does not return by its deadline is
reported as unknown and abandoned: its thread is left to end by itself, and what it returns later
is dropped. An act that could not be sent in time is given back unsent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Generic, Optional, TypeVar

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
