"""What the helper process (`celery_server`) does for a request, one function each. Imports nothing else of ours.

Facts about Celery and kombu, from their sources (5.2 to 5.7) and tried with real workers:

- Remote control goes by the fanout exchange ``celery.pidbox``; `Mailbox._broadcast` is what celery.app.control calls.
- ``add_consumer`` and ``cancel_consumer`` answer before they act: only ``active_queues`` shows that it was done.
- ``reserved`` leaves out what is active, and ``scheduled`` (an ETA) is not in it: asked in the order scheduled,
  reserved, active, a task that moves on in between is seen twice, never missed.
- A Redis worker that cancels a queue may have a BRPOP for it under way, for as long as its polling_interval (1 s).
- RabbitMQ removes a worker's own queue (``NAME.celery.pidbox``) with its connection; Redis keeps the name in the set
  ``_kombu.binding.celery.pidbox`` unless the worker stops in order.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import time
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from elastiq.plugins.batch.celery_server import Broker

SETTLE_S = 10.0  # for how long workers may take to do what they were asked
LOOK_S = 0.1
AT_ONCE = 100  # messages that are held in memory: they can be large
HELD_AT_MOST = 2000  # unacknowledged tasks that are looked at one by one
NOT_FOUND, LOCKED = 404, 405  # AMQP: no such queue; one that its owner alone may use


class Refusal(Exception):
    """What went wrong, in words for a person."""


class Refused(Refusal):
    """A worker does not take the command."""


# --------------------------------------------------------------------------- reads


def look(broker: Broker, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """All at once: the processes that answer, with their tasks; how deep the queues are; who is connected."""
    told = server(broker) if broker.is_redis else {}
    stats = broker.ask("stats", at_most=_at_most(told))
    answered = processes(broker, sorted(stats))
    for name, process in answered.items():
        process["stats"] = _stats(stats[name][0])
        process["answers"] = len(stats[name])
    found = {"at": time.monotonic(), "processes": answered, "queues": depths(broker, request["queues"])}
    silent = [name for name in request["known"] if name not in answered]
    if not broker.is_redis:
        return {**found, "present": present(broker, silent)}
    connected = None if told["listening"] is None else sorted({*told["listening"]})
    return {**found, **of_redis(broker), "connected": connected, "server": told["server"]}


def _at_most(told: Mapping[str, Any]) -> Optional[int]:
    """How many processes can answer a broadcast, where that is known."""
    return None if told.get("listening") is None else len(told["listening"])


def processes(broker: Broker, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What each of these consumes and has to do; only those that answer every question."""
    found: dict[str, dict[str, Any]] = {}
    answers = {"queues": broker.ask("active_queues", names)}
    for state in ("scheduled", "reserved", "active"):
        answers[state] = broker.ask(state, names)
    for name in names:
        told: dict[str, Any] = {what: said[name][0] for what, said in answers.items() if name in said}
        if len(told) == len(answers) and all(isinstance(said, list) for said in told.values()):
            queues = [(queue["name"], queue["exchange"]["name"], queue["routing_key"]) for queue in told.pop("queues")]
            found[name] = {"queues": queues, **{state: list(map(_task, tasks)) for state, tasks in told.items()}}
    return found


def _task(said: Mapping[str, Any]) -> tuple[Any, ...]:
    """Never its arguments: they may be secret."""
    task = said.get("request", said)
    info = task.get("delivery_info") or {}
    return task["id"], task.get("name"), info.get("exchange"), info.get("routing_key"), bool(task.get("acknowledged"))


def _stats(said: Mapping[str, Any]) -> Mapping[str, Any]:
    pool, scaler = said["pool"], said.get("autoscaler")
    slots = scaler["max"] if isinstance(scaler, dict) and scaler.get("max") else pool["max-concurrency"]
    uptime = said.get("uptime")  # since 5.1
    return {
        "slots": int(slots),
        # Celery 5.2 does not name its pools.
        "solo": ".solo:" in str(pool.get("implementation")) or pool.get("processes") == [said["pid"]],
        "prefetch": said.get("prefetch_count"),
        "starts": sum(said["total"].values()),
        "started_at": None if uptime is None else time.time() - float(uptime),
    }


def depths(broker: Broker, queues: Sequence[str]) -> dict[str, Any]:
    """Of each queue: how many tasks nobody has taken yet (None: there is no such queue), its consumers, where the
    broker tells them, and the oldest task. With Redis one is several lists, one for each step of priority."""
    found: dict[str, Any] = {}
    for queue in queues:
        if broker.is_redis:
            found[queue] = (broker.channel._size(queue), None, oldest(broker, queue))
            continue
        ready, consumers, code = broker.declared(queue)
        if code and code != NOT_FOUND:
            raise Refusal(f"RabbitMQ does not tell of queue {queue} (error {code})")
        found[queue] = (ready, consumers, "")
    return found


