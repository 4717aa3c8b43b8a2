"""The helper process: kombu, Celery's messaging library, answers requests here, one line of JSON for one.

A broker can hang, kombu tries again for ever where nobody forbids it, and what it leaks grows with every reply queue:
so no process of the daemon imports it, this program does. It is run by path, with whatever Python has kombu, imports
nothing else of ours, and ends with its standard input. The broker's URL, which holds a password, comes with each
request: never in an argument or a variable. While it works for a request the kernel's alarm clock runs, since nobody
may be left to kill it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import ssl
import sys
from typing import Any, Iterator, Mapping, Optional, Sequence

CONNECT_S = 5.0
SOCKET_S = 15.0  # longer than any command of ours takes a Redis that works
POLLING_S = 1.0  # kombu's polling_interval for Redis
# Who consumes from Redis with kombu, if only replies, gives overdue tasks of all workers back to their queues: what is
# overdue by kombu's default (3,600 s) may run by the workers' own setting, and would run twice.
NEVER_RESTORE = {"visibility_timeout": 10**12, "unacked_mutex_key": "elastiq_mutex"}

kombu: Any = None
acts: Any = None  # the module celery_acts
_mailboxes: dict[str, Any] = {}  # by namespace: each has a reply queue of its own


def main() -> None:
    """Answer until there is nothing more to read."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    os.dup2(2, 1)  # whatever a library prints is no answer
    absent = load()
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["timeout_s"])
        answers.write(absent or answer(request))
        answers.write("\n")
        answers.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def load() -> str:
    """Import kombu; the answer to every request if there is none."""
    global kombu, acts
    here = os.path.dirname(os.path.realpath(__file__))
    acts = importlib.import_module("celery_acts")  # of this folder, where a program finds its modules first
    # It has a module celery too, which is not theirs.
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != here]
    try:
        kombu = importlib.import_module("kombu")
        importlib.import_module("kombu.pidbox")
    except ImportError as error:
        return json.dumps({"absent": f"{sys.executable}: {error}"})
    return ""


def answer(request: Mapping[str, Any]) -> str:
    """The answer to one request, without the end of the line; what goes wrong is an answer too."""
    try:
        if request["do"] == "version":
            return json.dumps({"version": f"kombu {kombu.__version__} of {sys.executable}"})
        with Broker(request) as broker:
            return json.dumps(acts.ACTS[request["do"]](broker, request))
    except Exception as error:  # noqa: BLE001 - of whatever kind the libraries raise: it is told, and we go on
        return json.dumps({"error": f"{error}" if isinstance(error, acts.Refusal) else _told(error)})


def _told(error: Exception) -> str:
    said = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


# --------------------------------------------------------------------------- the broker


class Broker:
    """A connection to the broker, for one request."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        url, self.namespace = request["url"], request["namespace"]
        self.reply_s = float(request["reply_s"])
        options = dict(request["options"])
        self.polling_s = float(options.get("polling_interval") or POLLING_S)
        tls: Any = False
        if url.startswith("rediss") and "ssl_cert_reqs" not in url:
            tls = {
                "ssl_cert_reqs": ssl.CERT_REQUIRED,
                "ssl_ca_certs": request.get("ca_file"),
                "ssl_check_hostname": True,
            }
        elif url.startswith("amqps"):
            tls = {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": request.get("ca_file"), "server_hostname": None}
        if url.startswith(("redis", "sentinel")):
            options = {"socket_connect_timeout": CONNECT_S, "socket_timeout": SOCKET_S, **options}
            options.update(retry_on_timeout=False, **NEVER_RESTORE)
        options.update(max_retries=1, interval_start=0, interval_step=0)
        self.connection = kombu.Connection(url, connect_timeout=CONNECT_S, ssl=tls, transport_options=options)
        self.is_redis = self.connection.transport.driver_type == "redis"

    def __enter__(self) -> Broker:
        self.connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        self.channel = self.connection.default_channel
        kept = _mailboxes.setdefault(
            self.namespace, kombu.pidbox.Mailbox(self.namespace, type="fanout", accept=["json"])
        )
        self.mailbox = kept(self.connection)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # the answer is there already; Redis would keep the queue's name
            self.mailbox.get_reply_queue()(self.channel).delete()
        self.connection.close()

    def ask(
        self, command: str, names: Optional[Sequence[str]] = None, at_most: Optional[int] = None, **arguments: Any
    ) -> dict[str, list[Any]]:
        """The answers of these processes, or of all that answer within ``reply_s`` of each other, by their names.
        ``at_most``: how many there can be."""
        found: dict[str, list[Any]] = {}

        def take(body: Mapping[str, Any]) -> None:
            for name, said in body.items():
                found.setdefault(name, []).append(said)
            all_named = names is not None and found.keys() >= set(names)
            if all_named or (at_most is not None and sum(map(len, found.values())) >= at_most):
                raise _Enough

        if at_most != 0 and (names is None or names):
            # A limit of its own: kombu's would count late answers to earlier questions too.
            more = {"reply": True, "timeout": self.reply_s, "limit": 1_000_000, "callback": take}
            with contextlib.suppress(_Enough):
                self.mailbox._broadcast(command, arguments, destination=names, channel=self.channel, **more)
        return {name: said for name, said in found.items() if names is None or name in names}

    @contextlib.contextmanager
    def new_channel(self) -> Iterator[Any]:
        """One that may break: RabbitMQ closes it with an error."""
        channel = self.connection.channel()
        try:
            yield channel
        finally:
            with contextlib.suppress(*self.connection.channel_errors, *self.connection.connection_errors):
                channel.close()

    def declared(self, queue: str) -> tuple[Optional[int], int, int]:
        """Of a queue of RabbitMQ's: the messages that are ready (None: there is no such queue), its consumers, and the
        code of an error."""
        with self.new_channel() as channel:
            try:
                said = channel.queue_declare(queue=queue, passive=True)
            except self.connection.channel_errors as error:
                return None, 0, int(getattr(error, "code", 0) or 0)
            return said.message_count, said.consumer_count, 0

    @property
    def redis(self) -> Any:
        """A client without kombu's way of writing the prefix before some keys."""
        return importlib.import_module("redis").Redis(connection_pool=self.channel.pool)

    def key(self, name: str) -> str:
        return f"{getattr(self.channel, 'global_keyprefix', '')}{name}"

    @property
    def bindings(self) -> str:
        return self.key(self.channel.keyprefix_queue % f"{self.namespace}.pidbox")


class _Enough(Exception):
    pass


if __name__ == "__main__":
    main()
