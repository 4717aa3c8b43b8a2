"""The sections [schedule:NAME] -> schedules, and what is wrong with them.

Imported only for a configuration that has one.
"""

from __future__ import annotations

import re
import zoneinfo
from collections import Counter
from dataclasses import replace
from datetime import date, timezone, tzinfo
from typing import Any, Iterator, Mapping, Optional, Sequence

from elastiq.inifile import Problems, Section
from elastiq.names import nearest
from elastiq.options import Kind, Option
from elastiq.quotas import contradictions
from elastiq.schedule import DAY_MIN, Schedule, Window, limited
from elastiq.settings import Settings

_LIMITS = ("min_vms", "max_vms", "min_idle_vms")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SOME = f"(?:{'|'.join(_DAYS)})(?:-(?:{'|'.join(_DAYS)}))?"  # Sat, or Mon-Fri
_WINDOW = re.compile(
    rf"(?:({_SOME}(?:\s*,\s*{_SOME})*)\s+)?([0-9]{{1,2}}:[0-9]{{2}})\s*-\s*([0-9]{{1,2}}:[0-9]{{2}})\s*(?:,\s*|$)",
    re.IGNORECASE,
)
# What can be in force together is looked up in a year, by its time zones; always in the same one, so that
# a file is right or wrong whenever it is read.
_YEAR = (date(2023, 12, 30), 369)


def windows(lines: Sequence[str]) -> tuple[Window, ...]:
    """Those of ``when``. Raises ValueError with a complaint for a person."""
    return tuple(window for line in lines for window in _windows(line))


def _windows(line: str) -> Iterator[Window]:
    at = 0
    while at < len(line):
        found = _WINDOW.match(line, at)
        if not found:
            form = "Mon-Fri 08:00-18:00, Sat,Sun 10:00-14:00"
            raise ValueError(f"`{line[at : at + 60]}` is not of the form DAYS HH:MM-HH:MM, as {form}")
        days, (begin, end) = found.group(1) or "mon-sun", map(_minutes, found.group(2, 3))
        if begin == end:
            raise ValueError(f"`{found.group().strip(', ')}` has no length; the whole day is 00:00-24:00")
        if begin == DAY_MIN:
            raise ValueError("cannot begin at 24:00, write 00:00 and the next day")
        yield Window(_days(days.lower()), begin, end if end > begin else end + DAY_MIN)
        at = found.end()


def _minutes(text: str) -> int:
    hours, minutes = map(int, text.split(":"))
    if minutes > 59 or hours * 60 + minutes > DAY_MIN:
        raise ValueError(f"`{text}` is no time, write one from 00:00 to 24:00")
    return hours * 60 + minutes


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in re.split(r"\s*,\s*", text):
        first, _, last = part.partition("-")
        begin, end = _DAYS.index(first), _DAYS.index(last or first)
        found |= {day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)}  # Sat-Mon goes on
    return frozenset(found)


def _when(lines: Sequence[str]) -> str:
    try:
        windows(lines)
    except ValueError as error:
        return str(error)
    return ""


def zone_of(name: str) -> Optional[tzinfo]:
    """The time zone of that name, as the machine's data has it now; None if there is none."""
    if name == "UTC":
        return timezone.utc  # known without any data
    try:
        return zoneinfo.ZoneInfo.no_cache(name)
    except (KeyError, ValueError, OSError):  # unknown; no relative path; a directory
        return None


def _timezone(name: str) -> str:
    if zone_of(name):
        return ""
    known = zoneinfo.available_timezones()
    if not known:
        return "cannot be looked up, this machine has no time zone data: install tzdata, or write UTC"
    meant = nearest(name, known)
    what = f"did you mean `{meant}`?" if meant else "write one as Europe/Berlin, or UTC"
    return f"`{name[:60]}` is no time zone, {what}"


OPTIONS: tuple[Option, ...] = (
    Option("when", Kind.LINES, required=True, check=_when),
    Option("timezone", Kind.TEXT, required=True, check=_timezone),
    Option("pool", Kind.TEXT),
    Option("min_vms", Kind.INT, unit="machines"),
    Option("max_vms", Kind.LIMIT, unit="machines"),
    Option("min_idle_vms", Kind.INT, unit="machines", needs=("pool",)),
)


