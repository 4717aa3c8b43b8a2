"""HTCondor's ads as its commands print them in JSON -> job groups and workers. Pure: no command runs here.

Facts about the format, from HTCondor's source and from a 23.9 pool: an expression is the string
``"\\/Expr(...)\\/"``, undefined is null, names of attributes are case-insensitive, an empty list is zero
bytes, a byte above 0x7f passes as it is (so that the document need not be UTF-8). RequestDisk and Disk are
KB, Memory is MB.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import json
import math
import re
import urllib.parse
from typing import Any, Iterable, Mapping, Optional, Sequence

from elastiq.interfaces import JobGroup, Resources, SourceError, Worker, WorkerState

Row = Mapping[str, Any]  # one ad: its names in lower case

WAITING = frozenset({1})
RUNNING = frozenset({2, 6, 7})  # running, transferring output, suspended: on a machine
UNIVERSES = frozenset({5, 10, 11, 13})  # vanilla, java, parallel, vm; not scheduler (7), grid (9), local (12)

JOB_ATTRIBUTES = (
    "JobStatus",
    "JobUniverse",
    "RequestCpus",
    "RequestMemory",
    "RequestDisk",
    "RequestGPUs",
    "Requirements",
    "RoutedToJobId",
)
SLOT_ATTRIBUTES = (
    "MyType",  # without it some versions print no ad at all
    *("Machine", "Name", "SlotType", "State", "Activity", "Draining", "DrainReason", "Offline"),
    *("Cpus", "Memory", "Disk", "GPUs", "TotalSlotCpus", "TotalSlotMemory", "TotalSlotDisk", "TotalSlotGPUs"),
    *("MyAddress", "EC2InstanceID", "InstanceID", "JobStarts", "DaemonStartTime", "LastHeardFrom"),
    *("StatsLifetime", "RecentStatsLifetime", "StatsLastUpdateTime"),  # the collector's own
)
SLOT_TYPES = frozenset({"machine", "slot"})  # MyType of a slot: of all versions so far, of later ones


def rows(text: str, what: str) -> list[Row]:
    """The ads of a JSON answer; `SourceError` for anything else."""
    if not text.strip():
        return []
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise SourceError(f"{what} answered something that is not JSON ({_clip(text)})") from None
    if not isinstance(parsed, list) or not all(isinstance(ad, dict) for ad in parsed):
        raise SourceError(f"{what} answered something that is no list of ads ({_clip(text)})")
    return [{name.lower(): value for name, value in ad.items()} for ad in parsed]


def _clip(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:200]).split())
    return repr(line if len(line) <= 60 else line[:57] + "...")


def number(value: Any) -> Optional[float]:
    """The value as a finite number, also from a string; None for anything else (an expression, say)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def expression(value: Any) -> str:
    """The text of an expression, empty if the value is none."""
    if isinstance(value, str) and value.startswith("/Expr(") and value.endswith(")/"):
        return value[6:-2].strip()
    return ""


def _word(row: Row, name: str) -> str:
    value = row.get(name)
    return value.lower() if isinstance(value, str) else ""


# --------------------------------------------------------------------------- jobs


def job_groups(answers: Mapping[str, Iterable[Row]]) -> tuple[JobGroup, ...]:
    """One group per shape over the answers of all schedds (their names are the keys).

    The schedd's own groups are finer: a default request refers to what was measured of the job
    (MemoryUsage, ImageSize, DiskUsage), and a group there has one state. Neither is part of a shape.
    """
    found: dict[str, JobGroup] = {}
    for schedd, groups in answers.items():
        for row in groups:
            count, waiting, running = _counts(row, schedd)
            if not (waiting or running):
                continue
            asked, conditions = request(row), requirements(row.get("requirements"))
            text = repr((asked.cpus, asked.memory_mb, asked.disk_mb, asked.gpus, conditions))
            key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            before = found.get(key)
            sample = before.sample_job if before else ""
            if waiting and not sample:
                sample = _first_job(row, schedd if len(answers) > 1 else "")
            found[key] = JobGroup(
                key=key,
                request=asked,
                waiting=(before.waiting if before else 0) + (count if waiting else 0),
                running=((before.running or 0) if before else 0) + (count if running else 0),
                requirements=conditions,
                sample_job=sample,
                not_eligible="its Requirements are false" if _canonical(conditions) == "false" else "",
            )
    return tuple(found.values())


