"""A part of a long trace that stands for the whole."""

from __future__ import annotations

from typing import Optional

from elastiq.whatif.source import DAY_S, Part, Seen

LEAST_DAYS = 2


def typical(seen: Seen, share: float) -> Optional[Part]:
    """So much of it that it takes ``share`` of the time of the whole: the days in a row on which the work is nearest
    to that of as many days on average. None where the whole is no longer, or has too few days."""
    days = int(seen.last_s // DAY_S) + 1
    length = max(LEAST_DAYS, int(days * share))
    if share >= 1.0 or length >= days:
        return None
    mean = sum(seen.work.values()) / days * length
    sums, best = sum(seen.work[day] for day in range(length)), (float("inf"), 0)
    for first in range(days - length + 1):
        best = min(best, (abs(sums - mean), first))
        sums += seen.work[first + length] - seen.work[first]
    return Part(from_s=best[1] * DAY_S, days=float(length))
