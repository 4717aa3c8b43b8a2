"""Node, its states, the one table of legal transitions, and the registry that holds them all.

Pure: no clock, no I/O. Wall times are parameters, and serve people and the store only; everything
that decides is counted in observed seconds, so that a restart, a step of the wall clock or a time
in which nobody looked changes no decision.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, AbstractSet, Iterable, Iterator, Mapping, Optional

from elastiq.idling import Uses
from elastiq.interfaces import Instance, Resources, Worker

if TYPE_CHECKING:
    from elastiq.strangers import Stranger


BLACK_HOLE_STARTS_PER_H = 360.0  # on each core a start every 10 s, averaged over some ten minutes


class State(enum.Enum):
    __hash__ = object.__hash__  # states are looked up all the time, and Enum's own is a function of Python

    REQUESTED = "requested"  # in a journalled intent; no instance is known yet
    PENDING = "pending"  # the cloud knows it
    BOOTING = "booting"  # the cloud runs it; it has not joined
    IDLE = "idle"
    BUSY = "busy"  # runs jobs, or is not to be used for a reason that its worker gives
    DRAINING = "draining"  # elastiq is taking it out of service
    STOPPED = "stopped"  # its stop was asked for, or it is stopped: it can be started again
    TERMINATING = "terminating"  # its end was asked for, or the cloud is ending it
    GONE = "gone"  # confirmed
    LOST = "lost"  # was a worker, is none any more
    FAILED = "failed"  # never joined, or the cloud calls it broken


AT_BOOT = frozenset({State.PENDING, State.BOOTING})
TO_COME = AT_BOOT | {State.REQUESTED}
IN_SERVICE = frozenset({State.IDLE, State.BUSY})
JOINED = IN_SERVICE | {State.DRAINING}
CAPACITY = TO_COME | IN_SERVICE
SPENT = frozenset({State.FAILED, State.TERMINATING, State.GONE})

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.REQUESTED: AT_BOOT | IN_SERVICE | SPENT,
    State.PENDING: IN_SERVICE | SPENT | {State.BOOTING, State.STOPPED},
    State.BOOTING: IN_SERVICE | SPENT,
    State.IDLE: SPENT | {State.BUSY, State.DRAINING, State.LOST},
    State.BUSY: SPENT | {State.IDLE, State.DRAINING, State.LOST},
    State.DRAINING: IN_SERVICE | SPENT | {State.LOST, State.STOPPED},
    State.STOPPED: IN_SERVICE | SPENT | {State.PENDING, State.DRAINING},
    State.LOST: IN_SERVICE | SPENT,
    State.FAILED: IN_SERVICE | {State.LOST, State.TERMINATING, State.GONE},
    # Back in service: its end never took effect, and its worker takes jobs.
    State.TERMINATING: IN_SERVICE | {State.GONE},
    State.GONE: frozenset(),
}


@dataclass
class Node:
    """elastiq's record of one machine, from the launch intent to the confirmed end.

    ``id`` is ``<intent>.<number>``, or the instance id of a machine that was found. The clocks
    ``*_s`` count observed seconds; ``act_ended`` and ``retry_at`` are monotonic and die with the daemon.
    """

    id: str
    pool: str
    site: str
    state: State = State.REQUESTED
    flavour: str = ""
    network: str = ""
    market: str = ""
    intent: str = ""
    instance_id: Optional[str] = None
    reason: str = ""
    since: float = 0.0  # wall time of the last transition
    created_at: float = 0.0  # wall time
    joined_at: Optional[float] = None  # wall time
    addresses: frozenset[str] = frozenset()
    worker: Optional[str] = None
    jobs: int = 0
    job_starts: Optional[int] = None
    idle_s: float = 0.0
    boot_s: float = 0.0
    lost_s: float = 0.0
    build: str = ""  # what it was made of: `Pool.build` when it was launched
    replaced: bool = False  # another was launched in its place since the cloud is about to take it
    was_stopped: bool = False  # the cloud confirmed that its last stop was done
    ran_since: Optional[float] = None  # since when the worker that was stopped had run, by its ad
    condemned: str = ""  # why it is taken out of service for good, once its jobs have ended
    ordered: str = ""  # the command by which a person takes it out of service: `elastiq.by_hand`
    # What each job takes of one that is drained with jobs on it, and returned if others wait: `elastiq.consolidation`.
    emptied: dict[str, Optional[float]] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)  # of each group: the waiting jobs it was launched for
    number: int = 0  # in the order of appearance, strangers included: no clock steps there

    # what only this run knows
    instance: Optional[Instance] = field(default=None, compare=False)
    seen: Optional[Worker] = field(default=None, compare=False)
    starts_per_h: float = field(default=0.0, compare=False)  # jobs that started on it, for each core, smoothed
    room_s: float = field(default=0.0, compare=False)  # for how long its free room has not shrunk
    unlisted: int = field(default=0, compare=False)  # complete listings in a row without it
    listed_by: float = field(default=0.0, compare=False)  # monotonic: until then a listing may lack it
    act_ended: Optional[float] = field(default=None, compare=False)
    acting: bool = field(default=False, compare=False)  # an act on it is in flight
    retry_at: float = field(default=0.0, compare=False)
    starts_at_drain: Optional[int] = field(default=None, compare=False)  # its job_starts when a drain was decided upon
    refused: Optional[tuple[int, Optional[int]]] = field(default=None, compare=False)  # `failed_drains.failed`
    failures: int = field(default=0, compare=False)
    was_busy: bool = field(default=False, compare=False)
    unstoppable: bool = field(default=False, compare=False)
    warned: bool = field(default=False, compare=False)  # that the cloud is about to take it
    watched: bool = field(default=False, compare=False)  # a settled read of this run found it booting
    clocks_stored: float = field(default=0.0, compare=False)  # what the clocks said when they were stored last

    @property
    def name(self) -> str:
        """What people call it: the instance id once there is one."""
        return self.instance_id or self.id

    @property
    def notice(self) -> str:
        """Why the cloud is about to take it away, as itself or its worker says; empty if it is not."""
        return (self.instance.notice if self.instance else "") or (self.seen.notice if self.seen else "")

    @property
    def is_odd(self) -> bool:
        """Whether it is being emptied, is stopped, may be a black hole, or is drained by a person."""
        odd = self.emptied or self.condemned or self.ordered or self.state is State.STOPPED
        return bool(odd or self.starts_per_h >= BLACK_HOLE_STARTS_PER_H)

    @property
    def for_good(self) -> bool:
        """Whether it is drained with its last jobs on it, and never returned."""
        return bool(self.condemned or self.ordered or self.notice)

    @property
    def runs_something(self) -> bool:
        return self.seen is not None and self.seen.runs_something

    def may_act(self, now: float) -> bool:
        """Whether something may be asked for it: nothing is in flight, and the last failure is a while ago."""
        return not self.acting and self.retry_at <= now


@dataclass(frozen=True)
class Move:
    """One transition, for the log, the store and the counters. ``legal`` is False for a bug."""

    node: Node
    before: State
    after: State
    reason: str
    at: float
    legal: bool = True


class Registry:
    """All nodes that are not confirmed gone, and what was learned of the flavours."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._by_instance: dict[str, Node] = {}
        self.moves: list[Move] = []  # since the daemon last took them
        self.touched: dict[str, Node] = {}  # changed since last stored
        self.learned: dict[tuple[str, str], Resources] = {}
        self.uses = Uses()
        self.catalogue: dict[tuple[str, str], Resources] = {}  # by site and flavour: what the cloud says of it
        self.strangers: dict[str, Stranger] = {}  # workers that are no node of ours, by name
        self.ended: set[str] = set()  # workers of nodes that are gone: their ads outlive them for a while
        self.stranger_numbers: dict[str, int] = {}  # those of an earlier run
        self._last_number = self.last_restored = 0  # of nodes up to that one, a part of their time was not seen
        self._tally: Optional[Counter[tuple[str, State]]] = None  # counted anew after every change

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def next_number(self) -> int:
        """Numbers nodes and strangers in the order in which they appeared."""
        self._last_number += 1
        return self._last_number

    def restore(self, nodes: Iterable[Node], strangers: Mapping[str, int]) -> None:
        """Take over what an earlier run left."""
        for node in nodes:
            self.add(node)
        self.touched.clear()
        self.stranger_numbers = dict(strangers)
        self._last_number = max([0, *strangers.values(), *(node.number for node in self)])
        self.last_restored = self._last_number

    def add(self, node: Node) -> Node:
        node.number = node.number or self.next_number()
        self._tally = None
        self.nodes[node.id] = node
        if node.instance_id:
            self._by_instance[node.instance_id] = node
        self.touched[node.id] = node
        return node

    def bind(self, node: Node, instance_id: str) -> None:
        """Give a requested node the instance that the cloud made for it."""
        node.instance_id = instance_id
        self._by_instance[instance_id] = node
        self.touched[node.id] = node

    def by_instance(self, instance_id: str) -> Optional[Node]:
        return self._by_instance.get(instance_id)

    def instance_ids(self, site: str) -> frozenset[str]:
        return frozenset(n.instance_id for n in self if n.instance_id and n.site == site)

    def requested(self, intent: str) -> list[Node]:
        """The machines of an intent for which no instance is known."""
        return [n for n in self if n.intent == intent and n.state is State.REQUESTED]

    def move(self, node: Node, state: State, reason: str, at: float) -> bool:
        """Change a node's state. An illegal change is recorded as such and not made: the next
        observations derive the state anew."""
        before = node.state
        if state is before:
            node.reason = reason or node.reason
            return True
        legal = state in TRANSITIONS[before]
        self.moves.append(Move(node, before, state, reason, at, legal))
        if not legal:
            return False
        node.state, node.reason, node.since = state, reason, at
        self._tally = None
        self.touched[node.id] = node
        if state is State.GONE:
            self.nodes.pop(node.id, None)
            if node.instance_id:
                self._by_instance.pop(node.instance_id, None)
            if node.worker:
                self.ended.add(node.worker)
        return True

    def count(self, pool: Optional[str] = None, states: Optional[AbstractSet[State]] = None) -> int:
        """How many nodes, of a pool and in these states where given. All of them count in the quota."""
        if self._tally is None:
            self._tally = Counter((node.pool, node.state) for node in self)
        return sum(n for (of, at), n in self._tally.items() if pool in (None, of) and (states is None or at in states))

    def learn(self, node: Node, total: Resources) -> None:
        """A flavour offers the smallest of what its joined workers advertised."""
        key = (node.pool, node.flavour)
        if self.learned.get(key) != total:
            self.learned[key] = self.learned.get(key, Resources()).merged(total, min)
