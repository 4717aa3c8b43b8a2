"""Several pools on two EC2 endpoints: the right machines for the jobs, and what one endpoint's troubles cost."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any, Collection

import pytest

from tests.e2e.cluster import RUNNING, Cluster, wait_for
from tests.e2e.conftest import StartDaemon
from tests.e2e.daemon import Daemon
from tests.e2e.rig import places, user, worker
from tests.e2e.rig.client import Ec2

# As they are in the cloud's catalogue, which the daemon asks: [ec2] of the daemons under test says what it offers.
BY_CATALOGUE: dict[str, object] = {"cpus": None, "memory_mb": None}
AT_SECOND: dict[str, object] = {"api_url": places.SECOND.url, "region": places.SECOND.region}


def user_data(*lines: str) -> str:
    return base64.b64encode("".join(f"{line}\n" for line in lines).encode()).decode()


def only_for(condition: str) -> dict[str, object]:
    """A pool whose workers run these jobs only: what its user data sets up, and what elastiq is told of it."""
    start = f"START = {condition}"
    return {"user_data_b64": user_data(start), "worker_ad": f"\n  {start}"}


def kinds(cloud: Ec2) -> Counter[str]:
    """All machines that there ever were, by flavour."""
    return Counter(instance["type"] for instance in cloud.instances())


def elastiqctl(daemon: Daemon, *words: str) -> str:
    """What it prints, asked as the daemon's user."""
    places_ = ["--config", daemon.configuration, "--statedir", daemon.home / "state", "--rundir", daemon.home / "run"]
    program = "import sys; from elastiq.cli import main; sys.exit(main(sys.argv[1:]))"
    argv = user.as_daemon([sys.executable, "-c", program, *places_, *words], user.environment(daemon.home))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def told_of(daemon: Daemon, clusters: Collection[int]) -> dict[int, str]:
    """Why no machine can run the jobs of each cluster; empty while it is not said of all of these, and no others."""
    groups = [group for group in daemon.status()["queue"]["groups"] if group["waiting"] and not group["matchable"]]
    told = {int(group["sample_job"].partition(".")[0]): str(group["reason"]) for group in groups}
    return told if set(told) == set(clusters) else {}


def source(daemon: Daemon, endpoint: places.Endpoint) -> dict[str, Any]:
    """What the status says of reading an endpoint."""
    name = f"site {endpoint.url.partition('//')[2]}/"
    return next((one for one in daemon.status().get("sources", ()) if one["name"].startswith(name)), {})


def hosts(jobs: list[dict[str, Any]]) -> dict[int, set[str]]:
    """The addresses of the machines where jobs ran, by their clusters."""
    found: dict[int, set[str]] = {}
    for job in jobs:
        label = job["LastRemoteHost"].rpartition("@")[2].partition(".")[0]
        found.setdefault(job["ClusterId"], set()).add(label.removeprefix("ip-").replace("-", "."))
    return found


