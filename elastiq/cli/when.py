"""Points in time as people type them."""

from __future__ import annotations

import re
import time
from argparse import ArgumentTypeError
from datetime import datetime

UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def since(text: str) -> float:
    """A wall time: so long ago, as 90s, 30m, 2h, 7d, 2w; or a local date, or a time of today, as a person types it."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip())
    if ago and ago[2] in UNITS_S:
        return time.time() - float(ago[1]) * UNITS_S[ago[2]]
    given = text.strip()
    if re.fullmatch(r"\d\d:\d\d(:\d\d)?", given):
        given = f"{datetime.now():%Y-%m-%d} {given}"
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError, OSError):
        forms = "30m, 2h, 7d, 2026-11-30, '2026-11-30 14:00' or 14:00"
        raise ArgumentTypeError(f"{text!r} is no time: say it as {forms}") from None
