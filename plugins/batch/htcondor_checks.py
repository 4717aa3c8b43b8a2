"""What can be found wrong with a pool before the first drain: `elastiqctl check`. Only reads.

docs/check.md says what each means.
"""

from __future__ import annotations

import re
import shutil
from functools import partial
from typing import Any, Callable, Iterable, Iterator

from elastiq.command import CommandResult
from elastiq.interfaces import BatchSystem, Check, Jobs, Looks, SourceError
from elastiq.plugins.batch.htcondor_ads import Row, number, word
from elastiq.plugins.batch.htcondor_bindings import GET_THEM, Bindings, NoBindings

Run = Callable[..., CommandResult]
Ask = Callable[..., list[Row]]
DOCS = "docs/htcondor.md"
RUNS = "see that it runs, and that this machine and user may ask it"


def looks(batch: BatchSystem, run: Run, ask: Ask, constrained: bool, bindings: Bindings, by_bindings: bool) -> Looks:
    """The checks of a pool, each by its subject. ``run`` executes a command of HTCondor, ``ask`` reads its ads;
    ``constrained`` if not all jobs are asked for, ``by_bindings`` if queries go by the bindings."""
    found: dict[str, Callable[[str], Iterable[Check]]] = {
        "collector": partial(_collector, batch),
        "queue": partial(_queue, batch, ask, constrained),
        "drain": partial(_drain, batch, run, ask),
        "packing": partial(_packing, run),
        "workers' policy": partial(_policy, batch.jobs, ask),
    }
    return {
        "commands": partial(_commands, batch, "commands"),
        **{subject: partial(_with_commands, batch, look, subject) for subject, look in found.items()},
        "bindings": partial(_bindings, bindings, by_bindings, "bindings"),
    }


def _absent(batch: BatchSystem) -> str:
    wanted = ("condor_status", "condor_q", *(("condor_drain",) if batch.can_drain else ()))
    return ", ".join(tool for tool in wanted if shutil.which(tool) is None)


def _commands(batch: BatchSystem, subject: str) -> Iterator[Check]:
    absent = _absent(batch)
    if absent:
        remedy = "install HTCondor's commands, or put them on the PATH, or set batch_plugin if it is another"
        yield Check(subject, "error", f"{absent} not found", remedy)
    else:
        yield Check(subject, "ok", f"found: {shutil.which('condor_q')}")


def _with_commands(batch: BatchSystem, look: Callable[[str], Iterable[Check]], subject: str) -> Iterator[Check]:
    if absent := _absent(batch):
        raise SourceError(f"not looked at: there is no {absent}")
    yield from look(subject)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _collector(batch: BatchSystem, subject: str) -> Iterator[Check]:
    try:
        found = batch.workers()
    except SourceError as error:
        yield Check(subject, "error", str(error), RUNS)
        return
    if found.missing:
        text = f"its answer is incomplete: {', '.join(found.missing)}"
        yield Check(subject, "warning", text, f"wait if it has just started; else see {DOCS}")
    else:
        yield Check(subject, "ok", f"answers, knows {_count(len(found.workers), 'worker')}")


def _queue(batch: BatchSystem, ask: Ask, constrained: bool, subject: str) -> Iterator[Check]:
    try:
        jobs = batch.jobs()
    except SourceError as error:
        yield Check(subject, "error", str(error), RUNS)
        return
    if jobs.missing:
        yield Check(subject, "warning", f"not all schedds answer: {'; '.join(jobs.missing)}", RUNS)
    else:
        yield Check(subject, "ok", "every schedd answers")
    yield from _of_all_users(jobs, ask, constrained)


def _of_all_users(jobs: Jobs, ask: Ask, constrained: bool) -> Iterator[Check]:
    """By the schedds' own ads, which count the jobs of everybody."""
    subject, seen = "jobs of all users", sum(group.waiting + (group.running or 0) for group in jobs.groups)
    totals, later = ("TotalIdleJobs", "TotalRunningJobs"), "JobsUnmaterialized"
    listed = ask("condor_status", "-schedd", "-json", "-attributes", ",".join(("MyType", "Name", *totals, later)))
    told = sum(number(row.get(name.lower())) or 0 for row in listed for name in totals)
    if not seen and told and not constrained:
        text = f"the queue shows none, while the schedds' ads, up to 5 minutes old, speak of {told:g}"
        remedy = "check again in 5 minutes; if it stays so, they are hidden from this user: give it READ at the schedd"
        yield Check(subject, "warning", text, f"{remedy} ({DOCS})")
        return
    to_come = sum(int(number(row.get(later.lower())) or 0) for row in listed)
    unseen = f"; {to_come} more are to be made by late materialisation, and are not counted before" if to_come else ""
    which = "that `constraint` lets through" if constrained else "of all users"
    yield Check(subject, "ok", f"{_count(seen, 'job')} {which}, waiting or running{unseen}")


