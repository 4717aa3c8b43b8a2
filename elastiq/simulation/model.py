"""The things of the simulated world: jobs, machines and the workers on them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Optional

from elastiq.interfaces import InstanceState, Resources


class JobState(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    HELD = "held"
    DONE = "done"
    REMOVED = "removed"


@dataclass(eq=False)
class Job:
    """A job; ``run`` counts its starts, so that the end of an earlier run is not taken for this one's."""

    number: int
    request: Resources
    length_s: float
    submitted_at: float
    state: JobState = JobState.WAITING
    worker: Optional[SimWorker] = None
    run: int = 0
    first_started_at: Optional[float] = None

    @property
    def shape(self) -> str:
        """The same for jobs that ask for the same."""
        return shape_of(self.request)


def shape_of(request: Resources) -> str:
    parts = (request.cpus, request.memory_mb, request.disk_mb, request.gpus)
    return "/".join("-" if part is None else f"{part:g}" for part in parts)


@dataclass(eq=False)
class Machine:
    """An instance of the cloud, whoever owns it. Empty ``cluster`` and ``head``: it carries no tags."""

    id: str
    address: str
    flavour: str
    launched_at: float  # wall time
    state: InstanceState = InstanceState.PENDING
    network: str = ""
    pool: str = ""
    cluster: str = ""
    head: str = ""
    intent: str = ""
    token: str = ""
    worker: Optional[SimWorker] = None
    problem: str = ""
    billed_since: Optional[float] = None  # monotonic
    unused_since: Optional[float] = None  # monotonic; billed and without a job

    @property
    def ended(self) -> bool:
        return self.state is InstanceState.TERMINATED


@dataclass(eq=False)
class SimWorker:
    """A worker of the batch system. ``machine`` is None for one that is no instance of the cloud.

    ``listed`` is whether the collector knows it, ``alive`` whether it runs: a machine that was cut
    off is alive and not listed, a stale ad is listed and not alive.
    """

    name: str
    address: str
    total: Resources
    started_at: float  # wall time
    machine: Optional[Machine] = None
    instance_id: Optional[str] = None
    listed: bool = True
    alive: bool = True
    drained_by: Optional[str] = None
    job_starts: int = 0
    jobs: list[Job] = field(default_factory=list)

    def free(self) -> Resources:
        """What the running jobs leave of it."""

        def left(has: Optional[float], asked: list[Optional[float]]) -> Optional[float]:
            return None if has is None else has - sum(part or 0.0 for part in asked)

        requests = [job.request for job in self.jobs]
        return Resources(
            left(self.total.cpus, [request.cpus for request in requests]),
            left(self.total.memory_mb, [request.memory_mb for request in requests]),
            left(self.total.disk_mb, [request.disk_mb for request in requests]),
            left(self.total.gpus, [request.gpus for request in requests]),
        )

    @property
    def takes_jobs(self) -> bool:
        return self.alive and self.listed and self.drained_by is None


@dataclass
class Tally:
    """What happened, for the summary and for the tests."""

    submitted: int = 0
    done: int = 0
    killed: int = 0  # by the termination of their machine: elastiq's fault
    lost: int = 0  # with a machine that died by itself
    launches: int = 0  # machines
    terminations: int = 0
    present: int = 0  # machines with our tags that are not confirmed gone
    peak: int = 0
    machine_s: float = 0.0
    unused_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)
