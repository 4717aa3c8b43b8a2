"""The jobs of PBS -> job groups. Pure.

A job waits for a machine in the state Q alone: H is held (by its user, a dependency, or Torque's limit on an array),
W waits for its hour (``qsub -a``), T is on its way to another queue or server, M has moved there, C, F and X have
ended. R, E, S and U are on machines. B is an array of which some jobs have begun (PBS Pro). Facts: job_states of
pbs_job_attributes(7), qstat(1) of Torque.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Callable, Iterable, Mapping, Optional, Sequence

from elastiq.interfaces import JobGroup
from elastiq.plugins.batch import index_sets
from elastiq.plugins.batch.pbs_requests import count
from elastiq.plugins.batch.pbs_rows import POOL, Record
from elastiq.plugins.batch.shapes import Groups, Shape

WAITING, RUNNING, BEGUN = "Q", frozenset("RESU"), "B"
Shapes = Callable[[Record], Sequence[tuple[int, Shape]]]
MEMBER = re.compile(r"(\d+)(?:\[(\d*)\]|-(\d+))(.*)")  # an array's job; 151-3.srv in Torque before 2.5
# Of what the scheduler writes into a job's comment: a machine more would not help. What begins with "Insufficient
# amount of resource" would be helped, whatever the resource is called, and "Can Never Run" is said while no machine
# is there.
NO_HELP = re.compile(
    r"not running: (?!insufficient|not enough|no available)(?:.*\blimit\b.*|queue not (?:started|an execution queue).*"
    r"|.*\bdedicated time.*|strict fifo.*|queue is configured to be ignored.*)",
    re.IGNORECASE,
)


def job_groups(
    records: Sequence[Record],
    shapes: Shapes,
    queues: Iterable[Record],
    only: Sequence[str] = (),
    held_back: Mapping[str, str] = {},
) -> tuple[JobGroup, ...]:
    """One group for each shape. ``shapes`` says what a job asks for; ``only``: jobs of these queues, of all if empty;
    ``held_back`` says of some, by their numbers, why another scheduler does not start them."""
    closed, groups = closed_queues(queues), Groups()
    members, room = _arrays(records)
    for record in records:
        if only and record.get("queue") not in only:
            continue
        waiting, running = _counts(record, members)
        if record.name in room:
            waiting = min(waiting, max(0, room[record.name]))
        if waiting or running:
            for units, shape in shapes(record):
                whole = completed(shape, record, closed, held_back if waiting else {})
                groups.add(whole, waiting * units, running * units, record.name)
    return groups.all()


def completed(shape: Shape, record: Record, closed: Mapping[str, str], held_back: Mapping[str, str]) -> Shape:
    """What a job says beside its request: its queue, the pools it may go to, why it cannot run."""
    queue, comment = record.get("queue"), " ".join(record.get("comment").split())
    why = closed.get(queue, "") or held_back.get(record.name.partition(".")[0], "")
    why = why or (comment[:200] if NO_HELP.match(comment) else "")
    pools = tuple(sorted({name.lower() for name in re.split(r"[+:;\s]+", record.get(f"variable_list.{POOL}")) if name}))
    ad = (*([f"queue = {queue}"] if queue else []), *shape.ad)
    return replace(shape, ad=ad, pools=pools, not_eligible=why)


def closed_queues(queues: Iterable[Record]) -> dict[str, str]:
    """The queues from which no job starts, and why. A job stays in a routing queue while no other queue takes it. A
    queue that is not enabled takes no new job, but its jobs start."""
    found = {}
    for queue in queues:
        if queue.get("queue_type").lower().startswith("r"):
            found[queue.name] = f"the queue {queue.name} is a routing queue, from which no other takes it"
        elif queue.get("started").lower() == "false":
            found[queue.name] = f"the queue {queue.name} is stopped"
    return found


def hidden(records: Sequence[Record], queues: Iterable[Record]) -> int:
    """How many jobs the queues count, of which none is shown: those of others, where ``query_other_jobs`` is false."""
    if records:
        return 0
    counts = re.findall(r"(?:Queued|Running|Exiting):(\d+)", " ".join(queue.get("state_count") for queue in queues))
    return sum(map(int, counts))


def _counts(record: Record, members: Mapping[str, int]) -> tuple[int, int]:
    """How many jobs of it wait, and how many run."""
    state, array = record.get("job_state"), array_of(record.name)
    if array and array[1] == "":
        if members.get(array[0]):
            return 0, 0  # its jobs are there themselves
        return _of_array(record) if state in (WAITING, BEGUN, "R") else (0, 0)
    return int(state == WAITING), int(state in RUNNING)


def _of_array(record: Record) -> tuple[int, int]:
    """An array that is one row. PBS Pro tells how many of its jobs are in which state, and keeps at most
    ``max_run_subjobs`` running (``-J 0-99%5``)."""
    states = dict(re.findall(r"(\w+):(\d+)", record.get("array_state_count")))
    running = int(states.get("Running", 0)) + int(states.get("Exiting", 0))
    limit = count(record.get("max_run_subjobs"))
    waiting = int(states["Queued"]) if "Queued" in states else None
    for name in ("array_indices_remaining", "array_indices_submitted", "job_array_request"):
        with suppress(ValueError):
            if waiting is None and record.get(name).strip("- "):
                waiting, limited = index_sets.limited(record.get(name))
                limit = limited if limit is None else limit
    waiting = 0 if waiting is None else waiting
    return waiting if limit is None else min(waiting, max(0, int(limit) - running)), running


def _arrays(records: Sequence[Record]) -> tuple[Counter[str], dict[str, int]]:
    """How many jobs of each array are there one by one; and for the waiting ones of an array with a limit (``-t
    0-9%2``) how many more may run: all of them 0, but as many 1."""
    members: Counter[str] = Counter()
    running: Counter[str] = Counter()
    limits: dict[str, int] = {}
    waiting: dict[str, list[str]] = {}
    for record in records:
        array = array_of(record.name)
        if array is None:
            continue
        limit = _limit(record)
        if limit is not None:
            limits[array[0]] = limit
        if array[1]:
            members[array[0]] += 1
            running[array[0]] += record.get("job_state") in RUNNING
            if record.get("job_state") == WAITING:
                waiting.setdefault(array[0], []).append(record.name)
    room = {}
    for name, limit in limits.items():
        free = max(0, limit - running[name])
        room.update({job: int(number < free) for number, job in enumerate(waiting.get(name, ()))})
    return members, room


def _limit(record: Record) -> Optional[int]:
    with suppress(ValueError):
        if "%" in record.get("job_array_request"):
            return index_sets.limited(record.get("job_array_request"))[1]
    return None


def array_of(name: str) -> Optional[tuple[str, str]]:
    """The array that a job is of, and its number there, which is empty for the array itself."""
    found = MEMBER.fullmatch(name)
    return (found[1] + found[4], found[2] or found[3] or "") if found else None
