"""Counters from the history: each line counts once, over restarts and crashes too, and none ever steps back."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elastiq.metrics.families import Histogram
from elastiq.metrics.tally import Line, Tally
from elastiq.nodes import Node, State
from tests.unit.values import WALL, a_node

T = WALL
LIFE = [
    ("launch", "abc", "2 of ec2/medium: 8 waiting jobs"),
    ("pending", "i-1", "launched as i-1"),
    ("booting", "i-1", ""),
    ("idle", "i-1", ""),
    ("busy", "i-1", ""),
    ("idle", "i-1", ""),
    ("draining", "i-1", "idle"),
    ("terminating", "i-1", "drained"),
    ("gone", "i-1", "terminated"),
]


def history(*events: tuple[str, str, str], every_s: float = 100.0, first: int = 1, pool: str = "ec2") -> list[Line]:
    return [(first + n, T + n * every_s, what, node, pool, why) for n, (what, node, why) in enumerate(events)]


def moves(*states: str, node: str = "i-1", every_s: float = 100.0) -> list[Line]:
    return history(*((state, node, "") for state in states), every_s=every_s)


def counts(tally: Tally, name: str) -> dict[tuple[str, ...], float]:
    return {tuple(labels): value for (family, *labels), value in tally.counts.items() if family == name}


def no_price(node: Node) -> Optional[float]:
    return None


def histogram(found: Any) -> tuple[int, float]:
    assert isinstance(found, Histogram)
    return sum(found.counts), found.total


def test_a_life_is_counted() -> None:
    tally = Tally()
    tally.take(history(*LIFE))
    assert counts(tally, "launches_asked_total") == {("ec2",): 2}
    assert counts(tally, "launches_total") == {("ec2",): 1}
    assert counts(tally, "terminations_total") == {("ec2", "draining"): 1}
    assert counts(tally, "failures_total") == {}
    assert counts(tally, "machine_seconds_total") == {("ec2",): 700.0}
    assert histogram(tally.values()["elastiq_boot_seconds"][("ec2",)]) == (1, 200.0)
    assert histogram(tally.values()["elastiq_lifetime_seconds"][("ec2",)]) == (1, 700.0)
    assert tally.machines == {}


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        (("pending", "gone"), "boot"),
        (("pending", "booting", "failed", "terminating", "gone"), "boot"),
        (("pending", "idle", "lost", "terminating", "gone"), "lost"),
        (("pending", "idle", "failed", "terminating", "gone"), "broken"),
    ],
)
def test_failures_are_counted_by_their_kind(states: tuple[str, ...], kind: str) -> None:
    tally = Tally()
    tally.take(moves(*states))
    assert counts(tally, "failures_total") == {("ec2", kind): 1}
    assert sum(counts(tally, "terminations_total").values()) == 1


def test_a_machine_that_a_person_ends_while_it_boots_is_no_failure() -> None:
    tally, end = Tally(), "elastiqctl terminate"
    states = (("pending", "i-1", ""), ("booting", "i-1", ""), ("failed", "i-1", end), ("terminating", "i-1", end))
    tally.take(history(*states, ("gone", "i-1", end)))
    assert counts(tally, "failures_total") == {}
    assert sum(counts(tally, "terminations_total").values()) == 1


def test_a_machine_that_the_cloud_refused_is_a_failed_launch_and_no_machine() -> None:
    tally = Tally()
    tally.take(history(("launch", "abc", "1 of ec2/medium: x"), ("gone", "abc.0", "no capacity")))
    assert counts(tally, "failures_total") == {("ec2", "launch"): 1}
    assert counts(tally, "launches_total") == counts(tally, "terminations_total") == {}


def test_a_stop_and_a_start_are_no_end_and_the_pause_costs_nothing() -> None:
    tally = Tally()
    tally.take(moves("pending", "idle", "draining", "stopped", "pending", "idle", "gone"))
    assert counts(tally, "stops_total") == counts(tally, "starts_total") == {("ec2",): 1}
    assert counts(tally, "machine_seconds_total") == {("ec2",): 500.0}
    assert histogram(tally.boot["ec2"]) == (2, 200.0)
    assert histogram(tally.lifetime["ec2"]) == (1, 600.0)


def test_an_end_that_took_no_effect_is_counted_again_when_it_does() -> None:
    tally = Tally()
    tally.take(moves("pending", "idle", "terminating", "idle", "terminating", "gone"))
    assert counts(tally, "terminations_total") == {("ec2", "idle"): 2}


def test_lines_are_counted_once() -> None:
    tally = Tally()
    for upto in range(len(LIFE) + 1):
        tally.take(history(*LIFE)[: upto + 1])
    assert counts(tally, "launches_total") == {("ec2",): 1} and tally.number == len(LIFE)


@given(stored_after=st.integers(0, len(LIFE)), crashed_after=st.integers(0, len(LIFE)))
@settings(max_examples=40, deadline=None)
def test_a_crash_between_two_stores_loses_and_doubles_nothing(stored_after: int, crashed_after: int) -> None:
    """What was stored is older than the history: the rest is counted again from there."""
    lines = history(*LIFE)
    first = Tally()
    first.take(lines[:stored_after])
    kept = json.loads(json.dumps(first.stored()))
    first.take(lines[:crashed_after])
    second = Tally(kept)
    second.take(lines)
    whole = Tally()
    whole.take(lines)
    assert second.stored() == whole.stored()


@given(steps=st.lists(st.tuples(st.floats(-50, 500), st.booleans(), st.booleans()), max_size=20))
@example(steps=[(10.0, True, False), (100.0, False, False), (-50.0, False, False)])
@settings(max_examples=60, deadline=None)
def test_time_and_cost_never_step_back(steps: list[tuple[float, bool, bool]]) -> None:
    """Whatever the wall clock does, and whenever the daemon is killed, if not right after the clock was set back."""
    node, tally, kept, wall = a_node(State.BUSY), Tally(), None, T
    seen, latest = -1.0, T
    for passed_s, store, crash in steps:
        wall += passed_s
        latest = max(latest, wall)
        tally.follow([node], wall, lambda _: 0.36)
        now = tally.counts["cost_total", "ec2"]
        assert now >= seen - 1e-9
        seen = now
        if store:
            kept = json.loads(json.dumps(tally.stored()))
        if crash and kept is not None and wall == latest:
            tally = Tally(kept)
            tally.follow([node], wall, lambda _: 0.36)
            assert tally.counts["cost_total", "ec2"] >= seen - 1e-9


def test_what_is_there_costs_by_the_hour() -> None:
    tally, node = Tally(), a_node(State.BUSY, created_at=T)
    tally.follow([node], T, lambda _: 0.5)
    tally.follow([node], T + 7200.0, lambda _: 0.5)
    assert counts(tally, "cost_total") == {("ec2",): pytest.approx(1.0)}
    assert counts(tally, "machine_seconds_total") == {("ec2",): 7200.0}
    tally.follow([node], T + 10800.0, no_price)
    assert counts(tally, "cost_total") == {("ec2",): pytest.approx(1.5)}, "the price that held then"
    tally.follow([node], T + 14400.0, no_price)
    assert counts(tally, "cost_total") == {("ec2",): pytest.approx(1.5)}


def test_a_machine_that_was_found_was_not_launched() -> None:
    tally, node = Tally(), a_node(State.IDLE, created_at=T - 500.0)
    tally.follow([node], T, no_price)
    tally.take(moves("draining", "terminating", "gone"))
    assert counts(tally, "launches_total") == {}
    assert histogram(tally.lifetime["ec2"]) == (1, 700.0)
    tally.take(history(("idle", "i-7", ""), first=50))
    assert counts(tally, "launches_total") == {} and histogram(tally.lifetime["ec2"]) == (1, 700.0)


def test_an_end_that_could_not_be_written_down_is_counted_all_the_same() -> None:
    tally = Tally()
    tally.take(moves("pending", "idle"))
    tally.follow([a_node(State.IDLE)], T + 150.0, no_price)
    tally.follow([], T + 300.0, no_price)
    assert counts(tally, "terminations_total") == {("ec2", "idle"): 1} and tally.machines == {}


def test_machines_of_another_time_are_forgotten() -> None:
    """Of those that the history has no end of, and that are not there when it is read for the first time."""
    tally = Tally()
    tally.take(moves("pending", "idle"))
    tally.follow([], T + 300.0, no_price)
    assert counts(tally, "terminations_total") == {} and tally.machines == {}


def test_bounds_of_another_version_begin_anew() -> None:
    tally = Tally()
    tally.take(history(*LIFE))
    kept = tally.stored()
    kept["boot"]["ec2"] = [1, 2, 3, 4.0]
    assert (Tally(kept).boot, histogram(Tally(kept).lifetime["ec2"])) == ({}, (1, 700.0))
