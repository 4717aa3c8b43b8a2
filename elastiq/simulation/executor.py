"""The executor in virtual time: the order of calls is the real executor's, only the threads are not.

A call is three events: it begins, it takes effect (the request arrived there), its answer arrives.
Between them other calls, the world and the daemon go on, so that the real races happen.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import partial
from typing import Callable

from elastiq.events import EventQueue
from elastiq.threads import Call, ThreadExecutor


@dataclass(frozen=True)
class Latency:
    """The range in seconds that each half of a call takes, drawn anew for each."""

    shortest_s: float = 0.02
    longest_s: float = 0.5

    def draw(self, rng: random.Random) -> float:
        if self.shortest_s == self.longest_s:
            return self.shortest_s
        # `random` alone is the same in every version of Python; `uniform` and others need not be.
        return self.shortest_s + (self.longest_s - self.shortest_s) * rng.random()


class VirtualExecutor(ThreadExecutor):
    """``answer_delay_s`` is asked right after a call took effect for how much later its answer arrives."""

    def __init__(
        self,
        events: EventQueue,
        rng: random.Random,
        latency: Latency = Latency(),
        answer_delay_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        super().__init__(events)
        self._rng = rng
        self._latency = latency
        self._answer_delay_s = answer_delay_s
        self.sent = 0

    def close(self, wait_s: float) -> None:
        """As the real one's when its loop has ended: what is in flight may still take effect, unheard."""
        self._closed = True
        self._waiting.clear()

    def _send(self, call: Call) -> None:
        self.sent += 1

        self._events.after(self._latency.draw(self._rng), partial(self._take_effect, call))

    def _take_effect(self, call: Call) -> None:
        value, error = call.result()
        delay_s = self._latency.draw(self._rng) + self._answer_delay_s()
        if math.isfinite(delay_s):
            self._events.after(delay_s, lambda: self._finish(call, value, error))
