"""What a frontier says of the present settings, in sentences."""

from __future__ import annotations

from typing import Optional

from elastiq.whatif.report_frontier import Frontier, Point, settings_of
from elastiq.whatif.report_markup import duration, money, number


def advice(found: Frontier, present: Optional[int]) -> list[str]:
    """Up to two sentences; which run is better than that of the number ``present``, and by how much."""
    now = next((one for one in found.points if one.number == present), None)
    if now is None or now.number in found.hollow or len(found.points) < 2:
        return []
    comparable = [one for one in found.points if one.number not in found.hollow]
    cheapest = min((one for one in comparable if one.wait_s <= now.wait_s), key=lambda one: (one.spent, one.wait_s))
    quickest = min((one for one in comparable if one.spent <= now.spent), key=lambda one: (one.wait_s, one.spent))
    if cheapest.spent >= now.spent and quickest.wait_s >= now.wait_s:
        return ["The present settings are on the line: no run is better in one and not worse in the other."]
    said = []
    if cheapest.spent < now.spent:
        said.append(f"For no more waiting, the least cost is run {_told(cheapest, now, found.by_cost)}.")
    if quickest.wait_s < now.wait_s and quickest.number != cheapest.number:
        said.append(f"For no more cost, the least waiting is run {_told(quickest, now, found.by_cost)}.")
    return said


def _told(one: Point, now: Point, by_cost: bool) -> str:
    say = money if by_cost else number
    unit = "" if by_cost else " machine-hours"
    return (
        f"{one.number} ({settings_of(one.run)}): {say(one.spent)}{unit} instead of {say(now.spent)}"
        f"{_change(one.spent, now.spent)}, mean wait {duration(one.wait_s)} instead of {duration(now.wait_s)}"
    )


def _change(one: float, now: float) -> str:
    """` (12 % less)`; nothing where it is the same."""
    if not now > 0 or one >= now:
        return ""
    return f" ({100 * (now - one) / now:.2g} % less)"
