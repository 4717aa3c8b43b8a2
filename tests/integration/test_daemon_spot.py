"""A daemon that buys spot machines: refused for want of quota, bought, and taken back while a job runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon_lines import ROOT
from tests.ec2_server import KEYS, EC2Server, error, moto_reservations, moto_server
from tests.integration.fake_htcondor import FakePool
from tests.sqs_queue import SQSQueue, event
from tests.waiting import until

CONFIG = """
[elastiq]
cluster_name = spot-{number}
check_queue_every_s = 0.5
check_vms_every_s = 0.5
waiting_jobs_time_s = 0
batch_settle_s = 0
[quota]
max_vms = 3
[ec2]
api_url = {url}
region = us-east-1
aws_access_key_id = {aws_access_key_id}
aws_secret_access_key = {aws_secret_access_key}
image_id = ami-12c6146b
flavour = m5.large, m5.xlarge
market = spot, on-demand
cpus = 4
memory_mb = 8000
dialect = aws
interruption_queue = {queue}
"""


@pytest.fixture
def servers() -> Iterator[tuple[EC2Server, SQSQueue]]:
    ec2, queue = moto_server(), SQSQueue()
    for reservations in moto_reservations():
        reservations.clear()
    yield ec2, queue
    ec2.close()
    queue.close()


@pytest.fixture
def pool(tmp_path: Path) -> FakePool:
    return FakePool(tmp_path / "pool")


@pytest.fixture
def log(tmp_path: Path, servers: tuple[EC2Server, SQSQueue], pool: FakePool) -> Iterator[Path]:
    """Of a daemon at work."""
    config, log = tmp_path / "elastiq.conf", tmp_path / "log"
    config.touch(mode=0o600)
    config.write_text(CONFIG.format(url=servers[0].url, queue=servers[1].url, number=os.getpid(), **KEYS))
    environment = {**os.environ, "PATH": f"{pool.bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    places = ("--config", config, "--statedir", tmp_path / "s", "--rundir", tmp_path / "r")
    with open(log, "w") as sink:
        argv = [sys.executable, "-m", "elastiq.service", *map(str, places)]
        process = subprocess.Popen(argv, env=environment, stdout=sink, stderr=sink)
    yield log
    process.kill()
    process.wait()
    print(log.read_text())


def bought(ec2: EC2Server) -> list[tuple[str, str]]:
    """The flavour and the market of each launch that was asked for."""
    return [
        (sent["InstanceType"], sent.get("InstanceMarketOptions.MarketType", "")) for sent in ec2.asked("RunInstances")
    ]


def test_a_spot_machine_is_replaced_before_it_is_taken_back_and_no_job_is_killed(
    servers: tuple[EC2Server, SQSQueue], pool: FakePool, log: Path
) -> None:
    ec2, queue = servers
    ec2.script("RunInstances", error("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"))
    pool.submit(1, RequestCpus=4)
    # Refused as a spot machine; the same plan goes on with the next offer of the pool.
    (one,) = until(lambda: [i for region in moto_reservations() for r in region.values() for i in r.instances])
    assert bought(ec2) == [("m5.large", "spot"), ("m5.large", "")]
    assert "MaxSpotInstanceCountExceeded" in log.read_text()
    until(lambda: one.id in log.read_text())  # launched, or listed before the launch was answered
    pool.load()["jobs"].clear()
    pool.save()
    pool.add_worker("w1", one.private_ip, cpus=4, memory_mb=8000)
    pool.start_job("w1", cpus=4)
    until(lambda: re.search(rf"{one.id} \(ec2\): \w+ -> busy", log.read_text()))  # it may be seen at any step before

    queue.put(event(one.id))
    until(lambda: len(bought(ec2)) == 3)
    assert bought(ec2)[2] != ("m5.large", ""), "what is taken back is not bought again just now"
    until(lambda: f"replaces {one.id}" in log.read_text())
    until(lambda: queue.messages == {})
    assert ec2.asked("TerminateInstances") == [], "its job may end in the two minutes"
