"""The two contracts, BatchSystem and Cloud, with their data classes and errors.

Every answer is a value or one of the exceptions below: never None, and never an empty list for
"I don't know". An implementation has no clock and no thread of its own: the executor calls it off
the decision thread, stamps when a read began, and abandons a call that is past its deadline.
Sizes are MB, times are seconds; a wall time is seconds since the epoch.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Mapping, Optional, Sequence

from elastiq.errors import *  # noqa: F403 - how each may fail is part of the contracts
from elastiq.errors import UnsupportedError
from elastiq.options import Option
from elastiq.resources import Resources as Resources
from elastiq.resources import request_fits as request_fits

# --------------------------------------------------------------------------- both sides


@dataclass(frozen=True)
class Check:
    """One thing that was verified before the first launch."""

    name: str
    level: str  # "ok", "warning" or "error"
    message: str


# --------------------------------------------------------------------------- batch system


@dataclass(frozen=True)
class JobGroup:
    """Jobs of one shape: counts, not a list.

    ``key`` is the same in every read for the same shape. ``running`` is how many jobs of this
    shape run now, None where the system cannot say. ``not_eligible`` says why no worker could
    ever run them as they are (held jobs and the like are best left out); empty when some could.
    """

    key: str
    request: Resources
    waiting: int
    running: Optional[int] = None
    requirements: str = ""
    sample_job: str = ""
    not_eligible: str = ""


@dataclass(frozen=True)
class Jobs:
    """One read of the queue. ``missing`` names the parts (schedds) that did not answer: the groups
    are then a lower bound, good for launching, worthless for ending anything."""

    groups: tuple[JobGroup, ...]
    missing: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.missing


class WorkerState(enum.Enum):
    """What all slots of a worker together say."""

    IDLE = "idle"  # runs nothing, would take a job
    BUSY = "busy"  # at least one slot is claimed or busy
    DRAINING = "draining"  # takes no new job, still runs some
    DRAINED = "drained"  # takes no new job, runs none
    OTHER = "other"  # anything else, unknown words included: neither idle nor to be ended


@dataclass(frozen=True)
class Worker:
    """A machine as the batch system sees it, all its slots together.

    ``name`` is lower-case and unique; ``addresses`` are all its IP addresses as text;
    ``jobs`` counts the claims; ``job_starts`` only grows while the worker lives (None: not said);
    ``drained_by`` is what the one who began the drain left as the reason.
    """

    name: str
    state: WorkerState
    addresses: frozenset[str] = frozenset()
    instance_id: Optional[str] = None
    total: Resources = Resources()
    free: Resources = Resources()
    jobs: int = 0
    job_starts: Optional[int] = None
    drained_by: Optional[str] = None
    started_at: Optional[float] = None  # wall time of its daemon's start: before the launch = a stale ad
    detail: str = ""

    @property
    def runs_something(self) -> bool:
        return self.jobs > 0 or self.state is WorkerState.BUSY

    @property
    def is_drained(self) -> bool:
        """By whomever: it takes no new job."""
        return self.state in (WorkerState.DRAINING, WorkerState.DRAINED)

    def drained_by_mark(self, mark: str) -> Optional[bool]:
        """Whether the reason of its drain has the mark; None if it is not drained, or nobody gave a reason."""
        return mark in self.drained_by if self.is_drained and self.drained_by is not None else None

    @property
    def takes_jobs(self) -> bool:
        return self.state in (WorkerState.IDLE, WorkerState.BUSY)


@dataclass(frozen=True)
class Workers:
    """One read of the workers.

    ``source_up_s`` is for how long the source (the collector) has been up, None where it is not
    known: one that was just restarted knows nobody yet. ``missing`` as in `Jobs`.
    """

    workers: tuple[Worker, ...]
    source_up_s: Optional[float] = None
    missing: tuple[str, ...] = ()


class DrainMode(enum.Enum):
    IF_IDLE = "if_idle"  # atomically: only if no job runs there
    PEACEFUL = "peaceful"  # take no new job, let the running ones end by themselves


class DrainOutcome(enum.Enum):
    DRAINED = "drained"  # in effect: no new job starts there
    BUSY = "busy"  # a job runs there (IF_IDLE only); nothing was changed
    REFUSED = "refused"  # not allowed or not possible; nothing was changed


@dataclass(frozen=True)
class DrainAnswer:
    outcome: DrainOutcome
    detail: str = ""


class BatchSystem(ABC):
    """A batch queue and its workers. Methods may block up to ``call_deadline_s`` and raise `SourceError`."""

    section: ClassVar[str]
    OPTIONS: ClassVar[tuple[Option, ...]] = ()

    can_drain: bool = True
    call_deadline_s: float = 60.0

    @classmethod
    @abstractmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> BatchSystem:
        """Make one from the typed values of its configuration section; reads nothing outside yet."""

    @abstractmethod
    def jobs(self) -> Jobs:
        """The groups of waiting jobs of all users."""

    @abstractmethod
    def workers(self) -> Workers:
        """All workers that the system knows."""

    @abstractmethod
    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        """Keep new jobs off a worker. An exception means that it is unknown whether it was done."""

    @abstractmethod
    def undrain(self, worker: str) -> None:
        """Let a worker take jobs again; no error if it was not drained."""

    @abstractmethod
    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        """How many jobs the queue records as running on each of these workers, seen alive or not."""

    def prepare(self, intent: Intent) -> None:  # noqa: B027
        """Before a launch (Slurm, Grid Engine)."""

    def register(self, instance: Instance) -> None:  # noqa: B027
        """When the address of a new instance is known (Grid Engine)."""

    def forget(self, worker: str) -> None:  # noqa: B027
        """After the end of its instance: remove what the system still holds of the worker."""

    def fits(self, group: JobGroup, machine: Resources) -> tuple[bool, str]:
        """Whether one job of the group could run on an empty machine, and if not, why. Pure."""
        return request_fits(group.request, machine)

    def checks(self) -> tuple[Check, ...]:
        """Look for what would go wrong later; only reads."""
        return ()


# --------------------------------------------------------------------------- cloud


@dataclass(frozen=True)
class Owner:
    """Who we are: `cluster` is the configured name, `head` the keyed hash that names this head node.

    ``addresses`` and ``instance_id`` are the head node's own, so that it never touches itself.
    """

    cluster: str
    head: str
    addresses: frozenset[str] = frozenset()
    instance_id: Optional[str] = None

    @property
    def mark(self) -> str:
        """The part of it by which what is ours is known."""
        return self.head[:16]

    @property
    def token_prefix(self) -> str:
        """Every ClientToken of ours begins with this (EC2 allows 64 ASCII characters)."""
        return f"elastiq-{self.mark}-"


@dataclass(frozen=True)
class Pool:
    """One kind of machine at one site. ``options`` are the cloud plugin's own typed values."""

    name: str
    site: str
    flavours: tuple[str, ...]
    networks: tuple[str, ...] = ("",)
    capacity: Resources = Resources()
    min_vms: int = 0
    max_vms: Optional[int] = None  # None: only the cluster's limit
    options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    fingerprint: str = ""  # changes with anything that could change which jobs its machines run
    kind: str = ""  # of the cloud: which plugin serves its site
    prices: Mapping[str, float] = field(default_factory=dict, compare=False)  # per machine and hour; "*": all others

    def price(self, flavour: str) -> Optional[float]:
        """What a machine of the flavour costs an hour, in the administrator's currency; None if it is not known."""
        return self.prices.get(flavour, self.prices.get("*"))

    def offers(self) -> tuple[Offer, ...]:
        """Every launchable choice, in the order of preference."""
        return tuple(Offer(self.name, flavour, network) for flavour in self.flavours for network in self.networks)


