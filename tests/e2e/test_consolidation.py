"""Long jobs that are spread over a real pool: machines are emptied, come back when needed, and evict nobody."""

from __future__ import annotations

from tests.e2e.cluster import RUNNING, Cluster, stays, wait_for
from tests.e2e.conftest import StartDaemon
from tests.e2e.daemon import Daemon

WEEKS = 31_536_000


def spread_three_long_jobs(cluster: Cluster, long_s: float) -> list[str]:
    """Three machines of four cpus, each with a job of one cpu on it; what brought the third is over soon."""
    cluster.submit(3, 6, "request_cpus = 3")
    wait_for(lambda: len(cluster.machines()) == 3 and len(cluster.jobs(RUNNING)) == 3, 40, "three machines, three jobs")
    machines = sorted(cluster.machines())
    for machine in machines:
        cluster.run_on(machine, long_s)
    wait_for(lambda: len(cluster.jobs()) == 3, 30, "only the long ones run")
    return machines


def drained(cluster: Cluster) -> list[str]:
    return sorted(machine for machine, states in cluster.machines().items() if "Drained" in states)


def emptied(elastiq: Daemon) -> list[str]:
    return [str(node["reason"]) for node in elastiq.nodes("draining")]


def test_machines_are_emptied_come_back_before_others_are_launched_and_no_job_is_evicted(
    cluster: Cluster, daemon: StartDaemon
) -> None:
    cluster.ec2.behave(retirement_s=WEEKS)
    elastiq = daemon(elastiq={"idle_for_time_s": 4, "consolidate": "yes"})
    spread_three_long_jobs(cluster, 75)  # on a busy machine the second has been emptied half a minute late
    wait_for(lambda: len(drained(cluster)) == 2 and len(emptied(elastiq)) == 2, 20, "two are emptied onto the third")
    assert all("lightly used (1 job), the others have room for" in reason for reason in emptied(elastiq))
    assert len(cluster.jobs(RUNNING)) == 3, "their jobs run"

    cluster.submit(4, 4)
    wait_for(lambda: len(cluster.jobs(RUNNING)) == 7, 20, "a burst runs, on the third and on one that came back")
    assert len(drained(cluster)) == 1
    assert len(cluster.ec2.instances()) == 3, "nothing was launched for it"
    wait_for(lambda: len(drained(cluster)) == 2, 30, "it is emptied again")
    assert len(cluster.jobs(RUNNING)) == 3

    wait_for(cluster.all_jobs_ran, 90, "all jobs ran")
    wait_for(lambda: not cluster.ec2.alive(), 30, "all machines are ended")
    cluster.assert_no_job_lost()
    assert elastiq.stop() == 0


def test_workers_that_would_evict_their_jobs_refuse_and_go_on(cluster: Cluster, daemon: StartDaemon) -> None:
    elastiq = daemon(elastiq={"idle_for_time_s": 2, "consolidate": "yes"})
    spread_three_long_jobs(cluster, 17)
    refused = wait_for(lambda: elastiq.status()["counters"].get("drains_refused"), 15, "a drain is refused")
    stays(lambda: len(cluster.jobs(RUNNING)) == 3 and not drained(cluster), 5, "nothing happens to the jobs")
    assert refused <= elastiq.status()["counters"]["drains_refused"] <= 3, "each is asked once"
    assert any("set MAXJOBRETIREMENTTIME there" in notice for notice in elastiq.status()["notices"])
    wait_for(cluster.all_jobs_ran, 40, "all jobs ran")
    cluster.assert_no_job_lost()
    assert elastiq.stop() == 0
