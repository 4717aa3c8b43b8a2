"""The trend: a fixed number of rows, the newer the finer, and nothing that was not seen."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from elastiq.web.trend import FIELDS, TIERS, Kept, Tier, Trend, at, series, totals, unpack

SMALL = (Tier(10.0, 12), Tier(60.0, 10), Tier(300.0, 4))
START = 1_700_000_100.0  # at a whole step of every tier


def values(busy: float = 0.0, waiting: float = 0.0, cost: float = math.nan, **others: float) -> list[float]:
    given = {"busy": busy, "waiting": waiting, "cost": cost, **others}
    return [given.get(name, 0.0) for name in FIELDS]


class Table:
    """What the store keeps of it."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], bytes] = {}

    def take(self, kept: list[Kept]) -> None:
        self.rows.update({(one.tier, one.slot): one.row for one in kept})

    def all(self) -> list[tuple[int, bytes]]:
        found = [(tier, row) for (tier, _slot), row in self.rows.items()]
        random.Random(1).shuffle(found)
        return found


def of(trend: Trend, tier: int, name: str) -> list[tuple[float, float]]:
    return [(at(row), unpack(row)[FIELDS.index(name)]) for row in trend.rows[tier]]


def test_in_memory_and_in_the_store_there_are_never_more_rows_than_the_tiers_have() -> None:
    trend, table = Trend(SMALL), Table()
    for step in range(2000):
        table.take(trend.add(START + 10.0 * step + 3.0 * (step % 2), values(busy=step)))
    for rows, tier in zip(trend.rows, SMALL):
        assert tier.rows - 1 <= len(rows) <= tier.rows
    assert len(table.rows) <= sum(tier.rows for tier in SMALL)


def test_a_coarse_row_is_the_mean_of_the_fine_ones_of_its_step() -> None:
    trend = Trend(SMALL)
    for step in range(13):
        trend.add(START + 10.0 * step, values(busy=step, waiting=math.nan if step < 3 else 6.0))
    assert of(trend, 1, "busy") == [(START, 2.5), (START + 60.0, 8.5)]
    assert of(trend, 1, "waiting") == [(START, 6.0), (START + 60.0, 6.0)], "what is not known does not count"


def test_a_restart_goes_on_with_what_was_kept_also_in_the_middle_of_a_coarse_step() -> None:
    whole, table = Trend(SMALL), Table()
    life = Trend(SMALL)
    for step in range(40):
        if step == 21:
            life = Trend(SMALL, table.all())
        row = START + 10.0 * step, values(busy=step)
        whole.add(*row)
        table.take(life.add(*row))
    assert life.rows == Trend(SMALL, table.all()).rows == whole.rows


def test_after_a_long_pause_the_steps_before_it_are_told_and_what_is_too_old_goes() -> None:
    trend = Trend(SMALL)
    for step in range(8):
        trend.add(START + 10.0 * step, values(busy=2))
    trend.add(START + 640.0, values(busy=9))
    assert of(trend, 0, "busy") == [(START + 640.0, 9.0)]
    assert of(trend, 1, "busy") == [(START + 60.0, 2.0)]
    assert of(trend, 2, "busy") == [(START, 2.0)]


def test_after_a_step_back_of_the_clock_what_lies_ahead_goes() -> None:
    trend = Trend(SMALL)
    for step in range(30):
        trend.add(START + 10.0 * step, values(busy=1))
    trend.add(START + 95.0, values(busy=7))
    for tier in range(len(SMALL)):
        times = [time for time, _ in of(trend, tier, "busy")]
        assert times == sorted(set(times)) and all(time <= START + 95.0 for time in times)
    for step in range(10, 40):
        trend.add(START + 10.0 * step, values(busy=1))
    times = [time for time, _ in of(trend, 1, "busy")]
    assert times == sorted(set(times))


@pytest.mark.parametrize("kept", [(0, b""), (0, b"x" * 39), (7, b"x" * 40), (-1, b"x" * 40)])
def test_what_is_no_row_is_left_out(kept: tuple[int, bytes]) -> None:
    assert Trend(SMALL, [kept]).rows == ((), (), ())


def charted(trend: Trend, span_s: float, now: float, points: int = 100) -> dict[str, Any]:
    found = series(trend.rows, SMALL, now - span_s, now, points)
    assert {len(found[name]) for name in ("at", *FIELDS)} == {len(found["at"])}
    return found


def test_a_chart_has_the_finest_rows_that_reach_far_enough_and_up_to_now() -> None:
    trend = Trend(SMALL)
    for step in range(100):
        trend.add(START + 10.0 * step, values(busy=step))
    now = START + 990.0
    assert charted(trend, 60.0, now)["at"] == [now - 60.0 + 10.0 * n for n in range(7)]
    longer = charted(trend, 500.0, now)
    assert longer["at"][0] == START + 540.0 and longer["at"][-1] == now - 15.0  # the mean of the last half step
    assert longer["at"][:-1] == [START + 540.0 + 60.0 * n for n in range(7)], "no time is told twice"
    longest = charted(trend, 1100.0, now)
    assert longest["at"][0] == START and longest["at"][-1] == pytest.approx(now - 15.0, abs=60.0)


def test_a_chart_has_no_more_points_than_it_was_asked_for() -> None:
    trend = Trend()
    for step in range(2000):
        trend.add(START + 30.0 * step, values(busy=step % 7))
    now = START + 30.0 * 1999
    found = series(trend.rows, TIERS, now - 60_000.0, now, 50)
    assert len(found["at"]) <= 51 and found["width_s"] == 1200.0


def test_what_was_not_known_is_no_number_and_what_was_not_seen_is_no_point() -> None:
    trend = Trend(SMALL)
    trend.add(START, values(busy=1, waiting=5))
    trend.add(START + 10.0, values(busy=1, waiting=math.nan))
    trend.add(START + 70.0, values(busy=1, waiting=6))
    found = charted(trend, 100.0, START + 70.0)
    assert found["at"] == [START, START + 10.0, START + 70.0]
    assert found["waiting"] == [5.0, None, 6.0]
    assert found["cost"] == [None, None, None]


def test_machine_hours_and_cost_are_sums_over_the_time_that_was_seen() -> None:
    trend = Trend(TIERS)
    for step in range(121):  # an hour
        trend.add(START + 30.0 * step, values(busy=2, idle=1, other=5, cost=0.5))
    trend.add(START + 9000.0, values(busy=2, idle=1, cost=0.5))  # nobody looked meanwhile
    found = totals(trend.rows, TIERS, START - 3600.0)
    assert found["machine_hours"] == pytest.approx(3.0) and found["busy_hours"] == pytest.approx(2.0)
    assert found["cost"] == pytest.approx(0.5) and found["since"] == START


def test_without_prices_there_is_no_cost() -> None:
    trend = Trend(TIERS)
    for step in range(3):
        trend.add(START + 30.0 * step, values(busy=1))
    assert totals(trend.rows, TIERS, START)["cost"] is None
    assert totals(Trend(TIERS).rows, TIERS, START)["machine_hours"] == 0.0
