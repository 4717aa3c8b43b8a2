"""The sections [schedule:NAME]: what they make, and what is wrong with them."""

from __future__ import annotations

import re
import sys
import textwrap
import zoneinfo
from pathlib import Path

import pytest

from elastiq import config
from elastiq.timetable import OPTIONS
from tests.unit.config_files import load, problems, with_ec2

EXAMPLE = Path(__file__).resolve().parents[2] / "elastiq.conf.example"
GOOD = {"when": "Mon-Fri 08:00-18:00", "timezone": "Europe/Berlin", "max_vms": "9"}


def section(name: str, **keys: str) -> str:
    """A schedule that is in force in working hours, but for these keys; its header is a line of its own."""
    found = {key: value for key, value in {**GOOD, **keys}.items() if value != "-"}
    return f"[schedule:{name}]\n" + "".join(f"{key} = {value}\n" for key, value in found.items())


def test_a_schedule_is_read_with_its_limits_only(tmp_path: Path) -> None:
    text = section("day") + section("late", max_vms="Unlimited", pool="ec2", min_vms="0", min_idle_vms="2")
    text += section("night", when="\n  22:00-06:00, Sat,Sun 00:00-24:00\n  Mon 12:00-13:00", max_vms="-", min_vms="1")
    loaded = load(tmp_path, with_ec2(text))
    day, late, night = loaded.settings.schedules
    assert (day.name, day.pool, day.limits, day.timezone) == ("day", "", (("max_vms", 9),), "Europe/Berlin")
    assert (late.pool, late.limits) == ("ec2", (("min_vms", 0), ("max_vms", None), ("min_idle_vms", 2)))
    assert [(sorted(w.days), w.begin_min, w.end_min) for w in night.windows] == [
        (list(range(7)), 22 * 60, 30 * 60),
        ([5, 6], 0, 24 * 60),
        ([0], 12 * 60, 13 * 60),
    ]
    assert [pool.name for pool in loaded.settings.pools] == ["ec2"]
    assert "schedule:day.max_vms = 9" in loaded.set_keys and loaded.warnings == []


def test_the_settings_outside_of_every_window_are_those_of_the_file(tmp_path: Path) -> None:
    settings = load(tmp_path, with_ec2(section("day"), "[quota]\nmax_vms = 5\n")).settings
    assert settings.max_vms == 5


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("when", "", "is missing, set it"),
        ("when", "always", "`always` is not of the form DAYS HH:MM-HH:MM, as Mon-Fri 08:00-18:00, "),
        ("when", "Mon-Fri", "is not of the form"),
        ("when", "Mon-Fri 8-18", "is not of the form"),
        ("when", "Mon-Fri 08:00-18:00 Sat 09:00-10:00", "is not of the form"),
        ("when", "Mon-Fri 08:00-18:00, Son 09:00-10:00", "`Son 09:00-10:00` is not of the form"),
        ("when", "Mon-Fri 08:00-18:00\n  weekend", "`weekend` is not of the form"),
        ("when", "08:60-18:00", "`08:60` is no time"),
        ("when", "08:00-24:01", "`24:01` is no time"),
        ("when", "Mon 08:00-08:00", "`Mon 08:00-08:00` has no length; the whole day is 00:00-24:00"),
        ("when", "24:00-06:00", "cannot begin at 24:00"),
        ("when", ",", "is empty"),
        ("timezone", "", "is missing, set it"),
        ("timezone", "Europe/Berlim", "`Europe/Berlim` is no time zone, did you mean `Europe/Berlin`?"),
        ("timezone", "europe/berlin", "did you mean `Europe/Berlin`?"),
        ("timezone", "the office's", "write one as Europe/Berlin, or UTC"),
        ("timezone", "/etc/localtime", "is no time zone"),
        ("timezone", "../../etc/passwd", "is no time zone"),
        ("timezone", "Europe", "is no time zone"),
        ("timezone", "+01:00", "is no time zone"),
        ("pool", "ec3", "there is no pool `ec3`, did you mean `ec2`?"),
        ("pool", "quota", "there is no pool `quota`, write the NAME of a section [ec2:NAME]"),
        ("max_vms", "0", "is no limit"),
        ("max_vms", "many", "is no limit"),
        ("min_vms", "-1", "is negative"),
        ("min_idle_vms", "1", "is of no use without pool"),
        ("max_vm", "1", "did you mean `max_vms`?"),
    ],
)
def test_a_wrong_value_of_a_schedule_is_told_with_its_line(tmp_path: Path, key: str, value: str, said: str) -> None:
    text = with_ec2(section("day", **{key: value}))
    line = next(n for n, one in enumerate(text.splitlines(), 1) if one.startswith(f"{key} ="))
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(f"{line}: [schedule:day] {key}: ") and said in problem


