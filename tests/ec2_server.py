"""An EC2 API over real HTTP for tests: moto behind a gate that can refuse, garble, delay and lose answers.

Without moto behind it every answer has to be scripted. A rule applies to the next request of its action.
"""

from __future__ import annotations

import io
import pickle
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Optional
from urllib.parse import parse_qsl, urlencode
from xml.sax.saxutils import escape

from werkzeug.serving import WSGIRequestHandler, make_server

from elastiq.interfaces import Intent, Offer, Owner, Pool
from elastiq.plugins.cloud.ec2 import EC2Cloud
from elastiq.plugins.cloud.ec2_client import SlimFiles

_read_model = SlimFiles._model
_models: dict[Any, bytes] = {}  # by what makes them differ


def _model(files: SlimFiles, path: str) -> dict[str, Any]:
    key = (path, files._api_version, tuple(files._operations), files._teach)
    if key not in _models:
        _models[key] = pickle.dumps(_read_model(files, path))
    model: dict[str, Any] = pickle.loads(_models[key])
    return model


# To read botocore's model takes half of the time in which a client is made, and every test makes one.
SlimFiles._model = _model  # type: ignore[assignment,method-assign]

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


@dataclass(frozen=True)
class Rule:
    """What happens to one request; ``effect`` lets moto do it first and throws its answer away."""

    body: Any = b""  # str or bytes
    status: int = 200
    effect: bool = False
    drop: bool = False  # close the connection without an answer
    cut: int = 0  # announce so many bytes more than are sent
    delay_s: float = 0.0
    passes: bool = False  # let moto answer
    limit: Optional[int] = None  # of instances, in RunInstances
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/xml"),)
    pieces: Optional[Callable[[], Iterable[bytes]]] = None  # sent as they come, instead of the head and the body


def error(code: str, message: str = "refused", status: int = 400, **more: Any) -> Rule:
    """EC2's own form of an error."""
    body = (
        f"{HEAD}<Response><Errors><Error><Code>{code}</Code><Message>{escape(message)}</Message></Error></Errors>"
        "<RequestID>7a62c49f</RequestID></Response>"
    )
    return Rule(body, status, **more)


def answer(action: str, inner: str = "") -> Rule:
    """EC2's own form of a success."""
    return Rule(
        f'{HEAD}<{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<requestId>7a62c49f</requestId>{inner}</{action}Response>"
    )


def instances(*items: str, token: str = "") -> Rule:
    """DescribeInstances with one reservation of these instances, each the inside of an item."""
    listed = "".join(f"<item>{item}</item>" for item in items)
    more = f"<nextToken>{token}</nextToken>" if token else ""
    inner = f"<reservationSet><item><instancesSet>{listed}</instancesSet></item></reservationSet>{more}"
    return answer("DescribeInstances", inner)


class _Quiet(WSGIRequestHandler):
    def date_time_string(self, timestamp: Optional[float] = None) -> str:
        """What goes into the head of an answer."""
        return super().date_time_string(time.time() + getattr(self.server, "ahead_s", 0.0))

    def log_request(self, *args: Any) -> None:
        pass