def present(broker: Broker, names: Sequence[str]) -> dict[str, Optional[bool]]:
    """Which processes have their own queue at RabbitMQ: as long as they are connected. None: it does not tell."""
    codes = {name: broker.declared(f"{name}.{broker.namespace}.pidbox")[2] for name in names}
    known = {0: True, LOCKED: True, NOT_FOUND: False}
    return {name: known.get(code) for name, code in codes.items()}


def server(broker: Broker) -> Mapping[str, Any]:
    """Of a Redis: the addresses of who listens to broadcasts, as every worker does on one connection or more, and which
    life of it this is; None where its ACL forbids to ask."""
    client, found = broker.redis, dict[str, Any](listening=None, server=None)
    errors = importlib.import_module("redis.exceptions").ResponseError
    with contextlib.suppress(errors):
        listening = [one for one in client.client_list() if int(one.get("sub", 0)) + int(one.get("psub", 0))]
        found["listening"] = [one["addr"].rpartition(":")[0].strip("[]") for one in listening]
    with contextlib.suppress(errors):
        told = client.info("server")
        found["server"] = {"id": told["run_id"], "up_s": told["uptime_in_seconds"], "version": told["redis_version"]}
    return found


def of_redis(broker: Broker) -> Mapping[str, Any]:
    """The processes that Redis knows by name, and the tasks that were delivered and not acknowledged."""
    client, suffix = broker.redis, f".{broker.namespace}.pidbox"
    members = [_text(member).split(broker.channel.sep)[-1] for member in client.smembers(broker.bindings)]
    registered = sorted(name[: -len(suffix)] for name in members if name.endswith(suffix))
    return {"registered": registered, "unacked": unacked(broker, client)}


def unacked(broker: Broker, client: Any) -> list[tuple[Any, ...]]:
    """Of such tasks, the HELD_AT_MOST that were delivered first: id, name, exchange, routing key, and for how long they
    have been out. They are of all queues."""
    found, channel, now = [], broker.channel, time.time()
    delivered = client.zrange(broker.key(channel.unacked_index_key), 0, HELD_AT_MOST - 1, withscores=True)
    for start in range(0, len(delivered), AT_ONCE):
        some = delivered[start : start + AT_ONCE]
        texts = client.hmget(broker.key(channel.unacked_key), [tag for tag, _ in some])
        for (_, at), text in zip(some, texts):
            if text is not None:  # else acknowledged in between
                message, exchange, routing_key = json.loads(text)
                number, name = _named(message)
                found.append((number, name, exchange, routing_key, max(0.0, now - at)))
    return found


def _named(message: Mapping[str, Any]) -> tuple[str, Any]:
    """A task's id and name, out of its message."""
    headers = message.get("headers") or {}
    return str(headers.get("id") or message["properties"].get("correlation_id")), headers.get("task")


def oldest(broker: Broker, queue: str) -> str:
    """The id of the task that is next; RabbitMQ shows none."""
    for step in broker.channel.priority_steps if broker.is_redis else ():
        for text in broker.redis.lrange(broker.key(broker.channel._q_for_pri(queue, step)), -1, -1):
            return _named(json.loads(text))[0]
    return ""