def _counts(row: Row, schedd: str) -> tuple[int, bool, bool]:
    count = row.get("jobcount")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise SourceError(
            f"condor_q -group-by answered a group without a JobCount (schedd {schedd or 'here'})"
        )
    status, universe = (
        value if isinstance(value, int) else -1 for value in (row.get("jobstatus"), row.get("jobuniverse"))
    )
    factory = "clusterid" in row and "procid" not in row
    counts = universe in UNIVERSES and row.get("routedtojobid") is None and not factory and count > 0
    return count, counts and status in WAITING, counts and status in RUNNING


def _first_job(row: Row, schedd: str) -> str:
    found = re.search(r"\d+\.\d+", str(row.get("jobids", "")))
    return f"{found.group()}{f' of {schedd}' if schedd else ''}" if found else ""


def request(row: Row) -> Resources:
    """What the job asks for. CPUs that cannot be known count as 1 (what HTCondor itself assumes); memory,
    disk and GPUs that are no positive number are left unsaid: by default memory and disk are expressions
    over what the job was seen to use."""

    def positive(name: str) -> Optional[float]:
        value = number(row.get(name))
        return value if value is not None and value > 0 else None

    disk_kb = positive("requestdisk")
    return Resources(
        cpus=positive("requestcpus") or 1.0,
        memory_mb=positive("requestmemory"),
        disk_mb=None if disk_kb is None else disk_kb / 1024,
        gpus=positive("requestgpus"),
    )


