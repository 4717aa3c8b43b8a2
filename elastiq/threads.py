"""The executor of the real daemon: a few daemon threads for each source."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Optional, TypeVar

from elastiq.events import EventQueue, Timer
from elastiq.executor import DeadlineError, Done, Outcome, Still, UnsentError, always

T = TypeVar("T")

ACTS_AT_ONCE = 8
QUEUED_AT_MOST_S = 20.0  # then what an act was decided upon is too old
# Threads that a hung call may hold for good; past that the source is asked no more until one returns.
ABANDONED_AT_MOST = 8


@dataclass(eq=False)
class Call:
    """One call and where it queues: a lane is a source's reads or its acts."""

    lane: str
    key: str
    work: Callable[[], Any]
    done: Callable[[Outcome[Any]], None]
    deadline_s: float
    began: float = 0.0
    still: Still = always
    timer: Timer = field(init=False)
    thread: threading.Thread = field(init=False)

    def result(self) -> tuple[Any, Optional[BaseException]]:
        """Make it: what it returned, or the error that it raised."""
        try:
            return self.work(), None
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the caller's, in the Outcome; Ctrl-C is not
            return None, error


class ThreadExecutor:
    """See `elastiq.calling.Executor`. Every method but `close` is for the decision thread only."""

    def __init__(self, events: EventQueue) -> None:
        self._events = events
        self._waiting: defaultdict[str, list[Call]] = defaultdict(list)
        self._running: defaultdict[str, list[Call]] = defaultdict(list)
        self._abandoned: Counter[str] = Counter()
        self._closed = False

    def read(self, source: str, call: Callable[[], T], done: Callable[[Outcome[T]], None], deadline_s: float) -> bool:
        lane = f"read {source}"
        if self._closed or self._running[lane] or self._abandoned[lane] >= ABANDONED_AT_MOST:
            return False
        self._start(Call(lane, "", call, done, deadline_s))
        return True

    def act(
        self, source: str, node: str, call: Callable[[], T], done: Done[T], deadline_s: float, still: Still = always
    ) -> None:
        lane = f"act {source}"
        if not self._closed:
            queued = Call(lane, node, call, done, deadline_s, still=still)
            self._waiting[lane].append(queued)
            self._pump(lane)
            if queued in self._waiting[lane]:
                why = f"others of its source have not been answered for {QUEUED_AT_MOST_S:g} s"
                queued.timer = self._events.after(QUEUED_AT_MOST_S, partial(self._give_back, queued, why))

    def _give_back(self, call: Call, why: str) -> None:
        if call in self._waiting[call.lane]:
            self._waiting[call.lane].remove(call)
            now = self._events.clock.monotonic()
            call.done(Outcome(now, now, None, UnsentError(f"not sent: {why}")))

    def close(self, wait_s: float) -> None:
        """Take no more calls and drop those that were not started; wait for the running ones, whose results
        nobody hears any more."""
        self._closed = True
        self._waiting.clear()
        end = time.monotonic() + wait_s
        for call in (call for calls in self._running.values() for call in calls):
            if call.thread.is_alive():
                call.thread.join(max(0.0, end - time.monotonic()))

    def _pump(self, lane: str) -> None:
        """Start what may start: in order for each node, so many at once for the source."""
        running = self._running[lane]
        busy = {call.key for call in running}
        for call in list(self._waiting[lane]):
            if len(running) >= ACTS_AT_ONCE or self._abandoned[lane] >= ABANDONED_AT_MOST:
                return
            if not call.still():
                self._events.post(partial(self._give_back, call, "what it was decided upon is not so any more"))
            elif call.key not in busy:
                busy.add(call.key)
                self._waiting[lane].remove(call)
                self._start(call)

    def _start(self, call: Call) -> None:
        self._running[call.lane].append(call)
        call.began = self._events.clock.monotonic()
        call.timer = self._events.after(call.deadline_s, partial(self._give_up, call))
        self._send(call)

    def _send(self, call: Call) -> None:
        """Make the call elsewhere, and have `_finish` run here with its result."""

        def work() -> None:
            value, error = call.result()
            self._events.post(lambda: self._finish(call, value, error))

        call.thread = threading.Thread(target=work, name=f"elastiq {call.lane}", daemon=True)
        try:
            call.thread.start()
        except RuntimeError as error:  # the system has no thread left: nothing was called
            self._events.post(partial(self._finish, call, None, error))

    def _give_up(self, call: Call) -> None:
        if not self._closed:
            self._abandoned[call.lane] += 1
            self._finish(call, None, DeadlineError(f"no answer within {call.deadline_s:g} s"))

    def _finish(self, call: Call, value: Any, error: Optional[BaseException]) -> None:
        if self._closed:
            return
        call.timer.cancel()
        try:
            if call in self._running[call.lane]:
                self._running[call.lane].remove(call)
                call.done(Outcome(call.began, self._events.clock.monotonic(), value, error))
            else:
                self._abandoned[call.lane] -= 1  # too late: it was reported as unknown
        finally:
            self._pump(call.lane)
