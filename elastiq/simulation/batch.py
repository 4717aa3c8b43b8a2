"""The simulated batch system: what the world's queue and workers look like from outside."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar

from elastiq.interfaces import (
    BatchSystem,
    Check,
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    Instance,
    JobGroup,
    Jobs,
    Looks,
    Owner,
    Resources,
    Worker,
    Workers,
    WorkerState,
)
from elastiq.simulation.faults import Call
from elastiq.simulation.model import SimWorker
from elastiq.simulation.room import more_than_half
from elastiq.simulation.world import World

T = TypeVar("T")


def _nobody() -> None:
    """Nobody is told."""


class SimulatedBatch(BatchSystem):
    """The contract over a `World`; every call passes the world's faults."""

    section = "simulated"

    def __init__(self, world: World, owner: Owner) -> None:
        self._world = world
        self._owner = owner
        # HTCondor, too, keeps a text with a drain; it is how elastiq knows its own drains again.
        self._drain_reason = f"elastiq {owner.cluster} {owner.head}"
        self.keeps_records = world.registers
        self._told = -1  # the version of the queue that was read last

    def watch(self, wake: Callable[[], object]) -> None:
        """Tell of changes of the queue from now on, as HTCondor's plugin does: once, and again after the next read."""
        self.watches, self._wake = True, wake
        self._world.on_job_change = self._changed

    def _changed(self) -> None:
        self._world.on_job_change = _nobody
        self._wake()

    def changed(self) -> bool:
        if not self.watches:
            return super().changed()
        changed = self._told != self._world.job_changes
        self._world.on_job_change = _nobody if changed else self._changed
        return changed

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> SimulatedBatch:
        """``values`` holds the world."""
        return cls(values["world"], owner)

    def fits(self, group: JobGroup, machine: Resources) -> tuple[bool, str]:
        """As `BatchSystem.fits`; with the machines' START, if they have one."""
        fits, why = super().fits(group, machine)
        if fits and self._world.own_size and not more_than_half(group.request.cpus, machine):
            return False, "takes no more than half of the machine"
        return fits, why

    def jobs(self) -> Jobs:
        return self._call("jobs", (), self._jobs)

    def workers(self) -> Workers:
        return self._call("workers", (), self._workers)

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        return self._call("drain", (worker, mode), lambda: self._drain(worker, mode))

    def undrain(self, worker: str) -> None:
        self._call("undrain", (worker,), lambda: self._undrain(worker))

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        return self._call("jobs_recorded_on", (tuple(workers),), lambda: self._recorded(workers))

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        return self._call("jobs_on", (worker,), lambda: self._jobs_on(worker))

    def register(self, instance: Instance) -> None:
        self._call("register", (instance,), lambda: self._world.register(instance.id, instance.addresses))

    def unregister(self, instance: Instance) -> None:
        self._call("unregister", (instance,), lambda: self._world.unregister(instance.id))

    def forget(self, worker: str) -> None:
        self._call("forget", (worker,), lambda: self._forget(worker))

    def checks(self) -> Looks:
        return {"queue": self._check_queue, "workers": self._check_workers}

    # ------------------------------------------------------------------ the answers

    def _check_queue(self) -> Iterator[Check]:
        missing = self.jobs().missing
        if missing:
            yield Check("queue", "warning", f"not all of it answers: {', '.join(missing)}", "see that it runs")
        else:
            yield Check("queue", "ok", "answers")

    def _check_workers(self) -> Iterator[Check]:
        yield Check("workers", "ok", f"{len(self.workers().workers)} are there")

    def _call(self, name: str, args: tuple[Any, ...], work: Callable[[], T]) -> T:
        return self._world.faults.apply(Call("batch", name, args), work, self._world.delay_answer)

    def _jobs(self) -> Jobs:
        if self.watches:
            self._told, self._world.on_job_change = self._world.job_changes, self._changed
        waiting, running = self._world.waiting_by_shape(), self._world.running_by_shape()
        groups = []
        for shape in sorted({*waiting, *running}):
            waits, runs = waiting.get(shape, {}), running.get(shape, {})
            job = next(iter((waits or runs).values()))
            groups.append(JobGroup(shape, job.request, len(waits), len(runs), not_eligible=job.not_eligible))
        return Jobs(tuple(groups))

    def _workers(self) -> Workers:
        listed = tuple(self._row(worker) for worker in self._world.workers.values() if worker.listed)
        return Workers(listed, source_up_s=self._world.now - self._world.collector_since)

    def _row(self, worker: SimWorker) -> Worker:
        """The same object as long as nothing changes. Which jobs run changes only with one of the counts."""
        key = (worker.job_starts, len(worker.jobs), worker.drained_by, worker.address, worker.instance_id)
        if worker.row is None or worker.row[0] != key:
            worker.row = (key, self._made(worker))
        return worker.row[1]

    def _made(self, worker: SimWorker) -> Worker:
        if worker.drained_by is not None:
            state = WorkerState.DRAINING if worker.jobs else WorkerState.DRAINED
        else:
            state = WorkerState.BUSY if worker.jobs else WorkerState.IDLE
        return Worker(
            name=worker.name,
            state=state,
            addresses=frozenset({worker.address, *worker.other_addresses}),
            instance_id=worker.instance_id,
            total=worker.total,
            free=worker.free(),
            jobs=len(worker.jobs),
            job_starts=worker.job_starts,
            drained_by=worker.drained_by,
            started_at=worker.started_at,
        )

    def _drain(self, name: str, mode: DrainMode) -> DrainAnswer:
        worker = self._world.workers.get(name)
        if worker is None or not worker.alive:
            return DrainAnswer(DrainOutcome.REFUSED, f"there is no worker {name}")
        if mode is DrainMode.IF_IDLE and worker.jobs:
            return DrainAnswer(DrainOutcome.BUSY, f"{len(worker.jobs)} jobs run there")
        if worker.drained_by not in (None, self._drain_reason):
            return DrainAnswer(DrainOutcome.REFUSED, f"{name} is draining already: {worker.drained_by}")
        self._record("drain", worker, mode.value)
        self._world.drain(worker, self._drain_reason)
        return DrainAnswer(DrainOutcome.DRAINED)

    def _undrain(self, name: str) -> None:
        worker = self._world.workers.get(name)
        if worker is not None and worker.alive:
            self._record("undrain", worker, worker.drained_by or "")
            self._world.undrain(worker)

    def _record(self, what: str, worker: SimWorker, detail: str) -> None:
        """``detail``: the mode of a drain; whose drain it was that is undone."""
        jobs = tuple(job.number for job in worker.jobs)
        self._world.record(what, [worker.name], self._owner.head, jobs=jobs, detail=detail)

    def _recorded(self, names: Sequence[str]) -> Mapping[str, int]:
        counts = dict.fromkeys(names, 0)
        for job in (job for jobs in self._world.running_by_shape().values() for job in jobs.values()):
            if job.worker is not None and job.worker.name in counts:
                counts[job.worker.name] += 1
        return counts

    def _jobs_on(self, name: str) -> tuple[str, ...]:
        jobs = (job for jobs in self._world.running_by_shape().values() for job in jobs.values())
        return tuple(f"{job.number}.0" for job in jobs if job.worker is not None and job.worker.name == name)

    def _forget(self, name: str) -> None:
        worker = self._world.workers.get(name)
        self._world.record("forget", [name], self._owner.head)
        if worker is not None and not worker.alive:
            del self._world.workers[name]
