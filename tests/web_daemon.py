"""A daemon with a page, whose loop runs on a thread of its own, and what asks it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from typing import Any, Callable, Iterator, Optional

from elastiq import web
from elastiq.core import Core
from elastiq.daemon import Daemon
from elastiq.events import EventQueue, RealClock
from elastiq.store import Store
from elastiq.threads import ThreadExecutor
from tests.unit.fakes import FakeBatch, FakeCloud, Surroundings
from tests.waiting import PATIENCE_S, until


@contextlib.contextmanager
def running(values: Optional[dict[str, Any]], path: str = ":memory:") -> Iterator[Daemon]:
    """A daemon with these values of the section [web], whose loop runs on a thread of its own."""
    like = Surroundings().core
    events, made, built = EventQueue(RealClock(), longest_pause_s=0.05), [], threading.Event()

    def decide() -> None:
        core = Core(
            like.settings, FakeBatch(), {"aws": FakeCloud()}, like.owner, events, ThreadExecutor(events), Store(path),
        )  # fmt: skip
        daemon = Daemon(core)
        made.append(daemon)
        daemon.start()
        web.follow(daemon, values)
        built.set()
        daemon.run()
        web.follow(daemon, None)
        daemon.close(0.0)

    thread = threading.Thread(target=decide, daemon=True)
    thread.start()
    assert built.wait(PATIENCE_S)
    try:
        yield made[0]
    finally:
        made[0].stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def section(port: int, **more: Any) -> dict[str, Any]:
    return {"listen": f"127.0.0.1:{port}", "allow_remote": False, "hosts": (), **more}


def fetch(port: int, path: str = "/now.json") -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, (path, answer.status, body)
    return json.loads(body) if answer.headers["Content-Type"] == "application/json" else body


def on_loop(daemon: Daemon, action: Callable[[], Any]) -> Any:
    got: list[Any] = []
    daemon.core.events.post(lambda: got.append(action()))
    return until(lambda: got, "the loop runs")[0]
