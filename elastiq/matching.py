"""What the batch system says of jobs and would-be workers, asked once for each pair and remembered.

Imported where the batch system can match. Its answers come as the reads do; until then a job has no machine
that is known to run it, and where the question fails the resources alone decide, as they do without.
"""

from __future__ import annotations

from typing import Callable, Mapping, Optional

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import JobGroup, Machine, Pool, Resources
from elastiq.nodes import IN_SERVICE, Node
from elastiq.situation import NOT_ASKED

AT_MOST = 20_000  # pairs that are remembered
AGAIN_S = 600.0  # after a failure
FACT = "portraits"


class Matching:
    """The answers, and the portraits of workers that joined. ``replan`` is called when there are new answers."""

    def __init__(self, core: Core, replan: Callable[[], None]) -> None:
        self._core, self._replan = core, replan
        self._answers: dict[tuple[str, Machine], str] = {}
        self._wanted: dict[tuple[str, Machine], JobGroup] = {}
        self._failed_at: Optional[float] = None
        self._portraits: dict[str, list[str]] = core.store.recall(FACT) or {}  # fingerprint and text, by POOL/FLAVOUR

    def fits(self, group: JobGroup, pool: Pool, flavour: str, resources: Resources) -> tuple[bool, str]:
        """Whether a job of the group would run on an empty machine, and if not, or not yet known, why."""
        core = self._core
        fits, why = core.batch.fits(group, resources)
        if not fits or self._pauses():
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
        core = self._core
        if self._wanted:
            groups = {group.key: group for group in self._wanted.values()}
            machines = list(dict.fromkeys(machine for _, machine in self._wanted))
            core.read("match", core.batch, lambda: core.batch.match(list(groups.values()), machines), self._matched)
        node = next((node for node in core.registry if self._is_new(node)), None)
        if node is not None and node.worker is not None:
            worker = node.worker
            core.read("portrait", core.batch, lambda: core.batch.portrait(worker), lambda seen: self._drawn(node, seen))

    def _pauses(self) -> bool:
        return self._failed_at is not None and self._core.now() - self._failed_at < AGAIN_S

    def _matched(self, outcome: Outcome[Mapping[tuple[str, Machine], str]]) -> None:
        core, wanted = self._core, self._wanted
        self._wanted = {}
        if outcome.value is None:
            self._failed_at = core.now()
            text = f"{core.explain(outcome.error)}: sizes alone decide for {AGAIN_S:.0f} s"
            core.tell("matching", text)
        else:
            self._failed_at = None
            core.tell("matching", "")
            if len(self._answers) > AT_MOST:
                self._answers.clear()
            self._answers.update({pair: outcome.value.get(pair, "") for pair in wanted})
        self._replan()

    def _is_new(self, node: Node) -> bool:
        pool = self._core.settings.pool(node.pool)
        if pool is None or node.state not in IN_SERVICE or node.seen is None or self._pauses():
            return False
        return self._portraits.get(f"{node.pool}/{node.flavour}", [""])[0] != pool.fingerprint

    def _drawn(self, node: Node, outcome: Outcome[str]) -> None:
        core, pool = self._core, self._core.settings.pool(node.pool)
        if core.failed(f"portrait {node.pool}", f"asking what {node.name} is like", outcome) or pool is None:
            self._failed_at = core.now() if outcome.value is None else self._failed_at
            return
        self._portraits[f"{node.pool}/{node.flavour}"] = [pool.fingerprint, outcome.value or ""]
        core.stored(lambda: core.store.remember(FACT, self._portraits))
        self._replan()
