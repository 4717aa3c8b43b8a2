"""The keys of the section [celery]; elastiq.conf.example says what they mean."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import Resources
from elastiq.options import Kind, Option, above_zero

# What kombu calls the transports whose brokers keep Celery's remote control: SQS, files and the like do not.
SCHEMES = ("redis", "rediss", "redis+socket", "sentinel", "amqp", "amqps", "pyamqp")
SIZES = ("cpus", "memory_mb", "disk_mb", "gpus")
VISIBILITY_TIMEOUT_S = 3600.0  # kombu's default for Redis


@dataclass(frozen=True)
class TaskQueue:
    """A queue of tasks: what each of them takes of a machine, and the only pools whose workers consume it (in lower
    case; empty: any)."""

    name: str
    request: Resources
    pools: tuple[str, ...] = ()


def task_queue(line: str) -> TaskQueue:
    """A line ``NAME [cpus=N] [memory_mb=N] [disk_mb=N] [gpus=N] [pools=NAME,NAME]``. Raises ValueError."""
    name, *words = line.split()
    sizes: dict[str, float] = {"cpus": 1.0}
    pools: tuple[str, ...] = ()
    given: set[str] = set()
    if "=" in name or name.startswith("elastiq."):
        raise ValueError(f"`{line[:60]}` does not begin with the name of a queue; elastiq. is for its own")
    for word in words:
        key, _, value = word.partition("=")
        if key in given:
            raise ValueError(f"`{line[:60]}` has {key} twice, remove one")
        given.add(key)
        if key == "pools" and value:
            pools = tuple(sorted({pool.lower() for pool in value.split(",") if pool}))
        elif key in SIZES and re.fullmatch(r"\d+(\.\d+)?", value) and (float(value) > 0 or key != "cpus"):
            sizes[key] = float(value)
        else:
            known = f"{'=, '.join(SIZES)}= with a number, or pools=NAME,NAME"
            raise ValueError(f"`{word[:60]}` is not known: write {known}")
    return TaskQueue(name, Resources(**sizes), pools)


def _queues(lines: Sequence[str]) -> str:
    names = []
    for line in lines:
        try:
            names.append(task_queue(line).name)
        except ValueError as error:
            return str(error)
    twice = [name for name in names if names.count(name) > 1]
    return f"has the queue `{twice[0][:60]}` twice, remove one" if twice else ""


def _url(value: str) -> str:
    scheme, mark, _ = value.strip().partition("://")
    if mark and scheme not in SCHEMES:
        return f"is of a kind that elastiq cannot ask, write one with {'://, '.join(SCHEMES)}://"
    if any(re.search("[/?#]", one.partition("://")[2].rpartition("@")[0]) for one in value.split(";")):
        return "has a / ? or # before its last @: in a password they are written as %2F, %3F and %23"
    return "" if mark else "is no URL, write one as redis://HOST:6379/0 or amqp://USER:PASSWORD@HOST:5672/VHOST"


def _transport_options(value: str) -> str:
    try:
        return "" if isinstance(json.loads(value), dict) else "is no JSON object"
    except ValueError:
        return 'is no JSON, write it as {"global_keyprefix": "myapp:"}'


OPTIONS: tuple[Option, ...] = (
    Option("broker_url", Kind.TEXT, secret=True, required=True, unless="broker_url_file", check=_url),
    Option("broker_url_file", Kind.PATH, excludes=("broker_url",)),
    Option("broker_ca_file", Kind.PATH),
    Option("broker_transport_options", Kind.TEXT, secret=True, check=_transport_options),
    Option("control_exchange", Kind.TEXT, "celery"),
    Option("queues", Kind.LINES, ("celery",), check=_queues),
    Option("prefetched", Kind.CHOICE, "kept", choices=("kept", "demand")),
    Option("solo_pool", Kind.BOOL, False),
    Option("reply_timeout_s", Kind.SECONDS, 2.0, unit="seconds", check=above_zero),
    Option("gone_after_s", Kind.SECONDS, 120.0, unit="seconds"),
    Option("command_timeout_s", Kind.SECONDS, 45.0, unit="seconds", check=above_zero),
)


def transport_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Celery's own broker_transport_options."""
    options: dict[str, Any] = json.loads(values.get("broker_transport_options") or "{}")
    return options


def broker_url(values: Mapping[str, Any]) -> str:
    """Where the broker is, with its password; read anew each time, since a password may be changed. Raises
    `SourceError`."""
    path = values.get("broker_url_file")
    if not path:
        return str(values["broker_url"])
    try:
        with open(path, encoding="utf-8") as file:
            url = file.read(10_000).strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SourceError(f"broker_url_file {path} cannot be read: {why}") from None
    if complaint := _url(url):
        raise SourceError(f"broker_url_file: what {path} holds {complaint}")
    return url
