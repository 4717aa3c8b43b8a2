"""What a batch system has to do before a launch, and when the address of a machine is known (Slurm, Grid Engine).
Imported for one that has.
"""

from __future__ import annotations

from functools import partial

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import BatchSystem, Cloud, Instance, Intent, SourceError, TransientError
from elastiq.nodes import Node


def prepare_and_launch(batch: BatchSystem, cloud: Cloud, intent: Intent) -> tuple[Instance, ...]:
    try:
        batch.prepare(intent)
    except SourceError as exc:
        raise TransientError(f"the batch system was not ready for a launch: {exc}", launched_nothing=True) from exc
    return cloud.launch(intent)


def register(core: Core, node: Node, instance: Instance) -> None:
    """Let the batch system know a new machine."""

    def registered(outcome: Outcome[None]) -> None:
        if outcome.error is not None:
            core.tell("register", core.explain(outcome.error))

    core.act_on_batch(node, partial(core.batch.register, instance), registered)
