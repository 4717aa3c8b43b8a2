"""The HTCondor plugin keeps the contract: over fake commands, and over fake bindings in its helper process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Optional

import pytest

from elastiq.interfaces import Owner
from elastiq.plugins.batch.htcondor import HTCondor
from tests.conformance.batch import BatchBench, BatchConformance
from tests.integration.fake_htcondor import FAKE_BINDINGS, FakePool

OWNER = Owner("test", "0123456789abcdef0123")


class HTCondorBench(BatchBench):
    def __init__(self, folder: Path, query_method: str) -> None:
        self.pool = FakePool(folder)
        values = {option.name: option.default for option in HTCondor.OPTIONS}
        values.update({"command_timeout_s": 20.0, "query_method": query_method})
        self.batch = HTCondor.from_config(values, OWNER)

    def submit(self, count: int = 1, cpus: float = 1, memory_mb: Optional[float] = None) -> None:
        memory: dict[str, Any] = {} if memory_mb is None else {"RequestMemory": memory_mb}
        self.pool.submit(count, RequestCpus=cpus, **memory)

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self.pool.submit(count, status=5, RequestCpus=cpus)

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        self.pool.add_worker(name, address, cpus, memory_mb)
        return name

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self.pool.start_job(worker, cpus)

    def lose_worker(self, worker: str) -> None:
        del self.pool.load()["workers"][worker]
        self.pool.save()

    def fail_next(self, call: str) -> None:
        self.pool.once(call, "fail")

    def garble_next(self, call: str) -> None:
        self.pool.once(call, "garble")

    def refuse_next_drain(self) -> None:
        self.pool.load()["may_drain"] = False
        self.pool.save()

    def lose_part(self) -> str:
        self.pool.load().update({"schedds": ["head", "schedd2"], "dead": ["schedd2"]})
        self.pool.save()
        return "schedd2"


class TestHTCondor(BatchConformance):
    @pytest.fixture(params=["commands", "bindings"])
    def bench(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> Iterator[HTCondorBench]:
        bench = HTCondorBench(tmp_path / "pool", request.param)
        monkeypatch.setenv("PATH", str(bench.pool.bin), prepend=":")
        monkeypatch.setenv("PYTHONPATH", str(FAKE_BINDINGS))
        yield bench
