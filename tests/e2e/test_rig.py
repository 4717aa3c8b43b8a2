"""The rig does what the other tests rely on."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.e2e.cluster import Cluster, wait_for
from tests.e2e.rig import places, user
from tests.e2e.rig.ec2_image import IMAGE

_SCRIPT = f"""
import boto3, sys
from botocore.config import Config
ec2 = boto3.client("ec2", region_name="{places.REGION}", endpoint_url="{places.EC2_URL}",
                   aws_access_key_id="a", aws_secret_access_key="b",
                   config=Config(retries={{"total_max_attempts": 1}}, read_timeout=30))
def run(**more):
    asked = dict(ImageId="{IMAGE}", InstanceType="c5.xlarge", MinCount=1, MaxCount=1)
    return [made["InstanceId"] for made in ec2.run_instances(**{{**asked, **more}})["Instances"]]
def listed():
    return [made["InstanceId"] for r in ec2.describe_instances()["Reservations"] for made in r["Instances"]]
try:
    print(eval(sys.argv[1]))
except Exception as error:
    answer = getattr(error, "response", None) or {{}}
    print(answer.get("Error", {{}}).get("Code") or type(error).__name__)
"""


def api(call: str) -> str:
    """What boto3 makes of one call: its value, or the name of the error."""
    done = subprocess.run(
        user.as_daemon([sys.executable, "-c", _SCRIPT, call]), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def condor(*argv: str) -> subprocess.CompletedProcess[str]:
    """One of HTCondor's commands as the daemon's user."""
    return subprocess.run(user.as_daemon(argv), capture_output=True, text=True, timeout=60)


def test_a_client_token_is_idempotent_and_refused_with_other_parameters(cluster: Cluster) -> None:
    first = api("run(ClientToken='t', MaxCount=2)")
    assert api("run(ClientToken='t', MaxCount=2)") == first
    assert api("run(ClientToken='t', MaxCount=3)") == "IdempotentParameterMismatch"
    assert len(cluster.ec2.instances()) == 2


def test_a_launch_gets_as_many_instances_as_there_is_capacity_for(cluster: Cluster) -> None:
    cluster.ec2.behave(capacity=2)
    assert len(eval(api("run(MaxCount=5)"))) == 2
    assert api("run()") == "InsufficientInstanceCapacity"


@pytest.mark.parametrize(
    ("fault", "answer", "made"),
    [
        ({"code": "RequestLimitExceeded"}, "RequestLimitExceeded", 0),
        ({"code": "InternalError", "after": True}, "InternalError", 1),
        ({"drop": True}, "ConnectionClosedError", 1),
    ],
)
def test_faults_come_before_or_after_the_effect(
    cluster: Cluster, fault: dict[str, object], answer: str, made: int
) -> None:
    cluster.ec2.fault("RunInstances", **fault)
    assert api("run()") == answer
    assert len(cluster.ec2.instances()) == made


def test_a_held_call_takes_effect_when_it_is_released(cluster: Cluster) -> None:
    cluster.ec2.fault("RunInstances", hold="before")
    caller = threading.Thread(target=api, args=("run()",))
    caller.start()
    wait_for(cluster.ec2.held, 20, "the call is held")
    assert not cluster.ec2.instances()
    cluster.ec2.release()
    caller.join(20)
    assert len(cluster.ec2.instances()) == 1


def test_a_hidden_instance_is_listed_later(cluster: Cluster) -> None:
    cluster.ec2.behave(hide_s=3)
    made = api("run()")
    assert api("listed()") == "[]"
    wait_for(lambda: api("listed()") == made, 20, "it is listed")


def test_an_instance_becomes_a_worker_that_runs_a_job_and_goes_with_it(cluster: Cluster) -> None:
    cluster.submit(1, 1)
    instance = eval(api("run()"))[0]
    wait_for(cluster.all_jobs_ran, 30, "the job ran")
    cluster.assert_no_job_lost()
    assert len(cluster.machines()) == 1
    api(f"ec2.terminate_instances(InstanceIds=['{instance}'])")
    wait_for(lambda: not cluster.machines(), 20, "the worker left the pool")
    assert cluster.ended_ids() == {instance}


def test_the_daemons_user_may_drain_and_a_drain_with_a_check_refuses_a_busy_machine(cluster: Cluster) -> None:
    api("run()")
    machine = next(iter(wait_for(cluster.machines, 20, "it joins")))
    check = ("-check", 'State =!= "Claimed"')
    cluster.run_on(machine, 3)
    assert condor("condor_drain", "-graceful", *check, machine).returncode == 1
    wait_for(cluster.all_jobs_ran, 20, "the job ends")
    cluster.assert_no_job_lost()
    assert condor("condor_drain", "-graceful", *check, machine).returncode == 0
    wait_for(lambda: cluster.machines()[machine] == {"Drained"}, 20, "it is drained")
    assert condor("condor_drain", "-cancel", machine).returncode == 0
    wait_for(lambda: cluster.machines()[machine] == {"Unclaimed"}, 20, "the drain is undone")
