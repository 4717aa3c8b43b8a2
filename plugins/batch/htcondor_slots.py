"""What the collector says of slots (and of itself) -> workers. Pure. Memory is MB, Disk is KB."""

from __future__ import annotations

import re
import urllib.parse
from typing import Iterable, Optional, Sequence

from elastiq.interfaces import Resources, Worker, WorkerState
from elastiq.plugins.batch import hosts
from elastiq.plugins.batch.htcondor_ads import Row, number, word

SLOT_ATTRIBUTES = (
    "MyType",  # without it some versions print no ad at all
    *("Machine", "Name", "SlotType", "State", "Activity", "Draining", "DrainReason", "Offline"),
    *("Cpus", "Memory", "Disk", "GPUs", "TotalSlotCpus", "TotalSlotMemory", "TotalSlotDisk", "TotalSlotGPUs"),
    *("MyAddress", "EC2InstanceID", "InstanceID", "JobStarts", "DaemonStartTime", "LastHeardFrom"),
    "ElastiqNotice",  # of packaging/worker-notice
    *("StatsLifetime", "RecentStatsLifetime", "StatsLastUpdateTime"),  # the collector's own
)
SLOT_TYPES = frozenset({"machine", "slot"})  # MyType of a slot: of all versions so far, of later ones
SLOTS = '(MyType == "Machine" || MyType == "Slot") && Absent =!= true'  # Absent: gone, kept as a record


def by_machine(ads: Iterable[Row]) -> dict[str, list[Row]]:
    """The slots of each machine, by its name in lower case."""
    found: dict[str, list[Row]] = {}
    for row in ads:
        if _machine(row) and word(row, "mytype") in SLOT_TYPES:
            found.setdefault(_machine(row), []).append(row)
    return found


def _machine(row: Row) -> str:
    return word(row, "machine") or word(row, "name").rpartition("@")[2]


def missing(ads: Sequence[Row]) -> tuple[str, ...]:
    """What shows that these are not all ads that there are. A collector puts its own ad among the others, 1 s
    after its start and every COLLECTOR_UPDATE_INTERVAL, whomever else it tells (`sendCollectorAd`)."""
    kinds = [word(row, "mytype") for row in ads]
    named = [kind not in SLOT_TYPES or _machine(row) if kind else not row for row, kind in zip(ads, kinds)]
    own = f"{'' if ads else 'it is empty: '}the collector's own ad is not in it"
    strange = f"{len(ads) - sum(map(bool, named))} of its ads without a name or a type"
    return (*([own] if "collector" not in kinds else []), *([strange] if not all(named) else []))


def source_up_s(ads: Sequence[Row]) -> Optional[float]:
    """For how long the collector has been up, by its own clock only; None if it does not say.

    Its ad has no start time (23.9), but StatsLifetime, made new every COLLECTOR_UPDATE_INTERVAL (900 s); what
    it stamped as heard from others since then is later by the same clock. In its first second it knows
    nobody, not even itself (`missing`). The least of several collectors counts.
    """
    heard = max(_numbers(ads, "lastheardfrom"), default=0.0)
    ages = []
    for row in (row for row in ads if word(row, "mytype") == "collector"):
        age = number(row.get("statslifetime", row.get("recentstatslifetime")))
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


def startds(slots: Iterable[Row]) -> list[str]:
    """Each startd among these, by the name of one of its slots."""
    found: dict[str, str] = {}
    for row in slots:
        if word(row, "name") and (word(row, "slottype") != "dynamic" or word(row, "myaddress") not in found):
            found[word(row, "myaddress")] = row["name"]
    return list(found.values())


def worker(name: str, slots: Sequence[Row]) -> Worker:
    """All slots of one machine, in whatever order, as one worker."""
    jobs = sum(map(occupied, slots))
    top = [row for row in slots if word(row, "slottype") != "dynamic"]  # not cut from another
    state = _state(slots, top, jobs)
    reasons = [row["drainreason"] for row in slots if isinstance(row.get("drainreason"), str) and draining(row)]
    notices = [row["elastiqnotice"] for row in slots if isinstance(row.get("elastiqnotice"), str)]
    starts = _numbers(slots, "jobstarts")
    words = sorted({f"{row.get('state') or '?'}/{row.get('activity') or '?'}" for row in slots})
    said = bool(top) and len(_numbers(top, "totalslotcpus")) == len(top)
    return Worker(
        name=name,
        state=state,
        addresses=frozenset().union(*map(addresses, slots)),
        instance_id=_instance_id(slots),
        # else what is left of a partitionable slot, and what was cut from it
        total=_sum(top, top, "totalslot") if said else _sum(slots, slots),
        free=_sum([row for row in slots if _free(row)], slots),
        jobs=jobs,
        job_starts=int(max(starts)) if starts else None,  # of the whole startd, on each of its slots
        drained_by=reasons[0] if reasons else None,
        started_at=max(_numbers(slots, "daemonstarttime"), default=None),
        notice=next(filter(None, notices), ""),
        detail="" if state in (WorkerState.IDLE, WorkerState.BUSY) else ", ".join(words),
    )


def _numbers(slots: Sequence[Row], name: str) -> list[float]:
    return [value for value in (number(row.get(name)) for row in slots) if value is not None]


def _state(slots: Sequence[Row], top: Sequence[Row], jobs: int) -> WorkerState:
    if any(row.get("offline") is True for row in slots):
        return WorkerState.OTHER  # a hibernating machine's last ad
    if top and all(map(draining, top)):
        ended = all(word(row, "state") == "drained" and word(row, "activity") == "idle" for row in top)
        return WorkerState.DRAINED if ended and not jobs else WorkerState.DRAINING
    if jobs:
        return WorkerState.BUSY
    return WorkerState.IDLE if all(map(_free, slots)) else WorkerState.OTHER


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


BROKER = re.compile("ccbid=[^&>]*")  # another machine
LITERAL = re.compile(r"\[([0-9a-f:.-]+)\]|(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})[:-]")


def addresses(row: Row) -> frozenset[str]:
    """The addresses that a slot's ad names, without any look-up: those of MyAddress (a "sinful string",
    ``<ip:port?addrs=ip-port+[ip-v6]-port&PrivAddr=%3c...%3e&...>``: dashes for an IPv6 address's colons in
    addrs), and the one that a NO_DNS host name is (``10-0-0-7.domain``, ``2001-db8--7.domain``; EC2's
    ``ip-10-0-0-7``)."""
    sinful = BROKER.sub("", urllib.parse.unquote(BROKER.sub("", word(row, "myaddress"))))
    return hosts.addresses(word(row, "machine"), (v6.replace("-", ":") or v4 for v6, v4 in LITERAL.findall(sinful)))
