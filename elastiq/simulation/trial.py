"""One scenario from its begin to calm, and on until the cluster has come to rest: judged after every event."""

from __future__ import annotations

import logging
import os
import tempfile
import time
import traceback
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Mapping, Optional

from elastiq.daemon import Daemon
from elastiq.events import Action, Timer
from elastiq.scaling import held
from elastiq.settings import Settings
from elastiq.simulation.checker import Checker, Violation
from elastiq.simulation.liveness import Liveness
from elastiq.simulation.registrations import Registrations
from elastiq.simulation.scenario import Happening, Scenario
from elastiq.simulation.stage import STORE, Stage
from elastiq.simulation.statefile import StateFile
from elastiq.simulation.upkeep import LOOK_EVERY_S, LogWatch, Upkeep
from elastiq.simulation.witness import WatchedExecutor, WatchedFaults, Witness
from elastiq.status import snapshot

TRACE_LINES = 40
# Planted where real ones would be: in the typed options of the plugins.
SECRETS = ("planted-secret-key-5V1q", "planted-pool-password-8Zt2")

log = logging.getLogger("elastiq")


@dataclass(frozen=True)
class Report:
    """What came of a scenario. Plain values: it travels between processes."""

    seed: int
    profile: str
    violations: tuple[Violation, ...]
    happenings: tuple[str, ...]
    trace: tuple[str, ...]
    hours: float
    node_hours: float
    seconds: float
    kills: int
    lives: int
    calls: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)
    jobs: int = 0
    launches: int = 0

    @property
    def invariant(self) -> str:
        """The first that was broken; empty if none was."""
        return self.violations[0].invariant if self.violations else ""


def run(scenario: Scenario, keep: Optional[Iterable[int]] = None, stop_at_first: bool = True) -> Report:
    """Play a scenario, or only those of its happenings whose places are to be kept."""
    if keep is not None:
        scenario = scenario.without(frozenset(range(len(scenario.happenings))) - frozenset(keep))
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # SQLite's syncs cost nothing there
    with tempfile.TemporaryDirectory(prefix="elastiq-trial-", dir=memory) as directory:
        return Trial(scenario, directory, stop_at_first).play()


def with_secrets(settings: Settings) -> Settings:
    pools = tuple(
        replace(pool, options={**pool.options, "secret_access_key": SECRETS[0], "user_data": SECRETS[1].encode()})
        for pool in settings.pools
    )
    return replace(settings, pools=pools, batch_options={**settings.batch_options, "password": SECRETS[1]})


