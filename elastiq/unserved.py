"""What to say of jobs that did not start on the machines that were launched for them. Imported when there are some.

Pure.
"""

from __future__ import annotations

from typing import AbstractSet


def reason(where: str, room_s: float, pools: AbstractSet[str]) -> str:
    """``where`` is one such machine; it had room for ``room_s`` seconds, or its kind is too small: ``pools`` are as in
    `elastiq.demand.Trial.refused_by`."""
    if any("/" not in name for name in pools):
        what = f"had room for {room_s:.0f} s, but none of these jobs started"
        return f"a machine was launched for it, and {where} {what}: see the job's Requirements and the worker's START"
    return f"a machine was launched for it, and {where} turned out to be too small"
