"""Accounting records of Torque, PBS Pro and OpenPBS: ``04/18/2024 12:00:00;E;123.server;key=value ...``.

Sources: Torque's guide, "Accounting records", and PBS Pro's administrator's guide, "Accounting": E ends a job and has
all of it, Q is written when it comes into a queue, S when it starts, D when it was deleted, A when the server gave it
up, R when it was run again. ctime is its submission, start and end are those of its last run, in seconds since 1970.
A job that was deleted before it started has no E: what it asked for is known where Q has it, as OpenPBS writes it.
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from elastiq.traces.job import BadLine
from elastiq.traces.rows import Format, LeftOut, Reading, Row, Skip
from elastiq.traces.units import american_s, duration_s, number, size_mb, whole

_RECORD = re.compile(r"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);(\w{1,2});([^;]*);(.*)", re.DOTALL)
_PAIR = re.compile(r"""([A-Za-z_][\w.\-]*)=("(?:[^"\\]|\\.)*"|'[^']*'|\S*)""")
ENDS = ("E",)
STARTS, DELETED, QUEUED = ("S",), ("D", "A"), ("Q",)
RECORDS = "jobs' starts, queue and other records"
MOST_QUEUED = 200_000
BYTE_MB = 2.0**-20
WORD = 8  # bytes: pbs_resources(7)


class Chunk(NamedTuple):
    """So many equal parts of a job, each on one machine."""

    number: int
    cpus: float
    memory_mb: Optional[float] = None
    gpus: Optional[float] = None


def read(reading: Reading) -> Iterator[Row]:
    """A file has the records of one day; put together, they are a trace."""
    queued: dict[str, tuple[str, str]] = {}  # those that wait, with when they came and the rest of their record

    def parse(line: str) -> Sequence[Row]:
        text = line.rstrip("\r\n")
        if not text.strip():
            return ()
        found = _RECORD.fullmatch(text)
        if not found:
            raise BadLine("no accounting record")
        at, kind, name, rest = found.groups()
        if kind in QUEUED:
            if len(queued) < MOST_QUEUED:
                queued[name] = (at, rest)
            raise Skip(RECORDS)
        came = queued.pop(name, None) if kind in (*STARTS, *ENDS, *DELETED) else None
        if kind in DELETED and came is not None:
            return _deleted(name, *came, at)
        if kind not in ENDS:
            raise Skip(RECORDS)
        return _ended(name, _pairs(rest))

    return reading.rows(parse)


def _pairs(text: str) -> dict[str, str]:
    """Blanks around are no part of a value; quotes are not either."""
    return {key: value[1:-1] if value[:1] in ("'", '"') else value for key, value in _PAIR.findall(text)}


def _ended(name: str, said: Mapping[str, str]) -> Sequence[Row]:
    if "[]" in name:
        raise Skip("arrays as a whole, whose jobs have records of their own")
    submit_s = _first(said, ("ctime", "qtime", "etime"))
    if submit_s is None:
        raise BadLine("no time of submission (ctime)")
    start_s, end_s = _first(said, ("start",)), _first(said, ("end",))
    if start_s is not None and end_s is not None and end_s >= start_s:
        run_s = end_s - start_s
    elif said.get("resources_used.walltime"):
        run_s = duration_s(said["resources_used.walltime"])
    else:
        raise LeftOut("without a run time")
    return [_row(chunk, submit_s, run_s, name) for chunk in chunks(said)]


def _deleted(name: str, came: str, rest: str, at: str) -> Sequence[Row]:
    """It would have run as long as it was allowed to."""
    said = _pairs(rest)
    if not any(key.startswith("Resource_List.") for key in said):
        raise LeftOut("deleted while they waited, the log does not say what they asked for")
    submit_s = _first(said, ("ctime", "qtime"))
    submit_s = american_s(came) if submit_s is None else submit_s
    removed_after_s = max(0.0, american_s(at) - submit_s)
    limit = said.get("Resource_List.walltime", "")
    run_s = duration_s(limit) if limit else removed_after_s
    return [_row(chunk, submit_s, run_s, name, removed_after_s) for chunk in chunks(said)]


