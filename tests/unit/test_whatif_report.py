"""The report of a simulation: one page that loads nothing, and in which nothing from outside is markup."""

from __future__ import annotations

import itertools
import os
import random
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Iterator, Optional
from xml.etree import ElementTree

import pytest

from elastiq.whatif import report_axes, report_frontier, report_time
from elastiq.whatif.report import ReportError, made, write_report
from elastiq.whatif.report_advice import advice
from elastiq.whatif.report_markup import duration, money, number, percent, place
from elastiq.whatif.report_tables import ROWS
from elastiq.whatif.series import Levels, Point, Series
from elastiq.whatif.terms import Result

EVIL = """</title><script>alert(1)</script>"'&amp;<img src=x onerror=y>\x00\udcff.swf"""
VOID = {"meta", "br", "link", "img", "input", "hr"}


def a_result(cost: Optional[float] = 10.0, mean_wait_s: Optional[float] = 60.0, **values: Any) -> Result:
    found = Result(
        jobs=100, jobs_done=100, mean_wait_s=mean_wait_s, median_wait_s=mean_wait_s, p95_wait_s=mean_wait_s,
        mean_slowdown=None if mean_wait_s is None else 1.5, machine_hours=40.0, idle_machine_hours=8.0,
        boot_machine_hours=2.0, peak_vms=12, launches=30, cost=cost, unmatchable_jobs=0, cancelled_jobs=0,
        killed_jobs=0, left_jobs=0, bad_lines=0, left_out=0, simulated_s=86400.0,
    )  # fmt: skip
    return replace(found, **values)


def some_points(count: int, seed: int = 1, cost: bool = True) -> list[Point]:
    dice, paid, found = random.Random(seed), 0.0, []
    for place_of in range(count):
        booting, idle, busy = (float(dice.randint(0, 9)) for _ in range(3))
        paid += booting + idle + busy
        waiting, running = dice.random() * 50, dice.random() * 90
        most = (waiting + 3, running + 3, booting + idle + busy + 2)
        found.append(
            Point(
                place_of * 60.0,
                place_of * 60.0 + 60.0,
                waiting,
                running,
                booting,
                idle,
                busy,
                *most,
                paid if cost else None,
            )
        )
    return found


