"""One of two sites hangs, reads and launches alike: the other is read, launched at and ended at as ever."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable
from urllib.parse import parse_qs

import pytest

from tests.daemon_lines import ROOT
from tests.ec2_server import EC2Server, moto_reservations
from tests.integration.fake_htcondor import FakePool
from tests.waiting import until

# The dead site is the cheaper one: it is launched at first. Its calls are answered when the test is over, and may take
# longer than that.
CONFIG = """
[elastiq]
cluster_name = sites-{number}
check_queue_every_s = 0.3
check_vms_every_s = 0.3
waiting_jobs_time_s = 0
batch_settle_s = 0
idle_for_time_s = 1
[quota]
max_vms = 4
[ec2]
api_url = {alive}
region = us-east-1
image_id = ami-12c6146b
flavour = m5.small
price = 0.2
cpus = 1
memory_mb = 4000
dialect = aws
[ec2:dead]
api_url = {dead}
region = eu-west-1
read_timeout_s = 600
price = 0.1
max_vms = 1
"""


class Site:
    """Moto, some of whose answers never come."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import create_backend_app

        self.cloud = create_backend_app("ec2")
        self.hangs: Callable[[str], bool] = lambda action: False
        self.held: list[str] = []
        self.over = threading.Event()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        data = environ["wsgi.input"].read()
        (action,) = parse_qs(data.decode())["Action"]
        if self.hangs(action):
            self.held.append(action)
            self.over.wait(600)
        return self.cloud({**environ, "wsgi.input": io.BytesIO(data)}, start)


@pytest.fixture
def dead() -> Iterator[Site]:
    site = Site()
    yield site
    site.over.set()


@pytest.fixture
def servers(dead: Site) -> Iterator[tuple[EC2Server, EC2Server]]:
    """The one that works, and the one that hangs."""
    for reservations in moto_reservations():
        reservations.clear()
    both = (EC2Server(Site()), EC2Server(dead))
    yield both
    dead.over.set()
    for server in both:
        server.close()


@pytest.fixture
def pool(tmp_path: Path) -> FakePool:
    return FakePool(tmp_path / "pool")


@pytest.fixture
def daemon(tmp_path: Path, servers: tuple[EC2Server, EC2Server], pool: FakePool) -> Iterator[subprocess.Popen[bytes]]:
    config = tmp_path / "elastiq.conf"
    config.touch(mode=0o600)
    config.write_text(CONFIG.format(alive=servers[0].url, dead=servers[1].url, number=os.getpid()))
    given = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = {
        **given,
        "PATH": f"{pool.bin}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "verysecretkey",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    places = ("--config", str(config), "--statedir", str(tmp_path / "s"), "--rundir", str(tmp_path / "r"))
    log = tmp_path / "log"
    with open(log, "w") as sink:
        argv = [sys.executable, "-m", "elastiq.service", *places]
        process = subprocess.Popen(argv, env=environment, stdout=sink, stderr=sink)
    yield process
    process.kill()
    process.wait()
    print(log.read_text())


def addresses() -> list[str]:
    """Those of all machines that moto made."""
    made = [one for region in moto_reservations() for reservation in region.values() for one in reservation.instances]
    return [machine.private_ip for machine in made]


def machines_asked(server: EC2Server) -> int:
    return sum(int(sent["MaxCount"]) for sent in server.asked("RunInstances"))


def test_a_site_that_hangs_delays_nothing_at_the_others(
    daemon: subprocess.Popen[bytes], servers: tuple[EC2Server, EC2Server], dead: Site, pool: FakePool
) -> None:
    working, hanging = servers
    until(lambda: all(len(server.asked("DescribeInstances")) > 1 for server in servers))  # the first was answered
    dead.hangs = lambda action: action == "RunInstances"
    pool.submit(2)
    until(lambda: dead.held == ["RunInstances"])
    until(lambda: machines_asked(working) == 1)
    dead.hangs = lambda action: True
    until(lambda: "DescribeInstances" in dead.held)

    seen = len(working.asked("DescribeInstances"))
    until(lambda: len(working.asked("DescribeInstances")) > seen + 4)
    (address,) = until(addresses)
    pool.load()["jobs"].clear()
    pool.save()
    pool.add_worker("w1", address, cpus=1, memory_mb=4000)
    until(lambda: pool.calls("condor_drain"))
    until(lambda: working.asked("TerminateInstances"))

    pool.submit(3)
    until(lambda: machines_asked(working) > 1)
    assert machines_asked(hanging) == 1
    assert sorted(set(dead.held)) == ["DescribeInstances", "RunInstances"]
    assert not dead.over.is_set(), "none of them was ever answered"
    assert daemon.poll() is None
