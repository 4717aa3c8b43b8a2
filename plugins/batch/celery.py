"""Celery: the queues of its broker (Redis or RabbitMQ), and its workers by remote control.

Both are asked in a helper process (`celery_server`), with kombu, Celery's own messaging library: a broker that hangs
is then killed at the deadline, and the daemon's process stays small. Draining is ``cancel_consumer`` on every queue of
every process of the machine; what it has prefetched, it still runs, so those tasks, and those that wait at it for
their time (ETA), count as jobs there.
"""

from __future__ import annotations

import threading
from typing import Any, Iterable, Mapping, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import BatchSystem, DrainAnswer, DrainMode, DrainOutcome, Jobs, Looks, Owner, Workers
from elastiq.plugins.batch import careful_drain, celery_tasks
from elastiq.plugins.batch.celery_helper import Helper
from elastiq.plugins.batch.celery_options import OPTIONS, VISIBILITY_TIMEOUT_S, task_queue, transport_options
from elastiq.plugins.batch.celery_workers import Process, Roster

REQUESTS_OF_A_DRAIN = 5


class Celery(BatchSystem):
    """The workers and queues of one broker."""

    section = "celery"
    OPTIONS = OPTIONS

    def __init__(self, values: Mapping[str, Any], owner: Owner) -> None:
        self.queues = [task_queue(line) for line in values["queues"]]
        self.helper = Helper(values)
        self.solo_pool = bool(values["solo_pool"])
        self._kept = values["prefetched"] == "kept"
        self._mark = owner.mark
        self._visible_s = float(transport_options(values).get("visibility_timeout") or VISIBILITY_TIMEOUT_S)
        self._roster = Roster(float(values["gone_after_s"]), self._visible_s, self.solo_pool)
        self._lock = threading.Lock()  # of the roster: reads and drains come in different threads
        self.call_deadline_s = REQUESTS_OF_A_DRAIN * float(values["command_timeout_s"])

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> Celery:
        return cls(values, owner)

    # ------------------------------------------------------------------ reads

    def jobs(self) -> Jobs:
        """The tasks of each queue; with Redis, of all its lists of priorities."""
        look = self.look("reading the queues")
        return celery_tasks.jobs(look, self.queues, self._visible_s, self._kept)

    def workers(self) -> Workers:
        look = self.look("asking the workers")
        with self._lock:
            return self._roster.workers(look, self.queues)

    def look(self, what: str) -> Mapping[str, Any]:
        """All that the broker and the workers tell now. Raises `SourceError`."""
        with self._lock:
            known = self._roster.names
        look = self.helper.ask(what, "look", queues=[queue.name for queue in self.queues], known=known)
        with self._lock:
            self._roster.take(look)
        return look

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        """Those that a worker has, had when it answered last, or may have: Redis does not say to whom it delivered what
        nobody acknowledged."""
        if not workers:
            return {}
        look = self.look("asking for the tasks of workers")
        with self._lock:
            return {worker: len(self._roster.recorded(worker, look, self.queues)) for worker in workers}

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        """Each as "ID (TASK)"."""
        look = self.look("asking for the tasks of a worker")
        with self._lock:
            tasks = self._roster.recorded(worker, look, self.queues)
        return tuple(f"{one.id} ({one.name})" if one.name else one.id for one in tasks)

    def find_job(self, job: str) -> tuple[str, str]:
        from elastiq.plugins.batch.celery_lookups import find_job

        return find_job(job.strip(), self)

    # ------------------------------------------------------------------ drain

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        """Close every process of the machine, or none. All of them have to answer."""
        processes = self._processes(worker)
        if not processes:
            return DrainAnswer(DrainOutcome.REFUSED, f"no process of Celery is known on {worker}")
        names = [process.name for process in processes]
        if why := self._closed_by_others(names):
            return DrainAnswer(DrainOutcome.REFUSED, why)
        refused: list[str] = []

        def close() -> None:
            said = self.helper.ask("cancelling the consumers", "close", names=names, mark=self._queue_prefix)
            refused.extend(filter(None, [said.get("refused")]))

        answer = careful_drain.drain(mode, lambda: 0 if refused else self._jobs_at(names), close,
                                     lambda: self._reopen(names))  # fmt: skip
        return DrainAnswer(DrainOutcome.REFUSED, refused[0]) if refused else answer

    def undrain(self, worker: str) -> None:
        """Open it again by the marks that were left there; what somebody else closed is left alone, which is an
        error."""
        names = [process.name for process in self._processes(worker)]
        if not names:
            raise SourceError(f"no process of Celery is known on {worker}")
        if why := self._closed_by_others(names):
            raise SourceError(why)
        self._reopen(names)

    @property
    def _queue_prefix(self) -> str:
        return f"{celery_tasks.MARK}.{self._mark}."

    def _processes(self, worker: str, gone: bool = False) -> list[Process]:
        with self._lock:
            found = self._roster.of(worker, gone)
        if not found:
            self.look("asking the workers")
            with self._lock:
                found = self._roster.of(worker, gone)
        return found

    def _closed_by_others(self, names: Sequence[str]) -> str:
        """Why they consume nothing, if that is not our doing."""
        rows = self._tasks_of(names)
        for name, row in rows.items():
            marks = {celery_tasks.mark_of(queue) for queue, *_ in row["queues"]} - {""}
            if marks - {self._mark}:
                return f"{name} was closed by another elastiq ({', '.join(sorted(marks - {self._mark}))})"
            if not marks and not celery_tasks.consumed(row["queues"]):
                return f"{name} consumes no queue: someone else cancelled its consumers"
        return ""

    def _jobs_at(self, names: Sequence[str]) -> int:
        return sum(len(list(celery_tasks.tasks(row))) for row in self._tasks_of(names).values())

    def _tasks_of(self, names: Sequence[str]) -> Mapping[str, Any]:
        rows: Mapping[str, Any] = self.helper.ask("asking the worker", "tasks", names=list(names))["processes"]
        return rows

    def _reopen(self, names: Sequence[str]) -> None:
        self.helper.ask("adding the consumers again", "reopen", names=list(names), mark=self._queue_prefix)

    def forget(self, worker: str) -> None:
        """Take its processes' names out of Redis, where they would stay; those that answer are left alone."""
        names = [process.name for process in self._processes(worker, gone=True)]
        if not names:
            return
        gone = self.helper.ask("forgetting the worker", "forget", names=names)["gone"]
        with self._lock:
            self._roster.forget(gone)

    def pools_named(self) -> Iterable[tuple[str, str, bool]]:
        """As `elastiq.cli.cluster_checks.NamesPools` has it."""
        return [(f"the queue {queue.name}", pool, False) for queue in self.queues for pool in queue.pools]

    def checks(self) -> Looks:
        from elastiq.plugins.batch.celery_checks import looks

        return looks(self)
