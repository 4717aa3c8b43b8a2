"""Limits for what a cloud answers. botocore has none: it reads on for as long as something comes.

Its read time-out is for each read of the socket, so an answer that drips never ends, and one that
floods takes all memory. Here a whole answer, its head included, has one time and one size.
"""

from __future__ import annotations

import http.client
import socket
import time
from typing import Any, Callable, Optional

LARGEST = 64 << 20  # bytes; a cloud without pages tells about 20,000 instances in that
_ERROR = b"<Response><Errors><Error><Code>%d</Code></Error></Errors></Response>"


def _limited(sock: Any, readinto: Callable[[Any], Optional[int]], within_s: float) -> Callable[[Any], Optional[int]]:
    """A socket file's ``readinto``, up to a moment and a size."""
    until, room = time.monotonic() + within_s, LARGEST

    def limited(buffer: Any) -> Optional[int]:
        nonlocal room
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise socket.timeout("the answer did not end in time")
        sock.settimeout(left_s)
        got = readinto(buffer)
        room -= got or 0
        if room < 0:
            raise ValueError(f"the answer is longer than {LARGEST >> 20} MB")
        return got

    return limited


def limit(client: Any, within_s: float) -> None:
    """Give a botocore client's answers their limits, and those that are no errors of EC2's their HTTP status."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            raw: Any = self.fp.raw  # all that `fp` reads comes through this one's `readinto`
            raw.readinto = _limited(sock, raw.readinto, within_s)

    def send(request: Any, **_: Any) -> Any:
        answer = session.send(request)
        if answer.status_code >= 300 and b"<Code" not in answer.content:  # botocore would tell of bad XML
            answer._content = _ERROR % answer.status_code
        return answer

    session = client._endpoint.http_session
    for scheme, pool in session._pool_classes_by_scheme.items():
        connection = type("Connection", (pool.ConnectionCls,), {"response_class": Response})
        session._pool_classes_by_scheme[scheme] = type("Pool", (pool,), {"ConnectionCls": connection})
    client.meta.events.register("before-send.ec2", send)
