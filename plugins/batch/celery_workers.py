"""Processes of Celery -> workers: which belong to one machine, what they do, and who is silent. No input or output.

A process that does not answer is not idle, and not gone: one with the solo pool answers nothing while it runs a task,
and a machine that is short of memory nothing for minutes. What the broker says of its connection decides: see
`Roster`. A worker is all the processes of one host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Optional, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import Resources, Worker, Workers, WorkerState
from elastiq.plugins.batch import celery_tasks as queue
from elastiq.plugins.batch import hosts
from elastiq.plugins.batch.celery_options import TaskQueue

INSTANCE_ID = re.compile(r"(i-[0-9a-f]{8,17})(\..*)?")
SAME_START_S = 5.0
KEPT_AT_MOST = 10_000  # processes


def host_of(process: str) -> str:
    """``celery@ip-10-0-0-7`` and ``prefix-w1@fqdn``: what follows the last @."""
    return process.rpartition("@")[2].lower()


@dataclass
class Process:
    """One worker process of Celery's, as long as it may be there. Times are monotonic."""

    name: str
    first_at: float
    seen_at: Optional[float] = None  # its last whole answer
    row: Mapping[str, Any] = field(default_factory=dict)  # what that was
    link: Optional[bool] = None  # whether the broker says that it is connected; None: it does not tell
    was_linked: bool = False  # the broker does tell it of this one
    unlinked_at: Optional[float] = None
    server: str = ""  # the life of the broker in which it was seen connected
    gone: bool = False
    began: Optional[float] = None  # wall time of its start

    @property
    def host(self) -> str:
        return host_of(self.name)

    @property
    def last_at(self) -> float:
        """When it was heard of last: its answer, or else its name."""
        return self.first_at if self.seen_at is None else self.seen_at

    @property
    def solo(self) -> bool:
        return bool(self.row.get("stats", {}).get("solo"))

    @property
    def tasks(self) -> tuple[queue.Task, ...]:
        return tuple(queue.tasks(self.row)) if self.row else ()


