"""The seam for faults: what stands between a call of the daemon and the simulated systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, TypeVar

T = TypeVar("T")

NEVER = float("inf")


@dataclass(frozen=True)
class Call:
    """One call: ``source`` is "batch" or the cloud's site, ``name`` the contract's method."""

    source: str
    name: str
    args: tuple[Any, ...] = ()


class Faults:
    """No faults. A subclass overrides `apply`."""

    def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
        """Do the work of a call, and return its answer.

        Raise instead of working: the call failed without an effect. Raise after working: the effect
        took place, the answer is lost. Return something else, or give ``delay_answer`` the seconds by
        which the answer comes later (`NEVER` for a call that hangs).
        """
        return work()


@dataclass(frozen=True)
class _Planned:
    name: str
    instead: Optional[Callable[[], Any]]
    after: Optional[Callable[[Any], Any]]
    delay_s: float


class PlannedFaults(Faults):
    """Faults by the name of the method, each for one call only, in the order they were planned."""

    def __init__(self) -> None:
        self._planned: list[_Planned] = []

    def once(
        self,
        name: str,
        error: Optional[Exception] = None,
        instead: Optional[Callable[[], Any]] = None,
        after: Optional[Callable[[Any], Any]] = None,
        delay_s: float = 0.0,
    ) -> None:
        """Plan for the next call of that name: an error or an answer without an effect; another answer,
        or an error, after the effect; a late answer."""

        def fail() -> Any:
            assert error is not None
            raise error

        self._planned.append(_Planned(name, fail if error else instead, after, delay_s))

    def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
        fault = next((fault for fault in self._planned if fault.name == call.name), None)
        if fault is None:
            return work()
        self._planned.remove(fault)
        delay_answer(fault.delay_s)
        answer: T = fault.instead() if fault.instead is not None else work()
        return answer if fault.after is None else fault.after(answer)