def _drain(batch: BatchSystem, run: Run, ask: Ask, subject: str) -> Iterator[Check]:
    """By a security negotiation alone (condor_ping): nothing is drained."""
    if not batch.can_drain:
        text = "drain = no: a job that starts right before a machine's end is lost with it"
        yield Check(subject, "warning", text, f"let elastiq drain, if you can ({DOCS})")
        return
    slots = ask("condor_status", "-json", "-attributes", "MyType,MyAddress")
    targets: list[tuple[str, ...]] = [("-type", "COLLECTOR")]
    targets += [("-type", "STARTD", "-address", str(row.get("myaddress"))) for row in slots[:1]]
    said = ""
    for target in targets:
        result = run("condor_ping", *target, "-quiet", "ADMINISTRATOR")
        if result.returncode == 0:
            yield Check(subject, "ok", f"allowed by the {target[1].lower()}")
            return
        said = said or ("" if result.complaint == result.ending else f": {result.complaint}")
    remedy = f"give its token ADMINISTRATOR, or set drain = no in [htcondor] ({DOCS})"
    yield Check(subject, "error", f"elastiq may not drain workers{said}", remedy)


RANK = "NEGOTIATOR_PRE_JOB_RANK"


def _packing(run: Run, subject: str) -> Iterator[Check]:
    yield Check(subject, *_order(run))


def _order(run: Run) -> tuple[str, ...]:
    """What the negotiator says of the order in which it fills machines: the administrator's choice, never wrong."""
    remedy = f"look on the central manager: condor_config_val {RANK} ({DOCS})"
    try:
        result = run("condor_config_val", "-negotiator", RANK)
    except SourceError as error:
        return "unknown", f"the negotiator's {RANK} is not known ({error})", remedy
    rank = " ".join(result.text.split())
    if result.returncode != 0 or not rank:
        return "unknown", f"the negotiator does not tell its {RANK}: {result.complaint}", remedy
    if "daemonstarttime" in rank.lower():
        return "ok", f"the oldest machine first ({RANK})"
    if rank != "Not defined" and not re.search(r"-\s*\(?\s*\d+\s*\*\s*Cpus", rank, re.IGNORECASE):
        return "ok", f"by a {RANK} of the administrator's own: {rank[:100]}"
    better = f"the oldest first mostly costs less: elastiqctl simulate --placement oldest, {DOCS}"
    return "ok", f"HTCondor's default (fewest free cpus first); {better}"


def _policy(jobs: Callable[[], Jobs], ask: Ask, subject: str) -> Iterator[Check]:
    yield Check(subject, *_start_and_rank(jobs, ask))


def _start_and_rank(jobs: Callable[[], Jobs], ask: Ask) -> tuple[str, ...]:
    """START and RANK of the workers that are there, out of their ads."""
    attributes = "MyType,Machine,Name,SlotType,Start,Rank,DedicatedScheduler"
    slots = [row for row in ask("condor_status", "-json", "-attributes", attributes) if word(row, "machine")]
    slots = [row for row in slots if word(row, "slottype") != "dynamic"]
    if not slots:
        return "ok", "no worker is there to look at"
    closed = sorted({word(row, "machine") for row in slots if row.get("start") is False})
    if closed:
        return "warning", f"START is false on {_some(closed)}: no job ever starts there", "START = True"
    evicting = sorted({word(row, "machine") for row in slots if _evicts(row.get("rank"))})
    if evicting:
        text = f"RANK on {_some(evicting)} is an expression over jobs: a job that it ranks higher evicts one that runs"
        return "warning", text, "RANK = 0, and order by NEGOTIATOR_PRE_JOB_RANK"
    parallel = [group for group in jobs().groups if group.nodes > 1]
    if parallel and not any(row.get("dedicatedscheduler") for row in slots):
        text = f"{_count(sum(group.waiting for group in parallel), 'parallel job')} can start nowhere"
        lines = 'DedicatedScheduler = "DedicatedScheduler@SCHEDD", STARTD_ATTRS = $(STARTD_ATTRS) DedicatedScheduler'
        return "warning", f"{text}: no worker names a dedicated scheduler", f"on the workers: {lines} ({DOCS})"
    return "ok", f"START and RANK of {_count(len({word(row, 'machine') for row in slots}), 'worker')} are in order"


def _evicts(rank: Any) -> bool:
    """Whether the ranks of two jobs can differ; the dedicated scheduler's own must."""
    return isinstance(rank, str) and "scheduler" not in rank.lower()


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _bindings(bindings: Bindings, by_bindings: bool, subject: str) -> Iterator[Check]:
    """Whether they are there, and work."""
    try:
        version = bindings.version()
    except NoBindings as error:
        without = "jobs are matched with machines by their sizes alone, not by their Requirements"
        level, what = ("error", "query_method = bindings cannot work") if by_bindings else ("warning", without)
        yield Check(subject, level, f"{what}: {error.why}", GET_THEM)
    except SourceError as error:
        yield Check(subject, "error", str(error), GET_THEM)
    else:
        yield Check(subject, "ok", f"{version}: jobs are matched with machines by HTCondor's own rules")
