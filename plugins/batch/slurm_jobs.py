"""Jobs of Slurm, in one form -> groups of one shape. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import JobGroup, Resources
from elastiq.plugins.batch import index_sets
from elastiq.plugins.batch.shapes import Groups, Shape
from elastiq.plugins.batch.slurm_reasons import Waits, waits_for
from elastiq.plugins.batch.slurm_records import SEPARATOR, UNSET, gres, number, tres, when, words

SOON_S = 180.0  # a job that may begin so soon wants its machine now: slurmctld puts off a requeued one for 121 s
PENDING = frozenset({"PD", "PENDING"})
# On a node, in whatever way. Completing (CG) is there too, but has no use for another machine.
RUNNING = frozenset(
    "R RUNNING CF CONFIGURING S SUSPENDED ST STOPPED SI SIGNALING SO STAGE_OUT RS RESIZING PO POWER_UP_NODE".split()
)

# The columns of the queue, each with its name in squeue -O (squeue(1)) and its width: without one it is cut at 20.
COLUMNS: Mapping[str, tuple[str, int]] = {
    "id": ("JobID", 12),
    "array": ("ArrayJobID", 12),
    "tasks": ("ArrayTaskID", 100),
    "state": ("StateCompact", 5),
    "reason": ("Reason", 48),
    "partition": ("Partition", 48),
    "nodes": ("NumNodes", 12),
    "max_nodes": ("MaxNodes", 12),
    "ntasks": ("NumTasks", 10),
    "tres": ("tres-alloc", 96),
    "memory": ("MinMemory", 12),
    "per_node": ("tres-per-node", 48),
    "per_job": ("tres-per-job", 48),
    "per_task": ("tres-per-task", 48),
    "features": ("Feature", 48),
    "asked_nodes": ("ReqNodes", 24),
    "sharing": ("OverSubscribe", 10),
    "reservation": ("Reservation", 24),
    "begin": ("EligibleTime", 22),
    "depends": ("Dependency", 16),
    "het": ("HetJobOffset", 10),
    "het_id": ("HetJobID", 12),
}
FORMAT = ",".join(f"{name}:{width}{SEPARATOR}" for name, width in COLUMNS.values())
WIDE = ",".join(f"{name}:{max(width, 8000)}{SEPARATOR}" for name, width in COLUMNS.values())
OWN = ("id", "array", "tasks")  # the first ones: what no two jobs have alike
# Whose beginning is enough.
MAY_BE_CUT = frozenset({"reason", "asked_nodes", "reservation", "depends"})


@dataclass(frozen=True)
class Job:
    """A job, or what is left of an array: then ``tasks`` is the set of its tasks that wait, with ``%LIMIT``."""

    id: str
    array: str = ""
    tasks: str = ""
    state: str = ""
    reason: str = ""
    partition: str = ""
    nodes: int = 1  # at least
    max_nodes: Optional[int] = None  # None: as many as it has tasks
    ntasks: int = 1
    cpus: float = 1
    memory_mb: Optional[float] = None  # of the whole job, as cpus
    all_memory: bool = False  # of each of its nodes, however much that is
    gres_of_node: str = ""
    gres_of_job: str = ""
    gres_of_task: str = ""
    features: str = ""
    asked_nodes: str = ""
    exclusive: bool = False
    reservation: str = ""
    begin: Optional[float] = None
    depends: bool = False  # on another job, or its end
    het: str = ""

    @property
    def name(self) -> str:
        """As squeue shows it: 12, 12_3, 12+1; of an array its number."""
        if self.het:
            return self.het
        single = self.tasks.isdigit()
        return f"{self.array}_{self.tasks}" if self.tasks and single else self.array if self.tasks else self.id


def groups(jobs: Iterable[Job], partitions: Sequence[str], now: float) -> tuple[JobGroup, ...]:
    """The jobs that wait for machines, and those that run. ``partitions``: the only ones that count, if any is named.
    ``now`` is wall time. Raises `SourceError`."""
    listed = [job for job in jobs if not partitions or {*words(job.partition)} & {*partitions}]
    left = _tasks_left(listed)
    shapes: dict[object, Shape] = {}
    found = Groups()
    for job in listed:
        if job.state in RUNNING:
            found.add(_shape(job, "", shapes), running=1)
        elif job.state in PENDING and (blocked := why_not(job, now)) is not None:
            waiting = tasks_of(job)[0]
            if job.array in left:
                waiting = min(waiting, left[job.array])
                left[job.array] -= waiting
            if waiting:
                found.add(_shape(job, blocked, shapes), waiting=waiting, sample=job.name)
    return found.all()


def _tasks_left(jobs: Iterable[Job]) -> dict[str, int]:
    """Of each array with a limit (``%7``), how many tasks more may run than do."""
    limits: dict[str, int] = {}
    running: dict[str, int] = {}
    for job in jobs:
        if job.tasks and job.state in RUNNING:
            running[job.array] = running.get(job.array, 0) + 1
        elif job.tasks and (limit := tasks_of(job)[1]) is not None:
            limits[job.array] = limit
    return {array: max(0, limit - running.get(array, 0)) for array, limit in limits.items()}


def tasks_of(job: Job) -> tuple[int, Optional[int]]:
    """How many jobs it stands for, and how many tasks of its array may run at once. Raises `SourceError`."""
    if not job.tasks or job.tasks.isdigit():
        return 1, None
    try:
        return index_sets.limited(job.tasks)
    except ValueError as error:
        raise SourceError(f"job {job.array}: {error}") from None


def _shape(job: Job, blocked: str, known: dict[object, Shape]) -> Shape:
    """Made once for jobs that ask for the same."""
    key = (blocked, *_ASKED(job))
    if key not in known:
        known[key] = shape(job, blocked)
    return known[key]


_ASKED = attrgetter(
    *("partition", "nodes", "max_nodes", "ntasks", "cpus", "memory_mb", "gres_of_node", "gres_of_job", "gres_of_task"),
    *("features", "exclusive", "all_memory"),
)


def why_not(job: Job, now: float) -> Optional[str]:
    """Of a pending job: empty if a machine would help, else why none would; None if it does not wait for one."""
    waits = waits_for(job.reason)
    # Until the scheduler comes round (a minute) a new job has the reason of a first try, in which its begin and its
    # dependencies count nothing: seen with 22.05 and 24.11. (An array has no begin until then.)
    later = waits is Waits.BEGIN if job.begin is None else job.begin > now + SOON_S
    if waits is Waits.OTHER or (waits is not Waits.UNKNOWN and (later or job.depends)):
        return None
    if waits is Waits.UNKNOWN:
        return f"it waits for {job.reason}, which says nothing to elastiq"
    if job.reservation:
        return f"it may only use the nodes of reservation {job.reservation}"
    if job.asked_nodes:
        return f"it asks for nodes by their names ({job.asked_nodes})"
    return ""


def shape(job: Job, not_eligible: str = "") -> Shape:
    """What the job asks of each of its machines.

    Tasks that may be spread (``-n 64``, with no number of nodes) are taken one by one: so many slots of
    one task each, on one machine or several. Nodes that are asked for by their number are machines apart, and so are
    those of which it wants all the memory.
    """
    nodes = job.nodes
    alone = job.exclusive or job.all_memory
    spreads = job.ntasks > nodes and (job.max_nodes is None or job.max_nodes > nodes)
    spreads = spreads and not alone and not job.gres_of_node
    apart = alone or (nodes > 1 and not spreads)
    nodes = job.ntasks if spreads else nodes
    memory_mb = None if job.memory_mb is None else float(math.ceil(job.memory_mb / nodes))
    per_node = _gres(job, nodes)
    gpus = per_node.get("gpu")
    ad = [f"Partitions = {','.join(sorted(words(job.partition)))}"] if job.partition else []
    ad += [f"Features = {job.features}"] if job.features else []
    typed = [f"{name}:{amount:g}" for name, amount in sorted(per_node.items()) if name != "gpu"]
    ad += [f"Gres = {','.join(typed)}"] if typed else []
    request = Resources(float(math.ceil(job.cpus / nodes)), memory_mb, None, gpus)
    conditions = "; ".join(line for line in ad if not line.startswith("Partitions"))
    return Shape(request, conditions, not_eligible, (), nodes, tuple(ad), apart)


# --------------------------------------------------------------------------- text

Again = Callable[[Sequence[str]], Iterable[Sequence[str]]]


def from_table(rows: Iterable[Sequence[str]], again: Again) -> list[Job]:
    """The jobs of a table in FORMAT. ``again`` asks for the rows of jobs, by their ids, in WIDE: of those whose fields
    were cut. What most jobs have in common is read once."""
    jobs: list[Job] = []
    cut: list[str] = []
    known: dict[tuple[str, ...], Job] = {}
    for row in rows:
        rest = tuple(row[len(OWN) :])
        if rest not in known and not _is_cut(row):
            known[rest] = from_row(row)
        if rest not in known or len(row[2]) >= COLUMNS["tasks"][1]:
            cut.append(row[0])
        else:
            jobs.append(_with_own(known[rest], row))
    return jobs + [from_row(row) for row in (again(cut) if cut else ())]


def _with_own(job: Job, row: Sequence[str]) -> Job:
    identifier, array, tasks = row[: len(OWN)]
    return replace(job, id=identifier, array=array or identifier, tasks="" if tasks in UNSET else tasks)


def _is_cut(row: Sequence[str]) -> bool:
    fields = zip(row, COLUMNS.items())
    return any(len(text) >= width and key not in MAY_BE_CUT for text, (key, (_, width)) in fields)


def from_row(row: Sequence[str]) -> Job:
    said = {key: "" if text in UNSET and key != "reason" else text for key, text in zip(COLUMNS, row)}
    asked = tres(said["tres"])
    nodes = int(asked.get("node") or _first(said["nodes"]) or 1)
    most = _first(said["max_nodes"].rpartition("-")[2])
    all_memory = said["memory"] == "0"  # see _takes_all_memory; by the GPU it is no 0 with 24.11, and with a default
    ntasks = _first(said["ntasks"]) or 1
    het = f"{said['het_id']}+{said['het']}" if said["het_id"] not in ("", "0") else ""
    return Job(
        id=said["id"],
        array=said["array"] or said["id"],
        tasks=said["tasks"],
        state=said["state"].upper(),
        reason=said["reason"],
        partition=said["partition"],
        nodes=nodes,
        max_nodes=most or None,
        ntasks=ntasks,
        cpus=asked.get("cpu") or 1,
        memory_mb=None if all_memory else asked.get("mem") or None,
        all_memory=all_memory,
        gres_of_node=said["per_node"],
        gres_of_job=said["per_job"],
        gres_of_task=said["per_task"],
        features=said["features"],
        asked_nodes=said["asked_nodes"],
        exclusive=said["sharing"].upper() in ("NO", "EXCLUSIVE"),
        reservation=said["reservation"],
        begin=when(said["begin"]),
        depends=bool(said["depends"]),
        het=het,
    )


def _first(text: str) -> int:
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


def _gres(job: Job, nodes: int) -> dict[str, float]:
    """What each of so many nodes must have, whatever it was asked for by."""
    found = gres(job.gres_of_node)
    for name, amount in gres(job.gres_of_job).items():
        found[name] = max(found.get(name, 0.0), math.ceil(amount / nodes))
    for name, amount in gres(job.gres_of_task).items():
        if name not in ("cpu", "mem"):
            found[name] = max(found.get(name, 0.0), amount * math.ceil(job.ntasks / nodes))
    return found


# --------------------------------------------------------------------------- JSON


def from_json(row: Mapping[str, Any]) -> Job:
    """A row of ``jobs``. Raises `SourceError`."""
    state, identifier = words(row.get("job_state")), number(row.get("job_id"))
    if not state or identifier is None:
        raise SourceError("a job without an id or a state is among Slurm's jobs")
    array, task = number(row.get("array_job_id")), number(row.get("array_task_id"))
    asked = tres(str(row.get("tres_req_str") or row.get("tres_alloc_str") or ""))
    nodes, most = int(asked.get("node") or number(row.get("node_count")) or 1), number(row.get("max_nodes"))
    ntasks = int(number(row.get("tasks")) or 1)
    limit = number(row.get("array_max_tasks")) or 0
    tasks = str(row.get("array_task_string") or "")
    if tasks and limit and "%" not in tasks:
        tasks += f"%{limit:.0f}"
    if not tasks and array and task is not None:
        tasks = f"{task:.0f}"
    all_memory = _takes_all_memory(row)
    het, described = number(row.get("het_job_id")), str(row.get("state_description") or "")
    return Job(
        id=f"{identifier:.0f}",
        array=f"{array or identifier:.0f}",
        tasks=tasks,
        state="CG" if "COMPLETING" in state else _flagged(state),
        reason=described or str(row.get("state_reason") or ""),
        partition=str(row.get("partition") or ""),
        nodes=nodes,
        max_nodes=int(most) if most else None,
        ntasks=ntasks,
        cpus=asked.get("cpu") or number(row.get("cpus")) or 1,
        memory_mb=None if all_memory else asked.get("mem") or None,
        all_memory=all_memory,
        gres_of_node=str(row.get("tres_per_node") or ""),
        gres_of_job=str(row.get("tres_per_job") or ""),
        gres_of_task=str(row.get("tres_per_task") or ""),
        features=str(row.get("features") or ""),
        asked_nodes=str(row.get("required_nodes") or ""),
        exclusive=_excludes(row),
        reservation=str(row.get("resv_name") or ""),
        begin=number(row.get("eligible_time")) or None,
        depends=bool(row.get("dependency")),
        het=f"{het:.0f}+{number(row.get('het_job_offset')) or 0:.0f}" if het else "",
    )


def _takes_all_memory(row: Mapping[str, Any]) -> bool:
    """``--mem=0``, or no word of memory and no default: its TRES then have that of a node that slurmctld happens to
    know (22.05, 24.11). Memory by the GPU is another thing."""
    if "memory_per_node" not in row or row.get("memory_per_tres"):
        return False
    return not number(row["memory_per_node"]) and not number(row.get("memory_per_cpu"))


def _flagged(state: Sequence[str]) -> str:
    """Of ``["RUNNING", "CONFIGURING"]`` what says most; ``["PENDING", "REQUEUE_HOLD"]`` does not wait for a machine."""
    more = [word for word in state if word not in ("PENDING", "RUNNING", "SUSPENDED")]
    return (more or state)[0].upper()


def _excludes(row: Mapping[str, Any]) -> bool:
    """``shared`` is "none", or a list with that word; since 24.11 ``exclusive`` says more."""
    said = {word.lower() for word in (*words(row.get("shared")), *words(row.get("exclusive")))}
    return bool(said & {"none", "true"}) or row.get("exclusive") is True
