"""The page's part on the decision thread: it looks, keeps the trend, publishes, and begins and ends the server."""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional

from elastiq import status
from elastiq.limits import hourly
from elastiq.nodes import TO_COME, State
from elastiq.web import REMOTE, kept
from elastiq.web.document import RANGES, Documents
from elastiq.web.feed import Feed, Pace, Published
from elastiq.web.news import News
from elastiq.web.server import PageServer, Parameters, Resource, address_of, is_loopback
from elastiq.web.trend import Trend

if TYPE_CHECKING:
    from elastiq.daemon import Daemon

log = logging.getLogger(__name__)

FILES = Path(__file__).with_name("files")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
SAVED_EVERY = 2  # samples
AGAIN_S = 60.0  # until the next try to listen
LONGEST_PAUSE_S = 600.0  # after faults
# Looking may take so much of the loop's time where the cluster is large, but is not put off for longer.
SHARE, RAREST_LOOK_S, QUICK_S = 0.05, 10.0, 0.02


class Page:
    """What one daemon shows of itself. Also a listener of `Core.say`."""

    def __init__(self, daemon: Daemon, pace: Pace = Pace()) -> None:  # noqa: B008 - immutable
        self._daemon, self._core, self._pace = daemon, daemon.core, pace
        self._news = News(self._core)
        self._trend = Trend(pace.tiers, kept.load(self._core.store))
        self._writer = kept.Writer(self._core.store)
        self._samples, self._sampled = 0, -math.inf
        self._due = -math.inf  # real monotonic time: when to look again for those who do
        self.feed = Feed(pace, self._look())
        self.server: Optional[PageServer] = None
        self._wanted: Mapping[str, Any] = {}
        self._again = math.inf  # when to try once more to listen
        self._pause_s = pace.tick_s
        self._timer = self._core.events.after(0.0, self._tick)

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        self._news(event, fields)

    # ------------------------------------------------------------------ the server

    def configure(self, values: Mapping[str, Any]) -> None:
        """Serve by these values of the section; at another address if that has changed."""
        if dict(values) == self._wanted and self.server is not None:
            return
        self._stop()
        self._wanted = dict(values)
        self._listen()

    def close(self) -> None:
        """Serve no more, and look no more."""
        self._timer.cancel()
        self._stop()
        self._writer.save()

    def _stop(self) -> None:
        self._again = math.inf
        self._core.tell("web", "")
        if self.server is not None:
            self.server.close()
            self.server = None

    def _listen(self) -> None:
        listen, core = self._wanted["listen"], self._core
        host, port = address_of(listen)
        self._again = math.inf
        if not is_loopback(host) and not self._wanted["allow_remote"]:
            core.tell("web", f"{listen} {REMOTE}: it is not served until allow_remote = yes, in [web]")
            return
        try:
            self.server = PageServer(host, port, self.resources(), self._wanted["hosts"])
        except OSError as error:
            self._again = core.now() + AGAIN_S
            why = os.strerror(error.errno or 0)  # its own text names the address in Python's way
            core.tell("web", f"cannot listen on {listen} ({why}): there is no page; free it, or set another in [web]")
            return
        core.tell("web", "")
        log.info("web: http://%s/", listen)

    def resources(self) -> dict[str, Resource]:
        """What the server hands out, by path."""
        documents = Documents(self.feed)

        def history(parameters: Parameters) -> Optional[bytes]:
            found = [span for span in RANGES if str(span) == parameters.get("range")]
            return documents.history(found[0]) if found else None

        found: dict[str, Resource] = {
            "/now.json": ("application/json", lambda parameters: documents.now()),
            "/history.json": ("application/json", history),
        }
        for file in sorted(FILES.iterdir()):
            if kind := KINDS.get(file.suffix):
                path = "/" if file.name == "index.html" else f"/{file.name}"
                found[path] = (f"{kind}; charset=utf-8", _giver(file.read_bytes()))
        return found

    # ------------------------------------------------------------------ looking

    def _tick(self) -> None:
        well = self._core.guard("web", self._look_around)
        self._pause_s = self._pace.tick_s if well else min(LONGEST_PAUSE_S, self._pause_s * 2)
        self._timer = self._core.events.after(self._pause_s, self._tick)

    def _look_around(self) -> None:
        now = self._core.now()
        if now - self._sampled >= self._pace.tiers[0].step_s:
            self._sampled = now
            self._sample()
        if self.feed.is_watched() and (began := time.monotonic()) >= self._due:
            self._daemon.asked = True  # the page shows the reasons
            self._news.look()
            self.feed.publish(self._look())
            ended = time.monotonic()
            took_s = ended - began
            self._due = ended + min(RAREST_LOOK_S, took_s / SHARE) if took_s > QUICK_S else -math.inf
        if now >= self._again:
            self._listen()

    def _look(self) -> Published:
        cost = self._cost()
        return Published(
            made=time.monotonic(),
            status=status.snapshot(self._daemon),
            entries=self._news.entries,
            rows=self._trend.rows,
            cost=None if math.isnan(cost) else cost,
            off={act: why for act in ("launch", "terminate") if (why := self._core.off(act))},
        )

    def _sample(self) -> None:
        core = self._core
        jobs = self._daemon.observer.jobs.known(core.now())
        waiting = sum(group.waiting for group in jobs.groups) if jobs else math.nan
        running = sum(group.running or 0 for group in jobs.groups) if jobs else math.nan
        count = Counter(node.state for node in core.registry)
        booting = sum(count[state] for state in TO_COME)
        leaving = count[State.DRAINING] + count[State.TERMINATING]
        known = booting + count[State.IDLE] + count[State.BUSY] + leaving
        machines = (booting, count[State.IDLE], count[State.BUSY], leaving, len(core.registry) - known)
        self._writer.take(self._trend.add(core.wall(), (waiting, running, *machines, self._cost())))
        self._samples += 1
        if self._samples % SAVED_EVERY == 0 and not self._writer.save():
            core.count("trend_store_errors")

    def _cost(self) -> float:
        """What the machines cost an hour, NaN where nothing has a price."""
        settings = self._core.settings
        return hourly(settings, self._core.registry) if any(pool.prices for pool in settings.pools) else math.nan


def _giver(data: bytes) -> Any:
    return lambda parameters: data
