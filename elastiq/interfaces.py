"""The two contracts, BatchSystem and Cloud, with their data classes and errors.

Every answer is a value or one of the exceptions below: never None, and never an empty list for "I don't know". An
implementation has no clock and no thread of its own: the executor calls it off the decision thread, stamps when a read
began, and abandons a call that is past its deadline. Sizes are MB, times are seconds (a wall time: since the epoch).
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Iterable, Mapping, Optional, Sequence

from elastiq.errors import *  # noqa: F403 - how each may fail is part of the contracts
from elastiq.errors import UnsupportedError
from elastiq.offers import Intent as Intent
from elastiq.offers import Offer as Offer
from elastiq.offers import Owner as Owner
from elastiq.offers import Pool as Pool
from elastiq.offers import Terms as Terms
from elastiq.options import Option
from elastiq.resources import Resources as Resources
from elastiq.resources import request_fits as request_fits


@dataclass(frozen=True)
class Check:
    """What was found of one thing that has to be in order before the first launch."""

    subject: str
    level: str  # "ok", "warning", "error", or "unknown": it could not be found out, and is not ok
    text: str
    remedy: str = ""  # what to do


# Checks by their subjects. Each is made by itself, in any thread, and only reads; one that finds nothing out raises
# `SourceError`, which is unknown.
Looks = Mapping[str, Callable[[], Iterable[Check]]]


@dataclass(frozen=True)
class JobGroup:
    """Jobs of one shape: counts, not a list.

    ``key`` is the same in every read for the same shape. ``running`` is how many jobs of this shape run now, None where
    the system cannot say. ``not_eligible`` says why no worker could ever run them as they are (held jobs and the like
    are best left out); empty when some could. ``pools`` (in lower case) are the only ones that the jobs may go to, as
    they say; empty: any. Each job needs ``nodes`` machines at once, with the request on each; where they are not
    ``apart``, one machine that is large enough may be several of these. ``apart`` with one node: it has its machine for
    itself. ``ad`` is what `BatchSystem.match` wants to know of them beside the request, in the system's own words.
    """

    key: str
    request: Resources
    waiting: int
    running: Optional[int] = None
    requirements: str = ""
    sample_job: str = ""
    not_eligible: str = ""
    pools: tuple[str, ...] = ()
    nodes: int = 1
    ad: tuple[str, ...] = ()
    apart: bool = False


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

    ``name`` is lower-case and unique; ``addresses`` are all its IP addresses as text; ``jobs`` counts the claims;
    ``job_starts`` only grows while the worker lives (None: not said); ``drained_by`` is what the one who began the
    drain left as the reason; ``notice`` says why its machine is about to be taken away (a spot interruption), as it was
    told itself.
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
    notice: str = ""

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
    """One read of the workers. ``source_up_s`` is for how long the source (the collector) has been up, None if unknown:
    one that was just restarted knows nobody yet. ``missing`` as in `Jobs`."""

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


@dataclass(frozen=True)
class Machine:
    """A would-be worker: an empty machine of a pool and flavour. ``portrait`` is what `BatchSystem.portrait`
    said of the last such worker that joined, empty where none did; ``worker_ad`` are the pool's own lines."""

    pool: str
    flavour: str
    resources: Resources
    portrait: str = ""
    worker_ad: tuple[str, ...] = ()


