"""Where a scenario is played: the cluster with the real daemon, and what may befall both."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from functools import partial
from typing import Callable, Optional, Sequence, TypeVar

from elastiq.core import Core
from elastiq.daemon import Daemon
from elastiq.events import EventQueue
from elastiq.interfaces import CloudCapabilities
from elastiq.reload import take_over
from elastiq.settings import Settings
from elastiq.simulation.batch import SimulatedBatch
from elastiq.simulation.chance import TimedDice
from elastiq.simulation.chaos import Chaos
from elastiq.simulation.clock import VirtualClock
from elastiq.simulation.cloud import SimulatedCloud
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.faults import Call
from elastiq.simulation.head import HeadClock, HeadEvents, HeadExecutor, HeadStore, Killed
from elastiq.simulation.model import Act, Machine, SimWorker
from elastiq.simulation.orders import Orders
from elastiq.simulation.scenario import Happening, Scenario
from elastiq.store import StoreError

T = TypeVar("T")

STORE = "state.sqlite"
RESTART_S = 30.0  # after a start that failed


class Stage(Cluster):
    """A scenario's cluster. ``directory`` is empty, and is the caller's to remove.

    ``acts`` is the journal of all that took effect. For a checker: ``world.on_change`` and ``world.on_act`` are
    called when something is changed there, ``on_event`` after each event of the daemon, ``on_happening`` before
    each happening, ``on_life`` when the daemon started (it is there), or is gone (None).
    """

    def __init__(self, scenario: Scenario, directory: str) -> None:
        clock = VirtualClock()
        self.chaos = Chaos()
        super().__init__(
            scenario.settings,
            scenario.flavours,
            TimedDice(clock, scenario.seed),
            clock=clock,
            image=dataclasses.replace(scenario.image),
            faults=self.chaos,
            store_path=os.path.join(directory, STORE),
            latency=scenario.latency,
        )
        self.scenario = scenario
        world = self.world
        world.lease_s, world.negotiate_every_s = scenario.lease_s, scenario.negotiate_every_s
        world.limits, world.catalogue = dict(scenario.limits), scenario.catalogue
        world.registers = scenario.registers
        world.on_birth = self.chaos.born
        self.acts: list[Act] = []
        self.orders = Orders()
        world.on_act = self.acts.append
        self.chaos.before, self.chaos.after = partial(self._called, "begins"), partial(self._called, "done")
        self.head_clock = HeadClock(self.clock)
        self.calm = False
        self.disk_trouble: dict[str, str] = {}  # by the key of what causes it: "full" or "readonly"
        self.operations: Counter[str] = Counter()
        self.lives = self.kills = self.failed_starts = 0
        self.on_event: Callable[[], object] = lambda: None
        self.on_happening: Callable[[Happening], object] = lambda happening: None
        self.on_life: Callable[[Optional[Daemon]], object] = lambda daemon: None
        self._armed: Optional[_Kill] = None
        self._head: Optional[HeadEvents] = None
        self._wakes_at = 0.0  # monotonic, of the world's clock
        self.at_end: list[Callable[[], object]] = []  # what outlives the stage unless it is called

    # ------------------------------------------------------------------ the play

    def begin(self) -> None:
        """Let the daemon start now, and all happenings come at their time."""
        from elastiq.simulation import happenings

        start = self.clock.monotonic()
        for happening in self.scenario.happenings:
            self.events.at(start + happening.at_s, partial(happenings.apply, self, happening))
        self.events.at(start + self.scenario.calm_at_s, self.calm_down)
        self.events.after(0.0, self.start_again)

    def calm_down(self) -> None:
        """From here on nothing acts from outside; what is broken is mended where a person would mend it."""
        self.calm = True
        self._armed = None
        self.chaos.calm()
        self.disk_trouble.clear()
        self.world.mend(self.scenario.image, self.scenario.limits)

    def close(self) -> None:
        """After the play."""
        self.kill_daemon()
        for undo in self.at_end:
            undo()

    def run(self, seconds: float) -> None:
        stop = self.events.after(seconds, self.events.stop)
        try:
            while True:
                try:
                    return self.events.run()
                except Killed:
                    self._die()
        finally:
            stop.cancel()

    # ------------------------------------------------------------------ the daemon's lives

    def _set_up(self) -> EventQueue:
        self._head = HeadEvents(self.events, self.head_clock)
        self._head.after_event = self._told
        self._executor = HeadExecutor(self._head, self._rng, self._latency, self.world.take_answer_delay_s)
        self._store = HeadStore(self._store_path, self.operation, self._trouble)
        return self._head

    def _batch(self) -> SimulatedBatch:
        batch = super()._batch()
        batch.can_drain = self.scenario.can_drain
        return batch

    def _clouds(self) -> dict[str, SimulatedCloud]:
        clouds = super()._clouds()
        for cloud in clouds.values():
            cloud.capabilities = CloudCapabilities(find=self.scenario.can_find, stop=True)
        return clouds

    def start_again(self) -> None:
        """A start; where it fails it is tried again, as systemd does."""
        if self.daemon is not None:
            return
        if self.asleep:
            self.when_awake(self.start_again)
            return
        try:
            self.start_daemon().heartbeat()  # as the service does
        except StoreError:
            self.failed_starts += 1
            self.kill_daemon()
            self._start_in(RESTART_S)
            return
        self.lives += 1
        self.on_life(self.daemon)

    def _start_in(self, seconds: float) -> None:
        self.events.after(seconds, self.start_again)

    def kill_daemon(self) -> None:
        if self._head is not None and self._executor is not None:
            self._head.alive = False
            self._executor.close(0.0)
        if self._store is not None:
            self._store.close()
        self._head = self._executor = self._store = None
        was, self.daemon = self.daemon, None
        if was is not None:
            self.on_life(None)

    def stop_daemon(self) -> None:
        """As SIGTERM does."""
        if self.daemon is not None:
            self.daemon.stop()
            self.daemon.close(0.0)
            self._store = None
        self.kill_daemon()

    def reconfigure(self, settings: Settings, restart_s: Optional[float] = None) -> None:
        """Other settings: by a reload, or by a restart that takes so long. Not the cluster's name."""
        self.settings = settings
        if restart_s is not None:
            self.when_awake(lambda: self._restart(restart_s))
        elif self.daemon is not None:
            daemon = self.daemon
            assert self._head is not None
            self._head.post(
                lambda: daemon.core.guard("reload", lambda: take_over(daemon, settings, self._batch(), self._clouds()))
            )

    def _restart(self, down_s: float) -> None:
        if self.daemon is not None:
            self.stop_daemon()
            self._start_in(down_s)

    # ------------------------------------------------------------------ deaths

    def arm(self, at: str, number: int, down_s: float, within_s: float, lost: bool = False) -> None:
        """Kill the daemon at the so-manyth operation from now whose name begins with ``at``, at the latest in
        ``within_s``; ``lost``: with the requests on their way."""
        kill = self._armed = _Kill(at, number, down_s, lost)
        self.events.after(within_s, lambda: self._die() if self._armed is kill else None)

    def operation(self, name: str) -> None:
        """One step of the daemon: a write to the store begins or is done."""
        self.operations[name] += 1
        if self._armed is not None and self._armed.hits(name):
            assert self._executor is not None
            self._executor.close(0.0)  # nothing more is sent while the stack is left
            raise Killed(name)

    def _called(self, moment: str, call: Call) -> None:
        """A call is about to take effect, or took it and the answer is on its way."""
        name = f"{call.name} {moment}"
        self.operations[name] += 1
        if self._armed is not None and self._armed.hits(name):
            self._die()

    def _die(self) -> None:
        kill, self._armed = self._armed, None
        if kill is None or self._head is None:
            return
        self.kills += 1
        if kill.lost and self._executor is not None:
            assert isinstance(self._executor, HeadExecutor)
            self._executor.lost = True
        self.kill_daemon()
        self._start_in(kill.down_s)

    def kill_now(self, down_s: float) -> None:
        """At once, whatever it does."""
        self._armed = _Kill("", 1, down_s, False)
        self._die()

    def _trouble(self) -> str:
        return next(iter(self.disk_trouble.values()), "")

    def _told(self) -> None:
        self.on_event()

    # ------------------------------------------------------------------ sleep

    def suspend(self, seconds: float, counts: bool) -> None:
        """The head node sleeps; ``counts``: its monotonic clock goes on meanwhile."""
        if self.asleep:
            return
        self._wakes_at = self.clock.monotonic() + seconds
        if self._head is not None:
            self._head.asleep = True

        def wake() -> None:
            if not counts:
                self.head_clock.lost_s += seconds
            if self._head is not None:
                self._head.wake()

        self.events.at(self._wakes_at, wake)

    @property
    def asleep(self) -> bool:
        return self.clock.monotonic() < self._wakes_at

    def when_awake(self, action: Callable[[], object]) -> None:
        """Now, or when the head node wakes."""
        if self.asleep:
            self.events.at(self._wakes_at, action)
        else:
            action()

    # ------------------------------------------------------------------ who is meant

    def machine(self, fraction: float) -> Optional[Machine]:
        """One of ours that is there, from the oldest (0) to the youngest (towards 1)."""
        head = self.owner.head
        there = [one for one in self.world.machines.values() if one.made_for[1] == head and not one.ended]
        return _pick([one for one in there if one.id != self.owner.instance_id], fraction)

    def worker(self, fraction: float) -> Optional[SimWorker]:
        """One that is alive on a machine of ours, likewise."""
        head, workers = self.owner.head, self.world.workers.values()
        ours = [one for one in workers if one.alive and one.machine and one.machine.made_for[1] == head]
        return _pick(ours, fraction)

    @property
    def store_path(self) -> str:
        return self._store_path

    @property
    def core(self) -> Optional[Core]:
        return self.daemon.core if self.daemon is not None else None


def _pick(things: Sequence[T], fraction: float) -> Optional[T]:
    return things[min(int(fraction * len(things)), len(things) - 1)] if things else None


@dataclasses.dataclass
class _Kill:
    at: str
    number: int
    down_s: float
    lost: bool

    def hits(self, name: str) -> bool:
        if not name.startswith(self.at):
            return False
        self.number -= 1
        return self.number <= 0
