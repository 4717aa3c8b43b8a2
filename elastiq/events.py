"""The timed event queue: one thread decides, everything else posts to it.

Built on the standard library's `sched`, whose delay function waits on an inbox here, so that a
result from another thread wakes the loop. In the simulation the same queue runs on a virtual clock.
"""

from __future__ import annotations

import itertools
import queue
import sched
import time
from typing import Callable, Optional, Protocol

Action = Callable[[], object]


class Clock(Protocol):
    """Where time comes from; the simulation brings its own."""

    def monotonic(self) -> float:
        """Seconds for timers; never steps."""
        ...

    def time(self) -> float:
        """Seconds since the epoch: for people, and for ages that must survive a restart."""
        ...


class RealClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()


class Timer:
    """A scheduled action; ``cancel`` is harmless when it has run already."""

    def __init__(self, scheduler: sched.scheduler) -> None:
        self._scheduler = scheduler
        self.event: Optional[sched.Event] = None

    def cancel(self) -> None:
        if self.event is not None:
            try:
                self._scheduler.cancel(self.event)
            except ValueError:
                pass  # it ran, or was cancelled before
            self.event = None


class _Stopped(Exception):
    pass


class EventQueue:
    """Runs actions at their time, one after another, on the thread that called `run`.

    ``wait(seconds)`` is given in virtual time only: it moves the virtual clock. Without it the queue
    waits on its inbox, at most ``longest_pause_s`` at a time.
    """

    def __init__(
        self,
        clock: Clock,
        wait: Optional[Callable[[float], None]] = None,
        longest_pause_s: float = 5.0,
    ) -> None:
        self.clock = clock
        self.longest_pause_s = longest_pause_s
        self._virtual_wait = wait
        self._inbox: queue.SimpleQueue[Optional[Action]] = queue.SimpleQueue()
        self._scheduler = sched.scheduler(clock.monotonic, self._delay)
        self._order = itertools.count()
        self._stopped = False

    def at(self, when: float, action: Action, name: str = "") -> Timer:
        """Run an action at a monotonic time. Only from the queue's own thread."""
        timer = Timer(self._scheduler)

        def run() -> None:
            timer.event = None
            action()

        # The order as priority: until Python 3.10 `sched` takes events of one time and priority for equal,
        # runs them in any order, and cancels the wrong one.
        timer.event = self._scheduler.enterabs(when, next(self._order), run)
        return timer

    def after(self, delay_s: float, action: Action, name: str = "") -> Timer:
        """Run an action in so many seconds. Only from the queue's own thread."""
        return self.at(self.clock.monotonic() + max(0.0, delay_s), action, name)

    def post(self, action: Action) -> None:
        """Run an action as soon as possible. From any thread."""
        self._inbox.put(action)

    def stop(self) -> None:
        """Let `run` return after the present action. From any thread, and from a signal handler."""
        self._stopped = True
        self._inbox.put(None)

    def run(self) -> None:
        """Run actions until `stop`, which may have come before; in virtual time also until none is left."""
        try:
            if self._stopped:
                raise _Stopped
            while True:
                self._scheduler.run()
                if self._virtual_wait is not None and self._inbox.empty():
                    return
                self._delay(self.longest_pause_s)
        except _Stopped:
            self._stopped = False

    def _delay(self, seconds: float) -> None:
        """`sched`'s delay function: returns early when something was posted."""
        if self._stopped:
            raise _Stopped
        if self._virtual_wait is not None:
            if not self._take(0.0) and seconds > 0:
                self._virtual_wait(seconds)
        else:
            self._take(min(seconds, self.longest_pause_s))
        if self._stopped:
            raise _Stopped

    def _take(self, wait_s: float) -> bool:
        """Move what was posted into the schedule, as due now and in the order of posting."""
        taken = False
        try:
            action = self._inbox.get(timeout=wait_s) if wait_s > 0 else self._inbox.get_nowait()
            while True:
                if action is not None:
                    self.after(0.0, action)
                    taken = True
                action = self._inbox.get_nowait()
        except queue.Empty:
            return taken
