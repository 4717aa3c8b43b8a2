"""The control socket: one JSON object a line, on threads of its own (docs/control-protocol.md).

Reading answers from what the daemon last published and never waits for the loop. Commands go to the
loop and are only for root and the daemon's own user. A client can neither block others nor fill memory:
requests are bounded in size and time, and of too many clients the one that is idle for longest is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import socket
import struct
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator, Mapping

log = logging.getLogger(__name__)

VERSION = 1
MAX_REQUEST = 65_536  # bytes
REQUEST_S = 5.0  # for one request to arrive, and for its answer to be taken
COMMAND_S = 60.0  # for the loop to do what it was asked
CLIENTS = 16
_PATH_MAX = 107  # of sockaddr_un.sun_path (unix(7)), without its final NUL

Answer = Mapping[str, Any]
Command = Callable[[str, Answer], Future[Answer]]


class Refused(Exception):
    """A request that is not done: ``code`` is one of docs/control-protocol.md, the text is for a person."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class ControlServer:
    """Listens at ``path``, which only the holder of the run directory's lock may do.

    ``status`` returns what was last published; ``command(verb, args)`` starts a command and returns the
    future of its answer, or raises `Refused`. Both are called from any thread.
    """

    def __init__(self, path: Path, status: Callable[[], Answer], command: Command) -> None:
        self._path, self._status, self._command = path, status, command
        self._lock = threading.Lock()
        self._idle: dict[socket.socket, None] = {}  # not waiting for a command, the longest idle first
        self._closed = False
        self._listener = _listen(path)
        threading.Thread(target=self._accept, name="elastiq control", daemon=True).start()

    def close(self) -> None:
        """Take no more clients and remove the socket; answers under way may still be sent."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if not self._closed:
                    log.warning("control socket: cannot accept: %s", error)
                    time.sleep(1.0)  # out of descriptors: do not spin
                continue
            with self._lock:
                while len(self._idle) >= CLIENTS:
                    longest = next(iter(self._idle))
                    del self._idle[longest]
                    with contextlib.suppress(OSError):
                        longest.shutdown(socket.SHUT_RDWR)  # its own thread closes it
                self._idle[client] = None
            threading.Thread(target=self._serve, args=(client,), name="elastiq client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            _, uid, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            for request in _requests(client):
                answer = self._answer(request, uid, client)
                with self._lock:
                    self._idle.pop(client, None)
                    self._idle[client] = None
                client.settimeout(REQUEST_S)
                client.sendall(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
        except OSError:
            pass  # it went away, or was too slow: its own affair
        finally:
            with self._lock:
                self._idle.pop(client, None)
            client.close()

    def _answer(self, line: bytes, uid: int, client: socket.socket) -> dict[str, Any]:
        try:
            return {"v": VERSION, "ok": True, **self._do(*_parse(line), uid, client)}
        except Refused as refused:
            return {"v": VERSION, "ok": False, "code": refused.code, "error": str(refused)}
        except Exception as error:  # a fault of ours: the client must hear of it, and the log its traceback
            log.exception("control socket: fault in a request")
            text = f"internal fault ({type(error).__name__}): see the log"
            return {"v": VERSION, "ok": False, "code": "fault", "error": text}

    def _do(self, verb: str, args: Answer, uid: int, client: socket.socket) -> Answer:
        if verb == "status":
            return {"pid": os.getpid(), "status": self._status()}
        if uid not in (0, os.geteuid()):
            raise Refused("denied", f"`{verb}` is only for root and for the user that elastiq runs as")
        log.info("control socket: %s asked by user id %d", verb, uid)
        with self._lock:
            self._idle.pop(client, None)
        try:
            return {"result": self._command(verb, args).result(COMMAND_S)}
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


def _listen(path: Path) -> socket.socket:
    """A listening socket of mode 0660; a socket file that a killed daemon left is replaced."""
    if path.is_socket():
        path.unlink()
    elif path.exists():
        raise FileExistsError(errno.EEXIST, "something that is no socket is in the way", str(path))
    listener = socket.socket(socket.AF_UNIX)
    try:
        with address(path) as name:
            listener.bind(name)
        path.chmod(0o660)  # nobody can connect before `listen`
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, error.strerror, str(path)) from None
    return listener


def address(path: Path) -> ContextManager[str]:
    """A name of a Unix socket that fits into sun_path: one that is too long goes by its directory's
    descriptor. Raises OSError if the directory cannot be opened."""
    if len(os.fsencode(path)) <= _PATH_MAX:
        return contextlib.nullcontext(str(path))
    from elastiq.long_paths import by_directory

    return by_directory(path)
