#!/usr/bin/env python3
"""What a daemon with default settings calls in an hour: HTCondor's commands, and EC2's actions.

    python3 benchmarks/calls.py

The whole daemon in virtual time, with the real plugins: HTCondor's commands and EC2's client are answered here. An hour
is counted that begins an hour after the start, in which the queue does not change; what changes of it add, reaction.py
tells. "without" is what it would be if each read of the queue asked for the schedds, and the cloud were asked for
impaired machines in each period of `check_vms_in_error_every_s`. No figure decides an exit code.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Sequence

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from elastiq import config, daemon  # noqa: E402
from elastiq.command import CommandResult  # noqa: E402
from elastiq.core import Core  # noqa: E402
from elastiq.interfaces import Owner  # noqa: E402
from elastiq.plugins.batch import htcondor  # noqa: E402
from elastiq.plugins.cloud.ec2 import EC2Cloud  # noqa: E402
from elastiq.plugins.cloud.ec2_client import EC2Client  # noqa: E402
from elastiq.simulation.clock import VirtualClock, VirtualQueue  # noqa: E402
from elastiq.simulation.executor import VirtualExecutor  # noqa: E402
from elastiq.store import Store  # noqa: E402

HOUR_S, BOOT_S = 3600.0, 120.0
MACHINES = 20
CONFIG = f"""
[elastiq]
cluster_name = calls
waiting_jobs_time_s = auto
idle_for_time_s = auto
[htcondor]
watch_queue = no
[quota]
max_vms = {MACHINES}
[ec2]
api_url = http://127.0.0.1:9/
region = us-east-1
aws_access_key_id = A
aws_secret_access_key = S
image_id = ami-12345678
flavour = c5.xlarge
cpus = 4
memory_mb = 8000
dialect = aws
"""
COLLECTOR = {"MyType": "Collector", "StatsLifetime": 100_000}
SCHEDD = {"MyType": "Scheduler", "Name": "head"}
SCENARIOS = {"idle": 0, "1 busy machine": 1, f"100 jobs wait, {MACHINES} machines": MACHINES + 100}


class Pool(EC2Client):
    """A pool whose machines are made here; each runs one job for ever. Counts what it is asked."""

    def __init__(self, clock: VirtualClock, jobs: int) -> None:
        super().__init__({})
        self.calls: Counter[str] = Counter()
        self._clock, self._jobs = clock, jobs
        self._made: list[tuple[float, dict[str, Any]]] = []

    def _workers(self) -> list[str]:
        joined = [row["PrivateIpAddress"] for at, row in self._made if self._clock.monotonic() >= at + BOOT_S]
        return joined[: self._jobs]

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        """In the place of `elastiq.command.run`."""
        what = next((word for word in argv if word in ("-schedd", "-any", "-group-by")), "")
        self.calls[f"{argv[0]} {what}".strip()] += 1
        rows: list[dict[str, Any]] = [SCHEDD] if what == "-schedd" else self._ads() if what == "-any" else self._queue()
        return CommandResult(0, json.dumps(rows).encode() if rows else b"", b"")

    def _queue(self) -> list[dict[str, Any]]:
        job = {"JobUniverse": 5, "JobIds": "1.0", "RequestCpus": 4, "RequestMemory": 4000}
        counts = {1: self._jobs - len(self._workers()), 2: len(self._workers())}
        return [{**job, "JobStatus": status, "JobCount": count} for status, count in counts.items() if count]

    def _ads(self) -> list[dict[str, Any]]:
        slot = {"MyType": "Machine", "State": "Claimed", "Activity": "Busy", "Cpus": 4, "Memory": 8000, "JobStarts": 1}
        places = {"w" + ip.replace(".", "-"): ip for ip in self._workers()}
        named = [{"Machine": w, "Name": f"slot1@{w}", "MyAddress": f"<{ip}:9618>"} for w, ip in places.items()]
        return [COLLECTOR, SCHEDD, *({**slot, **one} for one in named)]

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        self.calls["".join(map(str.capitalize, operation.split("_")))] += 1
        if operation == "run_instances":
            return {"Instances": [self._launched(parameters) for _ in range(parameters["MaxCount"])]}
        if operation == "describe_instances":
            return {"Reservations": [{"Instances": [row for _, row in self._made]}]}
        return {"describe_instance_status": {"InstanceStatuses": []}}.get(operation, {})

    def _launched(self, parameters: dict[str, Any]) -> dict[str, Any]:
        number = len(self._made) + 1
        row = {"InstanceId": f"i-{number:08x}", "State": {"Code": 16, "Name": "running"}}
        row.update(PrivateIpAddress=f"10.9.0.{number}", InstanceType="c5.xlarge", ImageId="ami-12345678")
        row.update(ClientToken=parameters["ClientToken"], Tags=parameters["TagSpecifications"][0]["Tags"])
        self._made.append((self._clock.monotonic(), row))
        return row


def counted(jobs: int) -> Counter[str]:
    """The calls of an hour in which so many jobs, each of a whole machine, run or wait."""
    clock = VirtualClock()
    events, pool = VirtualQueue(clock), Pool(clock, jobs)
    vars(htcondor).update(run=pool.run, monotonic=clock.monotonic)
    with tempfile.NamedTemporaryFile("w") as file:
        print(CONFIG, file=file, flush=True)
        settings = config.load(file.name).settings
    owner = Owner(settings.cluster_name, "5e0d" * 16, frozenset({"10.9.9.9"}), "i-head")
    batch = htcondor.HTCondor(settings.batch_options, owner)
    clouds = {site: EC2Cloud(pools, owner, pool) for site, pools in settings.sites.items()}
    rng = random.Random(1)
    executor = VirtualExecutor(events, rng)
    core = Core(settings, batch, clouds, owner, events, executor, Store(":memory:"), jitter=rng)
    daemon.Daemon(core).start()
    for _ in range(2):
        pool.calls.clear()
        events.after(HOUR_S, events.stop)
        events.run()
    return pool.calls


def main() -> int:
    logging.getLogger("elastiq").setLevel(logging.ERROR)
    found = {name: counted(jobs) for name, jobs in SCENARIOS.items()}
    htcondor.KEPT_S = daemon.SELDOM_S = 0.0
    without = {name: counted(jobs) for name, jobs in SCENARIOS.items()}
    print(f"{'calls in an hour (without what saves some)':44}" + "".join(f"{name:>32}" for name in SCENARIOS))
    for call in sorted({call for calls in (*found.values(), *without.values()) for call in calls}):
        figures = (f"{found[name][call]} ({without[name][call]})" for name in SCENARIOS)
        print(f"{call:44}" + "".join(f"{text:>32}" for text in figures))
    totals = [(sum(found[name].values()), sum(without[name].values())) for name in SCENARIOS]
    print(f"{'all':44}" + "".join(f"{f'{now} ({then}), {now / then:.2f}x':>32}" for now, then in totals))
    return 0


if __name__ == "__main__":
    sys.exit(main())
