"""systemd's notification protocol (sd_notify(3)): a datagram to the socket that systemd names."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import Optional

log = logging.getLogger(__name__)


def notify(*lines: str) -> bool:
    """Tell systemd, if it asked to be told. A failure is logged: systemd then acts by its time-outs."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if name[:1] not in ("/", "@"):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.settimeout(1.0)  # a full queue must not hold the loop
            sock.connect("\0" + name[1:] if name.startswith("@") else name)
            sock.sendall("\n".join(lines).encode())
        return True
    except OSError as error:
        log.warning("cannot notify systemd at %s: %s", name, error)
        return False


def reloading() -> bool:
    """Say that a reload has begun; ``READY=1`` says that it has ended."""
    return notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def watchdog_s() -> Optional[float]:
    """Within how many seconds systemd's watchdog wants to hear of this process; None if it does not."""
    try:
        if int(os.environ.get("WATCHDOG_PID", os.getpid())) != os.getpid():
            return None
        return int(os.environ["WATCHDOG_USEC"]) / 1e6 or None
    except (KeyError, ValueError):
        return None
