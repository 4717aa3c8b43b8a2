"""What ``qhost -q -j -F -xml`` says of hosts -> workers. Pure.

A host is one worker, in however many queues it is. Its state is what its queue instances say together (qstat(1),
"Full Format"): ``u`` its execd is not heard from, ``d`` disabled by a person or by us, ``D`` by its calendar, ``a``
load alarm, ``A`` suspend threshold, ``E`` error, ``o`` orphaned, ``c`` ambiguous configuration, ``s S C P`` suspended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence
from xml.etree.ElementTree import Element

from elastiq.interfaces import Resources, Worker, WorkerState
from elastiq.plugins.batch import gridengine_xml as xml

GLOBAL = "global"  # the pseudo-host that carries the cluster's own resources
WORDS = {
    "a": "its load is too high", "A": "its load is too high", "D": "its calendar has disabled it",
    "E": "a queue of it is in error state: qstat -explain E, then qmod -cq",
    "c": "its queue's configuration is ambiguous: qstat -explain c", "o": "its queue was deleted",
    "s": "it is suspended", "S": "it is suspended by another queue", "C": "its calendar has suspended it",
    "P": "it is preempted", "d": "it is disabled in part",
}  # fmt: skip
NOT_OURS = "qmod -d"  # who has disabled a queue is nowhere written down


@dataclass(frozen=True)
class Queue:
    """An instance of a queue on a host."""

    name: str
    state: str = ""
    slots: float = 0.0
    used: float = 0.0

    @property
    def disabled(self) -> bool:
        return "d" in self.state


@dataclass(frozen=True)
class Host:
    """An execution host as its master sees it."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)  # of -F, what is left of them
    consumables: frozenset[str] = frozenset()  # of the resources those that jobs take away from
    queues: tuple[Queue, ...] = ()
    jobs: tuple[tuple[str, str, str], ...] = ()  # number, task ("" of what is no array) and owner, each once

    @property
    def reports(self) -> bool:
        """Whether its execd is heard from: else the master has no load of it, and its queues are ``u``. That shows
        max_unheard (300 s) after its last word."""
        dead = bool(self.queues) and all("u" in queue.state for queue in self.queues)
        return xml.number(self.values.get("load_avg")) is not None and not dead

    @property
    def slots_used(self) -> float:
        return sum(queue.used for queue in self.queues)


def host(row: Element) -> Host:
    """A ``host`` of qhost's answer."""
    jobs: dict[tuple[str, str, str], None] = {}
    for child in row.iter("job"):
        values = xml.named(child, "jobvalue")
        jobs[child.get("name", ""), values.get("taskid", ""), values.get("job_owner", "")] = None
    queues = []
    for child in row.iter("queue"):
        values = xml.named(child, "queuevalue")
        sizes = [xml.number(values.get(name)) or 0.0 for name in ("slots", "slots_used")]
        queues.append(Queue(child.get("name", ""), values.get("state_string", ""), *sizes))
    resources = xml.named(row, "resourcevalue")
    taken = {of.get("name", "") for of in row.iter("resourcevalue") if of.get("dominance", "").endswith("c")}
    name, values = row.get("name", ""), xml.named(row, "hostvalue")
    return Host(name, values, resources, frozenset(taken), tuple(queues), tuple(jobs))


def worker(
    of: Host,
    addresses: frozenset[str],
    drained_by: Optional[str],
    memory: Sequence[str],
    gpus: Sequence[str],
    instance_id: Optional[str] = None,
) -> Worker:
    """A host that reports. ``drained_by``: what our own mark, or another head's, says of who has disabled it."""
    jobs = max(len(of.jobs), 1 if of.slots_used else 0)
    state, detail = _state(of, jobs)
    drained = state in (WorkerState.DRAINING, WorkerState.DRAINED)
    total, free = _resources(of, memory, gpus)
    return Worker(
        name=of.name.lower(),
        state=state,
        addresses=addresses,
        instance_id=instance_id,
        total=total,
        free=free,
        jobs=jobs,
        drained_by=(drained_by or NOT_OURS) if drained else None,
        detail=detail,
    )


def _state(of: Host, jobs: int) -> tuple[WorkerState, str]:
    if of.queues and all(queue.disabled for queue in of.queues):
        return (WorkerState.DRAINING if jobs else WorkerState.DRAINED), ""
    if jobs:
        return WorkerState.BUSY, ""
    if any(not queue.state for queue in of.queues):
        return WorkerState.IDLE, ""
    if not of.queues:
        return WorkerState.OTHER, "it is in no queue: no host group of its is in a queue's hostlist"
    letters = "".join(queue.state for queue in of.queues)
    known = next((WORDS[letter] for letter in "EocDaASsCPd" if letter in letters), "")
    return WorkerState.OTHER, known or f"its queues are in the state {letters}"


def _resources(of: Host, memory: Sequence[str], gpus: Sequence[str]) -> tuple[Resources, Resources]:
    """What it has, and what is free of it. Cpus are slots: one that is in several queues has no more of them than it
    has processors, unless one queue alone has."""
    largest = max((queue.slots for queue in of.queues), default=0.0)
    processors = xml.number(of.values.get("num_proc")) or 0.0
    slots = min(sum(queue.slots for queue in of.queues), max(processors, largest))
    left = xml.number(of.resources.get("slots")) if "slots" in of.consumables else None  # a limit of the host itself
    if left is not None:
        slots = min(slots, left + of.slots_used)
    open_slots = sum(max(0.0, queue.slots - queue.used) for queue in of.queues if not queue.state)
    total = Resources(slots, xml.megabytes(of.resources.get("mem_total") or of.values.get("mem_total")))
    free_memory = [size for name in memory if (size := xml.megabytes(of.resources.get(name))) is not None]
    free_gpus = [count for name in gpus if (count := xml.number(of.resources.get(name))) is not None]
    free = Resources(
        cpus=max(0.0, min(slots - of.slots_used, open_slots)),
        memory_mb=min(free_memory) if free_memory else None if of.jobs else total.memory_mb,
        gpus=max(free_gpus, default=None),
    )
    has_gpus = None if of.jobs else free.gpus  # what jobs have of them is not said
    return Resources(total.cpus, total.memory_mb, None, has_gpus), free