def scheduled(
    settings: Settings, read: Mapping[str, dict[str, Any]], bad: set[tuple[str, str]], problems: Problems
) -> Settings:
    """The settings with the schedules; ``read`` has the values of each section, ``bad`` what could not be read."""
    found: list[Schedule] = []
    for section, values in read.items():
        schedule = _schedule(problems.sections[section], values, problems)
        if values["pool"] and not settings.pool(values["pool"]) and {one for one, _ in bad} <= {*read}:
            meant = nearest(values["pool"], [pool.name for pool in settings.pools])
            what = f"did you mean `{meant}`?" if meant else "write the NAME of a section [ec2:NAME]"
            problems.at(section, "pool", f"there is no pool `{values['pool'][:60]}`, {what}")
        elif schedule:
            found.append(schedule)
    phases = _phases(found)
    if _undisputed(phases, problems) and not bad:
        _check_limits(settings, phases, problems)
    return replace(settings, schedules=tuple(found))


def _schedule(section: Section, values: dict[str, Any], problems: Problems) -> Optional[Schedule]:
    name = section.name.partition(":")[2]
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        text = "is to be [schedule:NAME], the name of letters, digits, `_`, `.` and `-`; rename it"
        problems.at(section.name, "", text)
    given = [key for key in _LIMITS if key in section.entries and section.entries[key].value]
    if not given and section.entries.keys() <= {option.name for option in OPTIONS}:  # else one of them is mistyped
        problems.at(section.name, "", f"sets no limit, set one of {', '.join(_LIMITS)}")
    of_no_pool = "min_idle_vms" in given and not values["pool"]
    if not (name and given and values["when"] and values["timezone"]) or of_no_pool:
        return None
    limits = tuple((key, values[key]) for key in given)
    when, zone = windows(values["when"]), zone_of(values["timezone"])
    return Schedule(name, when, values["timezone"], zone, limits, values["pool"] or "") if zone else None


def _phases(schedules: Sequence[Schedule]) -> list[tuple[Schedule, ...]]:
    """Which are in force together at some time, the smaller ones first."""
    events: list[tuple[float, int, int]] = []
    for number, schedule in enumerate(schedules):
        for begin, end in schedule.spans(*_YEAR):
            events += [(begin, 1, number), (end, -1, number)]
    open_windows: Counter[int] = Counter()
    found = set()
    events.sort()
    for (moment, change, number), (after, *_) in zip(events, [*events[1:], (float("inf"), 0, 0)]):
        open_windows[number] += change
        if after > moment:
            found.add(tuple(sorted((+open_windows).keys())))
    return [tuple(schedules[number] for number in phase) for phase in sorted(found, key=lambda one: (len(one), one))]


def _undisputed(phases: Sequence[tuple[Schedule, ...]], problems: Problems) -> bool:
    """Whether no two schedules set the same limit at the same time."""
    disputed = False
    for phase in phases:
        setters: dict[tuple[str, str], Schedule] = {}
        for schedule in phase:
            for key, _ in schedule.limits:
                other = setters.setdefault((schedule.pool, key), schedule)
                if other is not schedule:
                    disputed = True
                    both = (
                        f"both [schedule:{other.name}] and this one set it at some time, and can be in force together"
                    )
                    problems.at(f"schedule:{schedule.name}", key, f"{both}; change `when`, or remove one")
    return not disputed


def _check_limits(settings: Settings, phases: Sequence[tuple[Schedule, ...]], problems: Problems) -> None:
    """What holds for the limits of the sections holds for those of every time."""
    told = set()
    for phase in phases:
        for places, text in contradictions(limited(settings, phase)):
            set_by = [(s, key) for pool, key in places for s in phase if s.pool == pool and key in dict(s.limits)]
            if set_by and set_by[0] not in told:  # without: it is so at any time, and has been told
                told.add(set_by[0])
                names = " and ".join(s.name for s in phase)
                what = f"of pool {places[0][0]}" if places[0][0] else "of the cluster"
                said = f"with {names} in force, {places[0][1]} {what}: {text}; change one"
                problems.at(f"schedule:{set_by[0][0].name}", set_by[0][1], said)
