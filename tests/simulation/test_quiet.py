"""Leaving out reads that can tell nothing changes nothing that the daemon does."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import pytest

from elastiq.idling import AUTO
from elastiq.interfaces import Pool, Resources, Terms
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.executor import Latency, VirtualExecutor
from elastiq.simulation.model import Act, Job

FLAVOURS = {"small": Resources(cpus=2, memory_mb=4000), "large": Resources(cpus=8, memory_mb=16000)}
HOURS = 16
PLAIN = Terms()


def course(
    seed: int, leave_out: bool, hours: float = HOURS, terms: Terms = PLAIN, **changed: Any
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], int]:
    """All that was done to a cluster within some hours, what its jobs went through, and how many calls it took."""
    rng = random.Random(seed)
    pools = tuple(
        Pool(name, "simulated", (name,), capacity=FLAVOURS[name], max_vms=most, terms=terms)
        for name, most in (("small", 6), ("large", 3))
    )
    settings = Settings("quiet", pools, **{"max_vms": 8, "idle_for_time_s": 900.0, "min_vms": 1, **changed})
    # Calls take no chance: those that are left out would draw from it.
    cluster = Cluster(settings, FLAVOURS, rng, latency=Latency(0.25, 0.25), leave_out=leave_out)
    world, jobs, done = cluster.world, list[Job](), list[Act]()
    world.on_act = done.append
    at_s = 0.0
    while at_s < hours * 3600.0:
        at_s += -math.log(1.0 - rng.random()) * (60.0 if rng.random() < 0.3 else 3000.0)
        cpus = (1.0, 2.0, 4.0, 16.0)[int(rng.random() * 3.2)]
        request = Resources(cpus=cpus, memory_mb=1500.0 * cpus)
        length_s = 30.0 - math.log(1.0 - rng.random()) * 4000.0
        cluster.events.after(at_s, partial(lambda *job: jobs.append(world.submit(*job)), request, length_s))
    cluster.start_daemon()
    cluster.run(hours * 3600.0)
    assert cluster.daemon is not None and not cluster.daemon.core.faults
    executor = cluster.daemon.core.executor
    assert isinstance(executor, VirtualExecutor)
    acts = [(act.at_s, act.what, act.targets, act.offer, act.asked, act.jobs) for act in done]
    cluster.kill_daemon()
    return acts, [(job.number, job.first_started_at, job.state, job.run) for job in jobs], executor.sent


@pytest.mark.parametrize("seed", (0, 1, 2, 24))
def test_the_same_is_launched_drained_and_ended_at_the_same_times(seed: int) -> None:
    acts, jobs, calls = course(seed, leave_out=False)
    assert {act[1] for act in acts} >= {"launch", "drain", "terminate"}
    fewer_acts, fewer_jobs, fewer_calls = course(seed, leave_out=True)
    assert fewer_acts == acts
    assert fewer_jobs == jobs
    assert fewer_calls < 0.5 * calls


def test_the_same_happens_where_jobs_wait_for_long_and_in_numbers() -> None:
    changed: dict[str, Any] = {"waiting_jobs_time_s": 400.0, "waiting_jobs_threshold": 3, "unused_room_s": 200.0}
    acts, jobs, _ = course(7, leave_out=False, **changed)
    assert any(act[1] == "launch" for act in acts)
    assert course(7, leave_out=True, **changed)[:2] == (acts, jobs)


@pytest.mark.parametrize(
    ("terms", "changed"),
    [
        (Terms(idle_action="stop"), {}),
        (Terms(max_vm_lifetime_s=5000.0), {}),
        (Terms(idle_for_time_s=300.0, min_idle_vms=1), {}),
        (PLAIN, {"cooldown_after_end_s": 2000.0, "cooldown_after_launch_s": 500.0}),
        (PLAIN, {"idle_for_time_s": AUTO, "min_vms": 0}),
    ],
    ids=["stop", "lifetime", "own idleness and spares", "cool-downs", "idle by itself"],
)
def test_the_same_happens_where_other_clocks_run(terms: Terms, changed: dict[str, Any]) -> None:
    acts, jobs, _ = course(3, leave_out=False, hours=5.0, terms=terms, **changed)
    assert {act[1] for act in acts} >= {"launch", "drain"}
    assert ("stop" in {act[1] for act in acts}) is (terms.idle_action == "stop")
    assert course(3, leave_out=True, hours=5.0, terms=terms, **changed)[:2] == (acts, jobs)
