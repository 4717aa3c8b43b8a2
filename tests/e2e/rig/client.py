"""What tests and people use of the EC2 server's control socket."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any, Optional

from tests.e2e.rig import places
from tests.e2e.rig.process import RigError


class Ec2:
    """The cloud behind an API: what it did, what it shall do."""

    def __init__(self, endpoint: places.Endpoint = places.FIRST) -> None:
        self.endpoint = endpoint

    def log(self, action: str = "") -> list[dict[str, Any]]:
        """The API calls since the last reset, oldest first; only those of ``action`` if given.

        ``status`` is the HTTP status, "in flight" or "dropped"; ``ids`` the instances in the answer.
        """
        entries: list[dict[str, Any]] = self._ask("log")
        return [entry for entry in entries if action in ("", entry["action"])]

    def instances(self, *states: str) -> list[dict[str, Any]]:
        """All instances, also those that listings hide; only those in ``states`` if given."""
        found: list[dict[str, Any]] = self._ask("instances")
        return [instance for instance in found if not states or instance["state"] in states]

    def alive(self) -> list[dict[str, Any]]:
        return self.instances("pending", "running")

    def behave(self, **changes: object) -> dict[str, Any]:
        """Change how the cloud behaves (`ec2_account.Behaviour`); returns what holds now."""
        found: dict[str, Any] = self._ask("behaviour", changes)
        return found

    def fault(self, action: str, **fault: object) -> None:
        """Ask for a fault (`ec2_faults.Fault`)."""
        self._ask("faults", [{"action": action, **fault}])

    def held(self) -> int:
        return int(self._ask("held"))

    def release(self, discard: bool = False) -> None:
        """Let held calls go on; ``discard``: they end without effect and without an answer."""
        self._ask("release", discard)

    def make(self, tags: Optional[dict[str, str]] = None, address: Optional[str] = None,
             worker: bool = False, token: str = "") -> str:  # fmt: skip
        """Launch an instance in somebody else's name; returns its id."""
        return str(self._ask("make", {"tags": tags or {}, "address": address, "worker": worker, "token": token}))

    def set_state(self, instance_id: str, state: str) -> None:
        self._ask("state", {"id": instance_id, "state": state})

    def reset(self) -> None:
        """End everything and forget it."""
        self._ask("reset")

    def _ask(self, path: str, argument: object = None) -> Any:
        control = places.ec2_socket(self.endpoint)
        connection = _UnixConnection(control)
        try:
            connection.request("POST", f"/{path}", json.dumps(argument))
            answer = connection.getresponse()
            text = answer.read()
        except OSError as error:
            raise RigError(f"the EC2 server does not answer on {control}: {error}") from None
        finally:
            connection.close()
        if answer.status != 200:
            log = control.with_suffix(".log")
            raise RigError(f"the EC2 server answered {answer.status} to {path}: see {log}")
        return json.loads(text)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
