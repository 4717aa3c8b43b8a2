"""The EC2 API over HTTP, with instances that become workers; `python -m tests.e2e.rig.ec2_server ENDPOINT`.

Runs in the hub's namespace. Clients talk EC2 to its port; tests talk JSON to a Unix socket
(`client.Ec2`): `/faults`, `/behaviour`, `/log`, `/instances`, ...
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
import socket
import sys
import threading
import time
import urllib.parse
from typing import Any, Callable, Iterable, Mapping, Optional

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import make_server

from tests.e2e.rig import places, worker
from tests.e2e.rig.ec2_account import Account
from tests.e2e.rig.ec2_faults import Dropped, Fault, Faults
from tests.e2e.rig.ec2_machines import Hypervisor, Workers

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
_VARYING = ("Action", "Version", "Signature", "Timestamp", "X-Amz-Date")


class Server:
    """Both applications, and what they share."""

    def __init__(self, endpoint: places.Endpoint, workers: Workers) -> None:
        self.lock = threading.RLock()
        self.account = Account(endpoint)
        self.faults = Faults()
        self.log: list[dict[str, Any]] = []
        self._tokens: dict[str, tuple[str, bytes]] = {}
        self._hypervisor = Hypervisor(self.account, self.lock, workers)
        self._moto = create_backend_app("ec2")

    # ------------------------------------------------------------- EC2

    def ec2(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """One call of the EC2 API."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        call = dict(urllib.parse.parse_qsl(body.decode() or environ.get("QUERY_STRING", "")))
        entry = self._log_entry(call)
        try:
            status, answer = self._answer(environ, body, call)
        except Dropped:
            entry["status"] = "dropped"
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionError("dropped by the rig") from None
        entry.update(status=status, answered=time.time(), ids=_instance_ids(answer))
        found = re.search(rb"<Code>([^<]+)", answer) if status >= 400 else None
        entry["code"] = found.group(1).decode() if found else ""
        start_response(f"{status} -", [("Content-Type", "text/xml"), ("Content-Length", str(len(answer)))])
        return [answer]

    def _log_entry(self, call: Mapping[str, str]) -> dict[str, Any]:
        kept = ("ClientToken", "MinCount", "MaxCount", "InstanceType", "SubnetId", "DryRun", "NextToken")
        entry: dict[str, Any] = {"at": time.time(), "action": call.get("Action", "?"), "status": "in flight"}
        entry["parameters"] = {name: value for name, value in call.items() if name in kept or "InstanceId" in name}
        with self.lock:
            self.log.append(entry)
        return entry

    def _answer(self, environ: Environ, body: bytes, call: dict[str, str]) -> tuple[int, bytes]:
        with self.lock:
            fault = self.faults.next(call.get("Action", ""))
        fault.begin()
        if fault.code and not fault.after:
            return _error(fault.status, fault.code, fault.message)
        with self.lock:
            status, answer = self._effect(environ, body, call)
        fault.end()
        if fault.code:
            return _error(fault.status, fault.code, fault.message)
        return status, answer

    def _effect(self, environ: Environ, body: bytes, call: dict[str, str]) -> tuple[int, bytes]:
        if call.get("Action") == "RunInstances" and call.get("DryRun", "").lower() != "true":
            return self._run_instances(environ, body, call)
        status, answer = self._ask_moto(environ, body)
        if call.get("Action") == "TerminateInstances" and status == 200:
            self.account.terminating(_instance_ids(answer))
        return status, answer

    def _run_instances(self, environ: Environ, body: bytes, call: dict[str, str]) -> tuple[int, bytes]:
        """With AWS's ClientToken (the same token with other parameters is refused), MaxCount and capacity."""
        token = call.get("ClientToken", "")
        asked = json.dumps({name: value for name, value in sorted(call.items()) if name not in _VARYING})
        if token in self._tokens:
            first, answer = self._tokens[token]
            if first != asked:
                return _error(400, "IdempotentParameterMismatch", "this token was used with other parameters")
            return 200, answer
        least, most, room = int(call.get("MinCount", 1)), int(call.get("MaxCount", 1)), self.account.room()
        if room < least:
            return _error(500, "InsufficientInstanceCapacity", "there is not enough capacity")
        count = b"MinCount=%d" % min(most, room)  # moto makes MinCount of them
        status, answer = self._ask_moto(environ, re.sub(rb"MinCount=\d+", count, body))
        if status == 200:
            self.account.launched(_instance_ids(answer), call.get("UserData", ""))
            answer = answer.replace(b"<code>16</code>", b"<code>0</code>").replace(b"<name>running<", b"<name>pending<")
            if token:
                self._tokens[token] = asked, answer
        return status, answer

    def _ask_moto(self, environ: Environ, body: bytes) -> tuple[int, bytes]:
        environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(body), str(len(body))
        status: list[int] = []

        def start(line: str, *_: Any) -> Callable[[bytes], object]:
            status.append(int(line.split()[0]))
            return lambda _: None

        answer = b"".join(self._moto(environ, start))
        return status[0], answer

    # ------------------------------------------------------------- control

    def control(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """One request of a test: the path names a method ``on_...``, the body is its JSON argument."""
        text = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        method = getattr(self, "on_" + environ["PATH_INFO"].strip("/"), None)
        status, answer = "404 no such request", b"null"
        if method is not None:
            status, answer = "200 OK", json.dumps(method(json.loads(text) if text else None)).encode()
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
        return [answer]

    def on_faults(self, wanted: list[dict[str, Any]]) -> None:
        with self.lock:
            for fault in wanted:
                self.faults.add(Fault(**fault))

    def on_held(self, _: None) -> int:
        return self.faults.held()

    def on_release(self, discard: bool) -> None:
        self.faults.release(discard)

    def on_behaviour(self, changes: Optional[dict[str, Any]]) -> dict[str, Any]:
        with self.lock:
            self.account.behaviour = dataclasses.replace(self.account.behaviour, **(changes or {}))
            return vars(self.account.behaviour)

    def on_log(self, _: None) -> list[dict[str, Any]]:
        with self.lock:
            return list(self.log)

    def on_instances(self, _: None) -> list[dict[str, Any]]:
        with self.lock:
            return [self._describe(instance) for instance in self.account.instances()]

    def _describe(self, instance: Any) -> dict[str, Any]:
        tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
        return {
            "id": instance.id,
            "state": instance.state,
            "address": instance.private_ip_address,
            "worker": self.account.machines[instance.id].worker,
            "type": instance.instance_type,
            "token": instance.client_token,
            "tags": tags,
        }

    def on_make(self, wanted: dict[str, Any]) -> str:
        with self.lock:
            return self.account.make(**wanted)

    def on_state(self, wanted: dict[str, str]) -> None:
        """Put an instance into a state, as if the cloud had done so by itself."""
        with self.lock:
            for instance in self.account.instances():
                if instance.id == wanted["id"]:
                    self.account.set_state(instance, wanted["state"])

    def on_reset(self, _: None) -> None:
        """No instance, no worker, no fault, default behaviour, empty log."""
        with self.lock:
            self.faults.clear()
            self.account.forget_all()
            self._tokens.clear()
            self.log.clear()
        self._hypervisor.end_all()


def _error(status: int, code: str, message: str) -> tuple[int, bytes]:
    text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    document = f"<Response><Errors>{text}</Errors><RequestID>rig</RequestID></Response>"
    return status, f'<?xml version="1.0" encoding="UTF-8"?>\n{document}'.encode()


def _instance_ids(answer: bytes) -> list[str]:
    return [found.decode() for found in re.findall(rb"<instanceId>(i-[0-9a-f]+)", answer)]


def serve(endpoint: places.Endpoint, workers: Workers) -> None:
    """Serve for ever; this process is in the namespace that has the endpoint's address."""
    server, path = Server(endpoint, workers), places.ec2_socket(endpoint)
    path.unlink(missing_ok=True)
    control = make_server(f"unix://{path}", 0, server.control, threaded=True)
    threading.Thread(target=control.serve_forever, daemon=True).start()
    make_server(places.HUB_IP, endpoint.port, server.ec2, threaded=True).serve_forever()


def main() -> None:
    serve(next(one for one in places.ENDPOINTS if one.name == sys.argv[1]), worker)


if __name__ == "__main__":
    main()
