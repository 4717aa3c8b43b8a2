"""elastiq's suite of batch systems over the example: real files."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional

import elastiq_spool
import pytest

from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.interfaces import DrainAnswer, DrainMode, Owner, SourceError

OWNER = Owner("test", "0123456789abcdef0123")


class SpoolBench(BatchBench):
    def __init__(self, directory: Path) -> None:
        self.directory, self.number = directory, 0
        for folder in ("jobs", "workers"):
            (directory / folder).mkdir(parents=True)
        self.restart()

    def restart(self) -> None:
        self.batch = elastiq_spool.Spool.from_config({"directory": str(self.directory)}, OWNER)

    def _put(self, path: str, **row: Any) -> None:
        (self.directory / path).write_text(json.dumps(row))

    def _job(self, count: int, **row: Any) -> None:
        for _ in range(count):
            self.number += 1
            self._put(f"jobs/{self.number}.json", **row)

    def submit(
        self,
        count: int = 1,
        cpus: float = 1,
        memory_mb: Optional[float] = None,
        nodes: int = 1,
        user: str = "",
        name: str = "",
    ) -> None:
        self._job(count, cpus=cpus, memory_mb=memory_mb, state="waiting")

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self._job(count, cpus=cpus, state="held")

    def blocked_forms(self) -> Mapping[str, Callable[[int], None]]:
        return {"a state that nobody knows": lambda count: self._job(count, cpus=1, state="dreaming")}

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        self._put(f"workers/{name.lower()}.json", address=address, cpus=cpus, memory_mb=memory_mb)
        return name.lower()

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self._job(1, cpus=cpus, state="running", worker=worker)

    def end_job(self, worker: str) -> None:
        jobs = (self.directory / "jobs").glob("*.json")
        next(path for path in jobs if json.loads(path.read_text()).get("worker") == worker).unlink()

    def lose_worker(self, worker: str) -> None:
        (self.directory / f"workers/{worker}.json").unlink()

    def _change(self, worker: str, **more: Any) -> None:
        row = json.loads((self.directory / f"workers/{worker}.json").read_text())
        self._put(f"workers/{worker}.json", **{**row, **more})

    def drain_by_hand(self, worker: str) -> None:
        self._change(worker, drained_by="an administrator")

    # ---- what goes wrong

    def _once(self, call: str, wrong: Callable[..., Any]) -> None:
        """Let the next call of this method be ``wrong``, which gets the true method before the arguments."""
        real = getattr(self.batch, call)

        def once(*arguments: Any) -> Any:
            setattr(self.batch, call, real)
            return wrong(real, *arguments)

        setattr(self.batch, call, once)

    def fail_next(self, call: str) -> None:
        """The directory is not there, as with a file server that is not mounted."""

        def not_mounted(real: Callable[..., Any], *arguments: Any) -> Any:
            away = self.directory.with_name("away")
            self.directory.rename(away)
            try:
                return real(*arguments)
            finally:
                away.rename(self.directory)

        self._once(call, not_mounted)

    def _tear(self, call: str, text: str) -> None:
        folder = "workers" if call == "workers" else "jobs"
        (self.directory / folder / "torn.json").write_text(text)

    def garble_next(self, call: str) -> None:
        self._tear(call, "<html>Please log in</html>")

    def blank_next(self, call: str) -> None:
        self._tear(call, "")

    def cut_next(self, call: str) -> None:
        self._tear(call, '{"cpus": 1, "sta')

    def refuse_next_drain(self) -> None:
        """Somebody else drains it at that moment, and lets it go."""

        def refused(real: Callable[..., DrainAnswer], worker: str, mode: DrainMode) -> DrainAnswer:
            self.drain_by_hand(worker)
            answer = real(worker, mode)
            self._change(worker, drained_by=None)
            return answer

        self._once("drain", refused)

    def start_job_in_next_drain(self, worker: str) -> None:
        """Its worker had the lock until now."""

        @contextmanager
        def locked(real: Callable[[], Any]) -> Iterator[None]:
            self.start_job(worker)
            with real():
                yield

        self._once("_locked", locked)


class TestSpool(BatchConformance):
    cannot = {
        "users": "a job's file does not say whose it is",
        "names": "a job's file has a name, and nobody reads it",
        "depend": "no job waits for another",
        "arrays": "one file is one job",
        "array-limit": "one file is one job",
        "nodes": "a job runs on one worker",
        "held-running": "a job has one state",
        "queues": "there is one directory",
        "strange": "a worker is idle, busy or drained",
        "job-starts": "nobody counts them",
        "jobs-on": "left out, to be short",
        "find-job": "left out, to be short",
        "register": "a worker makes itself known by its file",
        "forget": "a worker removes its file at its end",
        "forget-in-service": "see forget",
        "match": "the sizes of jobs and machines are all that counts",
        "hang": "nothing waits for anything: a lock that another has is an error",
        "parts": "there is one directory",
    }

    @pytest.fixture
    def bench(self, tmp_path: Path) -> BatchBench:
        return SpoolBench(tmp_path / "spool")


@pytest.mark.parametrize("text", ["[]", '{"state": "waiting"}', "{}", "null"])
def test_a_job_that_lacks_something_makes_the_queue_unknown(tmp_path: Path, text: str) -> None:
    bench = SpoolBench(tmp_path / "spool")
    (bench.directory / "jobs/1.json").write_text(text)
    with pytest.raises(SourceError, match=r"1\.json lacks one of cpus, state"):
        bench.batch.jobs()


def test_a_spool_that_another_has_locked_is_unknown_at_once(tmp_path: Path) -> None:
    one, two = SpoolBench(tmp_path / "spool"), SpoolBench.__new__(SpoolBench)
    two.directory = one.directory
    two.restart()
    name = one.add_worker("w1", "10.0.0.1")
    with one.batch._locked(), pytest.raises(SourceError, match="locked"):
        two.batch.drain(name, DrainMode.IF_IDLE)
