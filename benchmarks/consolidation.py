#!/usr/bin/env python3
"""What ``consolidate = yes`` saves, and what it costs in waits: the whole daemon in virtual time, without and with it.

    python3 benchmarks/consolidation.py                            # a daily mix
    python3 benchmarks/consolidation.py [--days 20] log.swf workflow.csv    # traces as well

The mix: short jobs in office hours, a burst each morning, and long single-core jobs around the clock that the bursts
leave scattered over many machines. It is played with jobs that go to the oldest machine with room ("packed"), and
with jobs that go to the emptiest ("spread"), as a pool does whose ranks prefer free machines. A trace is a log in
the Standard Workload Format, or a workflow: lines of task, category, run time in seconds, cpu use in per cent, and
the tasks that must be done before, with a line of titles. One that is not there is skipped, with a notice.

The exit code is 1 if any job was evicted, or if the mix does not cost less where jobs are spread.
"""

from __future__ import annotations

import argparse
import csv
import logging
import math
import random
import sys
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Callable, Iterable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.memory import machine
from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.model import Act, Job, JobState
from elastiq.simulation.workload import Arrival, feed
from elastiq.simulation.world import World
from elastiq.traces.job import TraceError
from elastiq.traces.opening import open_trace

HOUR_S, DAY_S = 3600.0, 86400.0
CPUS = 8
LOOK_S = 10.0  # how soon a task whose parents are done is submitted

# Begins to submit its jobs; what it returns says whether all were.
Workload = Callable[[World], Callable[[], bool]]


# --------------------------------------------------------------------------- the workloads


def daily_mix(days: int, seed: int) -> list[Arrival]:
    rng, jobs = random.Random(seed), list[Arrival]()

    def come(begin_s: float, end_s: float, per_h: float, mean_s: float, cpus: float) -> None:
        at_s = begin_s + rng.expovariate(per_h / HOUR_S)
        while at_s < end_s:
            jobs.append(Arrival(at_s, Resources(cpus=cpus), min(2 * DAY_S, rng.expovariate(1 / mean_s))))
            at_s += rng.expovariate(per_h / HOUR_S)

    for day in range(days):
        midnight = day * DAY_S
        come(midnight + 8 * HOUR_S, midnight + 18 * HOUR_S, 24, 900.0, 1)
        come(midnight + 8 * HOUR_S, midnight + 18 * HOUR_S, 3, 1800.0, 4)
        come(midnight, midnight + DAY_S, 1, 8 * HOUR_S, 1)
        burst_s = midnight + 9 * HOUR_S + rng.random() * 2 * HOUR_S
        jobs += [Arrival(burst_s, Resources(cpus=1), 600.0 + rng.random() * HOUR_S) for _ in range(40)]
    return sorted(jobs, key=lambda job: job.at_s)


def fed(jobs: Iterable[Arrival], world: World) -> Callable[[], bool]:
    ended: list[bool] = []

    def stream() -> Iterator[Arrival]:
        yield from jobs
        ended.append(True)

    feed(world, stream())
    return lambda: bool(ended)


def log_of_jobs(path: Path, days: float, cpus: int, world: World) -> Callable[[], bool]:
    """A log in the Standard Workload Format; larger jobs become several."""
    jobs = takewhile(lambda job: job.at_s <= days * DAY_S, open_trace(path, "swf", split_at=cpus))
    return fed((Arrival(job.at_s, job.request, job.run_s, job.removed_after_s) for job in jobs), world)


