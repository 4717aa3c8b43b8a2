"""Which schedules are in force at a time, also when clocks are changed, and the settings as they then are."""

from __future__ import annotations

import dataclasses
import random
from datetime import datetime, timedelta, timezone
from typing import Optional
from zoneinfo import ZoneInfo

import pytest

from elastiq.interfaces import Pool, Terms
from elastiq.schedule import Schedule, in_force, next_change, schedules_in_force
from elastiq.settings import Settings
from elastiq.timetable import windows

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def schedule(when: str, zone: str = BERLIN, name: str = "s", pool: str = "", **limits: Optional[int]) -> Schedule:
    limits = limits or {"max_vms": 9}
    return Schedule(name, windows(when.split("\n")), zone, ZoneInfo(zone), tuple(limits.items()), pool)


def settings(*schedules: Schedule) -> Settings:
    pools = (Pool("a", "site", ("m",), fingerprint="fa"), Pool("b", "site", ("m",), max_vms=2, fingerprint="fb"))
    return Settings("c", pools, schedules=schedules)


def at(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


def is_open(one: Schedule, wall: float) -> bool:
    return bool(schedules_in_force(settings(one), wall))


def spans(one: Schedule, begin: float, end: float) -> list[tuple[float, float]]:
    """From when until when it is in force, as `next_change` has it."""
    found, wall, s = [], begin, settings(one)
    assert not is_open(one, begin)
    while (opens := next_change(s, wall)) is not None and opens < end:
        closes = next_change(s, opens)
        assert closes is not None
        assert [is_open(one, w) for w in (opens - 1, opens, closes - 1, closes)] == [False, True, True, False]
        found.append((opens, closes))
        wall = closes
    return found


# ----------------------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("when", "inside", "outside"),
    [
        ("Mon-Fri 08:00-18:00", ["2026-06-01T08:00", "2026-06-05T17:59"], ["2026-06-01T07:59", "2026-06-05T18:00"]),
        ("Mon-Fri 08:00-18:00", [], ["2026-06-06T12:00", "2026-06-07T12:00"]),
        ("sat,SUN 00:00-24:00", ["2026-06-06T00:00", "2026-06-07T23:59"], ["2026-06-05T23:59", "2026-06-08T00:00"]),
        ("22:00-06:00", ["2026-06-01T22:00", "2026-06-02T05:59", "2026-06-02T23:00"], ["2026-06-02T06:00"]),
        ("Fri 22:00-06:00", ["2026-06-05T22:00", "2026-06-06T05:59"], ["2026-06-05T05:00", "2026-06-06T22:00"]),
        ("Sun 22:00-06:00", ["2026-06-08T05:59"], ["2026-06-07T05:00", "2026-06-08T22:30"]),
        ("Sat-Mon 10:00-11:00", ["2026-06-06T10:00", "2026-06-07T10:00", "2026-06-08T10:00"], ["2026-06-09T10:00"]),
        ("Fri-Mon,Wed 9:00-10:00", ["2026-06-05T09:00", "2026-06-03T09:30"], ["2026-06-02T09:00", "2026-06-04T09:00"]),
        ("Mon 20:00-00:00", ["2026-06-01T23:59"], ["2026-06-02T00:00", "2026-06-01T19:59"]),
        ("Mon 20:00-24:00", ["2026-06-01T23:59"], ["2026-06-02T00:00", "2026-06-01T19:59"]),
        ("Mon 08:00-09:00, Tue,Wed 10:00-11:00", ["2026-06-01T08:30", "2026-06-03T10:30"], ["2026-06-01T10:30"]),
        ("Mon 08:00-09:00\nTue 10:00-11:00, 12:00-13:00", ["2026-06-02T10:30", "2026-06-06T12:30"], []),
        ("Thu 08:00-18:00", ["2024-02-29T12:00"], ["2024-02-28T12:00", "2024-03-01T12:00"]),
        ("Thu 22:00-02:00", ["2024-02-29T23:00", "2024-03-01T01:00"], ["2024-02-29T01:00"]),
        ("Wed 22:00-02:00", ["2024-02-29T01:59"], ["2024-02-29T02:00"]),
    ],
)
def test_a_window_is_open_from_its_beginning_to_its_end(when: str, inside: list[str], outside: list[str]) -> None:
    one = schedule(when)
    assert [text for text in inside if not is_open(one, at(text))] == []
    assert [text for text in outside if is_open(one, at(text))] == []


