"""One client of the control socket, on a thread of its own. Imported when one connects."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import time
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, Iterator

from elastiq.protocol import COMMAND_S, VERSION, Answer, Refused

if TYPE_CHECKING:
    from elastiq.control import ControlServer

log = logging.getLogger("elastiq.control")

CLIENTS = 16
MAX_REQUEST = 65_536  # bytes
REQUEST_S = 5.0  # for one request to arrive, and for its answer to be taken
READS = ("metrics", "history")  # beside the status: what the group may ask for, too, and what is no news


def serve(server: ControlServer, client: socket.socket) -> None:
    """Answer its requests until it goes, or is too slow; or until it is the longest idle of too many."""
    with server.lock:
        for longest in list(server.idle)[: -(CLIENTS - 1)]:
            del server.idle[longest]
            with contextlib.suppress(OSError):
                longest.shutdown(socket.SHUT_RDWR)  # its own thread closes it
        server.idle[client] = None
    try:
        _, uid, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        for request in _requests(client):
            answer = _answer(server, request, uid, client)
            with server.lock:
                server.idle.pop(client, None)
                server.idle[client] = None
            client.settimeout(REQUEST_S)
            client.sendall(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
    except OSError:
        pass  # it went away, or was too slow: its own affair
    finally:
        with server.lock:
            server.idle.pop(client, None)
        client.close()


def _answer(server: ControlServer, line: bytes, uid: int, client: socket.socket) -> dict[str, Any]:
    try:
        return {"v": VERSION, "ok": True, **_do(server, *_parse(line), uid, client)}
    except Refused as refused:
        return {"v": VERSION, "ok": False, "code": refused.code, "error": str(refused)}
    except Exception as error:  # a fault of ours: the client must hear of it, and the log its traceback
        log.exception("control socket: fault in a request", extra={"event": "fault"})
        text = f"internal fault ({type(error).__name__}): see the log"
        return {"v": VERSION, "ok": False, "code": "fault", "error": text}


def _do(server: ControlServer, verb: str, args: Answer, uid: int, client: socket.socket) -> Answer:
    if verb == "status":
        return {"pid": os.getpid(), "status": server.status()}
    if verb not in READS:
        if uid not in (0, os.geteuid()):
            raise Refused("denied", f"`{verb}` is only for root and for the user that elastiq runs as")
        asked = {"event": "command_asked", "fields": {"verb": verb, "uid": uid}}
        log.info("control socket: %s asked by user id %d", verb, uid, extra=asked)
    with server.lock:
        server.idle.pop(client, None)
    try:
        return {"result": server.command(verb, args).result(COMMAND_S)}
    except FutureTimeout:
        raise Refused("timeout", f"`{verb}` was handed over, but was not done in {COMMAND_S:g} s") from None


def _requests(client: socket.socket) -> Iterator[bytes]:
    """The lines that a client sends, until it closes or sends none in time. A line that is too long is cut,
    so that it is answered as malformed, and is the last one."""
    line, found, rest = b"", b"\n", b""
    while found and len(line) <= MAX_REQUEST:
        end = time.monotonic() + REQUEST_S
        while b"\n" not in rest and len(rest) <= MAX_REQUEST:
            client.settimeout(max(0.001, end - time.monotonic()))
            received = client.recv(8192)
            if not received:
                return
            rest += received
        line, found, rest = rest.partition(b"\n")
        yield line


def _parse(line: bytes) -> tuple[str, Answer]:
    request: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        request = json.loads(line) if len(line) <= MAX_REQUEST else None
    args = request.get("args", {}) if isinstance(request, dict) else None
    if not isinstance(args, dict) or not isinstance(request.get("verb"), str):
        form = '{"v": ..., "verb": "...", "args": {...}}'
        raise Refused("malformed", f"a request is one JSON object on a line of at most {MAX_REQUEST} bytes: {form}")
    if request.get("v") != VERSION:
        raise Refused("version", f"this elastiq speaks version {VERSION} of the control protocol")
    return request["verb"], args
