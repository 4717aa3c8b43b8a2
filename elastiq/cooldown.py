"""The pauses after a launch, an end and a failure. Imported once one of them is configured.

Pure.
"""

from __future__ import annotations

from typing import Mapping

from elastiq.settings import Settings


def held_back(settings: Settings, last: Mapping[str, float], now: float) -> tuple[str, str]:
    """Why nothing may be launched, and why no idle machine may be drained now; empty where it may. ``last`` are the
    monotonic times of the last "launch", "end" and "failure"."""
    after_launch = _pause("launch", settings.cooldown_after_launch_s, last, now)
    after_failure = _pause("failure", settings.cooldown_after_failure_s, last, now)
    return after_failure or after_launch, _pause("end", settings.cooldown_after_end_s, last, now)


def _pause(what: str, pause_s: float, last: Mapping[str, float], now: float) -> str:
    left_s = last[what] + pause_s - now if what in last else 0.0
    return f"cooldown_after_{what}_s {pause_s:g} goes on for {left_s:.0f} s" if left_s > 0 else ""
