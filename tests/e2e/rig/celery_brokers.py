"""Brokers of Celery's, of Debian's packages: Redis or RabbitMQ on a head host, and a cloud whose instances run workers.

The workers are Debian's Celery (5.2) in the instance's own system, or that of the machine's Python (PyPI's newest) in
the instance's network and process tree: `celery_image`. What the tasks do is noted in another Redis (`NOTES_PORT`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping

from tests.e2e.rig import celery_app, fleet, hosts, places, roots
from tests.e2e.rig.client import Ec2
from tests.e2e.rig.process import RigError, poll

NOTES_PORT = 6380
PASSWORD = "s3cr/t"  # of the broker: written as s3cr%2Ft in a URL
URLS = {
    "redis": f"redis://:s3cr%2Ft@{places.HUB_IP}:6379/3",
    "rabbitmq": f"amqp://elq:s3cr%2Ft@{places.HUB_IP}:5672/jobs",
}
RECIPE = roots.Recipe("bookworm", ("redis-server", "rabbitmq-server", "python3-celery", "python3-redis"))
_REDIS = ("redis-server", "--bind", "0.0.0.0", "--protected-mode", "no")
_RABBIT = {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +S 2:2", "HOME": "/var/lib/rabbitmq"}


@dataclass
class Brokers:
    """The head with one kind of broker, and its cloud."""

    kind: str
    head: hosts.Host
    root: Path
    cloud: Ec2

    @classmethod
    def start(cls, kind: str) -> Brokers:
        """`RigError` if it does not come up."""
        root = roots.root(RECIPE)
        head = hosts.Host(root, "head", places.HUB_IP)
        head.start()
        head.start_program([*_REDIS, "--port", NOTES_PORT, "--save", ""], "/var/log/notes.out")
        made = cls(kind, head, root, fleet.start_cloud(head, root, "tests.e2e.rig.celery_image"))
        made.start_broker()
        if kind == "rabbitmq":
            for words in ("add_user elq " + PASSWORD, "add_vhost jobs", "set_permissions -p jobs elq .* .* .*"):
                made.rabbitmqctl(*words.split())
        return made

    @property
    def url(self) -> str:
        return URLS[self.kind]

    # ------------------------------------------------------------- the broker

    def start_broker(self) -> None:
        if self.kind == "redis":
            kept = ("--dir", "/var/lib/redis", "--appendonly", "yes", "--appendfsync", "always")
            self.head.start_program([*_REDIS, "--requirepass", PASSWORD, *kept], "/var/log/redis.out", "redis")
            answers = poll(lambda: "PONG" in self.redis("ping"), 60, 0.2)
        else:
            self.head.run("install", "-d", "-o", "rabbitmq", "-g", "rabbitmq", "/var/lib/rabbitmq", "/var/log/rabbitmq")
            self.head.start_program(["rabbitmq-server"], "/var/log/rabbitmq.out", "rabbitmq", _RABBIT)
            answers = poll(lambda: self.head.ask("rabbitmqctl", "await_startup").returncode == 0, 60, 0.2)
        if not answers:
            raise RigError(f"{self.kind} does not answer")

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Without the broker. Redis is killed, with everything on its disk; RabbitMQ, which has not, stops in order."""
        if self.kind == "redis":
            pattern = "redis-server .*:6379"
            self.head.ask("pkill", "-KILL", "-f", pattern)
            if not poll(lambda: self.head.ask("pgrep", "-f", pattern).returncode, 10):
                raise RigError("redis does not end")
        else:
            self.rabbitmqctl("stop_app")
        yield
        if self.kind == "redis":
            self.start_broker()
        else:
            self.rabbitmqctl("start_app")

    def redis(self, *words: object) -> str:
        """What redis-cli prints of the broker."""
        return self.head.ask("redis-cli", "-a", PASSWORD, "-n", 3, "--no-auth-warning", *words).stdout

    def rabbitmqctl(self, *words: str) -> str:
        return self.head.run("rabbitmqctl", "--quiet", *words)

    # ------------------------------------------------------------- tasks

    def send(self, *tasks: Mapping[str, Any]) -> None:
        """Send tasks as an application does; each is what `celery_app.send` takes."""
        done = subprocess.run(
            self.head.in_its_network([sys.executable, celery_app.__file__, self.url, json.dumps(tasks)]),
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if done.returncode:
            raise RigError(f"no task could be sent: {done.stderr[-2000:]}")

    def notes(self, what: str) -> Counter[str]:
        """How often each task has "started" or "ended"."""
        said = self.head.run("redis-cli", "-p", NOTES_PORT, "lrange", what, 0, -1)
        return Counter(said.split())

    def worker(self, address: str) -> hosts.Host:
        """The host of the instance with this address."""
        return fleet.host_at(self.head, self.root, address)

    def set_defaults(self, **values: object) -> None:
        """What the workers of instances that boot from now on are like."""
        (places.base() / "hosts" / self.head.label / "celery.json").write_text(
            json.dumps({"broker": self.url, **values})
        )

    def reset(self) -> None:
        """No task, no instance, no queue."""
        self.cloud.reset()
        self.set_defaults()
        self.head.run("redis-cli", "-p", NOTES_PORT, "flushall")
        if self.kind == "redis":
            self.redis("flushall")
        else:
            for queue in self.rabbitmqctl("list_queues", "-p", "jobs", "name").split()[1:]:
                self.head.ask("rabbitmqctl", "--quiet", "delete_queue", "-p", "jobs", queue)

    def stop(self) -> None:
        self.head.kill()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(places.base() / "hosts" / self.head.label)

    def evidence(self) -> str:
        """For a person who looks at a test that failed."""
        parts = [f"--- instances\n{self.cloud.instances()}"]
        for log in sorted((places.base() / "hosts" / self.head.label).glob("celery-*.log")):
            parts.append(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
        return "\n".join(parts)
