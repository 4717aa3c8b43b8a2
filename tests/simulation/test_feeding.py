"""Jobs of a trace that come when others have ended."""

from __future__ import annotations

import random

from elastiq.interfaces import Resources
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.world import World
from elastiq.traces.job import TraceJob
from elastiq.whatif.feeding import Feeder

ONE, LARGE = Resources(cpus=1), Resources(cpus=64)


def fed(*jobs: TraceJob) -> tuple[World, Feeder, VirtualQueue]:
    clock = VirtualClock()
    events = VirtualQueue(clock)
    world = World(events, clock, random.Random(1), {})
    feeder = Feeder(world, jobs, lambda request: request != LARGE)
    until(events, 1.0)
    return world, feeder, events


def until(events: VirtualQueue, seconds: float) -> None:
    events.after(seconds, events.stop)
    events.run()


def test_a_job_of_several_parts_has_ended_when_all_of_them_have() -> None:
    parts = [TraceJob(0.0, ONE, 60.0, "a") for _ in range(3)]
    world, feeder, events = fed(TraceJob(0.0, ONE, 60.0, "b", after=("a",)), *parts)
    for left in (3, 2, 1):
        assert (world.waiting(), feeder.is_over) == (left, True)
        world.remove(next(iter(world.jobs.values())))
        until(events, 1.0)
    assert world.waiting() == 1  # the child


def test_a_job_of_which_a_part_fits_nowhere_never_ends() -> None:
    parts = [TraceJob(0.0, request, 60.0, "a") for request in (ONE, LARGE, ONE)]
    world, feeder, events = fed(*parts, TraceJob(0.0, ONE, 60.0, "b", after=("a",)))
    assert (world.waiting(), feeder.unmatchable) == (2, 1)
    for job in list(world.jobs.values()):
        world.remove(job)
    until(events, 1.0)
    assert world.waiting() == 0


def test_jobs_that_wait_for_one_that_never_ends_are_counted_to_the_last_grandchild() -> None:
    family = [TraceJob(0.0, ONE, 60.0, name, after=(parent,)) for parent, name in ("ab", "bc", "xy", "yz")]
    world, feeder, events = fed(TraceJob(0.0, LARGE, 60.0, "a"), TraceJob(0.0, ONE, 60.0, "x"), *family)
    for held in (4, 3, 2):
        assert (feeder.held, feeder.unmatchable) == (held, 1)
        for job in list(world.jobs.values()):
            world.remove(job)
        until(events, 1.0)
    assert (feeder.held, world.waiting()) == (2, 0)
