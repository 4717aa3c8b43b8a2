"""What is seldom asked of the queue: how one job stands, and which jobs it records on machines that are lost."""

from __future__ import annotations

import re
import time
from itertools import chain
from typing import Mapping, Optional, Protocol, Sequence

from elastiq.interfaces import SourceError
from elastiq.plugins.batch import htcondor_jobs as queue
from elastiq.plugins.batch.htcondor_ads import Row, number

LONGEST_PATTERN = 16_000  # characters; PCRE takes some 64,000, and Linux 131,071 in one argument
SHOWN = 200  # characters of a reason that somebody else wrote
IDLE, HELD = 1, 5
STATES = {2: "runs", 3: "is being removed", 4: "is completed", 6: "transfers its output", 7: "is suspended"}
ELSEWHERE = {7: "scheduler", 9: "grid", 12: "local"}
ID = re.compile(r"(\d{1,10})(?:\.(\d{1,10}))?(?:@(\S+))?")


class EachSchedd(Protocol):
    """Ask every schedd, or only one; the answers by the schedd's name, and who gave none."""

    def __call__(self, *args: str, only: str = "") -> tuple[dict[str, list[Row]], tuple[str, ...]]: ...


def jobs_recorded_on(hosts: Sequence[str], each_schedd: EachSchedd) -> Mapping[str, int]:
    """How many jobs the schedds hold as running on these machines; raises `SourceError` unless all answer."""
    counts = dict.fromkeys(hosts, 0)
    for row in chain.from_iterable(_running_on(hosts, each_schedd).values()):
        for name in hosts_of_job(row) & counts.keys():
            counts[name] += 1
    return counts


def jobs_on(host: str, each_schedd: EachSchedd) -> tuple[str, ...]:
    """The jobs that the schedds hold as running on this machine, by name and owner; raises `SourceError` unless all
    answer."""
    found = _running_on((host,), each_schedd)
    names = []
    for schedd, rows in found.items():
        there = f"@{schedd}" if len(found) > 1 else ""
        for row in sorted((row for row in rows if host in hosts_of_job(row)), key=_number):
            owner = " ".join(str(row.get("owner") or "").split())[:SHOWN]
            names.append("{}.{}".format(*_number(row)) + there + (f" ({owner})" if owner else ""))
    return tuple(names)


def _number(row: Row) -> tuple[int, int]:
    return int(number(row.get("clusterid")) or 0), _proc(row)


def _running_on(hosts: Sequence[str], each_schedd: EachSchedd) -> Mapping[str, Sequence[Row]]:
    """The running jobs of each schedd, those on these machines among them."""
    pattern = "|".join(name.replace(".", "[.]") for name in hosts)
    there = 'strcat(RemoteHost ?: LastRemoteHost ?: "", ",", AllRemoteHosts ?: "")'
    on_them = queue.any_of("JobStatus", queue.RUNNING)
    if len(pattern) < LONGEST_PATTERN:  # else all running jobs are sent, and sorted out here
        on_them += f' && regexp("(^|@|,)({pattern})(,|$)", {there}, "i")'
    attributes = "ClusterId,ProcId,Owner,JobStatus,RemoteHost,LastRemoteHost,AllRemoteHosts"
    found, missing = each_schedd("-attributes", attributes, "-json", "-constraint", on_them)
    if missing:
        raise SourceError("; ".join(missing))
    return found


def hosts_of_job(row: Row) -> set[str]:
    """The machines on which the queue records a running job."""
    named = [row.get("remotehost") or row.get("lastremotehost"), *str(row.get("allremotehosts") or "").split(",")]
    return {name.strip().rpartition("@")[2].lower() for name in named if isinstance(name, str)} - {""}


# --------------------------------------------------------------------------- one job


