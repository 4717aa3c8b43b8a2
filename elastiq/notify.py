"""systemd's notification protocol (sd_notify(3)): a datagram to the socket that systemd names. Imported if it does."""

from __future__ import annotations

import logging
import os
import socket

from elastiq.events import EventQueue

log = logging.getLogger(__name__)


def begin(events: EventQueue) -> None:
    """Tell from the loop that it runs, and let the loop itself feed the watchdog: one that hangs does not."""

    def feed() -> None:
        if limit_s := watchdog_s():
            notify("WATCHDOG=1")
            events.after(limit_s / 4, feed)

    events.post(lambda: notify("READY=1"))
    events.post(feed)


def notify(*lines: str) -> None:
    """Tell systemd, if it asked to be told. A failure is logged: systemd then acts by its time-outs."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if name[:1] not in ("/", "@"):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(1.0)  # a full queue must not hold the loop
            sock.sendto("\n".join(lines).encode(), "\0" + name[1:] if name.startswith("@") else name)
    except OSError as error:
        log.warning("cannot notify systemd at %s: %s", name, error)


def watchdog_s() -> float:
    """Within how many seconds systemd's watchdog wants to hear of this process; 0 if it does not."""
    usec = os.environ.get("WATCHDOG_USEC", "")
    ours = os.environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    return int(usec) / 1e6 if ours and usec.isdecimal() else 0.0
