"""Drains that failed, or are undone. Imported when there is one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from elastiq.core import Core
from elastiq.executor import Outcome, UnsentError
from elastiq.interfaces import DrainAnswer, DrainOutcome
from elastiq.nodes import Node, State

if TYPE_CHECKING:
    from elastiq.ending import Ending


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


def undrain(core: Core, node: Node) -> None:
    """Let a worker take jobs again."""
    if node.worker is None or node.acting:
        return
    node.acting = True

    def undrained(outcome: Outcome[None]) -> None:
        node.acting = False
        core.failed(f"undrain {node.id}", f"return {node.name}", outcome)

    core.act_on_batch(node.id, partial(core.batch.undrain, node.worker), undrained)
