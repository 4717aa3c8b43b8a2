"""Jobs to come, drawn from a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Iterable, Optional

from elastiq.interfaces import Resources
from elastiq.simulation.model import Job, JobState
from elastiq.simulation.world import World

MB_PER_CPU = 1500.0


@dataclass(frozen=True)
class Arrival:
    """A job and the second, since the start, at which it is submitted."""

    at_s: float
    request: Resources
    length_s: float
    removed_after_s: Optional[float] = None  # by its user, if it still waits then


def feed(world: World, arrivals: Iterable[Arrival]) -> None:
    """Submit them, each at its time from now on. They are taken one after another, so that a stream of any
    length can be fed; those of a stream that is out of order come late."""
    start, stream = world.now, iter(arrivals)

    def submit(arrival: Arrival) -> None:
        job = world.submit(arrival.request, arrival.length_s)
        if arrival.removed_after_s is not None:
            world.events.after(arrival.removed_after_s, lambda: remove(job))
        plan_next()

    def remove(job: Job) -> None:
        if job.state is JobState.WAITING:
            world.remove(job)

    def plan_next() -> None:
        arrival = next(stream, None)
        if arrival is not None:
            world.events.at(max(world.now, start + arrival.at_s), lambda: submit(arrival))

    plan_next()


def demo_workload(rng: random.Random) -> list[Arrival]:
    """A burst, then single jobs, a pause long enough for machines to go, and a second burst."""
    times = [20.0 + 30.0 * rng.random() for _ in range(28)]
    times += _poisson(rng, start_s=60.0, end_s=1200.0, every_s=40.0)
    times += [2100.0 + 40.0 * rng.random() for _ in range(22)]
    return sorted((_job(rng, at_s) for at_s in times), key=lambda arrival: arrival.at_s)


def _job(rng: random.Random, at_s: float) -> Arrival:
    cpus = _pick(rng, ((1.0, 0.6), (2.0, 0.25), (4.0, 0.15)))
    length_s = min(900.0, 60.0 + _exponential(rng, mean=180.0))
    return Arrival(round(at_s, 3), Resources(cpus=cpus, memory_mb=cpus * MB_PER_CPU), round(length_s, 3))


def _poisson(rng: random.Random, start_s: float, end_s: float, every_s: float) -> list[float]:
    times: list[float] = []
    at_s = start_s + _exponential(rng, every_s)
    while at_s < end_s:
        times.append(at_s)
        at_s += _exponential(rng, every_s)
    return times


# From `random` alone: what the other methods make of it has changed between versions of Python.
def _exponential(rng: random.Random, mean: float) -> float:
    return -mean * math.log(1.0 - rng.random())


def _pick(rng: random.Random, weighted: tuple[tuple[float, float], ...]) -> float:
    rest = rng.random()
    for value, weight in weighted:
        rest -= weight
        if rest < 0:
            return value
    return weighted[-1][0]
