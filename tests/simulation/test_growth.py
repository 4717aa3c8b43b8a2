"""Nothing in the daemon grows with the number of machines that there once were."""

from __future__ import annotations

import functools
import random
from collections import Counter

from elastiq.idling import BOOTS, PAUSES
from elastiq.interfaces import Pool, Resources, SourceError, ThrottledError, TransientError
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.faults import PlannedFaults
from elastiq.simulation.world import World
from tests.simulation.object_graph import sizes

FLAVOURS = {"small": Resources(cpus=2, memory_mb=4000)}
SHAPES = (1.0, 2.0)
USES = (".core.registry.uses.", ".core._facts_stored[][][]")  # what is kept of the past for `auto` has a bound


class Generations:
    """A cluster whose machines all come and go, again and again, with the same mishaps each time."""

    def __init__(self, machines: int = 8) -> None:
        self.faults = PlannedFaults()
        pool = Pool("small", "simulated", ("small",), capacity=FLAVOURS["small"])
        settings = Settings(
            "growth", (pool,), max_vms=machines, idle_for_time_s=120.0, check_queue_every_s=5.0, check_vms_every_s=10.0,
            estimated_vm_deploy_time_s=150.0, lost_after_s=60.0, intent_settle_s=60.0, drain_timeout_s=60.0,
        )  # fmt: skip
        self.machines = machines
        self.cluster = Cluster(settings, FLAVOURS, random.Random(3), faults=self.faults)
        self.cluster.world.ended_listed_s = 100.0
        self.cluster.world.lease_s = 60.0
        self.cluster.start_daemon()
        self.number = 0

    def another(self) -> None:
        """One more generation: jobs come, machines come, and all are gone in the end."""
        world, cluster = self.cluster.world, self.cluster
        self.number += 1
        self.faults.once("launch", error=ThrottledError("slow down"))
        self.faults.once("launch", after=lambda answer: _raise(TransientError(f"reset {self.number}")))
        for name in ("drain", "undrain", "terminate", "find", "problems", "jobs_recorded_on", "workers", "instances"):
            self.faults.once(name, error=SourceError(f"{name} failed"))
        for number in range(2 * self.machines):
            world.submit(Resources(cpus=SHAPES[number % 2], memory_mb=1000.0 + self.number), 400.0)
        cluster.run(150.0)
        world.image.joins = False
        cluster.run(150.0)
        world.image.joins = True
        for machine in list(world.machines.values())[:2]:
            if machine.worker is not None:
                world.crash(machine.worker)
            machine.problem = "impaired"
        assert cluster.run_until(lambda: not world.jobs and not world.tally.present, 6 * 3600.0, 30.0)
        cluster.run(1500.0)  # the longest back-off, and what lingers in listings
        self.faults._planned.clear()

    def sizes(self) -> dict[str, int]:
        assert self.cluster.daemon is not None and not self.cluster.daemon.core.faults
        assert len(self.cluster.daemon.core.registry) == 0
        return sizes(self.cluster.daemon, outside=(World, Cluster))


def _raise(error: Exception) -> None:
    raise error


def test_nothing_in_the_daemon_grows_with_the_machines_of_the_past() -> None:
    generations = Generations()
    before, after = most(generations, 4), most(generations, 4)
    assert generations.cluster.world.tally.launches > 60
    grown = {way: (before.get(way, 0), count) for way, count in after.items() if count > before.get(way, 0)}
    kept = [way for way in grown if way.startswith(USES) and after[way] <= BOOTS + PAUSES]  # of the one pool
    for way in kept:
        del grown[way]
    assert grown == {}


def most(generations: Generations, count: int) -> dict[str, int]:
    """The largest sizes after each of so many generations."""
    largest: Counter[str] = Counter()
    for _ in range(count):
        generations.another()
        largest |= Counter(generations.sizes())
    return largest


def test_the_walk_finds_what_grows_wherever_it_is() -> None:
    generations = Generations()
    generations.another()
    before = generations.sizes()
    daemon = generations.cluster.daemon
    assert daemon is not None
    daemon.core.notices["one more"] = "something"
    daemon.observer.history._counts["group"] = [(1.0, 1)]
    daemon.core.events.after(1e9, functools.partial(print, [1, 2, 3]))
    grown = {way for way, count in generations.sizes().items() if count > before.get(way, 0)}
    assert {".core.notices", ".observer.history._counts", ".observer.history._counts[]"} <= grown
    assert any(".partial" in way for way in grown)
