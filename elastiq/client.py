"""The other end of the control socket (docs/control-protocol.md)."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any, Mapping, Optional

from elastiq.control import address
from elastiq.protocol import COMMAND_S, VERSION, Refused

MAX_ANSWER = 256_000_000  # bytes
LOOKS = ("status", "metrics", "history")
LOOK_S = 10.0  # for those: the status and the metrics do not wait for the loop, so that a hanging one answers, too


class NotRunning(Exception):
    """Nobody listens at the socket."""


class NoAnswer(Exception):
    """Somebody listens, but there is no answer, or not one of elastiq's."""


class Silent(NoAnswer):
    """Somebody listens, and says nothing in time: the process hangs, or is stopped."""


def ask(
    path: Path, verb: str, args: Optional[Mapping[str, Any]] = None, timeout_s: Optional[float] = None
) -> dict[str, Any]:
    """Ask one thing and return the answer. Raises `NotRunning`, `NoAnswer`, `Refused` or PermissionError. Without
    ``timeout_s`` it waits as long as the verb may take."""
    timeout_s = timeout_s or (LOOK_S if verb in LOOKS else COMMAND_S + 10)
    silent = f"does not answer `{verb}` within {timeout_s:g} s"
    request = {"v": VERSION, "verb": verb, "args": args or {}}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(timeout_s)
        try:
            with address(path) as name:
                sock.connect(name)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            raise NotRunning(f"elastiq is not running (nothing listens at {path})") from None
        except PermissionError:
            raise PermissionError(
                f"no permission to use {path}: it is for elastiq's user and group"
            ) from None
        except (socket.timeout, BlockingIOError):  # too many wait already: connect(2), EAGAIN
            raise Silent(f"elastiq at {path} {silent}") from None
        except OSError as error:
            raise NoAnswer(f"{path}: {error.strerror or error}") from None
        try:
            sock.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(sock, time.monotonic() + timeout_s))
        except socket.timeout:
            raise Silent(f"elastiq at {path} {silent}") from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise NoAnswer(f"no answer from elastiq at {path}: {why}") from None
    if not isinstance(answer, dict) or answer.get("v") != VERSION:
        raise NoAnswer(f"the answer from {path} is not in version {VERSION} of the control protocol")
    if not answer.get("ok"):
        raise Refused(str(answer.get("code", "fault")), str(answer.get("error", "refused without a reason")))
    return answer


def _line(sock: socket.socket, end: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while not parts or not parts[-1].endswith(b"\n"):
        sock.settimeout(max(0.001, end - time.monotonic()))
        part = sock.recv(65_536)
        size += len(part)
        if not part or size > MAX_ANSWER:
            raise ValueError("the connection ended early" if not part else "too long")
        parts.append(part)
    return b"".join(parts)
