#!/usr/bin/env python3
"""How far the machines that are chosen for waiting jobs are from the cheapest, and how long choosing takes.

    python3 benchmarks/packing.py [--quick]

The cheapest is what an oracle finds that tries everything and shares no code (tests/unit/packing_oracle.py).
"Exactly" is how the daemon does it: few jobs are searched through; "by first fit" is what it does with cases
too large for that, here with the same small ones. The exit code is 1 if a case costs more than 1.25 times the
least, or choosing for 500 groups among 200 offers takes more than three times the promised 0.5 s.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.planning import RUNS, machine, seconds
from elastiq.choosing import EXACT_STEPS, Choice, KeepTime, Want, choose
from tests.unit.packing_oracle import Oracle, random_case

WORST = 1.25
LIMIT_S = 0.5
QUICK = "--quick" in sys.argv[1:]  # a fifth of the cases, and how it grows from one run each


def ratio(rng: random.Random, jobs: tuple[int, int], keep: KeepTime, exact_steps: float) -> float:
    """Our cost of a random case by the oracle's."""
    oracle = Oracle(*random_case(rng, rng.randint(*jobs), rng.randint(1, 6)), keep.spread, keep.mixing)
    wants = [Want(name, (room[0], room[1], 0, 0, False), count) for name, (room, count) in oracle.groups.items()]
    choices = [Choice((room[0], room[1], None, None, None), price) for room, price in oracle.machines]
    chosen = choose(wants, choices, keep=keep, exact_steps=exact_steps)
    assert not chosen.left, "without limits all that fits is served"
    return chosen.expected / oracle.least()


def compare() -> float:
    """Print the ratios; returns the worst."""
    worst = 0.0
    for cases, jobs in ((200, (1, 9)), (4, (11, 12))) if QUICK else ((1000, (1, 9)), (20, (11, 12))):
        for keep, what in ((KeepTime(0.0, 0.0), "price alone"), (KeepTime(), "expected cost")):
            for steps, how in ((EXACT_STEPS, "exactly"), (0.0, "by first fit")):
                rng = random.Random(1)
                found = [ratio(rng, jobs, keep, steps) for _ in range(cases)]
                worst = max(worst, *found)
                print(
                    f"{cases:5} cases of {jobs[0]:2} to {jobs[1]:2} jobs, {what:13}, {how:12}: mean"
                    f" {sum(found) / cases:.4f}, worst {max(found):.4f}, not the least {sum(q > 1.0001 for q in found)}"
                )
    return worst


def many(groups: int, offers: int, jobs: int, limit: float) -> tuple[list[Want], list[Choice], list[float]]:
    """Shapes of all kinds; the limit is of the number of machines."""
    rng = random.Random(5)
    choices = []
    for _ in range(offers):
        cpus = float(rng.choice((1, 2, 4, 8, 16, 32, 64, 96)))
        memory = cpus * rng.choice((2000.0, 4000.0, 8000.0))
        choices.append(Choice((cpus, memory, None, None, None), cpus * rng.uniform(0.04, 0.06), uses=((0, 1.0),)))
    wants = [
        Want(
            f"group {at}",
            (float(rng.choice((1, 1, 2, 4, 8, 16))), float(rng.randrange(500, 30_000)), 0, 0, False),
            jobs // groups,
        )
        for at in range(groups)
    ]
    return wants, choices, [limit]


def main() -> int:
    print(f"machine: {machine()}")
    worst = compare()
    slowest = 0.0
    for limit, what in ((math.inf, "no limit"), (50_000.0, "50,000 machines"), (5_000.0, "5,000 machines")):
        case = many(500, 200, 100_000, limit)
        base = seconds(lambda case=case: choose(*case))  # type: ignore[misc]
        slowest = max(slowest, base)
        print(f"100,000 jobs in 500 groups, 200 offers, {what}: {base:.3f} s (at most {LIMIT_S} s)")
        for size, grown in (
            ((500, 200, 1_000_000), "10x jobs"),
            ((1000, 200, 100_000), "2x groups"),
            ((500, 400, 100_000), "2x offers"),
        ):
            larger = many(*size, limit * (10 if size[2] > 100_000 else 1))
            taken = seconds(lambda larger=larger: choose(*larger), 1 if QUICK else RUNS)  # type: ignore[misc]
            print(f"    {taken / base:5.1f} times as long for {grown}")
    if worst > WORST:
        print(f"a case costs more than {WORST} times the least")
    if slowest > 3 * LIMIT_S:
        print("too slow")
    return 1 if worst > WORST or slowest > 3 * LIMIT_S else 0


if __name__ == "__main__":
    sys.exit(main())
