"""What the count of a default daemon's lines takes for granted, seen on a daemon at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from tests.daemon_lines import ENTRIES, ON_DEMAND, ROOT, imported_by
from tests.ec2_server import KEYS, EC2Server, moto_reservations, moto_server
from tests.integration.fake_htcondor import FakePool
from tests.waiting import PATIENCE_S, until

# The service ends by os._exit: right before, it says which modules of ours it has.
PROGRAM = """
import json, os, sys
from elastiq import service
from elastiq.plugins.batch import htcondor
htcondor.has_bindings = lambda: False  # as on a head node without them
leave = os._exit
def say_and_leave(code):
    print(json.dumps([name for name in sys.modules if name.partition(".")[0] == "elastiq"]), flush=True)
    leave(code)
os._exit = say_and_leave
sys.exit(service.main(sys.argv[1:]))
"""

CONFIG = """
[elastiq]
cluster_name = lines-{process}
check_queue_every_s = 0.5
check_vms_every_s = 0.5
waiting_jobs_time_s = 0
idle_for_time_s = 0
batch_settle_s = 0
[quota]
max_vms = 1
[ec2]
api_url = {url}
region = us-east-1
aws_access_key_id = {aws_access_key_id}
aws_secret_access_key = {aws_secret_access_key}
image_id = ami-12c6146b
flavour = m5.small
dialect = aws
"""


@pytest.fixture
def server() -> Iterator[EC2Server]:
    server = moto_server()
    for reservations in moto_reservations():
        reservations.clear()
    yield server
    server.close()


@pytest.fixture
def pool(tmp_path: Path) -> FakePool:
    return FakePool(tmp_path / "pool")


@pytest.fixture
def daemon(tmp_path: Path, server: EC2Server, pool: FakePool) -> Iterator[subprocess.Popen[str]]:
    config = tmp_path / "elastiq.conf"
    config.touch(mode=0o600)
    config.write_text(CONFIG.format(url=server.url, process=os.getpid(), **KEYS))
    environment = {**os.environ, "PATH": f"{pool.bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    places = ("--config", str(config), "--statedir", str(tmp_path / "s"), "--rundir", str(tmp_path / "r"))
    argv = [sys.executable, "-c", PROGRAM, *places]
    log = tmp_path / "log"
    with open(log, "w") as stderr:
        process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
    yield process
    process.kill()
    process.communicate()
    print(log.read_text())


def instances() -> list[tuple[str, str]]:
    """The address and the state of each."""
    found = [one for region in moto_reservations() for reservation in region.values() for one in reservation.instances]
    return [(one.private_ip, one._state.name) for one in found]


def test_a_daemon_at_work_imports_only_what_is_counted(daemon: subprocess.Popen[str], pool: FakePool) -> None:
    pool.submit(1)
    until(instances, "a launch")
    ((address, _),) = instances()
    pool.add_worker("w1", address)
    pool.load()["jobs"].clear()
    pool.save()
    until(lambda: instances() == [(address, "terminated")], "the idle machine's end")
    assert pool.calls("condor_drain"), "the whole life of a machine"
    daemon.terminate()
    imported = set(json.loads(daemon.communicate(timeout=PATIENCE_S)[0]))
    # For `dialect` and `api_url`, which a daemon of AWS does not need, and for the volumes of moto's images.
    imported -= {"elastiq.rare_values", "elastiq.plugins.cloud.ec2_rare_values", "elastiq.plugins.cloud.ec2_volumes"}
    assert set(ENTRIES) <= imported
    counted = set(imported_by(ENTRIES))
    assert imported - counted == set()
    # A module that only checks() imports is not counted, and not there. If checks() came to be called, this fails;
    # and so it does if what is imported on demand is imported by a daemon of whom nobody demanded it.
    checks = {"elastiq.plugins.batch.htcondor_checks", "elastiq.plugins.cloud.ec2_checks"}
    assert {*checks, *ON_DEMAND}.isdisjoint(imported | counted)
