"""The metrics' part on the decision thread: it counts, looks at the daemon now and then, and publishes what it saw.

Whoever reads, by the port or by `elastiqctl metrics`, reads what was published last: no reader waits for the loop, and
none can hold it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Mapping, Optional

from elastiq.core import Core, log
from elastiq.errors import StoreError
from elastiq.events import Timer
from elastiq.metrics import how_to_install, process, values
from elastiq.metrics.calls import CountingExecutor
from elastiq.metrics.families import Histogram, Values
from elastiq.metrics.tally import Line, Tally
from elastiq.metrics.waits import Waits

if TYPE_CHECKING:
    from elastiq.daemon import Daemon
    from elastiq.metrics.port import Port

PUBLISH_S = 10.0
FRESH_S = 0.25  # what is not older is given as it is
STORE_S = 300.0  # what was not stored is counted anew from the history
LISTEN_AGAIN_S = 60.0
LAG_S = (0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
FACT = "metrics"  # in the store


@dataclass(frozen=True)
class Published:
    """What the loop saw at a monotonic time."""

    at: float
    values: Values


class Meter:
    """What counts for one daemon. It is found among the listeners of `Core.say`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._core = daemon, daemon.core
        self._calls = self._core.executor = CountingExecutor(self._core.executor)
        self._watched: Optional[Mapping[str, Any]] = None  # the clouds that tell of their requests
        self._tally, self._waits, self._lag = self._stored(), Waits(), Histogram(LAG_S)
        self._stored_at = self._core.now()
        self._port: Optional[Port] = None
        self._wanted: Optional[str] = None
        self._listen_at = 0.0
        self.published = Published(self._core.now(), {})
        self._timer: Optional[Timer] = None
        self.publish()
        self._later()

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        """As a listener it has nothing to do: what it counts is in the history, too."""

    # ------------------------------------------------------------------ looking

    def publish(self) -> None:
        """Look at the daemon and publish what is to be seen."""
        core, observer = self._core, self._daemon.observer
        if self._watched is not core.clouds:  # they are others after a reload
            self._watched = core.clouds
            for site, cloud in core.clouds.items():
                cloud.watch(partial(self._calls.requested, site))
        self._count()
        if observer.jobs.value is not None:
            self._waits.take(observer.jobs.began, observer.jobs.value)
        seen: Values = {
            **values.values(self._daemon),
            **self._tally.values([pool.name for pool in core.settings.pools]),
            **self._calls.values(),
            "elastiq_job_wait_seconds": {(): self._waits.histogram.copy()},
            "elastiq_loop_lag_seconds": {(): self._lag.copy()},
        }
        self.published = Published(core.now(), seen)

    def _count(self) -> None:
        """Take what is new in the history, and keep the counts now and then."""
        core, settings = self._core, self._core.settings
        with suppress(StoreError):  # it is told where it is written to; what is missed is counted later
            self._tally.take(_history(core, self._tally.number))
            self._tally.follow(core.registry, core.wall(), partial(values.price, settings))
        if core.now() - self._stored_at >= STORE_S and not core.store_broken:
            self._stored_at = core.now()
            core.stored(partial(core.store.remember, FACT, self._tally.stored()))

    def _stored(self) -> Tally:
        """The counts of earlier runs. Those that make no sense are counted anew, from the history."""
        try:
            return Tally(self._core.store.recall(FACT))
        except (StoreError, KeyError, TypeError, ValueError) as error:
            log.warning("metrics: the counts of earlier runs cannot be used (%r): counted anew from the history", error)
            return Tally()

    def _later(self) -> None:
        due = self._core.now() + PUBLISH_S
        self._timer = self._core.events.at(due, partial(self._tick, due))

    def _tick(self, due: float) -> None:
        self._lag.observe(max(0.0, self._core.now() - due))
        self._core.guard("metrics", self.publish)
        self._core.guard("metrics port", self._listen)
        self._later()

    # ------------------------------------------------------------------ the port

    def listen(self, wanted: Optional[str]) -> None:
        """Serve at ADDRESS:PORT, None: nowhere."""
        if wanted != self._wanted or wanted is None:
            self._wanted, self._listen_at = wanted, 0.0
            if self._port is not None:
                self._port.close()
                self._port = None
            self._core.tell("metrics", "")
        self._listen()

    def _listen(self) -> None:
        """Try it, and again after a while where it does not succeed."""
        core, wanted = self._core, self._wanted
        if wanted is None or self._port is not None or core.now() < self._listen_at:
            return
        self._listen_at = core.now() + LISTEN_AGAIN_S
        try:
            from elastiq.metrics.port import Port

            self._port = Port(wanted, self.read)
        except ImportError:
            core.tell("metrics", f"not served at {wanted}: needs prometheus-client: {how_to_install()}")
        except OSError as error:
            core.tell("metrics", f"not served at {wanted}: {error.strerror or error}: choose another port, or free it")
        else:
            core.tell("metrics", "")
            core.say("metrics", f"metrics are served at http://{wanted}/metrics", listen=wanted)

    # ------------------------------------------------------------------ reading: any thread

    def read(self) -> Values:
        """What was published last, with the ages as they are by now."""
        seen = self.published
        passed_s = self._core.now() - seen.at
        aged = {
            source: age_s + passed_s
            for source, age_s in seen.values.get("elastiq_observation_age_seconds", {}).items()
            if isinstance(age_s, float)
        }
        return {**seen.values, "elastiq_observation_age_seconds": aged, **process.values()}

    def fresh(self, wait_s: float) -> Values:
        """The same, but looked at now if the loop comes to it in time."""
        if self._core.now() - self.published.at <= FRESH_S:
            return self.read()
        done = threading.Event()
        self._core.events.post(lambda: self._core.guard("metrics", self.publish))
        self._core.events.post(done.set)
        done.wait(wait_s)
        return self.read()


def _history(core: Core, after: int) -> list[Line]:
    """The lines of history with a higher number, oldest first."""
    sql = "SELECT number, at, what, node, pool, reason FROM history WHERE number > ? ORDER BY number"
    return core.store.read(sql, (after,))


def meter_of(daemon: Daemon) -> Meter:
    """The daemon's; made when there is none yet. On the decision thread."""
    listeners = daemon.core.listeners
    found = next((one for one in listeners if isinstance(one, Meter)), None)
    if found is None:
        found = Meter(daemon)
        listeners.append(found)
    return found
