"""Why a group of jobs has no machine yet, why a node is kept or goes, and what a pool can do: sentences for people.

Pure. They are made from what the planner saw and decided, when a client asks (`elastiq.telling`).
"""

from __future__ import annotations

from typing import Callable

from elastiq.explain import groups, nodes, pools
from elastiq.explain.known import Known
from elastiq.interfaces import Pool
from elastiq.nodes import Node
from elastiq.situation import Plan, Situation, Verdict


class Explainer:
    """Explains one situation, and the plan that was made of it. ``at`` writes a wall time for people."""

    def __init__(self, situation: Situation, plan: Plan, at: Callable[[float], str]) -> None:
        self._known = Known(situation, plan, at)

    def group(self, verdict: Verdict) -> str:
        """What becomes of a group's waiting jobs."""
        return groups.explained(self._known, verdict)

    def node(self, node: Node) -> str:
        """Why a node is kept or goes."""
        return nodes.explained(self._known, node)

    def worker(self, name: str) -> str:
        """Why a worker that is no node is left alone."""
        explained = self._known.s.registry.strangers[name].explained
        return f"no machine of elastiq's, never ended: {explained or 'matches no instance that is known'}"

    def pool(self, pool: Pool) -> list[str]:
        """What a pool is, what holds it back, and which of the waiting jobs its machines would run."""
        return pools.explained(self._known, pool)
