"""The scale-down steps of a node: drain, look again, terminate, confirm.

A job that slipped in returns the node; a drain that is refused or unknown ends nothing; an end is asked
for again until the cloud confirms it. Where the batch system cannot drain, the look that follows is the
one read right before terminating.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Callable, Mapping, Sequence

from elastiq.core import Core, log
from elastiq.executor import Outcome
from elastiq.interfaces import DrainAnswer, DrainMode, DrainOutcome, EndAnswer, EndOutcome, InstanceState, WorkerState
from elastiq.nodes import IN_SERVICE, Node, State
from elastiq.planner import Step

ENDS_IN_ONE_CALL = 100
RETRY_S = 30.0
LONGEST_RETRY_S = 600.0


class Ending:
    """The one who drains and ends. ``look_again`` asks for a read of the workers that begins from now on;
    ``no_end`` says why nothing may be ended now."""

    def __init__(self, core: Core, look_again: Callable[[], None], no_end: Callable[[], str] = lambda: "") -> None:
        self.core, self.look_again, self.no_end = core, look_again, no_end

    # ------------------------------------------------------------------ drain

    def drain(self, step: Step) -> None:
        """Begin to take an idle node out of service."""
        core, node = self.core, step.node
        if step.for_good and not (step.taken or step.emptied or node.ordered):
            from elastiq.black_holes import going

            going(core, step)
        if node.worker is None or (step.for_good and not core.batch.can_drain) or self.dry_run(step, "drain and end"):
            return
        core.registry.move(node, State.DRAINING, step.reason, core.wall())
        node.act_ended, node.starts_at_drain, node.emptied = None, node.job_starts, dict(step.emptied)
        core.persist()  # a drain that we began must be known as ours after a crash
        if not core.batch.can_drain:
            node.act_ended = core.now()
            self.look_again()
            return
        node.acting = True
        drain = partial(core.batch.drain, node.worker, DrainMode.PEACEFUL if step.for_good else DrainMode.IF_IDLE)
        core.act_on_batch(node.id, drain, partial(self._drained, node))

    def dry_run(self, step: Step, what: str) -> bool:
        core, name = self.core, step.node.name
        if off := core.off("terminate"):
            core.tell_once(f"dry run {step.node.id}", f"{off}: would {what} {name}: {step.reason}")
        return bool(off)

    def _drained(self, node: Node, outcome: Outcome[DrainAnswer]) -> None:
        core, answer = self.core, outcome.value
        node.acting, node.act_ended = False, outcome.ended
        if node.state is not State.DRAINING:
            return
        if answer is not None and answer.outcome is DrainOutcome.DRAINED:
            core.count("drains")
            core.tell("draining", "")
            self.look_again()
        else:
            from elastiq.failed_drains import failed

            failed(self, node, outcome)

    def look(self, began: float, settled: bool, sites: frozenset[str], no_end: str) -> None:
        """A read of the workers came back: go on with what is draining. ``began`` is its monotonic time."""
        core, ready = self.core, list[Step]()
        no_end = no_end or core.off("terminate")  # what is drained returns in time

        def can_end(node: Node) -> bool:
            return settled and not no_end and node.site in sites

        for node in [n for n in core.registry if n.state is State.DRAINING and not n.acting]:
            if node.act_ended is None:
                node.act_ended = core.now()  # begun by an earlier run: the next read tells
                self.look_again()
            elif began < node.act_ended:
                continue
            elif can_end(node) and self._undisturbed(node) and self.out_of_service(node):
                ready.append(Step(node, node.reason))
            elif not self._undisturbed(node) or core.now() - node.act_ended >= core.settings.drain_timeout_s:
                from elastiq.failed_drains import disturbed

                if disturbed(self, node, began, can_end(node), no_end):
                    ready.append(Step(node, node.reason))
        self.end_for_good(ready)
        serving = [node for node in core.registry if node.state in IN_SERVICE and node.seen is not None]
        if any(node.emptied or (node.seen and node.seen.drained_by) for node in serving):
            from elastiq.failed_drains import undo

            undo(core, serving)
        unconfirmed = [node for node in self._unconfirmed() if node.worker is not None and node.site in sites]
        if settled and unconfirmed:
            from elastiq.doubtful_ends import ask_again

            ask_again(self, unconfirmed, began)
        if settled and core.registry.count(None, {State.STOPPED}):
            from elastiq.stopping import look

            look(self, began, sites)

    def _undisturbed(self, node: Node) -> bool:
        """Whether nothing has run there since its drain, which nobody else began."""
        seen, mark = node.seen, self.core.owner.mark
        calm = seen is None or not (seen.runs_something or seen.drained_by_mark(mark) is False)
        return calm and node.starts_at_drain in (None, node.job_starts)

    def out_of_service(self, node: Node) -> bool:
        state = WorkerState.DRAINED if self.core.batch.can_drain else WorkerState.IDLE
        forced = node.ordered.startswith("elastiqctl terminate --force")
        return forced or (node.seen is not None and node.seen.state is state and not node.seen.jobs)

    def back(self, node: Node, reason: str, undo: bool = True) -> None:
        from elastiq.failed_drains import back

        back(self, node, reason, undo)

    # ------------------------------------------------------------------ end

    def end_for_good(self, steps: Sequence[Step]) -> None:
        """For good: from here on it is asked for until the cloud confirms it."""
        core = self.core
        steps = [step for step in steps if step.node.instance_id and step.node.site in core.clouds]
        steps = [step for step in steps if not self.dry_run(step, "end")]
        if any(pool.terms.idle_action == "stop" for pool in core.settings.pools):
            from elastiq.stopping import stop_some

            steps = stop_some(self, steps)
        for step in steps:
            core.registry.move(step.node, State.TERMINATING, step.reason, core.wall())
            core.health.times["end"] = core.now()
        if not steps:
            return
        core.persist()
        self.terminate([step.node for step in steps])

    def terminate(self, nodes: Sequence[Node]) -> None:
        """One call a site for up to a hundred."""
        core = self.core
        for site, cloud in core.clouds.items():
            here = [(node.instance_id, node) for node in nodes if node.instance_id and node.site == site]
            for start in range(0, len(here), ENDS_IN_ONE_CALL):
                asked = dict(here[start : start + ENDS_IN_ONE_CALL])
                for node in asked.values():
                    node.acting = True
                core.count("terminations_asked", len(asked))
                call = partial(cloud.terminate, list(asked))
                still = partial(self.still, list(asked.values()))
                core.act_on_cloud(site, "terminate", call, partial(self._answered, asked), still)

    def still(self, nodes: Sequence[Node]) -> bool:
        """Whether none has come back while the call waited for its turn: of that the next look decides."""
        return all(node.seen is None or self.out_of_service(node) for node in nodes)

    def _answered(self, asked: Mapping[str, Node], outcome: Outcome[Mapping[str, EndAnswer]]) -> None:
        core = self.core
        for name, node in asked.items():
            answer = (outcome.value or {}).get(name)
            node.acting, node.act_ended = False, outcome.ended
            self.later(node)
            if answer is not None and answer.outcome is EndOutcome.ENDING:
                node.failures, node.retry_at = 0, core.now() + RETRY_S
                core.tell(f"ending {node.name}", "")
            # Where it is not found the listings decide, after the minutes in which a new id may be unknown.
            elif self.still([node]) and (answer is None or answer.outcome is not EndOutcome.NOT_FOUND):
                text = answer.detail if answer else core.explain(outcome.error)
                core.count("terminate_errors")
                core.tell(f"ending {node.name}", f"{text}: asked again until the cloud confirms it", logging.ERROR)

    def again(self) -> None:
        """Ask again for the ends that no listing confirms; after a restart too."""
        self.terminate([node for node in self._unconfirmed() if node.worker is None])

    def _unconfirmed(self) -> list[Node]:
        core = self.core
        asked = [n for n in core.registry if n.state is State.TERMINATING and n.may_act(core.now())]
        left = [n for n in asked if n.instance is None or n.instance.state is not InstanceState.SHUTTING_DOWN]
        return [] if core.off("terminate") else left

    def later(self, node: Node) -> None:
        node.failures += 1
        node.retry_at = self.core.now() + min(LONGEST_RETRY_S, RETRY_S * 2 ** min(node.failures - 1, 10))

    # ------------------------------------------------------------------ after the end

    def forget(self, node: Node) -> None:
        """The instance is confirmed gone: let the batch system drop what it still holds."""
        core, worker = self.core, node.worker
        for subject in ("ending", "black hole"):
            core.tell(f"{subject} {node.name}", "")
        if core.records is not None:
            return core.records.forget(node)
        if worker is None:
            return

        def forgotten(outcome: Outcome[None]) -> None:
            if outcome.error is not None:
                core.count("forget_errors")
                log.debug("forget %s: %s", worker, core.explain(outcome.error))

        core.act_on_batch(node.id, partial(core.batch.forget, worker), forgotten)
