"""Where the ticks of an axis are and what they say. Pure, but for the zone of this machine in dates."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Callable, Iterator, NamedTuple, Optional, Sequence

from elastiq.whatif.report_markup import round_duration

_DAY_S = 86400.0
_STEPS_S: Sequence[float] = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200)
_DAYS = (1, 2, 4, 7, 14)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600)
_WAITS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800)
_WAITS_DAYS = (1, 2, 4, 7, 14, 30, 60, 120, 365, 730)
_MOST_WAITS = 7


class Tick(NamedTuple):
    """``part`` of the axis, 0 to 1, and what it says there."""

    part: float
    text: str


class Axis(NamedTuple):
    """From ``low`` to ``high``, which differ; ``log``: both are above 0."""

    low: float
    high: float
    ticks: Sequence[Tick]
    log: bool = False

    def part(self, value: float) -> float:
        """Where it lies, 0 to 1 on the axis; what lies outside is put at the end."""
        return min(1.0, max(0.0, _part(value, self.low, self.high, self.log)))


def _part(value: float, low: float, high: float, log: bool) -> float:
    if log:
        return math.log(max(value, low) / low) / math.log(high / low)
    return (value - low) / (high - low)


def from_zero(highest: float, whole: bool = False) -> Axis:
    """For a count or an amount. ``whole``: there are no halves of it."""
    highest = highest if highest > 0 else 1.0
    step = _nice(highest / 4, whole)
    high = step * math.ceil(highest / step - 1e-9)
    return _even(0.0, high, step, _amount(step))


def around(values: Sequence[float]) -> Axis:
    """For amounts that are compared: from somewhat below the least to somewhat above the most."""
    low, high = min(values), max(values)
    if low <= 0.25 * high or high <= 0:
        return from_zero(high * 1.06)
    room = 0.1 * (high - low) or 0.1 * high
    step = _nice((high - low + 2 * room) / 5, False)
    return _even(step * math.floor((low - room) / step), step * math.ceil((high + room) / step), step, _amount(step))


def waits(values: Sequence[float]) -> Axis:
    """For seconds of waiting: a logarithmic one where they differ much, on which none lies at its lower end."""
    high = max(values)
    low = max(min(values), high / 3000, _WAITS_S[0])
    if high / low > 25:
        low, high = low / 1.4, high * 1.4
        inside = [at for at in (*_WAITS_S, *(_DAY_S * days for days in _WAITS_DAYS)) if low <= at <= high]
        inside = inside[:: -(-len(inside) // _MOST_WAITS) or 1]
        return Axis(low, high, [Tick(_part(at, low, high, True), round_duration(at)) for at in inside], True)
    if high <= 0:
        high = 1.0
    step = next((step for step in _STEPS_S if step >= high / 5), _nice(high / 5 / _DAY_S, whole=False) * _DAY_S)
    return _even(0.0, step * math.ceil(high * 1.04 / step), step, round_duration)


def _even(low: float, high: float, step: float, say: Callable[[float], str]) -> Axis:
    count = round((high - low) / step)
    return Axis(low, high, [Tick(one / count, say(low + one * step)) for one in range(count + 1)])


def _amount(step: float) -> Callable[[float], str]:
    """As many digits as tell ticks of this step apart; its last one may be the 5 of 2.5."""
    digits = next((count for count in range(9) if abs(round(step, count) - step) < step * 1e-6), 9)
    return lambda value: f"{value:,.{digits}f}"


def _nice(least: float, whole: bool) -> float:
    """The next of 1, 2, 5, 10, 20 and so on (2.5 and 25 too, where halves make sense)."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    found = next(power * one for one in (1, 2, 2.5, 5, 10, 20) if power * one >= least * (1 - 1e-9))
    return max(1.0, math.ceil(found)) if whole else found


def times(length_s: float, began_at: Optional[float], most: int = 9) -> list[Tick]:
    """Of an axis of time. With ``began_at``, its wall time, they are this machine's dates and times of day."""
    length_s = max(length_s, 1.0)
    local = _local(began_at, length_s)
    if local is None:
        few = _nice(length_s / most / _DAY_S, whole=True) * _DAY_S
        step = next((step for step in _STEPS_S if length_s / step <= most), few)
        return [Tick(at * step / length_s, round_duration(at * step)) for at in range(int(length_s / step) + 1)]
    found = []
    for when, text in _dated(local, length_s, most):
        at_s = when.timestamp() - local.timestamp()
        if 0 <= at_s <= length_s:
            found.append(Tick(at_s / length_s, text))
    return found


def moment(at_s: float, began_at: Optional[float]) -> str:
    """A point in time: `Fri 2 Mar 2001, 14:05`, or `2 d 3 h` after the begin."""
    if (local := _local(began_at, at_s)) is not None:
        then = datetime.fromtimestamp(local.timestamp() + at_s)
        return f"{then:%a} {then.day} {then:%b %Y, %H:%M}"
    days, rest = divmod(at_s, _DAY_S)
    hours, minutes = int(rest // 3600), int(rest % 3600 // 60)
    return f"day {int(days)}, {hours:02}:{minutes:02}" if days else f"{hours} h {minutes:02} min"


def _local(began_at: Optional[float], length_s: float) -> Optional[datetime]:
    """None where there are no dates, or none that a calendar has."""
    try:
        if began_at is None or datetime.fromtimestamp(began_at + length_s + 366 * _DAY_S) is None:
            return None
        return datetime.fromtimestamp(began_at)
    except (ValueError, OverflowError, OSError):
        return None


def _dated(begin: datetime, length_s: float, most: int) -> Iterator[tuple[datetime, str]]:
    """Round times from the begin on, and beyond the end."""
    end = begin + timedelta(seconds=length_s)
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    step_s = next((step for step in _STEPS_S if length_s / step <= most), None)
    if step_s is not None:
        for at in range(int((length_s + _DAY_S) / step_s) + 1):
            when = midnight + timedelta(seconds=at * step_s)
            exact = f"{when:%H:%M}" if step_s >= 60 else f"{when:%H:%M:%S}"
            yield when, exact if when.hour or when.minute or when.second else f"{when.day} {when:%b}"
        return
    days = length_s / _DAY_S
    step = next((step for step in _DAYS if days / step <= most), None)
    if step is not None:
        for at in range(0, int(days) + 2, step):
            when = midnight + timedelta(days=at + 1)
            yield when, f"{when.day} {when:%b}"
        return
    months = next((step for step in _MONTHS if days / 30.4 / step <= most), _MONTHS[-1])
    at = begin.year * 12 + begin.month - 1
    at -= at % months
    while at // 12 <= end.year:
        when = datetime(at // 12, at % 12 + 1, 1)
        yield when, f"{when:%b}" if at % 12 else f"{when.year}"
        at += months
