"""What is seldom asked of Slurm's queue: how one job stands, and which jobs are on machines."""

from __future__ import annotations

import re
from typing import Callable, Iterable, Mapping, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import JobGroup
from elastiq.plugins.batch import hostlists
from elastiq.plugins.batch.shapes import key_among
from elastiq.plugins.batch.slurm_jobs import PENDING, RUNNING, Job, shape, tasks_of, why_not
from elastiq.plugins.batch.slurm_records import SEPARATOR, UNSET, table

# %i is 12, 12_3 or 12+1; each takes the room that it needs (squeue(1), --format).
ON_NODES = SEPARATOR.join(("%i", "%t", "%u", "%N")) + SEPARATOR
ID = re.compile(r"(\d{1,10})(?:_(\d{1,10})|\+(\d{1,10}))?")


def on_nodes(text: str, command: str) -> dict[str, list[str]]:
    """The jobs on each node, as "12_3 (alice)", by the node's name: those that start, run, are suspended or end.
    Raises `SourceError`."""
    found: dict[str, list[str]] = {}
    for job, state, user, nodes in table(text, 4, command):
        if state in PENDING or nodes in UNSET:
            continue
        try:
            names = hostlists.expand(nodes)
        except ValueError as error:
            raise SourceError(f"{command}: job {job}: {error}") from None
        for name in names:
            found.setdefault(name, []).append(f"{job} ({user})" if user else job)
    return found


def lowered(jobs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """By the names that workers have."""
    found: dict[str, list[str]] = {}
    for name, there in jobs.items():
        found.setdefault(name.lower(), []).extend(there)
    return found


def find_job(
    job: str,
    listed: Callable[[str], Iterable[Job]],
    partitions: Sequence[str],
    now: float,
    groups: Callable[[], Iterable[JobGroup]],
) -> tuple[str, str]:
    """The key of its group, empty unless it waits for a machine, and how it stands. ``listed`` asks for the jobs of an
    id, ``groups`` for those of all jobs. Raises `SourceError`."""
    asked = ID.fullmatch(job.strip())
    if asked is None:
        raise SourceError(f"{job[:40]!r} is no job of Slurm: say JOB, ARRAY_TASK or JOB+OFFSET, as 12, 12_3 or 12+1")
    there = list(listed(asked[1]))
    found = [one for one in there if _is_it(one, asked[1], asked[2], asked[3])]
    if not found:
        raise SourceError(
            f"the queue does not hold job {job.strip()}: it ended (sacct knows), or there never was such a job"
        )
    one = min(found, key=lambda each: (each.state not in PENDING, each.het))  # of a heterogeneous one the first part
    if one.state in RUNNING:
        return "", f"job {one.name} is on a machine ({one.state})"
    if one.state not in PENDING:
        return "", f"job {one.name} is in state {one.state}: it does not wait for a machine"
    reason = one.reason or "None"
    blocked = why_not(one, now)
    if blocked is None:
        return "", f"job {one.name} is pending, but not for a machine: {reason}"
    if partitions and not {*one.partition.split(",")} & {*partitions}:
        return "", f"job {one.name} is pending, but not counted: `partitions` in [slurm] does not name {one.partition}"
    several = shape(one).nodes
    many = f", for {several} nodes or tasks at once" if several > 1 else ""
    no_use = f"; no new machine can run it: {blocked}" if blocked else ""
    more = _of_the_array(one, there) + _other_parts(one, found)
    said = f'job {one.name} is pending{many}{no_use}{more}; Slurm says: "{reason}"'
    return key_among(shape(one, blocked), groups), said


def _of_the_array(one: Job, there: Iterable[Job]) -> str:
    """How many of its tasks count, where not all of those that wait may run."""
    waiting, limit = tasks_of(one)
    if limit is None:
        return ""
    running = sum(job.array == one.array and job.state in RUNNING for job in there)
    counted = max(0, min(waiting, limit - running))
    return f"; of its {waiting} tasks that wait, {counted} count: {limit} may run at once (%{limit}), {running} do"


def _other_parts(one: Job, found: Iterable[Job]) -> str:
    """Of a heterogeneous job that was asked for as a whole."""
    others = ", ".join(sorted(job.name for job in found if job.het and job.name != one.name)[:10])
    return f"; this is one part of a heterogeneous job, explain the others too: {others}" if others else ""


def _is_it(job: Job, number: str, task: str, offset: str) -> bool:
    if offset:
        return job.het == f"{number}+{int(offset)}"
    if job.het and job.het.partition("+")[0] == number:
        return True
    if task and job.tasks and not job.tasks.isdigit():
        return job.array == number and job.state in PENDING
    return (job.array == number and job.tasks == task) if task else number in (job.id, job.array)
