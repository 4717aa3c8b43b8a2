"""Seeded scenarios under faults and kills: no invariant is ever broken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator

import pytest

from elastiq.simulation import corpus
from elastiq.simulation.crew import Finished
from elastiq.simulation.scenario import generate
from elastiq.simulation.search import EXIT_INTERRUPTED, Summary, main, search
from elastiq.simulation.shrink import explain, tell
from elastiq.simulation.trial import Report, run

SCENARIOS = int(os.environ.get("ELASTIQ_SCENARIOS", "2000"))
IN_ONE_TEST = 100
CORPUS = Path(__file__).with_name("corpus.txt")
PROCESSES = os.cpu_count() or 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SCENARIOS, IN_ONE_TEST))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    summary = Summary()
    seeds = range(first, min(first + IN_ONE_TEST, SCENARIOS))
    for finished in search(seeds, "mixed", PROCESSES):
        summary.add(finished)
        if finished.failure:
            pytest.fail(f"seed {finished.task}: {finished.failure}")
        if finished.result is not None and finished.result.violations:
            pytest.fail(explain(generate(finished.task), finished.result))
    print(summary.text())
    assert summary.scenarios == len(seeds)
    assert summary.launches and summary.hours > len(seeds) / 10


@pytest.mark.parametrize("entry", corpus.read(CORPUS), ids=lambda entry: str(entry.scenario.seed))
def test_a_scenario_that_once_failed_stays_mended(entry: corpus.Entry) -> None:
    if run(entry.scenario).violations:
        pytest.fail(f"{entry.why}\n{tell(entry.scenario)}")


def test_a_scenario_replays_from_its_seed_alone() -> None:
    first, second = run(generate(7)), run(generate(7))
    assert (first.hours, first.node_hours, first.calls) == (second.hours, second.node_hours, second.calls)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "0"], "0 is no whole number above 0"),
        (["--seeds", "-3"], "-3 is no whole number above 0"),
        (["--jobs", "0"], "0 is no whole number above 0"),
        (["--profile", "nonsense"], "invalid choice: 'nonsense'"),
        (["--seed", "7", "--keep", "0,9999"], "is not none, nor places from 0 to"),
        (["--seed", "7", "--keep", "foo"], "is not none, nor places from 0 to"),
    ],
)
def test_a_question_that_makes_no_sense_is_no_search_without_violations(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_a_search_that_was_interrupted_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def results(*_: object) -> Iterator[Finished[int, Report]]:
        yield Finished(0, run(generate(0), []))
        raise KeyboardInterrupt

    monkeypatch.setattr("elastiq.simulation.search.search", results)
    assert main(["--seeds", "50"]) == EXIT_INTERRUPTED
    assert "stopped: 1 scenarios" in capsys.readouterr().out
