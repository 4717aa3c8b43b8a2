"""Metrics and the log of a daemon at work: real processes, HTCondor's commands as a script, EC2 by moto over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest
from prometheus_client.parser import text_string_to_metric_families

from elastiq.metrics.families import FAMILIES
from tests.daemon_lines import ROOT
from tests.ec2_server import KEYS, EC2Server, error, moto_reservations, moto_server
from tests.integration.fake_htcondor import FakePool
from tests.waiting import PATIENCE_S, free_port, until

CONFIG = """
[elastiq]
cluster_name = metered-{number}
check_queue_every_s = 0.5
check_vms_every_s = 0.5
waiting_jobs_time_s = 0
batch_settle_s = 0
log_format = json
[quota]
max_vms = 3
max_cost_per_day = 100
[ec2]
api_url = {url}
region = us-east-1
aws_access_key_id = {aws_access_key_id}
aws_secret_access_key = {aws_secret_access_key}
image_id = ami-12c6146b
flavour = m5.large, m5.xlarge
cpus = 4
memory_mb = 8000
price = 0.1
dialect = aws
"""

Samples = dict[str, float]


class Bench:
    """A head node in a directory; ``start`` begins its daemon."""

    def __init__(self, path: Path, ec2: EC2Server) -> None:
        self.path, self.ec2, self.pool = path, ec2, FakePool(path / "pool")
        self.config, self.log = path / "elastiq.conf", path / "log"
        self.config.touch(mode=0o600)
        self.environment = {**os.environ, "PATH": f"{self.pool.bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self.places = ["--config", f"{self.config}", "--statedir", f"{path / 's'}", "--rundir", f"{path / 'r'}"]
        self.process: Optional[subprocess.Popen[bytes]] = None

    def start(self, more: str = "") -> None:
        self.config.write_text(CONFIG.format(url=self.ec2.url, number=os.getpid(), **KEYS) + more)
        with open(self.log, "a") as sink:
            argv = [sys.executable, "-m", "elastiq.service", *self.places]
            self.process = subprocess.Popen(argv, env=self.environment, stdout=sink, stderr=sink)
        until(lambda: self.ctl("status").returncode == 0)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "elastiq", *self.places, *words]
        return subprocess.run(argv, env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)

    def metrics(self) -> Samples:
        done = self.ctl("metrics")
        assert (done.returncode, done.stderr) == (0, "")
        return samples(done.stdout)

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def instances(self) -> list[Any]:
        return [one for region in moto_reservations() for of in region.values() for one in of.instances]

    def become_workers(self, busy: int = 0) -> None:
        """The machines that were launched join; on so many of them a job starts."""
        for number, one in enumerate(self.instances()):
            self.pool.add_worker(f"w{number}", one.private_ip, cpus=4, memory_mb=8000)
        self.pool.load()["jobs"].clear()
        self.pool.save()
        for number in range(busy):
            self.pool.start_job(f"w{number}", cpus=4)


def samples(text: str) -> Samples:
    """By the name and the values of the labels."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def series(text: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """What there are values of; the library sorts labels."""
    families = text_string_to_metric_families(text)
    return {(one.name, frozenset(one.labels.items())) for family in families for one in family.samples}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    ec2 = moto_server()
    for reservations in moto_reservations():
        reservations.clear()
    made = Bench(tmp_path, ec2)
    yield made
    made.stop()
    ec2.close()
    if made.log.exists():
        print(made.log.read_text())


def test_a_scrape_and_the_command_tell_the_same_life(bench: Bench) -> None:
    port = free_port()
    bench.ec2.script("RunInstances", error("InsufficientInstanceCapacity", "no more of this"))
    bench.pool.submit(4, RequestCpus=1)
    bench.start(f"[metrics]\nlisten = 127.0.0.1:{port}\n")
    until(lambda: len(bench.instances()) == 1)
    bench.become_workers(busy=1)
    until(lambda: bench.metrics().get("elastiq_nodes ec2 busy") == 1)
    shown = bench.metrics()
    site = next(key.split()[-1] for key in shown if key.startswith("elastiq_observation_known instances"))
    assert shown["elastiq_launches_total ec2"] == shown["elastiq_boot_seconds_count ec2"] == 1
    assert shown["elastiq_launches_asked_total ec2"] == 2
    assert shown["elastiq_failures_total ec2 launch"] == shown["elastiq_pool_offers_held_back ec2"] == 1
    assert shown[f"elastiq_api_errors_total {site} RunInstances InsufficientInstanceCapacity"] == 1
    assert shown[f"elastiq_api_requests_total {site} RunInstances"] == 2 == len(bench.ec2.asked("RunInstances"))
    assert shown[f"elastiq_call_errors_total cloud {site} launch CapacityError"] == 1
    assert shown[f"elastiq_calls_total cloud {site} instances"] >= 2 and shown["elastiq_calls_total batch  jobs"] >= 2
    assert shown["elastiq_cost_per_hour ec2"] == 0.1 and shown["elastiq_limit_left max_cost_per_day"] > 99
    assert shown["elastiq_jobs_running ec2"] == 1 and shown["elastiq_store_writable"] == 1
    assert shown["process_resident_memory_bytes"] > 1e7

    def scraped() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())

    until(lambda: series(scraped()) == series(bench.ctl("metrics").stdout))  # the loop may publish in between
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as answer:
        assert answer.status == 200


def test_counts_go_on_after_a_kill(bench: Bench) -> None:
    bench.pool.submit(1, RequestCpus=4)
    bench.start()
    until(lambda: bench.metrics().get("elastiq_launches_total ec2") == 1)
    before = bench.metrics()
    bench.stop()
    bench.start()
    after = bench.metrics()
    kept = tuple(name for name, family in FAMILIES.items() if family.kept)
    assert [key for key in before if key.startswith(kept) and after[key] < before[key]] == []
    assert after["elastiq_launches_total ec2"] == 1


def test_the_group_may_read_metrics_and_the_log_is_silent_about_it(bench: Bench) -> None:
    bench.start()
    for _ in range(3):
        bench.metrics()
    asked = json.loads(bench.ctl("metrics", "--json").stdout)
    assert {family["name"] for family in asked} <= {*FAMILIES} and len(asked) >= 40
    assert not [record for record in bench.records() if record.get("event") == "command_asked"]


def test_a_port_in_use_is_a_notice_and_the_daemon_goes_on(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        bench.start(f"[metrics]\nlisten = 127.0.0.1:{other.getsockname()[1]}\n")
        shown = bench.ctl("status")
        assert shown.returncode == 0 and "metrics: not served at" in shown.stdout and "in use" in shown.stdout
        bench.pool.submit(1, RequestCpus=4)
        until(lambda: len(bench.instances()) == 1)
        assert bench.metrics()["elastiq_notices"] == 1


def test_the_log_in_json_has_the_events_of_a_launch(bench: Bench) -> None:
    bench.pool.submit(1, RequestCpus=4)
    bench.start()
    until(lambda: len(bench.instances()) == 1)

    def launched() -> list[dict[str, Any]]:
        """Pending by the launch's answer, or booting already where a listing was quicker."""
        return [one for one in bench.records() if one.get("event") == "node" and one.get("before") == "requested"]

    until(launched)
    events = [one.get("event") for one in bench.records() if one["level"] != "DEBUG"]
    assert events[0] == "config" and {"restored", "plan", "node"} <= {*events}
    (node,) = launched()
    (instance,) = bench.instances()
    assert (node["event"], node["node"], node["pool"]) == ("node", instance.id, "ec2")
    assert node["before"] == "requested" and "1 waiting job" in node["reason"]
    assert not [one for one in bench.records() if KEYS["aws_secret_access_key"] in json.dumps(one)]
