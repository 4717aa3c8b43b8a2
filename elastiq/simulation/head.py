"""The head node under the daemon: it dies, sleeps, comes back, and its disk fails."""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
from typing import Callable, Iterator

from elastiq.events import Action, EventQueue, Timer
from elastiq.simulation.clock import VirtualClock
from elastiq.simulation.executor import Latency, VirtualExecutor
from elastiq.store import Store, StoreError
from elastiq.threads import Call


class Killed(BaseException):
    """The daemon ends here, as by kill -9. Nothing of it may catch this."""


class HeadClock:
    """The head node's clocks. Its monotonic one may stand still while the machine sleeps, as Linux's does."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.lost_s = 0.0  # monotonic time that was slept away

    def monotonic(self) -> float:
        return self._clock.monotonic() - self.lost_s

    def time(self) -> float:
        return self._clock.time()


class HeadEvents(EventQueue):
    """One daemon's events, on the queue that it shares with the world: none happens while the head node sleeps,
    or after the daemon was killed."""

    def __init__(self, shared: EventQueue, clock: HeadClock) -> None:
        super().__init__(clock, shared.longest_pause_s)
        self.shared, self.clocks = shared, clock
        self.alive, self.asleep = True, False
        self.after_event: Callable[[], object] = lambda: None
        self._held: list[Action] = []

    def at(self, when: float, action: Action) -> Timer:
        return _HeadTimer(self, when, action)

    def post(self, action: Action) -> None:
        self.shared.post(lambda: self.receive(action))

    def receive(self, action: Action) -> None:
        """Something arrives at the head node now, or is due there."""
        if self.asleep:
            self._held.append(lambda: self.receive(action))
        elif self.alive:
            action()
            self.after_event()

    def wake(self) -> None:
        """What came due while it slept happens now, in its order."""
        self.asleep = False
        held, self._held = self._held, []
        for action in held:
            self.shared.after(0.0, action)

    def stop(self) -> None:
        self.alive = False

    def run(self) -> None:
        self.shared.run()


class _HeadTimer(Timer):
    """On the head node's clock, which may stand still."""

    __slots__ = ("_head", "_timer")

    def __init__(self, head: HeadEvents, when: float, action: Action) -> None:
        super().__init__(when, action)
        self._head = head
        self._schedule()

    def _schedule(self) -> None:
        self._timer = self._head.shared.at(self.when + self._head.clocks.lost_s, self._due)

    def cancel(self) -> None:
        super().cancel()
        self._timer.cancel()

    def _due(self) -> None:
        self._head.receive(self._run)

    def _run(self) -> None:
        action = self.action
        if action is None:  # cancelled by another event that was held
            return
        if self._head.clocks.monotonic() < self.when - 1e-6:
            self._schedule()  # its clock stood still meanwhile
            return
        self.action = None
        action()


class HeadExecutor(VirtualExecutor):
    """What a killed daemon had sent takes effect all the same, unless ``lost``; nobody hears the answer."""

    def __init__(
        self, head: HeadEvents, rng: random.Random, latency: Latency, answer_delay_s: Callable[[], float]
    ) -> None:
        super().__init__(head, rng, latency, answer_delay_s)
        self._head, self.lost = head, False

    def _send(self, call: Call) -> None:
        wire = self._head.shared

        def take_effect() -> None:
            if self.lost:
                return
            value, error = call.result()
            delay_s = self._latency.draw(self._rng) + self._answer_delay_s()
            if math.isfinite(delay_s):
                wire.after(delay_s, lambda: self._head.receive(lambda: self._finish(call, value, error)))

        wire.after(self._latency.draw(self._rng), take_effect)


class HeadStore(Store):
    """The store on a disk that may fail. ``operation`` is told of every write before and after it."""

    def __init__(self, path: str, operation: Callable[[str], None], trouble: Callable[[], str]) -> None:
        self._operation, self._trouble = operation, trouble
        if trouble() == "readonly":  # as SQLite says when it cannot write its -shm file
            self._broken(path)
        super().__init__(path)

    def _broken(self, path: str) -> None:
        raise StoreError(f"{path}: attempt to write a readonly database: check the state directory's rights")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        self._operation("store write begins")
        with super().writing() as db:
            if trouble := self._trouble():
                full = trouble == "full"
                raise sqlite3.OperationalError(
                    "database or disk is full" if full else "attempt to write a readonly database"
                )
            yield db
        self._operation("store write done")
