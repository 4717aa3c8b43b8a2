"""A small HTTP server for one page: GET and HEAD, one request a connection, a few connections at a time.

It is meant for this machine's own address, and a browser that shows other sites too. So it answers only to names of
this machine that are known (a page of another site that has its name resolved to this address gets nothing: DNS
rebinding), lets no other page read or frame what it sends, and lets its own page load and run nothing but its own
files. Who may connect may read: that is for the address, a proxy or a firewall to decide.
"""

from __future__ import annotations

import contextlib
import gzip
import ipaddress
import logging
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable, Collection, Mapping, Optional
from urllib.parse import parse_qs, urlsplit

log = logging.getLogger(__name__)

CLIENTS = 16
REQUEST_S = 10.0  # for a connection as a whole
A_SECOND = 50  # connections, on average: what knocks faster waits, and does not take the loop's time
_REAP_S = 1.0

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}
_PACKED = 1400  # bytes: what is less is one packet anyway
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:[0-9]{1,5})?", re.IGNORECASE)

Parameters = Mapping[str, str]
# The kind of what a path leads to, and the function that gives it; None: there is nothing for these parameters.
Resource = tuple[str, Callable[[Parameters], Optional[bytes]]]


def address_of(text: str) -> tuple[str, int]:
    """Host and port of ADDRESS:PORT, as 127.0.0.1:8642 or [::1]:8642. Raises ValueError with a complaint."""
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host if ":" not in host else ""
    host = "127.0.0.1" if host.lower() == "localhost" else host
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        if re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536:
            return host, int(port)
    form = "write for example 127.0.0.1:8642 or [::1]:8642"
    if re.fullmatch(r"(?=.*[a-z])[a-z0-9_.-]+", host, re.IGNORECASE):
        raise ValueError(f"has the name {host} for an address, {form}")
    raise ValueError(f"is no ADDRESS:PORT, {form}")


def is_host(name: str) -> bool:
    """Whether a request can be for a host of that name: without scheme, port and path, no pattern."""
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name.strip("[]")))
    return re.fullmatch(r"[a-z0-9_.-]*[a-z0-9_-]", name, re.IGNORECASE) is not None


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


class PageServer:
    """Serves ``resources`` by their paths until `close`. ``hosts`` are further names that requests may be for.

    Raises OSError if the address cannot be listened on. Port 0 takes one that is free.
    """

    def __init__(self, host: str, port: int, resources: Mapping[str, Resource], hosts: Collection[str] = ()) -> None:
        self.resources = resources
        self._names = {"localhost", host.lower(), *(name.lower().strip("[]") for name in hosts)}
        self._any = ipaddress.ip_address(host).is_unspecified  # then no name is known, but all addresses are ours
        self._lock = threading.Lock()
        self._clients: dict[socket.socket, float] = {}  # since when, the oldest first
        self._closed = False
        self._listener = socket.create_server((host, port), family=_family(host), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="elastiq web", daemon=True).start()

    def close(self) -> None:
        """Take no more clients; answers under way may still be sent."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def serves(self, host: str) -> bool:
        """Whether a request with this Host header is for us."""
        found = _HOST.fullmatch(host)
        if not found:
            return False
        name = found[1].strip("[]").lower().rstrip(".")
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self._any

    def _accept(self) -> None:
        credit, before = float(A_SECOND), time.monotonic()
        while not self._closed:
            try:
                self._listener.settimeout(_REAP_S if self._clients else None)
                client, _ = self._listener.accept()
            except socket.timeout:
                self._drop(time.monotonic() - REQUEST_S)
                continue
            except OSError as error:
                if not self._closed:
                    log.warning("web: cannot accept: %s", error)
                    time.sleep(1.0)  # out of descriptors: do not spin
                continue
            if len(self._clients) >= CLIENTS:
                self._drop(min(list(self._clients.values()), default=0.0))
            self._begin(client)
            now = time.monotonic()
            credit, before = min(A_SECOND, credit + (now - before) * A_SECOND) - 1.0, now
            if credit < 0:
                time.sleep(-credit / A_SECOND)

    def _drop(self, until: float) -> None:
        """End the connections that have been there since then or for longer: their own threads close them."""
        with self._lock:
            for client in [client for client, since in self._clients.items() if since <= until]:
                del self._clients[client]
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def _begin(self, client: socket.socket) -> None:
        with self._lock:
            self._clients[client] = time.monotonic()
        try:
            threading.Thread(target=self._serve, args=(client,), name="elastiq web client", daemon=True).start()
        except RuntimeError as error:  # the system has no thread left
            log.warning("web: %s", error)
            self._end(client)

    def _serve(self, client: socket.socket) -> None:
        try:
            client.settimeout(REQUEST_S)
            _Request(client, self)
        except OSError:
            pass  # it went away, or was too slow: its own affair
        except Exception:  # a fault of ours: the log must have it, and the others go on
            log.exception("web: fault in a request")
        finally:
            self._end(client)

    def _end(self, client: socket.socket) -> None:
        with self._lock:
            self._clients.pop(client, None)
        client.close()


class _Request(BaseHTTPRequestHandler):
    """One request and its answer."""

    protocol_version = "HTTP/1.1"

    def __init__(self, client: socket.socket, pages: PageServer) -> None:
        self._pages = pages
        super().__init__(client, ("", 0), None)  # type: ignore[arg-type]

    def handle(self) -> None:
        self.close_connection = True
        self.handle_one_request()

    def handle_expect_100(self) -> bool:
        return True  # whatever would follow is not read

    def __getattr__(self, name: str) -> Any:
        """What is done by any method but GET and HEAD."""
        if name.startswith("do_"):
            return lambda: self._answer(405, {"Allow": "GET, HEAD"})
        raise AttributeError(name)

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not self._pages.serves(hosts[0]):
            self._answer(421, text="This is not the name of the machine: see `hosts` in docs/web.md.\n")
            return
        try:
            url = urlsplit(self.path)
            parameters = {name: values[-1] for name, values in parse_qs(url.query, max_num_fields=8).items()}
        except ValueError:
            self._answer(400)
            return
        resource = self._pages.resources.get(url.path) if not url.netloc else None
        body = resource[1](parameters) if resource else None
        if resource is None or body is None:
            self._answer(404)
        else:
            self._send(200, {"Content-Type": resource[0]}, body)

    do_HEAD = do_GET

    def send_error(self, code: int, message: Optional[str] = None, explain: Optional[str] = None) -> None:
        """Of what is no request; nothing of it is sent back."""
        self._answer(code)

    def _answer(self, code: int, headers: Mapping[str, str] = {}, text: str = "") -> None:
        text = text or f"{code} {self.responses.get(code, ('',))[0]}\n"
        self._send(code, {"Content-Type": "text/plain; charset=utf-8", **headers}, text.encode())

    def _send(self, code: int, headers: Mapping[str, str], body: bytes) -> None:
        if len(body) > _PACKED and _GZIP.search(self.headers.get("Accept-Encoding", "")):
            body = gzip.compress(body, 4)  # a tenth of it, for one who looks from afar
            headers = {**headers, "Content-Encoding": "gzip"}
        self.send_response(code)
        for name, value in {**headers, **HEADERS, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "elastiq"

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
