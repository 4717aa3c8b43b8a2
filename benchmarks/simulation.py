#!/usr/bin/env python3
"""How fast simulated time passes: a day of a cluster of 50 nodes, with the whole daemon on it.

    python3 benchmarks/simulation.py [--nodes 50] [--hours 24] [--jobs 300] [--seed 1] [--repeat 2]

The periods are the daemon's defaults (queue every 15 s, machines every 45 s, heartbeat every 5 s). Jobs of
one to four cores arrive all day, enough of them to keep most machines busy. The best of the repeats is
printed: simulated hours in a real second, and the seconds for the whole.
"""

from __future__ import annotations

import argparse
import cProfile
import logging
import math
import pstats
import random
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.memory import machine
from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster

GOAL_S = 0.8  # "well under a second" for the day of 50 nodes
FLAVOURS = {"medium": Resources(cpus=4, memory_mb=8000)}
LONGEST_S = 8 * 3600.0


def cluster(nodes: int, hours: float, jobs: int, seed: int, leave_out: bool) -> Cluster:
    """A cluster with its jobs to come."""
    rng = random.Random(seed)
    pool = Pool("simulated", "simulated", ("medium",), capacity=FLAVOURS["medium"])
    settings = Settings("benchmark", pools=(pool,), max_vms=nodes)
    made = Cluster(settings, FLAVOURS, rng, leave_out=leave_out)
    # So that all jobs together ask for most of the cores of all machines.
    cores = [1.0 + math.floor(4 * rng.random()) for _ in range(jobs)]
    mean_s = 0.85 * nodes * 4 * hours * 3600.0 / sum(cores)
    for number in range(jobs):
        at_s = hours * 3600.0 * rng.random() ** 1.5
        length_s = min(LONGEST_S, 60.0 - mean_s * math.log(1.0 - rng.random()))
        request = Resources(cpus=cores[number], memory_mb=1500.0 * cores[number])
        made.events.after(at_s, partial(made.world.submit, request, length_s))
    return made


def run(made: Cluster, hours: float) -> float:
    """Let the hours pass; returns the seconds of processor time that it took. It waits for nothing, so on an
    idle machine these are the real seconds."""
    began = time.process_time()
    made.start_daemon()
    made.run(hours * 3600.0)
    return time.process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast simulated time passes.")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="print where the time goes, with every read")
    args = parser.parse_args()
    logging.getLogger("elastiq").setLevel(logging.ERROR)
    asked = (args.nodes, args.hours, args.jobs, args.seed)
    if args.profile:
        made = cluster(*asked, leave_out=False)
        with cProfile.Profile() as profile:
            run(made, args.hours)
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        return 0
    print(f"{machine()}; Python {sys.version.split()[0]}; best of {args.repeat}")
    best = {}
    for leave_out in (False, True):
        times = []
        for _ in range(args.repeat):
            made = cluster(*asked, leave_out)
            times.append(run(made, args.hours))
            assert made.daemon is not None and not made.daemon.core.faults
            reads = made.daemon.core.executor.sent  # type: ignore[attr-defined]
            made.kill_daemon()
        tally, best[leave_out] = made.world.settle_accounts(), min(times)
        print(
            f"{args.nodes} nodes, {args.hours:g} h: {tally.launches} launched, {tally.terminations} ended, on average "
            f"{tally.machine_s / args.hours / 3600:.1f} up, {tally.done} jobs done of {tally.submitted}"
        )
        print(
            f"{args.hours / best[leave_out]:8.1f} simulated hours per real second, {best[leave_out]:.2f} s for the "
            f"{args.hours:g} h: {reads} reads, {'without those in vain' if leave_out else 'all that are asked for'}"
        )
    ratio = best[True] / GOAL_S * 24.0 / args.hours
    print(f"{ratio:8.2f} of the goal, {GOAL_S:g} s for a day of 50 nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
