"""Jobs to come, fed into a world."""

from __future__ import annotations

import random
from typing import Any

from elastiq.interfaces import Resources
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.model import JobState
from elastiq.simulation.workload import Arrival, feed
from elastiq.simulation.world import World


def test_arrivals_are_fed_into_a_world_at_their_time() -> None:
    clock = VirtualClock()
    events = VirtualQueue(clock)
    world = World(events, clock, random.Random(1), {})

    def stream() -> Any:
        yield Arrival(10.0, Resources(cpus=1), 5.0)
        yield Arrival(20.0, Resources(cpus=1), 5.0, removed_after_s=7.5)
        yield Arrival(15.0, Resources(cpus=2), 5.0)  # out of order
        taken.append("all")

    taken: list[str] = []
    feed(world, stream())
    seen = []
    for _ in range(4):
        events.after(9.0, events.stop)
        events.run()
        seen.append(world.waiting())
    assert seen == [0, 1, 3, 2]
    assert taken == ["all"]
    assert sorted(job.request.cpus or 0 for job in world.jobs.values() if job.state is JobState.WAITING) == [1, 2]
