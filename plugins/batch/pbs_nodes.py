"""The nodes of PBS -> workers. Pure.

One host may be several vnodes (PBS Pro): a worker is all of them. Node states come as a list, ``down,offline``; facts:
pbs_node_attributes(7), ND_* of pbs_ifl.h, public captures. ``jobs`` is in Torque ``0/136.srv, 1/136.srv`` or, since 5,
``0-1/136.srv,2/137.srv,0,3/138.srv``, where a comma also stands inside a list of cores; in PBS Pro it is ``17[2].srv/0,
17[2].srv/1``, and in its JSON the numbers of the jobs alone. A job of several cores comes several times.

A node that is down, or whose MOM has never called (state-unknown; in Torque it has no ``status``), is no worker: it
is a record, and nobody is behind it. A server that was restarted knows its nodes as down until their MOMs call.
"""

from __future__ import annotations

import re
from typing import Iterable, Optional, Sequence

from elastiq.interfaces import Resources, Worker, WorkerState
from elastiq.plugins.batch import hosts
from elastiq.plugins.batch.pbs_requests import count, size_mb
from elastiq.plugins.batch.pbs_rows import Record

GONE = frozenset({"down", "state-unknown", "unknown", "unresolvable", "stale", "sleep", "deleted"})
CLAIMED = frozenset({"job-exclusive", "job-busy", "job-sharing"})
TAKEN = frozenset({*CLAIMED, "busy", "reserve", "resv-exclusive", "resv-busy", "maintenance", "provisioning"})
OFFLINE = "offline"
STALE = "stale"  # a vnode that its MOM tells nothing of any more


def by_host(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The vnodes of each host, by its name in lower case."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(host(record), []).append(record)
    return found


def host(record: Record) -> str:
    """The name of the host that a node is, or is a part of. Natural vnodes have the host's name or one of their own."""
    name = record.get("resources_available.host") or record.name.partition("[")[0]
    same = record.name.lower().partition(".")[0] == name.lower().partition(".")[0]
    return (record.name if same else name).lower()


def states(record: Record) -> frozenset[str]:
    """Torque 6 tells apart whether a node has been powered down."""
    words = {word.strip().lower() for word in record.get("state").split(",") if word.strip()}
    power = record.get("power_state", "Running").lower()
    return frozenset(words if power == "running" else {*words, f"power {power}"})


def jobs(record: Record) -> list[str]:
    """The jobs that the server has put there, each once."""
    text = record.get("jobs").replace(" ", "")
    parts = [part for word in text.split(",") for part in word.split("/")]
    return list(dict.fromkeys(part for part in parts if part and not re.fullmatch(r"\d+(?:-\d+)?", part)))


def cores_in_use(record: Record) -> int:
    """Of a node of Torque: how many of its ``np`` have a job."""
    total, open_list = 0, 0
    for word in record.get("jobs").replace(" ", "").split(","):
        cores, slash, _ = word.partition("/")
        first, dash, last = cores.partition("-")
        if first.isdigit():
            open_list += int(last) - int(first) + 1 if dash and last.isdigit() else 1
        if slash:
            total, open_list = total + open_list, 0
    return total


def is_up(record: Record) -> bool:
    return not states(record) & GONE


def any_up(nodes: Iterable[Record]) -> bool:
    return any(map(is_up, nodes))


def worker(name: str, nodes: Sequence[Record], addresses: frozenset[str] = frozenset()) -> Worker:
    """All that is up of one host, as one worker. Its ``addresses`` are those that its name does not spell."""
    nodes = [node for node in nodes if STALE not in states(node) or jobs(node)] or nodes
    up = [node for node in nodes if is_up(node)]
    words = frozenset().union(*map(states, nodes))
    count_of_jobs = max(len({job for node in nodes for job in jobs(node)}), int(bool(words & CLAIMED)))
    offline = bool(up) and all(OFFLINE in states(node) for node in up)
    state = _state(words, count_of_jobs, offline, whole=len(up) == len(nodes))
    total = _sum([_has(node) for node in up])
    takes_jobs = state in (WorkerState.IDLE, WorkerState.BUSY)
    open_nodes = [node for node in up if takes_jobs and not states(node) & (TAKEN | {OFFLINE})]
    return Worker(
        name=name,
        state=state,
        addresses=hosts.addresses(name, addresses),
        total=total,
        free=_sum([total.less(total), *map(_free, open_nodes)]),
        jobs=count_of_jobs,
        drained_by=marks(nodes) if offline else None,
        detail="" if takes_jobs else ", ".join(sorted(words)),
    )


def marks(nodes: Sequence[Record]) -> str:
    """What is written at the nodes (Torque: note, PBS Pro: comment); empty if that is nothing."""
    return next(filter(None, (node.get("note") or node.get("comment") for node in nodes)), "")


def _state(words: frozenset[str], count_of_jobs: int, offline: bool, whole: bool) -> WorkerState:
    """A node is idle only if it is nothing but free: ``free`` beside jobs is a node with room left."""
    if offline:
        return WorkerState.DRAINING if count_of_jobs else WorkerState.DRAINED
    if count_of_jobs:
        return WorkerState.BUSY
    return WorkerState.IDLE if words == {"free"} and whole else WorkerState.OTHER


def _has(node: Record) -> Resources:
    """Torque tells the memory as the MOM measures it, with everything else that it measures, in ``status``."""
    if "np" in node.attributes:
        physical = re.search(r"(?:^|,)physmem=([^,]+)", node.get("status"))
        memory_mb = size_mb(physical[1]) if physical else None
        return Resources(count(node.get("np")), memory_mb, gpus=count(node.get("gpus", "0")))
    return _of(node, "resources_available", None)


def _free(node: Record) -> Resources:
    """Torque does not tell how much memory its jobs were given."""
    has = _has(node)
    if "np" not in node.attributes:
        return has.less(_of(node, "resources_assigned", 0.0))
    used = Resources(
        float(cores_in_use(node)), None if jobs(node) else 0.0, gpus=None if jobs(node) and has.gpus else 0.0
    )
    return has.less(used)


def _of(node: Record, attribute: str, absent: Optional[float]) -> Resources:
    """A host without ``ngpus`` has none."""
    asked = {name: node.get(f"{attribute}.{name}") for name in ("ncpus", "mem", "ngpus")}
    cpus = count(asked["ncpus"]) if asked["ncpus"] else absent
    memory_mb = size_mb(asked["mem"]) if asked["mem"] else absent
    return Resources(cpus, memory_mb, gpus=count(asked["ngpus"]) if asked["ngpus"] else 0.0)


def _sum(parts: Sequence[Resources]) -> Resources:
    """Size by size; not said where one part does not say it."""
    columns = zip(*(vars(part).values() for part in parts)) if parts else ((None,),) * 4
    return Resources(*(None if None in column else sum(column) for column in columns))