def workflow(path: Path, cpus: int, world: World) -> Callable[[], bool]:
    """Tasks that wait for others."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = {row["task"]: row for row in csv.DictReader(file)}
    waiting, begun = dict(rows), dict[str, Job]()

    def look() -> None:
        for name, row in list(waiting.items()):
            parents = [parent for parent in row["parent_tasks"].split() if parent in rows]
            if all(parent in begun and begun[parent].state is JobState.DONE for parent in parents):
                del waiting[name]
                used = math.ceil(float(row["avg_cpu_pct"] or 0.0) / 100.0)
                begun[name] = world.submit(Resources(cpus=min(cpus, max(1, used))), float(row["runtime_s"]))
        if waiting:
            world.events.after(LOOK_S, look)

    look()
    return lambda: not waiting


# --------------------------------------------------------------------------- playing them


@dataclass(frozen=True)
class Played:
    machine_hours: float
    launches: int
    emptied: int
    returned: int
    waits_s: list[float]
    evictions: int

    def line(self) -> str:
        waits = sorted(self.waits_s) or [0.0]
        mean, p95 = sum(waits) / len(waits), waits[int(0.95 * (len(waits) - 1))]
        return (
            f"{self.machine_hours:8.1f} machine-hours, launches {self.launches:4}, emptied {self.emptied:4}, returned"
            f" {self.returned:4}, waits: mean {mean:5.1f} s, 95 % below {p95:5.0f} s, evictions {self.evictions}"
        )


def play(workload: Workload, cpus: int, consolidate: bool, spread: bool, seed: int) -> Played:
    """To the end: all jobs are done, and all machines have ended."""
    flavour = Resources(cpus=cpus)
    pool = Pool("ec2", "simulated", ("machine",), capacity=flavour)
    settings = Settings(
        *("benchmark", (pool,)),
        max_vms=200,
        idle_for_time_s=900.0,
        check_queue_every_s=60.0,
        check_vms_every_s=120.0,
        consolidate=consolidate,
    )
    cluster = Cluster(settings, {"machine": flavour}, random.Random(seed))
    world, acts = cluster.world, list[Act]()
    world.fills, world.on_act = "emptiest" if spread else "oldest", acts.append
    all_came = workload(world)
    cluster.start_daemon()
    while not all_came() or world.jobs or world.tally.present:
        cluster.run(HOUR_S)
    cluster.kill_daemon()
    tally = world.settle_accounts()
    ended = [act for act in acts if act.what == "terminate" and act.jobs]
    emptied = sum(act.what == "drain" and act.detail == "peaceful" for act in acts)
    evictions = max(tally.killed, len(ended))
    hours, returned = tally.machine_s / HOUR_S, sum(act.what == "undrain" for act in acts)
    return Played(hours, tally.launches, emptied, returned, tally.waits_s, evictions)


def compare(name: str, workload: Workload, cpus: int, spread: bool, seed: int) -> tuple[Played, Played]:
    print(f"{name}, {'spread' if spread else 'packed'}:")
    without, with_it = (play(workload, cpus, consolidate, spread, seed) for consolidate in (False, True))
    saved = 1 - with_it.machine_hours / max(without.machine_hours, 0.01)
    print(
        f"  consolidate = no : {without.line()}\n  consolidate = yes: {with_it.line()}\n  saved: {saved:.1%}",
        flush=True,
    )
    return without, with_it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=Path, help="logs (.swf, gzipped or not) and workflows (.csv)")
    parser.add_argument("--days", type=float, default=10.0, help="only so much of a log (10)")
    parser.add_argument("--cpus", type=int, default=CPUS, help="of a machine, for the traces (8)")
    parser.add_argument("--mix-days", type=int, default=2, help="how many days of the mix (2)")
    parser.add_argument("--seed", type=int, default=1, help="of the mix, boot times and latencies (1)")
    asked = parser.parse_args()
    logging.getLogger("elastiq").setLevel(logging.ERROR)
    print(machine())
    mix = daily_mix(asked.mix_days, asked.seed)
    runs = [compare("daily mix", partial(fed, mix), CPUS, spread, asked.seed) for spread in (False, True)]
    for path in asked.traces:
        if not path.is_file():
            print(f"{path}: is not there, skipped")
            continue
        of_tasks = path.suffix == ".csv"
        load = partial(workflow, path, asked.cpus) if of_tasks else partial(log_of_jobs, path, asked.days, asked.cpus)
        try:
            runs += [compare(path.name, load, asked.cpus, spread, asked.seed) for spread in (False, True)]
        except (TraceError, KeyError, ValueError) as exc:
            print(f"{path}: cannot be read: {exc}, skipped")
    evicted = sum(one.evictions for both in runs for one in both)
    cheaper = runs[1][1].machine_hours < runs[1][0].machine_hours
    return 1 if evicted or not cheaper else 0


if __name__ == "__main__":
    sys.exit(main())
