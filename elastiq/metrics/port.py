"""The metrics on a TCP port, by prometheus-client: it knows the forms that scrapers ask for.

The server is the standard library's with prometheus-client's handler, not prometheus-client's own function: that
cannot be ended in the versions that distributions have (before 0.19), and begins a thread for everybody who knocks.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any, Callable, Iterator

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import Metric

from elastiq.metrics.families import FAMILIES, Values, samples
from elastiq.web.server import address_of

log = logging.getLogger(__name__)

CLIENTS = 8
REQUEST_S = 5.0  # without a byte from the client


class Port:
    """Serves what ``read`` gives, until `close`. Raises OSError if the address cannot be listened on."""

    def __init__(self, listen: str, read: Callable[[], Values]) -> None:
        registry = CollectorRegistry()
        registry.register(Collector(read))
        handler = type("Handler", (MetricsHandler.factory(registry),), {"timeout": REQUEST_S})
        host, port = address_of(listen)
        self._server = _Server(host, port, handler)
        self.port = int(self._server.server_address[1])
        self._closed = False
        threading.Thread(target=self._accept, name="elastiq metrics", daemon=True).start()

    def close(self) -> None:
        """Take no more clients; answers under way may still be sent."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._server.socket.close()

    def _accept(self) -> None:
        """Not `serve_forever`, which wakes up twice a second for nothing."""
        while not self._closed:
            try:
                self._server.process_request(*self._server.get_request())
            except (OSError, RuntimeError) as error:  # out of descriptors, or of threads
                if not self._closed:
                    log.warning("metrics: cannot accept: %s", error)
                    time.sleep(1.0)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int, handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._lock = threading.Lock()
        self._clients: dict[socket.socket, None] = {}  # the oldest first
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Without `HTTPServer`'s look-up of the host's name, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own; of too many, the oldest one is dropped."""
        with self._lock:
            while len(self._clients) >= CLIENTS:
                oldest = next(iter(self._clients))
                del self._clients[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._clients[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("metrics: a request failed", exc_info=True)  # it went away, or was too slow: its own affair


class Collector:
    """See prometheus_client's "custom collectors"."""

    def __init__(self, read: Callable[[], Values]) -> None:
        self._read = read

    def describe(self) -> list[Metric]:
        """Nothing: else prometheus-client would collect once to find out."""
        return []

    def collect(self) -> Iterator[Metric]:
        values = self._read()
        for name, family in FAMILIES.items():
            if name in values:
                # prometheus-client gives a counter's name its `_total` itself
                bare = name[: -len("_total")] if family.kind == "counter" else name
                metric = Metric(bare, family.help, family.kind)
                for sample, labels, value in samples(family, values[name]):
                    metric.add_sample(sample, labels, value)
                yield metric
