"""HTCondor's ads as its commands print them in JSON. Pure: no command runs here.

Facts about the format, from HTCondor's source and from a 23.9 pool: an expression is the string
``"\\/Expr(...)\\/"``, undefined is null, names of attributes are case-insensitive, an empty list is zero
bytes, a byte above 0x7f passes as it is (so that the document need not be UTF-8).
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Mapping, Optional

from elastiq.interfaces import SourceError

Row = Mapping[str, Any]  # one ad: its names in lower case


def rows(text: str, what: str) -> list[Row]:
    """The ads of a JSON answer; `SourceError` for anything else."""
    try:
        parsed = json.loads(text, object_pairs_hook=_lower) if text.strip() else []
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, list) or not all(isinstance(ad, dict) for ad in parsed):
        begin = " ".join(text[:200].split())[:60]
        raise SourceError(f"{what} answered something that is not JSON, or no list of ads ({begin!r})")
    return parsed


def _lower(ad: list[tuple[str, Any]]) -> dict[str, Any]:
    return {sys.intern(name.lower()): value for name, value in ad}


def number(value: Any) -> Optional[float]:
    """The value as a finite number, also from a string; None for anything else (an expression, say)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def word(row: Row, name: str) -> str:
    """The text of an attribute in lower case, empty if it is no text."""
    value = row.get(name)
    return value.lower() if isinstance(value, str) else ""
