"""systemd's notification protocol (sd_notify(3)): a datagram to the socket that systemd names."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)


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
