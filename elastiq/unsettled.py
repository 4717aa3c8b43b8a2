"""A view of the workers that may be incomplete: until when it is not believed. Imported for the first.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastiq.interfaces import Workers

if TYPE_CHECKING:
    from elastiq.observations import SettleJudge


def why(judge: SettleJudge, view: Workers, missing: int, expected: int, began: float) -> str:
    """Why it is not settled; empty if it is after all: those that vanished have been away for long enough."""
    settle_s = judge.settle_s
    if view.missing:
        return f"the answer is incomplete: {', '.join(view.missing)}"
    if view.source_up_s is not None and view.source_up_s < settle_s:
        return f"the batch system has been up for only {view.source_up_s:.0f} s of batch_settle_s {settle_s:g}"
    if judge.vanished_at is None:
        judge.vanished_at = began
    away_s = began - judge.vanished_at
    if away_s >= settle_s:
        return ""
    return f"{missing} of {expected} workers vanished {away_s:.0f} s ago: believed after batch_settle_s {settle_s:g}"
