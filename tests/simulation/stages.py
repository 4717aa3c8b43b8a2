"""A stage without a daemon, on which one happening is looked at through the two contracts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Callable, Optional

from elastiq.interfaces import Instance, Instances, Intent, Jobs, Offer, Pool, Resources, Workers
from elastiq.settings import Settings
from elastiq.simulation import happenings
from elastiq.simulation.batch import SimulatedBatch
from elastiq.simulation.cloud import SimulatedCloud
from elastiq.simulation.executor import Latency
from elastiq.simulation.model import Job, Machine, SimWorker
from elastiq.simulation.scenario import Happening, Scenario
from elastiq.simulation.stage import Stage
from elastiq.simulation.world import Image

FLAVOURS = {"medium": Resources(cpus=4, memory_mb=8192), "large": Resources(cpus=16, memory_mb=65536)}
POOL = Pool("ec2", "aws", ("medium", "large"), ("a", "b"), capacity=FLAVOURS["medium"])
SETTINGS = Settings("sim", (POOL,), waiting_jobs_time_s=0.0, idle_for_time_s=300.0, max_vms=6)
FOR_EVER = 1e9


def scenario(*befall: Happening, **changed: Any) -> Scenario:
    made: dict[str, Any] = {
        "settings": SETTINGS,
        "image": Image(boot_s=(60.0, 60.0), join_s=(30.0, 30.0), shutdown_s=(20.0, 20.0)),
        "latency": Latency(0.1, 0.2),
        "calm_at_s": FOR_EVER,
        **changed,
    }
    return Scenario(1, flavours=FLAVOURS, happenings=befall, **made)


class Scene(Stage):
    """``delays`` is by how much the last calls' answers were put off."""

    def __init__(self, directory: Path, **changed: Any) -> None:
        super().__init__(scenario(**changed), str(directory))
        self.batch: SimulatedBatch = self._batch()
        self.cloud: SimulatedCloud = self._clouds()["aws"]
        self._intents = itertools.count(1)
        self._jobs = itertools.count(1)

    def befall(self, kind: str, **args: Any) -> None:
        happenings.apply(self, Happening(self.clock.elapsed_s, kind, args, f"test {kind}"))

    def intent(self, count: int = 1, flavour: str = "medium", network: str = "a") -> Intent:
        name = f"intent{next(self._intents)}"
        return Intent(name, self.owner.token_prefix + name, Offer("ec2", flavour, network), count, self.world.wall)

    def launch(self, count: int = 1, **offer: str) -> list[Machine]:
        """Through the contract, as the daemon does."""
        return [self.world.machines[one.id] for one in self.cloud.launch(self.intent(count, **offer))]

    def workers_up(self, count: int = 1) -> list[SimWorker]:
        """Machines that have joined."""
        machines = self.launch(count)
        self.run(120.0)
        return [machine.worker for machine in machines if machine.worker is not None]

    def submit(self, count: int = 1, cpus: float = 1.0, length_s: float = FOR_EVER) -> list[Job]:
        return [self.world.submit(Resources(cpus=cpus), length_s) for _ in range(count)]

    def answered(self, call: Callable[[], object]) -> float:
        """Make a call and drop what it says; by how many seconds its answer is put off."""
        self.world.take_answer_delay_s()
        call()
        return self.world.take_answer_delay_s()

    # ---- the contracts' answers, short

    def jobs(self) -> Jobs:
        return self.batch.jobs()

    def workers(self) -> Workers:
        return self.batch.workers()

    def names(self) -> set[str]:
        return {worker.name for worker in self.workers().workers}

    def instances(self, known: Optional[set[str]] = None) -> Instances:
        return self.cloud.instances(frozenset(known or ()))

    def owned(self) -> dict[str, Instance]:
        return {one.id: one for one in self.instances().owned}
