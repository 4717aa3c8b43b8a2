"""What the log says of a simulated cluster: nothing while nothing happens, and one line for a decision."""

from __future__ import annotations

import logging
import random
from typing import Any, Iterator

import pytest

from elastiq.failed_boots import EVERY_S
from elastiq.interfaces import Pool, Resources, SourceError
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.faults import PlannedFaults
from tests.unit.test_docs_logs import documented

SIZE = Resources(cpus=2, memory_mb=4000)
HOUR_S = 3600.0


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, event: str) -> list[logging.LogRecord]:
        return [record for record in self.records if getattr(record, "event", "") == event]

    def at_least(self, level: int) -> list[str]:
        return [record.getMessage() for record in self.records if record.levelno >= level]


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, log = Heard(), logging.getLogger("elastiq")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield handler
    log.removeHandler(handler)
    log.setLevel(before)


def a_cluster(machines: int = 50, **changed: Any) -> Cluster:
    pool = Pool("small", "simulated", ("small",), capacity=SIZE)
    settings = Settings("logged", (pool,), max_vms=machines, idle_for_time_s=10 * HOUR_S, **changed)
    cluster = Cluster(settings, {"small": SIZE}, random.Random(3), faults=PlannedFaults())
    cluster.start_daemon()
    return cluster


def submit(cluster: Cluster, jobs: int, seconds: float) -> None:
    for _ in range(jobs):
        cluster.world.submit(Resources(cpus=1.0, memory_mb=1000.0), seconds)


@pytest.mark.parametrize("seconds", [8 * HOUR_S, 300.0], ids=["busy", "idle"])
def test_a_quiet_hour_of_50_machines_says_nothing(heard: Heard, seconds: float) -> None:
    cluster = a_cluster()
    submit(cluster, 100, seconds)
    cluster.run(2000.0)
    assert cluster.daemon is not None and len(cluster.daemon.core.registry) == 50
    heard.records.clear()
    cluster.run(HOUR_S)
    assert heard.at_least(logging.INFO) == []


def test_jobs_that_come_and_go_are_no_news(heard: Heard) -> None:
    """Machines that are there run them."""
    cluster = a_cluster()
    submit(cluster, 100, 300.0)
    cluster.run(2000.0)
    heard.records.clear()
    for _ in range(12):
        submit(cluster, 10, 200.0)
        cluster.run(HOUR_S / 12)
    assert heard.at_least(logging.INFO) == []
    assert len(heard.of("node")) >= 20, "at debug they are told"


def test_a_decision_is_one_line_with_its_reason(heard: Heard) -> None:
    cluster = a_cluster()
    cluster.run(120.0)
    heard.records.clear()
    submit(cluster, 6, 300.0)
    cluster.run(60.0)
    (plan,) = [record for record in heard.of("plan") if record.levelno >= logging.INFO]
    assert plan.getMessage() == "plan: launch 3 of small/small: 6 waiting jobs of 1 cpu, 1000 MB"


def test_a_source_that_does_not_answer_is_told_once_and_when_it_is_over(heard: Heard) -> None:
    cluster = a_cluster()
    cluster.run(120.0)
    heard.records.clear()
    faults: Any = cluster.world.faults
    for _ in range(10):
        faults.once("jobs", error=SourceError("schedd is away"))
    cluster.run(600.0)
    began, over = heard.at_least(logging.INFO)
    assert began == "queue: the queue could not be read: schedd is away" and over == "queue: over"


def test_failed_boots_are_summed_up_once_an_hour(heard: Heard) -> None:
    cluster = a_cluster(estimated_vm_deploy_time_s=200.0)
    cluster.world.image.joins = False
    submit(cluster, 2, 60.0)
    cluster.run(EVERY_S + 1000.0)
    failed = [record for record in heard.of("node") if record.levelno == logging.WARNING]
    (summed,) = heard.of("failed_boots")
    assert summed.levelno == logging.WARNING and len(failed) >= summed.__dict__["fields"]["count"] >= 3
    assert summed.getMessage().startswith(
        f"pool small: {summed.__dict__['fields']['count']} machines launched there did"
    )
    cluster.world.image.joins = True
    cluster.run(2 * EVERY_S)
    told = len(heard.of("failed_boots"))
    cluster.run(2 * EVERY_S)
    assert len(heard.of("failed_boots")) == told, "nothing failed, nothing is said"
    assert cluster.daemon is not None and cluster.daemon.core.listeners == []


def test_what_is_logged_under_faults_is_in_the_table(heard: Heard) -> None:
    cluster = a_cluster(10, estimated_vm_deploy_time_s=200.0)
    faults: Any = cluster.world.faults
    for _ in range(4):
        for name in ("launch", "terminate", "drain", "workers", "instances", "jobs", "problems"):
            faults.once(name, error=SourceError(f"{name} failed"))
        submit(cluster, 8, 400.0)
        cluster.run(1500.0)
    table, seen = documented(), set()
    for record in heard.records:
        event, fields = record.__dict__.get("event"), record.__dict__.get("fields", {})
        assert event in table, record.getMessage()
        assert record.levelname.lower() in table[event].levels, record.getMessage()
        assert {*fields} <= table[event].fields and (event == "command" or {*fields} == table[event].fields)
        seen.add(event)
    assert {"node", "plan", "notice", "restored", "launch_unknown"} <= seen
