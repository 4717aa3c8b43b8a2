"""The Slurm plugin keeps the contract: over fake commands, in the forms of two versions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import pytest

from elastiq.command import CommandResult
from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.interfaces import Instance, Owner
from elastiq.plugins.batch.slurm import Slurm
from elastiq.plugins.batch.tools import Tools
from tests.integration.fake_slurm import FakeSlurm

OWNER = Owner("test", "0123456789abcdef0123")
PUT_BACK = {"forget": "put_back", "unregister": "put_back"}
BLOCKED = (
    *("Dependency", "DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "JobArrayTaskLimit", "Licenses"),
    *("AssocGrpCpuLimit", "AssocGrpGRES", "QOSMaxJobsPerUserLimit", "QOSGrpNodeMinutes", "MaxCpuPerAccount"),
    *("PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown", "Reservation", "BadConstraints", "Prolog"),
    *("ReqNodeNotAvail, Reserved for maintenance", "SomethingOfALaterVersion"),
)


class InProcess(Tools):
    def __init__(self, slurm: FakeSlurm) -> None:
        super().__init__(1.0, "")
        self._slurm = slurm

    def run(self, tool: str, *args: str, stdin: bytes = b"", timeout_s: Optional[float] = None) -> CommandResult:
        code, told, complaint = self._slurm.run(tool, *args)
        return CommandResult(code, told.encode(), complaint.encode())


class SlurmBench(BatchBench):
    # Slurm has names of jobs in no column that is asked for, and nodes' names are ASCII.
    worker_ad = ("Partitions = main", "Features = fast")

    def __init__(self, folder: Path, version: str, query_method: str) -> None:
        self.slurm = FakeSlurm(folder, version)
        self._values: dict[str, Any] = {option.name: option.default for option in Slurm.OPTIONS}
        self._values.update(command_timeout_s=20.0, query_method=query_method, predeclared_nodes=("p[1-3]",))
        for number in (1, 2, 3):
            self.slurm.add_node(
                f"p{number}", "192.0.2.1", base="DOWN", flags=["CLOUD"], started=None, reason="elastiq: no machine"
            )
        self.restart()

    def restart(self) -> None:
        """Commands are run in this process, which is a hundred times as fast; those that hang are real ones."""
        self.batch = Slurm.from_config({**self._values, "command_folder": str(self.slurm.bin)}, OWNER)
        if self._values["command_timeout_s"] > 1:
            self.batch.source.tools = InProcess(self.slurm)

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
        memory = None if memory_mb is None else memory_mb * nodes
        said = {"user": user or "somebody", "name": name, "max_nodes": nodes if nodes > 1 else 0, "ntasks": nodes}
        self.slurm.submit(count, cpus=cpus * nodes, memory=memory, nodes=nodes, **said)

    def start_job(self, worker: str, cpus: float = 1, state: str = "R", **said: Any) -> None:
        self.slurm.load()
        self.slurm.submit(cpus=cpus, state=state, hosts=[self.slurm.spelt(worker)], **{"reason": "None", **said})

    def end_job(self, worker: str) -> None:
        jobs = self.slurm.load()["jobs"]
        jobs.remove(next(job for job in jobs if self.slurm.spelt(worker) in job["hosts"]))
        self.slurm.save()

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self.slurm.submit(count, cpus=cpus, reason="JobHeldUser")

    def depend(self, count: int = 1, cpus: float = 1) -> None:
        self.slurm.submit(count, cpus=cpus, reason="Dependency")

    def blocked_forms(self) -> Mapping[str, Callable[[int], Any]]:
        forms: dict[str, Callable[[int], Any]] = {
            **{reason: partial(self.slurm.submit, reason=reason) for reason in BLOCKED},
            "to begin tomorrow": partial(self.slurm.submit, reason="BeginTime", begin=4_000_000_000),
            "requeued and held": partial(self.slurm.submit, state="RH"),
            "a special exit": partial(self.slurm.submit, state="SE"),
            "a state of a later version": partial(self.slurm.submit, state="XX"),
            "by the names of nodes": partial(self.slurm.submit, asked_nodes="n[1-3]", reason="ReqNodeNotAvail"),
            "in a reservation": partial(self.slurm.submit, reservation="r1"),
        }
        return forms

    def submit_array(self, count: int, limit: Optional[int] = None, cpus: float = 1, on: Sequence[str] = ()) -> None:
        array = max((job["id"] for job in self.slurm.load()["jobs"]), default=0) + 1
        tasks = f"{len(on)}-{count - 1}"
        self.slurm.submit(array=array, tasks=tasks, limit=limit or 0, cpus=cpus)
        for task, worker in enumerate(on):
            self.start_job(worker, cpus, array=array, tasks=str(task))

    def start_across(self, workers: Sequence[str], cpus: float = 1) -> None:
        hosts = [self.slurm.spelt(worker) for worker in workers]
        self.slurm.submit(state="R", reason="None", hosts=hosts, nodes=len(hosts), cpus=cpus * len(hosts))

    def hold_running(self, worker: str) -> None:
        self.start_job(worker, reason="JobHeldUser")

    # ---- the workers

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        self.slurm.add_node(name, address, cpus=cpus, memory=memory_mb)
        return name.lower()

    def lose_worker(self, worker: str) -> None:
        self.slurm.load()
        of = self.slurm.state["nodes"][self.slurm.spelt(worker)]
        flags = sorted({*of["flags"], "NOT_RESPONDING"})
        self.slurm.change_node(worker, base="DOWN", flags=flags, reason=of["reason"] or "Not responding")

    def busy_forms(self) -> Mapping[str, Callable[[str], None]]:
        states = {"running": "R", "configuring": "CF", "completing": "CG", "suspended": "S", "stopped": "ST"}
        return {
            **{form: partial(self.start_job, state=state) for form, state in states.items()},
            "a state of a later version": partial(self.start_job, state="XX"),
            "its own record alone": lambda worker: self.slurm.change_node(worker, base="ALLOCATED"),
            "completing, by its own record": partial(self._flag, "COMPLETING"),
            "a job on all of it, and no answer": self._busy_and_silent,
        }

    def _flag(self, flag: str, worker: str) -> None:
        self.slurm.load()
        flags = self.slurm.state["nodes"][self.slurm.spelt(worker)]["flags"]
        self.slurm.change_node(worker, flags=[*flags, flag])

    def _busy_and_silent(self, worker: str) -> None:
        self.start_job(worker, cpus=4)
        self._flag("NOT_RESPONDING", worker)

    def strange_forms(self) -> Mapping[str, Callable[[str], None]]:
        flags = (
            *("NOT_RESPONDING", "POWERING_UP", "POWERING_DOWN", "MAINT", "RESERVED", "REBOOT_REQUESTED"),
            *("REBOOT_ISSUED", "FAIL", "INVALID_REG", "BLOCKED", "FROBNICATING"),
        )
        change = self.slurm.change_node
        return {
            **{flag: partial(self._flag, flag) for flag in flags},
            "unknown": lambda worker: change(worker, base="UNKNOWN"),
            "in error": lambda worker: change(worker, base="ERROR", reason="broken"),
            "not registered since slurmctld started": lambda worker: change(worker, started=None),
            "down, and it answers": lambda worker: change(worker, base="DOWN", reason="Node unexpectedly rebooted"),
            "drained, but it does not answer": lambda worker: change(
                worker, flags=["DRAIN", "DYNAMIC_NORM", "NOT_RESPONDING"], reason="disk"
            ),
        }

    def list_twice(self, worker: str) -> None:
        self.slurm.load()
        self.slurm.change_node(worker, partitions=["main", "debug"])

    def drain_by_hand(self, worker: str) -> None:
        self._flag("DRAIN", worker)
        self.slurm.change_node(worker, reason="new disk")

    # ---- machines that are made known, and forgotten

    def knows(self, instance: Instance) -> bool:
        nodes = self.slurm.load()["nodes"].values()
        return any(instance.id in of["comment"] or of["address"] in instance.addresses for of in nodes)

    def join(self, instance: Instance) -> str:
        found = [name for name, of in self.slurm.load()["nodes"].items() if of["address"] in instance.addresses]
        self.slurm.change_node(found[0], base="IDLE", flags=["CLOUD"], started=self.slurm.state["now"], reason="")
        return str(found[0])

    def end_worker(self, worker: str) -> None:
        self.slurm.load()
        of = self.slurm.state["nodes"][self.slurm.spelt(worker)]
        if "DRAIN" not in of["flags"]:  # what was drained looks as before, until Slurm notices
            self.lose_worker(worker)

    def holds(self, worker: str) -> bool:
        return worker in {name.lower() for name in self.slurm.load()["nodes"]}

    # ---- what goes wrong

    def fail_next(self, call: str) -> None:
        self.slurm.once(PUT_BACK.get(call, call), "fail")

    def garble_next(self, call: str) -> None:
        self.slurm.once(call, "garble")

    def blank_next(self, call: str) -> None:
        self.slurm.once(call, "blank")

    def cut_next(self, call: str) -> None:
        self.slurm.once(call, "cut")

    def hang_next(self, call: str) -> None:
        self._values["command_timeout_s"] = 0.5
        self.restart()
        self.slurm.once(call, "hang")

    def refuse_next_drain(self) -> None:
        self.slurm.load()["may_update"] = False
        self.slurm.save()

    def start_job_in_next_drain(self, worker: str) -> None:
        self.slurm.load()["slips_in"] = self.slurm.spelt(worker)
        self.slurm.save()


class TestSlurm(BatchConformance):
    cannot = {"job-starts": "slurmctld does not count them", "parts": "there is one queue"}

    @pytest.fixture(params=["22.05.8 auto", "24.11.5 json"])
    def bench(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SlurmBench]:
        yield SlurmBench(tmp_path / "slurm", *request.param.split())
