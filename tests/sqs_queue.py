"""An SQS queue over real HTTP for tests, in the JSON form that boto3 speaks today and in the query form of older ones.

SQS is asked in the query form by botocore 1.29 (Debian 12) and 1.23 (Ubuntu 22.04).
What a test puts in can be received; a received message stays out of sight until it is deleted or `show` is called.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Optional
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from werkzeug.serving import WSGIRequestHandler, make_server

ACCOUNT = "123456789012"


class _Quiet(WSGIRequestHandler):
    def log_request(self, *args: Any) -> None:
        pass


@dataclass
class SQSQueue:
    """A running queue; ``requests`` holds the action and the parameters of every request, in order."""

    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answer: Optional[tuple[int, str]] = None  # what every request is answered from now on: status and body

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}/{ACCOUNT}/interruptions"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def forget(self) -> None:
        with self._lock:
            self.messages: dict[str, str] = {}  # by their handles
            self._out: set[str] = set()
            self.requests.clear()
            self.answer = None

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def put(self, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        with self._lock:
            self.messages[f"handle-{len(self.requests)}-{len(self.messages)}"] = text

    def asked(self, action: str) -> list[dict[str, Any]]:
        return [parameters for name, parameters in self.requests if name == action]

    def _serve(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        action = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")[2]
        query = not action
        action, asked = _query(body.decode()) if query else (action, json.loads(body or b"{}"))
        with self._lock:
            self.requests.append((action, asked))
            status, text = self.answer or (200, json.dumps(getattr(self, f"_{action}")(asked)))
        data = (_xml(action, status, text) if query else text).encode()
        kind = "text/xml" if query else "application/x-amz-json-1.0"
        headers = [("Content-Type", kind), ("Content-Length", str(len(data)))]
        start(f"{status} X", headers if self.answer else [*headers, ("x-amzn-RequestId", "7a62c49f")])
        return [data]

    def _ReceiveMessage(self, asked: dict[str, Any]) -> dict[str, Any]:
        seen = [handle for handle in self.messages if handle not in self._out][: asked["MaxNumberOfMessages"]]
        if asked.get("VisibilityTimeout") != 0:
            self._out |= {*seen}
        found = [
            {
                "MessageId": handle,
                "ReceiptHandle": handle,
                "Body": self.messages[handle],
                "MD5OfBody": hashlib.md5(self.messages[handle].encode()).hexdigest(),
            }
            for handle in seen
        ]
        return {"Messages": found} if found else {}

    def _DeleteMessageBatch(self, asked: dict[str, Any]) -> dict[str, Any]:
        for entry in asked["Entries"]:
            self.messages.pop(entry["ReceiptHandle"], None)
        return {"Successful": [{"Id": entry["Id"]} for entry in asked["Entries"]], "Failed": []}


def _query(body: str) -> tuple[str, dict[str, Any]]:
    """A request in the query form: its action, and its parameters as the JSON form has them."""
    given = dict(parse_qsl(body, keep_blank_values=True))
    given.pop("Version")
    asked: dict[str, Any] = {}
    for name, value in given.items():
        if name.startswith("DeleteMessageBatchRequestEntry."):
            _, number, key = name.split(".")
            asked.setdefault("Entries", {}).setdefault(int(number), {})[key] = value
        else:
            asked[name] = int(value) if value.isdigit() else value
    if "Entries" in asked:
        asked["Entries"] = [entry for _, entry in sorted(asked["Entries"].items())]
    return asked.pop("Action"), asked


def _xml(action: str, status: int, text: str) -> str:
    """An answer of the JSON form in the query form's XML; what is no JSON stays as it is."""
    try:
        answer = json.loads(text)
    except ValueError:
        return text
    if status != 200:
        code = answer["__type"].rpartition("#")[2].replace("Exception", "")
        error = f"<Type>Sender</Type><Code>{code}</Code><Message>{answer.get('message', '')}</Message>"
        return f"<ErrorResponse><Error>{error}</Error><RequestId>7a62c49f</RequestId></ErrorResponse>"
    items = {"Messages": "Message", "Successful": "DeleteMessageBatchResultEntry"}
    inner = "".join(
        f"<{items[kind]}>{''.join(f'<{key}>{escape(value)}</{key}>' for key, value in one.items())}</{items[kind]}>"
        for kind, found in answer.items()
        for one in found
    )
    metadata = "<ResponseMetadata><RequestId>7a62c49f</RequestId></ResponseMetadata>"
    return f"<{action}Response><{action}Result>{inner}</{action}Result>{metadata}</{action}Response>"


def event(instance_id: str, kind: str = "EC2 Spot Instance Interruption Warning", **more: Any) -> dict[str, Any]:
    """As EventBridge sends it (EC2 User Guide, "Spot Instance interruption notices")."""
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": kind,
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": "2026-11-30T12:00:00Z",
        "region": "us-east-1",
        "resources": [f"arn:aws:ec2:us-east-1a:instance/{instance_id}"],
        "detail": {"instance-id": instance_id, "instance-action": "terminate", **more},
    }
