"""Why an idle machine is kept for as long as it is, where `idle_for_time_s` is `auto`."""

from __future__ import annotations

from statistics import median

from elastiq.idling import AUTO, TO_BELIEVE
from elastiq.situation import Situation


def limit(s: Situation, pool: str) -> str:
    """How long idle machines of a pool are kept, and why so long: ends a sentence that says for how long one was."""
    kept_s = s.idle_for_s(pool)
    if s.settings.idle_for_time_s_of(pool) < AUTO:
        return f"idle_for_time_s {kept_s:g}"
    return f"{kept_s:.0f} s (auto: {_why(s, pool, kept_s)})"


def _why(s: Situation, pool: str, kept_s: float) -> str:
    boots, pauses = s.registry.uses.seen.get(pool, ([], []))
    deploy_s = s.settings.estimated_vm_deploy_time_s_of(pool)
    takes = f"the {median(boots):.0f} s that machines take to boot" if boots else ""
    if len(pauses) >= TO_BELIEVE:
        return f"what would have cost least in their last {len(pauses)} pauses, by {takes}"
    if abs(kept_s - median(boots or [deploy_s]) / 2) < 1.0:
        return f"half of {takes or f'estimated_vm_deploy_time_s {deploy_s:g}, none was seen to boot yet'}"
    return f"the least, as half of {takes} is less"
