"""A Redis broker with Celery workers behind it, in this process: what kombu's client needs of it, over a real socket.

The workers are no processes: they answer remote control as Celery 5 does, from what the test says of them. What they
consume and run is in Redis's own structures as kombu writes them: lists, ``unacked``, ``_kombu.binding.*``.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import socket
import socketserver
import ssl
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

PIDBOX = "celery.pidbox"
SEPARATOR = "\x06\x16"
_numbers = itertools.count(1)


@dataclass
class FakeWorker:
    """One worker process. ``queues`` are those that it consumes; ``tasks`` are by the state that Celery tells."""

    name: str
    address: str
    slots: int = 4
    queues: list[str] = field(default_factory=lambda: ["celery"])
    tasks: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {"scheduled": [], "reserved": [], "active": []}
    )
    answers: int = 1  # how many answer by its name
    connected: bool = True
    starts: int = 0
    solo: bool = False
    prefetch: int = 4
    at_cancel: Optional[Callable[[FakeWorker], None]] = None
    refuses: bool = False
    began: float = field(default_factory=time.time)

    def control(self, method: str, arguments: dict[str, Any]) -> Any:
        """The answer to one command of remote control."""
        if method in self.tasks:
            told = self.tasks[method]
            return [{"eta": None, "priority": 6, "request": task} for task in told] if method == "scheduled" else told
        if method == "stats":
            pool = {"max-concurrency": self.slots, "processes": [1] if self.solo else [2, 3]}
            total = {"tasks.work": self.starts}
            up_s = int(60 + time.time() - self.began)
            return {"pool": pool, "total": total, "pid": 1, "prefetch_count": self.prefetch, "uptime": up_s}
        if method == "active_queues":
            return [{"name": queue, "exchange": {"name": queue}, "routing_key": queue} for queue in self.queues]
        if method == "ping":
            return {"ok": "pong"}
        if method == "query_task":
            found = {task["id"]: [state, task] for state, tasks in self.tasks.items() for task in tasks}
            return {name: found[name] for name in arguments["ids"] if name in found}
        if self.refuses:
            return {"error": f"KeyError({method!r})"}
        queue = arguments["queue"]
        if method == "cancel_consumer":
            self.queues = [one for one in self.queues if one != queue]
            if self.at_cancel:
                started, self.at_cancel = self.at_cancel, None
                started(self)
        elif method == "add_consumer" and queue not in self.queues:
            self.queues.append(queue)
        return {"ok": f"{method} {queue}"}


class FakeBroker:
    """``lists``, ``sets`` and ``hashes`` are what Redis holds; ``workers`` are by the names of their processes."""

    def __init__(self, prefix: str = "", separator: str = SEPARATOR, tls: Optional[ssl.SSLContext] = None) -> None:
        self.prefix, self.separator, self.tls = prefix, separator, tls  # global_keyprefix and sep
        self.forbidden: set[str] = set()  # commands that the ACL does not allow
        self.lists: dict[str, list[str]] = {}
        self.sets: dict[str, set[str]] = {}
        self.hashes: dict[str, dict[str, str]] = {}
        self.delivered_at: dict[str, float] = {}  # by the tags in ``unacked``: its index
        self.workers: dict[str, FakeWorker] = {}
        self.run_id, self.up_s, self.password = uuid.uuid4().hex, 10_000, ""
        self.commands: list[str] = []
        self.blocks_s = 0.02  # for how long BRPOP waits at most
        self.fault: str = ""  # "refuse", "garble" or "hang": what every command meets meanwhile
        self.lock = threading.RLock()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError):
                    _Client(outer, self.rfile, self.wfile, self.connection).serve()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, allow_reuse_address = True, True

            def handle_error(self, *_: object) -> None: ...

            def finish_request(self, request: Any, client_address: Any) -> None:
                """In the thread of the connection: a client that does not trust us lets the handshake fail."""
                if tls is not None:
                    request = tls.wrap_socket(request, server_side=True)
                super().finish_request(request, client_address)

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        secret = f":{self.password}@" if self.password else ""
        return f"redis{'s' if self.tls else ''}://{secret}127.0.0.1:{self._server.server_address[1]}/0"

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    # ---- what the test does

    def message(self, queue: str, name: str = "tasks.work") -> tuple[str, str]:
        """A task's id and its message as kombu writes it."""
        number = f"{next(_numbers):08d}-0000-4000-8000-000000000000"
        properties = {"correlation_id": number, "delivery_info": {"exchange": "", "routing_key": queue}}
        headers = {"id": number, "task": name, "lang": "py"}
        return number, json.dumps({"body": "e30=", "headers": headers, "properties": properties})

    def send(self, queue: str = "celery", count: int = 1, priority: int = 0, name: str = "tasks.work") -> None:
        with self.lock:
            key = self.prefix + (f"{queue}{self.separator}{priority}" if priority else queue)
            self.lists.setdefault(key, [])[:0] = [self.message(queue, name)[1] for _ in range(count)]

    def add_worker(self, name: str, address: str, **more: Any) -> FakeWorker:
        with self.lock:
            worker = self.workers[name] = FakeWorker(name, address, **more)
            self.names.add(self._member(name))
            return worker

    def start(self, worker: FakeWorker, state: str = "active", queue: str = "celery", late: bool = True) -> str:
        """Give it a task; ``late``: it acknowledges it when it is done."""
        with self.lock:
            number, message = self.message(queue)
            info = {"exchange": "", "routing_key": queue, "priority": 0, "redelivered": False}
            acknowledged = state == "active" and not late
            task = {"id": number, "name": "tasks.work", "acknowledged": acknowledged, "delivery_info": info}
            worker.tasks[state].append({**task, "args": ["a secret argument"]})
            worker.starts += state == "active"
            if not acknowledged:
                self.unacked[number] = json.dumps([json.loads(message), "", queue])
                self.delivered_at[number] = time.time()
            return number

    def end(self, worker: FakeWorker) -> None:
        """One of its tasks is done."""
        with self.lock:
            state = next(state for state in ("active", "reserved", "scheduled") if worker.tasks[state])
            self.unacked.pop(worker.tasks[state].pop()["id"], None)

    def kill(self, worker: FakeWorker, cleanly: bool = False) -> None:
        with self.lock:
            del self.workers[worker.name]
            if cleanly:
                self.names.discard(self._member(worker.name))

    @property
    def names(self) -> set[str]:
        """The processes that Redis knows, as kombu writes them."""
        return self.sets.setdefault(f"{self.prefix}_kombu.binding.{PIDBOX}", set())

    @property
    def unacked(self) -> dict[str, str]:
        return self.hashes.setdefault(f"{self.prefix}unacked", {})

    def _member(self, name: str) -> str:
        return self.separator.join(["", "", f"{name}.{PIDBOX}"])