def test_a_mixed_queue_gets_exactly_the_right_machines_of_three_pools_at_two_endpoints(
    cluster: Cluster, daemon: StartDaemon, second: Ec2
) -> None:
    ones = cluster.submit(4, 4)
    fours = cluster.submit(2, 4, "request_cpus = 4", "priority = 9")  # first: they need whole machines
    large = cluster.submit(2, 4, "request_memory = 20000")
    gpus = cluster.submit(2, 4, "request_gpus = 1", "request_memory = 500")
    never = {
        cluster.submit(3, 1, "request_cpus = 64"): "asks 64 cpus",
        cluster.submit(1, 1, "request_memory = 200000"): "asks 200000 MB",
        cluster.submit(1, 1, "request_gpus = 2"): "asks 2 gpus",
        cluster.submit(2, 1, "requirements = HasUnicorn"): "HasUnicorn",
    }
    elastiq = daemon(
        elastiq={"idle_for_time_s": 3},
        quota={"max_vms": 20},
        htcondor={"query_method": "bindings"},
        ec2={**BY_CATALOGUE, "flavour": "c5.xlarge, c5.large", "price": "c5.xlarge=0.17, c5.large=0.08"},
        **{
            "ec2:bigmem": {
                **AT_SECOND, "flavour": "r5.xlarge", "price": "0.25", **only_for("TARGET.RequestMemory > 10000"),
            },
            "ec2:gpu": {
                **AT_SECOND, "flavour": "g4dn.xlarge", "price": "0.53", **only_for("(TARGET.RequestGPUs ?: 0) > 0"),
            },
        },
    )  # fmt: skip
    wait_for(lambda: {job["ClusterId"] for job in cluster.jobs()} == set(never), 60, "all jobs ran that can")
    right = (Counter({"c5.xlarge": 2, "c5.large": 2}), Counter({"r5.xlarge": 2, "g4dn.xlarge": 2}))
    assert (kinds(cluster.ec2), kinds(second)) == right
    assert [len(cloud.log("RunInstances")) for cloud in cluster.clouds] == [2, 2], "one call for each flavour"

    flavours = {one["address"]: one["type"] for cloud in cluster.clouds for one in cloud.instances()}
    ran = {cluster_id: {flavours[one] for one in found} for cluster_id, found in hosts(cluster.ended_jobs()).items()}
    assert ran == {ones: {"c5.large"}, fours: {"c5.xlarge"}, large: {"r5.xlarge"}, gpus: {"g4dn.xlarge"}}

    told = wait_for(lambda: told_of(elastiq, never), 30, "each of the others is told why it has no machine")
    for cluster_id, said in never.items():
        explained = json.loads(elastiqctl(elastiq, "explain", f"{cluster_id}.0", "--json"))
        assert told[cluster_id].startswith("nothing offered can run it"), told[cluster_id]
        assert said in told[cluster_id] or said in json.dumps(explained), (told[cluster_id], explained)
    wait_for(lambda: not any(cloud.alive() for cloud in cluster.clouds), 60, "all machines are ended")
    wait_for(lambda: elastiq.status()["nodes"] == [], 20, "the ends are confirmed")
    assert (kinds(cluster.ec2), kinds(second)) == right, "nothing was launched for jobs that nothing runs"
    cluster.assert_no_job_lost(but=set(never))
    assert elastiq.stop() == 0


@pytest.mark.parametrize("capacity", [0, 1], ids=["none", "less than asked for"])
def test_capacity_that_is_refused_at_one_endpoint_is_asked_for_at_the_next_in_the_same_cycle(
    cluster: Cluster, daemon: StartDaemon, second: Ec2, capacity: int
) -> None:
    cluster.ec2.behave(capacity=capacity)
    cluster.submit(3, 1, "request_cpus = 4")
    daemon(
        elastiq={"check_queue_every_s": 60, "check_vms_every_s": 60},  # nothing is read in between
        ec2={**BY_CATALOGUE, "price": "0.17"},
        **{"ec2:other": {**AT_SECOND, "price": "0.20"}},
    )
    (next_one,) = wait_for(lambda: second.log("RunInstances"), 30, "it is asked for at the other endpoint")
    (first,) = cluster.launch_calls()
    assert first["parameters"]["MaxCount"] == "3" and next_one["parameters"]["MaxCount"] == str(3 - capacity)
    assert 0 <= next_one["at"] - first["answered"] < 30
    wait_for(cluster.all_jobs_ran, 40, "all jobs ran")
    assert (len(cluster.ec2.instances()), len(second.instances())) == (capacity, 3 - capacity)
    cluster.assert_no_job_lost()


