"""The control socket: one JSON object a line, on threads of its own (docs/control-protocol.md).

Reading answers from what the daemon last published and never waits for the loop. Commands go to the
loop and are only for root and the daemon's own user. A client can neither block others nor fill memory:
requests are bounded in size and time, and of too many clients the one that is idle for longest is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Callable, ContextManager

if TYPE_CHECKING:
    from elastiq.protocol import Answer


log = logging.getLogger(__name__)

_PATH_MAX = 107  # of sockaddr_un.sun_path (unix(7)), without its final NUL

Command = Callable[[str, "Answer"], "Future[Answer]"]


class ControlServer:
    """Listens at ``path``, which only the holder of the run directory's lock may do.

    ``status`` returns what was last published; ``command(verb, args)`` starts a command and returns the
    future of its answer, or raises `Refused`. Both are called from any thread.
    """

    def __init__(self, path: Path, status: Callable[[], Answer], command: Command) -> None:
        self._path, self.status, self.command = path, status, command
        self.lock = threading.Lock()
        self.idle: dict[socket.socket, None] = {}  # not waiting for a command, the longest idle first
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
            threading.Thread(target=self._serve, args=(client,), name="elastiq client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        from elastiq.serving import serve

        serve(self, client)


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
