"""How a mutant is hunted: seeds are played under it until the checker objects, then the scenario is shrunk."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Mapping, Optional

from elastiq.simulation import corpus
from elastiq.simulation.scenario import Scenario, generate
from elastiq.simulation.shrink import shrink
from elastiq.simulation.trial import Report, run
from tests.mutants.planting import Mutant, planted
from tests.mutants.table import MUTANTS

CAUGHT = Path(__file__).with_name("caught.txt")
SHRINK_S = 30.0


@dataclass(frozen=True)
class Hunt:
    """``scenario`` (as text) is None for a survivor. ``spurious``: seeds that fail without the mutant, too."""

    mutant: str
    scenarios: int
    seconds: float
    scenario: Optional[str] = None
    seed: int = 0
    invariant: str = ""
    what: str = ""
    spurious: tuple[int, ...] = ()


def by_name(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def under(mutant: Mutant, scenario: Scenario) -> Report:
    """The scenario with the mutant planted."""
    with planted(mutant):
        return run(scenario)


def catches(mutant: Mutant, report: Report) -> bool:
    return report.invariant in mutant.invariants.split()


def hunt(name: str, seeds: Iterable[int], limit_s: float, known: Optional[Scenario] = None) -> Hunt:
    """Play a known scenario and then these seeds until one is caught that passes without the mutant."""
    mutant, began, played = by_name(name), time.monotonic(), 0
    spurious: list[int] = []
    drawn = (mutant.bend(generate(seed)) for seed in seeds)
    for scenario in [known] if known else []:
        report = under(mutant, scenario)
        if catches(mutant, report) and not run(scenario).violations:
            return _caught(mutant, report, scenario, 1, began, ())
    for scenario in drawn:
        if time.monotonic() - began > limit_s:
            break
        played += 1
        report = under(mutant, scenario)
        if not catches(mutant, report):
            continue
        if run(scenario).violations:
            spurious.append(scenario.seed)
            continue
        with planted(mutant):
            keep = shrink(scenario, report.invariant, SHRINK_S)
        shrunk = scenario.without(frozenset(range(len(scenario.happenings))) - frozenset(keep))
        if not run(shrunk).violations:
            scenario = shrunk
        return _caught(mutant, report, scenario, played, began, tuple(spurious))
    return Hunt(name, played, time.monotonic() - began, spurious=tuple(spurious))


def _caught(
    mutant: Mutant, report: Report, scenario: Scenario, played: int, began: float, spurious: tuple[int, ...]
) -> Hunt:
    return Hunt(
        mutant.name,
        played,
        time.monotonic() - began,
        corpus.to_json(scenario),
        scenario.seed,
        report.invariant,
        str(report.violations[0]),
        spurious,
    )


def recorded() -> Mapping[str, Scenario]:
    """The scenario that catches each mutant, where one was found."""
    return {entry.why: entry.scenario for entry in corpus.read(CAUGHT)}


def record(found: Mapping[str, str]) -> None:
    """By mutant, in the order of the table."""
    with CAUGHT.open("w", encoding="utf-8") as file:
        for mutant in MUTANTS:
            if mutant.name in found:
                file.write(f"# {mutant.name}\n{found[mutant.name]}\n")
