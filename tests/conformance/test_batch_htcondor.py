"""The HTCondor plugin keeps the contract: over fake commands, and over fake bindings in its helper process."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import pytest

from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.interfaces import Owner
from elastiq.plugins.batch.htcondor import HTCondor
from tests.integration.fake_htcondor import FAKE_BINDINGS, FakePool

OWNER = Owner("test", "0123456789abcdef0123")
SLOTS = (
    *("Claimed/Busy", "Claimed/Idle", "Claimed/Suspended", "Claimed/Retiring", "Matched/Idle"),
    *("Preempting/Vacating", "Preempting/Killing", "Unheard-of/Busy"),
)
ASKED_BY = {"forget": "condor_advertise"}  # else by what the method is called


class HTCondorBench(BatchBench):
    def __init__(self, folder: Path, query_method: str) -> None:
        self.pool = FakePool(folder)
        values = {option.name: option.default for option in HTCondor.OPTIONS}
        self.values = {**values, "command_timeout_s": 20.0, "query_method": query_method}
        self.restart()

    def restart(self) -> None:
        self.batch = HTCondor.from_config(self.values, OWNER)

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
        more: dict[str, Any] = {} if memory_mb is None else {"RequestMemory": memory_mb}
        if nodes > 1:
            more.update(JobUniverse=11, MaxHosts=nodes)
        if name:
            more["JobBatchName"] = name
        self.pool.submit(count, owner=user or "somebody", RequestCpus=cpus, **more)

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self.pool.submit(count, status=5, RequestCpus=cpus)

    def blocked_forms(self) -> Mapping[str, Callable[[int], None]]:
        universes = {"scheduler": 7, "grid": 9, "local": 12, "unheard-of": 77}
        states = {"being removed": 3, "completed": 4, "unheard-of": 99}
        return {
            **{f"{name} universe": partial(self.pool.submit, JobUniverse=n) for name, n in universes.items()},
            **{f"{name} state": partial(self.pool.submit, status=number) for name, number in states.items()},
            "routed elsewhere": partial(self.pool.submit, RoutedToJobId="77.0"),
            "Requirements that are false": partial(self.pool.submit, Requirements=False),
            "a concurrency limit": self._over_the_limit,
        }

    def _over_the_limit(self, count: int) -> None:
        self.pool.submit(status=2, ConcurrencyLimits="licence")
        reason = "concurrency limit licence reached"
        self.pool.submit(count, ConcurrencyLimits="licence", LastRejMatchReason=reason)

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self.pool.start_job(worker, cpus)

    def start_across(self, workers: Sequence[str], cpus: float = 1) -> None:
        self.pool.start_across(list(workers), cpus)

    def end_job(self, worker: str) -> None:
        self.pool.end_job(worker)

    # ---- the workers

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        self.pool.add_worker(name, address, cpus, memory_mb)
        return name.lower()

    def _with(self, worker: str, **row: Any) -> None:
        self.pool.load()["workers"][worker].update(row)
        self.pool.save()

    def lose_worker(self, worker: str) -> None:
        del self.pool.load()["workers"][worker]
        self.pool.save()

    def busy_forms(self) -> Mapping[str, Callable[[str], None]]:
        def slot(state: str, activity: str, worker: str) -> None:
            self.pool.start_job(worker)
            self._with(worker, slot_ad={"State": state, "Activity": activity})

        def static(worker: str) -> None:
            self.pool.start_job(worker)
            self._with(worker, static=True)

        forms: dict[str, Callable[[str], None]] = {form: partial(slot, *form.split("/")) for form in SLOTS}
        return {**forms, "one of several static slots": static}

    def strange_forms(self) -> Mapping[str, Callable[[str], None]]:
        def shown(worker: str, **ad: Any) -> None:
            self._with(worker, top_ad=ad)

        return {
            "its owner's": partial(shown, State="Owner"),
            "unheard-of state": partial(shown, State="Dreaming"),
            "unheard-of activity": partial(shown, Activity="Dreaming"),
            "without a state": partial(shown, State=None),
            "hibernating": partial(shown, Offline=True),
        }

    def drain_by_hand(self, worker: str) -> None:
        self._with(worker, drain="a new kernel", shown_drain="a new kernel")

    def end_worker(self, worker: str) -> None:
        """The collector keeps the ad of a machine that ended for CLASSAD_LIFETIME, as it was."""

    def holds(self, worker: str) -> bool:
        return worker in self.pool.load()["workers"]

    # ---- what goes wrong

    def fail_next(self, call: str) -> None:
        self.pool.once(ASKED_BY.get(call, call), "fail")

    def garble_next(self, call: str) -> None:
        self.pool.once(call, "garble")

    def cut_next(self, call: str) -> None:
        self.pool.once(call, "cut")

    def hang_next(self, call: str) -> None:
        self.values["command_timeout_s"] = 0.6
        self.restart()
        self.pool.once(call, "hang")

    def lose_part(self) -> str:
        self.pool.load().update({"schedds": ["head", "schedd2"], "dead": ["schedd2"]})
        self.pool.save()
        return "schedd2"

    def refuse_next_drain(self) -> None:
        self.pool.load()["may_drain"] = False
        self.pool.save()

    def start_job_in_next_drain(self, worker: str) -> None:
        self.pool.once("drain", "slip")


class TestHTCondor(BatchConformance):
    cannot = {
        "depend": "a job that waits for another is in no queue yet: DAGMan submits it when its parents are done",
        "arrays": "each of a queue of jobs is a job of its own; those that a factory has yet to make are not there",
        "array-limit": "see arrays",
        "held-running": "condor_hold takes a running job off its machine",
        "queues": "a machine has one ad for each slot, and they are of one pool",
        "register": "a worker makes itself known, by its token",
        "forget-in-service": "an ad does not say whether its machine is still there; a live one sends it again",
        "blank": "condor_q and condor_status print nothing at all where there is nothing",
    }

    @pytest.fixture(params=["commands", "bindings"])
    def bench(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> Iterator[HTCondorBench]:
        bench = HTCondorBench(tmp_path / "pool", request.param)
        monkeypatch.setenv("PATH", str(bench.pool.bin), prepend=":")
        monkeypatch.setenv("PYTHONPATH", str(FAKE_BINDINGS))
        yield bench
