"""What a test does with a Slurm cluster, and what it can see of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Collection, Optional

from tests.e2e.cluster import wait_for
from tests.e2e.daemon import COMMON, Sections, Surroundings
from tests.e2e.rig import fleet, hosts, user
from tests.e2e.rig.process import RigError
from tests.e2e.rig.slurm import Slurm

OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY")


class SlurmCluster:
    """The queue, the nodes and the cloud of one test."""

    def __init__(self, slurm: Slurm) -> None:
        self.slurm, self.ec2 = slurm, slurm.cloud

    def submit(self, seconds: float, *options: str) -> str:
        """Submit a batch job of an ordinary user; returns its id."""
        return self.slurm.submit(seconds, *options)

    def jobs(self, *states: str) -> list[dict[str, str]]:
        """All jobs, also those that are over; each task of an array that began for itself."""
        return [job for job in self.slurm.jobs() if not states or job["JobState"] in states]

    def all_over(self) -> bool:
        return all(job["JobState"] in OVER for job in self.jobs())

    def assert_no_job_lost(self, count: int, but: Collection[str] = ()) -> None:
        """So many jobs came to their end, each at its first start; not counting those that are named."""
        jobs = [job for job in self.jobs() if job["JobId"] not in but]
        spoilt = [
            job for job in jobs if (job["JobState"], job["ExitCode"], job["Restarts"]) != ("COMPLETED", "0:0", "0")
        ]
        assert not spoilt, f"jobs that did not run to their end at the first start: {spoilt}"
        assert len(jobs) == count

    def lost_jobs(self) -> list[dict[str, str]]:
        """The jobs that were started and thrown out of their node."""
        return [job for job in self.jobs() if job["Restarts"] != "0" or job["JobState"] in ("NODE_FAIL", "CANCELLED")]

    def nodes(self) -> dict[str, str]:
        """The states of all nodes."""
        return {name: node["State"] for name, node in self.slurm.nodes().items()}

    def in_service(self) -> list[str]:
        """The nodes that have registered."""
        words = re.compile("DOWN|FUTURE|UNKNOWN|NOT_RESPONDING")
        return [name for name, state in self.nodes().items() if not words.search(state)]

    def dynamic(self) -> list[str]:
        return [name for name, state in self.nodes().items() if "DYNAMIC" in state]

    def host_of(self, node: str) -> hosts.Host:
        """The host behind a node."""
        return self.slurm.worker(self.slurm.nodes()[node]["NodeAddr"])

    def launched(self) -> int:
        """How many instances there ever were."""
        return len(self.ec2.instances())

    def ended_ids(self) -> set[str]:
        """The instances that anybody asked to end."""
        return {
            value
            for call in self.ec2.log("TerminateInstances")
            for name, value in call["parameters"].items()
            if name.startswith("InstanceId")
        }

    def wait_until_gone(self, deadline_s: float) -> None:
        """Until neither an instance nor a dynamic node is left."""
        wait_for(lambda: not self.ec2.alive() and not self.dynamic(), deadline_s, "no instance and no node is left")

    def surroundings(self) -> Surroundings:
        """Of the daemon: on the head's network, as an ordinary user, with Slurm's commands of the head."""

        def environment(home: Path) -> dict[str, str]:
            found = {name: value for name, value in user.environment(home).items() if "CONDOR" not in name}
            return {**found, "PATH": f"{self.slurm.tools}:{found['PATH']}"}

        sections: Sections = {
            **COMMON,
            "elastiq": {**COMMON["elastiq"], "batch_plugin": "slurm"},
            "ec2": {**COMMON["ec2"], "api_url": fleet.url(self.slurm.head), "worker_ad": "\n  Features = cloud"},
            "slurm": {"command_folder": self.slurm.tools},
        }

        def command(argv: Any, variables: Any) -> list[str]:
            return self.slurm.head.in_its_network(user.unprivileged(argv, variables, hosts.CAPABILITIES))

        return Surroundings(sections, environment, command)

    def evidence(self) -> str:
        """For a person who looks at a test that failed."""
        parts: dict[str, Any] = {
            "EC2 calls": lambda: "\n".join(
                json.dumps(call) for call in self.ec2.log() if not call["action"].startswith("Describe")
            ),
            "instances": self.ec2.instances,
            "EC2 server": lambda: self.slurm.cloud_log()[-3000:],
            "jobs": self.jobs,
            "nodes": self.nodes,
            "slurmctld": lambda: self.slurm.head.read("/var/log/slurmctld.out")[-6000:],
        }
        return "\n".join(f"--- {name}\n{_or_error(part)}" for name, part in parts.items())


def _or_error(part: Any) -> object:
    try:
        return part()
    except (RigError, OSError) as error:
        return error


def node_of(job: dict[str, str]) -> Optional[str]:
    """Where it runs, or ran."""
    return job["NodeList"] if job["NodeList"] not in ("", "(null)") else None
