"""What the collector says of slots (and of itself) -> workers. Pure. Memory is MB, Disk is KB."""

from __future__ import annotations

import ipaddress
import urllib.parse
from typing import Iterable, Optional, Sequence

from elastiq.interfaces import Resources, Worker, WorkerState
from elastiq.plugins.batch.htcondor_ads import Row, number, word

SLOT_ATTRIBUTES = (
    "MyType",  # without it some versions print no ad at all
    *("Machine", "Name", "SlotType", "State", "Activity", "Draining", "DrainReason", "Offline"),
    *("Cpus", "Memory", "Disk", "GPUs", "TotalSlotCpus", "TotalSlotMemory", "TotalSlotDisk", "TotalSlotGPUs"),
    *("MyAddress", "EC2InstanceID", "InstanceID", "JobStarts", "DaemonStartTime", "LastHeardFrom"),
    *("StatsLifetime", "RecentStatsLifetime", "StatsLastUpdateTime"),  # the collector's own
)
SLOT_TYPES = frozenset({"machine", "slot"})  # MyType of a slot: of all versions so far, of later ones


def by_machine(ads: Iterable[Row]) -> dict[str, list[Row]]:
    """The slots of each machine, by its name in lower case."""
    found: dict[str, list[Row]] = {}
    for row in ads:
        name = word(row, "machine") or word(row, "name").rpartition("@")[2]
        if name and row.get("mytype") is not None and word(row, "mytype") in SLOT_TYPES:
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
        if word(row, "mytype") == "collector":
            age = number(row.get("statslifetime"))
            age = number(row.get("recentstatslifetime")) if age is None else age
            made = number(row.get("statslastupdatetime")) or heard
            ages += [] if age is None else [age + max(0.0, heard - made)]
    return min(ages, default=None)


def occupied(row: Row) -> bool:
    """Whether a job, or a schedd that is about to start one, has this slot."""
    busy = ("busy", "suspended", "vacating", "killing")
    return word(row, "state") in ("claimed", "preempting", "matched") or word(row, "activity") in busy


def draining(row: Row) -> bool:
    """Whether this slot takes no new job because its startd drains."""
    return row.get("draining") is True or word(row, "state") == "drained" or word(row, "activity") == "retiring"


def _free(row: Row) -> bool:
    plain = word(row, "state") == "unclaimed" and word(row, "activity") in ("idle", "benchmarking")
    return plain and not draining(row) and row.get("offline") is not True


def startds(slots: Iterable[Row]) -> dict[str, Row]:
    """One slot of each startd among these, by the slot's name."""
    found: dict[str, Row] = {}
    for row in slots:
        if word(row, "name") and (word(row, "slottype") != "dynamic" or word(row, "myaddress") not in found):
            found[word(row, "myaddress")] = row
    return {row["name"]: row for row in found.values()}


def worker(name: str, slots: Sequence[Row]) -> Worker:
    """All slots of one machine, in whatever order, as one worker."""
    jobs = sum(map(occupied, slots))
    state = _state(slots, jobs)
    words = sorted({f"{row.get('state') or '?'}/{row.get('activity') or '?'}" for row in slots})
    reasons = [row["drainreason"] for row in slots if isinstance(row.get("drainreason"), str) and draining(row)]
    starts = _numbers(slots, "jobstarts")
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
        started_at=max(_numbers(slots, "daemonstarttime"), default=None),
        detail="" if state in (WorkerState.IDLE, WorkerState.BUSY) else ", ".join(words),
    )


def _numbers(slots: Sequence[Row], name: str) -> list[float]:
    return [value for value in (number(row.get(name)) for row in slots) if value is not None]


def _top(slots: Sequence[Row]) -> list[Row]:
    """The slots that are not cut from another."""
    return [row for row in slots if word(row, "slottype") != "dynamic"]


def _state(slots: Sequence[Row], jobs: int) -> WorkerState:
    top = _top(slots)
    if any(row.get("offline") is True for row in slots):
        return WorkerState.OTHER  # a hibernating machine's last ad
    if top and all(map(draining, top)):
        ended = all(word(row, "state") == "drained" and word(row, "activity") == "idle" for row in top)
        return WorkerState.DRAINED if ended and not jobs else WorkerState.DRAINING
    if jobs:
        return WorkerState.BUSY
    return WorkerState.IDLE if all(map(_free, slots)) else WorkerState.OTHER


def _total(slots: Sequence[Row]) -> Resources:
    top = _top(slots)
    if top and all(number(row.get("totalslotcpus")) is not None for row in top):
        return _sum(top, top, "totalslot")
    return _sum(slots, slots)  # what is left of a partitionable slot, and what was cut from it


def _sum(chosen: Sequence[Row], said_by: Sequence[Row], prefix: str = "") -> Resources:
    def total(name: str, unit: int = 1) -> Optional[float]:
        if not _numbers(said_by, prefix + name):
            return None
        return sum(max(0.0, value) for value in _numbers(chosen, prefix + name)) / unit

    # A slot without the attribute GPUs has none, which is not the same as not said.
    return Resources(total("cpus"), total("memory"), total("disk", 1024), total("gpus") or 0.0)


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
    label = word(row, "machine").partition(".")[0]
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
