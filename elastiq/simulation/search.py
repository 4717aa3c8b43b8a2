"""Search seeds for one that breaks an invariant: python3 -m elastiq.simulation.search --seeds 1000000

Why a seed loop of its own, and not hypothesis's stateful machinery: a failure must replay from one number, on
any machine, for years, without a database of examples; a run is millions of seeds over processes of which any
may die; what is drawn are whole scenarios with times, whose events go on by themselves between two steps, while a
state machine of hypothesis moves only when a rule is called; and shrinking a list of happenings that each
stand for themselves is forty lines. hypothesis serves the pure functions in tests/unit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Iterable, Iterator, Optional, Sequence

from elastiq.simulation import corpus
from elastiq.simulation.crew import Finished, work_off
from elastiq.simulation.drawing import PROFILES
from elastiq.simulation.scenario import generate
from elastiq.simulation.shrink import explain, shrink, tell
from elastiq.simulation.trial import Report, run

EXIT_INTERRUPTED = 130
LIMIT_S = 120.0  # of real time for one scenario, which takes well under a second
TOLD_EVERY_S = 10.0


def play(profile: str, seed: int) -> Report:
    """The scenario of a seed."""
    return run(generate(seed, profile))


def search(
    seeds: Iterable[int], profile: str, processes: int, limit_s: float = LIMIT_S
) -> Iterator[Finished[int, Report]]:
    """The reports of many seeds, as they come."""
    return work_off(partial(play, profile), seeds, processes, limit_s)


class Summary:
    """What a search has seen so far."""

    def __init__(self) -> None:
        self.scenarios = self.kills = self.lives = self.jobs = self.launches = 0
        self.hours = self.node_hours = self.seconds = 0.0
        self.calls: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.failed: list[tuple[int, str]] = []  # seed, what
        self._began = time.monotonic()

    def add(self, finished: Finished[int, Report]) -> None:
        self.scenarios += 1
        report = finished.result
        if report is None:
            self.violations["hang or crash"] += 1
            self.failed.append((finished.task, finished.failure))
            return
        self.kills += report.kills
        self.lives += report.lives
        self.jobs += report.jobs
        self.launches += report.launches
        self.hours += report.hours
        self.node_hours += report.node_hours
        self.seconds += report.seconds
        self.calls.update(report.calls)
        self.faults.update(report.faults)
        if report.violations:
            self.violations[report.invariant] += 1
            self.failed.append((report.seed, str(report.violations[0])))

    def line(self) -> str:
        pace = self.hours / max(time.monotonic() - self._began, 0.001)
        return (
            f"{self.scenarios} scenarios, {self.hours:.0f} simulated hours ({pace:.0f} in a real second),"
            f" {self.node_hours:.0f} node-hours, {self.kills} kills, {len(self.failed)} violations"
        )

    def text(self) -> str:
        rows = [
            self.line(),
            f"lives of the daemon: {self.lives}; jobs: {self.jobs}; machines launched: {self.launches}",
            f"calls: {_table(self.calls)}",
            f"happenings and faults by kind: {_table(self.faults)}",
            f"violations: {_table(self.violations) or 'none'}",
        ]
        rows += [f"  seed {seed}: {what}" for seed, what in self.failed[:50]]
        return "\n".join(rows)


def _table(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m elastiq.simulation.search", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="play this one only, and tell what happened")
    parser.add_argument("--keep", help="with --seed: only these of its happenings, as 0,4,17 (or none)")
    parser.add_argument("--seeds", type=_count, default=2000, help="how many (2000)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first (0)")
    parser.add_argument("--jobs", type=_count, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--profile", default="mixed", choices=("mixed", *PROFILES), help="a kind of scenarios (mixed)")
    parser.add_argument("--stop-after", type=_count, default=10, help="so many violations (10)")
    parser.add_argument("--corpus", type=Path, help="with --seed: shrink it, and keep it in this file")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for the shortest lists of happenings")
    asked = parser.parse_args(arguments)
    if asked.seed is None:
        return _many(asked)
    places = range(len(generate(asked.seed, asked.profile).happenings))
    try:
        asked.keep = _places(asked.keep, places)
    except ValueError:
        parser.error(f"--keep: {asked.keep} is not none, nor places from 0 to {len(places) - 1}, as 0,4,17")
    return _one(asked)


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(text)


def _places(text: Optional[str], known: range) -> Optional[list[int]]:
    """Those that are named, None for all. Raises ValueError where one is none."""
    places = [] if text in (None, "none") else [int(place) for place in str(text).split(",")]
    if not {*places} <= {*known}:
        raise ValueError(text)
    return None if text is None else places


def _one(asked: argparse.Namespace) -> int:
    scenario = generate(asked.seed, asked.profile)
    keep: Optional[list[int]] = asked.keep
    report = run(scenario, keep)
    if asked.corpus is not None and report.violations:
        keep = keep if keep is not None else list(shrink(scenario, report.invariant))
        dropped = frozenset(range(len(scenario.happenings))) - frozenset(keep)
        corpus.add(asked.corpus, str(report.violations[0]), scenario.without(dropped))
    if report.violations and keep is None and not asked.no_shrink:
        print(explain(scenario, report))
    else:
        print(tell(scenario, keep))
    return 1 if report.violations else 0


def _many(asked: argparse.Namespace) -> int:
    summary, told, stopped = Summary(), time.monotonic(), False
    seeds = range(asked.first, asked.first + asked.seeds)
    results = search(seeds, asked.profile, asked.jobs)
    try:
        for finished in results:
            summary.add(finished)
            if finished.failure:
                print(f"seed {finished.task}: {finished.failure}", flush=True)
            elif finished.result is not None and finished.result.violations:
                print(f"seed {finished.task}: {finished.result.violations[0]}", flush=True)
            if time.monotonic() - told > TOLD_EVERY_S:
                told = time.monotonic()
                print(summary.line(), flush=True)
            if len(summary.failed) >= asked.stop_after:
                break
    except KeyboardInterrupt:
        stopped = True
    finally:
        results.close()  # type: ignore[attr-defined]
    print("\n" + ("stopped: " if stopped else "") + summary.text())
    if summary.failed and not asked.no_shrink:
        seed, what = summary.failed[0]
        report = play(asked.profile, seed) if not what.startswith(("took", "its")) else None
        if report is not None and report.violations:
            print("\n" + explain(generate(seed, asked.profile), report))
    return 1 if summary.failed else EXIT_INTERRUPTED if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