class _Error(Exception):
    pass


class _Client:
    """One connection: commands as arrays of RESP, answers in the version that the client asked for."""

    def __init__(self, broker: FakeBroker, rfile: Any, wfile: Any, connection: socket.socket) -> None:
        self.broker, self.rfile, self.wfile, self.connection = broker, rfile, wfile, connection
        self.queued: Optional[list[list[str]]] = None
        self.version = 2

    def serve(self) -> None:
        while self.rfile.peek(1)[:1] == b"*":  # else it speaks another protocol, or has gone
            line = self.rfile.readline()
            words = [self._word() for _ in range(int(line[1:]))]
            fault = self.broker.fault
            if fault == "hang":
                while self.broker.fault and not self.broker.ended.wait(0.05):
                    pass
            if fault:
                self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" if fault == "garble" else b"")
                return
            self.wfile.write(self._answer(words))

    def _word(self) -> str:
        size = int(self.rfile.readline()[1:])
        text = self.rfile.read(size)
        self.rfile.read(2)
        return str(text.decode())

    def _answer(self, words: list[str]) -> bytes:
        name = words[0].upper()
        with self.broker.lock:
            self.broker.commands.append(name)
            if name == "MULTI":
                self.queued = []
                return b"+OK\r\n"
            if self.queued is not None and name != "EXEC":
                self.queued.append(words)
                return b"+QUEUED\r\n"
            if name == "EXEC":
                todo, self.queued = self.queued or [], None
                return b"*%d\r\n" % len(todo) + b"".join(self._one(one) for one in todo)
            return self._one(words)

    def _one(self, words: list[str]) -> bytes:
        try:
            return self._encoded(self._do(words[0].upper(), words[1:]))
        except _Error as error:
            return f"-{error}\r\n".encode()

    def _encoded(self, value: Any) -> bytes:
        if value is None:
            return b"_\r\n" if self.version == 3 else b"$-1\r\n"
        if isinstance(value, int):
            return b":%d\r\n" % value
        if isinstance(value, _Simple):
            return f"+{value}\r\n".encode()
        if isinstance(value, str):
            text = value.encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        if isinstance(value, dict):
            sign = b"%%%d\r\n" % len(value) if self.version == 3 else b"*%d\r\n" % (2 * len(value))
            return sign + b"".join(self._encoded(one) for pair in value.items() for one in pair)
        return b"*%d\r\n" % len(value) + b"".join(map(self._encoded, value))

    def _do(self, name: str, args: list[str]) -> Any:
        broker = self.broker
        if name in broker.forbidden or f"{name} {args[0] if args else ''}".upper() in broker.forbidden:
            raise _Error(f"NOPERM this user has no permissions to run the '{name.lower()}' command")
        if name == "HELLO":
            self.version = int(args[0]) if args else 2
            if broker.password and broker.password not in args:
                raise _Error("WRONGPASS invalid username-password pair or user is disabled.")
            return {"server": "redis", "version": "7.0.15", "proto": self.version, "id": 1, "role": "master"}
        if name == "AUTH":
            if args[-1] != broker.password:
                raise _Error("WRONGPASS invalid username-password pair or user is disabled.")
            return _Simple("OK")
        if name in ("SELECT", "PING"):
            return _Simple("OK" if name == "SELECT" else "PONG")
        if name == "CLIENT":
            if args[0].upper() != "LIST":
                return _Simple("OK")
            found = [f"id={n} addr={w.address}:5{n:04d} fd=8 name= db=0 sub=0 psub=1 cmd=psubscribe"
                     for n, w in enumerate(broker.workers.values(), 1) if w.connected
                     for _ in range(max(1, w.answers))]  # fmt: skip
            own = "id=9999 addr=127.0.0.1:40000 fd=9 name= db=0 sub=0 psub=0 cmd=client|list"
            return "\n".join([own, *found]) + "\n"
        if name == "INFO":
            return f"# Server\r\nredis_version:7.0.15\r\nrun_id:{broker.run_id}\r\nuptime_in_seconds:{broker.up_s}\r\n"
        if name in ("EVALSHA", "EVAL"):  # kombu 5.7 binds queues that expire by a script; redis-py unlocks by one
            number = int(args[1])
            keys, rest = args[2 : 2 + number], args[2 + number :]
            if "_kombu.binding." in keys[0] and rest:
                broker.sets.setdefault(keys[0], set()).add(rest[0])
            return 1
        if name == "SCRIPT":
            return [1] * len(args[1:]) if args[0].upper() == "EXISTS" else "0" * 40
        if name == "SET":
            return _Simple("OK")
        return self._data(name, args)

    def _data(self, name: str, args: list[str]) -> Any:
        broker, key = self.broker, args[0]
        items = broker.lists.setdefault(key, []) if name in ("LPUSH", "RPUSH") else broker.lists.get(key, [])
        members = broker.sets.setdefault(key, set())
        values = broker.hashes.get(key, {})
        if name == "LLEN":
            return len(items)
        if name == "LRANGE":
            start, stop = (int(one) if int(one) >= 0 else len(items) + int(one) for one in args[1:])
            return items[start : stop + 1]
        if name == "LPUSH":
            items[:0] = args[1:]
            return len(items)
        if name == "RPOP":
            return items.pop() if items else None
        if name == "BRPOP":
            return self._brpop(args[:-1], float(args[-1]))
        if name == "SADD":
            members.update(args[1:])
            return 1
        if name == "SREM":
            members.difference_update(args[1:])
            return 1
        if name == "SMEMBERS":
            return sorted(members)
        if name == "HLEN":
            return len(values)
        if name == "HMGET":
            return [values.get(one) for one in args[1:]]
        if name == "HGET":
            return values.get(args[1])
        if name == "HDEL":
            return int(values.pop(args[1], None) is not None)
        if name == "ZRANGE":
            return self._ranged({tag: broker.delivered_at[tag] for tag in broker.unacked}, args[1:])
        if name == "ZREVRANGEBYSCORE":
            return self._ranged({tag: broker.delivered_at[tag] for tag in broker.unacked},
                                [*args[1:3], "BYSCORE", "REV"])  # fmt: skip
        if name == "EXISTS":
            return int(bool(items or members or values))
        if name == "DEL":
            return int(any(store.pop(one, None) is not None for one in args
                           for store in (broker.lists, broker.sets, broker.hashes)))  # fmt: skip
        if name == "PUBLISH":
            return self._published(args[1])
        if name in ("PEXPIRE", "EXPIRE", "ZADD", "ZREM"):
            return 1
        raise _Error(f"ERR unknown command '{name}'")

    def _ranged(self, scores: dict[str, float], args: list[str]) -> list[Any]:
        """Of ``unacked_index``; by score, the higher bound comes first."""
        found = sorted(scores.items(), key=lambda pair: pair[1])
        if "BYSCORE" in args:
            found = [(tag, at) for tag, at in found if float(args[1]) <= at <= float(args[0])]
        if self.version == 3:
            return [[tag, f"{at}"] for tag, at in found]
        return [one for tag, at in found for one in (tag, f"{at}")]

    def _brpop(self, keys: list[str], timeout_s: float) -> Any:
        """Without waiting: who would send is not there while the lock is held, and all answers come at once."""
        for key in keys:
            if self.broker.lists.get(key):
                return [key, self.broker.lists[key].pop()]
        self.broker.lock.release()
        try:
            self.broker.ended.wait(min(timeout_s, self.broker.blocks_s))
        finally:
            self.broker.lock.acquire()
        return None

    def _published(self, text: str) -> int:
        """A command of remote control: every worker that it is for answers."""
        message = json.loads(text)
        body = json.loads(base64.b64decode(message["body"]))
        reply = body.get("reply_to")
        for worker in list(self.broker.workers.values()):
            if body["destination"] and worker.name not in body["destination"]:
                continue
            for _ in range(worker.answers):
                said = worker.control(body["method"], body["arguments"])
                if reply:
                    self._reply(reply, body["ticket"], {worker.name: said})
        return len(self.broker.workers)

    def _reply(self, to: dict[str, str], ticket: str, said: Any) -> None:
        for queue in self._bound(to["exchange"], to["routing_key"]):
            properties = {
                "delivery_info": to, "delivery_tag": uuid.uuid4().hex, "body_encoding": "base64", "delivery_mode": 1,
            }  # fmt: skip
            message = {
                "body": base64.b64encode(json.dumps(said).encode()).decode(), "content-encoding": "utf-8",
                "content-type": "application/json", "headers": {"ticket": ticket, "clock": 9}, "properties": properties,
            }  # fmt: skip
            self.broker.lists.setdefault(self.broker.prefix + queue, []).insert(0, json.dumps(message))

    def _bound(self, exchange: str, routing_key: str) -> Iterator[str]:
        for member in self.broker.sets.get(f"{self.broker.prefix}_kombu.binding.{exchange}", set()):
            key, _, queue = member.split(self.broker.separator)
            if key == routing_key:
                yield queue


class _Simple(str):
    pass
