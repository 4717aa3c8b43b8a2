"""A simulated cluster with the real daemon on it, on one event queue."""

from __future__ import annotations

import itertools
import random
from functools import partial
from typing import Callable, Mapping, Optional

from elastiq.core import Core
from elastiq.daemon import Daemon
from elastiq.events import Action, EventQueue, Timer
from elastiq.interfaces import Owner, Resources
from elastiq.settings import Settings
from elastiq.simulation import sure
from elastiq.simulation.batch import SimulatedBatch
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.cloud import SimulatedCloud
from elastiq.simulation.executor import Latency, VirtualExecutor
from elastiq.simulation.faults import Faults
from elastiq.simulation.forgetful import ForgetfulStore
from elastiq.simulation.quiet import QuietExecutor
from elastiq.simulation.world import Image, World
from elastiq.store import Store

HEAD = "5e0d" * 16


class Lifetime(EventQueue):
    """One daemon's view of the queue that it shares with the world: its events end when it is killed."""

    def __init__(self, shared: EventQueue) -> None:
        super().__init__(shared.clock, shared.longest_pause_s)
        self._shared = shared
        self.alive = True

    def at(self, when: float, action: Action) -> Timer:
        return self._shared.at(when, lambda: action() if self.alive else None)

    def post(self, action: Action) -> None:
        self._shared.post(lambda: action() if self.alive else None)

    def stop(self) -> None:
        self._shared.stop()

    def run(self) -> None:
        self._shared.run()


class Cluster:
    """The world, and one daemon after another on it.

    ``store_path`` outlives a daemon; in memory it does not. If ``forgetful``, nothing is written: that saves time.
    ``watches``: the batch system tells when its queue has changed.
    """

    def __init__(
        self,
        settings: Settings,
        flavours: Mapping[str, Resources],
        rng: random.Random,
        *,
        clock: Optional[VirtualClock] = None,
        image: Optional[Image] = None,
        faults: Optional[Faults] = None,
        store_path: str = ":memory:",
        forgetful: bool = False,
        watches: bool = False,
        latency: Latency = Latency(),  # noqa: B008 - immutable
        leave_out: bool = False,
        daemon_of: Optional[Callable[[Core], Daemon]] = None,
    ) -> None:
        self.settings = settings
        self.clock = clock or VirtualClock()
        self.events = VirtualQueue(self.clock)
        self.world = World(self.events, self.clock, rng, flavours, image or Image(), faults=faults or Faults())
        self.owner = Owner(settings.cluster_name, HEAD, frozenset({"10.9.9.9"}), "i-head")
        self.daemon: Optional[Daemon] = None
        self._rng = rng
        self._launches = itertools.count(1)
        self._latency = latency
        self._leave_out = leave_out
        self._daemon_of = daemon_of
        self._store_path, self._forgetful, self._watches = store_path, forgetful, watches
        self._store: Optional[Store] = None
        self._executor: Optional[VirtualExecutor] = None
        self._lifetime: Optional[Lifetime] = None

    def start_daemon(self) -> Daemon:
        """Build a daemon, and let it begin at the present time."""
        events = self._set_up()
        assert self._executor is not None and self._store is not None
        core = Core(
            self.settings,
            batch=self._batch(),
            clouds=self._clouds(),
            owner=self.owner,
            events=events,
            executor=self._executor,
            store=self._store,
            new_id=lambda: f"launch{next(self._launches):05}",
            jitter=self._rng,
        )
        daemon_of = self._daemon_of or (partial(Daemon, plans=sure.plan) if self._leave_out else Daemon)
        self.daemon = daemon_of(core)
        if isinstance(self._executor, QuietExecutor):
            self._executor.watch(self.world, self.daemon)
        if self._watches and isinstance(core.batch, SimulatedBatch):
            core.batch.watch(self.daemon.wake)
        self.daemon.start()
        return self.daemon

    def _set_up(self) -> EventQueue:
        """The queue, the executor and the store of the next daemon."""
        self._lifetime = Lifetime(self.events)
        # On the shared queue: what a killed daemon had sent still arrives.
        kind = QuietExecutor if self._leave_out else VirtualExecutor
        self._executor = kind(self.events, self._rng, self._latency, self.world.take_answer_delay_s)
        self._store = ForgetfulStore() if self._forgetful else Store(self._store_path)
        return self._lifetime

    def _batch(self) -> SimulatedBatch:
        return SimulatedBatch(self.world, self.owner)

    def _clouds(self) -> dict[str, SimulatedCloud]:
        return {site: SimulatedCloud(self.world, self.owner, site) for site in self.settings.sites}

    def kill_daemon(self) -> None:
        """As kill -9: it does nothing more; what it sent may still take effect, and nobody hears of it."""
        if self._lifetime and self._executor and self._store:
            self._lifetime.alive = False
            self._executor.close(0.0)
            self._store.close()
        self.daemon = None

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        self.events.after(seconds, self.events.stop)
        self.events.run()

    def run_until(self, condition: Callable[[], bool], within_s: float, every_s: float = 1.0) -> bool:
        """Let time pass until a condition holds; False if it did not within that time."""
        end_s = self.clock.monotonic() + within_s
        while not condition():
            if self.clock.monotonic() >= end_s:
                return False
            self.run(every_s)
        return True
