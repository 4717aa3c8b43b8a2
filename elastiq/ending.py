"""The scale-down steps of a node: drain, look again, terminate, confirm.

A job that slipped in returns the node; a drain that is refused or unknown ends nothing; an end is asked
for again until the cloud confirms it. Where the batch system cannot drain, the look that follows is the
one read right before terminating.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Callable, Mapping, Optional, Sequence

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import (
    BatchSystem,
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    EndAnswer,
    EndOutcome,
    InstanceState,
    Worker,
    WorkerState,
)
from elastiq.nodes import IN_SERVICE, Node, State
from elastiq.planner import Step

log = logging.getLogger("elastiq")

ENDS_IN_ONE_CALL = 100
RETRY_S = 30.0
LONGEST_RETRY_S = 600.0


class Ending:
    """The one who drains and ends. ``look_again`` asks for a read of the workers that begins from now on."""

    def __init__(self, core: Core, look_again: Callable[[], None]) -> None:
        self._core, self._look_again = core, look_again

    # ------------------------------------------------------------------ drain

    def drain(self, step: Step) -> None:
        """Begin to take an idle node out of service."""
        core, node = self._core, step.node
        if node.worker is None:
            return
        if core.settings.dry_run_shutdown_vms:
            core.tell_once(f"dry run {node.id}", f"dry run: would drain and end {node.name}: {step.reason}")
            return
        core.registry.move(node, State.DRAINING, step.reason, core.wall())
        node.act_ended = None
        core.persist()  # a drain that we began must be known as ours after a crash
        if not core.batch.can_drain:
            node.act_ended = core.now()
            self._look_again()
            return
        node.acting = True
        drain = partial(core.batch.drain, node.worker, DrainMode.IF_IDLE)
        core.act_on_batch(node, drain, partial(self._drained, node))

    def _drained(self, node: Node, outcome: Outcome[DrainAnswer]) -> None:
        core = self._core
        node.acting, node.act_ended = False, outcome.ended
        if node.state is not State.DRAINING:
            return
        answer = outcome.value
        if outcome.error is not None or answer is None:
            text = core.explain(outcome.error) if outcome.error else "no answer"
            core.count("drains_unknown")
            core.tell_once(f"drain {node.id}", f"drain of {node.name}: {text}: looking whether it took effect")
        elif answer.outcome is DrainOutcome.DRAINED:
            core.count("drains")
        else:
            core.count(f"drains_{answer.outcome.value}")
            if answer.outcome is DrainOutcome.REFUSED:
                core.tell("draining", f"{node.name}: {answer.detail}: nothing is ended without a drain")
            self._back(node, f"drain {answer.outcome.value}: {answer.detail}", undrain=False)
            return
        if answer is not None:
            core.tell("draining", "")
        self._look_again()

    def look(self, began: float, settled: bool, sites: frozenset[str], no_end: str) -> None:
        """A read of the workers came back: go on with what is draining. ``began`` is its monotonic time."""
        core = self._core
        ready: list[Node] = []
        for node in [n for n in core.registry if n.state is State.DRAINING and not n.acting]:
            if node.act_ended is None:
                node.act_ended = core.now()  # begun by an earlier run: the next read tells
                self._look_again()
                continue
            if began < node.act_ended:
                continue
            worker = node.seen
            if _runs_something(node):
                core.count("drains_slipped_in")
                self._back(node, "a job slipped in before the drain took effect")
            elif worker is not None and self._drained_by_us(worker) is False:
                self._back(node, f"drained by someone else ({worker.drained_by}): left alone", undrain=False)
            elif self._out_of_service(node) and settled and not no_end and node.site in sites:
                ready.append(node)
            elif core.now() - node.act_ended >= core.settings.drain_timeout_s:
                why = no_end or "its worker does not show that it is out of service"
                self._back(node, f"drain_timeout_s {core.settings.drain_timeout_s:g} passed: {why}")
        self._end([Step(node, node.reason) for node in ready])
        self._return_ours()
        if settled:
            self._ask_again(began, sites)

    def _out_of_service(self, node: Node) -> bool:
        if node.seen is None or node.seen.jobs:
            return False
        if self._core.batch.can_drain:
            return node.seen.state is WorkerState.DRAINED
        return node.seen.state is WorkerState.IDLE

    def _back(self, node: Node, reason: str, undrain: bool = True) -> None:
        """Return a node to service; its idleness begins anew only if it ran something."""
        core = self._core
        self._later(node)
        core.registry.move(node, State.BUSY if _runs_something(node) else State.IDLE, reason, core.wall())
        if undrain and core.batch.can_drain:
            self._undrain(node)

    def _undrain(self, node: Node) -> None:
        core, worker = self._core, node.worker
        if worker is None or node.acting:
            return
        node.acting = True

        def undrained(outcome: Outcome[None]) -> None:
            node.acting = False
            if outcome.error is not None:
                core.tell_once(f"undrain {node.id}", f"return {node.name}: {core.explain(outcome.error)}")

        core.act_on_batch(node, partial(core.batch.undrain, worker), undrained)

    def _drained_by_us(self, worker: Worker) -> Optional[bool]:
        """None if it is not drained, or nobody said by whom."""
        if worker.drained_by is None or worker.state not in (WorkerState.DRAINED, WorkerState.DRAINING):
            return None
        return self._core.owner.head[:16] in worker.drained_by

    def _return_ours(self) -> None:
        """Undo drains of ours without a purpose: the return was lost, or a restart lay between."""
        for node in self._core.registry:
            if node.state in IN_SERVICE and node.seen is not None and self._drained_by_us(node.seen):
                self._undrain(node)

    # ------------------------------------------------------------------ end

    def end(self, steps: Sequence[Step]) -> None:
        """End machines that serve nobody. Where one was a worker, the queue is asked first whether it
        still records a job there."""
        core = self._core
        if core.settings.dry_run_shutdown_vms:
            for step in steps:
                core.tell_once(f"dry run {step.node.id}", f"dry run: would end {step.node.name}: {step.reason}")
            return
        self._end([step for step in steps if step.node.worker is None])
        were_workers = [step for step in steps if step.node.worker is not None]
        if not were_workers:
            return
        nodes = [step.node for step in were_workers]
        names = [node.worker or "" for node in nodes]

        def recorded(outcome: Outcome[Mapping[str, int]]) -> None:
            for node in nodes:
                node.acting = False
            if outcome.value is None:
                text = core.explain(outcome.error or KeyError())
                core.tell_once("recorded", f"jobs on lost machines: {text}")
                return
            jobs = outcome.value
            self._end([step for step in were_workers if self._unused(step.node, jobs)])

        asked = core.read("recorded jobs", core.batch, partial(core.batch.jobs_recorded_on, names), recorded)
        for node in nodes if asked else ():
            node.acting = True

    def _unused(self, node: Node, jobs: Mapping[str, int]) -> bool:
        if node.state not in (State.LOST, State.FAILED) or node.seen is not None:
            return False  # it came back in the meantime
        count = jobs.get(node.worker or "", 0)
        if count:
            self._later(node)
            node.reason = f"its worker is missing, but the queue records {count} jobs as running there: kept"
        return count == 0

    def _end(self, steps: Sequence[Step]) -> None:
        """For good: from here on it is asked for until the cloud confirms it."""
        core = self._core
        if core.settings.dry_run_shutdown_vms:
            return
        steps = [step for step in steps if step.node.instance_id and step.node.site in core.clouds]
        for step in steps:
            core.registry.move(step.node, State.TERMINATING, step.reason, core.wall())
        core.persist()
        self._terminate_all([step.node for step in steps])

    def _terminate(self, site: str, nodes: Sequence[Node]) -> None:
        core = self._core
        ids = [node.instance_id for node in nodes if node.instance_id]
        for node in nodes:
            node.acting = True
        core.count("terminations_asked", len(ids))

        def answered(outcome: Outcome[Mapping[str, EndAnswer]]) -> None:
            for node in nodes:
                node.acting, node.act_ended = False, outcome.ended
                answer = (outcome.value or {}).get(node.instance_id or "")
                self._end_answered(node, answer, outcome.error)

        core.act_on_cloud(site, "terminate", partial(core.clouds[site].terminate, ids), answered)

    def _end_answered(self, node: Node, answer: Optional[EndAnswer], error: Optional[BaseException]) -> None:
        core = self._core
        subject = f"ending {node.name}"
        if error is None and answer is not None and answer.outcome is EndOutcome.ENDING:
            node.failures, node.retry_at = 0, core.now() + RETRY_S
            core.tell(subject, "")
            return
        self._later(node)
        if answer is not None and answer.outcome is EndOutcome.NOT_FOUND:
            return  # the listings decide, after the minutes in which a new id may be unknown
        text = core.explain(error) if error else answer.detail if answer else "no answer for this instance"
        core.count("terminate_errors")
        core.tell(subject, f"{text}: asked again until the cloud confirms it", logging.ERROR)

    def again(self) -> None:
        """Ask again for the ends that no listing confirms; after a restart too."""
        self._terminate_all([node for node in self._unconfirmed() if node.worker is None])

    def _ask_again(self, began: float, sites: frozenset[str]) -> None:
        """The same for machines that were workers, by a fresh look at them: since the end was decided
        upon, hours may have passed, and one that takes jobs again is not to be ended."""
        core = self._core
        still: list[Node] = []
        for node in self._unconfirmed():
            if node.worker is None or node.site not in sites or began < (node.act_ended or 0.0):
                continue
            if node.seen is None or self._out_of_service(node):
                still.append(node)
            elif node.instance is not None and node.instance.state is InstanceState.RUNNING:
                state = State.BUSY if _runs_something(node) else State.IDLE
                core.registry.move(node, state, "its end took no effect, and it takes jobs again", core.wall())
        self._terminate_all(still)

    def _unconfirmed(self) -> list[Node]:
        core = self._core
        if core.settings.dry_run_shutdown_vms:
            return []
        return [
            node
            for node in core.registry
            if node.state is State.TERMINATING
            and not (node.acting or node.retry_at > core.now())
            and not (node.instance is not None and node.instance.state is InstanceState.SHUTTING_DOWN)
        ]

    def _terminate_all(self, nodes: Sequence[Node]) -> None:
        """One call a site for up to a hundred."""
        by_site: dict[str, list[Node]] = {}
        for node in nodes:
            if node.instance_id is not None and node.site in self._core.clouds:
                by_site.setdefault(node.site, []).append(node)
        for site, of_site in by_site.items():
            for start in range(0, len(of_site), ENDS_IN_ONE_CALL):
                self._terminate(site, of_site[start : start + ENDS_IN_ONE_CALL])

    def _later(self, node: Node) -> None:
        node.failures += 1
        node.retry_at = self._core.now() + min(LONGEST_RETRY_S, RETRY_S * 2 ** min(node.failures - 1, 10))

    # ------------------------------------------------------------------ after the end

    def forget(self, node: Node) -> None:
        """The instance is confirmed gone: let the batch system drop what it still holds."""
        core, worker = self._core, node.worker
        core.tell(f"ending {node.name}", "")
        if worker is None or type(core.batch).forget is BatchSystem.forget:
            return

        def forgotten(outcome: Outcome[None]) -> None:
            if outcome.error is not None:
                core.count("forget_errors")
                log.debug("forget %s: %s", worker, core.explain(outcome.error))

        core.act_on_batch(node, partial(core.batch.forget, worker), forgotten)


def _runs_something(node: Node) -> bool:
    return node.seen is not None and (node.seen.jobs > 0 or node.seen.state is WorkerState.BUSY)
