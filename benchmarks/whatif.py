#!/usr/bin/env python3
"""How fast a trace is played through the daemon, and what memory that takes.

    python3 benchmarks/whatif.py [--jobs 10000,100000] [--days 7]
    python3 benchmarks/whatif.py --jobs 10000,100000,300000,1000000     # by hand: some minutes

All with the daemon's default periods (queue every 15 s, machines every 45 s), as `elastiqctl simulate` plays them:

- simple: jobs of one core, five minutes on average (exponential), two in a second, on at most 100 machines of eight
  cores, three quarters of which they keep busy
- hard: twenty shapes of one to eight cores and 1-4 GB each, on three flavours, at most 100 machines
- burst: all at once, one core each
- sparse: days with an hour's jobs of one to eight cores now and then, so that the time that passes counts and not the
  jobs
- backlog: as many as a cluster of 16 machines never works off, of all shapes and some hours each: for most of the time
  its quota is used up and its queue is long

Simulated jobs in a minute of processor time; the goal is for the simple ones. The resident memory is that of the
process after the run: it does not grow with the jobs, but for those that are in the queue at once.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from pathlib import Path
from typing import Callable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.memory import machine
from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.traces.job import TraceJob
from elastiq.whatif.study import play
from elastiq.whatif.terms import Assumed, Result

GOAL = 300_000  # simple jobs in a minute, on one core
FLAVOURS = {size: Resources(cpus=cpus, memory_mb=4000 * cpus) for size, cpus in (("s", 4.0), ("m", 8.0), ("l", 16.0))}
ONE, THREE = Pool("ec2", "ec2", ("m",)), Pool("ec2", "ec2", ("s", "m", "l"), prices={"s": 0.2, "m": 0.4, "l": 0.8})
SHAPES = [
    Resources(cpus=float(cpus), memory_mb=float(cpus * mb))
    for cpus in (1, 2, 4, 8)
    for mb in (1000, 1500, 2000, 3000, 4000)
]
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


def _exponential(rng: random.Random, mean: float) -> float:
    return -mean * math.log(1.0 - rng.random())


def simple(jobs: int) -> Iterator[TraceJob]:
    rng, at_s = random.Random(1), 0.0
    for number in range(jobs):
        at_s += _exponential(rng, 0.5)
        yield TraceJob(at_s, Resources(cpus=1.0), _exponential(rng, 5 * MINUTE_S), str(number))


def hard(jobs: int) -> Iterator[TraceJob]:
    rng, at_s = random.Random(1), 0.0
    for number in range(jobs):
        at_s += _exponential(rng, 1.6)
        shape = SHAPES[int(rng.random() ** 1.7 * len(SHAPES))]
        yield TraceJob(at_s, shape, _exponential(rng, 5 * MINUTE_S), str(number))


def burst(jobs: int) -> Iterator[TraceJob]:
    rng = random.Random(1)
    for number in range(jobs):
        yield TraceJob(0.0, Resources(cpus=1.0), _exponential(rng, 5 * MINUTE_S), str(number))


def sparse(days: float) -> Iterator[TraceJob]:
    rng, at_s, number = random.Random(1), 0.0, 0
    while at_s < days * DAY_S:
        for _ in range(20):
            at_s += _exponential(rng, 3 * MINUTE_S)
            number += 1
            yield TraceJob(at_s, SHAPES[int(rng.random() * len(SHAPES))], _exponential(rng, 2 * HOUR_S), str(number))
        at_s += _exponential(rng, 4 * HOUR_S)


def backlog(jobs: int) -> Iterator[TraceJob]:
    rng, at_s = random.Random(1), 0.0
    for number in range(jobs):
        at_s += _exponential(rng, 4 * MINUTE_S)
        yield TraceJob(at_s, SHAPES[int(rng.random() * len(SHAPES))], _exponential(rng, 3 * HOUR_S), str(number))


def run(trace: Iterator[TraceJob], pool: Pool, most: int = 100) -> tuple[Result, float]:
    """What came of it on so many machines, and the seconds of processor time that it took."""
    began = time.process_time()
    result = play(Settings("benchmark", (pool,), max_vms=most), trace, Assumed(FLAVOURS))
    return result, time.process_time() - began


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast a trace is played through the daemon.")
    parser.add_argument("--jobs", default="10000,50000", help="numbers of jobs, with commas")
    parser.add_argument("--days", type=float, default=7.0, help="of the sparse one")
    parser.add_argument("--backlog", type=int, default=3000, help="jobs of the backlog")
    args = parser.parse_args()
    print(f"{machine()}; Python {sys.version.split()[0]}")
    kinds: list[tuple[str, Callable[[int], Iterator[TraceJob]], Pool]]
    kinds = [("simple", simple, ONE), ("hard", hard, THREE), ("burst", burst, ONE)]
    best = 0.0
    for name, made, pool in kinds:
        for jobs in map(int, args.jobs.split(",")):
            result, took_s = run(made(jobs), pool)
            assert (result.jobs_done, result.killed_jobs) == (jobs, 0)
            rate = jobs / took_s * MINUTE_S
            best = max(best, rate if name == "simple" else 0.0)
            print(
                f"{name:<7} {jobs:>8} jobs {rate:>9,.0f} in a minute {took_s:>7.2f} s {resident_mb():>5.0f} MB held,"
                f" {result.launches} launched, at most {result.peak_vms}, {result.simulated_s / HOUR_S:.0f} h simulated"
            )
    passing = [("sparse", sparse(args.days), 100), ("backlog", backlog(args.backlog), 16)]
    for name, trace, most in passing:
        result, took_s = run(trace, THREE, most)
        hours = result.simulated_s / HOUR_S
        print(
            f"{name:<7} {result.jobs:>8} jobs {result.jobs / took_s * MINUTE_S:>9,.0f} in a minute {took_s:>7.2f} s:"
            f" {hours / 24:.1f} days, {hours / took_s:,.0f} h in a second, {result.mean_wait_s / HOUR_S:.1f} h waited"
        )
    print(f"{best / GOAL:8.2f} of the goal, {GOAL:,} simple jobs in a minute on one core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
