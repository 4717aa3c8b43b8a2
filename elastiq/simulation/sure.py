"""Plans that are sure to do nothing, made without going through the jobs that wait.

Where nothing may be launched, as the quota is used up, no waiting job changes what a plan does, and a queue that is
long for days has a plan for each change of it. Such a plan is `planner.plan`'s (tests/simulation/test_sure.py), but for
what is said of the waiting groups and why: nobody asks a simulated daemon. What may do something is planned in full.
"""

from __future__ import annotations

from typing import Optional

from elastiq import planner, scale_down
from elastiq.demand import Standing
from elastiq.nodes import State
from elastiq.situation import Plan, Situation, Verdict
from elastiq.unused import unused_room


def plan(s: Situation) -> Plan:
    """As `planner.plan`."""
    return _nothing(s) or planner.plan(s)


def _nothing(s: Situation) -> Optional[Plan]:
    """A plan that does nothing, where it is sure that `planner.plan` makes one, too."""
    if s.jobs is None or s.settings.consolidate or not (s.no_launch or _is_used_up(s)):
        return None
    if any(planner._unusual(s)) or scale_down.leaving(s, False):
        return None
    # Room that is reserved can only keep a machine that would go otherwise.
    if scale_down.drains(s, frozenset(), {}) or any(scale_down.useless(s)):
        return None
    waiting = [group for group in s.jobs.groups if group.waiting > 0]
    on_trial = {g.key: g for g in waiting if s.trials.standing(g.key) is Standing.TRYING}
    if on_trial and unused_room(s, on_trial):
        return None
    why = s.no_launch or "the quota is used up"
    return Plan(verdicts=tuple(Verdict(group, 0, 0, why) for group in waiting), summary=f"nothing: {why}")


def _is_used_up(s: Situation) -> bool:
    """Whether the quotas leave no machine. One that is stopped counts already, and may be started all the same."""
    registry, settings = s.registry, s.settings
    if registry.count(None, {State.STOPPED}):
        return False
    if settings.max_vms is not None and len(registry) >= settings.max_vms:
        return True
    return all(pool.max_vms is not None and registry.count(pool.name) >= pool.max_vms for pool in settings.pools)
