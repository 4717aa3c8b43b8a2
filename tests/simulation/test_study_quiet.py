"""Polls that can tell the daemon nothing are left out of a simulation, and nothing else is different."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Iterator
from zoneinfo import ZoneInfo

import pytest

from elastiq.core import Core
from elastiq.idling import AUTO
from elastiq.interfaces import Pool, Resources, Terms
from elastiq.schedule import Schedule, Window
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.executor import VirtualExecutor
from elastiq.simulation.model import Act
from elastiq.traces.job import TraceJob
from elastiq.traces.opening import open_trace
from elastiq.whatif.study import play
from elastiq.whatif.synthetic import LublinFeitelson
from elastiq.whatif.terms import Assumed, Result

SIZES = {"small": Resources(cpus=4, memory_mb=16_000), "large": Resources(cpus=16, memory_mb=64_000)}
ASSUMED = Assumed(SIZES, boot_s=(90.0, 150.0), seed=5)
PLAIN = Terms()


def settings(terms: Terms = PLAIN, prices: bool = True, **changed: Any) -> Settings:
    price = {"small": 0.2, "large": 0.8} if prices else {}
    pool = Pool("ec2", "site", ("small", "large"), terms=terms, prices=price)
    return Settings("quiet", (pool,), **{"max_vms": 12, "idle_for_time_s": 900.0, **changed})


def workload(jobs: int, seed: int = 3) -> Iterator[TraceJob]:
    for job in LublinFeitelson(seed, jobs, largest=64, stretch=0.3, part_cpus=16.0):
        yield job._replace(run_s=min(job.run_s, 4000.0))  # or there are days of nothing else


def graph(levels: int) -> Iterator[TraceJob]:
    """A job, then as many as there are levels, each after it, and so on."""
    for level in range(levels):
        after = tuple(f"{level - 1}.{number}" for number in range(level)) if level else ()
        for number in range(level + 1):
            run_s = 20.0 + 37.0 * ((level + number) % 5)
            yield TraceJob(0.0, Resources(cpus=1 + number % 4), run_s, f"{level}.{number}", after=after, think_s=3.0)


def course(
    changed: Settings, jobs: Iterator[TraceJob], leave_out: bool, assumed: Assumed = ASSUMED
) -> tuple[list[Any], Result, int]:
    """All that was done, and when; what came of it; and how many calls that took."""
    acts: list[Act] = []
    calls: list[VirtualExecutor] = []

    def start(cluster: Cluster) -> None:
        executor = cluster.start_daemon().core.executor
        assert isinstance(executor, VirtualExecutor)
        calls.append(executor)

    found = play(changed, jobs, assumed, leave_out=leave_out, acts=acts.append, controller=start)
    return [(act.at_s, act.what, act.targets, act.offer, act.asked) for act in acts], found, calls[0].sent


def compare(
    changed: Settings, jobs: Callable[[], Iterator[TraceJob]], fewer: float, assumed: Assumed = ASSUMED
) -> set[str]:
    acts, found, calls = course(changed, jobs(), False, assumed)
    less = course(changed, jobs(), True, assumed)
    assert less[0] == acts
    assert less[1] == found
    assert less[2] < fewer * calls
    return {act[1] for act in acts}


CLOSED = Schedule(
    "at night", (Window(frozenset(range(7)), 60, 9 * 60),), "UTC", ZoneInfo("UTC"), (("max_vms", 2), ("min_vms", 1))
)
KINDS = {
    "plain": (settings(), 0.5),
    "auto": (settings(idle_for_time_s=AUTO), 0.6),
    "spares and a minimum": (settings(Terms(min_idle_vms=1, idle_for_time_s=400.0), min_vms=2), 0.5),
    "schedules": (settings(schedules=(CLOSED,)), 0.5),
    "cool-downs": (settings(cooldown_after_end_s=2000.0, cooldown_after_launch_s=700.0), 0.5),
    "lifetime": (settings(Terms(max_vm_lifetime_s=5000.0)), 0.5),
    "emptied": (settings(consolidate=True), 0.5),
    "launches an hour": (settings(prices=False, max_launches_per_hour=4), 0.8),
    "cost an hour": (settings(max_cost_per_hour=2.5), 0.8),
    "cost a day": (settings(max_cost_per_day=20.0), 1.01),
    "stop": (settings(Terms(idle_action="stop")), 0.9),
    "in turns": (settings(job_length_s=40.0, estimated_vm_deploy_time_s=450.0), 0.5),
    "a quota that is used up": (settings(max_vms=3), 1.01),
    "used up, and a threshold": (settings(max_vms=4, waiting_jobs_threshold=5, waiting_jobs_time_s=300.0), 1.01),
    "long waits": (settings(waiting_jobs_time_s=400.0, waiting_jobs_threshold=3, unused_room_s=200.0), 0.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_is_launched_and_ended_at_the_same_times(kind: str) -> None:
    changed, fewer = KINDS[kind]
    done = compare(changed, lambda: workload(16), fewer)
    assert {"launch", "drain"} < done


@pytest.mark.parametrize(("placement", "own_size"), [("oldest", False), ("emptiest", False), ("fullest", True)])
def test_the_same_is_done_however_jobs_are_placed(placement: str, own_size: bool) -> None:
    assumed = replace(ASSUMED, placement=placement, own_size=own_size)
    done = compare(KINDS["auto"][0], lambda: workload(24), KINDS["auto"][1], assumed)
    assert {"launch", "drain", "terminate"} <= done


def test_the_same_is_done_for_a_graph_of_jobs() -> None:
    assert "terminate" in compare(settings(idle_for_time_s=AUTO), lambda: graph(12), 0.9)


def slices() -> Iterator[Any]:
    """The first jobs of each trace that this machine has."""
    where = os.environ.get("ELASTIQ_TRACES", "")
    if not where:
        yield pytest.param(None, marks=pytest.mark.skip(reason="ELASTIQ_TRACES names no directory of traces"))
        return
    for path in sorted(Path(where).iterdir()):
        if path.suffix in (".swf", ".csv", ".gz"):
            yield pytest.param(path, id=path.name)


@pytest.mark.parametrize("path", list(slices()))
@pytest.mark.parametrize("kind", ["plain", "auto", "a quota that is used up"])
def test_the_same_is_done_for_a_slice_of_each_trace(path: Path, kind: str) -> None:
    def jobs() -> Iterator[TraceJob]:
        for job in islice(open_trace(path), 80):
            yield job._replace(request=replace(job.request, cpus=min(16.0, job.request.cpus or 1.0)))

    assert "launch" in compare(KINDS[kind][0], jobs, 0.99)


def test_time_in_which_nothing_is_there_is_passed_over() -> None:
    """Between two jobs there are weeks without any machine."""
    weeks_s = 6 * 7 * 86_400.0
    jobs = [TraceJob(at_s, Resources(cpus=1), 600.0) for at_s in (0.0, weeks_s)]
    cores: list[Core] = []

    def start(cluster: Cluster) -> None:
        cores.append(cluster.start_daemon().core)

    found = play(settings(idle_for_time_s=60.0), jobs, ASSUMED, controller=start)
    assert (found.jobs_done, found.launches) == (2, 2)
    assert cores[0].counters["reads"] < 10_000, "of the 300,000 of six weeks"