def test_a_window_is_told_in_its_own_time_zone() -> None:
    moment = at("2026-06-01T08:30", NEW_YORK)
    assert is_open(schedule("Mon 08:00-09:00", NEW_YORK), moment)
    assert not is_open(schedule("Mon 08:00-09:00", BERLIN), moment)
    assert is_open(schedule("Mon 14:00-15:00", BERLIN), moment)


# In both zones clocks go on by an hour at 02:00 in spring; in autumn they go back at 03:00 or 02:00.
SPRING = [(BERLIN, "2026-03-29", "2026-03-29T01:00"), (NEW_YORK, "2026-03-08", "2026-03-08T07:00")]
AUTUMN = [(BERLIN, "2026-10-25", 2, "2026-10-25T00:00"), (NEW_YORK, "2026-11-01", 1, "2026-11-01T05:00")]


@pytest.mark.parametrize(("zone", "day", "change"), SPRING)
def test_a_window_that_begins_in_a_skipped_hour_opens_with_the_change(zone: str, day: str, change: str) -> None:
    one = schedule("02:30-06:00", zone)
    (found,) = spans(one, at(f"{day}T00:00", zone), at(f"{day}T12:00", zone))
    assert found == (utc(change), at(f"{day}T06:00", zone)) and found[1] - found[0] == 3 * 3600


@pytest.mark.parametrize(("zone", "day", "change"), SPRING)
def test_a_window_that_ends_in_a_skipped_hour_closes_with_the_change(zone: str, day: str, change: str) -> None:
    one = schedule("00:30-02:30", zone)
    assert spans(one, at(f"{day}T00:00", zone), at(f"{day}T12:00", zone)) == [(at(f"{day}T00:30", zone), utc(change))]


@pytest.mark.parametrize(("zone", "day", "change"), SPRING)
def test_a_window_within_a_skipped_hour_does_not_open_that_day(zone: str, day: str, change: str) -> None:
    one = schedule("Sun 02:15-02:45", zone)
    begin = at(f"{day}T00:00", zone) - 6.5 * 86400  # the last Sunday, after its window
    opens = next_change(settings(one), begin)
    next_sunday = (datetime.fromisoformat(day) + timedelta(days=7)).strftime("%Y-%m-%d")
    assert opens == at(f"{next_sunday}T02:15", zone)
    assert not any(is_open(one, utc(change) + seconds) for seconds in range(-3600, 3600, 300))


@pytest.mark.parametrize(("zone", "day", "hour", "first"), AUTUMN)
def test_an_hour_that_comes_twice_means_the_first(zone: str, day: str, hour: int, first: str) -> None:
    begin, end = at(f"{day}T00:00", zone), at(f"{day}T12:00", zone)
    half = utc(first) + 1800
    assert spans(schedule(f"0{hour}:30-06:00", zone), begin, end) == [(half, at(f"{day}T06:00", zone))]
    assert spans(schedule(f"00:10-0{hour}:30", zone), begin, end) == [(at(f"{day}T00:10", zone), half)]
    within = schedule(f"0{hour}:15-0{hour}:45", zone)
    assert spans(within, begin, end) == [(half - 900, half + 900)]
    assert not is_open(within, at(f"{day}T0{hour}:30", zone, fold=1))


