"""The executor of the real daemon: a few daemon threads for each source."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Callable, TypeVar

from elastiq.events import EventQueue
from elastiq.executor import DeadlineError, Outcome

T = TypeVar("T")

ACTS_AT_ONCE = 8
# Threads that a hung call may hold for good; past that the source is asked no more until one returns.
ABANDONED_AT_MOST = 8


class Call:
    """One call and where it queues: a lane is a source's reads or its acts."""

    def __init__(
        self,
        source: str,
        key: str,
        call: Callable[[], Any],
        done: Callable[[Outcome[Any]], None],
        deadline_s: float,
    ) -> None:
        self.source, self.key, self.call, self.done, self.deadline_s = source, key, call, done, deadline_s
        self.began = 0.0
        self.reported = False


class ThreadExecutor:
    """See `elastiq.executor.Executor`. Every method but `close` is for the decision thread only."""

    def __init__(self, events: EventQueue) -> None:
        self._events = events
        self._waiting: dict[str, deque[Call]] = {}
        self._running: dict[str, list[Call]] = {}
        self._abandoned: dict[str, int] = {}
        self._closed = False

    def read(
        self, source: str, call: Callable[[], T], done: Callable[[Outcome[T]], None], deadline_s: float
    ) -> bool:
        lane = f"read {source}"
        if self._closed or self._running.get(lane) or self._abandoned.get(lane, 0) >= ABANDONED_AT_MOST:
            return False
        self._start(Call(lane, "", call, done, deadline_s))
        return True

    def act(
        self,
        source: str,
        node: str,
        call: Callable[[], T],
        done: Callable[[Outcome[T]], None],
        deadline_s: float,
    ) -> None:
        if self._closed:
            return
        lane = f"act {source}"
        self._waiting.setdefault(lane, deque()).append(Call(lane, node, call, done, deadline_s))
        self._pump(lane)

    def in_flight(self) -> int:
        return sum(len(calls) for calls in self._running.values())

    def close(self, wait_s: float) -> None:
        """Take no more calls and drop those that were not started; wait for the running ones.

        Their results are still posted, but only an event queue that runs would deliver them.
        """
        self._closed = True
        self._waiting.clear()
        end = time.monotonic() + wait_s
        while any(not call.reported for calls in self._running.values() for call in calls):
            if time.monotonic() >= end:
                return
            time.sleep(0.02)

    def _pump(self, lane: str) -> None:
        """Start what may start: in order for each node, so many at once for the source."""
        running = self._running.setdefault(lane, [])
        busy = {call.key for call in running}
        waiting = self._waiting.get(lane, deque())
        later: deque[Call] = deque()
        while waiting and len(running) < ACTS_AT_ONCE and self._abandoned.get(lane, 0) < ABANDONED_AT_MOST:
            call = waiting.popleft()
            if call.key in busy:
                later.append(call)
            else:
                busy.add(call.key)
                self._start(call)
        waiting.extendleft(reversed(later))

    def _start(self, call: Call) -> None:
        self._running.setdefault(call.source, []).append(call)
        call.began = self._events.clock.monotonic()
        timer = self._events.after(call.deadline_s, lambda: self._give_up(call))

        def finish(value: Any, error: Any) -> None:
            timer.cancel()
            self._finish(call, value, error)

        def work() -> None:
            value, error = None, None
            try:
                value = call.call()
            except Exception as exc:  # noqa: BLE001 - it belongs to the caller and travels in the Outcome
                error = exc
            call.reported = True
            self._events.post(lambda: finish(value, error))

        threading.Thread(target=work, name=f"elastiq {call.source}", daemon=True).start()

    def _give_up(self, call: Call) -> None:
        if call not in self._running.get(call.source, []):
            return
        self._running[call.source].remove(call)
        self._abandoned[call.source] = self._abandoned.get(call.source, 0) + 1
        error = DeadlineError(f"no answer within {call.deadline_s:g} s")
        try:
            call.done(Outcome(call.began, self._events.clock.monotonic(), None, error))
        finally:
            self._pump(call.source)

    def _finish(self, call: Call, value: Any, error: Any) -> None:
        running = self._running.get(call.source, [])
        if call not in running:
            self._abandoned[call.source] -= 1  # too late: it was reported as unknown
            self._pump(call.source)
            return
        running.remove(call)
        try:
            call.done(Outcome(call.began, self._events.clock.monotonic(), value, error))
        finally:
            self._pump(call.source)
