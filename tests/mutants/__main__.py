"""Prove that the checker can fail: python3 -m tests.mutants

Each planted fault is played with the scenario that caught it before, then with one seed after another, until an
invariant is seen to be broken in a scenario that breaks none without it. Prints which invariant caught it, the
seed, and how many scenarios it took. The exit code is 1 if one survives.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import Mapping, Optional

from elastiq.simulation import corpus
from elastiq.simulation.crew import work_off
from elastiq.simulation.scenario import Scenario
from tests.mutants.hunt import SHRINK_S, Hunt, hunt, record, recorded
from tests.mutants.table import MUTANTS


def task(seeds: range, limit_s: float, known: Mapping[str, Scenario], name: str) -> Hunt:
    return hunt(name, seeds, limit_s, known.get(name))


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(prog="python3 -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2000, help="at most so many scenarios for each (2000)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (0)")
    parser.add_argument("--limit", type=float, default=600.0, help="at most so many seconds for each (600)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    parser.add_argument("--anew", action="store_true", help="do not begin with the scenarios that caught them before")
    parser.add_argument("--record", action="store_true", help="keep the scenarios that catch them in caught.txt")
    asked = parser.parse_args()
    names = [mutant.name for mutant in MUTANTS if asked.only in mutant.name]
    before = dict(recorded())
    kept = {name: corpus.to_json(scenario) for name, scenario in before.items()}
    if not names:
        parser.error(f"--only: no mutant's name has {asked.only!r} in it")
    seeds = range(asked.first, asked.first + asked.seeds)
    work = partial(task, seeds, asked.limit, {} if asked.anew else before)
    survivors = 0
    print(f"{'mutant':62} {'caught by':9} {'seed':>6} {'scenarios':>9} {'seconds':>7}")
    for finished in work_off(work, names, asked.jobs, asked.limit + SHRINK_S + 120.0):
        print(line(finished.task, finished.result, finished.failure), flush=True)
        if finished.result is None or finished.result.scenario is None:
            survivors += 1
        else:
            kept[finished.task] = finished.result.scenario
        if asked.record:
            record(kept)
    print(f"{len(names) - survivors} of {len(names)} caught")
    return 1 if survivors else 0


def line(name: str, found: Optional[Hunt], failure: str) -> str:
    if found is None or found.scenario is None:
        return f"{name:62} SURVIVES {failure or f'{found.scenarios if found else 0} scenarios'}"
    took = f"{found.scenarios:9} {found.seconds:7.1f}"
    return f"{name:62} {found.invariant:9} {found.seed:6} {took}  {found.what[:140]}"


if __name__ == "__main__":
    sys.exit(main())
