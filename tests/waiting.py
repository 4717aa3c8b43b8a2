"""To wait for what comes by itself, and ports that stay what they are: tests are true on a machine that does much else.

A test waits for the state that matters, never for a time. The limit says that something hangs; it is no measure of how
long things take, so it is longer than anything takes on two cores that do the work of eight.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from typing import Any, Callable

PATIENCE_S = 90.0


def until(condition: Callable[[], Any], what: str = "", within_s: float = PATIENCE_S) -> Any:
    """What the condition gives once that is true; `AssertionError` if it never is."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)
    return found


def once(condition: Callable[[], Any], act: Callable[[], Any]) -> threading.Thread:
    """Act as soon as something is true, while the test does what makes it so."""

    def wait() -> None:
        until(condition)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def free_port() -> int:
    """One that nobody has, for a server to be started: below those that the kernel gives to connections, which another
    test opens in between by the hundred."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class DeadPort:
    """A port that refuses connections as long as this is kept: it is taken, and nobody listens."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])
