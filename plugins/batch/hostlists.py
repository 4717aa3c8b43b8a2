"""Lists of host names as Slurm writes them: ``n1``, ``n[1-3,07]``, ``rack[1-2]n[01-04],login``. Pure."""

from __future__ import annotations

import re
from itertools import product
from typing import Iterator

MOST = 100_000
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> list[str]:
    """Every name, in order; the width of a range's first number is kept. Raises ValueError."""
    found: list[str] = []
    for entry in _entries(text):
        parts = [
            _numbers(part[1:-1]) if part.startswith("[") else [part] for part in re.findall(r"\[[^\]]*\]|[^\[]+", entry)
        ]
        if "]" in "".join(part for choices in parts for part in choices):
            raise ValueError(f"`{text[:60]}` is no list of hosts")
        for pieces in product(*parts):
            found.append("".join(pieces))
            if len(found) > MOST:
                raise ValueError(f"`{text[:60]}` has more than {MOST} hosts")
    return found


def _entries(text: str) -> Iterator[str]:
    """What commas outside of brackets separate."""
    for entry in re.findall(r"(?:[^,\[]|\[[^\]]*\])+|\[", text.strip()):
        if entry == "[" or not entry.strip():
            raise ValueError(f"`{text[:60]}` is no list of hosts")
        yield entry.strip()


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        ends = _RANGE.fullmatch(part.strip())
        if not ends:
            raise ValueError(f"`[{text[:60]}]` is no range of hosts")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first or last - first > MOST:
            raise ValueError(f"`[{text[:60]}]` is no range of hosts")
        found += [f"{number:0{len(ends[1])}d}" for number in range(first, last + 1)]
    return found
