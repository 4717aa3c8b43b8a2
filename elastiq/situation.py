"""What a plan is made from, and what it is made of.

Pure data: `elastiq.planner` turns a `Situation` into a `Plan`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional

from elastiq.demand import Trials, WaitingHistory
from elastiq.health import Health
from elastiq.interfaces import JobGroup, Jobs, Offer, Pool, Resources, request_fits
from elastiq.nodes import Node, Registry
from elastiq.settings import Settings
from elastiq.wording import counted

# Whether one job of a group would run on an empty machine of a pool and flavour, with these resources; if not, why.
Fits = Callable[[JobGroup, Pool, str, Resources], tuple[bool, str]]

NOT_ASKED = "it is being asked whether the batch system would run it there"
BEING_ASKED = "the sizes of its flavours are being asked"
ASKING = frozenset({NOT_ASKED, BEING_ASKED})  # what may fit, as will be known in a moment


@dataclass
class Allowance:
    """What a limit still allows: so many machines, or such a price an hour if it is ``priced``."""

    what: str  # how it is called, with its value
    left: float
    used: float = 0.0
    counts: str = "counted"  # what ``used`` counts; without, ``what`` says all
    priced: bool = False
    least: float = 1.0  # what one more machine takes of it at the least

    def why(self) -> str:
        """What to say when it binds."""
        binds = "would be passed" if self.priced else "is reached"  # a cheaper machine might still be allowed
        return f"{self.what} {binds} ({self.used:.4g} {self.counts})" if self.counts else self.what


@dataclass(frozen=True)
class Situation:
    """All that a plan is made from. ``no_launch`` and ``no_end`` say why the one or the other is out of
    the question now, for instance because a source is unknown; empty where it is not."""

    now: float
    settings: Settings
    registry: Registry
    jobs: Optional[Jobs]
    history: WaitingHistory
    trials: Trials
    health: Health
    sites: frozenset[str]  # whose instances were read completely, and lately
    settled: bool  # both sides are, and were since the start
    workers_began: float = 0.0  # when the last read of the workers began
    foreign: int = 0  # instances that are not ours but count
    allowances: tuple[Allowance, ...] = ()  # of the limits that are set, beside the quotas
    no_launch: str = ""
    no_end: str = ""
    off: Mapping[str, str] = field(default_factory=dict)  # what a person switched off: see `Core.off`
    no_drain: str = ""  # why no idle machine may be drained now, beside ``no_end``
    wall: float = 0.0  # the same moment as ``now``, by the wall clock
    drained: frozenset[str] = frozenset()  # pools that a person takes out of service
    can_drain: bool = True
    sizes: dict[tuple[str, str], Resources] = field(default_factory=dict)  # of new machines, once they were asked for
    # What a batch system that knows no better says.
    fits: Fits = field(default=lambda group, pool, flavour, machine: request_fits(group.request, machine))

    def idle_for_s(self, pool: str) -> float:
        """How long an idle machine of a pool is kept (seconds)."""
        return self.registry.uses.idle_for_s(self.settings, pool)


@dataclass(frozen=True)
class Launch:
    offer: Offer
    count: int
    reason: str
    groups: dict[str, int] = field(default_factory=dict)  # waiting jobs that it is for, by group key
    replaces: tuple[str, ...] = ()  # nodes that are about to be taken away


@dataclass(frozen=True)
class Step:
    """Something to do with one node."""

    node: Node
    reason: str
    for_good: bool = False  # whatever runs there ends by itself, then the machine is ended
    taken: bool = False  # by the cloud, soon
    emptied: Mapping[str, Optional[float]] = field(default_factory=dict)  # see `Node.emptied`


@dataclass(frozen=True)
class Verdict:
    """What will become of a group's waiting jobs. ``matchable`` is False if nothing offered runs them."""

    group: JobGroup
    held: int  # by room that is there or comes
    launching: int
    reason: str
    matchable: bool = True
    # How many of its jobs each machine holds, by node id, or "worker NAME"; others than nodes to come go by a text.
    machines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    launches: tuple[Launch, ...] = ()
    drains: tuple[Step, ...] = ()
    failed: tuple[Step, ...] = ()  # whose boot deadline passed
    ends: tuple[Step, ...] = ()  # useless machines: ended without a drain, since nothing can run there
    kept: tuple[Step, ...] = ()  # whose boot deadline passed, too, but that may run jobs
    verdicts: tuple[Verdict, ...] = ()
    returns: tuple[Step, ...] = ()  # to service, of what is being emptied
    summary: str = ""
    noticed: tuple[Node, ...] = ()  # that the cloud is about to take
    # For a group under trial, one machine that was launched for it and stands free, and the pools where
    # such machines have stood free for unused_room_s.
    unused: Mapping[str, tuple[str, frozenset[str]]] = field(default_factory=dict)


def group_name(group: JobGroup, jobs: int, noun: str = "job") -> str:
    """So many jobs of a group for people: with what each asks for."""
    r = group.request
    sizes = ((r.cpus, "cpu"), (r.memory_mb, "MB"), (r.gpus, "gpu"))
    parts = [counted(value, unit) for value, unit in sizes if value]
    return counted(jobs, noun) + (f" of {', '.join(parts)}" if parts else "")
