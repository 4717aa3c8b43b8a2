"""What the schedds say of their jobs -> job groups. Pure. RequestMemory is MB, RequestDisk is KB."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Iterable, Mapping, Optional

from elastiq.interfaces import JobGroup, Resources, SourceError
from elastiq.plugins.batch.htcondor_ads import Row, number, word

WAITING = (1,)
RUNNING = (2, 6, 7)  # running, transferring output, suspended: on a machine
UNIVERSES = (5, 10, 11, 13)  # vanilla, java, parallel, vm; not scheduler (7), grid (9), local (12)

JOB_ATTRIBUTES = (
    *("JobStatus", "JobUniverse", "RoutedToJobId", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs"),
    *("Requirements", "ElastiqPool", "MaxHosts", "ConcurrencyLimits", "AcctGroup", "LastRejMatchReason"),
)
# The Requirements that condor_submit writes by itself (23.9), as they are printed.
BY_DEFAULT = re.compile(
    r'/Expr\(\(TARGET\.Arch == "X86_64"\)(?: && \((?:TARGET\.OpSys == "LINUX"|TARGET\.HasFileTransfer'
    r"|TARGET\.(Disk|Memory|Cpus|GPUs) >= Request\1"
    r"|\(TARGET\.FileSystemDomain == MY\.FileSystemDomain\) \|\| \(TARGET\.HasFileTransfer\))\))*\)/"
)


def job_groups(answers: Mapping[str, Iterable[Row]]) -> tuple[JobGroup, ...]:
    """One group per shape over the answers of all schedds (their names are the keys).

    The schedd's own groups are finer: a default request refers to what was measured of the job
    (MemoryUsage, ImageSize, DiskUsage), and a group there has one state. Neither is part of a shape.
    """
    found: dict[str, JobGroup] = {}
    limited: list[tuple[str, Row]] = []  # with the key
    for schedd, row in ((schedd, row) for schedd, groups in answers.items() for row in groups):
        waiting, running = _counts(row, schedd)
        if not (waiting or running):
            continue
        new = shape(row)
        group = found.get(new.key, new)
        sample = group.sample_job
        if waiting and not sample:
            sample = word(row, "jobids").partition(" ")[0]  # of "4.0 4.1" or "4.0 ... 4.9"
            sample += f" of {schedd}" if sample and len(answers) > 1 else ""
        running += group.running or 0
        found[new.key] = replace(group, waiting=group.waiting + waiting, running=running, sample_job=sample)
        if "concurrencylimits" in row:
            limited.append((new.key, row))
    if limited:
        from elastiq.plugins.batch.htcondor_special import hold_back

        hold_back(found, limited)
    return tuple(found.values())


def shape(row: Row) -> JobGroup:
    """The group that a job is of, with no job in it."""
    asked, conditions, own = request(row), "", ()  # type: Resources, str, tuple[str, ...]
    if not BY_DEFAULT.fullmatch(str(row.get("requirements"))):
        from elastiq.plugins.batch.htcondor_own_ads import conditions_of

        conditions, own = conditions_of(row)
    key = digest((asked.cpus, asked.memory_mb, asked.disk_mb, asked.gpus, conditions, *own))
    why_not = "its Requirements are false" if conditions.strip("() ").lower() == "false" else ""
    group = JobGroup(key, asked, 0, 0, conditions, not_eligible=why_not, ad=own)
    if row.get("jobuniverse") == 11 or not {"elastiqpool", "concurrencylimits", "acctgroup"}.isdisjoint(row):
        from elastiq.plugins.batch.htcondor_special import special

        return special(group, row)
    return group


def any_of(attribute: str, values: Iterable[int]) -> str:
    """The condition that an attribute has one of these values."""
    return f"({' || '.join(f'{attribute} == {value}' for value in values)})"


def digest(shape: tuple[object, ...]) -> str:
    """The key of a group."""
    return hashlib.sha256(repr(shape).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _counts(row: Row, schedd: str) -> tuple[int, int]:
    """How many jobs of this group wait, and how many run."""
    count, status = row.get("jobcount"), row.get("jobstatus")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise SourceError(f"condor_q -group-by answered a group without a JobCount (schedd {schedd or 'here'})")
    factory = "clusterid" in row and "procid" not in row
    if factory or row.get("routedtojobid") is not None or row.get("jobuniverse") not in UNIVERSES:
        return 0, 0
    return count if status in WAITING else 0, count if status in RUNNING else 0


def request(row: Row) -> Resources:
    """What the job asks for. CPUs that cannot be known count as 1 (what HTCondor itself assumes); memory,
    disk and GPUs that are no positive number are left unsaid. Of expressions see `htcondor_expressions`."""

    def positive(name: str, unit: int = 1) -> Optional[float]:
        value = row.get(name)
        found = number(value)
        if found is None and isinstance(value, str) and not (DEFAULTS.fullmatch(value) and _small(row)):
            from elastiq.plugins.batch.htcondor_expressions import asked

            found = asked(name, value, row)
        return found / unit if found is not None and found > 0 else None

    cpus, disk_mb = positive("requestcpus") or 1.0, positive("requestdisk", 1024)
    return Resources(cpus, positive("requestmemory"), disk_mb, positive("requestgpus"))


# The defaults of condor_submit: over what was measured of the job, which says nothing while it is small (1 GB).
DEFAULTS = re.compile(r"/Expr\((DiskUsage|ifthenelse\(MemoryUsage (isnt|=!=) undefined, ?MemoryUsage,.*)\)/", re.I)


def _small(row: Row) -> bool:
    return "memoryusage" not in row and all((number(row.get(name)) or 0) < 2**20 for name in ("imagesize", "diskusage"))
