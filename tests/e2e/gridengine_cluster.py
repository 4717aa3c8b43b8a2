"""What a test does with a Grid Engine cluster, and what it can see of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Collection, NamedTuple

from tests.e2e.cluster import wait_for
from tests.e2e.daemon import COMMON, Sections, Surroundings
from tests.e2e.rig import fleet, gridengine, hosts, user
from tests.e2e.rig.gridengine import GridEngine
from tests.e2e.rig.process import RigError


class Row(NamedTuple):
    """A line of qstat: a job, or the tasks of an array that are in one state."""

    job: str
    state: str
    host: str


class GridEngineCluster:
    """The queue, the hosts and the cloud of one test."""

    def __init__(self, engine: GridEngine) -> None:
        self.engine, self.ec2 = engine, engine.cloud

    def submit(self, seconds: float, *options: str) -> str:
        """Submit a job of an ordinary user; returns its number."""
        return self.engine.submit(seconds, *options)

    def queue(self, state: str = "") -> list[Row]:
        """What is in the queue; only what is in this state if given."""
        words = (line.split() for line in self.engine.ask("qstat", "-u", "*").splitlines()[2:])
        # number, priority, name, owner, state, date, time, then the queue of what runs
        rows = [Row(line[0], line[4], line[7].partition("@")[2]) for line in words if len(line) > 7]
        return [row for row in rows if state in ("", row.state)]

    def over(self) -> int:
        """How many jobs, or tasks, have ended."""
        return len(self.engine.accounts())

    def assert_no_job_lost(self, count: int, but: Collection[str] = ()) -> None:
        """So many jobs or tasks came to their end, each at its first start; not counting those that are named."""
        accounts = [one for one in self.engine.accounts() if one["job"] not in but]
        spoilt = [one for one in accounts if (one["failed"], one["exit"]) != ("0", "0")]
        assert not spoilt, f"jobs that did not run to their end: {spoilt}"
        ends = [(one["job"], one["task"]) for one in accounts]
        assert len(ends) == len(set(ends)) == count, ends

    def states(self) -> dict[str, dict[str, str]]:
        """The letters of each queue of each host, but for the head."""
        text = self.engine.ask("qstat", "-f")
        found: dict[str, dict[str, str]] = {}
        for line in text.splitlines():
            match = re.match(r"(\S+)@(\S+)\s+\S+\s+\S+\s+(\S+)\s+(\S+)\s*(\S*)", line)
            if match and match[2] != "head":
                found.setdefault(match[2], {})[match[1]] = match[5]
        return found

    def in_service(self) -> list[str]:
        """The hosts that report."""
        return [host for host, queues in self.states().items() if not any("u" in state for state in queues.values())]

    def known(self) -> set[str]:
        """All hosts that the master holds, of whatever kind, but for the head."""
        found = {name for option in ("-sel", "-sh") for name in self.engine.ask("qconf", option).split()}
        groups = self.engine.ask("qconf", "-shgrpl").split()
        found |= {name for group in groups for name in self.members(group)}
        return found - {"head"}

    def members(self, group: str) -> list[str]:
        words = self.engine.ask("qconf", "-shgrp", group).replace("\\\n", " ").partition("hostlist")[2].split()
        return [word for word in words if word != "NONE"]

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

    def host(self, name: str) -> hosts.Host:
        return self.engine.worker(name.removeprefix("ip-").replace("-", "."))

    def wait_until_gone(self, deadline_s: float) -> None:
        """Until neither an instance is left nor a host that the master knows."""
        wait_for(lambda: not self.ec2.alive() and not self.known(), deadline_s, "no instance and no host is left")

    def surroundings(self) -> Surroundings:
        """Of the daemon: on the head's network, as an ordinary user, with Grid Engine's commands of the head, and none
        of its variables, as the service has it."""

        def environment(home: Path) -> dict[str, str]:
            found = {name: value for name, value in user.environment(home).items() if "CONDOR" not in name}
            return {**found, "PATH": f"{self.engine.tools}:{found['PATH']}"}

        sections: Sections = {
            **COMMON,
            # queue and hosts are two reads: a job that starts or ends between them must not look like one that waits
            "elastiq": {
                **COMMON["elastiq"],
                "batch_plugin": "gridengine",
                "waiting_jobs_time_s": 2,
                "idle_for_time_s": 2,
                "lost_after_s": 5,
            },
            "ec2": {**COMMON["ec2"], "api_url": fleet.url(self.engine.head)},
            "gridengine": {
                "sge_root": gridengine.ROOT,
                "sge_cell": gridengine.CELL,
                "qmaster_port": gridengine.QMASTER_PORT,
                "execd_port": gridengine.EXECD_PORT,
            },
        }

        def command(argv: Any, variables: Any) -> list[str]:
            return self.engine.head.in_its_network(user.unprivileged(argv, variables, hosts.CAPABILITIES))

        return Surroundings(sections, environment, command)

    def evidence(self) -> str:
        """For a person who looks at a test that failed."""
        parts: dict[str, Any] = {
            "EC2 calls": lambda: "\n".join(
                json.dumps(call) for call in self.ec2.log() if not call["action"].startswith("Describe")
            ),
            "instances": self.ec2.instances,
            "EC2 server": lambda: self.engine.cloud_log()[-3000:],
            "queue": lambda: self.engine.ask("qstat", "-f", "-u", "*"),
            "hosts": lambda: self.engine.ask("qhost", "-q"),
            "accounts": self.engine.accounts,
            "qmaster": lambda: self.engine.head.read("/var/spool/gridengine/qmaster/messages")[-4000:],
        }
        return "\n".join(f"--- {name}\n{_or_error(part)}" for name, part in parts.items())


def _or_error(part: Any) -> object:
    try:
        return part()
    except (RigError, OSError) as error:
        return error
