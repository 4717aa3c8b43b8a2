"""Times, durations and sizes as batch systems write them -> seconds and MB. A `BadLine` where a text is none."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime

from elastiq.traces.job import BadLine

_SIZE = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kmgtpe]?)(i?)b?\s*", re.IGNORECASE)
_MB = {"": None, "k": 1 / 1024.0, "m": 1.0, "g": 1024.0, "t": 1024.0**2, "p": 1024.0**3, "e": 1024.0**4}
_FRACTION = re.compile(r"(?<=:[0-9]{2})\.([0-9]+)")
_MILLI, _MICRO = 1e11, 1e14  # a time above is in milliseconds, in microseconds
HOURS_KEPT = 10_000


def size_mb(text: str, without: float = 1.0) -> float:
    """``4G``, ``512 MB``, ``2GiB``: units of 1024. A number without a unit is of ``without`` MB."""
    found = _SIZE.fullmatch(text)
    if not found:
        raise BadLine("no size", text)
    unit = _MB[found[2].lower()]
    return number(found[1], "no size") * (without if unit is None else unit)


def number(text: str, otherwise: str = "no number") -> float:
    """Of a text; the `BadLine` says ``otherwise``. Neither infinity nor what is no number (nan) is one."""
    try:
        found = float(text)
    except ValueError:
        raise BadLine(otherwise, text) from None
    if not math.isfinite(found):
        raise BadLine(otherwise, text)
    return found


def whole(text: str) -> int:
    """As `number`."""
    try:
        return int(text)
    except ValueError:
        raise BadLine("no whole number", text) from None


def duration_s(text: str) -> float:
    """``90``, ``1:30`` (minutes), ``01:02:03.5``, ``2-01:02:03``."""
    days, dash, rest = text.strip().rpartition("-")
    parts = rest.split(":")
    if len(parts) > 3 or (dash and not days):
        raise BadLine("no duration", text)
    if dash:  # after days the hours come first (sacct(1), Timelimit)
        parts += ["0"] * (3 - len(parts))
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + number(part, "no duration")
    return seconds + (number(days, "no duration") * 86400 if dash else 0.0)


def epoch_s(number: float) -> float:
    """Forks of Grid Engine write milliseconds or microseconds."""
    return number / 1e6 if number > _MICRO else number / 1e3 if number > _MILLI else number


class Times:
    """Reads times: seconds since 1970, or ISO 8601. One without a zone is of this machine's; in the hour that comes
    twice when summer time ends it is the first. An hour is worked out once."""

    def __init__(self) -> None:
        self._hours: dict[str, float] = {}

    def read(self, text: str) -> float:
        """In seconds since 1970, or as small a number as the text is."""
        if len(text) >= 19 and text[4] == "-" and text[13] == ":" and text[16] == ":":
            if len(text) == 19:
                return self._hour(text[:13]) + _two(text[14:16]) * 60 + _two(text[17:19])
            return _stamp(text[:-1] + "+00:00" if text[-1] in "zZ" else text)
        try:
            return float(text)
        except ValueError:
            return _stamp(text)

    def _hour(self, text: str) -> float:
        found = self._hours.get(text)
        if found is None:
            if len(self._hours) >= HOURS_KEPT:
                self._hours.clear()
            found = self._hours[text] = _stamp(text + ":00")
        return found


def american_s(text: str) -> float:
    """``04/18/2024 12:00:00``, of this machine's zone."""
    try:
        return time.mktime(time.strptime(text, "%m/%d/%Y %H:%M:%S"))
    except (ValueError, OverflowError):
        raise BadLine("no time", text) from None


def _stamp(text: str) -> float:
    # Before Python 3.11, a fraction has three digits or six.
    text = _FRACTION.sub(lambda found: "." + (found[1] + "000000")[:6], text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OSError, OverflowError):  # OSError: a year that the system cannot place
        raise BadLine("no time", text) from None


def _two(text: str) -> int:
    found = whole(text)
    if not 0 <= found < 61:
        raise BadLine("no time", text)
    return found
