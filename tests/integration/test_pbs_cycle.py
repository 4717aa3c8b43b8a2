"""Whole cycles of Torque and PBS Pro, over their fake commands: a node is created for a machine, its MOM joins, jobs
run, the node is drained, the machine ended, the node deleted.

The daemon runs in a process of its own at moto's cloud over HTTP. A thread is what pbs_server, its scheduler and the
MOMs do: whoever has a node and a running machine comes up, and a job starts only where it may.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.integration.at_work import AtWork
from tests.integration.fake_pbs import SERVER, FakePBS
from tests.waiting import until

MAX_VMS = 3
JOB_S = 0.3


class LivePBS(FakePBS):
    """With machines that come up, and jobs that start and end."""

    def __init__(self, folder: Path, system: str, daemon: AtWork) -> None:
        super().__init__(folder, system)
        self.daemon = daemon
        self.trace: Counter[str] = Counter()
        self.dead: set[str] = set()  # machines that run for the cloud, and answer nobody
        self.job_s = JOB_S
        self._ends: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """The state, while no command changes it."""
        with open(self.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.load()
            self.save()

    def submit_jobs(self, count: int) -> None:
        for _ in range(count):
            with open(self.folder / "lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self.submit_shape(1, 1)

    def _live(self) -> None:
        while not self._over.wait(0.1):
            with self.changing() as state:
                for machine in self.daemon.machines():
                    node = state["nodes"].get("ip-" + machine.private_ip.replace(".", "-"))
                    if node is not None:
                        up = machine.state == "running" and machine.id not in self.dead
                        node.update({"state": "free", "np": 1, "mem_kb": 4000 * 1024} if up else {"state": "down"})
                self._end_jobs(state)
                self._start_jobs(state)

    def _end_jobs(self, state: dict[str, Any]) -> None:
        for node in state["nodes"].values():
            done = [job for job, _ in node["jobs"] if self._ends.get(job, 0.0) <= time.monotonic()]
            if node["state"] == "free":
                node["jobs"] = [entry for entry in node["jobs"] if entry[0] not in done]
                state["jobs"] = [job for job in state["jobs"] if f"{job['first']}.{SERVER}" not in done]
                self.trace.update(f"end {job}" for job in done)

    def _start_jobs(self, state: dict[str, Any]) -> None:
        free = [name for name, node in state["nodes"].items() if node["state"] == "free"]
        free = [name for name in free if not state["nodes"][name]["jobs"] and not state["nodes"][name]["offline"]]
        for name, job in zip(free, [job for job in state["jobs"] if job["state"] == "Q"]):
            number = f"{job['first']}.{SERVER}"
            job.update(state="R", host=name)
            state["nodes"][name]["jobs"].append([number, 1])
            self._ends[number] = time.monotonic() + self.job_s
            self.trace[f"begin {number}"] += 1


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[AtWork]:
    daemon = AtWork(tmp_path)
    yield daemon
    daemon.close()


@pytest.fixture
def server(daemon: AtWork, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LivePBS]:
    server = LivePBS(tmp_path / "server", request.param, daemon)
    daemon.write(
        f"[{request.param}]\ncommand_folder = server/bin\n", f"batch_plugin = {request.param}\nlost_after_s = 1"
    )
    text = daemon.config.read_text().replace("max_vms = 1", f"max_vms = {MAX_VMS}")
    daemon.config.write_text(text)
    yield server
    server.close()


def ended(daemon: AtWork) -> bool:
    return all(machine.state == "terminated" for machine in daemon.machines())


@pytest.mark.parametrize("server", ["torque", "pbs"], indirect=True)
def test_nodes_and_machines_come_for_jobs_and_go_and_no_job_is_lost(daemon: AtWork, server: LivePBS) -> None:
    server.submit_jobs(9)
    daemon.start()
    until(lambda: sum(server.trace.values()) == 18)
    until(lambda: daemon.machines() and ended(daemon))
    until(lambda: server.load()["nodes"] == {})
    assert set(server.trace.values()) == {1}  # each began once, and each ended
    assert len(daemon.machines()) <= MAX_VMS
    made = [call[-1] for call in server.calls("qmgr") if "create" in call[-1]]
    gone = [call[-1] for call in server.calls("qmgr") if "delete" in call[-1]]
    assert {name.split()[-1] for name in made} == {name.split()[-1] for name in gone}
    assert "this is a bug" not in daemon.text and "Traceback" not in daemon.text


@pytest.mark.parametrize("server", ["torque"], indirect=True)
def test_a_machine_that_dies_with_its_job_is_ended_when_pbs_records_none_there(daemon: AtWork, server: LivePBS) -> None:
    server.job_s = 3600
    server.submit_jobs(1)
    daemon.start()
    until(lambda: "-> busy" in daemon.text)
    (machine,) = daemon.machines()
    server.dead.add(machine.id)
    until(lambda: "-> lost" in daemon.text)
    until(lambda: "recorded" in daemon.text)
    assert not ended(daemon)
    with server.changing() as state:  # qdel -p
        state["jobs"].clear()
        for node in state["nodes"].values():
            node["jobs"].clear()
    until(lambda: machine.state == "terminated")
    until(lambda: server.load()["nodes"] == {})
