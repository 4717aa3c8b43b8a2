"""The simulated batch system and cloud keep the contracts."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Callable, Mapping, Optional

import pytest

from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.conformance.cloud import CloudBench, CloudConformance
from elastiq.interfaces import (
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    Instance,
    InstanceState,
    LaunchError,
    Offer,
    Owner,
    Resources,
    SourceError,
    TransientError,
)
from elastiq.simulation.batch import SimulatedBatch
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.cloud import SimulatedCloud
from elastiq.simulation.faults import Faults, PlannedFaults
from elastiq.simulation.model import Machine
from elastiq.simulation.world import World

FOR_EVER = float("inf")
OWNER = Owner("test", "0123456789abcdef0123", addresses=frozenset({"10.9.9.9"}), instance_id="i-head")


def make_world(faults: Faults) -> World:
    clock = VirtualClock()
    events = VirtualQueue(clock)
    flavours = {"small": Resources(cpus=4, memory_mb=8192), "large": Resources(cpus=16, memory_mb=65536)}
    return World(events, clock, random.Random(1), flavours, faults=faults)


class SimulatedBatchBench(BatchBench):
    def __init__(self, registers: bool = False) -> None:
        self.faults = PlannedFaults()
        self.world = make_world(self.faults)
        self.world.registers = registers
        self.restart()

    def restart(self) -> None:
        self.batch = SimulatedBatch(self.world, OWNER)

    def submit(
        self,
        count: int = 1,
        cpus: float = 1,
        memory_mb: Optional[float] = None,
        nodes: int = 1,
        user: str = "",
        name: str = "",
    ) -> None:
        for _ in range(count):
            self.world.submit(Resources(cpus, memory_mb), FOR_EVER)

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        for _ in range(count):
            self.world.submit(Resources(cpus), FOR_EVER, held=True)

    def blocked_forms(self) -> Mapping[str, Callable[[int], None]]:
        def never(count: int) -> None:
            for _ in range(count):
                self.world.submit(Resources(cpus=1), FOR_EVER, not_eligible="its Requirements are false")

        return {"not eligible": never}

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        return self.world.add_worker(name.lower(), address, Resources(cpus, memory_mb)).name

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self.world.start(self.world.submit(Resources(cpus), FOR_EVER), self.world.workers[worker])

    def end_job(self, worker: str) -> None:
        self.world.remove(self.world.workers[worker].jobs[0])

    def lose_worker(self, worker: str) -> None:
        self.world.crash(self.world.workers[worker])

    def end_worker(self, worker: str) -> None:
        self.world.ads_stay_s = FOR_EVER
        self.lose_worker(worker)

    def holds(self, worker: str) -> bool:
        return worker in self.world.workers

    def knows(self, instance: Instance) -> bool:
        return instance.id in self.world.registered.values()

    def join(self, instance: Instance) -> str:
        """A machine of the simulated cloud with this id and address."""
        (address,) = instance.addresses
        if instance.id not in self.world.machines:
            self.world.launch(lambda _id, _address: Machine(instance.id, address, "small", self.world.wall))
        self.world.events.after(self.world.image.boot_s[1] + self.world.image.join_s[1], self.world.events.stop)
        self.world.events.run()
        return next(worker.name for worker in self.world.workers.values() if worker.address == address)

    def drain_by_hand(self, worker: str) -> None:
        self.world.drain(self.world.workers[worker], "a new kernel")

    def fail_next(self, call: str) -> None:
        self.faults.once(call, error=SourceError("the simulated batch system cannot be reached"))

    def garble_next(self, call: str) -> None:
        def nonsense(_answer: object) -> object:
            raise SourceError("the simulated batch system answered with nonsense")

        self.faults.once(call, after=nonsense)

    def refuse_next_drain(self) -> None:
        self.faults.once("drain", instead=lambda: DrainAnswer(DrainOutcome.REFUSED, "not allowed"))

    def start_job_in_next_drain(self, worker: str) -> None:
        def late() -> DrainAnswer:
            self.start_job(worker)
            return self.batch.drain(worker, DrainMode.IF_IDLE)

        self.faults.once("drain", instead=late)

    def lose_part(self) -> str:
        self.faults.once("jobs", after=lambda jobs: replace(jobs, missing=("schedd2",)))
        return "schedd2"


NOT_SIMULATED = {
    "users": "nobody owns a simulated job",
    "names": "a simulated job has a number only",
    "depend": "no simulated job waits for another",
    "arrays": "each task is submitted as a job of its own",
    "array-limit": "see arrays",
    "nodes": "a simulated job runs on one worker",
    "held-running": "only a job that waits is held",
    "queues": "there is one queue",
    "strange": "a simulated worker is idle, busy or drained",
    "find-job": "nobody asks for a simulated job",
    "match": "the sizes of jobs and machines are all that counts",
    "blank": "its answers are objects, not texts",
    "cut": "its answers are objects, not texts",
    "hang": "an answer that never comes is a matter of the simulated executor, which gives it up",
}


class TestSimulatedBatch(BatchConformance):
    cannot = {**NOT_SIMULATED, "register": "a worker makes itself known"}

    @pytest.fixture
    def bench(self) -> BatchBench:
        return SimulatedBatchBench()


class TestRegisteringSimulatedBatch(BatchConformance):
    cannot = NOT_SIMULATED

    @pytest.fixture
    def bench(self) -> BatchBench:
        return SimulatedBatchBench(registers=True)


def test_a_simulated_worker_that_is_not_registered_waits_at_the_door() -> None:
    bench = SimulatedBatchBench(registers=True)
    ours = Instance("i-1", InstanceState.RUNNING, frozenset({"10.0.0.7"}))
    with pytest.raises(StopIteration):
        bench.join(ours)
    assert bench.names() == []
    bench.batch.register(ours)
    assert bench.names() == [bench.join(ours)]


class SimulatedCloudBench(CloudBench):
    def __init__(self) -> None:
        self.faults = PlannedFaults()
        self.world = make_world(self.faults)
        self.world.catalogue = True
        self.owner = OWNER
        self.offers = (Offer("ec2", "small"), Offer("ec2", "large", market="spot"))
        self.cloud = SimulatedCloud(self.world, OWNER)

    def _add(self, machine_id: Optional[str] = None, cluster: str = "", head: str = "") -> str:
        return self.world.launch(
            lambda new_id, address: Machine(
                machine_id or new_id, address, "small", self.world.wall, cluster=cluster, head=head
            )
        ).id

    def add_foreign(self) -> str:
        return self._add()

    def add_other_head(self) -> str:
        return self._add(cluster=OWNER.cluster, head="another")

    def add_head_node(self) -> str:
        return self._add(OWNER.instance_id, OWNER.cluster, OWNER.head)

    def run(self, instance_id: str) -> None:
        self.world.events.after(self.world.image.boot_s[1], self.world.events.stop)
        self.world.events.run()

    def vanish(self, instance_id: str) -> None:
        del self.world.machines[instance_id]

    def refuse_next_launch(self, error: type[LaunchError]) -> None:
        self.faults.once("launch", error=error("refused"))

    def lose_next_launch_answer(self) -> None:
        self.garble_next("launch")

    def fail_next(self, call: str) -> None:
        self.faults.once(call, error=SourceError("the simulated cloud cannot be reached"))

    def garble_next(self, call: str) -> None:
        def nonsense(_answer: object) -> object:
            raise TransientError("the simulated cloud answered with nonsense")

        self.faults.once(call, after=nonsense)

    def limit_next_launch(self, count: int) -> None:
        self.world.limits["small"] = count

    def rest(self, instance_id: str) -> None:
        self.world.events.after(self.world.image.shutdown_s[1], self.world.events.stop)
        self.world.events.run()

    def refuse_next_start(self, error: type[LaunchError]) -> None:
        self.faults.once("start", error=error("refused"))

    def take_back(self, instance_id: str) -> None:
        self.world.announce(self.world.machines[instance_id], "it is needed elsewhere")

    def is_spot(self, instance_id: str) -> bool:
        return self.world.machines[instance_id].market == "spot"


class TestSimulatedCloud(CloudConformance):
    cannot = {"image": "the simulated cloud has no images"}

    @pytest.fixture
    def bench(self) -> CloudBench:
        return SimulatedCloudBench()


def test_the_simulated_systems_are_made_as_plugins_are() -> None:
    world = make_world(Faults())
    world.submit(Resources(cpus=1), 60.0)
    batch = SimulatedBatch.from_config({"world": world}, OWNER)
    assert [group.waiting for group in batch.jobs().groups] == [1]