@pytest.mark.parametrize("key", ["when", "timezone"])
def test_a_schedule_without_its_time_or_zone_is_told(tmp_path: Path, key: str) -> None:
    assert problems(tmp_path, with_ec2(section("day", **{key: "-"}))) == [
        f"5: [schedule:day] {key}: is missing, set it"
    ]


def test_a_schedule_that_sets_nothing_is_told(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, with_ec2(section("day", max_vms="")))
    assert problem == "5: [schedule:day]: sets no limit, set one of min_vms, max_vms, min_idle_vms"


def test_a_schedule_whose_only_limit_is_mistyped_is_told_once(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, with_ec2(section("day", max_vms="").rstrip() + "\nmax_vm = 3\n"))
    assert problem.endswith("[schedule:day] max_vm: is not a known key, did you mean `max_vms`?")


@pytest.mark.parametrize("name", ["schedule", "schedule:", "schedule:a b"])
def test_a_schedule_without_a_name_is_told(tmp_path: Path, name: str) -> None:
    text = with_ec2(section("day").replace("[schedule:day]", f"[{name}]"))
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(f"5: [{name}]: is to be [schedule:NAME]")


def test_a_section_that_is_nearly_a_schedule_is_told(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, with_ec2(section("day").replace("[schedule:", "[shedule:")))
    assert problem == "5: [shedule:day]: is not a known section, did you mean [schedule]?"


def test_a_machine_without_time_zone_data_is_told_and_knows_utc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zoneinfo.TZPATH
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.reset_tzpath([])
    try:
        assert load(tmp_path, with_ec2(section("day", timezone="UTC"))).settings.schedules[0].timezone == "UTC"
        (problem,) = problems(tmp_path, with_ec2(section("day")))
    finally:
        zoneinfo.reset_tzpath(path)
    why = "cannot be looked up, this machine has no time zone data: install tzdata, or write UTC"
    assert problem == f"7: [schedule:day] timezone: {why}"


# ----------------------------------------------------------------------------- at the same time

BOTH = "both [schedule:a] and this one set it at some time, and can be in force together; change `when`, or remove one"


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"when": "Wed 17:59-19:00"},
        {"when": "Thu 20:00-08:01"},
        {"when": "Sun 20:00-08:01"},
        {"when": "16:30-17:30", "timezone": "UTC"},  # in winter only
        {"when": "Mon-Fri 11:30-13:00", "timezone": "America/New_York"},
        # The two zones change their clocks in different weeks, and are then an hour nearer.
        {"when": "Mon-Fri 12:30-13:00", "timezone": "America/New_York"},
    ],
)
def test_two_schedules_that_set_the_same_limit_at_the_same_time_are_told(tmp_path: Path, keys: dict[str, str]) -> None:
    assert problems(tmp_path, with_ec2(section("a") + section("b", **keys))) == [f"12: [schedule:b] max_vms: {BOTH}"]


@pytest.mark.parametrize(
    "keys",
    [
        {"when": "Sat,Sun 00:00-24:00"},
        {"when": "18:00-08:00"},
        {"pool": "ec2"},
        {"max_vms": "-", "min_vms": "1"},
        {"when": "18:00-24:00", "timezone": "UTC"},
        {"when": "Mon-Fri 13:00-18:00", "timezone": "America/New_York"},
        {"when": "Sun 02:15-02:45"},
    ],
)
def test_schedules_that_set_other_limits_or_at_other_times_go_together(tmp_path: Path, keys: dict[str, str]) -> None:
    schedules = load(tmp_path, with_ec2(section("a") + section("b", **keys))).settings.schedules
    assert [one.name for one in schedules] == ["a", "b"]