def test_an_endpoint_that_hangs_keeps_nothing_from_the_other_and_nothing_of_its_own_is_ended(
    cluster: Cluster, daemon: StartDaemon, second: Ec2
) -> None:
    elastiq = daemon(
        elastiq={"idle_for_time_s": 3},
        ec2={**BY_CATALOGUE, "price": "0.17", "read_timeout_s": 5, **only_for('TARGET.ElastiqPool =!= "other"')},
        **{"ec2:other": {**AT_SECOND, "price": "0.10", **only_for('TARGET.ElastiqPool =!= "ec2"')}},
    )
    cluster.submit(1, 15, "request_cpus = 4", 'My.ElastiqPool = "other"')
    cluster.submit(1, 1, "request_cpus = 4", 'My.ElastiqPool = "ec2"')
    wait_for(lambda: len(elastiq.nodes("busy")) == 1 and len(cluster.jobs()) == 1, 40, "one runs, one ran")
    (before,) = cluster.ec2.instances()
    second.fault("*", hold="before", times=1_000_000)  # it accepts, and never answers
    began = time.time()
    wait_for(second.held, 10, "a call hangs")
    wait_for(lambda: source(elastiq, places.SECOND).get("known") is False, 20, "status says which one is not known")

    new = cluster.submit(2, 2, "request_cpus = 4")
    wait_for(lambda: new not in {job["ClusterId"] for job in cluster.jobs()}, 30, "jobs ran at the other one")
    wait_for(lambda: before["id"] in cluster.ended_ids() and not cluster.ec2.alive(), 30, "idle machines end")
    assert not second.log("RunInstances")[1:] and not second.log("TerminateInstances")
    reads = [call for call in cluster.ec2.log("DescribeInstances") if call["at"] > began]
    assert len(reads) > 0.2 * (time.time() - began), "it is read as ever"
    assert source(elastiq, places.FIRST)["known"] and not source(elastiq, places.SECOND)["known"]
    wait_for(cluster.all_jobs_ran, 20, "the job at the one that hangs ran")
    assert len(second.instances("running")) == 1

    second.release()
    wait_for(lambda: source(elastiq, places.SECOND).get("known"), 20, "it is known again")
    wait_for(lambda: not second.alive(), 30, "and its idle machine is ended")
    cluster.assert_no_job_lost()
    assert elastiq.stop() == 0


# As docs/htcondor.md and docs/spot.md have it, but for the program: it shows a file, as there is no metadata service.
NOTICE_LINES = (
    "MAXJOBRETIREMENTTIME = 31536000",
    'START = $(START) && (ElastiqNotice ?: "") == ""',
    "STARTD_CRON_JOBLIST = $(STARTD_CRON_JOBLIST) ELASTIQ",
    "STARTD_CRON_ELASTIQ_EXECUTABLE = /bin/cat",
    "STARTD_CRON_ELASTIQ_ARGS = $(LOCAL_DIR)/notice",
    "STARTD_CRON_ELASTIQ_PREFIX = Elastiq",
    "STARTD_CRON_ELASTIQ_PERIOD = 1s",
)


def test_a_machine_that_is_about_to_be_taken_loses_no_job_and_is_replaced_from_another_offer(
    cluster: Cluster, daemon: StartDaemon, second: Ec2
) -> None:
    elastiq = daemon(
        elastiq={"idle_for_time_s": 20},
        ec2={**BY_CATALOGUE, "market": "spot", "price": "0.06", "user_data_b64": user_data(*NOTICE_LINES)},
        **{"ec2:other": {**AT_SECOND, "market": "on-demand", "price": "0.17"}},
    )
    cluster.submit(2, 30, "request_cpus = 2")  # longer than all that is to happen while they run
    wait_for(lambda: len(cluster.jobs(RUNNING)) == 2 and elastiq.nodes("busy"), 40, "the machine is busy")
    (taken,) = cluster.ec2.instances()
    (machine,) = cluster.machines()
    assert not second.instances()

    worker.announce(taken["address"], "spot interruption: action: terminate")
    wait_for(lambda: second.log("RunInstances"), 15, "another one is launched at once")
    wait_for(lambda: "Drained" in cluster.machines()[machine], 15, "it is drained")
    assert len(cluster.jobs(RUNNING)) == 2, "while its jobs run"
    later = cluster.submit(1, 1)
    wait_for(cluster.all_jobs_ran, 60, "all jobs ran")
    assert hosts(cluster.ended_jobs())[later] == {second.instances()[0]["address"]}, "the new one takes what comes"
    wait_for(lambda: taken["id"] in cluster.ended_ids(), 20, "the old one is ended when its jobs have")
    cluster.assert_no_job_lost()
    assert (len(cluster.ec2.instances()), len(second.instances())) == (1, 1)
    assert elastiq.stop() == 0