class Trial:
    """The stage, and all who watch it."""

    def __init__(self, scenario: Scenario, directory: str, stop_at_first: bool) -> None:
        scenario = replace(scenario, settings=with_secrets(scenario.settings))
        self.scenario, self._stop_at_first = scenario, stop_at_first
        self.stage = stage = Stage(scenario, directory)
        world = stage.world
        self._trace: deque[str] = deque(maxlen=TRACE_LINES)
        self.state = StateFile(os.path.join(directory, STORE))
        self.witness = Witness(lambda: world.now, self._settings)
        self.checker = Checker(world, stage.owner, self.state, self._settings, self._tell, scenario.can_drain)
        self.upkeep = Upkeep(self.checker, self.witness, self._status, self._beat_age_s, SECRETS)
        self.upkeep.registrations = Registrations(self.checker, scenario.calm_at_s)
        self.liveness = Liveness(stage, self.checker, self._status)
        self._daemon: Optional[Daemon] = None
        self._store_file: object = None
        self._listen()

    def _listen(self) -> None:
        stage, world, checker, upkeep = self.stage, self.stage.world, self.checker, self.upkeep
        world.faults = WatchedFaults(world.faults, self.witness)
        self.witness.listener = checker
        checker.upkeep, checker.life = upkeep, lambda: self.witness.life
        checker.book.orders = stage.orders
        world.on_change = checker.changed
        checker.stops.counts = lambda: self._daemon is not None and not stage.asleep
        world.on_act = lambda act: None
        stage.on_life, stage.on_happening, stage.on_event = self._life, self._happens, self._beat
        schedule = stage.events.at

        def at(when: float, action: Action) -> Timer:
            def act() -> None:
                action()
                if stage.disk_trouble:
                    self.state.broken_until = world.now
                if checker.violations and self._stop_at_first:
                    stage.events.stop()

            return schedule(when, act)

        stage.events.at = at  # type: ignore[method-assign]

    def _settings(self) -> Settings:
        """In force: those that the daemon works with, or the file's while there is none."""
        core = self.stage.core
        if core is None:
            return self.stage.settings
        return held(core.settings, core.scaled) if core.scaled else core.settings

    def _tell(self, text: str) -> None:
        hours, rest = divmod(self.stage.clock.elapsed_s, 3600.0)
        self._trace.append(f"{hours:3.0f}:{rest // 60:02.0f}:{rest % 60:06.3f} {text}")

    def _happens(self, happening: Happening) -> None:
        self._tell(f"*** {happening.kind} {dict(happening.args)}"[:200])
        if happening.kind == "store_damaged":
            self.checker.store_lost()

    # ------------------------------------------------------------------ the daemon's lives

    def _life(self, daemon: Optional[Daemon]) -> None:
        self.checker.stops.changed()
        if daemon is None:
            self._tell("the daemon is gone")
            self._daemon = None
            return
        self._tell("a daemon starts")
        self.witness.new_life()
        self.state.new_life()
        core = daemon.core
        core.executor = WatchedExecutor(core.executor, self.witness)
        file = os.stat(self.state.path).st_ino if os.path.exists(self.state.path) else None
        if self._store_file is not None and (file != self._store_file or core.store.notice):
            self._tell("its state was lost")
            self.checker.store_lost()
        self._store_file = file
        self._daemon = daemon
        self.upkeep.born()

    def _status(self) -> Optional[Mapping[str, Any]]:
        return snapshot(self._daemon) if self._daemon is not None else None

    def _beat(self) -> None:
        if self._daemon is not None:
            self.upkeep.beat(self._daemon.core.counters)

    def _beat_age_s(self) -> Optional[float]:
        """Since the loop was last seen to run, by the head node's own clock. None while there is no daemon, or it
        sleeps."""
        if self._daemon is None or self.stage.asleep:
            self.upkeep.wakes()
            return None
        return self.stage.head_clock.monotonic() - self._daemon.beat_at[1]

    # ------------------------------------------------------------------ the play

    def play(self) -> Report:
        began = time.process_time()
        watch = LogWatch(self.upkeep, self._tell)
        level, propagate = log.level, log.propagate
        log.addHandler(watch)
        log.setLevel(logging.INFO)
        log.propagate = False
        try:
            self._play()
        except Exception as exc:  # noqa: BLE001 - whatever fails in the simulation fails this scenario, with its seed
            self.checker.fail("bug", "".join(traceback.format_exception(type(exc), exc, exc.__traceback__)))
        finally:
            log.removeHandler(watch)
            log.setLevel(level)
            log.propagate = propagate
            self.stage.close()
        return self._report(time.process_time() - began)

    @property
    def over(self) -> bool:
        return bool(self.checker.violations) and self._stop_at_first

    def _play(self) -> None:
        self.stage.begin()
        while not self.over and self.stage.clock.elapsed_s <= self.scenario.calm_at_s:
            self._step(LOOK_EVERY_S)
        while not self.over and self.liveness.goes_on():
            self._step(self.liveness.STEP_S)
        if not self.over:
            self.upkeep.last_look(self.state)

    def _step(self, seconds: float) -> None:
        self.stage.run(seconds)
        if not self.over:
            self.upkeep.look()

    def _report(self, seconds: float) -> Report:
        stage = self.stage
        tally = stage.world.settle_accounts()
        return Report(
            seed=self.scenario.seed,
            profile=self.scenario.profile,
            violations=tuple(self.checker.violations),
            happenings=tuple(str(one) for one in self.scenario.happenings),
            trace=tuple(self._trace) if self.checker.violations else (),
            hours=stage.clock.elapsed_s / 3600.0,
            node_hours=tally.machine_s / 3600.0,
            seconds=seconds,
            kills=stage.kills,
            lives=stage.lives,
            calls=dict(self.witness.calls),
            faults=dict(Counter(one.kind for one in self.scenario.happenings) + Counter(stage.chaos.struck)),
            jobs=tally.submitted,
            launches=tally.launches,
        )


def replay_command(report: Report, keep: Optional[Iterable[int]] = None) -> str:
    """What to type to see it again."""
    parts = ["python3 -m elastiq.simulation.search", f"--seed {report.seed}"]
    if report.profile != "mixed":
        parts.append(f"--profile {report.profile}")
    if keep is not None:
        parts.append("--keep " + (",".join(map(str, keep)) or "none"))
    return " ".join(parts)
