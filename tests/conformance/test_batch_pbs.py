"""The plugins for Torque and for PBS Pro keep the contract, over fake commands: no package has a server of either."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import pytest

from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.interfaces import Instance
from elastiq.plugins.batch.pbs import PBS
from elastiq.plugins.batch.torque import Torque
from tests.integration.fake_pbs import FakePBS
from tests.integration.pbs_plugin import plugin_over

ASKED_BY = {"workers": "nodes", "jobs_recorded_on": "jobs", "register": "qmgr", "unregister": "qmgr", "forget": "qmgr"}


class PBSBench(BatchBench):
    batch: PBS

    def __init__(self, folder: Path, plugin: type[PBS]) -> None:
        self.plugin, self.server = plugin, FakePBS(folder, plugin.section)
        self.values: dict[str, Any] = {option.name: option.default for option in plugin.OPTIONS}
        self.values["command_timeout_s"] = 20.0
        self.torque = plugin is Torque
        self.restart()

    def restart(self) -> None:
        self.batch = plugin_over(self.server, self.plugin, **self.values)

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
        more = {"Job_Owner": f"{user}@login.example.org"} if user else {}
        more.update({"Job_Name": name} if name else {})
        self.server.submit_shape(count, cpus, memory_mb, nodes, **more)

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self.server.submit_shape(count, cpus, state="H")

    def depend(self, count: int = 1, cpus: float = 1) -> None:
        self.server.submit_shape(count, cpus, state="H", depend="afterok:1.head.example.org", Hold_Types="s")

    def blocked_forms(self) -> Mapping[str, Callable[[int], None]]:
        def of(count: int, **more: str) -> None:
            self.server.submit_shape(count, 1, **more)

        def in_queue(count: int, **queue: str) -> None:
            self.server.load()["queues"]["other"] = {"queue_type": "Execution", "started": "True", **queue}
            self.server.save()
            of(count, queue="other")

        limit = "Not Running: User has reached queue running job limit."
        states = {
            "waiting for its hour": "W",
            "in transit": "T",
            "ended": "C" if self.torque else "F",
            "unheard-of": "Z",
        }
        return {
            **{f"a job that is {what}": partial(of, state=state) for what, state in states.items()},
            "a limit": partial(of, comment=limit),
            "a stopped queue": partial(in_queue, started="False"),
            "a routing queue": partial(in_queue, queue_type="Route"),
            "a suspended job": partial(of, state="S"),
        }

    def submit_array(self, count: int, limit: Optional[int] = None, cpus: float = 1, on: Sequence[str] = ()) -> None:
        self.server.submit_array(count, limit, cpus, [self.server.node_named(name) for name in on])

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self.server.start_job(self.server.node_named(worker), cpus=cpus)

    def start_across(self, workers: Sequence[str], cpus: float = 1) -> None:
        self.server.start_job(*workers, cpus=cpus)

    def hold_running(self, worker: str) -> None:
        self.server.start_job(worker, Hold_Types="u")

    def end_job(self, worker: str) -> None:
        self.server.end_job(worker)

    # ---- the workers

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        self.server.add_node(name, address, cpus, memory_mb)
        return name.lower()

    def lose_worker(self, worker: str) -> None:
        self.server.change_node(worker, state="down")

    def busy_forms(self) -> Mapping[str, Callable[[str], None]]:
        def in_state(worker: str, state: str) -> None:
            self.server.start_job(worker)
            self.server.change_node(worker, state=state)

        def alone(worker: str, state: str) -> None:
            self.server.change_node(worker, state=state)

        jobs = {"ending": "E", "suspended": "S", "running": "R"}
        states = ("job-exclusive", "job-exclusive,busy", "job-sharing", "busy", "dreaming", "free,dreaming", "job-busy")
        return {
            **{f"a job that is {what}": partial(self._start, state=state) for what, state in jobs.items()},
            **{f"{state} with a job": partial(in_state, state=state) for state in states},
            **{f"{state} alone": partial(alone, state=state) for state in ("job-exclusive", "job-busy")},
            "a job of all cores": partial(self._start, cpus=4),
        }

    def _start(self, worker: str, cpus: float = 1, state: str = "R") -> None:
        self.server.start_job(worker, cpus=cpus, state=state)

    def strange_forms(self) -> Mapping[str, Callable[[str], None]]:
        states = ("busy", "reserve", "dreaming", "maintenance", "resv-exclusive", "provisioning", "<various>")
        return {state: partial(self.server.change_node, state=state) for state in states}

    def drain_by_hand(self, worker: str) -> None:
        self.server.change_node(worker, offline=True, note="a new kernel")

    # ---- machines that are made known, and forgotten

    @staticmethod
    def _name(instance: Instance) -> str:
        return "ip-" + min(instance.addresses).replace(".", "-")

    def knows(self, instance: Instance) -> bool:
        return self.holds(self._name(instance))

    def join(self, instance: Instance) -> str:
        name = self._name(instance)
        if self.knows(instance):
            self.server.change_node(name, state="free", np=4, mem_kb=8192 * 1024)
        return name

    def holds(self, worker: str) -> bool:
        return worker in self.server.load()["nodes"]

    # ---- what goes wrong

    def fail_next(self, call: str) -> None:
        self.server.once(ASKED_BY.get(call, call), "fail")

    def garble_next(self, call: str) -> None:
        self._spoil(call, "garble")

    def blank_next(self, call: str) -> None:
        self._spoil(call, "silent")

    def cut_next(self, call: str) -> None:
        self._spoil(call, "cut")

    def _spoil(self, call: str, how: str) -> None:
        """Both forms of the answer: what the first does not tell, the plugin asks of the other."""
        for kind in (ASKED_BY.get(call, call), f"{ASKED_BY.get(call, call)}-text"):
            self.server.once(kind, how)

    def hang_next(self, call: str) -> None:
        self.values["command_timeout_s"] = 0.6
        self.restart()
        self.server.once(ASKED_BY.get(call, call), "hang")

    def refuse_next_drain(self) -> None:
        self.server.load()["operator"] = False
        self.server.save()

    def start_job_in_next_drain(self, worker: str) -> None:
        self.server.once("drain", "slip")


class OfBoth(BatchConformance):
    plugin: type[PBS]

    @pytest.fixture
    def bench(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PBSBench]:
        monkeypatch.setenv("PATH", str(tmp_path / "server" / "bin"), prepend=":")
        yield PBSBench(tmp_path / "server", self.plugin)


CANNOT = {
    "job-starts": "no node counts the jobs that started there",
    "queues": "a node is one row, however many queues send jobs to it",
    "parts": "one server has all jobs, and answers whole or not at all",
}


class TestTorque(OfBoth):
    plugin = Torque
    cannot = CANNOT


class TestPBS(OfBoth):
    plugin = PBS
    cannot = CANNOT
