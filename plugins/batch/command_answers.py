"""What the executables of [command] print -> job groups and workers. Pure.

`command_schema` has looked at the form; what only a look at the whole tells is refused here.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Iterator, Mapping, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import Jobs, Resources, Worker, Workers, WorkerState
from elastiq.plugins.batch.command_schema import document, shown
from elastiq.plugins.batch.hosts import addresses
from elastiq.plugins.batch.shapes import Groups, Shape

Row = Mapping[str, Any]
SIZES = tuple(Resources.__dataclass_fields__)
SHAPE = (*SIZES, "nodes", "apart", "pools", "requirements", "not_eligible")


@dataclass(frozen=True)
class Listed:
    """A list of jobs. ``lists_running``: every running job is there, with its workers."""

    rows: tuple[Row, ...]
    lists_running: bool
    missing: tuple[str, ...]

    def of(self, job: str) -> list[Row]:
        """The elements of that name; one for several jobs is nobody's."""
        return [row for row in self.rows if row.get("id") == job and _count(row) == 1]


def listed(text: str, running: bool = False) -> Listed:
    """``running``: it is what the jobs on some workers were asked of. Raises `SourceError`: what was printed, and what
    was expected. A job that runs nobody knows where would be missed on the machine that is ended."""
    whole = document(text, "jobs")
    found = Listed(tuple(whole["jobs"]), whole.get("lists_running", False), _missing(whole))
    for number, row in enumerate(found.rows):
        state, where = row.get("state", "waiting"), row.get("workers")
        if state == "waiting" and where:
            raise SourceError(f'printed jobs[{number}] that is waiting, on workers, expected "running" or "held"')
        if state == "running" and not where and (running or found.lists_running):
            raise SourceError(f"printed jobs[{number}] that is running, expected its workers too")
    return found


def jobs(found: Listed) -> Jobs:
    """By their shapes. How many run is only told where all of them are listed, that some do always."""
    groups = Groups()
    shapes: dict[str, Shape] = {}  # 10,000 jobs are few shapes, and to make one costs more than to find it
    for row in found.rows:
        state = row.get("state", "waiting")
        if state == "held":
            continue
        said = repr([row.get(key) for key in SHAPE])
        one = shapes.get(said) or shapes.setdefault(said, shape(row))
        groups.add(one, **{state: _count(row)}, sample=row.get("id", ""))
    counted = groups.all()
    return Jobs(counted if found.lists_running else tuple(replace(g, running=None) for g in counted), found.missing)


def shape(row: Row) -> Shape:
    """What makes the job one of its group."""
    pools = tuple(sorted({name.lower() for name in row.get("pools", ())}))
    requirements, not_eligible = line(row.get("requirements", "")), line(row.get("not_eligible", ""))
    nodes, apart = int(row.get("nodes", 1)), row.get("apart", False)
    return Shape(sizes(row), requirements, not_eligible, pools, nodes, apart=apart)


def recorded(found: Listed, workers: Sequence[str]) -> dict[str, list[str]]:
    """The names of the jobs on each of these, one for each job, whatever holds it there. Raises `SourceError` for an
    answer in part."""
    if found.missing:
        raise SourceError(f"its answer is incomplete: {'; '.join(found.missing)}")
    names: dict[str, list[str]] = {worker.lower(): [] for worker in workers}
    for number, row in enumerate(found.rows):
        for worker in {name.lower() for name in row.get("workers", ())} & names.keys():
            names[worker] += [row.get("id") or f"jobs[{number}]"] * _count(row)
    return {worker: names[worker.lower()] for worker in workers}


def line(text: str) -> str:
    """For a person: in one line."""
    return "".join(char if char.isprintable() else " " for char in text)


def _missing(whole: Row) -> tuple[str, ...]:
    return tuple(map(line, whole.get("missing", ())))


def _count(row: Row) -> int:
    return int(row.get("count", 1))


def sizes(row: Row) -> Resources:
    return Resources(*(row.get(name) for name in SIZES))


# --------------------------------------------------------------------------- workers


def workers(text: str) -> tuple[Workers, dict[str, str]]:
    """The workers, and how each name is spelt. Raises `SourceError`: what was printed, and what was expected."""
    whole = document(text, "workers")
    spelt = {row["name"].lower(): row["name"] for row in whole["workers"]}
    twice = [name for name, count in Counter(row["name"].lower() for row in whole["workers"]).items() if count > 1]
    if twice:
        raise SourceError(f"printed the worker {shown(twice[0])} twice, expected each once")
    found = tuple(_worker(number, row) for number, row in enumerate(whole["workers"]))
    return Workers(found, whole.get("source_up_s"), _missing(whole)), spelt


def _worker(number: int, row: Row) -> Worker:
    total, count = sizes(row), int(row.get("jobs", 0))
    state = WorkerState(row["state"])
    if count:  # two words that contradict each other: the one by which nothing is ended
        state = {WorkerState.IDLE: WorkerState.BUSY, WorkerState.DRAINED: WorkerState.DRAINING}.get(state, state)
    nothing = total.less(total)
    rest = total if state is WorkerState.IDLE else nothing
    free = sizes(row.get("free", {})).merged(rest).merged(total, min)
    told = {key: line(row[key]) for key in ("instance_id", "drained_by", "detail", "notice") if row.get(key)}
    starts = None if row.get("job_starts") is None else int(row["job_starts"])
    where = frozenset(_addresses(number, row))
    return Worker(
        row["name"].lower(),
        state,
        where,
        total=total,
        free=free,
        jobs=count,
        job_starts=starts,
        started_at=row.get("started_at"),
        **told,
    )


def _addresses(number: int, row: Row) -> Iterator[str]:
    for index, text in enumerate(row.get("addresses", ())):
        try:
            ipaddress.ip_address(text)
        except ValueError:
            at = f"workers[{number}].addresses[{index}]"
            raise SourceError(f"printed {at}: {shown(text)}, expected an IP address") from None
    yield from addresses("" if row.get("addresses") else row["name"], row.get("addresses", ()))
