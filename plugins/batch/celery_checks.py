"""What can be found wrong with a broker and its workers before the first drain: `elastiqctl check`. Only reads.

docs/check.md says what each means.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping

from elastiq.interfaces import Check, Looks, SourceError
from elastiq.plugins.batch import celery_tasks, hosts
from elastiq.plugins.batch.celery_helper import GET_IT, NoKombu
from elastiq.plugins.batch.celery_workers import host_of
from elastiq.wording import counted

if TYPE_CHECKING:
    from elastiq.plugins.batch.celery import Celery

DOCS = "docs/batch/celery.md"
REACH = f"see that the broker runs, and that this machine and the broker_url may use it ({DOCS})"

OF_WORKERS = ("names of workers", "prefetching", "pools of workers", "drain")  # nothing is known of these without any

Look = Mapping[str, Any]


def looks(celery: Celery) -> Looks:
    """The checks, each by its subject."""
    found: dict[str, Callable[[Celery, Look, str], Iterable[Check]]] = {
        "queues": _queues,
        "workers": _workers,
        "names of workers": _names,
        "prefetching": _prefetching,
        "pools of workers": _pools,
        "drain": _drain,
    }
    seen = lru_cache(maxsize=1)(lambda: celery.look("asking the workers"))  # one for all; a failure is not kept
    return {
        "kombu": partial(_kombu, celery, "kombu"),
        "secrets": partial(_secrets, celery, "secrets"),
        "broker": partial(_broker, celery, "broker"),
        **{subject: partial(_with_look, celery, seen, look, subject) for subject, look in found.items()},
    }


def _kombu(celery: Celery, subject: str) -> Iterator[Check]:
    try:
        version = celery.helper.ask("asking for kombu", "version")["version"]
    except NoKombu as error:
        yield Check(subject, "error", str(error), GET_IT)
    else:
        yield Check(subject, "ok", version)


def _secrets(celery: Celery, subject: str) -> Iterator[Check]:
    path = celery.helper.url_file
    if path is None:
        yield Check(subject, "ok", "broker_url is in the configuration file")
        return
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        yield Check(subject, "error", f"broker_url_file {path}: {error.strerror}", "let elastiq read it")
        return
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        yield Check(subject, "warning", f"{path} holds a secret and is open to all users", f"chmod o= {path}")
    else:
        yield Check(subject, "ok", f"{path} is not open to all users")


def _broker(celery: Celery, subject: str) -> Iterator[Check]:
    try:
        look = celery.look("asking the broker")
    except NoKombu:
        raise
    except SourceError as error:
        yield Check(subject, "error", str(error), REACH)
        return
    server = look.get("server") or {}
    if "present" in look:
        yield Check(subject, "ok", "RabbitMQ answers")
    elif look.get("connected") is None:
        text = "Redis does not tell who is connected: a worker that died is kept for the visibility timeout"
        yield Check(subject, "warning", text, "let the user of broker_url call them (ACL: +client|list +info)")
    else:
        yield Check(subject, "ok", f"Redis {server.get('version', '')} answers".replace("  ", " "))


def _with_look(
    celery: Celery, seen: Callable[[], Look], look: Callable[[Celery, Look, str], Iterable[Check]], subject: str
) -> Iterator[Check]:
    if subject in OF_WORKERS and not seen()["processes"]:
        yield Check(subject, "unknown", "no worker answers: it is seen with the first one that does")
    else:
        yield from look(celery, seen(), subject)


def _queues(celery: Celery, look: Look, subject: str) -> Iterator[Check]:
    absent = [name for name, (depth, *_) in look["queues"].items() if depth is None]
    consumed = {queue for row in look["processes"].values() for queue in celery_tasks.consumed(row["queues"])}
    others = sorted(consumed - look["queues"].keys())
    if absent:
        text = f"there is no queue {', '.join(absent)} at the broker: counted as empty"
        yield Check(subject, "warning", text, "write in `queues` what task_default_queue and task_routes name")
    if others:
        text = f"workers consume {', '.join(others)} too, which elastiq does not look at"
        yield Check(subject, "warning", text, "add them to `queues`, if machines are to be launched for them")
    if not (absent or others):
        depth = sum(depth for depth, *_ in look["queues"].values())
        yield Check(subject, "ok", f"{counted(depth, 'task')} in {counted(len(look['queues']), 'queue')}")


def _workers(celery: Celery, look: Look, subject: str) -> Iterator[Check]:
    silent = [one for one in look.get("registered") or () if one not in look["processes"]]
    if silent:
        text = f"{silent[0]} is known to Redis and does not answer: busy with the solo pool, or dead"
        yield Check(subject, "warning", text, f"see {DOCS}")
    twice = [name for name, row in look["processes"].items() if row["answers"] > 1]
    if twice:
        text = f"more than one process answers as {twice[0]}: such workers are never ended"
        yield Check(subject, "error", text, "give each a name of its own: celery worker -n NAME@%h")
    if not (silent or twice):
        yield Check(subject, "ok", f"{len(look['processes'])} worker processes answer")


def _names(celery: Celery, look: Look, subject: str) -> Iterator[Check]:
    nameless = [name for name in look["processes"] if not hosts.addresses(host_of(name)) and "@i-" not in name]
    if nameless:
        text = f"{nameless[0]} says no address: elastiq cannot tell which machine it is"
        remedy = f"name workers by their address, as celery@ip-10-0-0-7 or w1@10.0.0.7 ({DOCS})"
        yield Check(subject, "error", text, remedy)
    else:
        yield Check(subject, "ok", "every worker that answers says its address")


def _prefetching(celery: Celery, look: Look, subject: str) -> Iterator[Check]:
    stats = {name: row["stats"] for name, row in look["processes"].items()}
    greedy = [name for name, one in stats.items() if (one["prefetch"] or 0) > one["slots"]]
    if greedy:
        one = stats[greedy[0]]
        text = f"{greedy[0]} takes {one['prefetch']} tasks at once and runs {one['slots']}: no other can run the rest"
        yield Check(subject, "warning", text, "worker_prefetch_multiplier = 1, and task_acks_late = True if tasks may")
    else:
        yield Check(subject, "ok", "no worker takes more tasks in advance than it runs")


def _pools(celery: Celery, look: Look, subject: str) -> Iterator[Check]:
    solo = [name for name, row in look["processes"].items() if row["stats"]["solo"]]
    if solo and not celery.solo_pool:
        text = f"{solo[0]} uses the solo pool: it answers nothing while it runs a task"
        yield Check(subject, "error", text, f"use prefork (-c 1), or set solo_pool = yes in [celery] ({DOCS})")
    else:
        yield Check(subject, "ok", "they answer while they run tasks" if not solo else "solo_pool = yes")


def _drain(celery: Celery, look: Look, subject: str) -> Iterator[Check]:
    yield Check(subject, "ok", "workers answer remote control, by which they are drained")
