"""The things of the simulated world: jobs, machines and the workers on them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Optional

from elastiq.interfaces import Instance, InstanceState, Resources, Worker
from elastiq.simulation.room import Room, asked


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
    matches: bool = True  # some worker could run it; if not, no answer says so
    not_eligible: str = ""  # why it can never run, as the batch system says
    run: int = 0
    first_started_at: Optional[float] = None
    tag: object = None  # for whoever submitted it

    def __post_init__(self) -> None:
        self.asked = asked(self.request)
        # The same for jobs that ask for the same.
        self.shape = self.asked.shape
        if self.not_eligible or not self.matches:
            self.shape += f"{'' if self.matches else '!'}{self.not_eligible}"


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
    site: str = ""  # empty: every site has it
    worker: Optional[SimWorker] = None
    problem: str = ""
    made_for: tuple[str, str, str] = ("", "", "")  # cluster, head and intent in truth, whatever its tags say
    visible_at: float = 0.0  # monotonic; the cloud's listings and other calls do not know it before
    addressed_at: float = 0.0  # monotonic; the cloud tells no address before
    boots: bool = True
    joins: bool = True
    boot_s: float = 0.0
    join_s: float = 0.0
    asks: bool = False  # its worker is up, and the batch system does not expect it
    publishes_id: bool = False
    other_addresses: tuple[str, ...] = ()  # which its worker's ad has, too
    odd_name: bool = False  # its worker's name has nothing to do with its address
    market: str = ""
    stoppable: bool = True  # its root disk outlives it
    down: bool = False  # it was stopped since it ran last, and costs nothing
    notice: str = ""  # that the cloud is about to take it
    hole: str = ""  # a black hole: "ends" jobs at once, or "loses" them
    billed_since: Optional[float] = None  # monotonic
    phase: str = ""  # what it does while it is billed: see `elastiq.simulation.accounts`
    phase_since: float = 0.0  # monotonic
    row: Optional[tuple[object, Instance]] = None  # what the cloud last said of it, and for which state

    @property
    def stopped(self) -> bool:
        """Down by somebody's request, or about to be: it takes no room of the cloud's."""
        return self.state in (InstanceState.STOPPING, InstanceState.STOPPED)

    @property
    def ended(self) -> bool:
        return self.state is InstanceState.TERMINATED

    @property
    def ending(self) -> bool:
        return self.state in (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)

    @property
    def ours(self) -> bool:
        """Made for some head node of ours, whatever its tags say, and not confirmed gone."""
        return bool(self.head or self.made_for[1]) and not self.ended


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
    other_addresses: tuple[str, ...] = ()
    row: Optional[tuple[object, Worker]] = None  # what the batch system last said of it, and for which state

    def __post_init__(self) -> None:
        self.room = Room(self.total)
        self._free: Optional[Resources] = None

    def run(self, job: Job) -> None:
        """A job starts on it."""
        self.jobs.append(job)
        self.job_starts += 1
        self.room.take(job.asked, (one.asked for one in self.jobs))
        self._free = None

    def release(self, job: Job) -> None:
        """A job runs there no more."""
        self.jobs.remove(job)
        self.room.give(job.asked, (one.asked for one in self.jobs))
        self._free = None

    def free(self) -> Resources:
        """What the running jobs leave of it: the same object as long as nothing changes."""
        if self._free is None:
            self._free = self.room.resources()
        return self._free

    @property
    def takes_jobs(self) -> bool:
        return self.alive and self.listed and self.drained_by is None


@dataclass(frozen=True)
class Act:
    """What somebody did to the cluster, at the moment at which it took effect.

    ``jobs`` are the numbers of the jobs that ran there at that moment: killed, when it is a "terminate" or a
    "stop".
    """

    at_s: float  # since the start
    what: str  # "launch", "terminate", "stop", "start", "adopt", "drain", "undrain" or "forget"
    targets: tuple[str, ...]  # ids of instances, or names of workers
    head: str  # who did it: a head node's id, "" for somebody else
    intent: str = ""
    token: str = ""
    offer: str = ""
    asked: int = 0
    jobs: tuple[int, ...] = ()
    detail: str = ""


@dataclass
class Tally:
    """What happened, for the summary and for the tests."""

    submitted: int = 0
    done: int = 0
    killed: int = 0  # by the termination of their machine: elastiq's fault
    lost: int = 0  # with a machine that died by itself
    launches: int = 0  # machines
    terminations: int = 0
    stops: int = 0
    starts: int = 0  # again, of machines that were stopped
    present: int = 0  # machines with our tags that are not confirmed gone
    peak: int = 0
    machines: dict[str, int] = field(default_factory=lambda: {"booting": 0, "idle": 0, "busy": 0})  # billed now
    spent_s: dict[str, float] = field(default_factory=lambda: {"booting": 0.0, "idle": 0.0, "busy": 0.0})
    waits_s: list[float] = field(default_factory=list)

    @property
    def machine_s(self) -> float:
        """Of all machines together: the time that is billed."""
        return sum(self.spent_s.values())

    @property
    def unused_s(self) -> float:
        """Of it: without a job, at boot or idle."""
        return self.spent_s["booting"] + self.spent_s["idle"]
