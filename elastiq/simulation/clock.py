"""Clocks that move when the event queue waits, and that queue."""

from __future__ import annotations

import time
from typing import Callable, Optional, Protocol

from elastiq.events import Clock, EventQueue

# Any start would do; one that is neither 0 nor a wall time shows code that mixes the two up.
START_MONOTONIC_S = 1000.0
START_WALL_S = 1_700_000_000.0


class VirtualClock:
    """A clock whose `wait` takes no time.

    It never reads the real time, so two runs from one seed see the same times.
    """

    def __init__(self, wall_s: float = START_WALL_S) -> None:
        """``wall_s``: what wall clocks show at the start."""
        self._now_s = START_MONOTONIC_S
        self._start_wall_s, self._error_s = wall_s, 0.0

    def monotonic(self) -> float:
        return self._now_s

    def time(self) -> float:
        return self.true_time() + self._error_s

    def true_time(self) -> float:
        """What the clocks of the cloud and of the workers show."""
        return self._now_s - START_MONOTONIC_S + self._start_wall_s

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass. The event queue calls it."""
        self._now_s += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the head node's wall clock forward, or back: an administrator did, or NTP."""
        self._error_s += seconds

    @property
    def elapsed_s(self) -> float:
        return self._now_s - START_MONOTONIC_S


class MovedClock(Clock, Protocol):
    """A clock that only moves when it is told to."""

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass."""


class VirtualQueue(EventQueue):
    """An event queue whose waiting moves the clock. It runs until it is stopped, or nothing is left to be done."""

    def __init__(self, clock: MovedClock) -> None:
        super().__init__(clock)
        self._move = clock.wait

    def _wait(self, pause_s: float) -> None:
        if self._timers:
            self._move(pause_s)
        else:
            self._stopped = True


class PacedClock(VirtualClock):
    """A virtual clock that a person can watch: ``speed`` simulated seconds in one real second.

    ``frame`` is called about ``frames_per_s`` times in a real second while it waits. The pace is kept
    against the start, so that time spent elsewhere is made up for.
    """

    def __init__(self, speed: float, frame: Optional[Callable[[], None]] = None, frames_per_s: float = 10.0) -> None:
        super().__init__()
        self._speed = speed
        self._frame = frame
        self._frame_s = 1.0 / frames_per_s
        self._started = time.monotonic()
        self._next_frame = self._started

    def wait(self, seconds: float) -> None:
        end_s = self._now_s + seconds
        while True:
            real_s = time.monotonic() - self._started
            self._now_s = min(end_s, max(self._now_s, START_MONOTONIC_S + real_s * self._speed))
            self._draw()
            if self._now_s >= end_s:
                return
            time.sleep(min(self._frame_s, (end_s - self._now_s) / self._speed))

    def _draw(self) -> None:
        if self._frame is not None and time.monotonic() >= self._next_frame:
            self._next_frame = time.monotonic() + self._frame_s
            self._frame()
