"""Sets of task numbers as batch systems write them: ``2,4-10:1``, ``[0-9]%2``, ``1,3,5-9:2``. Pure."""

from __future__ import annotations

import re
from typing import Optional

_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def count(text: str) -> int:
    """How many numbers a set has; a part may be ``N``, ``FIRST-LAST`` or ``FIRST-LAST:STEP``. Raises ValueError."""
    total = 0
    for part in text.strip().strip("[]").split(","):
        found = _PART.fullmatch(part.strip())
        if not found:
            raise ValueError(f"`{text[:60]}` is no set of task numbers")
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or step < 1:
            raise ValueError(f"`{text[:60]}` is no set of task numbers")
        total += (last - first) // step + 1
    return total


def limited(text: str) -> tuple[int, Optional[int]]:
    """Of ``[2-9]%3``: how many numbers there are, and how many tasks may run at once (None: no limit said).
    Raises ValueError."""
    numbers, percent, limit = text.strip().partition("%")
    limit = limit.rstrip("]")
    if percent and not limit.isdigit():
        raise ValueError(f"`{text[:60]}` is no set of task numbers")
    return count(numbers), int(limit) if percent else None


def includes(text: str, number: int) -> bool:
    """Whether the number is in a set. Raises ValueError."""
    count(text)
    parts = (_PART.fullmatch(part.strip()) for part in text.strip().strip("[]").split(","))
    ranges = (range(int(part[1]), int(part[2] or part[1]) + 1, int(part[3] or 1)) for part in parts if part)
    return any(number in one for one in ranges)
