"""A day of some hundred machines: the calls are bounded by the periods, and nothing is left in the evening."""

from __future__ import annotations

import random

import pytest

from benchmarks import week
from elastiq import daemon
from elastiq.idling import PAUSES


def test_a_day_of_hundreds_of_machines_takes_as_many_reads_as_one_of_few_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon, "ATTENTIVE_S", 60.0)  # or it takes long
    nights = []
    for nodes, jobs in ((10, 60), (300, 1200)):
        made = week.cluster(nodes, seed=5)
        made.start_daemon()
        nights.append(week.day(made, nodes, jobs, random.Random(5)))
        assert made.world.tally.done == jobs
        assert made.world.tally.killed == 0
        made.kill_daemon()
    few, many = nights
    assert few.peak <= 10 and many.peak > 150
    assert few.nodes == many.nodes == 0
    assert many.busiest <= 60 + 30 + 4 * 60, "of the queue, of the impaired, and of the rest at most"
    grown = {way: count for way, count in many.held.items() if count > few.held[way] + 60}
    kept = (".core.registry.uses.", ".core._facts_stored[][][]")  # for `auto`: so many of each kind
    for way in [way for way in grown if way.startswith(kept)]:
        assert grown.pop(way) <= 3 * PAUSES
    assert grown == {}, "after thirty times as many machines"
