"""Faults for a while: windows of time in which some calls, or some launches, go otherwise than well."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Optional

from elastiq.simulation.chance import chance
from elastiq.simulation.clock import VirtualClock
from elastiq.simulation.faults import Call, Faults, T
from elastiq.simulation.model import Machine

LONGEST_DEADLINE_S = 130.0  # of the daemon's calls

Work = Callable[[], Any]
Delay = Callable[[float], None]


@dataclass(eq=False)
class Strike:
    """A call that a window takes: a fault does its ``work`` or not, and returns the answer or raises."""

    call: Call
    work: Work
    delay_answer: Delay  # so many seconds later
    window: Window
    number: int  # of the calls of that name in the window

    def chance(self, *of: object) -> float:
        """From 0 to below 1: for this call, and for what is named."""
        return chance(self.window.key, self.call.name, self.number, *of)

    def hang(self) -> None:
        """The answer comes when the window is over, and too late for whoever asked."""
        left_s = self.window.until - self.window.clock.monotonic()
        self.delay_answer(max(left_s, LONGEST_DEADLINE_S) + 60.0 * self.chance("hang"))


Fault = Callable[[Strike], Any]
Birth = Callable[[Machine, Callable[..., float]], object]  # with the chances of that machine


@dataclass(eq=False)
class Window:
    """From now until ``until`` (monotonic), or until so many ``times``. ``site`` empty: every site and the batch
    system."""

    kind: str
    key: str
    clock: VirtualClock
    until: float
    calls: frozenset[str] = frozenset()
    fault: Optional[Fault] = None
    birth: Optional[Birth] = None
    share: float = 1.0
    site: str = ""
    times: float = math.inf
    struck: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> bool:
        return self.clock.monotonic() < self.until and self.struck < self.times

    def chance(self, *of: object) -> float:
        """From 0 to below 1: for what is named, throughout the window."""
        return chance(self.key, *of)

    def takes(self, call: Call) -> bool:
        if call.name not in self.calls or not self.open or self.site not in ("", call.source):
            return False
        return self.strikes(call.name)

    def strikes(self, name: str) -> bool:
        """Whether it takes the next one of a name."""
        self.seen[name] += 1
        taken = chance(self.key, name, self.seen[name]) < self.share
        self.struck += taken
        return taken


class Chaos(Faults):
    """All windows that are open. Where several take a call, the younger goes around the older.

    ``struck`` counts what they did, by kind. ``before`` and ``after`` are told of every call.
    """

    def __init__(self) -> None:
        self.windows: list[Window] = []
        self.struck: Counter[str] = Counter()
        self.before: Callable[[Call], None] = lambda call: None
        self.after: Callable[[Call], None] = lambda call: None

    def open(self, window: Window) -> None:
        self.windows = [one for one in self.windows if one.open]
        self.windows.append(window)

    def calm(self) -> None:
        """No fault any more."""
        for window in self.windows:
            window.until = min(window.until, window.clock.monotonic())
        self.windows.clear()

    def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
        self.before(call)
        do: Work = work
        for window in self.windows:
            if window.fault is not None and window.takes(call):
                self.struck[window.kind] += 1
                do = partial(window.fault, Strike(call, do, delay_answer, window, window.seen[call.name]))
        try:
            answer: T = do()
            return answer
        finally:
            self.after(call)

    def born(self, machine: Machine) -> None:
        """For the world, at every launch."""
        for window in self.windows:
            if window.birth is not None and window.open and window.strikes("birth"):
                self.struck[window.kind] += 1
                window.birth(machine, partial(chance, window.key, "birth", window.seen["birth"]))
