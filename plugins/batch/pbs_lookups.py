"""What is seldom asked of PBS: how one job stands, and which jobs it records on machines that are lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Iterator, Mapping, Sequence

from elastiq.errors import SourceError
from elastiq.plugins.batch import pbs_jobs
from elastiq.plugins.batch.pbs_rows import Record
from elastiq.plugins.batch.shapes import key_among

if TYPE_CHECKING:
    from elastiq.plugins.batch.pbs import PBS

ID = re.compile(r"\d{1,12}(?:\[\d*\]|-\d+)?(?:\.[A-Za-z0-9][\w.-]*)?")
SHOWN = 200  # characters of a comment that somebody else wrote
ENDED = frozenset("QHWCFMX")  # with a host, it is the one of an earlier run
STATES = {
    "R": "runs",
    "E": "is ending",
    "S": "is suspended",
    "U": "is suspended, its machine's user works",
    "H": "is held, or waits for another job",
    "W": "waits for its hour",
    "T": "is on its way to another queue or server",
    "M": "was moved to another server",
    "C": "has ended",
    "F": "has ended",
    "X": "has ended",
}


def jobs_recorded_on(pbs: PBS, workers: Sequence[str]) -> Mapping[str, int]:
    """How many jobs the server holds as running on these hosts."""
    counts = dict.fromkeys(workers, 0)
    for record in pbs.all_jobs(members=True)[0] if workers else ():
        for name in set(filter(None, (_named(host, workers) for host in _hosts(record)))):
            counts[name] += 1
    return counts


def jobs_on(pbs: PBS, worker: str) -> tuple[str, ...]:
    """The jobs that the server holds as running there, by name and owner."""
    names = []
    for record in pbs.all_jobs(members=True)[0]:
        if any(_named(host, (worker,)) for host in _hosts(record)):
            owner = record.get("job_owner").partition("@")[0][:SHOWN]
            names.append(record.name + (f" ({owner})" if owner else ""))
    return tuple(names)


def _hosts(record: Record) -> Iterator[str]:
    """Of ``w1/0-1+w2/2``, ``w1/0*2+w2/0*2``, ``w1/0+w1/1``."""
    if record.get("job_state") not in ENDED:
        for part in record.get("exec_host").split("+"):
            if host := part.partition("/")[0].strip().lower():
                yield host


def _named(host: str, workers: Sequence[str]) -> str:
    """Which of the workers a job's host is: that of the same name, else one of which it is the short name (PBS Pro) or
    the whole one; empty if it is none."""
    if host in workers:
        return host
    alike = (name for name in workers if "." not in name or "." not in host)
    return next((name for name in alike if name.partition(".")[0] == host.partition(".")[0]), "")


def find_job(pbs: PBS, job: str) -> tuple[str, str]:
    """The key of its group, empty unless it waits for a machine, and how it stands. Raises `SourceError`."""
    if not ID.fullmatch(job.strip()):
        raise SourceError(f"{job[:40]!r} is no job of PBS: say 12, 12.SERVER or 12[3]")
    record = _read(pbs, job.strip())
    state = record.get("job_state")
    name, comment = f"job {record.name}", " ".join(record.get("comment").split())[:SHOWN]
    said = f'; the scheduler\'s last word: "{comment}"' if comment else ""
    if state not in (pbs_jobs.WAITING, pbs_jobs.BEGUN):
        hosts = ", ".join(dict.fromkeys(_hosts(record)))
        how = STATES.get(state, f"has the state {state or '?'}, which says nothing to elastiq")
        return "", f"{name} {how}{f' on {hosts}' if hosts else ''}{said}"
    queue, only = record.get("queue"), pbs.values.get("queues") or ()
    if only and queue not in only:
        return "", f"{name} is queued, but not counted: `queues` in [{pbs.section}] leaves out {queue}"
    closed = pbs_jobs.closed_queues(pbs.ask_queues())
    shape = pbs_jobs.completed(pbs.shapes(record)[0][1], record, closed, pbs.held_back())
    several = f", for {shape.nodes} machines at once" if shape.nodes > 1 else ""
    why_not = f"; no worker can run it: {shape.not_eligible}" if shape.not_eligible else ""
    return key_among(shape, lambda: pbs.jobs().groups), f"{name} is queued in {queue}{several}{why_not}{said}"


def _read(pbs: PBS, job: str) -> Record:
    try:
        found = pbs.ask_jobs(job)
    except SourceError as error:
        if re.search(r"unknown job|has finished", str(error), re.IGNORECASE):  # exit codes 153 and 35
            raise SourceError(f"the server holds no job {job}: it ended, or there never was such a job") from None
        raise
    if not found:
        raise SourceError(f"the server holds no job {job}: it ended, or there never was such a job")
    return found[0]
