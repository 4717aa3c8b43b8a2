"""The Grid Engine plugin keeps the contract, over fake commands."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import pytest

from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.interfaces import Instance, Owner
from elastiq.plugins.batch.gridengine import GridEngine
from tests.integration.fake_gridengine import FakeCluster

OWNER = Owner("test", "0123456789abcdef0123")
# How the fake calls what the plugin asks first.
CALLS = {"workers": "hosts", "jobs_recorded_on": "hosts", "forget": "unregister"}


class GridEngineBench(BatchBench):
    worker_ad = ("queues = all.q",)

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        values = {option.name: option.default for option in GridEngine.OPTIONS}
        self.values = {**values, "command_timeout_s": 20.0, "memory_complexes": ("vmem",)}
        self.restart()

    def restart(self) -> None:
        self.batch = GridEngine.from_config(self.values, OWNER)

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
        job: dict[str, Any] = {"slots": int(cpus * nodes)}
        if nodes > 1:
            job["pe"] = f"each{cpus:g}"
            self.cluster.load()["pes"][job["pe"]] = f"{cpus:g}"
            self.cluster.save()
        elif cpus > 1:
            job["pe"] = "smp"
        if memory_mb is not None:
            job["requests"] = {"vmem": f"{memory_mb / cpus:g}M"}  # of each slot
        if user:
            job["owner"] = user
        if name:
            job["name"] = name
        self.cluster.submit(count, **job)

    def start_job(self, worker: str, cpus: float = 1) -> None:
        job: dict[str, Any] = {"pe": "smp"} if cpus > 1 else {}
        self.cluster.run_job([worker], cpus, **job)

    def end_job(self, worker: str) -> None:
        jobs = self.cluster.load()["jobs"]
        jobs.remove(next(job for job in jobs if worker in map(str.lower, job.get("hosts") or ())))
        self.cluster.save()

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self.cluster.submit(count, state="hqw", slots=int(cpus))

    def depend(self, count: int = 1, cpus: float = 1) -> None:
        self.cluster.submit(count, state="hqw", slots=int(cpus))

    def blocked_forms(self) -> Mapping[str, Callable[[int], None]]:
        def put(job: dict[str, Any], count: int) -> None:
            self.cluster.submit(count, **job)

        states = ("Eqw", "hRwq", "EhRqw", "dqw", "hr", "Zqw", "")
        return {
            **{f"state {state or 'of no letter'}": partial(put, {"state": state}) for state in states},
            "its time is to come": partial(put, {"later": True}),
            "a host that no new machine is": partial(put, {"requests": {"hostname": "node07"}}),
        }

    def submit_array(self, count: int, limit: Optional[int] = None, cpus: float = 1, on: Sequence[str] = ()) -> None:
        pe: dict[str, Any] = {"pe": "smp"} if cpus > 1 else {}
        number = self.cluster.submit(tasks=f"{len(on) + 1}-{count}:1", slots=int(cpus), limit=limit, **pe)
        for task, worker in enumerate(on, 1):
            self.cluster.run_job([worker], cpus, tasks=str(task), **pe)
            self.cluster.load()["jobs"][-1]["first"] = number
            self.cluster.save()

    def start_across(self, workers: Sequence[str], cpus: float = 1) -> None:
        self.cluster.run_job(list(workers), cpus, pe="mpi")

    def hold_running(self, worker: str) -> None:
        self.cluster.run_job([worker], state="hr")

    # ---- the workers

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        if name in self.cluster.load()["hosts"]:
            self.cluster.change(name, alive=True)
        else:
            self.cluster.add_host(name, address, cpus, memory_mb)
        return name.lower()

    def lose_worker(self, worker: str) -> None:
        self.cluster.change(worker, alive=False, seen=True)

    def busy_forms(self) -> Mapping[str, Callable[[str], None]]:
        def run(state: str, worker: str) -> None:
            self.cluster.run_job([worker], state=state)

        def without_slots(worker: str) -> None:
            self.cluster.run_job([worker])
            self.cluster.change(worker, slots_used=0)

        def without_jobs(worker: str) -> None:
            self.cluster.change(worker, slots_used=1)

        def as_slave(worker: str) -> None:
            self.cluster.add_host(f"master-of-{worker}", "10.0.9.9")
            self.start_across([f"master-of-{worker}", worker])

        def in_state(letters: str, worker: str) -> None:
            self.cluster.run_job([worker])
            self.cluster.change(worker, states={"all.q": letters})

        return {
            **{f"job {state}": partial(run, state) for state in ("r", "t", "Rr", "hr", "s", "S", "T", "dr", "dt", "?")},
            "a job, but no slot in use": without_slots,
            "a slot in use, but no job": without_jobs,
            "a slave of a parallel job": as_slave,
            **{f"a queue in state {letters}": partial(in_state, letters) for letters in ("a", "E", "s", "o", "Z")},
        }

    def strange_forms(self) -> Mapping[str, Callable[[str], None]]:
        def state(letters: str, worker: str) -> None:
            self.cluster.change(worker, states={"all.q": letters})

        def in_no_queue(worker: str) -> None:
            self.cluster.load()["groups"]["@allhosts"].remove(worker)
            self.cluster.save()

        def in_part(worker: str) -> None:
            self.list_twice(worker)
            self.cluster.change(worker, states={"all.q": "d", "gpu.q": "E"})

        states = ("a", "A", "D", "E", "c", "o", "s", "S", "C", "P", "aE", "Z")
        return {
            **{f"state {letters}": partial(state, letters) for letters in states},
            "in no queue": in_no_queue,
            "one queue disabled, the other in error": in_part,
        }

    def list_twice(self, worker: str) -> None:
        self.cluster.load()["queues"]["gpu.q"] = ["@gpus"]
        self.cluster.state["groups"].setdefault("@gpus", []).append(worker)
        self.cluster.save()

    def drain_by_hand(self, worker: str) -> None:
        self.cluster.change(worker, states={"all.q": "d"})

    # ---- machines that are made known, and forgotten

    def _name(self, instance: Instance) -> str:
        (address,) = instance.addresses
        return f"node{address.rpartition('.')[2]}"

    def knows(self, instance: Instance) -> bool:
        state, name = self.cluster.load(), self._name(instance)
        known = [name in state["hosts"], name in state["admin"], name in state["groups"]["@allhosts"]]
        assert len(set(known)) == 1, known
        return known[0]

    def join(self, instance: Instance) -> str:
        name = self._name(instance)
        if name in self.cluster.load()["admin"] and name in self.cluster.state["hosts"]:
            self.cluster.change(name, alive=True)
        return name

    def holds(self, worker: str) -> bool:
        return worker in self.cluster.load()["hosts"]

    # ---- what goes wrong

    def fail_next(self, call: str) -> None:
        self.cluster.once(CALLS.get(call, call), "fail")

    def garble_next(self, call: str) -> None:
        self.cluster.once(CALLS.get(call, call), "garble")

    def blank_next(self, call: str) -> None:
        self.cluster.once(CALLS.get(call, call), "blank")

    def cut_next(self, call: str) -> None:
        self.cluster.once(CALLS.get(call, call), "cut")

    def hang_next(self, call: str) -> None:
        self.values["command_timeout_s"] = 0.6
        self.restart()
        self.cluster.once(CALLS.get(call, call), "hang")

    def refuse_next_drain(self) -> None:
        self.cluster.load()["may_change"] = False
        self.cluster.save()

    def start_job_in_next_drain(self, worker: str) -> None:
        self.cluster.once("drain", "slip")


class TestGridEngine(BatchConformance):
    cannot = {
        "job-starts": "the master does not count them",
        "parts": "there is one master, which knows the whole queue",
    }

    @pytest.fixture
    def bench(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GridEngineBench]:
        names = {f"node{number}": f"10.0.0.{number}" for number in (7, 8)}
        cluster = FakeCluster(tmp_path / "cluster", names=names)
        monkeypatch.setenv("PATH", str(cluster.bin), prepend=":")
        yield GridEngineBench(cluster)
