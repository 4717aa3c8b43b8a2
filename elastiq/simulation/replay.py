"""Play a real workload through the daemon: ``python3 -m elastiq.simulation.replay log.swf``.

Prints one line of JSON: what became of the jobs, and what the machines cost.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import time
from dataclasses import replace
from itertools import takewhile
from typing import Any, Optional, Sequence

from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.swf import Trace, TraceError
from elastiq.simulation.workload import feed

DAY_S = 86_400.0
EXIT_UNFINISHED, EXIT_NO_TRACE = 1, 2


def main(argv: Optional[Sequence[str]] = None) -> int:
    """0 if all jobs were done, and then all machines ended."""
    asked = _parser().parse_args(argv)
    log = logging.getLogger("elastiq")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        summary = replay(Trace(asked.trace, asked.cpus), asked.cpus, asked.max_vms, asked.days, asked.seed)
    except (OSError, TraceError) as exc:
        print(f"{exc}", file=sys.stderr)
        return EXIT_NO_TRACE
    finally:
        log.setLevel(level)
    print(json.dumps(summary))
    return 0 if summary["jobs_left"] == summary["machines_left"] == 0 else EXIT_UNFINISHED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Play a trace in the Standard Workload Format through the daemon.")
    parser.add_argument("trace", help="a file, gzipped or not")
    parser.add_argument("--cpus", type=int, default=16, help="of a machine; larger jobs become several (16)")
    parser.add_argument("--max-vms", type=int, default=100, help="machines at once (100)")
    parser.add_argument("--days", type=float, default=float("inf"), help="only so much of the trace (all)")
    parser.add_argument("--seed", type=int, default=1, help="of boot times and latencies (1)")
    return parser


def replay(trace: Trace, cpus: int, max_vms: int, days: float, seed: int) -> dict[str, Any]:
    """Play it to its end, and on until nothing is left to do or waits for what never comes."""
    began = time.monotonic()
    flavour = Resources(cpus=cpus)
    pool = Pool("ec2", "simulated", ("machine",), capacity=flavour)
    settings = Settings("replay", (pool,), max_vms=max_vms, idle_for_time_s=600.0, check_queue_every_s=60.0)
    cluster = Cluster(replace(settings, check_vms_every_s=120.0), {"machine": flavour}, random.Random(seed))
    world = cluster.world
    fed = []

    def arrivals() -> Any:
        yield from takewhile(lambda one: one.at_s <= days * DAY_S, trace)
        fed.append(True)

    feed(world, arrivals())
    cluster.start_daemon()
    quiet = 0
    while quiet < 3 and not (fed and not world.jobs and not world.tally.present):
        done = (world.tally.done, world.tally.launches, world.tally.terminations, len(world.jobs), world.running())
        cluster.run(DAY_S / 2)
        after = (world.tally.done, world.tally.launches, world.tally.terminations, len(world.jobs), world.running())
        quiet = quiet + 1 if fed and done == after and not world.running() else 0
    cluster.kill_daemon()
    tally, took_s = world.settle_accounts(), time.monotonic() - began
    hours = cluster.clock.elapsed_s / 3600.0
    return {
        "trace_jobs": trace.jobs,
        "trace_bad_lines": trace.bad,
        "trace_unknown": trace.unknown,
        "jobs_submitted": tally.submitted,
        "jobs_done": tally.done,
        "jobs_killed": tally.killed,
        "jobs_left": len(world.jobs),
        "machines_left": tally.present,
        "launches": tally.launches,
        "peak_vms": tally.peak,
        "machine_hours": round(tally.machine_s / 3600.0, 1),
        "idle_machine_hours": round(tally.unused_s / 3600.0, 1),
        "simulated_hours": round(hours, 1),
        "hours_per_real_second": round(hours / max(took_s, 1e-6), 1),
    }


if __name__ == "__main__":
    sys.exit(main())
