"""Drains that failed, do not go as they should, or are undone. Imported when there is one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterable

from elastiq.core import Core
from elastiq.executor import Outcome, UnsentError
from elastiq.interfaces import DrainAnswer, DrainOutcome, WorkerState
from elastiq.nodes import Node, State

if TYPE_CHECKING:
    from elastiq.ending import Ending

SHOWN_AFTER_S = 30.0


def failed(ending: Ending, node: Node, outcome: Outcome[DrainAnswer]) -> None:
    """What is unknown is looked at; what was surely not done returns the node."""
    core, answer = ending.core, outcome.value
    if isinstance(outcome.error, UnsentError):
        back(ending, node, f"drain {outcome.error}", undo=False)
    elif answer is None:
        text = core.explain(outcome.error)
        core.count("drains_unknown")
        core.tell_once(f"drain {node.id}", f"drain of {node.name}: {text}: looking whether it took effect")
        ending.look_again()
    else:
        core.count(f"drains_{answer.outcome.value}")
        if answer.outcome is DrainOutcome.REFUSED:
            node.refused = (node.jobs, node.job_starts)
            core.tell("draining", f"{node.name}: {answer.detail}: nothing is ended without a drain")
        back(ending, node, f"drain {answer.outcome.value}: {answer.detail}", undo=False)


def disturbed(ending: Ending, node: Node, began: float, can_end: bool, no_end: str) -> bool:
    """A look at the workers, which began then (monotonic), shows a drained one that has not just come to rest, or that
    did not for too long: it is returned, or waited for. True if it may be ended, since its jobs were to end by
    themselves. ``no_end``: why nothing may be ended now."""
    core, drained_at = ending.core, node.act_ended or 0.0
    if node.runs_something and not _lets_jobs_end(core, node, drained_at):
        core.count("drains_slipped_in")
        ending.back(node, "a job slipped in before the drain took effect")
    elif node.starts_at_drain not in (None, node.job_starts) and not (node.for_good or node.emptied):
        ending.back(node, "a job ran there before the drain took effect")
    elif not node.ordered and node.seen is not None and node.seen.drained_by_mark(core.owner.mark) is False:
        ending.back(node, f"drained by someone else ({node.seen.drained_by}): left alone", undo=False)
    elif can_end and ending.out_of_service(node):
        return True
    elif node.runs_something and node.seen is not None and node.seen.is_drained:
        node.act_ended = began  # drain_timeout_s begins with the end of the last job
    elif core.now() - drained_at >= core.settings.drain_timeout_s:
        why = no_end or "its worker does not show that it is out of service"
        ending.back(node, f"drain_timeout_s {core.settings.drain_timeout_s:g} passed: {why}")
    return False


def _lets_jobs_end(core: Core, node: Node, drained_at: float) -> bool:
    """Whether it is drained with jobs on it. HTCondor's collector shows that about 1 s after the drain."""
    shown = node.seen is not None and node.seen.is_drained
    return bool(node.for_good or node.emptied) and (shown or core.now() - drained_at < SHOWN_AFTER_S)


def back(ending: Ending, node: Node, reason: str, undo: bool = True) -> None:
    """Return a node to service; its idleness begins anew only if it ran something. There is nothing to ``undo`` where
    the drain has had no effect, or is not ours."""
    ending.later(node)
    node.room_s = 0.0
    in_service(ending.core, node, reason)
    if undo and ending.core.batch.can_drain:
        undrain(ending.core, node)


def in_service(core: Core, node: Node, reason: str) -> None:
    core.registry.move(node, State.BUSY if node.runs_something else State.IDLE, reason, core.wall())


def undo(core: Core, serving: Iterable[Node]) -> None:
    """Undo our drains of nodes that are in service: the return was lost, or a restart lay between."""
    for node in serving:
        if node.seen is not None and node.seen.drained_by_mark(core.owner.mark):
            undrain(core, node)
        elif node.emptied and node.seen is not None and node.seen.state is not WorkerState.OTHER:
            node.emptied = {}


def undrain(core: Core, node: Node) -> None:
    """Let a worker take jobs again."""
    if node.worker is None or node.acting:
        return
    node.acting = True

    def undrained(outcome: Outcome[None]) -> None:
        node.acting = False
        core.failed(f"undrain {node.id}", f"return {node.name}", outcome)

    core.act_on_batch(node.id, partial(core.batch.undrain, node.worker), undrained)
