"""What a test does with the cluster, and what it can see of it."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import Any, Callable, Collection

from tests.e2e.rig import htcondor
from tests.e2e.rig.client import Ec2
from tests.e2e.rig.process import RigError

IDLE, RUNNING, COMPLETED = 1, 2, 4
LEAST_S, BESIDE_OTHERS = 60.0, 2  # no deadline of a test measures anything: beside others all takes longer


def wait_for(condition: Callable[[], Any], deadline_s: float, what: str, every_s: float = 0.2) -> Any:
    """Poll until the condition is true and return its value; AssertionError that says what never came.

    ``deadline_s``: by when it surely has come where the machine does nothing else.
    """
    limit_s = max(LEAST_S, BESIDE_OTHERS * deadline_s)
    until = time.monotonic() + limit_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < until, f"not within {limit_s:g} s: {what}"
        time.sleep(every_s)


def stays(condition: Callable[[], Any], for_s: float, what: str, every_s: float = 0.2) -> None:
    """The condition holds all the time; AssertionError that says what did not."""
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        assert condition(), f"did not stay so: {what}"
        time.sleep(every_s)


class Cluster:
    """The batch queue, the workers and the cloud of one test."""

    def __init__(self) -> None:
        self.ec2 = Ec2()
        self.clouds = [self.ec2]  # of the endpoints that the test uses
        self._submitted: dict[int, int] = {}
        self._lock = threading.Lock()

    def submit(self, count: int, seconds: float, *lines: str) -> int:
        """Submit sleep jobs; ``lines`` are further ones of the submit description. Returns the cluster id."""
        cluster_id = htcondor.submit(count, seconds, lines)
        with self._lock:
            self._submitted[cluster_id] = count
        return cluster_id

    def run_on(self, machine: str, seconds: float, deadline_s: float = 20) -> int:
        """Submit one job that only this machine may run, and return when it runs there (or has run)."""
        cluster_id = self.submit(1, seconds, f'requirements = Machine == "{machine}"')
        waiting = f"ClusterId == {cluster_id} && JobStatus == {IDLE}"
        wait_for(lambda: not htcondor.queue("ClusterId", waiting), deadline_s, f"a job on {machine}", 0.3)
        return cluster_id

    def jobs(self, *states: int) -> list[dict[str, Any]]:
        """The ads of the jobs in the queue; only those in ``states`` if given."""
        found = htcondor.queue("ClusterId,ProcId,JobStatus,RemoteHost,NumJobStarts,HoldReason")
        return [job for job in found if not states or job["JobStatus"] in states]

    def ended_jobs(self) -> list[dict[str, Any]]:
        """The history ads of this test's jobs."""
        ended = htcondor.history("ClusterId,ProcId,JobStatus,ExitCode,NumJobStarts,LastRemoteHost")
        return [job for job in ended if job["ClusterId"] in self._submitted]

    def all_jobs_ran(self) -> bool:
        """Whether every submitted job has left the queue."""
        return not self.jobs()

    def assert_no_job_lost(self, but: Collection[int] = ()) -> None:
        """Every job of this test came to its end at its first start: none was evicted, held or removed. Not so the
        clusters that are named: none of those ended."""
        ended = Counter(job["ClusterId"] for job in self.ended_jobs())
        expected = {cluster_id: count for cluster_id, count in self._submitted.items() if cluster_id not in but}
        assert ended == Counter(expected), "jobs are missing in the history"
        spoilt = [
            job for job in self.ended_jobs()
            if (job["JobStatus"], job.get("ExitCode"), job.get("NumJobStarts")) != (COMPLETED, 0, 1)
        ]  # fmt: skip
        assert not spoilt, f"jobs that did not run to their end at the first start: {spoilt}"

    def lost_jobs(self) -> list[dict[str, Any]]:
        """The jobs that were started and thrown out of their machine."""
        starts = [(job, job.get("NumJobStarts", 0)) for job in self.jobs()]
        return [job for job, count in starts if count > 1 or (count and job["JobStatus"] == IDLE)]

    def machines(self) -> dict[str, set[str]]:
        """The states of all slots of each worker, as the collector has them."""
        found: dict[str, set[str]] = {}
        for slot in htcondor.machines("Machine,State"):
            found.setdefault(slot["Machine"], set()).add(slot["State"])
        return found

    def undrain(self, machine: str) -> None:
        """Let a drained machine take jobs again, as an administrator would."""
        htcondor.as_root(["condor_drain", "-cancel", machine])

    def launch_calls(self) -> list[dict[str, Any]]:
        return self.ec2.log("RunInstances")

    def ended_ids(self) -> set[str]:
        """The instances that anybody asked to end."""
        return {
            value
            for call in self.ec2.log("TerminateInstances")
            for name, value in call["parameters"].items()
            if name.startswith("InstanceId")
        }

    def evidence(self) -> str:
        """For a person who looks at a test that failed."""
        parts: dict[str, Callable[[], object]] = {
            "EC2 calls": lambda: "\n".join(f"{cloud.endpoint.name} {_acts(cloud)}" for cloud in self.clouds),
            "instances": lambda: [cloud.instances() for cloud in self.clouds],
            "jobs": self.jobs,
            "machines": self.machines,
        }
        return "\n".join(f"--- {name}\n{_or_error(part)}" for name, part in parts.items())


def _acts(cloud: Ec2) -> str:
    return "\n".join(json.dumps(call) for call in cloud.log() if not call["action"].startswith("Describe"))


def _or_error(part: Callable[[], object]) -> object:
    try:
        return part()
    except RigError as error:
        return error