@pytest.mark.parametrize(("zone", "day"), [(BERLIN, "2026-03-29"), (NEW_YORK, "2026-11-01"), (BERLIN, "2026-10-25")])
def test_a_whole_day_is_as_long_as_the_clocks_make_it(zone: str, day: str) -> None:
    after = (datetime.fromisoformat(day) + timedelta(days=1)).strftime("%Y-%m-%d")
    (found,) = spans(schedule("Sun 00:00-24:00", zone), at(f"{day}T00:00", zone) - 60, at(f"{after}T12:00", zone))
    assert found == (at(f"{day}T00:00", zone), at(f"{after}T00:00", zone))
    assert found[1] - found[0] == (23 if day.startswith("2026-03") else 25) * 3600


def test_a_window_of_the_next_day_stays_open_when_clocks_go_back_over_midnight() -> None:
    zone = "America/St_Johns"  # there, at 00:01, to 23:01 of the day before
    begin = at("2010-11-06T12:00", zone)
    (found,) = spans(schedule("Sun 00:00-06:00", zone), begin, begin + 86400)
    assert found == (utc("2010-11-07T02:30"), utc("2010-11-07T09:30"))
    assert is_open(schedule("Sun 00:00-06:00", zone), at("2010-11-06T23:30", zone, fold=1))


# Where something happens to the clocks: also by half an hour, at midnight, and by a whole day.
CHANGES = [
    (BERLIN, "2026-03-29T01:00"),
    (BERLIN, "2026-10-25T01:00"),
    (NEW_YORK, "2026-03-08T07:00"),
    (NEW_YORK, "2026-11-01T06:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("America/Havana", "2026-11-01T05:00"),
    ("America/St_Johns", "2010-11-07T02:31"),
    ("Pacific/Apia", "2011-12-30T10:00"),
]


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_windows_follow_the_latest_time_that_the_clocks_have_shown(zone: str, change: str) -> None:
    """The rule in other words, minute by minute: a boundary has passed once clocks have shown it or more."""
    dice = random.Random(change)
    made = []
    for _ in range(8):
        begin = dice.randrange(1440)
        end = (begin + dice.choice([10, 45, 90, 400, 1439])) % 1440
        days = ",".join(dice.sample(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], dice.choice([1, 3, 7])))
        made.append((begin, end if end > begin else end + 1440, days))
    every = [schedule(f"{d} {b // 60:02}:{b % 60:02}-{e % 1440 // 60:02}:{e % 60:02}", zone) for b, e, d in made]
    shown = datetime.min
    start = utc(change) - 30 * 3600
    for step in range(0, 60 * 60, 9):  # 2.5 days
        wall = start + step * 60
        shown = max(shown, datetime.fromtimestamp(wall, ZoneInfo(zone)).replace(tzinfo=None))
        for (begin, end, days), one in zip(made, every):
            expected = False
            for back in (0, 1):
                midnight = datetime(shown.year, shown.month, shown.day) - timedelta(days=back)
                minutes = (shown - midnight).total_seconds() / 60
                expected |= midnight.strftime("%a") in days and begin <= minutes < end
            assert is_open(one, wall) == expected, (datetime.fromtimestamp(wall, ZoneInfo(zone)), one.windows)


# ----------------------------------------------------------------------------- changes


def test_the_next_change_is_when_another_set_of_schedules_is_in_force() -> None:
    s = settings(schedule("Mon-Fri 08:00-18:00", name="day"), schedule("Mon 12:00-20:00", pool="a", name="noon"))
    seen, wall = [], at("2026-06-01T00:00")
    for _ in range(6):
        found = next_change(s, wall)
        assert found is not None
        wall = found
        local = datetime.fromtimestamp(wall, ZoneInfo(BERLIN)).strftime("%a %H:%M")
        seen.append((local, [one.name for one in schedules_in_force(s, wall)]))
    assert seen == [
        ("Mon 08:00", ["day"]),
        ("Mon 12:00", ["day", "noon"]),
        ("Mon 18:00", ["noon"]),
        ("Mon 20:00", []),
        ("Tue 08:00", ["day"]),
        ("Tue 18:00", []),
    ]


def test_windows_that_follow_each_other_are_no_change() -> None:
    one = schedule("Mon 08:00-12:00, Mon 12:00-18:00, Mon 10:00-14:00")
    assert next_change(settings(one), at("2026-06-01T09:00")) == at("2026-06-01T18:00")