class Roster:
    """All processes that were seen, and what became of them.

    One that does not answer is listed, as neither idle nor busy, while the broker has its connection, or does not say.
    Without a connection for ``gone_after_s`` it is gone: its worker is not listed any more. Not so one with the solo
    pool where its connection can have broken while it ran a task: RabbitMQ closes those that send no heartbeat, and a
    broker that was restarted knows only who came back since. What a process had to do when it answered last counts as
    recorded there for ``lease_s`` more, as a Redis broker keeps it for its visibility timeout.
    """

    def __init__(self, gone_after_s: float, lease_s: float, solo_pool: bool) -> None:
        self._gone_after_s, self._lease_s, self._solo_pool = gone_after_s, lease_s, solo_pool
        self._processes: dict[str, Process] = {}
        self._first_at: Optional[float] = None

    # ------------------------------------------------------------------ what was read

    @property
    def names(self) -> list[str]:
        return sorted(self._processes)

    def take(self, look: Mapping[str, Any]) -> None:
        """Bring a look at the broker in."""
        at = float(look["at"])
        self._first_at = at if self._first_at is None else self._first_at
        known = dict(self._processes)
        for name in [*look["processes"], *(look.get("registered") or ())]:
            if name not in known and len(known) < KEPT_AT_MOST:
                known[name] = Process(name, at)
        server = str((look.get("server") or {}).get("id", ""))
        tells = any(self._connected(look, known[name]) for name in look["processes"])
        for name, process in known.items():
            if row := look["processes"].get(name):
                process.began = _began(process.began, row["stats"]["started_at"])
                process.seen_at, process.row, process.gone, process.unlinked_at = at, row, False, None
                process.was_linked = "present" in look or self._connected(look, process)
                process.server = server
            else:
                self._silent(process, look, at, server, tells)
        self._processes = {name: process for name, process in known.items() if not self._over(process, at)}

    @staticmethod
    def _connected(look: Mapping[str, Any], process: Process) -> bool:
        return not hosts.addresses(process.host).isdisjoint(look.get("connected") or ())

    def _silent(self, process: Process, look: Mapping[str, Any], at: float, server: str, tells: bool) -> None:
        process.link = look["present"].get(process.name) if "present" in look else None
        # A worker that stops in order takes its name back first.
        there = self._connected(look, process) and process.name in look["registered"]
        tells = process.was_linked or (tells and process.seen_at is None)
        if there or (tells and look.get("connected") is not None):
            process.link = there
        if process.link:
            process.unlinked_at, process.was_linked, process.server = None, True, server
            return
        if process.link is None:
            silent_s = at - process.last_at
            process.gone = not self._may_be_solo(process) and silent_s >= max(self._gone_after_s, self._lease_s)
            return
        process.unlinked_at = at if process.unlinked_at is None else process.unlinked_at
        broke = "present" in look or process.server != server
        if not (broke and self._may_be_solo(process)):
            process.gone = at - process.unlinked_at >= self._gone_after_s

    def _may_be_solo(self, process: Process) -> bool:
        return process.solo or (self._solo_pool and process.seen_at is None)

    def _over(self, process: Process, at: float) -> bool:
        return process.gone and at - process.last_at >= self._lease_s + self._gone_after_s

    def forget(self, names: Iterable[str]) -> None:
        self._processes = {name: one for name, one in self._processes.items() if name not in set(names)}

    # ------------------------------------------------------------------ machines

    def machines(self, gone: bool = False) -> dict[str, list[Process]]:
        """The processes of each worker, by its name: a host has one, however it spells itself. ``gone``: the ones that
        are gone too."""
        together: dict[str, list[Process]] = {}
        for name in sorted(self._processes):
            process = self._processes[name]
            listed = process.seen_at is not None or bool(process.link)
            if gone or (listed and not process.gone):
                place = min(hosts.addresses(process.host), default=process.host)
                together.setdefault(place, []).append(process)
        return {min((one.host for one in found), key=lambda host: (len(host), host)): found
                for found in together.values()}  # fmt: skip

    def of(self, worker: str, gone: bool = False) -> list[Process]:
        """The processes of a worker."""
        for name, found in self.machines(gone).items():
            if worker == name or worker in {one.host for one in found}:
                return found
        return []

    def workers(self, look: Mapping[str, Any], queues: Sequence[TaskQueue]) -> Workers:
        """What the last look says."""
        found = self.machines()
        up_s = (look.get("server") or {}).get("up_s")
        listed = tuple(_worker(name, processes, look, queues) for name, processes in found.items())
        return Workers(listed, None if up_s is None else float(up_s), self._missing(look, found))

    def _missing(self, look: Mapping[str, Any], found: Mapping[str, Sequence[Process]]) -> tuple[str, ...]:
        """RabbitMQ counts the consumers of a queue: there may be more than the processes that we know."""
        missing = []
        known = [process for processes in found.values() for process in processes]
        for name, (_, consumers, _) in look["queues"].items():
            ours = sum(name in queue.consumed(process.row.get("queues", ())) for process in known)
            if consumers and consumers > ours:
                missing.append(f"{consumers - ours} of the {consumers} consumers of queue {name}")
        return tuple(missing)

    # ------------------------------------------------------------------ tasks

    def recorded(self, worker: str, look: Mapping[str, Any], queues: Sequence[TaskQueue]) -> tuple[queue.Task, ...]:
        """The tasks that are, or may be, at a worker, answering or not. Raises `SourceError`."""
        at, processes = float(look["at"]), self.of(worker, gone=True)
        tasks = {task.id: task for one in processes for task in one.tasks if self._holds(one, look, at)}
        if not processes or any(one.name not in look["processes"] for one in processes):
            elsewhere = {task.id for one in self._processes.values() if one not in processes for task in one.tasks}
            out = [task for task, age_s in queue.strays(look, queues) if age_s < self._lease_s]
            tasks.update({task.id: task for task in out if task.id not in {*elsewhere, *tasks}})
        first = min([one.first_at for one in processes] or [at if self._first_at is None else self._first_at])
        never = all(one.seen_at is None for one in processes)
        unknown = self._solo_pool or any(one.link for one in processes) or at - first < self._lease_s
        if never and unknown and not tasks:
            raise SourceError(f"{worker} has not answered since elastiq was started: what it runs is not known")
        return tuple(tasks.values())

    def _holds(self, process: Process, look: Mapping[str, Any], at: float) -> bool:
        return process.name in look["processes"] or not process.gone or at - process.last_at < self._lease_s


