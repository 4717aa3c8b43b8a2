"""The timed event queue: one thread decides, everything else posts to it.

A heap of timers, and an inbox on which the loop waits, so that a result from another thread wakes it.
In the simulation the same queue runs on a virtual clock (`elastiq.simulation.clock.VirtualQueue`).
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import queue
import time
from functools import partial
from typing import Callable, Optional, Protocol

Action = Callable[[], object]


class Clock(Protocol):
    """Where time comes from; the simulation brings its own."""

    def monotonic(self) -> float:
        """Seconds for timers; never steps."""

    def time(self) -> float:
        """Seconds since the epoch: for people, and for ages that must survive a restart."""


class RealClock:
    """The machine's. Time in which it was suspended passes too, so that what was read before is old."""

    # Linux alone tells the two apart: its CLOCK_MONOTONIC stands still meanwhile (clock_gettime(2)).
    monotonic = staticmethod(partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)))
    time = staticmethod(time.time)


class Timer:
    """A scheduled action."""

    __slots__ = ("action", "when")

    def __init__(self, when: float, action: Action) -> None:
        self.when = when  # monotonic
        self.action: Optional[Action] = action

    def cancel(self) -> None:
        """Do not run it; harmless when it has run already, or was cancelled before."""
        self.action = None


class EventQueue:
    """Runs actions at their time, one after another, on the thread that called `run`.

    Meanwhile it waits on its inbox, at most ``longest_pause_s`` at a time.
    """

    def __init__(self, clock: Clock, longest_pause_s: float = 5.0) -> None:
        self.clock, self.longest_pause_s = clock, longest_pause_s
        self._inbox: queue.SimpleQueue[Action] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()  # actions of one time run in the order in which they were asked for
        self._stopped = False

    def at(self, when: float, action: Action) -> Timer:
        """Run an action at a monotonic time. Only from the queue's own thread."""
        timer = Timer(when, action)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def after(self, delay_s: float, action: Action) -> Timer:
        """Run an action in so many seconds. Only from the queue's own thread."""
        return self.at(self.clock.monotonic() + max(0.0, delay_s), action)

    def post(self, action: Action) -> None:
        """Run an action as soon as possible. From any thread."""
        self._inbox.put(action)

    def stop(self) -> None:
        """Let `run` return after the present action. From any thread, and from a signal handler."""
        self._stopped = True
        self._inbox.put(lambda: None)  # wakes it

    def run(self) -> None:
        """Run actions until `stop`, which may have come before."""
        timers = self._timers
        while True:
            while not self._inbox.empty():  # what was posted is due now, in its order
                self.after(0.0, self._inbox.get())
            if self._stopped:
                self._stopped = False
                return
            while timers and timers[0][2].action is None:
                heapq.heappop(timers)
            pause_s = timers[0][0] - self.clock.monotonic() if timers else self.longest_pause_s
            if timers and pause_s <= 0:
                timer = heapq.heappop(timers)[2]
                action, timer.action = timer.action, None
                if action is not None:
                    action()
            else:
                self._wait(pause_s)

    def _wait(self, pause_s: float) -> None:
        """Wait for the inbox, or for the next timer.

        First without waiting: up to Python 3.10 a wait on a queue that was just emptied can be for ever, since what
        is left of a time-out that passed is negative there; a try that found nothing makes the wait safe.
        """
        with contextlib.suppress(queue.Empty):
            self.after(0.0, self._inbox.get_nowait())
            return
        with contextlib.suppress(queue.Empty):
            self.after(0.0, self._inbox.get(timeout=min(pause_s, self.longest_pause_s)))
