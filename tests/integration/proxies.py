"""A web proxy on loopback: it forwards http, makes tunnels for https (CONNECT), and wants a password if told so."""

from __future__ import annotations

import base64
import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PAGE = "<html><body>Proxy: this is not for you (you sent %s)</body></html>"


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """A client that had enough is none of ours."""


class Proxy:
    """``asked`` holds what came: ``"CONNECT host:port"``, or ``"POST http://..."``."""

    def __init__(self, user: str = "", password: str = "") -> None:
        self.asked: list[str] = []
        self.secret = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
        self.answers = 0  # with this status and a page of its own, where it is one
        self.hangs_s = 0.0
        self.server = _Quiet(("127.0.0.1", 0), self._handler())
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                if not self.welcome():
                    return
                host, _, port = self.path.rpartition(":")
                with socket.create_connection((host, int(port)), timeout=10) as there:
                    self.send_response(200)
                    self.end_headers()
                    back = threading.Thread(target=_copy, args=(there, self.connection), daemon=True)
                    back.start()
                    _copy(self.connection, there)
                    back.join(10)
                self.close_connection = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not self.welcome():
                    return
                url = urlsplit(self.path)
                there = HTTPConnection(url.netloc, timeout=10)
                headers = {k: v for k, v in self.headers.items() if not k.lower().startswith("proxy-")}
                there.request("POST", url.path or "/", body, headers)
                answer = there.getresponse()
                self.reply(answer.status, answer.read(), answer.getheader("Content-Type") or "")
                there.close()

            def welcome(self) -> bool:
                proxy.asked.append(f"{self.command} {self.path}")
                if proxy.hangs_s:
                    time.sleep(proxy.hangs_s)
                    return False  # whoever asked is gone: passed on, it would come into another test
                given = self.headers.get("Proxy-Authorization") or ""
                status = proxy.answers or (407 if proxy.secret and given != f"Basic {proxy.secret}" else 0)
                if status:
                    secret = base64.b64decode(given.partition(" ")[2]).decode()
                    with suppress(OSError):
                        self.reply(status, (PAGE % secret).encode(), "text/html")
                return not status

            def reply(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