class Seen(HTMLParser):
    """What a browser makes of a page: its elements, and whether all of them end where they should."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Optional[str]]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open, f"not ended: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open.pop() == tag, f"</{tag}> ends nothing"

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.texts.append(data)

    def of(self, tag: str, kind: str = "") -> list[dict[str, Optional[str]]]:
        found = [attributes for name, attributes in self.elements if name == tag]
        return [one for one in found if not kind or kind in (one.get("class") or "").split()]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def a_sweep() -> list[Result]:
    """Costs and waits: the second and the third beat the present settings, the last beats nobody."""
    found = [(10.0, 60.0), (8.0, 50.0), (9.0, 30.0), (12.0, 90.0)]
    settings: list[dict[str, str]] = [
        {},
        {"idle_for_time_s": "60"},
        {"idle_for_time_s": "600"},
        {"idle_for_time_s": "3600"},
    ]
    return [a_result(cost, wait, settings=one) for (cost, wait), one in zip(found, settings)]


# ------------------------------------------------------------------ the page


def test_the_page_is_whole_and_its_pictures_are_well_formed() -> None:
    page = made(a_sweep(), some_points(300), title="a trace.swf", assumed=["a"], noticed=["b"])
    assert page.startswith("<!doctype html>") and Seen(page).of("svg", "plot")
    pictures = re.findall(r'<svg class="plot".*?</svg>(?=<div class="hits"|</div>)', page, re.S)
    assert len(pictures) == 5
    for picture in pictures:
        ElementTree.fromstring(picture)


def test_the_page_can_load_and_run_nothing_and_names_no_place_elsewhere() -> None:
    page = made(a_sweep(), some_points(50), title="a trace.swf", began_at=1e9)
    seen = Seen(page)
    (policy,) = [one["content"] for one in seen.of("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert not {tag for tag, _ in seen.elements} & {
        "script",
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "form",
        "base",
    }
    assert not re.search(r"https?:|//[a-z]|url\(|@import|javascript:|data:", re.sub(r"/\*.*?\*/", "", page, flags=re.S))
    for _tag, attributes in seen.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert (attributes.get("href") or "#").startswith("#")


def test_what_comes_from_outside_is_shown_as_text_wherever_it_comes_from() -> None:
    runs = [a_result(), a_result(8.0, 50.0, settings={EVIL: EVIL})]
    plain = Seen(made([a_result(), a_result(8.0, 50.0, settings={"a": "b"})], title="t", assumed=["a"], noticed=["n"]))
    seen = Seen(made(runs, title=EVIL, assumed=[EVIL], noticed=[EVIL]))
    assert [tag for tag, _ in seen.elements] == [tag for tag, _ in plain.elements]
    assert seen.text.count("<script>alert(1)</script>") >= 5 and "\x00" not in seen.text
    seen.text.encode()


@pytest.mark.parametrize("count", [1, 2, 3, 239, 241, 2000])
@pytest.mark.parametrize("began_at", [None, 0.0, 951_800_000.0, -3e9, 1e18])
def test_every_place_in_a_picture_is_a_number_and_lies_within_it(count: int, began_at: Optional[float]) -> None:
    seen = Seen(made([a_result()], some_points(count), began_at=began_at))
    for _tag, attributes in seen.elements:
        for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy"):
            if name in attributes:
                assert 0 <= float((attributes[name] or "").rstrip("%")) <= 100 or name == "x"
        for pair in (attributes.get("points") or "").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= 1000 and 0 <= y <= 100
    assert len(seen.of("polyline")) == 4 and "nan" not in seen.text and "inf " not in seen.text


def test_a_huge_simulation_and_a_huge_sweep_make_a_page_that_can_be_sent_by_mail() -> None:
    dice = random.Random(2)
    runs = [
        a_result(dice.random() * 100, dice.random() * 1e4, settings={"idle_for_time_s": str(n)}) for n in range(5000)
    ]
    assert len(made([a_result()], some_points(2000), began_at=1e9).encode()) < 200_000
    page = made(runs, some_points(2000), began_at=1e9)
    assert len(page.encode()) < 1_000_000
    assert ROWS <= len(re.findall('<tr id="run-', page)) < ROWS + 100 and "more runs are in --csv" in page


def test_every_point_of_a_plot_leads_to_a_run_of_the_table() -> None:
    seen = Seen(made(a_sweep()))
    rows = {f"#{one['id']}" for one in seen.of("tr") if one.get("id")}
    assert {one["href"] for one in seen.of("a", "hit")} == rows == {"#run-1", "#run-2", "#run-3", "#run-4"}


def test_a_screen_reader_gets_words_for_each_picture_and_its_numbers_as_a_table() -> None:
    seen = Seen(made([a_result()], some_points(100)))
    assert all(one.get("role") == "img" and one.get("aria-label") for one in seen.of("svg", "plot"))
    assert seen.of("caption") and len(seen.of("tr")) > 30


# ------------------------------------------------------------------ what it says


def test_what_spoils_a_result_is_said_first() -> None:
    text = Seen(made([a_result(None, killed_jobs=1, left_jobs=2, unmatchable_jobs=3)])).text
    for said in (
        "killed 1 job: that is a bug",
        "2 jobs still waited",
        "3 jobs did not run",
        "What it costs is not known",
    ):
        assert said in text
    assert 'class="notice' not in made([a_result()])


def test_without_a_price_machine_hours_take_the_place_of_the_cost() -> None:
    runs = [replace(run, cost=None, machine_hours=10.0 + n) for n, run in enumerate(a_sweep())]
    seen = Seen(made(runs, some_points(20, cost=False)))
    assert "Machine-hours against waiting, 4 runs" in seen.text and "Cost so far" not in seen.text


def test_where_no_job_ran_nothing_is_drawn_and_the_numbers_are_not_known() -> None:
    seen = Seen(made([a_result(0.0, None, jobs_done=0, machine_hours=0.0), a_result(0.0, None, settings={"a": "b"})]))
    assert not seen.of("svg", "plot") and "Mean wait not known no job ran" in seen.text


def test_a_report_of_no_run_is_a_mistake_of_who_calls() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        made([])


# ------------------------------------------------------------------ the frontier


def dominated(one: report_frontier.Point, points: list[report_frontier.Point]) -> bool:
    """By the definition."""
    return any(
        other.spent <= one.spent
        and other.wait_s <= one.wait_s
        and (other.spent, other.wait_s) != (one.spent, one.wait_s)
        for other in points
    )


def test_the_line_has_those_that_no_other_beats_and_one_of_equals() -> None:
    dice = random.Random(4)
    for _ in range(200):
        amounts = [(float(dice.randint(0, 8)), float(dice.randint(0, 8))) for _ in range(dice.randint(1, 30))]
        points = [report_frontier.Point(n, a_result(), spent, wait) for n, (spent, wait) in enumerate(amounts)]
        best = report_frontier.undominated(points)
        wanted = {(one.spent, one.wait_s) for one in points if not dominated(one, points)}
        assert [(one.spent, one.wait_s) for one in best] == sorted(wanted)


def test_a_run_that_leaves_jobs_undone_is_not_on_the_line_and_drawn_hollow() -> None:
    runs = [*a_sweep(), a_result(1.0, 1.0, jobs_done=50, settings={"max_vms": "1"}), a_result(1.0, 1.0, killed_jobs=1)]
    found = report_frontier.frontier(runs)
    assert [one.number for one in found.best] == [2, 3] and found.hollow == {5, 6}
    seen = Seen(made(runs))
    assert len(seen.of("circle", "hollow")) == 2 * 2 and "did not do all the jobs that others did" in seen.text


def test_the_present_settings_are_marked_and_better_ones_named() -> None:
    page = made(a_sweep())
    seen = Seen(page)
    assert len(seen.of("circle", "present")) == 2 and seen.text.count("1 present") >= 2
    assert (
        "For no more waiting, the least cost is run 2 (idle_for_time_s = 60): 8.00 instead of 10.00 (20 % less)"
        in seen.text
    )
    assert "For no more cost, the least waiting is run 3 (idle_for_time_s = 600): 9.00 instead of 10.00" in seen.text
    assert len(Seen(made(a_sweep(), present=2)).of("circle", "present")) == 2


def test_of_the_best_settings_it_says_so_and_of_none_nothing() -> None:
    found = report_frontier.frontier(a_sweep())
    assert advice(found, 2) == [
        "The present settings are on the line: no run is better in one and not worse in the other."
    ]
    assert advice(found, None) == []


def test_labels_in_a_plot_do_not_lie_on_each_other() -> None:
    dice = random.Random(3)
    runs = [a_result(100.0 + n + dice.random(), 500.0 - n, settings={"a": str(n)}) for n in range(40)]
    front = report_frontier.frontier(runs)
    assert len(front.best) == 40
    picture = report_frontier.draw(front, "mean wait", 1)
    boxes = []
    for text in (one for one in picture.iter("text") if one.get("class") == "number"):
        x, y = (float((text.get(name) or "").rstrip("%")) / 100 for name in ("x", "y"))
        left = x * report_frontier.WIDTH + float(text.get("dx") or 0)
        wide = 7.5 * len(text.text or "")
        left -= wide if text.get("text-anchor") == "end" else 0
        boxes.append((left, left + wide, y * report_frontier.HEIGHT + float(text.get("dy") or 0)))
    assert len(boxes) > 5
    for one, other in itertools.combinations(boxes, 2):
        assert one[1] <= other[0] or other[1] <= one[0] or abs(one[2] - other[2]) >= 11


# ------------------------------------------------------------------ over time


def test_fewer_points_hold_the_same_machine_hours_the_same_peaks_and_the_same_cost() -> None:
    for count in (1, 7, 240, 241, 1999):
        points = some_points(count)
        few = report_time.merged(points, 100)
        assert len(few) <= 100 and few[0].begin_s == 0 and few[-1].end_s == points[-1].end_s
        assert all(one.end_s == other.begin_s for one, other in zip(few, few[1:]))
        for name in ("waiting", "running", "booting", "idle", "busy"):
            whole = [sum(getattr(one, name) * (one.end_s - one.begin_s) for one in some) for some in (points, few)]
            assert whole[0] == pytest.approx(whole[1])
        assert max(one.most_vms for one in few) == max(one.most_vms for one in points)
        assert few[-1].cost == points[-1].cost


def test_what_is_paid_at_the_very_end_is_in_the_plot_of_the_cost() -> None:
    series = Series(points=10)
    series.tell(0.0, Levels(busy=1.0, price=3600.0))
    series.charge(8.0, 100.0)
    points = list(series.points())
    assert points[-1].end_s == points[-1].begin_s
    assert report_time.merged(points, 100)[-1].cost == 108.0
    assert "In the end 108.00." in Seen(made([a_result()], points)).text


# ------------------------------------------------------------------ axes and words


def spaced(axis: report_axes.Axis) -> Iterator[float]:
    return (after.part - before.part for before, after in zip(axis.ticks, axis.ticks[1:]))


def test_ticks_are_few_and_even_and_no_value_lies_outside() -> None:
    dice = random.Random(5)
    for _ in range(500):
        values = [10 ** dice.uniform(-4, 9) for _ in range(dice.randint(1, 9))]
        upward = report_axes.from_zero(max(values))
        compared = report_axes.around(values)
        waited = report_axes.waits(values)
        for axis in (upward, compared, waited):
            assert 2 <= len(axis.ticks) <= 12
            assert max(values) <= axis.high * (1 + 1e-9) and (axis is not compared or axis.low <= min(values))
            assert all(0 <= tick.part <= 1 for tick in axis.ticks)
            assert len({tick.text for tick in axis.ticks}) == len(axis.ticks), axis
        assert float(upward.ticks[0].text) == 0 and max(spaced(upward)) == pytest.approx(min(spaced(upward)))


@pytest.mark.parametrize("began_at", [None, 1_000_000_000.0])
@pytest.mark.parametrize("length_s", [0.0, 59.0, 3600.0, 9e4, 6e5, 5e6, 4e7, 4e8])
def test_times_are_some_round_ones_in_their_order(length_s: float, began_at: Optional[float]) -> None:
    ticks = report_axes.times(length_s, began_at)
    assert 1 <= len(ticks) <= 11
    parts = [tick.part for tick in ticks]
    assert parts == sorted(parts) and 0 <= parts[0] and parts[-1] <= 1


def test_days_of_a_week_are_dates_of_this_machines_zone() -> None:
    from datetime import datetime

    begin = datetime(2026, 3, 26, 18, 0)  # where summer time begins within
    ticks = report_axes.times(7 * 86400.0, begin.timestamp())
    assert [tick.text for tick in ticks][:3] == ["27 Mar", "28 Mar", "29 Mar"]
    assert (
        ticks[0].part == pytest.approx(6 / 168)
        and report_axes.moment(0.0, begin.timestamp()) == "Thu 26 Mar 2026, 18:00"
    )
    assert (
        report_axes.moment(86400.0 + 3660.0, None) == "day 1, 01:01"
        and report_axes.moment(3660.0, None) == "1 h 01 min"
    )


def test_numbers_are_written_as_people_read_them() -> None:
    assert [number(value) for value in (0, 0.0314, 0.5, 4.25, 31.26, 12345.6, None, float("nan"))] == [
        "0", "0.031", "0.5", "4.25", "31.3", "12,346", "not known", "not known",
    ]  # fmt: skip
    assert [money(value) for value in (0.0, 0.012, 1.5, 999.999, 12345.6, None)] == [
        "0.00", "0.012", "1.50", "1,000.00", "12,346", "not known",
    ]  # fmt: skip
    assert [duration(value) for value in (0, 1.5, 93, 599, 600, 7199, 7260, 90000.0, 400000.0, None)] == [
        "0 s", "1.5 s", "93 s", "599 s", "10 min", "2 h", "2 h 1 min", "25 h", "4.6 d", "not known",
    ]  # fmt: skip
    assert [percent(1, 8), percent(1, 2), percent(1, 0), place(-0.001)] == ["12 %", "50 %", "-", "0"]
    with pytest.raises(ValueError, match="no place"):
        place(float("nan"))


# ------------------------------------------------------------------ the file


def test_the_report_is_written_whole_readable_by_others_and_over_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    path.write_text("old")
    link = tmp_path / "link.html"
    link.symlink_to(path)
    mask = os.umask(0o022)
    try:
        write_report(link, [a_result()], some_points(5), title="t")
    finally:
        os.umask(mask)
    assert path.read_text() == made([a_result()], some_points(5), title="t") and link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 and sorted(tmp_path.iterdir()) == [link, path]


def test_if_it_cannot_be_written_one_line_says_so_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "out.html", tmp_path / "file" / "out.html", tmp_path):
        with pytest.raises(ReportError) as caught:
            write_report(path, [a_result()])
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_an_older_report_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.html"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ReportError, match=r"out\.html: No space left on device$"):
        write_report(path, [a_result()])
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as reader:
        write_report(Path(f"/dev/fd/{writing}"), [a_result()])
        os.close(writing)
        assert reader.read() == made([a_result()])
