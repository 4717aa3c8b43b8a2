"""Faults that a test asks the EC2 server for."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

HOLD_S = 60.0  # a held call is let go after this, so that a broken test does not hang the server


class Dropped(Exception):
    """The connection is to end without an answer."""


@dataclass
class Fault:
    """What happens to the next ``times`` calls of ``action`` ("*": any).

    ``code``: answer this error, with HTTP ``status``; ``after``: only after the call took effect.
    ``delay_s``: think first. ``drop``: take effect, then close the connection without an answer.
    ``hold``: "before" or "after" the effect wait until released (or discarded: then no effect).
    """

    action: str
    code: str = ""
    status: int = 0
    message: str = "a fault of the rig"
    times: int = 1
    after: bool = False
    delay_s: float = 0.0
    drop: bool = False
    hold: str = ""
    held: int = 0
    discarded: bool = False
    released: threading.Event = field(default_factory=threading.Event, repr=False)

    def __post_init__(self) -> None:
        if not self.status:
            self.status = 503 if self.code == "RequestLimitExceeded" else 500

    def begin(self) -> None:
        """Before the effect."""
        time.sleep(self.delay_s)
        self._wait("before")
        if self.discarded:
            raise Dropped

    def end(self) -> None:
        """After the effect, before the answer."""
        self._wait("after")
        if self.drop:
            raise Dropped

    def _wait(self, when: str) -> None:
        if self.hold == when:
            self.held += 1
            self.released.wait(HOLD_S)


class Faults:
    """The faults that wait for their calls. The caller holds the server's lock here, but not in a `Fault`."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def clear(self) -> None:
        self.release(discard=True)
        self._faults.clear()

    def release(self, discard: bool = False) -> None:
        """Let held calls go on, or end them without effect."""
        for fault in self._faults:
            fault.discarded = discard
            fault.released.set()

    def held(self) -> int:
        """How many calls were held so far by the present faults."""
        return sum(fault.held for fault in self._faults)

    def next(self, action: str) -> Fault:
        """The fault for this call; one that does nothing if none waits."""
        for fault in self._faults:
            if fault.action in (action, "*") and fault.times > 0:
                fault.times -= 1
                return fault
        return Fault(action)
