"""The main job: machines come when jobs wait, and go when they are idle."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import IDLE, Cluster, stays, wait_for
from tests.e2e.conftest import StartDaemon


def test_jobs_wait_machines_come_all_jobs_run_machines_are_drained_and_ended(
    cluster: Cluster, daemon: StartDaemon
) -> None:
    elastiq = daemon()
    cluster.submit(8, 4)
    wait_for(cluster.all_jobs_ran, 60, "all jobs ran")
    launched = {instance["id"] for instance in cluster.ec2.instances()}
    assert len(launched) == 2, "8 jobs of 1 cpu need two machines of 4"
    wait_for(lambda: not cluster.ec2.alive(), 40, "the idle machines are ended")
    assert cluster.ended_ids() == launched
    wait_for(lambda: elastiq.status()["nodes"] == [], 20, "the ends are confirmed")
    assert elastiq.status()["counters"]["drains"] == 2, "each machine was drained before its end"
    cluster.assert_no_job_lost()
    assert elastiq.stop() == 0


def test_min_vms_are_launched_into_an_empty_pool_and_kept_when_idle(cluster: Cluster, daemon: StartDaemon) -> None:
    elastiq = daemon(quota={"min_vms": 2}, elastiq={"idle_for_time_s": 2})
    wait_for(lambda: len(elastiq.nodes("idle")) == 2, 40, "two machines without any job")
    stays(lambda: len(cluster.ec2.alive()) == 2, 8, "two machines are kept")
    assert not cluster.ended_ids()
    cluster.submit(12, 3)
    wait_for(cluster.all_jobs_ran, 60, "all jobs ran")
    assert len(cluster.ec2.instances()) == 3, "12 jobs of 1 cpu need a third machine of 4"
    wait_for(lambda: len(cluster.ec2.alive()) == 2, 40, "back to min_vms")
    stays(lambda: len(cluster.ec2.alive()) == 2, 5, "never below min_vms")
    cluster.assert_no_job_lost()


def test_demand_for_ten_machines_never_takes_more_than_max_vms(cluster: Cluster, daemon: StartDaemon) -> None:
    elastiq = daemon(quota={"max_vms": 2})
    cluster.submit(10, 2, "request_cpus = 4")
    wait_for(lambda: cluster.ec2.instances(), 30, "machines come")
    most = 0

    def ran() -> bool:
        nonlocal most
        most = max(most, len(cluster.ec2.instances("pending", "running", "shutting-down")))
        return cluster.all_jobs_ran()

    wait_for(lambda: "max_vms 2 is reached" in elastiq.status()["last_plan"]["summary"], 30, "it is explained")
    wait_for(ran, 120, "all jobs ran on two machines")
    assert most == 2
    cluster.assert_no_job_lost()


@pytest.mark.parametrize("known", [True, False], ids=["size known", "size not known"])
def test_a_job_too_large_for_any_machine_is_explained_and_launched_for_at_most_once(
    cluster: Cluster, daemon: StartDaemon, known: bool
) -> None:
    size: dict[str, object] = {} if known else {"cpus": None, "memory_mb": None}
    elastiq = daemon(ec2=size, elastiq={"unused_room_s": 6, "idle_for_time_s": 3})
    large = cluster.submit(1, 1, "request_cpus = 64")
    cluster.submit(4, 3)

    def only_the_large_one_waits() -> bool:
        return [(job["ClusterId"], job["JobStatus"]) for job in cluster.jobs()] == [(large, IDLE)]

    wait_for(only_the_large_one_waits, 60, "the other jobs ran")
    status = wait_for(lambda: _with_unmatchable(elastiq.status()), 60, "status calls the job unmatchable")
    reasons = [group["reason"] for group in status["queue"]["groups"] if group["cpus"] == 64]
    assert len(reasons) == 1 and reasons[0], "and says why"
    wait_for(lambda: not cluster.ec2.alive(), 60, "machines are not kept for it")
    stays(lambda: not cluster.ec2.alive(), 8, "nothing is launched for it again")
    assert len(cluster.ec2.instances()) <= (1 if known else 2), "at most one machine was tried for it"


def _with_unmatchable(status: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    return status if status and status["queue"]["unmatchable_jobs"] == 1 else {}
