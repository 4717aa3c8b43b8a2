"""A real negotiator with the example of packaging/htcondor: which machine a job goes to."""

from __future__ import annotations

import time
from functools import partial
from typing import Iterator

import pytest

from tests.e2e.cluster import RUNNING, Cluster, wait_for
from tests.e2e.rig import htcondor, places, worker
from tests.e2e.rig.condor_config import WorkerOptions

EXAMPLE = places.REPOSITORY / "packaging/htcondor/elastiq-placement.conf"
ASK = ("condor_config_val", "-negotiator", "NEGOTIATOR_PRE_JOB_RANK")
LARGE, ONE, OTHER = "172.31.211.1", "172.31.211.2", "172.31.211.3"


def name(address: str) -> str:
    return f"ip-{address.replace('.', '-')}.ec2.internal"


def started_at(address: str) -> int:
    """Since the epoch; 0 while it is not there."""
    slots = htcondor.machines("Machine,DaemonStartTime")
    return next((int(slot["DaemonStartTime"]) for slot in slots if slot["Machine"] == name(address)), 0)


def free_cpus(machine: str) -> int:
    """Of its partitionable slot."""
    slots = htcondor.machines("Machine,SlotType,Cpus")
    return sum(slot["Cpus"] for slot in slots if slot["Machine"] == machine and slot["SlotType"] == "Partitionable")


@pytest.fixture(params=[(ONE, OTHER), (OTHER, ONE)], ids=["in order", "in the other order"])  # no draw decides it
def workers(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """One of eight cpus, and then one after the other two of four, which are returned."""
    old, young = request.param
    sizes = {LARGE: 8, old: 4, young: 4}
    try:
        starts = []
        for address, cpus in sizes.items():
            worker.boot(address, WorkerOptions(cpus=cpus))
            starts.append(wait_for(partial(started_at, address), 20, f"{address} joins"))
            wait_for(lambda: time.time() >= starts[-1] + 1, 5, "the next one is younger")
        assert starts == sorted(set(starts))
        yield name(old), name(young)
    finally:
        for address in sizes:
            worker.halt(address)


@pytest.fixture
def settings() -> Iterator[None]:
    """Whatever a test adds to the central manager's configuration goes again."""
    file = htcondor.head_directory() / "condor_config"
    before = file.read_text()
    yield
    file.write_text(before)
    reconfigure("100000 * Cpus")


def reconfigure(until: str) -> None:
    """Let the negotiator read its configuration, and wait until its order of machines is this one."""
    htcondor.as_root(["condor_reconfig"])
    wait_for(lambda: until in htcondor.as_root(ASK, check=False), 20, f"the negotiator has {until}")


def goes_to(cluster: Cluster) -> str:
    """The machine on which a job of one cpu starts."""
    cluster_id = cluster.submit(1, 600)

    def host() -> str:
        running = [job for job in cluster.jobs(RUNNING) if job["ClusterId"] == cluster_id]
        return str(running[0].get("RemoteHost", "")) if running else ""

    return str(wait_for(host, 30, "the job runs")).partition("@")[2]


def test_with_the_example_a_job_goes_to_the_oldest_machine_of_the_smallest_size(
    cluster: Cluster, workers: tuple[str, str], settings: None
) -> None:
    old, young = workers
    cluster.run_on(young, 600)
    wait_for(lambda: free_cpus(young) == 3, 20, "the collector knows of its job")
    assert goes_to(cluster) == young, "by default the one with the fewest free cpus"
    with (htcondor.head_directory() / "condor_config").open("a") as file:
        file.write(EXAMPLE.read_text("utf-8"))
    reconfigure("DaemonStartTime")
    assert goes_to(cluster) == old
