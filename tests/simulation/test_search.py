"""Seeded scenarios under faults and kills: no invariant is ever broken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

import pytest

from elastiq.simulation.scenario import generate
from elastiq.simulation.search import Summary, search
from elastiq.simulation.shrink import explain, tell
from elastiq.simulation.trial import run

SCENARIOS = 2000
IN_ONE_TEST = 100
CORPUS = Path(__file__).with_name("corpus.txt")
PROCESSES = os.cpu_count() or 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SCENARIOS, IN_ONE_TEST))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    summary = Summary()
    for finished in search(range(first, first + IN_ONE_TEST), "mixed", PROCESSES):
        summary.add(finished)
        if finished.failure:
            pytest.fail(f"seed {finished.task}: {finished.failure}")
        if finished.result is not None and finished.result.violations:
            pytest.fail(explain(generate(finished.task), finished.result))
    print(summary.text())
    assert summary.scenarios == IN_ONE_TEST
    assert summary.kills and summary.launches and summary.hours > IN_ONE_TEST / 10


class Entry(NamedTuple):
    profile: str
    seed: int
    keep: Optional[tuple[int, ...]]
    why: str


def corpus() -> Iterator[Entry]:
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            profile, seed, keep, why = line.split(maxsplit=3)
            places = None if keep == "*" else tuple(int(place) for place in keep.split(",") if place != "none")
            yield Entry(profile, int(seed), places, why)


@pytest.mark.parametrize("entry", corpus(), ids=lambda entry: f"{entry.profile}-{entry.seed}")
def test_a_seed_that_once_failed_stays_mended(entry: Entry) -> None:
    scenario = generate(entry.seed, entry.profile)
    if run(scenario, entry.keep).violations:
        pytest.fail(f"{entry.why}\n{tell(scenario, entry.keep)}")


def test_a_scenario_replays_from_its_seed_alone() -> None:
    first, second = run(generate(7)), run(generate(7))
    assert (first.hours, first.node_hours, first.calls) == (second.hours, second.node_hours, second.calls)