@pytest.mark.parametrize("when", ["00:00-24:00", "12:00-11:59, 11:00-12:30"])
def test_what_is_always_in_force_never_changes(when: str) -> None:
    s = settings(schedule(when))
    assert next_change(s, at("2026-03-28T12:00")) is None
    assert in_force(s, at("2026-03-28T12:00")) is in_force(s, at("2027-03-28T12:00"))


def test_without_a_schedule_there_is_no_change_and_the_settings_are_as_they_were() -> None:
    s = settings()
    assert next_change(s, 0.0) is None and in_force(s, 0.0) is s


# ----------------------------------------------------------------------------- settings


def test_a_schedule_changes_the_limits_of_the_cluster_while_it_is_in_force() -> None:
    s = settings(schedule("Mon 08:00-18:00", min_vms=1, max_vms=20))
    before, now, after = (in_force(s, at(f"2026-06-01T{hour}")) for hour in ("07:59", "08:00", "18:00"))
    assert before is s and after is s
    assert (now.min_vms, now.max_vms) == (1, 20)
    assert now == dataclasses.replace(s, min_vms=1, max_vms=20)


def test_a_limit_can_be_none() -> None:
    s = settings(schedule("Mon 08:00-18:00", max_vms=None), schedule("Mon 08:00-18:00", pool="b", max_vms=None))
    now = in_force(s, at("2026-06-01T08:00"))
    assert (now.max_vms, now.pools[1].max_vms) == (None, None)


def test_a_schedule_of_a_pool_changes_its_limits_and_nothing_else() -> None:
    s = settings(schedule("Mon 08:00-18:00", pool="b", min_vms=1, max_vms=5, min_idle_vms=2))
    now = in_force(s, at("2026-06-01T08:00"))
    b = dataclasses.replace(s.pools[1], min_vms=1, max_vms=5, terms=Terms(min_idle_vms=2))
    assert now == dataclasses.replace(s, pools=(s.pools[0], b))
    assert now.pools[1].fingerprint == "fb"  # so that what was learned of it is kept


def test_what_a_schedule_leaves_out_stays() -> None:
    s = settings(schedule("Mon 08:00-18:00", pool="b", min_idle_vms=1), schedule("Mon 09:00-10:00", max_vms=7))
    now = in_force(s, at("2026-06-01T09:00"))
    assert (now.max_vms, now.min_vms, now.pools[1].max_vms, now.pools[1].terms.min_idle_vms) == (7, 0, 2, 1)


def test_the_settings_are_one_object_until_a_schedule_begins_or_ends() -> None:
    s = settings(schedule("Mon 08:00-18:00"), schedule("Mon 12:00-13:00", pool="a"))
    hours = ["08:00", "08:01", "11:59", "12:00", "12:59", "13:00", "17:59"]
    made = [in_force(s, at(f"2026-06-01T{hour}")) for hour in hours]
    assert [one is made[0] for one in made[:4]] == [True, True, True, False]
    assert made[3] is made[4] and made[5] is made[6] and made[5] == made[0]


def test_a_clock_that_is_set_back_is_followed() -> None:
    s = settings(schedule("Mon 08:00-18:00"))
    assert in_force(s, at("2026-06-01T09:00")).max_vms == 9
    assert in_force(s, at("2026-06-01T07:00")).max_vms == 3
    assert in_force(s, at("2026-06-01T08:30")).max_vms == 9


def test_other_settings_are_never_taken_for_these_even_if_they_are_equal() -> None:
    first, second = settings(schedule("Mon 08:00-18:00")), settings(schedule("Mon 08:00-18:00"))
    pools = (dataclasses.replace(second.pools[0], options={"x": 1}), *second.pools[1:])  # not compared
    second = dataclasses.replace(second, pools=pools)
    assert first == second
    assert in_force(first, at("2026-06-01T09:00")).pools[0].options == {}
    assert in_force(second, at("2026-06-01T09:00")).pools[0].options == {"x": 1}
