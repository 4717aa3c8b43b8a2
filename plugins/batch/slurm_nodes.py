"""Node records -> workers. Pure."""

from __future__ import annotations

from typing import Iterable, Mapping, Optional, Sequence

from elastiq.interfaces import Resources, Worker, WorkerState
from elastiq.plugins.batch import hosts
from elastiq.plugins.batch.slurm_records import Node, gres
from elastiq.plugins.batch.slurm_states import NO_MATTER

# With any of these a node takes no job, or soon will not, for a reason that is no drain.
OUT_OF_USE = frozenset({"NOT_RESPONDING", "FAIL", "MAINT", "RESERVED", "INVALID_REG", "BLOCKED"})
NO_MACHINE = "elastiq: no machine"  # how the reason of a predeclared node begins that is nobody's


def workers(nodes: Iterable[Node], jobs_on: Mapping[str, Sequence[str]], mark: str) -> tuple[Worker, ...]:
    """The nodes that have a machine behind them. ``jobs_on``: the jobs that the queue has there, by the node's name;
    ``mark``: ours."""
    return tuple(worker(node, len(jobs_on.get(node.name, ())), mark) for node in nodes if has_machine(node))


def has_machine(node: Node) -> bool:
    """Whether it is a worker, as far as Slurm knows.

    No: one that is for future use, powered off, or never was there (a cloud node that Slurm takes for idle because
    power saving is off); and one that is down because it does not answer, or never registered. One that is
    down and answers is: somebody put it down (or it rebooted), and somebody has to look at it.
    """
    if node.base == "FUTURE" or node.flags & {"POWERED_DOWN", "FUTURE"}:
        return False
    if node.down:
        unseen = node.started_at is None or "NOT_RESPONDING" in node.flags
        return not unseen and not node.reason.startswith(NO_MACHINE)
    return not (node.started_at is None and "CLOUD" in node.flags and not node.used_cpus)


def occupied(node: Node) -> bool:
    """Whether jobs are there, by the node's own record: they run, are suspended, end, or are planned to start."""
    return node.base in ("ALLOCATED", "MIXED") or node.used_cpus > 0 or "COMPLETING" in node.flags


def worker(node: Node, jobs: int, mark: str) -> Worker:
    """``jobs``: how many the queue has there. Where the record alone says that it is occupied, one is taken to be."""
    state = _state(node, jobs)
    usable = state in (WorkerState.IDLE, WorkerState.BUSY)
    total = size(node)
    return Worker(
        name=node.name.lower(),
        state=state,
        addresses=addresses(node),
        instance_id=node.instance_id or bound_to(node, mark) or None,
        total=total,
        free=_free(node, total) if usable else _nothing(total),
        jobs=max(jobs, 1 if occupied(node) and not node.down else 0),
        drained_by=node.reason or None if "DRAIN" in node.flags else None,
        started_at=node.started_at,
        detail="" if usable else _detail(node),
    )


def _free(node: Node, total: Resources) -> Resources:
    """What its jobs leave. Where they have all its memory, as one has that asked for none, no other starts."""
    if total.memory_mb and node.used_memory_mb >= total.memory_mb:
        return _nothing(total)
    return total.less(Resources(node.used_cpus, node.used_memory_mb, 0.0, gres(node.used_gres).get("gpu", 0.0)))


def _nothing(total: Resources) -> Resources:
    return Resources(*(None if has is None else 0.0 for has in vars(total).values()))


def size(node: Node) -> Resources:
    """What it has for jobs. A node without a gres of that name has no GPU."""
    return Resources(node.cpus, node.memory_mb, node.disk_mb, gres(node.gres).get("gpu", 0.0))


def addresses(node: Node) -> frozenset[str]:
    """What tells its machine, without any look-up."""
    return frozenset().union(*(hosts.addresses(text.lower()) for text in (node.name, node.address, node.host)))


def _state(node: Node, jobs: int) -> WorkerState:
    there = jobs > 0 or occupied(node)
    if node.down:
        return WorkerState.BUSY if jobs else WorkerState.OTHER
    if "DRAIN" in node.flags:
        # one that does not answer, or is not registered, may still run what Slurm does not know of
        if there:
            return WorkerState.DRAINING
        return WorkerState.OTHER if node.flags & OUT_OF_USE or _unseen(node) else WorkerState.DRAINED
    if there or "PLANNED" in node.flags:  # planned: the backfill scheduler holds it for a job
        return WorkerState.BUSY
    idle = node.base == "IDLE" and not node.flags - NO_MATTER and not _unseen(node)
    return WorkerState.IDLE if idle else WorkerState.OTHER


def _detail(node: Node) -> str:
    unseen = ", not registered since slurmctld started" if _unseen(node) else ""
    return node.words + unseen + (f" ({node.reason})" if node.reason else "")


def _unseen(node: Node) -> bool:
    """It has not registered since slurmctld started."""
    return node.started_at is None


def by_lower_name(nodes: Iterable[Node]) -> dict[str, Node]:
    return {node.name.lower(): node for node in nodes}


def by_name(nodes: Iterable[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}


def bound_to(node: Node, mark: str) -> str:
    """The instance that we gave this node to, as its comment says; empty if none."""
    words = node.comment.split()
    return words[2] if len(words) == 3 and words[:2] == ["elastiq", mark] else ""


def find(nodes: Iterable[Node], worker_name: str) -> Optional[Node]:
    """The node of a worker: elastiq has the names in lower case, Slurm distinguishes."""
    return by_lower_name(nodes).get(worker_name)
