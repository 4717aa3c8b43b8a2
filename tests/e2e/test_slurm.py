"""elastiq with a real Slurm, of Debian 12 and of Debian 13: launches and terminations start and end its nodes."""

from __future__ import annotations

import base64
import time
from typing import Iterator

import pytest

from tests.e2e.cluster import stays, wait_for
from tests.e2e.conftest import FAILED, StartDaemon, cannot, daemons
from tests.e2e.rig import slurm as rig
from tests.e2e.rig.process import RigError
from tests.e2e.slurm_cluster import SlurmCluster, node_of
from tests.e2e.tap import Tap

PATIENCE_S = 120  # of a machine that does much else

# What takes long, and differs no more between the two than the rest shows.
NEWEST = pytest.mark.parametrize("slurm", ["trixie"], indirect=True, scope="module")


@pytest.fixture(scope="module", params=list(rig.SUITES))
def slurm(request: pytest.FixtureRequest) -> Iterator[rig.Slurm]:
    try:
        made = rig.Slurm.start(request.param)
    except RigError as error:
        cannot(f"no Slurm of {request.param} can be run", error)
    yield made
    made.stop()


@pytest.fixture
def cluster(slurm: rig.Slurm, request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """No job, no instance, no dynamic node."""
    slurm.reset()
    made = SlurmCluster(slurm)
    yield made
    if request.node.stash.get(FAILED, False):
        print(made.evidence())


@pytest.fixture
def daemon(cluster: SlurmCluster, request: pytest.FixtureRequest) -> Iterator[StartDaemon]:
    yield from daemons(request, cluster.surroundings())


def user_data(*lines: str) -> str:
    return base64.b64encode("\n".join(["#!/bin/sh", *lines, ""]).encode()).decode()


def test_jobs_get_machines_which_end_when_there_is_no_job_any_more(cluster: SlurmCluster, daemon: StartDaemon) -> None:
    for _ in range(6):
        cluster.submit(3)
    cluster.submit(3, "--ntasks=1", "--cpus-per-task=4")
    cluster.submit(3, "--ntasks=1", "--cpus-per-task=1", "--mem=6000")
    daemon()
    wait_for(cluster.all_over, PATIENCE_S, "all jobs are over")
    cluster.assert_no_job_lost(8)
    assert cluster.launched() == 3, "room for 11 cpus"
    cluster.wait_until_gone(PATIENCE_S)
    assert len(cluster.ended_ids()) == 3


@NEWEST
def test_an_array_gets_as_many_machines_as_may_run_at_once(cluster: SlurmCluster, daemon: StartDaemon) -> None:
    cluster.submit(2, "--cpus-per-task=4", "--array=1-6%2")
    daemon()
    wait_for(cluster.all_over, PATIENCE_S, "all tasks are over")
    cluster.assert_no_job_lost(6)
    assert cluster.launched() == 2


def test_a_job_of_three_nodes_gets_three_machines(cluster: SlurmCluster, daemon: StartDaemon) -> None:
    cluster.submit(2, "--nodes=3", "--ntasks-per-node=2")
    daemon()
    wait_for(cluster.all_over, PATIENCE_S, "the job is over")
    cluster.assert_no_job_lost(1)
    assert cluster.launched() == 3


def test_jobs_that_wait_for_something_else_get_no_machine(cluster: SlurmCluster, daemon: StartDaemon) -> None:
    held = cluster.submit(1, "--hold")
    cluster.submit(1, f"--dependency=afterok:{held}")
    later = cluster.submit(1, "--begin=now+1hour")
    elastiq = daemon()
    wait_for(lambda: elastiq.status().get("sources"), PATIENCE_S, "a status")
    stays(lambda: not cluster.launched(), 5, "nothing is launched")
    cluster.slurm.ask("scontrol", "release", held)
    wait_for(lambda: len(cluster.jobs("COMPLETED")) == 2, PATIENCE_S, "what was held, and what depends on it, ran")
    cluster.assert_no_job_lost(2, but=[later])
    assert cluster.launched() == 1


def test_jobs_go_to_the_pool_whose_machines_have_their_features_and_partition(
    cluster: SlurmCluster, daemon: StartDaemon
) -> None:
    by_partition = cluster.submit(2, "--partition=special", "--cpus-per-task=4")
    ordinary = cluster.submit(2, "--cpus-per-task=4")
    special: dict[str, object] = {
        "api_url": cluster.ec2.endpoint.url,
        "region": cluster.ec2.endpoint.region,
        "flavour": "c5a.xlarge",
        "price": "0.10",
        "cpus": 4,
        "memory_mb": 8192,
        "user_data_b64": user_data("echo FEATURES=special >/etc/default/slurmd"),
        "worker_ad": "\n  Features = special\n  Partitions = special",
    }
    common = {"price": "0.17", "worker_ad": "\n  Features = cloud\n  Partitions = main"}
    daemon(ec2=common, **{"ec2:special": special})
    wait_for(cluster.all_over, PATIENCE_S, "all jobs are over")
    cluster.assert_no_job_lost(2)
    flavours = {one["address"].replace(".", "-"): one["type"] for one in cluster.ec2.instances()}
    ran = {job["JobId"]: flavours[(node_of(job) or "").removeprefix("ip-")] for job in cluster.jobs()}
    assert ran == {by_partition: "c5a.xlarge", ordinary: "c5.xlarge"}


def test_predeclared_nodes_are_given_to_machines_and_taken_back(cluster: SlurmCluster, daemon: StartDaemon) -> None:
    cluster.submit(2, "--partition=big", "--cpus-per-task=8")
    cluster.submit(2, "--partition=big", "--cpus-per-task=8")
    daemon(
        ec2={
            "flavour": "c5.2xlarge", "cpus": 8, "memory_mb": 16384, "worker_ad": "\n  Partitions = big",
            "user_data_b64": user_data("echo PREDECLARED=yes >/etc/default/slurmd"),
        },
        slurm={"predeclared_nodes": f"\n  ec2: {rig.PREDECLARED}"},
    )  # fmt: skip
    wait_for(lambda: len(cluster.jobs("RUNNING", "COMPLETED")) == 2, PATIENCE_S, "both jobs run")
    assert {node_of(job) for job in cluster.jobs()} == {"big1", "big2"}
    wait_for(cluster.all_over, PATIENCE_S, "all jobs are over")
    cluster.assert_no_job_lost(2)
    wait_for(
        lambda: not cluster.ec2.alive() and not cluster.in_service(), PATIENCE_S, "no instance, and no node in service"
    )
    assert cluster.launched() == 2


def test_a_job_that_slips_in_while_its_node_is_drained_is_not_lost(
    cluster: SlurmCluster, tap: Tap, daemon: StartDaemon
) -> None:
    cluster.submit(1)
    slipped: list[str] = []

    def before(argv: list[str]) -> None:
        if argv[0] == "update" and "state=drain" in argv and not slipped:
            # by the node's name, so that it is a reason for no other machine
            slipped.append(cluster.submit(6, f"--nodelist={argv[1].partition('=')[2]}"))
            wait_for(lambda: job_state(cluster, slipped[0]) == "RUNNING", PATIENCE_S, "the job that slips in runs")

    tap.on("scontrol", before=before)
    elastiq = daemon(taps=tap, slurm={"command_folder": None})
    wait_for(lambda: slipped, PATIENCE_S, "a drain")
    wait_for(lambda: job_state(cluster, slipped[0]) == "COMPLETED", PATIENCE_S, "the job that slipped in is over")
    cluster.assert_no_job_lost(2)
    assert cluster.launched() == 1 and "drain busy: a job runs there" in elastiq.log()
    cluster.wait_until_gone(PATIENCE_S)


def job_state(cluster: SlurmCluster, job_id: str) -> str:
    return next((job["JobState"] for job in cluster.jobs() if job["JobId"] == job_id), "")


@NEWEST
def test_a_node_that_dies_silently_is_replaced_and_its_instance_ended(
    cluster: SlurmCluster, daemon: StartDaemon
) -> None:
    job = cluster.submit(8)
    daemon()
    wait_for(lambda: cluster.jobs("RUNNING"), PATIENCE_S, "the job runs")
    (instance,) = cluster.ec2.alive()
    node = node_of(cluster.jobs()[0])
    assert node
    cluster.host_of(node).kill()
    wait_for(lambda: instance["id"] in cluster.ended_ids(), PATIENCE_S, "the instance of the dead node is ended")
    assert job_state(cluster, job) != "RUNNING" or node_of(cluster.jobs()[0]) != node, "Slurm had given it up"
    cluster.slurm.ask("scontrol", "update", f"jobid={job}", "starttime=now")  # Slurm would put it off for two minutes
    wait_for(lambda: job_state(cluster, job) == "COMPLETED", PATIENCE_S, "the job runs elsewhere")
    cluster.wait_until_gone(PATIENCE_S)


def test_slurmctld_may_be_restarted_and_nothing_is_ended_or_launched_meanwhile(
    cluster: SlurmCluster, daemon: StartDaemon
) -> None:
    for _ in range(2):
        cluster.submit(14, "--cpus-per-task=4")
    daemon()
    wait_for(lambda: len(cluster.jobs("RUNNING")) == 2, PATIENCE_S, "both jobs run")
    cluster.slurm.stop_slurmctld()
    stays(lambda: not cluster.ended_ids() and cluster.launched() == 2, 5, "the instances are left alone")
    cluster.slurm.start_slurmctld()
    wait_for(cluster.all_over, PATIENCE_S, "both jobs are over")
    cluster.assert_no_job_lost(2)
    assert cluster.launched() == 2
    cluster.wait_until_gone(PATIENCE_S)


@NEWEST
def test_a_daemon_that_is_killed_at_any_time_launches_nothing_twice_and_ends_what_it_launched(
    cluster: SlurmCluster, daemon: StartDaemon
) -> None:
    cluster.ec2.behave(boot_s=3)
    cluster.submit(4, "--nodes=2", "--ntasks-per-node=4")
    elastiq = daemon()
    wait_for(lambda: cluster.ec2.alive(), PATIENCE_S, "a launch")
    elastiq.kill()
    elastiq.start()
    wait_for(lambda: cluster.jobs("RUNNING"), PATIENCE_S, "the job runs")
    elastiq.kill()
    time.sleep(1)
    elastiq.start()
    wait_for(cluster.all_over, PATIENCE_S, "the job is over")
    cluster.assert_no_job_lost(1)
    assert cluster.launched() == 2
    cluster.wait_until_gone(PATIENCE_S)


@pytest.fixture
def tap(cluster: SlurmCluster) -> Iterator[Tap]:
    tap = Tap(cluster.slurm.tools.parent / "taps", cluster.slurm.tools)
    yield tap
    tap.close()
