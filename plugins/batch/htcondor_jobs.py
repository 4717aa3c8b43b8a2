"""What the schedds say of their jobs -> job groups. Pure. RequestMemory is MB, RequestDisk is KB."""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import replace
from typing import Any, Iterable, Mapping, Optional

from elastiq.interfaces import JobGroup, Resources, SourceError
from elastiq.plugins.batch.htcondor_ads import Row, number, word

WAITING = (1,)
RUNNING = (2, 6, 7)  # running, transferring output, suspended: on a machine
UNIVERSES = (5, 10, 11, 13)  # vanilla, java, parallel, vm; not scheduler (7), grid (9), local (12)

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
        why_not = "its Requirements are false" if conditions.strip("() ").lower() == "false" else ""
        group = found.get(key) or JobGroup(key, asked, 0, 0, conditions, not_eligible=why_not)
        sample = group.sample_job
        if waiting and not sample:
            sample = word(row, "jobids").partition(" ")[0]  # of "4.0 4.1" or "4.0 ... 4.9"
            sample += f" of {schedd}" if sample and len(answers) > 1 else ""
        running += group.running or 0
        found[key] = replace(group, waiting=group.waiting + waiting, running=running, sample_job=sample)
    return tuple(found.values())


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
    text = str(value).strip()
    return _without_defaults(text[6:-2].strip() if text.startswith("/Expr(") and text.endswith(")/") else text)


@functools.lru_cache(maxsize=256)  # a queue has few texts, in every row of every read
def _without_defaults(text: str) -> str:
    outer = _outermost(text)
    if outer is None or "||" in outer or "?" in outer:
        return text
    ends = [found.start() for found in re.finditer("&&", outer)]
    starts = [0, *(end + 2 for end in ends)]
    clauses = [text[start:end].strip() for start, end in zip(starts, [*ends, len(text)])]
    return " && ".join(one for one in clauses if _canonical(one) not in DEFAULT_CLAUSES) if all(clauses) else text


QUOTED = re.compile(r"""(["'])(?:(?!\1|\\).|\\.)*(\1?)""", re.DOTALL)
INNERMOST = re.compile(r"\([^][(){}]*\)|\[[^][(){}]*\]|\{[^][(){}]*\}")
DEEPEST = 32  # brackets within brackets: deeper is nobody's, and would take long


def _outermost(text: str) -> Optional[str]:
    """The text with all that is in quotes or brackets blanked, None if they do not pair."""
    text = QUOTED.sub(lambda found: " " * len(found.group()) if found.group(2) else found.group(1), text)
    for _ in range(DEEPEST):
        text, found = INNERMOST.subn(lambda found: " " * len(found.group()), text)
        if not found:
            break
    return None if re.search(r"""[][(){}"']""", text) else text


def _canonical(clause: str) -> str:
    bare = re.sub(r"\b(target|my)\.|\s+", "", clause.lower())
    while bare.startswith("(") and bare.endswith(")") and _outermost(bare[1:-1]) is not None:
        bare = bare[1:-1]
    return bare


def hosts_of_job(row: Row) -> set[str]:
    """The machines on which the queue records a running job."""
    named = [row.get("remotehost") or row.get("lastremotehost"), *str(row.get("allremotehosts") or "").split(",")]
    return {name.strip().rpartition("@")[2].lower() for name in named if isinstance(name, str)} - {""}
