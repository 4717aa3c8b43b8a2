"""What can be found wrong with a pool before the first drain. Only reads."""

from __future__ import annotations

import re
import shutil
from typing import Any, Callable, Iterator

from elastiq.command import CommandResult
from elastiq.interfaces import BatchSystem, Check, Jobs, SourceError
from elastiq.plugins.batch.htcondor_ads import Row, number, word

Run = Callable[..., CommandResult]
Ask = Callable[..., list[Row]]
DOCS = "docs/htcondor.md"


def check_pool(batch: BatchSystem, run: Run, ask: Ask, constrained: bool) -> Iterator[Check]:
    """Commands, collector, schedds, other users' jobs, the right to drain. ``run`` executes a command of
    HTCondor, ``ask`` reads its ads; ``constrained`` if not all jobs are asked for."""
    wanted = ("condor_status", "condor_q", *(("condor_drain",) if batch.can_drain else ()))
    absent = [tool for tool in wanted if shutil.which(tool) is None]
    if absent:
        text = f"{', '.join(absent)} not found: install HTCondor's commands, or put them on the PATH"
        yield Check("htcondor commands", "error", text)
        return
    yield Check("htcondor commands", "ok", "found")
    looks: dict[str, Callable[[], tuple[str, str]]] = {
        "htcondor collector": lambda: _collector(batch),
        "htcondor queue": lambda: _queue(batch, ask, constrained),
        "htcondor drain": lambda: _drain(run, ask) if batch.can_drain else NO_DRAIN,
        "htcondor packing": lambda: _packing(run),
        "htcondor workers' policy": lambda: _policy(batch.jobs, ask),
    }
    for name, look in looks.items():
        try:
            yield Check(name, *look())
        except SourceError as error:
            yield Check(name, "error", str(error))


NO_DRAIN = ("warning", "drain = no: a job that starts right before a machine's end is lost with it")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _collector(batch: BatchSystem) -> tuple[str, str]:
    found = batch.workers()
    if found.missing:
        return "warning", f"its answer is incomplete: {', '.join(found.missing)}"
    return "ok", f"answers, knows {_count(len(found.workers), 'worker')}"


def _queue(batch: BatchSystem, ask: Ask, constrained: bool) -> tuple[str, str]:
    jobs = batch.jobs()
    if jobs.missing:
        return "warning", f"not all schedds answer: {'; '.join(jobs.missing)}"
    seen = sum(group.waiting + (group.running or 0) for group in jobs.groups)
    totals, later = ("TotalIdleJobs", "TotalRunningJobs"), "JobsUnmaterialized"
    listed = ask("condor_status", "-schedd", "-json", "-attributes", ",".join(("MyType", "Name", *totals, later)))
    told = sum(number(row.get(name.lower())) or 0 for row in listed for name in totals)
    if not seen and told and not constrained:
        text = f"shows no job, while the schedds' ads, up to 5 minutes old, speak of {told:g}:"
        return "warning", f"{text} if that stays so, other users' jobs are hidden from us"
    to_come = sum(int(number(row.get(later.lower())) or 0) for row in listed)
    unseen = f"; {to_come} more are to be made by late materialisation, and are not counted before" if to_come else ""
    return "ok", f"shows {_count(seen, 'job')} of all users, waiting or running{unseen}"


def _drain(run: Run, ask: Ask) -> tuple[str, str]:
    slots = ask("condor_status", "-json", "-attributes", "MyType,MyAddress")
    targets: list[tuple[str, ...]] = [("-type", "COLLECTOR")]
    targets += [("-type", "STARTD", "-address", str(row.get("myaddress"))) for row in slots[:1]]
    for target in targets:
        if run("condor_ping", *target, "-quiet", "ADMINISTRATOR").returncode == 0:
            return "ok", f"allowed by the {target[1].lower()}"
    hint = f"allow it, or set drain = no in [htcondor] (see {DOCS})"
    return "error", f"elastiq may not drain workers: {hint}"


# Oldest machine of the smallest size that takes the job: the younger ones become idle, and can end.
RANK = "NEGOTIATOR_PRE_JOB_RANK"
OLDEST_FIRST = f"{RANK} = 1.0e13 * MY.Rank + 1.0e12 * (RemoteOwner =?= undefined) - 1.0e8 * TotalCpus - DaemonStartTime"


def _packing(run: Run) -> tuple[str, str]:
    """What the negotiator says of the order in which it fills machines; that it does not say is no fault."""
    try:
        result = run("condor_config_val", "-negotiator", RANK)
    except SourceError as error:
        return "ok", f"the negotiator's {RANK} is not known ({error})"
    rank = " ".join(result.text.split())
    if result.returncode != 0 or not rank:
        return "ok", f"the negotiator does not tell its {RANK}: {result.complaint}"
    if "daemonstarttime" in rank.lower():
        return "ok", f"the negotiator fills the oldest machines first ({RANK})"
    if rank != "Not defined" and not re.search(r"-\s*\(?\s*\d+\s*\*\s*Cpus", rank, re.IGNORECASE):
        return "ok", f"the negotiator has a {RANK} of its own: {rank[:100]}"
    cost = "the negotiator fills the machine with the fewest free cpus first, which in simulations cost 1 to 14 % more"
    return "warning", f"{cost} machine-hours than the oldest first; on the central manager: {OLDEST_FIRST} (see {DOCS})"


def _policy(jobs: Callable[[], Jobs], ask: Ask) -> tuple[str, str]:
    """START and RANK of the workers that are there, out of their ads."""
    attributes = "MyType,Machine,Name,SlotType,Start,Rank,DedicatedScheduler"
    slots = [row for row in ask("condor_status", "-json", "-attributes", attributes) if word(row, "machine")]
    slots = [row for row in slots if word(row, "slottype") != "dynamic"]
    if not slots:
        return "ok", "no worker is there to look at"
    closed = sorted({word(row, "machine") for row in slots if row.get("start") is False})
    if closed:
        return "warning", f"START is false on {_some(closed)}: no job ever starts there; START = True"
    evicting = sorted({word(row, "machine") for row in slots if _evicts(row.get("rank"))})
    if evicting:
        why = "a job that it ranks higher evicts one that runs; RANK = 0, and order by NEGOTIATOR_PRE_JOB_RANK"
        return "warning", f"RANK on {_some(evicting)} is an expression over jobs: {why}"
    parallel = [group for group in jobs().groups if group.nodes > 1]
    if parallel and not any(row.get("dedicatedscheduler") for row in slots):
        text = f"{_count(sum(group.waiting for group in parallel), 'parallel job')} can start nowhere"
        lines = 'DedicatedScheduler = "DedicatedScheduler@SCHEDD", STARTD_ATTRS = $(STARTD_ATTRS) DedicatedScheduler'
        return "warning", f"{text}: no worker names a dedicated scheduler; on the workers: {lines} (see {DOCS})"
    return "ok", f"START and RANK of {_count(len({word(row, 'machine') for row in slots}), 'worker')} are in order"


def _evicts(rank: Any) -> bool:
    """Whether the ranks of two jobs can differ; the dedicated scheduler's own must."""
    return isinstance(rank, str) and "scheduler" not in rank.lower()


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