def find_job(job: str, each_schedd: EachSchedd, counted: str = "") -> tuple[str, str]:
    """The key of its group, empty unless it waits for a machine, and how it stands. ``counted``: the
    condition on the jobs that elastiq looks at. Raises `SourceError`, also for a job that is in no queue."""
    asked = ID.fullmatch(job.strip())
    if asked is None:
        raise SourceError(f"{job[:40]!r} is no job of HTCondor: say CLUSTER.PROC, CLUSTER or CLUSTER.PROC@SCHEDD")
    cluster, proc, schedd = asked[1], asked[2], asked[3] or ""
    condition = f"ClusterId == {cluster}"
    if proc is None:
        # of all the jobs of a cluster, which may be many, only the numbers
        where, rows = _in_one_queue(job, schedd, each_schedd, condition, "-attributes", "ClusterId,ProcId")
        schedd, proc = where, f"{min(_proc(row) for row in rows)}"
    condition += f" && ProcId == {proc}"
    # Whole: a request may refer to any attribute, and its key must be that of the grouped answer.
    where, rows = _in_one_queue(job, schedd, each_schedd, condition)
    name = f"{cluster}.{proc}" + (f" of {where}" if where else "")
    stands = standing(rows[0])
    if stands is not None:
        return "", f"job {name} {stands}"
    if counted:
        both = f"{condition} && ({counted})"
        if not any(each_schedd("-attributes", "ClusterId", "-json", "-constraint", both, only=where)[0].values()):
            return "", f"job {name} is idle, but not counted: constraint in [htcondor] leaves it out"
    return queue.shape(rows[0]).key, f"job {name} {waiting(rows[0])}"


def _in_one_queue(
    job: str, schedd: str, each_schedd: EachSchedd, condition: str, *what: str
) -> tuple[str, Sequence[Row]]:
    """The rows of the only queue that has such jobs, with the schedd's name."""
    answers, missing = each_schedd(*what, "-json", "-constraint", condition, only=schedd)
    # without a ProcId it is what a factory makes jobs of
    found = {name: jobs for name, rows in answers.items() if (jobs := [row for row in rows if _proc(row) >= 0])}
    if len(found) > 1:
        raise SourceError(f"job {job} is in more than one queue: say {' or '.join(f'{job}@{name}' for name in found)}")
    for name, rows in found.items():
        return name, rows
    if missing:
        raise SourceError(f"job {job} was not found, but not everybody answered: {'; '.join(missing)}")
    raise SourceError(f"no queue holds job {job}: it ended (condor_history knows), or there never was such a job")


def _proc(row: Row) -> int:
    found = number(row.get("procid"))
    return -1 if found is None else int(found)


def standing(row: Row) -> Optional[str]:
    """How a job stands that waits for no machine, None of one that does."""
    status, universe = row.get("jobstatus"), row.get("jobuniverse")
    if status == HELD:
        return f"is held{_since(row)}: {_said(row, 'holdreason') or 'no reason given'}"
    if status != IDLE:
        hosts = ", ".join(sorted(hosts_of_job(row))) if status in queue.RUNNING else ""
        what = STATES.get(status or 0, f"has the JobStatus {status}, which says nothing to elastiq")
        return what + (f" on {hosts}" if hosts else "") + _since(row)
    if universe in ELSEWHERE:
        return f"is idle{_since(row)}, but runs on no worker: it is of the {ELSEWHERE[universe]} universe"
    if universe not in queue.UNIVERSES:
        return f"is idle{_since(row)}, but of a universe ({universe}) that elastiq does not know"
    if row.get("routedtojobid") is not None:
        return f"is idle{_since(row)}, but was routed: job {row['routedtojobid']} is it now"
    return None


def waiting(row: Row) -> str:
    """How a job stands that waits for a machine."""
    group = queue.shape(row)
    told = _said(row, "lastrejmatchreason")
    several = f", for {group.nodes} machines at once" if group.nodes > 1 else ""
    starts = number(row.get("numjobstarts"))
    again = f", after {starts:.0f} start{'' if starts == 1 else 's'}" if starts else ""
    why_not = f"; no worker can run it: {group.not_eligible}" if group.not_eligible else ""
    said = f'; the negotiator\'s last word: "{told}"' if told else "; the negotiator has not considered it yet"
    return f"is idle{_since(row)}{again}{several}{why_not}{said}"


def _since(row: Row) -> str:
    at = number(row.get("enteredcurrentstatus"))
    return f" since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}" if at and at < 2**33 else ""


def _said(row: Row, name: str) -> str:
    value = row.get(name)
    return " ".join(value.split())[:SHOWN] if isinstance(value, str) else ""
