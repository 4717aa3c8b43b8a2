"""What the metrics say of a simulated cluster is what happened there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from elastiq.interfaces import Pool, Resources, SourceError
from elastiq.metrics.families import FAMILIES, text
from elastiq.metrics.meter import PUBLISH_S, meter_of
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.faults import PlannedFaults

SIZE = Resources(cpus=2, memory_mb=4000)
POOL = Pool("small", "simulated", ("small",), capacity=SIZE, prices={"*": 0.36})
SETTINGS = Settings(
    "metered", (POOL,), max_vms=8, idle_for_time_s=120.0, estimated_vm_deploy_time_s=200.0, intent_settle_s=60.0
)


class Metered:
    """A cluster whose daemon counts from its start; it may be killed and started again."""

    def __init__(self, path: Path) -> None:
        self.faults = PlannedFaults()
        self.cluster = Cluster(
            SETTINGS, {"small": SIZE}, random.Random(7), faults=self.faults, store_path=str(path / "state.db")
        )
        self.world = self.cluster.world
        self.start()

    def start(self) -> None:
        self.meter = meter_of(self.cluster.start_daemon())

    def kill(self) -> None:
        self.cluster.kill_daemon()

    def submit(self, jobs: int, seconds: float = 300.0) -> None:
        for _ in range(jobs):
            self.world.submit(Resources(cpus=1.0, memory_mb=1000.0), seconds)

    def until_quiet(self) -> None:
        assert self.cluster.run_until(lambda: not self.world.jobs and not self.world.tally.present, 20_000.0, 30.0)
        self.cluster.run(120.0)

    def shown(self) -> dict[str, float]:
        """Each sample by its name and the values of its labels."""
        self.meter.publish()
        return {
            " ".join([sample.name, *sample.labels.values()]): sample.value
            for family in text_string_to_metric_families(text(self.meter.read()))
            for sample in family.samples
        }


@pytest.fixture
def metered(tmp_path: Path) -> Metered:
    return Metered(tmp_path)


def counters(shown: dict[str, float]) -> dict[str, float]:
    kept = [name for name, family in FAMILIES.items() if family.kept]
    return {key: value for key, value in shown.items() if key.startswith(tuple(kept))}


def test_a_burst_of_jobs_is_counted_as_it_happened(metered: Metered) -> None:
    metered.cluster.run(60.0)
    metered.submit(24)
    metered.until_quiet()
    shown, tally = metered.shown(), metered.world.tally
    assert shown["elastiq_launches_total small"] == shown["elastiq_launches_asked_total small"] == tally.launches
    assert shown["elastiq_terminations_total small draining"] == tally.terminations
    assert shown["elastiq_boot_seconds_count small"] == shown["elastiq_lifetime_seconds_count small"] == tally.launches
    # It counts until the end is seen in a listing; the world until it is there.
    late_s = tally.launches * (metered.world.image.shutdown_s[1] + SETTINGS.check_vms_every_s + 10.0)
    assert tally.machine_s <= shown["elastiq_machine_seconds_total small"] <= tally.machine_s + late_s
    assert shown["elastiq_cost_total small"] == pytest.approx(shown["elastiq_machine_seconds_total small"] / 1e4)
    assert sum(value for key, value in shown.items() if key.startswith("elastiq_nodes small")) == 0


def test_waits_are_as_long_as_they_were(metered: Metered) -> None:
    metered.cluster.run(60.0)
    metered.submit(24)
    metered.until_quiet()
    shown, waits = metered.shown(), metered.world.tally.waits_s
    assert shown["elastiq_job_wait_seconds_count"] == len(waits) == 24
    between_reads_s = SETTINGS.check_queue_every_s + PUBLISH_S
    assert abs(shown["elastiq_job_wait_seconds_sum"] - sum(waits)) <= len(waits) * between_reads_s


def test_every_waiting_job_has_a_reason_at_any_time(metered: Metered) -> None:
    metered.cluster.run(60.0)
    metered.submit(40)
    seen: set[str] = set()
    for _ in range(60):
        metered.cluster.run(10.0)
        shown, jobs = metered.shown(), metered.cluster.daemon.observer.jobs.value  # type: ignore[union-attr]
        waiting = {key: value for key, value in shown.items() if key.startswith("elastiq_jobs_waiting ") and value}
        assert sum(waiting.values()) == sum(group.waiting for group in jobs.groups)  # type: ignore[union-attr]
        seen |= {key.split()[-1] for key in waiting}
    assert {"young", "coming", "limit"} <= seen


def test_counts_survive_kills_at_any_moment_and_never_step_back(metered: Metered) -> None:
    metered.submit(30)
    before: dict[str, float] = {}
    for number in range(15):
        metered.cluster.run(37.0 + number)
        now = counters(metered.shown())
        assert not [key for key, value in before.items() if now[key] < value - 1e-6]
        before = now
        metered.kill()
        metered.cluster.run(5.0)
        metered.start()
        again = counters(metered.shown())
        assert not [key for key, value in before.items() if again[key] < value - 1e-6]
    metered.until_quiet()
    shown, tally = metered.shown(), metered.world.tally
    assert shown["elastiq_launches_total small"] == tally.launches
    ends = sum(value for key, value in shown.items() if key.startswith("elastiq_terminations_total small"))
    assert ends == tally.terminations
    assert shown["elastiq_machine_seconds_total small"] >= tally.machine_s - 1.0


def test_boots_that_never_join_are_failures_of_their_kind(metered: Metered) -> None:
    metered.world.image.joins = False
    metered.cluster.run(60.0)
    metered.submit(4, 60.0)
    metered.cluster.run(2000.0)
    shown = metered.shown()
    assert shown["elastiq_failures_total small boot"] >= 3
    assert shown["elastiq_pool_failed_boots small"] == shown["elastiq_failures_total small boot"]
    assert shown["elastiq_pool_breaker_open small"] == 1
    assert "elastiq_boot_seconds_bucket small +Inf" not in shown or shown["elastiq_boot_seconds_count small"] == 0


def test_the_figures_fit_together_over_hours_with_faults(metered: Metered) -> None:
    """Each machine that was made is there or has ended, whatever failed meanwhile."""
    for hour in range(3):
        for name in ("launch", "terminate", "drain", "workers", "instances", "jobs"):
            metered.faults.once(name, error=SourceError("unreachable"))
        metered.submit(10 + hour, 400.0)
        metered.cluster.run(2000.0)
        shown = metered.shown()
        there = sum(value for key, value in shown.items() if key.startswith("elastiq_nodes small"))
        ended = sum(value for key, value in shown.items() if key.startswith("elastiq_terminations_total small"))
        assert shown["elastiq_launches_total small"] == ended + there - shown["elastiq_nodes small requested"]
        assert shown["elastiq_lifetime_seconds_count small"] <= ended