class BatchSystem(ABC):
    """A batch queue and its workers. Methods may block up to ``call_deadline_s`` and raise `SourceError`."""

    section: ClassVar[str]
    OPTIONS: ClassVar[tuple[Option, ...]] = ()

    can_drain: bool = True
    can_match: bool = False  # `match` knows more than `fits`
    keeps_records: bool = False  # `prepare`, `register` or `unregister` has something to do
    watches: bool = False  # `changed` is asked once, and whenever the process gets a SIGURG
    call_deadline_s: float = 60.0

    @classmethod
    @abstractmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> BatchSystem:
        """Make one from the typed values of its configuration section; reads nothing outside yet."""

    @abstractmethod
    def jobs(self) -> Jobs:
        """The groups of waiting jobs of all users."""

    def changed(self) -> bool:
        """Whether the queue may have changed since `jobs` was last asked. Raises `SourceError`: it is only polled."""
        return True

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

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        """The names of the jobs that the queue records as running there, seen alive or not. Raises `SourceError`."""
        raise UnsupportedError("this batch system does not name the jobs of a worker")

    def prepare(self, intent: Intent) -> None:  # noqa: B027
        """Before a launch (Slurm, Grid Engine)."""

    def register(self, instance: Instance) -> None:  # noqa: B027
        """When the addresses of a new instance are known (Slurm, Grid Engine): let the system expect its worker. Asked
        again while it raises, after a restart, and with new addresses; done twice, it has done it once."""

    def unregister(self, instance: Instance) -> None:  # noqa: B027
        """After the end of an instance that may have been registered, whether or not it joined. As `register`; what
        another instance has by now is left alone."""

    def forget(self, worker: str) -> None:  # noqa: B027
        """After the end of its instance: remove what the system still holds of the worker. One that is in service
        (again) is left alone. Where `register` is there too, it is asked again while it raises."""

    def fits(self, group: JobGroup, machine: Resources) -> tuple[bool, str]:
        """Whether one job of the group could run on an empty machine, and if not, why. Pure."""
        return request_fits(group.request, machine)

    def match(self, groups: Sequence[JobGroup], machines: Sequence[Machine]) -> Mapping[tuple[str, Machine], str]:
        """For each pair of a group's key and a machine: empty if one job of it would run there, or may (what nobody
        can know yet is no reason), else why not. Asked only where ``can_match``, which it makes False if it turns
        out that it cannot. Raises `SourceError`."""
        raise UnsupportedError("this batch system cannot match jobs with machines")

    def portrait(self, worker: str) -> str:
        """What `match` wants to know of future workers like this one, as text to be kept; empty if this one shows
        nothing of it now (it drains, say). Raises `SourceError`."""
        return ""

    def find_job(self, job: str) -> tuple[str, str]:
        """The key of a job's group, and in words how the job itself stands; the key is empty where it waits
        for no machine. Raises `SourceError`, also for a job that is not there."""
        raise UnsupportedError("this batch system cannot look up a single job")

    def checks(self) -> Looks:
        """What can be looked at before the first launch: nothing is launched, changed, drained or ended."""
        return {}


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
    notice: str = ""  # why the cloud is about to take it away
    image: str = ""


@dataclass(frozen=True)
class Instances:
    """One complete read of a site.

    ``owned`` are ours. ``other_heads`` carry our cluster's name but another head node's id: counted, named, never
    touched. ``foreign`` counts the rest that are not ended; ``foreign_addresses``: a worker there is one of these.
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
    stop: bool = False  # `stop` and `start` are there


class Cloud(ABC):
    """One site: an endpoint with credentials. Methods may block up to ``call_deadline_s`` and raise
    `SourceError` (reads, terminate) or `LaunchError` (launch)."""

    kind: ClassVar[str]  # the configuration's section prefix: [kind] and [kind:NAME]
    OPTIONS: ClassVar[tuple[Option, ...]] = ()

    capabilities: CloudCapabilities = CloudCapabilities()
    call_deadline_s: float = 120.0
    read_only: bool = False  # set by who only looks: `instances` then changes nothing (tags, queues) on its way

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
    def markets_of(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The markets that the site of a pool section has."""
        return ("on-demand",)

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

    def stop(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        """Stop instances; they keep their ids. Answers as `terminate` does."""
        raise UnsupportedError("this cloud cannot stop instances")

    def start(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        """Start stopped instances. ENDING means that the cloud took the request. Raises `LaunchError` like a launch."""
        raise UnsupportedError("this cloud cannot start instances")

    def flavours(self, names: Sequence[str]) -> Mapping[str, Resources]:
        """What machines of these flavours have by the cloud's own catalogue, as far as it tells."""
        return {}

    def problems(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Which of these instances the cloud calls impaired, with its reason."""
        return {}

    def watch(self, told: Callable[[str, str, int], None]) -> None:  # noqa: B027
        """Tell, in any thread, of each request to the API: its name, an error's code or "", how often it was sent."""

    def adopt(self, ids: Sequence[str]) -> None:
        """Make another head's instances ours (tags)."""
        raise UnsupportedError("this cloud has no tags: instances cannot be adopted")

    def checks(self) -> Looks:
        """What can be looked at before the first launch: nothing is launched, changed, drained or ended."""
        return {}