def _row(chunk: Chunk, submit_s: float, run_s: float, name: str, removed_after_s: Optional[float] = None) -> Row:
    machines, cpus, memory_mb, gpus = chunk
    return Row(submit_s, run_s, cpus, memory_mb, None, gpus, machines, name, removed_after_s)


def chunks(said: Mapping[str, str]) -> list[Chunk]:
    """What a job asks for. Torque: ``nodes=2:ppn=4+1:ppn=8:gpus=1``, ``procs=8`` or ``ncpus=4``, with ``mem`` of the
    job and ``pmem`` of a processor. PBS Pro: ``select=2:ncpus=4:mem=8gb``, and with it the sums of it."""
    asked = {key[len("Resource_List.") :]: value for key, value in said.items() if key.startswith("Resource_List.")}
    if asked.get("select"):
        of_pbs = [_of_chunk(part, "ncpus", 1.0) for part in asked["select"].split("+")]
        return [_packed(of_pbs)] if asked.get("place", "").startswith("pack") else of_pbs
    nodes = asked.get("nodes", "").partition("#")[0]
    found = [_of_chunk(part, "ppn", 1.0) for part in nodes.split("+") if part]
    cpus = max(_count(asked.get("ncpus", "")), _count(asked.get("procs", "")))
    alone = not found or (len(found) == 1 and found[0].number == 1 and found[0].cpus == 1)
    if alone:
        machines = max(1, int(_count(asked.get("nodect", ""))))
        gpus = found[0].gpus if found else _count(asked.get("ngpus", "")) or None
        found = [Chunk(machines, max(1.0, cpus) / machines, None, gpus)]
    return [_with_memory(chunk, asked, sum(each.number * each.cpus for each in found)) for chunk in found]


def _of_chunk(text: str, cpus_key: str, cpus: float) -> Chunk:
    """A name instead of a number is one machine."""
    first, *words = text.strip().split(":")
    machines = whole(first) if first.isdecimal() else 1
    memory_mb = gpus = None
    for word in [*words, *([] if first.isdecimal() else [first])]:
        key, _, value = word.partition("=")
        if key == cpus_key:
            cpus = _count(value) or 1.0
        elif key in ("gpus", "ngpus"):
            gpus = _count(value) or None
        elif key == "mem":
            memory_mb = _size_mb(value)
    return Chunk(machines, cpus, memory_mb, gpus)


def _packed(found: Sequence[Chunk]) -> Chunk:
    """All on one machine."""
    memory = [chunk.memory_mb * chunk.number for chunk in found if chunk.memory_mb is not None]
    gpus = [chunk.gpus * chunk.number for chunk in found if chunk.gpus is not None]
    cpus = sum(chunk.cpus * chunk.number for chunk in found)
    return Chunk(1, cpus, sum(memory) if memory else None, sum(gpus) if gpus else None)


def _with_memory(chunk: Chunk, asked: Mapping[str, str], all_cpus: float) -> Chunk:
    sizes = []
    whole, each = (_size_mb(asked.get(key, "")) for key in ("mem", "pmem"))
    if whole:
        sizes.append(whole * chunk.cpus / all_cpus)
    if each:
        sizes.append(each * chunk.cpus)
    return chunk._replace(memory_mb=max(sizes)) if sizes else chunk


def _size_mb(text: str) -> Optional[float]:
    """Of ``4gb``, ``512mb``, ``1000000`` (bytes), ``2mw`` (words)."""
    if not text:
        return None
    words = text[-1] in "wW"
    return size_mb(text[:-1] + "b" if words else text, without=BYTE_MB) * (WORD if words else 1)


def _count(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdecimal() else 0.0


def _first(said: Mapping[str, str], keys: Sequence[str]) -> Optional[float]:
    """The first time of these that there is."""
    return next((number(said[key], "no time") for key in keys if said.get(key, "0") not in ("0", "")), None)


def _looks_like(head: Sequence[str]) -> bool:
    lines = [line for line in head if line.strip()]
    return 2 * sum(bool(_RECORD.match(line)) for line in lines) > len(lines)


FORMAT = Format("torque", "accounting log of Torque or PBS", _looks_like, read)
