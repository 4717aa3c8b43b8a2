"""The command plugin keeps the contract: over executables that print what its documentation says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

import pytest

from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.interfaces import Instance, Owner
from elastiq.plugins.batch.command import Command
from tests.integration.fake_command import FakeQueue

OWNER = Owner("test", "0123456789abcdef0123")


KEYS = {"jobs_recorded_on": "recorded", "forget": "remove"}
CANNOT = {
    "users": "the form has no users: all jobs are counted",
    "array-limit": "it is the executable that knows how many tasks may run at once",
    "held-running": "a job is running or held, as the executable says",
    "queues": "each worker is listed once, which is checked",
    "match": "jobs name the pools that they may go to",
}


class CommandBench(BatchBench):
    def __init__(self, folder: Path) -> None:
        self.queue = FakeQueue(folder)
        self._values: dict[str, Any] = {option.name: str(self.queue.program) for option in Command.OPTIONS}
        self._values["command_timeout_s"] = 20.0
        self.restart()

    def restart(self) -> None:
        self.batch = Command.from_config(self._values, OWNER)

    # ---- the queue

    def submit(
        self,
        count: int = 1,
        cpus: float = 1,
        memory_mb: Optional[float] = None,
        nodes: int = 1,
        user: str = "",
        name: str = "",
    ) -> None:
        said = {"memory_mb": memory_mb, "nodes": None if nodes == 1 else nodes, "id": name}
        self.queue.submit(count, cpus=cpus, **{key: value for key, value in said.items() if value})

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self.queue.start_job(self._spelt(worker), cpus=cpus)

    def end_job(self, worker: str) -> None:
        self.queue.end_job(self._spelt(worker))

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self.queue.submit(count, cpus=cpus, state="held")

    def depend(self, count: int = 1, cpus: float = 1) -> None:
        self.queue.submit(count, cpus=cpus, state="held", detail="waits for job 7")

    def blocked_forms(self) -> Mapping[str, Callable[[int], None]]:
        return {
            "not eligible": lambda count: self.queue.submit(count, not_eligible="waits for a licence"),
            "a group that is held": lambda count: self.queue.submit(1, count=count, state="held"),
            "a group of none": lambda count: self.queue.submit(count, count=0),
        }

    def submit_array(self, count: int, limit: Optional[int] = None, cpus: float = 1, on: Sequence[str] = ()) -> None:
        for worker in on:
            self.start_job(worker, cpus)
        self.queue.submit(1, count=count - len(on), cpus=cpus)

    def start_across(self, workers: Sequence[str], cpus: float = 1) -> None:
        self.queue.submit(1, state="running", workers=list(workers), nodes=len(workers), cpus=cpus)

    # ---- the workers

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        self.queue.add_worker(name, address, cpus=cpus, memory_mb=memory_mb)
        return name.lower()

    def lose_worker(self, worker: str) -> None:
        self._of(worker)["lost"] = True
        self.queue.save()

    def strange_forms(self) -> Mapping[str, Callable[[str], None]]:
        return {"suspected dead": self._suspect}

    def _suspect(self, worker: str) -> None:
        self._of(worker).update(state="other", detail="has not been heard of for 40 s")
        self.queue.save()

    def drain_by_hand(self, worker: str) -> None:
        self._of(worker)["drained_by"] = "maintenance"
        self.queue.save()

    def _spelt(self, worker: str) -> str:
        return next(str(name) for name in self.queue.load()["workers"] if name.lower() == worker)

    def _of(self, worker: str) -> dict[str, Any]:
        name = self._spelt(worker)
        found: dict[str, Any] = self.queue.state["workers"][name]
        return found

    # ---- machines that are made known

    def knows(self, instance: Instance) -> bool:
        return instance.id in self.queue.load()["records"]

    def join(self, instance: Instance) -> str:
        pool, flavour, address = self.queue.load()["records"][instance.id]
        assert (pool, flavour) == (instance.pool, instance.flavour)
        return self.add_worker(f"host-of-{instance.id}", address)

    def holds(self, worker: str) -> bool:
        return worker in map(str.lower, self.queue.load()["workers"])

    # ---- what goes wrong

    def _next(self, call: str, what: str) -> None:
        self.queue.once(KEYS.get(call, call), what)

    def fail_next(self, call: str) -> None:
        self._next(call, "fail")

    def garble_next(self, call: str) -> None:
        self._next(call, "<html><body>Please log in</body></html>")

    def blank_next(self, call: str) -> None:
        self._next(call, "blank")

    def cut_next(self, call: str) -> None:
        self._next(call, "cut")

    def hang_next(self, call: str) -> None:
        self._values["command_timeout_s"] = 0.5
        self.restart()
        self._next(call, "hang")

    def refuse_next_drain(self) -> None:
        self.queue.load()["may_drain"] = False
        self.queue.save()

    def start_job_in_next_drain(self, worker: str) -> None:
        self._next("drain", "start-job")

    def lose_part(self) -> str:
        self.queue.load()["missing"] = ["server2 does not answer"]
        self.queue.save()
        return "server2"


class TestCommand(BatchConformance):
    cannot = CANNOT

    @pytest.fixture
    def bench(self, tmp_path: Path) -> BatchBench:
        return CommandBench(tmp_path / "queue")
