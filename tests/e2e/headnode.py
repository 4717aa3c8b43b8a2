"""A head node as an administrator has it: a booted Debian with its HTCondor, in the rig's network.

It takes the place of the rig's own head, which stands still meanwhile; the rig's cloud and its workers are the same.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Iterator

from tests.e2e import booted
from tests.e2e.cluster import IDLE, wait_for
from tests.e2e.rig import condor_config, htcondor, lifecycle, places
from tests.e2e.rig.client import Ec2

# What the package of HTCondor has at its own places.
_OF_THE_PACKAGE = (
    "RELEASE_DIR", "LIB", "LIBEXEC", "SBIN", "BIN", "CONDOR_IDS", "LOCAL_DIR", "LOG", "SPOOL", "EXECUTE", "LOCK", "RUN",
    "SEC_PASSWORD_DIRECTORY", "SEC_PASSWORD_FILE", "SEC_TOKEN_SYSTEM_DIRECTORY", "SEC_TOKEN_DIRECTORY",
)  # fmt: skip


class HeadNode:
    """The machine and what an administrator and a user do there."""

    def __init__(self, machine: booted.Machine, key: bytes) -> None:
        self.machine, self.cloud, self._key = machine, Ec2(), key

    def start_htcondor(self) -> None:
        """As after `apt install condor`, with the pool's key and configuration; waits until it answers."""
        self.machine.run("mkdir", "--parents", "--mode=700", "/etc/condor/passwords.d")
        self.machine.put("/etc/condor/passwords.d/POOL", self._key, 0o600)
        lines = condor_config.head("/nonexistent").splitlines()
        kept = [line for line in lines if line.partition(" = ")[0] not in _OF_THE_PACKAGE]
        self.machine.put("/etc/condor/config.d/50-rig", "\n".join(kept) + "\n")
        self.machine.run("systemctl", "enable", "--now", "condor.service")
        self.wait_for_htcondor()

    def wait_for_htcondor(self) -> None:
        def answers() -> bool:
            rows = self.machine.ask("condor_status", "-any", "-autoformat", "MyType").stdout
            return {"Collector", "Negotiator", "Scheduler"} <= set(rows.split())

        wait_for(answers, 40, "an answer of HTCondor")

    def submit(self, count: int, seconds: float) -> None:
        """Submit sleep jobs as a user of the machine."""
        text = f"executable = /bin/sleep\narguments = {seconds:g}\ntransfer_executable = false\n"
        text += "should_transfer_files = IF_NEEDED\nrequest_cpus = 1\nrequest_memory = 64\nrequest_disk = 1M\n"
        self.machine.put("/tmp/sleep.sub", f"{text}initialdir = /tmp\nqueue {count}\n")
        self.machine.run("condor_submit", "-terse", "/tmp/sleep.sub", user="jobuser")

    def jobs(self, *states: int) -> list[dict[str, Any]]:
        """The jobs in the queue; only those in ``states`` if given."""
        words = ["condor_q", "-allusers", "-json", "-attributes", "ClusterId,ProcId,JobStatus,NumJobStarts,HoldReason"]
        text = self.machine.run(*words)
        found = json.loads(text) if text.strip() else []
        return [job for job in found if not states or job["JobStatus"] in states]

    def no_job_started_twice(self) -> bool:
        return all(job.get("NumJobStarts", 0) <= 1 and job["JobStatus"] != IDLE for job in self.jobs())

    def status(self) -> dict[str, Any]:
        """What `elastiqctl status --json` prints; empty if it does not run or answer."""
        done = self.machine.ask("elastiqctl", "status", "--json")
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    def nodes(self) -> list[str]:
        """The instances that elastiq knows of."""
        return sorted(node["id"] for node in self.status().get("nodes", ()) if node["id"].startswith("i-"))

    def alive(self) -> list[str]:
        return sorted(instance["id"] for instance in self.cloud.alive())

    def evidence(self) -> str:
        """For a person who looks at a test that failed."""
        calls = [call for call in self.cloud.log() if not call["action"].startswith("Describe")]
        journal = self.machine.journal("elastiq.service")[-8000:]
        return f"--- journal\n{journal}\n--- EC2 calls\n{calls}\n--- jobs\n{self.jobs()}"


@contextlib.contextmanager
def head_node() -> Iterator[HeadNode]:
    """Take the place of the rig's head, which has to be up; gives it back at the end."""
    lifecycle.reset()
    key = (htcondor.head_directory() / "passwords.d/POOL").read_bytes()
    htcondor.stop_head()
    try:
        with booted.machine(places.HUB) as machine:
            node = HeadNode(machine, key)
            node.start_htcondor()
            try:
                yield node
            finally:
                node.cloud.reset()
    finally:
        htcondor.start_head()