def _text(value: Any) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def tasks(broker: Broker, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of these processes alone; every one has to answer."""
    found = processes(broker, request["names"])
    all_in(request["names"], found)
    return {"processes": found}


def all_in(names: Sequence[str], answered: Iterable[str]) -> None:
    silent = sorted(set(names) - set(answered))
    if silent:
        raise Refusal(f"{silent[0]}{f' and {len(silent) - 1} more' if silent[1:] else ''} does not answer")


def find(broker: Broker, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a task is: at a worker, or with Redis among those that wait."""
    wanted = request["task"]
    at_most = _at_most(server(broker)) if broker.is_redis else None
    for name, said in broker.ask("query_task", at_most=at_most, ids=[wanted]).items():
        for told in said:
            if isinstance(told, dict) and wanted in told:
                state, info = told[wanted]
                return {"process": name, "state": state, "task": _task(info)}
    for queue in request["queues"] if broker.is_redis else ():
        for number, name in waiting(broker, queue):
            if number == wanted:
                return {"queue": queue, "task": (number, name)}
    return {"sees_queues": broker.is_redis}


def waiting(broker: Broker, queue: str) -> Iterator[tuple[str, Any]]:
    """The tasks of a queue in Redis, by id and name; what is taken or sent meanwhile may be missed."""
    for step in broker.channel.priority_steps:
        key, start = broker.key(broker.channel._q_for_pri(queue, step)), 0
        while texts := broker.redis.lrange(key, start, start + AT_ONCE - 1):
            yield from (_named(json.loads(text)) for text in texts)
            start += AT_ONCE


# --------------------------------------------------------------------------- acts


def close(broker: Broker, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let these processes consume nothing but marks: for each queue one of the name MARK + QUEUE, where nothing is ever
    sent. So everybody can see who closed it, and it can be opened again by anybody who has lost his memory."""
    names, mark = request["names"], request["mark"]
    before = {name: [queue for queue in queues if not is_mark(queue)] for name, queues in consumed(broker, names)}
    try:
        tell(broker, "add_consumer", before, lambda queue: mark_queue(mark, queue))
        tell(broker, "cancel_consumer", before)
        until(broker, names, lambda queues, _: all(map(is_mark, queues)))
    except Refused as refusal:
        open_again(broker, names, mark, before)
        return {"refused": str(refusal)}
    except Refusal:
        open_again(broker, names, mark, before)
        raise
    if broker.is_redis:
        time.sleep(1.5 * broker.polling_s)
    return {}


def reopen(broker: Broker, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Undo `close`, by its marks."""
    open_again(broker, request["names"], request["mark"], {})
    return {}


def open_again(broker: Broker, names: Sequence[str], mark: str, before: Mapping[str, Sequence[str]]) -> None:
    now = dict(consumed(broker, names))
    marks = {name: [queue for queue in queues if queue.startswith(mark)] for name, queues in now.items()}
    wanted = {name: {*before.get(name, ()), *(queue[len(mark) :] for queue in marks[name])} for name in now}
    tell(broker, "add_consumer", {name: sorted(queues - {*now[name]}) for name, queues in wanted.items()})
    tell(broker, "cancel_consumer", marks)
    until(broker, names, lambda queues, name: wanted[name] <= {*queues} and not {*queues} & {*marks[name]})


def tell(
    broker: Broker,
    command: str,
    wanted: Mapping[str, Iterable[str]],
    arguments: Callable[[str], Mapping[str, Any]] = lambda queue: {"queue": queue},
) -> None:
    """Give a command for each queue to the processes that it concerns. Raises `Refused`."""
    for queue in sorted({queue for queues in wanted.values() for queue in queues}):
        whose = [name for name, queues in wanted.items() if queue in queues]
        for name, said in broker.ask(command, whose, **arguments(queue)).items():
            if not (isinstance(said[0], dict) and "ok" in said[0]):
                raise Refused(f"{name} refuses {command}: {json.dumps(said[0])[:200]}")


def mark_queue(mark: str, queue: str) -> Mapping[str, Any]:
    """As `add_consumer` takes it: gone with its last consumer. Its exchange is its own: the application's may be one
    that copies every task to every queue."""
    name, exchange = mark + queue, mark.rstrip(".")
    return {"queue": name, "exchange": exchange, "exchange_type": "direct", "routing_key": name, "auto_delete": True}


def is_mark(queue: str) -> bool:
    return queue.startswith("elastiq.")


def consumed(broker: Broker, names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """What each of them consumes; all have to answer."""
    found = broker.ask("active_queues", names)
    all_in(names, found)
    return [(name, [queue["name"] for queue in said[0]]) for name, said in found.items()]


def until(broker: Broker, names: Sequence[str], done: Callable[[Sequence[str], str], bool]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not all(done(queues, name) for name, queues in consumed(broker, names)):
        if time.monotonic() > deadline:
            raise Refusal(f"what they consume did not change within {SETTLE_S:g} s")
        time.sleep(LOOK_S)


def forget(broker: Broker, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take the names of processes that are gone out of Redis; one that answers is left alone."""
    alive = broker.ask("ping", request["names"])
    gone = [name for name in request["names"] if name not in alive]
    if broker.is_redis and gone:
        queues = {f"{name}.{broker.namespace}.pidbox" for name in gone}
        for member in broker.redis.smembers(broker.bindings):
            if _text(member).split(broker.channel.sep)[-1] in queues:
                broker.redis.srem(broker.bindings, member)
    return {"gone": gone}


ACTS: Mapping[str, Callable[[Broker, Mapping[str, Any]], Mapping[str, Any]]] = {
    "look": look, "tasks": tasks, "find": find, "close": close, "reopen": reopen, "forget": forget,
}  # fmt: skip