def test_the_windows_of_one_schedule_may_overlap(tmp_path: Path) -> None:
    text = section("a", when="Mon-Fri 08:00-18:00, 12:00-20:00")
    assert len(load(tmp_path, with_ec2(text)).settings.schedules[0].windows) == 2


@pytest.mark.parametrize(
    ("head", "lines", "schedules", "said"),
    [
        (
            "[quota]\nmin_vms = 2\n",
            "",
            section("a", max_vms="1"),
            "10: [schedule:a] max_vms: with a in force, min_vms of the cluster: 2 is above max_vms, which is 1",
        ),
        (
            "",
            "",
            section("a", max_vms="-", min_vms="4"),
            "8: [schedule:a] min_vms: with a in force, min_vms of the cluster: 4 is above max_vms, which is 3",
        ),
        (
            "[quota]\nmax_vms = 4\n",
            "min_vms = 2\n[ec2:b]\n",
            section("a", max_vms="3"),
            "12: [schedule:a] max_vms: with a in force, max_vms of the cluster:"
            " 3 is below the pools' min_vms, which are 4 together",
        ),
        (
            "",
            "[ec2:b]\nmax_vms = 2\n",
            section("a", max_vms="-", min_idle_vms="3", pool="b"),
            "10: [schedule:a] min_idle_vms: with a in force, min_idle_vms of pool b:"
            " 3 is above the pool's max_vms, which is 2",
        ),
        (
            "[quota]\nmin_vms = 3\n",
            "max_vms = 3\n",
            section("a", max_vms="2", pool="ec2"),
            "11: [schedule:a] max_vms: with a in force, min_vms of the cluster:"
            " 3 is above the pools' max_vms, which are 2 together",
        ),
        (
            "",
            "[ec2:b]\n",
            section("a", max_vms="-", min_vms="2", pool="ec2")
            + section("b", when="Sat 00:00-24:00", max_vms="-", min_vms="2", pool="b")
            + section("c", when="Fri 15:30-21:00", max_vms="-", min_vms="2", pool="b", timezone="UTC"),
            "9: [schedule:a] min_vms: with a and c in force, max_vms of the cluster:"
            " 3 is below the pools' min_vms, which are 4 together",
        ),
    ],
)
def test_limits_that_contradict_each_other_while_a_schedule_is_in_force_are_told(
    tmp_path: Path, head: str, lines: str, schedules: str, said: str
) -> None:
    assert problems(tmp_path, with_ec2(lines + schedules, head)) == [f"{said}; change one"]


def test_a_contradiction_of_the_file_itself_is_told_once_where_it_stands(tmp_path: Path) -> None:
    text = with_ec2(section("a", max_vms="-", min_idle_vms="1", pool="ec2"), "[quota]\nmin_vms = 4\n")
    assert problems(tmp_path, text) == ["4: [quota] min_vms: 4 is above max_vms, which is 3"]


def test_a_schedule_with_other_problems_is_compared_with_the_others_all_the_same(tmp_path: Path) -> None:
    found = problems(tmp_path, with_ec2(section("a") + section("b") + section("c", when="x")))
    assert ["[schedule:b] max_vms: both" in found[0], "[schedule:c] when" in found[1], len(found)] == [True, True, 2]


# ----------------------------------------------------------------------------- the example


def test_the_schedules_of_the_example_load_and_every_key_is_told_there(tmp_path: Path) -> None:
    text = EXAMPLE.read_text("utf-8")
    block = re.search(r"(?ms)^# Limits by time\..*?(?=^$)", text)
    assert block
    schedules = "".join(f"{line}\n" for line in re.findall(r"(?m)^#   ((?:\[| *[a-z_]+ = ).*)$", block.group()))
    path = tmp_path / "elastiq.conf"
    path.write_text(text + schedules, "utf-8")
    assert [one.name for one in config.load(path).settings.schedules] == ["day", "spares"]
    for option in OPTIONS:
        assert re.search(rf"\b{option.name} = ", textwrap.dedent(schedules)), option.name
