"""Faults of the cloud, the image, the daemon and HTCondor."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.cluster import RUNNING, Cluster, stays, wait_for
from tests.e2e.conftest import StartDaemon
from tests.e2e.rig import htcondor

NO_SUCH_INSTANCE = "i-0123456789abcdef0"


def test_machines_that_never_join_are_ended_at_the_deadline_and_not_launched_for_ever(
    cluster: Cluster, daemon: StartDaemon
) -> None:
    cluster.ec2.behave(join=False)
    elastiq = daemon(elastiq={"estimated_vm_deploy_time_s": 5})
    cluster.submit(1, 1)
    first = wait_for(lambda: cluster.ec2.alive(), 30, "a machine comes")[0]
    wait_for(lambda: first["id"] in cluster.ended_ids(), 30, "it is ended after its deadline")
    launched, ended = (call["at"] for action in ("RunInstances", "TerminateInstances")
                       for call in cluster.ec2.log(action)[:1])  # fmt: skip
    assert ended - launched >= 5, "not before its deadline"
    wait_for(lambda: elastiq.status()["pools"][0]["breaker"], 60, "status says that machines do not join")
    assert len(cluster.ec2.alive()) <= 1, "then one at a time is tried"
    cluster.ec2.behave(join=True)
    wait_for(cluster.all_jobs_ran, 90, "the job ran once the image was mended")
    cluster.assert_no_job_lost()


def test_nothing_is_ended_while_workers_match_no_instance(cluster: Cluster, daemon: StartDaemon) -> None:
    cluster.ec2.behave(published=NO_SUCH_INSTANCE, foreign_address=True)
    elastiq = daemon(elastiq={"estimated_vm_deploy_time_s": 5, "idle_for_time_s": 2}, quota={"max_vms": 2})
    cluster.submit(4, 2)
    wait_for(cluster.all_jobs_ran, 60, "the jobs ran on machines that cannot be told apart")

    def said() -> list[str]:
        return [line for line in elastiq.status()["notices"] if line.startswith("identity")]

    wait_for(said, 30, "status says that the identity may be broken")
    stays(lambda: not cluster.ended_ids(), 10, "nothing is ended: neither as never joined nor as lost")
    assert said()
    assert len(cluster.ec2.instances()) <= 2
    cluster.assert_no_job_lost()


@pytest.mark.parametrize(
    ("moment", "hide_s"),
    [("never sent", 0), ("takes effect later", 0), ("not answered", 0), ("not answered", 2), ("answered", 2)],
    ids=lambda value: value if isinstance(value, str) else f"listed after {value} s",
)
def test_a_daemon_killed_around_a_launch_launches_nothing_twice_and_forgets_nothing(
    cluster: Cluster, daemon: StartDaemon, moment: str, hide_s: float
) -> None:
    cluster.ec2.behave(hide_s=hide_s)
    if moment != "answered":
        cluster.ec2.fault("RunInstances", hold="after" if moment == "not answered" else "before")
    elastiq = daemon(elastiq={"idle_for_time_s": 2, "intent_settle_s": 4})
    cluster.submit(4, 2)
    if moment == "answered":
        wait_for(lambda: [call for call in cluster.launch_calls() if call["status"] == 200], 30, "answered", 0.01)
    else:
        wait_for(cluster.ec2.held, 30, "the call is on its way", 0.02)
    elastiq.kill()
    if moment != "takes effect later":
        cluster.ec2.release(discard=moment == "never sent")
    elastiq.start()
    if moment == "takes effect later":
        wait_for(elastiq.status, 20, "it runs again")
        cluster.ec2.release()
    wait_for(cluster.all_jobs_ran, 60, "all jobs ran after the restart")
    assert len(cluster.ec2.instances()) == 1, "one machine was launched, and no second"
    wait_for(lambda: not cluster.ec2.alive(), 60, "it is not forgotten: it is ended when idle")
    cluster.assert_no_job_lost()


def test_nothing_is_ended_while_the_collector_is_down_and_when_it_knows_nobody_yet(
    cluster: Cluster, daemon: StartDaemon
) -> None:
    elastiq = daemon(elastiq={"idle_for_time_s": 2, "lost_after_s": 3, "batch_settle_s": 8})
    cluster.submit(8, 16)
    wait_for(lambda: len(cluster.jobs(RUNNING)) == 8, 60, "8 jobs run")
    wait_for(lambda: len(elastiq.nodes("busy")) == 2, 20, "two machines are busy")
    htcondor.switch_collector(False)
    try:
        stays(lambda: not cluster.ended_ids(), 6, "nothing is ended while it is down")
        assert not _workers_known(elastiq.status()), "unknown is not empty"
    finally:
        htcondor.switch_collector(True)
    wait_for(lambda: not cluster.ended_ids() and cluster.all_jobs_ran(), 60, "nothing is ended while jobs run")
    cluster.assert_no_job_lost()
    assert len(cluster.ec2.instances()) == 2, "and nothing was launched for jobs that run"
    wait_for(lambda: not cluster.ec2.alive(), 40, "later the idle machines are ended as ever")


def test_nothing_is_ended_while_the_collector_is_silent(cluster: Cluster, daemon: StartDaemon) -> None:
    elastiq = daemon(elastiq={"idle_for_time_s": 2, "lost_after_s": 3}, htcondor={"command_timeout_s": 2})
    cluster.submit(4, 14)
    wait_for(lambda: len(cluster.jobs(RUNNING)) == 4, 60, "4 jobs run")
    wait_for(lambda: elastiq.nodes("busy"), 20, "a machine is busy")
    collector = htcondor.collector_pid()
    os.kill(collector, signal.SIGSTOP)
    try:
        wait_for(lambda: not _workers_known(elastiq.status()), 30, "the daemon, itself not stuck, sees silence")
        stays(lambda: not cluster.ended_ids(), 6, "nothing is ended")
    finally:
        os.kill(collector, signal.SIGCONT)
    wait_for(cluster.all_jobs_ran, 60, "all jobs ran")
    cluster.assert_no_job_lost()
    wait_for(lambda: not cluster.ec2.alive(), 60, "later the idle machine is ended as ever")


def _workers_known(status: dict[str, list[dict[str, object]]]) -> bool:
    return any(source["name"] == "workers" and source["known"] for source in status["sources"])
