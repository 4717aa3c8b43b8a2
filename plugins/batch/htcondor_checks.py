"""What can be found wrong with a pool before the first drain. Only reads."""

from __future__ import annotations

import shutil
from typing import Callable, Iterator

from elastiq.command import CommandResult
from elastiq.interfaces import BatchSystem, Check, SourceError
from elastiq.plugins.batch.htcondor_ads import Row, number

Run = Callable[..., CommandResult]
Ask = Callable[..., list[Row]]


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
    totals = ("TotalIdleJobs", "TotalRunningJobs")
    listed = ask("condor_status", "-schedd", "-json", "-attributes", ",".join(("MyType", "Name", *totals)))
    told = sum(number(row.get(name.lower())) or 0 for row in listed for name in totals)
    if not seen and told and not constrained:
        text = f"shows no job, while the schedds' ads, up to 5 minutes old, speak of {told:g}:"
        return "warning", f"{text} if that stays so, other users' jobs are hidden from us"
    return "ok", f"shows {_count(seen, 'job')} of all users, waiting or running"


def _drain(run: Run, ask: Ask) -> tuple[str, str]:
    slots = ask("condor_status", "-json", "-attributes", "MyType,MyAddress")
    targets: list[tuple[str, ...]] = [("-type", "COLLECTOR")]
    targets += [("-type", "STARTD", "-address", str(row.get("myaddress"))) for row in slots[:1]]
    for target in targets:
        if run("condor_ping", *target, "-quiet", "ADMINISTRATOR").returncode == 0:
            return "ok", f"allowed by the {target[1].lower()}"
    hint = "allow it, or set drain = no in [htcondor] (see docs/htcondor.md)"
    return "error", f"elastiq may not drain workers: {hint}"