# --------------------------------------------------------------------------- one worker


def _worker(name: str, processes: Sequence[Process], look: Mapping[str, Any], queues: Sequence[TaskQueue]) -> Worker:
    spelt = frozenset[str]().union(*(hosts.addresses(one.host) for one in processes))
    instance = INSTANCE_ID.fullmatch(name)
    answering = [one for one in processes if one.name in look["processes"]]
    silent = [one.name for one in processes if one not in answering]
    twice = [one.name for one in answering if one.row.get("answers", 1) > 1]
    jobs = sum(len(one.tasks) for one in processes)
    total = sum(_size(one, queues) * _slots(one) for one in processes)
    free = sum(_size(one, queues) * max(0, _slots(one) - len(one.tasks)) for one in answering if _open(one))
    stats = [one.row.get("stats", {}) for one in processes]
    starts = [one["starts"] for one in stats if "starts" in one]
    began = [one.began for one in processes if one.began is not None]
    state, detail = _state(answering, jobs), ""
    if silent:
        state, detail = WorkerState.OTHER, f"{silent[0]} does not answer: it is busy with a task, or hangs"
    elif twice:
        state, detail = WorkerState.OTHER, f"more than one process answers as {twice[0]}: give each a name of its own"
    drained = state in (WorkerState.DRAINING, WorkerState.DRAINED)
    return Worker(
        name, state, spelt, instance.group(1) if instance else None,
        Resources(cpus=total), Resources(cpus=free if state is not WorkerState.OTHER else 0.0), jobs,
        sum(starts) if len(starts) == len(processes) else None,
        _drained_by(processes) if drained else None, min(began, default=None), detail,
    )  # fmt: skip


def _began(before: Optional[float], told: Optional[float]) -> Optional[float]:
    """Processes tell for how many whole seconds they have run: the same start is not told alike each time."""
    same = before is not None and told is not None and abs(told - before) < SAME_START_S
    return before if same or told is None else told


def _state(processes: Sequence[Process], jobs: int) -> WorkerState:
    if any(_open(one) for one in processes):
        return WorkerState.BUSY if jobs else WorkerState.IDLE
    return WorkerState.DRAINING if jobs else WorkerState.DRAINED


def _open(process: Process) -> bool:
    return bool(queue.consumed(process.row.get("queues", ())))


def _slots(process: Process) -> int:
    return int(process.row.get("stats", {}).get("slots", 0))


def _size(process: Process, queues: Sequence[TaskQueue]) -> float:
    """How many cpus one slot of it has: as many as the largest task that may come there takes."""
    names = {name.split(".", 2)[2] if queue.mark_of(name) else name for name, *_ in process.row.get("queues", ())}
    return max((one.request.cpus or 1.0 for one in queues if one.name in names), default=1.0)


def _drained_by(processes: Sequence[Process]) -> Optional[str]:
    """Who closed it, as the marks say that it consumes; None if nobody left one."""
    marks = {queue.mark_of(name) for one in processes for name, *_ in one.row.get("queues", ())} - {""}
    return f"elastiq {' and '.join(sorted(marks))}" if marks else None