# What condor_submit appends by itself, without blanks, scopes and outer parentheses, in lower case.
DEFAULT_CLAUSES = frozenset(
    {
        "true",
        'arch=="x86_64"',
        'opsys=="linux"',
        "disk>=requestdisk",
        "memory>=requestmemory",
        "cpus>=requestcpus",
        "gpus>=requestgpus",
        "countmatches(requiregpus,availablegpus)>=requestgpus",
        "(filesystemdomain==filesystemdomain)||(hasfiletransfer)",
        "hasfiletransfer",
    }
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
    named = [
        row.get("remotehost") or row.get("lastremotehost"),
        *str(row.get("allremotehosts") or "").split(","),
    ]
    return {name.strip().rpartition("@")[2].lower() for name in named if isinstance(name, str)} - {""}


# --------------------------------------------------------------------------- workers


def by_machine(ads: Iterable[Row]) -> dict[str, list[Row]]:
    """The slots of each machine, by its name in lower case."""
    found: dict[str, list[Row]] = {}
    for row in ads:
        name = _word(row, "machine") or _word(row, "name").rpartition("@")[2]
        if name and row.get("mytype") is not None and _word(row, "mytype") in SLOT_TYPES:
            found.setdefault(name, []).append(row)
    return found


def source_up_s(ads: Sequence[Row]) -> Optional[float]:
    """For how long the collector has been up, by its own clock only; None if it does not say.

    Its ad has no start time (23.9), but StatsLifetime, made new every COLLECTOR_UPDATE_INTERVAL (900 s); what
    it stamped as heard from others since then is later by the same clock. In its first second it knows
    nobody, not even itself. The least of several collectors counts.
    """
    heard = max((number(row.get("lastheardfrom")) or 0.0 for row in ads), default=0.0)
    ages = [] if ads else [0.0]
    for row in ads:
        if _word(row, "mytype") == "collector":
            age = number(row.get("statslifetime"))
            age = number(row.get("recentstatslifetime")) if age is None else age
            made = number(row.get("statslastupdatetime")) or heard
            ages += [] if age is None else [age + max(0.0, heard - made)]
    return min(ages, default=None)


def occupied(row: Row) -> bool:
    """Whether a job, or a schedd that is about to start one, has this slot."""
    busy = ("busy", "suspended", "vacating", "killing")
    return _word(row, "state") in ("claimed", "preempting", "matched") or _word(row, "activity") in busy


def draining(row: Row) -> bool:
    """Whether this slot takes no new job because its startd drains."""
    return (
        row.get("draining") is True
        or _word(row, "state") == "drained"
        or _word(row, "activity") == "retiring"
    )


def _free(row: Row) -> bool:
    plain = _word(row, "state") == "unclaimed" and _word(row, "activity") in ("idle", "benchmarking")
    return plain and not draining(row) and row.get("offline") is not True


def startds(slots: Iterable[Row]) -> dict[str, Row]:
    """One slot of each startd among these, by the slot's name."""
    found: dict[str, Row] = {}
    for row in slots:
        if _word(row, "name") and (
            _word(row, "slottype") != "dynamic" or _word(row, "myaddress") not in found
        ):
            found[_word(row, "myaddress")] = row
    return {row["name"]: row for row in found.values()}


def worker(name: str, slots: Sequence[Row]) -> Worker:
    """All slots of one machine, in whatever order, as one worker."""
    jobs = sum(map(occupied, slots))
    state = _state(slots, jobs)
    words = sorted({f"{row.get('state') or '?'}/{row.get('activity') or '?'}" for row in slots})
    reasons = [
        row["drainreason"] for row in slots if isinstance(row.get("drainreason"), str) and draining(row)
    ]
    starts = [value for value in (number(row.get("jobstarts")) for row in slots) if value is not None]
    began = [value for value in (number(row.get("daemonstarttime")) for row in slots) if value]
    return Worker(
        name=name,
        state=state,
        addresses=frozenset().union(*(addresses(row) for row in slots)),
        instance_id=_instance_id(slots),
        total=_total(slots),
        free=_sum([row for row in slots if _free(row)], slots),
        jobs=jobs,
        job_starts=int(max(starts)) if starts else None,  # of the whole startd, on each of its slots
        drained_by=reasons[0] if reasons else None,
        started_at=max(began, default=None),
        detail="" if state in (WorkerState.IDLE, WorkerState.BUSY) else ", ".join(words),
    )


def _state(slots: Sequence[Row], jobs: int) -> WorkerState:
    top = [row for row in slots if _word(row, "slottype") != "dynamic"]
    if any(row.get("offline") is True for row in slots):
        return WorkerState.OTHER  # a hibernating machine's last ad
    if top and all(map(draining, top)):
        ended = all(_word(row, "state") == "drained" and _word(row, "activity") == "idle" for row in top)
        return WorkerState.DRAINED if ended and not jobs else WorkerState.DRAINING
    if jobs:
        return WorkerState.BUSY
    return WorkerState.IDLE if all(map(_free, slots)) else WorkerState.OTHER


def _total(slots: Sequence[Row]) -> Resources:
    top = [row for row in slots if _word(row, "slottype") != "dynamic"]
    if top and all(number(row.get("totalslotcpus")) is not None for row in top):
        return _sum(top, top, "totalslot")
    return _sum(slots, slots)  # what is left of a partitionable slot, and what was cut from it


def _sum(chosen: Sequence[Row], said_by: Sequence[Row], prefix: str = "") -> Resources:
    def total(name: str) -> Optional[float]:
        if not any(number(row.get(prefix + name)) is not None for row in said_by):
            return None
        return sum(max(0.0, number(row.get(prefix + name)) or 0.0) for row in chosen)

    disk_kb, gpus = total("disk"), total("gpus")
    # A slot without the attribute GPUs has none, which is not the same as not said.
    return Resources(total("cpus"), total("memory"), None if disk_kb is None else disk_kb / 1024, gpus or 0.0)


def _instance_id(slots: Sequence[Row]) -> Optional[str]:
    for name in ("ec2instanceid", "instanceid"):
        found = {row[name].strip() for row in slots if isinstance(row.get(name), str)} - {""}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def addresses(row: Row) -> frozenset[str]:
    """The addresses that a slot's ad names, without any look-up: those of MyAddress (a "sinful string",
    ``<ip:port?addrs=ip-port+[ipv6]-port&PrivAddr=%3c...%3e&...>``; CCBID there is another machine), and the
    one that a NO_DNS host name is (``10-0-0-7.domain``, ``2001-db8--7.domain``; EC2's ``ip-10-0-0-7``)."""
    found = set()
    if isinstance(row.get("myaddress"), str):
        found |= _sinful(row["myaddress"])
    label = _word(row, "machine").partition(".")[0]
    label = label[3:] if label.startswith("ip-") else label
    found |= {label.replace("-", "."), label.replace("-", ":")}
    return frozenset(str(ip) for ip in map(_ip, found) if ip is not None)


def _sinful(text: str, nested: bool = False) -> set[str]:
    host_port, _, query = text.strip().lstrip("<").rstrip(">").partition("?")
    found = {host_port.rpartition(":")[0].strip("[]")}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        value = urllib.parse.unquote(value)
        if name.lower() == "addrs":
            found |= {one.rpartition("-")[0].strip("[]") for one in value.split("+")}
        elif name.lower() == "privaddr" and not nested:
            found |= _sinful(value, nested=True)
    return found


def _ip(text: str) -> Optional[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if found.is_loopback or found.is_unspecified or found.is_link_local else found