@dataclass
class EC2Server:
    """A running server; ``requests`` holds the parameters of every request, in order."""

    behind: Optional[Callable[..., Iterable[bytes]]] = None  # moto, or another WSGI application
    tls: Optional[tuple[str, str]] = None  # files of a certificate and its key
    as_asked: bool = False  # what is behind gets every request unchanged
    requests: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rules: dict[str, deque[Rule]] = {}
        self._lock = threading.Lock()
        self._server = make_server(
            "127.0.0.1", 0, self._serve, threaded=True, request_handler=_Quiet, ssl_context=self.tls
        )
        if self.tls:  # in the thread of its connection: an old urllib3 leaves one open that it does not trust
            self._server.socket.do_handshake_on_connect = False  # type: ignore[union-attr]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def script(self, action: str, *rules: Rule) -> None:
        """What happens to the next requests of this action, one rule each."""
        self._rules.setdefault(action, deque()).extend(rules)

    def set_clock(self, ahead_s: float) -> None:
        """The time that the answers' heads tell, until `forget`."""
        self._server.ahead_s = ahead_s  # type: ignore[attr-defined]

    def forget(self) -> None:
        """The rules that are left, and what was asked."""
        self.set_clock(0.0)
        with self._lock:
            self._rules.clear()
            self.requests.clear()
            self.headers.clear()

    def asked(self, action: str) -> list[dict[str, str]]:
        return [request for request in self.requests if request["Action"] == action]

    def _serve(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        parameters = dict(parse_qsl(body.decode(), keep_blank_values=True))
        with self._lock:
            self.requests.append(parameters)
            self.headers.append({k[5:]: v for k, v in environ.items() if k.startswith("HTTP_")})
            waiting = self._rules.get(parameters.get("Action", ""))
            rule = waiting.popleft() if waiting else Rule(passes=True)
        if rule.delay_s:
            time.sleep(rule.delay_s)
        if rule.passes or rule.effect:
            answered = self._moto(environ, parameters, rule, start if rule.passes else lambda *a: None)
            if rule.passes:
                return answered
        if rule.pieces:
            with suppress(OSError):  # the client had enough
                for piece in rule.pieces():
                    environ["werkzeug.socket"].sendall(piece)
        if rule.drop or rule.pieces:
            with suppress(OSError):
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            start("200 X", [])
            return []
        data = rule.body.encode() if isinstance(rule.body, str) else rule.body
        start(f"{rule.status} X", [*rule.headers, ("Content-Length", str(len(data) + rule.cut))])
        return [data]

    def _moto(
        self, environ: dict[str, Any], parameters: dict[str, str], rule: Rule, start: Callable[..., Any]
    ) -> Iterable[bytes]:
        if self.behind is None:
            start("500 X", [("Content-Type", "text/plain")])
            return [f"no rule for {parameters.get('Action')}".encode()]
        if parameters.get("Action") == "RunInstances" and not self.as_asked:  # moto makes MinCount instances
            most = int(parameters["MaxCount"])
            parameters = {**parameters, "MinCount": str(min(most, rule.limit or most))}

        data = urlencode(parameters).encode()
        environ = {**environ, "wsgi.input": io.BytesIO(data), "CONTENT_LENGTH": str(len(data))}
        return list(self.behind(environ, start))


def moto_server() -> EC2Server:
    """A server with moto behind it, which is one for the whole process."""
    from moto.moto_server.werkzeug_app import create_backend_app

    return EC2Server(create_backend_app("ec2"))


def moto_reservations() -> Iterator[dict[str, Any]]:
    """What moto holds of instances: to make it forget some, which no API can."""
    from moto.ec2.models import ec2_backends

    for account in ec2_backends.values():
        for region in account.values():
            yield region.reservations


KEYS = {"aws_access_key_id": "AKIATEST", "aws_secret_access_key": "verysecretkey"}
OWNER = Owner("cms", "0123456789abcdef" * 2, frozenset({"10.0.0.1"}), "i-head")


def cloud_at(url: str, **options: Any) -> EC2Cloud:
    """A site at a URL, with one pool named "ec2" of flavours small and large."""
    values = {option.name: option.default for option in EC2Cloud.OPTIONS}
    values.update(api_url=url, image_id="ami-12c6146b", connect_timeout_s=5.0, read_timeout_s=5.0, **KEYS)
    values.update(options)
    pool = Pool("ec2", "site", ("m5.small", "m5.large"), EC2Cloud.networks_of(values), options=values)
    return EC2Cloud.from_config((pool,), OWNER)


def intent(count: int = 1, name: str = "i1", network: str = "") -> Intent:
    return Intent(name, f"{OWNER.token_prefix}{name}", Offer("ec2", "m5.small", network), count, 0.0)
