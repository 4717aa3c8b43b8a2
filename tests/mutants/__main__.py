"""Prove that the checker can fail: python3 -m tests.mutants

Each planted fault is played with one seed after another until an invariant is seen to be broken by a seed that
breaks none without it. Prints which invariant caught it, the seed, and how many scenarios it took. The exit
code is 1 if one survives.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

from elastiq.simulation.crew import work_off
from tests.mutants.hunt import Caught, hunt, record, recorded
from tests.mutants.table import MUTANTS


def task(seeds: range, limit_s: float, known: dict[str, tuple[int, ...]], name: str) -> Caught:
    return hunt(name, (*known.get(name, ()), *seeds), limit_s)


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(prog="python3 -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2000, help="at most so many scenarios for each (2000)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (0)")
    parser.add_argument("--limit", type=float, default=600.0, help="at most so many seconds for each (600)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    parser.add_argument("--record", action="store_true", help="write the seeds that caught them into seeds.txt")
    asked = parser.parse_args()
    names = [mutant.name for mutant in MUTANTS if asked.only in mutant.name]
    seeds = range(asked.first, asked.first + asked.seeds)
    known = {} if asked.first else dict(recorded())
    survivors = 0
    work = partial(task, seeds, asked.limit, known)
    print(f"{'mutant':66} {'caught by':9} {'seed':>7} {'scenarios':>9} {'seconds':>7}")
    for finished in work_off(work, names, asked.jobs, asked.limit + 120.0):
        caught = finished.result
        if caught is None or caught.seed is None:
            survivors += 1
            print(f"{finished.task:66} SURVIVES  {finished.failure or (caught and caught.scenarios)}", flush=True)
            continue
        print(
            f"{caught.mutant:66} {caught.invariant:9} {caught.seed:7} {caught.scenarios:9} {caught.seconds:7.1f}"
            f"  {caught.what[:150]}",
            flush=True,
        )
        known[caught.mutant] = tuple(dict.fromkeys([caught.seed, *known.get(caught.mutant, ())]))[:3]
    print(f"{len(names) - survivors} of {len(names)} caught")
    if asked.record:
        record({mutant.name: known[mutant.name] for mutant in MUTANTS if mutant.name in known})
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
