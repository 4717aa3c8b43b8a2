"""A batch system that is a directory, as small as one can be: docs/plugins.md explains it.

    DIRECTORY/jobs/NAME.json      {"cpus": 1, "memory_mb": 500, "state": "waiting"}; "held"; "running" and "worker"
    DIRECTORY/workers/NAME.json   {"address": "10.0.0.7", "cpus": 4, "memory_mb": 8192}, "instance_id", "drained_by"
    DIRECTORY/lock                who takes a job or drains a worker holds it (flock)

NAME is in lower case. A worker writes its file when it is ready, takes no job while its file has "drained_by", and
removes its file at its end.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from elastiq.interfaces import (
    BatchSystem,
    Check,
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    JobGroup,
    Jobs,
    Looks,
    Owner,
    Resources,
    SourceError,
    Worker,
    Workers,
    WorkerState,
)
from elastiq.options import Kind, Option

Rows = Mapping[str, Mapping[str, Any]]
NEEDED = {"jobs": {"cpus", "state"}, "workers": {"address", "cpus", "memory_mb"}}


class Spool(BatchSystem):
    """The section [spool] names the directory."""

    section = "spool"
    OPTIONS = (Option("directory", Kind.PATH, required=True),)

    def __init__(self, directory: Path, owner: Owner) -> None:
        self.directory, self._mark = directory, f"elastiq {owner.mark}"

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> Spool:
        return cls(Path(values["directory"]), owner)

    # ------------------------------------------------------------------ reads

    def jobs(self) -> Jobs:
        waiting: Counter[Any] = Counter()
        running: Counter[Any] = Counter()
        for job in self._read("jobs").values():
            if job["state"] in ("waiting", "running"):  # any other word is none that a new worker could help
                (waiting if job["state"] == "waiting" else running)[job["cpus"], job.get("memory_mb")] += 1
        shapes = {*waiting, *running}
        return Jobs(tuple(JobGroup(f"{s}", Resources(*s), waiting[s], running[s]) for s in sorted(shapes, key=str)))

    def workers(self) -> Workers:
        # The workers first: a job that starts between the two reads makes its worker busy, not idle.
        workers = self._read("workers")
        jobs = self._read("jobs")
        return Workers(tuple(self._worker(name, row, jobs) for name, row in workers.items()))

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        there = Counter(job.get("worker") for job in self._read("jobs").values())
        return {name: there[name] for name in workers}

    def checks(self) -> Looks:
        return {"spool": self._look}

    def _look(self) -> Iterator[Check]:
        waiting = sum(group.waiting for group in self.jobs().groups)  # what cannot be read is unknown
        yield Check("spool", "ok", f"shows waiting jobs ({waiting}) and workers ({len(self.workers().workers)})")

    # ------------------------------------------------------------------ acts

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        with self._locked():  # no job starts until we are done: IF_IDLE has to be one step
            row = self._read("workers").get(worker)
            if row is None:
                return DrainAnswer(DrainOutcome.REFUSED, f"there is no worker {worker}")
            if row.get("drained_by", self._mark) != self._mark:
                return DrainAnswer(DrainOutcome.REFUSED, f"drained by someone else ({row['drained_by']})")
            if mode is DrainMode.IF_IDLE and self.jobs_recorded_on([worker])[worker]:
                return DrainAnswer(DrainOutcome.BUSY, f"a job runs on {worker}")
            self._write(worker, {**row, "drained_by": self._mark})
        return DrainAnswer(DrainOutcome.DRAINED)

    def undrain(self, worker: str) -> None:
        with self._locked():
            row = dict(self._read("workers").get(worker, {}))
            if row.pop("drained_by", None) == self._mark:
                self._write(worker, row)

    # ------------------------------------------------------------------ inside

    @staticmethod
    def _worker(name: str, row: Mapping[str, Any], jobs: Rows) -> Worker:
        here = [job for job in jobs.values() if job.get("worker") == name]
        total = Resources(row["cpus"], row["memory_mb"])
        used = Resources(sum(job["cpus"] for job in here), sum(job.get("memory_mb") or 0 for job in here))
        drained_by = row.get("drained_by")
        if drained_by:
            state = WorkerState.DRAINING if here else WorkerState.DRAINED
        else:
            state = WorkerState.BUSY if here else WorkerState.IDLE
        addresses, instance_id = frozenset([row["address"]]), row.get("instance_id")
        return Worker(
            name, state, addresses, instance_id, total, total.less(used), jobs=len(here), drained_by=drained_by
        )

    def _read(self, folder: str) -> Rows:
        """All that is there: one file that makes no sense fails the whole read, and so does a directory that is
        missing. An empty answer for either would be "no job", or "no worker"."""
        found = {}
        try:
            for name in os.listdir(self.directory / folder):
                if name.endswith(".json"):
                    with suppress(FileNotFoundError):  # it has just ended
                        found[name[:-5]] = row = json.loads((self.directory / folder / name).read_text("utf-8"))
                        if not isinstance(row, dict) or not row.keys() >= NEEDED[folder]:
                            raise ValueError(f"{name} lacks one of {', '.join(sorted(NEEDED[folder]))}")
        except (OSError, ValueError) as error:
            raise SourceError(f"the spool {self.directory / folder} cannot be read: {error}") from error
        return found

    def _write(self, worker: str, row: Mapping[str, Any]) -> None:
        path = self.directory / "workers" / f"{worker}.json"
        try:
            path.with_suffix(".new").write_text(json.dumps(row), "utf-8")
            path.with_suffix(".new").replace(path)
        except OSError as error:
            raise SourceError(f"the spool's {path} cannot be written: {error}") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with open(self.directory / "lock", "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # elastiq asks again; nobody knows who has it, and why
                yield
        except OSError as error:
            raise SourceError(f"the spool {self.directory} cannot be locked: {error}") from error
