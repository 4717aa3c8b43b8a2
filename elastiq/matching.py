"""What the batch system says of jobs and would-be workers, asked once for each pair and remembered.

Imported where the batch system can match. Its answers come as the reads do; until then a job has no machine
that is known to run it, and where the question fails the resources alone decide, as they do without.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Mapping, Optional

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import JobGroup, Machine, Pool, Resources
from elastiq.nodes import IN_SERVICE, Node

NOT_ASKED = "it is being asked whether the batch system would run it there"
AT_MOST = 100_000  # pairs that are remembered
AGAIN_S = 600.0  # after a failure
REDRAWN_S = 3600.0  # what a worker says of itself can change, by a configuration that it fetches, say
FACT = "portraits"
Pairs = Mapping[tuple[str, Machine], JobGroup]


class Matching:
    """The answers, and the portraits of workers that joined. ``replan`` is called when there are new answers."""

    def __init__(self, core: Core, replan: Callable[[], None]) -> None:
        self._core, self._replan = core, replan
        self._answers: dict[tuple[str, Machine], str] = {}
        self._wanted: dict[tuple[str, Machine], JobGroup] = {}  # by the last plan, and not asked yet
        self._failed_at: Optional[float] = None
        self._fact = f"{FACT} {core.batch.section}"  # another batch system's would say nothing
        self._portraits: dict[str, list[str]] = core.store.recall(self._fact) or {}  # fingerprint and text, by kind
        self._drawn_at: dict[str, float] = {}  # by kind: POOL/FLAVOUR
        self._undrawn_at: Optional[float] = None  # when a portrait failed
        self._undrawn: set[str] = set()  # of which nodes

    def fits(self, group: JobGroup, pool: Pool, flavour: str, resources: Resources) -> tuple[bool, str]:
        """Whether a job of the group would run on an empty machine, and if not, or not yet known, why."""
        core = self._core
        fits, why = core.batch.fits(group, resources)
        if not fits or self._pauses(self._failed_at):
            return fits, why
        fingerprint, portrait = self._portraits.get(f"{pool.name}/{flavour}", ("", ""))
        known = portrait if fingerprint == pool.fingerprint else ""
        pair = (group.key, Machine(pool.name, flavour, resources, known, pool.terms.worker_ad))
        if pair not in self._answers:
            self._wanted[pair] = group
            return False, NOT_ASKED
        return not self._answers[pair], self._answers[pair]

    def ask(self) -> None:
        """Ask for what the last plan lacked, and for the portrait of a worker of which there is none."""
        core, asked = self._core, self._wanted
        if asked:
            groups = list({group.key: group for group in asked.values()}.values())
            machines = list(dict.fromkeys(machine for _, machine in asked))
            match = partial(core.batch.match, groups, machines)
            if core.read("match", core.batch, match, partial(self._matched, asked)):
                self._wanted = {}
        if not self._pauses(self._undrawn_at):
            new = [node for node in core.registry if self._is_new(node)]
            node = min(new, key=lambda one: one.id in self._undrawn, default=None)
            pool = core.settings.pool(node.pool) if node is not None else None
            if node is not None and pool is not None:
                call = partial(core.batch.portrait, str(node.worker))
                core.read("portrait", core.batch, call, partial(self._drawn, node, pool.fingerprint))

    def _pauses(self, failed_at: Optional[float]) -> bool:
        """Whether that failure was of late; for good where it has turned out that nothing can be matched here."""
        return not self._core.batch.can_match or (failed_at is not None and self._core.now() - failed_at < AGAIN_S)

    def _matched(self, asked: Pairs, outcome: Outcome[Mapping[tuple[str, Machine], str]]) -> None:
        core, found = self._core, outcome.value
        self._wanted = {}  # the plan that follows says what still is
        failure = core.explain(outcome.error) if found is None else ""
        if found is not None and not asked.keys() <= found.keys():
            failure = f"no answer for {len(asked.keys() - found.keys())} of {len(asked)} pairs of jobs and machines"
        if failure or found is None:
            self._failed_at = core.now()
            how_long = f" for {AGAIN_S:.0f} s" if core.batch.can_match else ""
            core.tell("matching", f"{failure}: sizes alone decide{how_long}")
        else:
            self._failed_at = None
            core.tell("matching", "")
            if len(self._answers) > AT_MOST:
                self._answers = dict(list(self._answers.items())[AT_MOST // 2 :])  # the oldest go
            self._answers.update({pair: found[pair] for pair in asked})
        self._replan()

    def _is_new(self, node: Node) -> bool:
        """Whether there is no portrait of its kind, or an old one; a worker of an earlier image shows nothing of the
        next."""
        pool = self._core.settings.pool(node.pool)
        if pool is None or node.state not in IN_SERVICE or node.seen is None or pool.outdates(node.build):
            return False
        kind = f"{node.pool}/{node.flavour}"
        old = self._core.now() - self._drawn_at.get(kind, -REDRAWN_S) >= REDRAWN_S
        return old or self._portraits.get(kind, [""])[0] != pool.fingerprint

    def _drawn(self, node: Node, fingerprint: str, outcome: Outcome[str]) -> None:
        core = self._core
        if core.failed(f"portrait {node.pool}", f"asking what {node.name} is like", outcome):
            self._undrawn_at = core.now()
        if not outcome.value:
            self._undrawn.add(node.id)  # others first
        kind = f"{node.pool}/{node.flavour}"
        known = self._portraits.get(kind, ["", ""])
        if outcome.value or (known[0] == fingerprint and outcome.error is None):
            self._drawn_at[kind] = core.now()
        if outcome.value and known != [fingerprint, outcome.value] and core.batch.can_match:
            self._portraits[kind] = [fingerprint, outcome.value]
            core.stored(lambda: core.store.remember(self._fact, self._portraits))
            self._replan()
