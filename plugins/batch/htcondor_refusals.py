"""What it means that a drain is refused, and whose drain it is. Imported when one is refused, or undone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Callable, Sequence

from elastiq.command import CommandResult
from elastiq.errors import SourceError
from elastiq.interfaces import DrainAnswer, DrainMode, DrainOutcome, Worker
from elastiq.plugins.batch import htcondor_slots as pool
from elastiq.plugins.batch.htcondor_ads import Row

# What the startd says to a drain.
ALREADY_DRAINING, NO_SUCH_DRAIN, CHECK_FAILED = b"error code 10001", b"error code 10002", b"error code 10003"
SEE = "see docs/htcondor.md"


def why(result: CommandResult) -> str:
    """What went wrong, out of all that -debug says."""
    lines = result.stderr.decode("utf-8", errors="replace").splitlines()
    telling = [line for line in lines if re.search(r"SECMAN:\d|error code|connect|argument|Can't find", line)]
    return replace(result, stderr=telling[-1].encode()).complaint if telling else result.complaint


def takes_no_reason(result: CommandResult) -> bool:
    """Whether this condor_drain is too old for ``-reason`` (before 8.9.11)."""
    return b"unexpected argument: -reason" in result.stderr


def drain_answer(
    result: CommandResult, worker: str, mode: DrainMode, mark: str, look: Callable[[], tuple[Sequence[Row], Worker]]
) -> DrainAnswer:
    """What a drain came to that was not begun. ``look`` reads the worker again: its slots, and all together."""
    said = result.stdout + result.stderr
    if CHECK_FAILED in said and mode is DrainMode.IF_IDLE:
        return DrainAnswer(DrainOutcome.BUSY, f"a slot of {worker} is claimed")
    if CHECK_FAILED in said:
        return refused(f"{worker} would evict its jobs when drained: set MAXJOBRETIREMENTTIME there ({SEE})")
    if b"DENIED" in said or b"AUTHENTICATE" in said:
        return refused(f"we may not drain {worker}: give elastiq's token ADMINISTRATOR ({SEE})")
    if ALREADY_DRAINING not in said:
        raise SourceError(f"condor_drain of {worker} has an unknown outcome: {why(result)}")
    slots, seen = look()
    if not any(map(pool.draining, slots)):
        raise SourceError(f"{worker} says that it drains already, its ad does not yet show for whom")
    if mark not in (seen.drained_by or ""):
        return refused(f"drained by someone else ({seen.drained_by or 'no reason'})")
    if seen.jobs and mode is DrainMode.IF_IDLE:
        return DrainAnswer(DrainOutcome.BUSY, f"a slot of {worker} is claimed")
    return DrainAnswer(DrainOutcome.DRAINED, "was drained by us before")


def refused(reason: str) -> DrainAnswer:
    return DrainAnswer(DrainOutcome.REFUSED, reason)


def not_forgotten(result: CommandResult, worker: str) -> SourceError:
    hint = "ADVERTISE_STARTD would allow it, see docs/htcondor.md"
    return SourceError(f"the ads of {worker} stay in the collector until they expire ({hint}): {why(result)}")


def undone(worker: str, slots: Sequence[Row], mark: str, gives_reason: bool, cancel: Callable[[str], None]) -> set[str]:
    """Undo the worker's drains, which all have to be ours. Returns their reasons."""
    ours = _our_drains(worker, slots, mark, gives_reason)
    for startd in pool.startds(slots):
        cancel(startd)
    return ours


def cancel(run: Callable[..., CommandResult], startd: str) -> None:
    """Undo a drain, if there is one."""
    result = run("condor_drain", "-debug", "-cancel", startd)
    if result.returncode != 0 and NO_SUCH_DRAIN not in result.stderr:
        raise SourceError(f"condor_drain -cancel of {startd} failed: {why(result)}")


def _our_drains(worker: str, slots: Sequence[Row], mark: str, gives_reason: bool) -> set[str]:
    """The reasons of the worker's drains that are ours and may be undone; `SourceError` if one is another's."""
    if not slots:
        raise SourceError(f"the collector knows no worker {worker}: its drain, if any, was not undone")
    shown = {str(row.get("drainreason") or "no reason") for row in slots if pool.draining(row)}
    others = {reason for reason in shown if mark not in reason}
    if others and gives_reason:
        raise SourceError(f"{worker} is drained by someone else ({min(others)}): left alone")
    return shown - others
