"""The timed event queue: one thread decides, everything else posts to it.

Built on the standard library's `sched`, whose delay function waits on an inbox here, so that a
result from another thread wakes the loop. In the simulation the same queue runs on a virtual clock.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import sched
import time
from dataclasses import dataclass
from typing import Callable, Optional, Protocol

Action = Callable[[], object]


class Clock(Protocol):
    """Where time comes from; the simulation brings its own."""

    def monotonic(self) -> float:
        """Seconds for timers; never steps."""

    def time(self) -> float:
        """Seconds since the epoch: for people, and for ages that must survive a restart."""


class RealClock:
    """The machine's."""

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)


@dataclass(frozen=True)
class Timer:
    """A scheduled action."""

    scheduler: sched.scheduler
    event: sched.Event

    def cancel(self) -> None:
        """Do not run it; harmless when it has run already, or was cancelled before."""
        with contextlib.suppress(ValueError):
            self.scheduler.cancel(self.event)


class _Stopped(Exception):
    pass


class EventQueue:
    """Runs actions at their time, one after another, on the thread that called `run`.

    ``wait(seconds)`` is given in virtual time only: it moves the virtual clock. Without it the queue
    waits on its inbox, at most ``longest_pause_s`` at a time.
    """

    def __init__(
        self, clock: Clock, wait: Optional[Callable[[float], None]] = None, longest_pause_s: float = 5.0
    ) -> None:
        self.clock = clock
        self.longest_pause_s = longest_pause_s
        self._virtual_wait = wait
        self._inbox: queue.SimpleQueue[Action] = queue.SimpleQueue()
        self._scheduler = sched.scheduler(clock.monotonic, self._delay)
        self._order = itertools.count()
        self._stopped = False

    def at(self, when: float, action: Action) -> Timer:
        """Run an action at a monotonic time. Only from the queue's own thread."""
        # The order as priority: until Python 3.10 `sched` takes events of one time and priority for equal,
        # runs them in any order, and cancels the wrong one.
        return Timer(self._scheduler, self._scheduler.enterabs(when, next(self._order), action))

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
        """Run actions until `stop`, which may have come before; in virtual time also until none is left."""
        try:
            self._delay(0.0)
            while True:
                self._scheduler.run()
                if self._virtual_wait is not None and self._inbox.empty():
                    return
                self._delay(self.longest_pause_s)
        except _Stopped:
            self._stopped = False

    def _delay(self, seconds: float) -> None:
        """`sched`'s delay function. What was posted ends the wait: it is scheduled as due now, in its order."""
        wait_s = 0.0 if self._virtual_wait else min(seconds, self.longest_pause_s)
        came = False
        with contextlib.suppress(queue.Empty):
            while True:
                self.after(0.0, self._receive(wait_s))
                came, wait_s = True, 0.0
        if self._stopped:
            raise _Stopped
        if self._virtual_wait and not came and seconds > 0:
            self._virtual_wait(seconds)

    def _receive(self, wait_s: float) -> Action:
        """The next of the inbox; raises `queue.Empty` after ``wait_s``.

        First without waiting: up to Python 3.10 a wait on a queue that was just emptied can be for ever, since what
        is left of a time-out that passed is negative there; a try that found nothing makes the wait safe.
        """
        try:
            return self._inbox.get_nowait()
        except queue.Empty:
            if not wait_s:
                raise
        return self._inbox.get(timeout=wait_s)
