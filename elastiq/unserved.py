"""Jobs that did not start on the machines that were launched for them. Imported when there are some.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, AbstractSet

if TYPE_CHECKING:
    from elastiq.demand import Trial


def found_out(trial: Trial, where: str, pools: AbstractSet[str]) -> None:
    """Machines of these pools run none of the group's jobs: ``where`` is one of them. Says so in its record."""
    trial.refused_by = tuple(sorted({*trial.refused_by, *pools}))
    trial.reason = _reason(where, trial.room_s, pools)


def _reason(where: str, room_s: float, pools: AbstractSet[str]) -> str:
    """``where`` is one such machine; it had room for ``room_s`` seconds, or its kind is too small: ``pools`` are as in
    `elastiq.demand.Trial.refused_by`."""
    if any("/" not in name for name in pools):
        what = f"had room for {room_s:.0f} s, but none of these jobs started"
        return f"a machine was launched for it, and {where} {what}: see the job's Requirements and the worker's START"
    return f"a machine was launched for it, and {where} turned out to be too small"
