"""Ends that are in doubt: of machines that never joined or were workers, and such as took no effect. Imported when
there is one.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Mapping, Sequence

from elastiq.executor import Outcome
from elastiq.failed_drains import in_service
from elastiq.interfaces import InstanceState
from elastiq.nodes import Node, State
from elastiq.situation import Plan, Step

if TYPE_CHECKING:
    from elastiq.ending import Ending


def clear_up(ending: Ending, plan: Plan) -> None:
    """What a plan has of machines that never joined, and of such as serve nobody."""
    core = ending.core
    for step in plan.failed:
        core.registry.move(step.node, State.FAILED, step.reason, core.wall())
        step.node.act_ended = core.now()  # it may join in this moment: looked at once more
    for step in plan.kept:
        step.node.reason = step.reason
    if plan.failed:
        ending.look_again()
    end(ending, plan.ends)


def end(ending: Ending, steps: Sequence[Step]) -> None:
    """End machines that serve nobody. Where one was a worker, the queue is asked first whether it
    still records a job there."""
    steps = [step for step in steps if not ending.dry_run(step, "end")]
    ending.end_for_good([step for step in steps if step.node.worker is None])
    were_workers = [step for step in steps if step.node.worker is not None]
    if were_workers:
        end_unused(ending, were_workers)


def end_unused(ending: Ending, were_workers: Sequence[Step]) -> None:
    """End machines that were workers, unless the queue still records a job there."""
    core = ending.core

    def recorded(outcome: Outcome[Mapping[str, int]]) -> None:
        for step in were_workers:
            step.node.acting = False
        jobs, why_not = outcome.value, ending.no_end()  # the view may have changed meanwhile
        if jobs is None or why_not:
            text = why_not or core.explain(outcome.error)
            for step in were_workers:
                ending.later(step.node)
                step.node.reason = f"its worker is missing, and whether jobs run there is not known: kept ({text})"
            core.tell_once("recorded", f"jobs on lost machines: {text}", logging.WARNING)
            return
        ending.end_for_good([step for step in were_workers if _unused(ending, step.node, jobs)])

    asking = partial(core.batch.jobs_recorded_on, [step.node.worker or "" for step in were_workers])
    if core.read("recorded jobs", core.batch, asking, recorded):
        for step in were_workers:
            step.node.acting = True


def _unused(ending: Ending, node: Node, jobs: Mapping[str, int]) -> bool:
    if node.state not in (State.LOST, State.FAILED) or node.seen is not None:
        return False  # it came back in the meantime
    count = jobs.get(node.worker or "", 0)
    if count:
        ending.later(node)
        node.reason = f"its worker is missing, but the queue records jobs as running there ({count}): kept"
    return not count


def ask_again(ending: Ending, unconfirmed: Sequence[Node], began: float) -> None:
    """Ask again for ends of machines that were workers, by a look at them that began then: since the end was decided
    upon, hours may have passed, and one that takes jobs again is not to be ended."""
    still: list[Node] = []
    for node in unconfirmed:
        if began < (node.act_ended or 0.0):
            continue
        if node.seen is None or ending.out_of_service(node):
            still.append(node)
        elif node.instance is not None and node.instance.state is InstanceState.RUNNING:
            in_service(ending.core, node, "its end took no effect, and it takes jobs again")
            ending.core.tell(f"ending {node.name}", "")
    ending.terminate(still)
