"""What the schedds say of their jobs -> job groups. Pure. RequestMemory is MB, RequestDisk is KB."""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import replace
from typing import Any, Iterable, Mapping, Optional

from elastiq.interfaces import JobGroup, Resources, SourceError
from elastiq.plugins.batch.htcondor_ads import Row, expression, number

WAITING = frozenset({1})
RUNNING = frozenset({2, 6, 7})  # running, transferring output, suspended: on a machine
UNIVERSES = frozenset({5, 10, 11, 13})  # vanilla, java, parallel, vm; not scheduler (7), grid (9), local (12)

JOB_ATTRIBUTES = (
    *("JobStatus", "JobUniverse", "RoutedToJobId"),
    *("RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "Requirements"),
)


def job_groups(answers: Mapping[str, Iterable[Row]]) -> tuple[JobGroup, ...]:
    """One group per shape over the answers of all schedds (their names are the keys).

    The schedd's own groups are finer: a default request refers to what was measured of the job
    (MemoryUsage, ImageSize, DiskUsage), and a group there has one state. Neither is part of a shape.
    """
    found: dict[str, JobGroup] = {}
    for schedd, row in ((schedd, row) for schedd, groups in answers.items() for row in groups):
        waiting, running = _counts(row, schedd)
        if not (waiting or running):
            continue
        asked, conditions = request(row), requirements(row.get("requirements"))
        text = repr((asked.cpus, asked.memory_mb, asked.disk_mb, asked.gpus, conditions))
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        why_not = "its Requirements are false" if _canonical(conditions) == "false" else ""
        group = found.get(key) or JobGroup(key, asked, 0, 0, conditions, not_eligible=why_not)
        sample = group.sample_job
        if waiting and not sample:
            sample = _first_job(row, schedd if len(answers) > 1 else "")
        running += group.running or 0
        found[key] = replace(group, waiting=group.waiting + waiting, running=running, sample_job=sample)
    return tuple(found.values())


def _counts(row: Row, schedd: str) -> tuple[int, int]:
    """How many jobs of this group wait, and how many run."""
    count, status, universe = (row.get(name) for name in ("jobcount", "jobstatus", "jobuniverse"))
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise SourceError(f"condor_q -group-by answered a group without a JobCount (schedd {schedd or 'here'})")
    factory = "clusterid" in row and "procid" not in row
    if not (isinstance(status, int) and isinstance(universe, int) and universe in UNIVERSES):
        return 0, 0
    if factory or row.get("routedtojobid") is not None:
        return 0, 0
    return count if status in WAITING else 0, count if status in RUNNING else 0


def _first_job(row: Row, schedd: str) -> str:
    found = re.search(r"\d+\.\d+", str(row.get("jobids", "")))
    return f"{found.group()}{f' of {schedd}' if schedd else ''}" if found else ""


def request(row: Row) -> Resources:
    """What the job asks for. CPUs that cannot be known count as 1 (what HTCondor itself assumes); memory,
    disk and GPUs that are no positive number are left unsaid: by default memory and disk are expressions
    over what the job was seen to use."""

    def positive(name: str, unit: int = 1) -> Optional[float]:
        value = number(row.get(name))
        return value / unit if value is not None and value > 0 else None

    cpus, disk_mb = positive("requestcpus") or 1.0, positive("requestdisk", 1024)
    return Resources(cpus, positive("requestmemory"), disk_mb, positive("requestgpus"))


# What condor_submit appends by itself, without blanks, scopes and outer parentheses, in lower case.
DEFAULT_CLAUSES = frozenset(
    """
    true arch=="x86_64" opsys=="linux" disk>=requestdisk memory>=requestmemory cpus>=requestcpus gpus>=requestgpus
    countmatches(requiregpus,availablegpus)>=requestgpus (filesystemdomain==filesystemdomain)||(hasfiletransfer)
    hasfiletransfer
    """.split()
)


def requirements(value: Any) -> str:
    """The job's Requirements without HTCondor's default clauses. Where the text is not plainly a chain of
    ``&&`` it stays whole."""
    if value is None or isinstance(value, bool):
        return "false" if value is False else ""
    return _without_defaults(expression(value) or str(value).strip())


@functools.lru_cache(maxsize=256)  # a queue has few texts, in every row of every read
def _without_defaults(text: str) -> str:
    clauses = _clauses(text)
    if clauses is None:
        return text
    return " && ".join(clause for clause in clauses if _canonical(clause) not in DEFAULT_CLAUSES)


def _clauses(text: str) -> Optional[list[str]]:
    """The operands of a chain of && on the outermost level, None if it is not surely one."""
    outer = _outermost(text)
    if outer is None or "||" in outer or "?" in outer:
        return None
    ends = [found.start() for found in re.finditer("&&", outer)]
    starts = [0, *(end + 2 for end in ends)]
    parts = [text[start:end].strip() for start, end in zip(starts, [*ends, len(text)])]
    return parts if all(parts) else None


def _outermost(text: str) -> Optional[str]:
    """The text with all that is in quotes or brackets blanked, None if they do not pair."""
    shown, depth, quote, escaped = [], 0, "", False
    for char in text:
        blank = bool(quote) or depth > 0
        if quote:
            quote = "" if char == quote and not escaped else quote
            escaped = char == "\\" and not escaped
        elif char in "\"'":
            quote, blank = char, True
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                return None
        shown.append(" " if blank else char)
    return None if depth or quote else "".join(shown)


def _canonical(clause: str) -> str:
    bare = re.sub(r"\b(target|my)\.|\s+", "", clause.lower())
    while bare.startswith("(") and bare.endswith(")") and _outermost(bare[1:-1]) is not None:
        bare = bare[1:-1]
    return bare


def hosts_of_job(row: Row) -> set[str]:
    """The machines on which the queue records a running job."""
    named = [row.get("remotehost") or row.get("lastremotehost"), *str(row.get("allremotehosts") or "").split(",")]
    return {name.strip().rpartition("@")[2].lower() for name in named if isinstance(name, str)} - {""}
