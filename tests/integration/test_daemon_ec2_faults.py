"""A daemon at work while its cloud's answers go bad: keys that expire, login pages, a proxy's errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.daemon_lines import ROOT
from tests.ec2_server import EC2Server, error, moto_reservations
from tests.integration.fake_htcondor import FakePool
from tests.waiting import PATIENCE_S, until

CONFIG = """
[elastiq]
cluster_name = faults-{number}
check_queue_every_s = 0.5
check_vms_every_s = 0.5
waiting_jobs_time_s = 0
batch_settle_s = 0
[quota]
max_vms = 3
[ec2]
api_url = {url}
region = us-east-1
image_id = ami-12c6146b
flavour = m5.small
cpus = 1
dialect = aws
"""
HTML = [("Content-Type", "text/html")]


class Gate:
    """In front of moto: whose keys are good, and whether the cloud can be seen at all."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import create_backend_app

        self.cloud = create_backend_app("ec2")
        self.good_key = "AKIANEW"
        self.page: tuple[int, bytes] | None = None
        self.pages = 0

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        if self.page:
            self.pages += 1
            start(f"{self.page[0]} X", HTML)
            return [self.page[1]]
        if f"Credential={self.good_key}/" not in environ["HTTP_AUTHORIZATION"]:
            refusal = error("RequestExpired", "Request has expired.")
            start("400 X", list(refusal.headers))
            return [refusal.body.encode()]
        return self.cloud(environ, start)


class Daemon:
    def __init__(self, folder: Path, url: str, pool: FakePool) -> None:
        self.keys, self.log = folder / "credentials", folder / "log"
        self.renew("AKIAOLD")
        config = folder / "elastiq.conf"
        config.touch(mode=0o600)
        config.write_text(CONFIG.format(url=url, number=os.getpid()))
        given = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment = {
            **given,
            "PATH": f"{pool.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.keys),
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        places = ("--config", str(config), "--statedir", str(folder / "s"), "--rundir", str(folder / "r"))
        with open(self.log, "w") as sink:
            argv = [sys.executable, "-m", "elastiq.service", *places]
            self.process = subprocess.Popen(argv, env=environment, stdout=sink, stderr=sink)

    def renew(self, key: str) -> None:
        new = self.keys.with_suffix(".new")
        new.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {key}PLANTEDSECRET\n")
        new.replace(self.keys)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def server(gate: Gate) -> Iterator[EC2Server]:
    server = EC2Server(gate)
    for reservations in moto_reservations():
        reservations.clear()
    yield server
    server.close()


@pytest.fixture
def pool(tmp_path: Path) -> FakePool:
    pool = FakePool(tmp_path / "pool")
    pool.submit(2)
    return pool


@pytest.fixture
def daemon(tmp_path: Path, server: EC2Server, pool: FakePool) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, server.url, pool)
    yield daemon
    daemon.process.kill()
    daemon.process.wait()
    print(daemon.log.read_text())


def test_a_daemon_outlives_what_is_no_answer_and_launches_once_when_there_is_one(
    daemon: Daemon, gate: Gate, server: EC2Server
) -> None:
    until(lambda: "RequestExpired: Request has expired (check the credentials" in daemon.log.read_text())
    assert server.asked("RunInstances") == []
    daemon.renew("AKIANEW")  # and nobody restarts it
    until(lambda: server.asked("RunInstances"))
    until(lambda: len(server.asked("DescribeInstances")) > 3)
    for page, told in (
        ((200, b"<html>Please log in</html>"), "is a login page in between"),
        ((502, b"<html>Bad Gateway</html>"), "DescribeInstances at 127.0.0.1"),
    ):
        gate.page, gate.pages = page, 0
        until(lambda told=told: gate.pages >= 6 and told in daemon.log.read_text())  # type: ignore[misc]
    gate.page = None
    seen = len(server.asked("DescribeInstances"))
    until(lambda: len(server.asked("DescribeInstances")) > seen + 3)
    machines = sum(int(sent["MaxCount"]) for sent in server.asked("RunInstances"))
    assert 1 <= machines <= 2, "one for each job at most: no machine was taken for gone"
    assert server.asked("TerminateInstances") == []
    assert daemon.process.poll() is None
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(PATIENCE_S) == 0
    assert "PLANTEDSECRET" not in daemon.log.read_text()
