"""Limits by time: which schedules are in force at a wall time, and the settings as they then are.

A window is told in local time, by its first day. On the day when an hour is skipped, a time within that
hour is the moment of the change; where an hour comes twice, a time within it means the first. So windows
that do not overlap by the clock never do, none opens twice, and each closes when the next one opens.

Imported only for a configuration with a section [schedule:NAME]. A wall time is seconds since the epoch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Iterator, Optional

from elastiq.interfaces import Pool
from elastiq.settings import Settings

DAY_MIN = 24 * 60
# A week, and another: the change of an hour can swallow a weekly window once.
_AHEAD_DAYS = 16


@dataclass(frozen=True)
class Window:
    """On these days (0 is Monday), in minutes after midnight; one over midnight ends after `DAY_MIN`."""

    days: frozenset[int]
    begin_min: int
    end_min: int


@dataclass(frozen=True)
class Schedule:
    """``limits`` are min_vms, max_vms and min_idle_vms, as far as they are set, of a pool or of the cluster."""

    name: str
    windows: tuple[Window, ...]
    timezone: str
    zone: tzinfo = field(compare=False, repr=False)
    limits: tuple[tuple[str, Optional[int]], ...]
    pool: str = ""  # of the cluster

    def spans(self, first: date, days: int) -> Iterator[tuple[float, float]]:
        """From when until when its windows are open that begin on these days."""
        for day in (first + timedelta(days=n) for n in range(days)):
            for window in self.windows:
                if day.weekday() in window.days:
                    begin, end = (_moment(day, minutes, self.zone) for minutes in (window.begin_min, window.end_min))
                    if begin < end:  # else it lies within a skipped hour
                        yield begin, end

    def spans_around(self, wall: float, ahead_days: int = 1) -> Iterator[tuple[float, float]]:
        """Those that may be open at that time, and those of the days after it. One of the next day may be open when
        clocks went back over midnight."""
        return self.spans(datetime.fromtimestamp(wall, self.zone).date() - timedelta(days=1), 2 + ahead_days)


@dataclass(frozen=True)
class _Made:
    given: Settings
    since: float
    until: float
    made: Settings


_last: list[_Made] = []  # one at most: who asks for the time of day asks again in a moment


def schedules_in_force(settings: Settings, wall: float) -> tuple[Schedule, ...]:
    """Those of which a window is open, in the order of the file."""
    return tuple(s for s in settings.schedules if any(begin <= wall < end for begin, end in s.spans_around(wall)))


def in_force(settings: Settings, wall: float) -> Settings:
    """The settings with the limits that hold at that time; the same object until a schedule begins or ends.

    ``settings`` are those of the file, never what this function returned. Fingerprints of pools stay.
    """
    last = _last[0] if _last else None
    # By identity: equal settings may differ in the options of a pool.
    if last is None or last.given is not settings or not last.since <= wall < last.until:
        until = next_change(settings, wall)
        made = limited(settings, schedules_in_force(settings, wall))
        last = _Made(settings, wall, math.inf if until is None else until, made)
        _last[:] = [last]
    return last.made


def next_change(settings: Settings, wall: float) -> Optional[float]:
    """When the next schedule begins or ends, None if none ever does."""
    spans = [span for schedule in settings.schedules for span in schedule.spans_around(wall, _AHEAD_DAYS)]
    now = schedules_in_force(settings, wall)
    later = sorted({moment for span in spans for moment in span if moment > wall})
    return next((moment for moment in later if schedules_in_force(settings, moment) != now), None)


def limited(settings: Settings, schedules: tuple[Schedule, ...]) -> Settings:
    """The settings while these are in force."""
    for schedule in schedules:
        limits = dict(schedule.limits)
        if schedule.pool:
            pools = (_limited(pool, limits) if pool.name == schedule.pool else pool for pool in settings.pools)
            settings = replace(settings, pools=tuple(pools))
        else:
            settings = replace(settings, **limits)  # type: ignore[arg-type]
    return settings


def _limited(pool: Pool, limits: dict[str, Optional[int]]) -> Pool:
    spares = limits.get("min_idle_vms")
    terms = pool.terms if spares is None else replace(pool.terms, min_idle_vms=spares)
    own = {key: value for key, value in limits.items() if key != "min_idle_vms"}
    return replace(pool, terms=terms, **own)  # type: ignore[arg-type]


def _moment(day: date, minutes: int, zone: tzinfo) -> float:
    """When the clocks of the zone first show that time or a later one."""
    local = datetime(day.year, day.month, day.day) + timedelta(minutes=minutes)
    # PEP 495: fold=0 is the first of a time that comes twice, and reads a skipped one by the offset before the
    # change, fold=1 by that after it, which is earlier.
    first, second = (int(local.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
    if second >= first:
        return first
    before, after = second, first  # the change, between them
    offset = datetime.fromtimestamp(before, zone).utcoffset()
    while after - before > 1:
        middle = (before + after) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
