"""How a mutant is hunted: seeds are played under it until the checker objects."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Iterable, Mapping, Optional

from elastiq.simulation.scenario import generate
from elastiq.simulation.trial import run
from tests.mutants.planting import Mutant, planted
from tests.mutants.table import MUTANTS

SEEDS = os.path.join(os.path.dirname(__file__), "seeds.txt")


@dataclass(frozen=True)
class Caught:
    """``seed`` is None for a survivor. ``spurious``: seeds that fail without the mutant, too."""

    mutant: str
    seed: Optional[int]
    invariant: str
    what: str
    scenarios: int
    seconds: float
    spurious: tuple[int, ...] = ()


def by_name(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def hunt(name: str, seeds: Iterable[int], limit_s: float) -> Caught:
    """Play these seeds until one is caught that passes without the mutant."""
    mutant, began, played = by_name(name), time.monotonic(), 0
    spurious: list[int] = []
    for seed in seeds:
        if time.monotonic() - began > limit_s:
            break
        played += 1
        scenario = generate(seed, mutant.profile)
        with planted(mutant):
            report = run(scenario)
        if report.violations:
            if run(scenario).violations:
                spurious.append(seed)
                continue
            what = str(report.violations[0])
            return Caught(name, seed, report.invariant, what, played, time.monotonic() - began, tuple(spurious))
    return Caught(name, None, "", "", played, time.monotonic() - began, tuple(spurious))


def recorded() -> Mapping[str, tuple[int, ...]]:
    """The seeds that catch each mutant, quickest first."""
    found: dict[str, tuple[int, ...]] = {}
    with open(SEEDS, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, _, seeds = line.rpartition(":")
                found[name.strip()] = tuple(int(seed) for seed in seeds.split())
    return found


def record(found: Mapping[str, tuple[int, ...]]) -> None:
    with open(SEEDS, "w", encoding="utf-8") as file:
        file.write("# Seeds that catch each mutant: python3 -m tests.mutants --record\n")
        for name, seeds in found.items():
            file.write(f"{name}: {' '.join(map(str, seeds))}\n")
