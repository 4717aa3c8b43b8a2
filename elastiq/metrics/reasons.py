"""Waiting jobs by what serves them, or why nothing does: few words, for the many sentences of a plan.

Pure. The sentences are for people and name numbers and machines; as values of a label they would be without end.
"""

from __future__ import annotations

from collections import Counter
from typing import Mapping, Optional

from elastiq.broker import ONE_FIRST
from elastiq.demand import Standing
from elastiq.nodes import TO_COME, Registry
from elastiq.planner import Plan, Verdict
from elastiq.situation import ASKING

# What serves them. The pool is known of these alone.
ROOM, COMING, LAUNCHING = "room", "coming", "launching"
OTHER = "other"
# Why nothing serves them, and what the planner's or the broker's sentence then says.
SAID: Mapping[str, tuple[str, ...]] = {
    "young": ("waiting_jobs_time_s ", "fewer than waiting_jobs_threshold "),
    "held_back": (" is held back for another ",),
    "breaker": ("one at a time until one does",),
    "limit": (" is reached", " would be passed"),
    "trying": (ONE_FIRST, "a machine was launched for it; none of it has started yet"),
    "drained": (" is being drained",),
    "asking": tuple(sorted(ASKING)),
    "unknown": (
        "could not be read: ",
        " was not read yet",
        " was last read ",
        " not known now",
        "jobs have started since the queue was read",
        "the state was lost: ",
    ),
    "store": ("the store cannot be written: ",),
    "cooldown": ("cooldown_after_",),
}
REASONS = (ROOM, COMING, LAUNCHING, "off", "not_eligible", "unmatchable", "unserved", *SAID, OTHER)


def jobs_waiting(
    registry: Registry, plan: Plan, standing: Mapping[str, Standing], off: bool
) -> Counter[tuple[str, ...]]:
    """The waiting jobs of the last plan, by pool (empty where it is nobody's) and reason; ``off``: a person wants no
    launch."""
    found: Counter[tuple[str, ...]] = Counter()
    for v in plan.verdicts:
        held, launching = v.held, v.launching
        for machine, jobs in v.machines.items():
            node, counted = registry.nodes.get(machine), min(held, jobs)
            coming = node.state in TO_COME if node is not None else not machine.startswith("worker ")
            found[node.pool if node is not None else "", COMING if coming else ROOM] += counted
            held -= counted
        for order in plan.launches:
            counted = min(launching, order.groups.get(v.group.key, 0))
            found[order.offer.pool, "off" if off else LAUNCHING] += counted
            launching -= counted
        found["", ROOM] += held
        found["", "off" if off else LAUNCHING] += launching
        found["", reason(v, standing.get(v.group.key))] += max(0, v.group.waiting - v.held - v.launching)
    return +found


def reason(v: Verdict, standing: Optional[Standing]) -> str:
    """Why nothing serves the rest of a group's jobs."""
    if v.group.not_eligible:
        return "not_eligible"
    if not v.matchable:
        return "unserved" if standing is Standing.UNSERVED else "unmatchable"
    return next((word for word, parts in SAID.items() if any(part in v.reason for part in parts)), OTHER)