@dataclass(frozen=True, order=True)
class Offer:
    """One launchable choice of a pool. An empty flavour or network leaves it to the cloud."""

    pool: str
    flavour: str
    network: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.pool, self.flavour, self.network) if part)


@dataclass(frozen=True)
class Intent:
    """A launch that is about to be asked for; journalled before the call is made."""

    id: str
    token: str
    offer: Offer
    count: int
    created_at: float  # wall time


class InstanceState(enum.Enum):
    """EC2's names; ERROR is OpenStack's; UNKNOWN is any other word: neither usable nor gone."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Instance:
    """A machine as the cloud sees it. ``intent`` and ``pool`` come from its tags, where there are any."""

    id: str
    state: InstanceState
    addresses: frozenset[str] = frozenset()
    launched_at: Optional[float] = None
    flavour: str = ""
    pool: str = ""
    intent: str = ""
    token: str = ""
    state_detail: str = ""  # the cloud's own word and reason
    head: str = ""  # the head node in its tags


@dataclass(frozen=True)
class Instances:
    """One complete read of a site.

    ``owned`` are ours. ``other_heads`` carry our cluster's name but another head node's id: counted,
    named, never touched. ``foreign`` counts the rest that are not ended; ``foreign_addresses`` lets a
    worker on one of them be told from a worker that matches nothing.
    """

    owned: tuple[Instance, ...]
    other_heads: tuple[Instance, ...] = ()
    foreign: int = 0
    foreign_addresses: frozenset[str] = frozenset()


class EndOutcome(enum.Enum):
    ENDING = "ending"  # the cloud took the request
    NOT_FOUND = "not-found"  # the cloud does not know the id (any more, or yet)
    FAILED = "failed"  # ask again later


@dataclass(frozen=True)
class EndAnswer:
    outcome: EndOutcome
    detail: str = ""


@dataclass(frozen=True)
class CloudCapabilities:
    """What this cloud can do. Without ``find``, an intent of unknown outcome is sought in listings."""

    tags: bool = True
    find: bool = True
    instance_problems: bool = True


class Cloud(ABC):
    """One site: an endpoint with credentials. Methods may block up to ``call_deadline_s`` and raise
    `SourceError` (reads, terminate) or `LaunchError` (launch)."""

    kind: ClassVar[str]  # the configuration's section prefix: [kind] and [kind:NAME]
    OPTIONS: ClassVar[tuple[Option, ...]] = ()

    capabilities: CloudCapabilities = CloudCapabilities()
    call_deadline_s: float = 120.0

    @classmethod
    def site_of(cls, values: Mapping[str, Any]) -> str:
        """The site that a pool section describes, named ``endpoint`` or ``endpoint#account``."""
        return cls.kind

    @classmethod
    def about(cls, values: Mapping[str, Any]) -> str:
        """How a site that a pool section describes will be spoken to: one line for a person, or nothing."""
        return ""

    @classmethod
    def networks_of(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The networks of a pool section, in the order of preference; ``("",)`` leaves it to the cloud."""
        return ("",)

    @classmethod
    @abstractmethod
    def from_config(cls, pools: Sequence[Pool], owner: Owner) -> Cloud:
        """Make the site that these pools share; makes no call yet."""

    @abstractmethod
    def instances(self, known: frozenset[str]) -> Instances:
        """All instances. Ours are those with our tags or token, or whose id is in ``known`` (from the
        store; for clouds that keep neither tags nor tokens). The head node itself is never among them."""

    @abstractmethod
    def launch(self, intent: Intent) -> tuple[Instance, ...]:
        """Launch up to ``intent.count``; fewer is a success. Never repeats the call by itself."""

    @abstractmethod
    def find(self, intent: Intent) -> tuple[Instance, ...]:
        """What a launch of unknown outcome made, by token or tag. Empty means: nothing to be seen yet."""

    @abstractmethod
    def terminate(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        """End instances for good; one answer for each id. One bad id does not spoil the others."""

    def problems(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Which of these instances the cloud calls impaired, with its reason."""
        return {}

    def adopt(self, ids: Sequence[str]) -> None:
        """Make another head's instances ours (tags)."""
        raise UnsupportedError("this cloud has no tags: instances cannot be adopted")

    def checks(self) -> tuple[Check, ...]:
        """Look for what would go wrong later; only reads."""
        return ()
