"""Tasks of Celery: where each belongs, and what they make of the queues. Pure."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from elastiq.interfaces import Jobs
from elastiq.plugins.batch.celery_options import TaskQueue
from elastiq.plugins.batch.shapes import Groups, Shape

MARK = "elastiq"  # what a queue begins with that only shows who closed a worker: elastiq.MARK.QUEUE
STATES = ("scheduled", "reserved", "active")
KEPT = "prefetched by a worker that is busy: no other can run them (docs/batch/celery.md)"
OUT = "delivered, but no worker that answers has them: another gets them after the visibility timeout of {:g} s"


class Task(NamedTuple):
    """One at a worker, or one that was delivered and that nobody acknowledged."""

    id: str
    name: str
    queue: str  # empty: not known
    state: str


def mark_of(queue: str) -> str:
    """The mark of a queue that shows who closed a worker; empty for any other."""
    parts = queue.split(".", 2)
    return parts[1] if len(parts) == 3 and parts[0] == MARK else ""


def consumed(queues: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Of what a worker consumes the queues of tasks."""
    return tuple(sorted(name for name, *_ in queues if not mark_of(name)))


def tasks(process: Mapping[str, Any]) -> Iterator[Task]:
    """All that a process has to do; one that moved on while it was asked appears once, in its later state."""
    found: dict[str, Task] = {}
    for state in STATES:
        for number, name, exchange, routing_key, _ in process[state]:
            queue = queue_of(exchange, routing_key, process["queues"])
            found[str(number)] = Task(str(number), str(name or ""), queue, state)
    return iter(found.values())


def queue_of(exchange: Any, routing_key: Any, queues: Sequence[Sequence[str]]) -> str:
    """The queue by which a message came, whose headers tell its exchange and routing key. The default exchange goes by
    the queue's name; where a worker was closed, only marks are left to tell what it consumed."""
    for name, of_exchange, of_key in queues:
        if exchange and (exchange, routing_key) == (of_exchange, of_key):
            return name
    names = [name.split(".", 2)[2] if mark_of(name) else name for name, *_ in queues]
    if routing_key in names or not exchange:
        return str(routing_key or "")
    return names[0] if len(names) == 1 else ""


def strays(look: Mapping[str, Any], queues: Sequence[TaskQueue]) -> Iterator[tuple[Task, float]]:
    """What Redis delivered and nobody has who answers, with the seconds since. (What was delivered just now too.)"""
    at_workers = {task.id for process in look["processes"].values() for task in tasks(process)}
    rows = [row for process in look["processes"].values() for row in process["queues"]]
    rows += [(one.name, one.name, one.name) for one in queues]
    for number, name, exchange, key, age_s in look.get("unacked") or ():
        if number not in at_workers:
            yield Task(number, name or "", queue_of(exchange, key, rows), "unacknowledged"), age_s


def jobs(look: Mapping[str, Any], queues: Sequence[TaskQueue], visible_s: float, kept: bool) -> Jobs:
    """A group for each queue. ``visible_s`` is Redis's visibility timeout: then a new worker takes over what another
    has not acknowledged. ``kept``: what a worker has prefetched is no reason for another machine."""
    groups = Groups()
    at_workers = [task for process in look["processes"].values() for task in tasks(process)]
    out = list(strays(look, queues))
    for queue in queues:
        shape = Shape(queue.request, f"queue {queue.name}", pools=queue.pools)
        here = [task for task in at_workers if task.queue == queue.name]
        active = sum(task.state == "active" for task in here)
        ages = [age_s for task, age_s in out if task.queue == queue.name]
        overdue = sum(age_s >= visible_s for age_s in ages)
        depth, _, oldest = look["queues"][queue.name]
        waiting = len(here) - active
        groups.add(shape, (depth or 0) + overdue + (0 if kept else waiting), active, oldest)
        why_not = {KEPT: waiting if kept else 0, OUT.format(visible_s): len(ages) - overdue}
        for why, count in why_not.items():
            if count:
                groups.add(Shape(queue.request, shape.requirements, why, queue.pools), count)
    return Jobs(tuple(group for group in groups.all() if group.waiting or group.running))
