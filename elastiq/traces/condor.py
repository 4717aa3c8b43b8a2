"""HTCondor's history: ``condor_history -json``, ``-jsonl`` or ``-long``, or the schedd's own file.

Sources: the manual's "Job ClassAd Attributes" and condor_history(1), and what HTCondor 23.9 wrote. Sizes: RequestMemory
in MB, RequestDisk in KB. A job's run is the last one (CommittedTime): what was evicted before is no more than waiting
to a cluster that evicts nothing. The schedd's file ends each ad with a line ``*** Offset = ...``.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional, Sequence

from elastiq.traces.classads import Expression, number
from elastiq.traces.job import BadLine
from elastiq.traces.jsons import objects
from elastiq.traces.rows import Format, LeftOut, Reading, Row, Skip

KB_PER_MB = 1024.0
REMOVED, COMPLETED = 3, 4
UNFINISHED = {1: "still waiting", 2: "still running", 5: "held", 6: "still running", 7: "still running"}
NO_DEMAND = {7: "scheduler", 9: "grid", 12: "local"}  # universes whose jobs need no machine of the pool
PARALLEL = 11
NEEDED = (
    "clusterid", "procid", "qdate", "jobstatus", "jobuniverse", "jobstartdate", "jobcurrentstartdate",
    "completiondate", "enteredcurrentstatus", "remotewallclocktime", "committedtime", "numjobstarts",
    "requestcpus", "requestmemory", "requestdisk", "requestgpus", "cpusprovisioned", "memoryprovisioned",
    "diskprovisioned", "memoryusage", "diskusage", "imagesize", "residentsetsize", "maxhosts", "dagmanjobid",
    "dagnodename", "dagparentnodenames", "routedtojobid", "jobmaterializelimit", "jobmaterializemaxidle",
)  # fmt: skip
_NEEDED = frozenset(NEEDED)


def read(reading: Reading) -> Iterator[Row]:
    """By the first character that is none of a banner."""
    first = next((line.lstrip() for line in reading.source.head() if line.strip()), "")
    return _of_json(reading) if first[:1] in ("[", "{") else _of_lines(reading)


def _of_json(reading: Reading) -> Iterator[Row]:
    for number_of_line, found in objects(reading.source.blocks()):
        if isinstance(found, str):
            reading.tally.is_bad(number_of_line, BadLine(found))
        else:
            ad = {key.lower(): _unwrapped(value) for key, value in found.items()}
            yield from reading.take(number_of_line, rows_of, ad)


def _unwrapped(value: Any) -> Any:
    """An expression comes as ``/Expr(text)/``."""
    if isinstance(value, str) and value.startswith("/Expr(") and value.endswith(")/"):
        return Expression(value[6:-2])
    return value


def _of_lines(reading: Reading) -> Iterator[Row]:
    ad: dict[str, Any] = {}
    began = lines = 0
    for at, line in enumerate(reading.source.lines(), 1):
        name, equals, value = line.partition("=")
        text = name.strip()
        if not text or text.startswith("***"):
            if lines:
                yield from reading.take(began, rows_of, ad)
            ad, lines = {}, 0
        elif not equals or not (text.isidentifier() or text.replace(".", "_").isidentifier()):
            reading.tally.is_bad(at, BadLine("no attribute of a ClassAd"))
        else:
            began, lines = began if lines else at, lines + 1
            key = text.lower()
            if key in _NEEDED:
                ad[key] = _literal(value.strip())
    if lines:
        yield from reading.take(began, rows_of, ad)


def _literal(text: str) -> Any:
    if text[:1] == '"' and text[-1:] == '"':
        return text[1:-1].replace('\\"', '"')
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return {"undefined": None, "true": True, "false": False}.get(text.lower(), Expression(text))


def rows_of(ad: Mapping[str, Any]) -> Sequence[Row]:
    """The job of an ad whose names are in lower case."""
    submit_s = number(ad, "qdate")
    if not submit_s or submit_s < 0:
        raise BadLine("no QDate: no job of HTCondor")
    universe = int(number(ad, "jobuniverse") or 0)
    if universe in NO_DEMAND:
        raise Skip("jobs of the scheduler, local or grid universe")
    if "procid" not in ad and "clusterid" in ad:
        raise Skip("clusters without a job of their own")
    if ad.get("routedtojobid") is not None:
        raise Skip("jobs that were routed, their copies count")
    run_s, removed_after_s = _ran(ad, submit_s)
    name, after = _names(ad)
    machines = int(number(ad, "maxhosts") or 1) if universe == PARALLEL else 1
    cpus = _size(ad, "requestcpus", "cpusprovisioned") or 1.0
    memory_mb = _size(ad, "requestmemory", "memoryprovisioned", "memoryusage")
    disk_kb = _size(ad, "requestdisk", "diskprovisioned")
    sizes = (cpus, memory_mb, disk_kb and disk_kb / KB_PER_MB, _size(ad, "requestgpus"))
    return (Row(submit_s, run_s, *sizes, max(1, machines), name, removed_after_s, after),)


def _ran(ad: Mapping[str, Any], submit_s: float) -> tuple[float, Optional[float]]:
    """How long it ran, and after how long it was removed if it never did: had it started, it would have been let run
    until then."""
    status = int(number(ad, "jobstatus") or 0)
    if status in UNFINISHED:
        raise LeftOut(UNFINISHED[status])
    wall_s, committed_s = number(ad, "remotewallclocktime") or 0.0, number(ad, "committedtime") or 0.0
    entered_s, started_s = number(ad, "enteredcurrentstatus"), number(ad, "jobcurrentstartdate")
    if status == REMOVED:
        if wall_s > 0 or started_s or number(ad, "numjobstarts"):
            run_s = wall_s if wall_s > 0 or not started_s or not entered_s else entered_s - started_s
            return max(0.0, run_s), None
        if not entered_s:
            raise LeftOut("removed while they waited, nobody knows when")
        removed_after_s = max(0.0, entered_s - submit_s)
        return removed_after_s, removed_after_s
    ended_s = number(ad, "completiondate") or (entered_s if status == COMPLETED else None)
    if committed_s > 0:
        return committed_s, None
    if ended_s and started_s and ended_s >= started_s:
        return ended_s - started_s, None
    if wall_s > 0 or ("remotewallclocktime" in ad and status == COMPLETED):
        return wall_s, None
    raise LeftOut("without a run time")


def _size(ad: Mapping[str, Any], *names: str) -> Optional[float]:
    """The first of them that is more than nothing."""
    return next((size for size in (number(ad, name) for name in names) if size and size > 0), None)


def _names(ad: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """A job of a DAG is called by its node, as its children name their parents (DAGNodeName, DAGParentNodeNames)."""
    cluster, proc = number(ad, "clusterid"), number(ad, "procid")
    dag, node = number(ad, "dagmanjobid"), ad.get("dagnodename")
    if dag is None or not isinstance(node, str) or not node:
        return ("" if cluster is None else f"{cluster:.0f}.{proc or 0:.0f}"), ()
    parents = ad.get("dagparentnodenames")
    listed = parents.replace(",", " ").split() if isinstance(parents, str) else []
    return f"{dag:.0f}/{node}", tuple(f"{dag:.0f}/{parent}" for parent in listed)


def _looks_like(head: Sequence[str]) -> bool:
    text = "\n".join(head).lstrip()
    if text[:1] in ("[", "{"):
        return any(f'"{name}"' in text for name in ("ClusterId", "QDate", "JobStatus"))
    names = {line.partition(" = ")[0].strip() for line in head if " = " in line}
    return bool(names & {"ClusterId", "QDate", "JobStatus"}) and 2 * sum(" = " in line for line in head) > len(head)


FORMAT = Format("condor", "history of HTCondor", _looks_like, read)
