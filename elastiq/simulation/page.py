"""The page of the section [web], shown of a demo. Imported for `--web`."""

from __future__ import annotations

from elastiq.daemon import Daemon
from elastiq.web.feed import Pace
from elastiq.web.page import Page
from elastiq.web.server import PageServer
from elastiq.web.trend import Tier

HOST = "127.0.0.1"
SAMPLE_S = 5.0  # simulated: the whole demo takes little more than an hour
_TIERS = (Tier(SAMPLE_S, 1440), Tier(60.0, 1440), Tier(3600.0, 1440))


class DemoPage:
    """Serves until `close`. ``speed`` is in simulated seconds per real second. Raises OSError if it cannot listen."""

    def __init__(self, daemon: Daemon, port: int, speed: float) -> None:
        page = Page(daemon, Pace(max(SAMPLE_S, speed / 10), _TIERS, speed, daemon.core.wall()))
        self._server = PageServer(HOST, port, page.resources())
        daemon.core.listeners.append(page)

    def close(self) -> None:
        self._server.close()
