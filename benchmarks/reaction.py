#!/usr/bin/env python3
"""How soon a submitted job is acted upon, and how often HTCondor is asked for that: polled, and woken by its queue.

    python3 benchmarks/reaction.py              calls an hour, in virtual time: a few seconds
    python3 benchmarks/reaction.py --rig        also from condor_submit to RunInstances on a real pool: as root, it
                                                needs the rig of tests/e2e, see its README; two minutes
    --runs N                                    submissions, and half as many polled ones; default 10

All at default settings, but for waiting_jobs_time_s = 0.

Calls an hour: the whole daemon on a simulated cluster whose batch system tells of each change as HTCondor's plugin
does: once, until the queue is read again. "looks" are reads of the queue (a command for each schedd: calls.py has
all that is called), "stats" those of the queue's log (stat(2); a real negotiator causes 60 more by writing beside
it); "seen after" is the time from the submission to the first read that has the job.

On the rig, each run starts a daemon into an empty pool and submits one job: polled, at a random moment of the period.
The time is taken from before condor_submit begins to the arrival of the call at the EC2 API, both by the clock of this
machine. The rig is left as it was found. Times decide nothing: the exit code is 1 only if a call never comes.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Callable, Iterable

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.memory import machine  # noqa: E402
from elastiq.interfaces import Jobs, Pool, Resources, Workers  # noqa: E402
from elastiq.settings import Settings  # noqa: E402
from elastiq.simulation.batch import SimulatedBatch  # noqa: E402
from elastiq.simulation.cluster import Cluster  # noqa: E402
from elastiq.simulation.workload import Arrival, feed  # noqa: E402

HOURS = 8
RUNS = 10
FLAVOURS = {"medium": Resources(cpus=4, memory_mb=8000)}
JOB = Resources(cpus=1, memory_mb=1500)

# --------------------------------------------------------------------------- calls an hour


class CountingBatch(SimulatedBatch):
    """Counts what it is asked, and for how long its jobs waited to be seen."""

    def follow(self) -> None:
        self.looks = self.stats = self.worker_reads = 0
        self.seen_s: dict[int, float] = {}

    def jobs(self) -> Jobs:
        world = self._world
        self.looks += 1
        for job in world.jobs.values():
            self.seen_s.setdefault(job.number, world.now - job.submitted_at)
        return super().jobs()

    def workers(self) -> Workers:
        self.worker_reads += 1
        return super().workers()

    def changed(self) -> bool:
        self.stats += 1
        return super().changed()


class CountingCluster(Cluster):
    batch: CountingBatch
    watched = False

    def _batch(self) -> SimulatedBatch:
        self.batch = CountingBatch(self.world, self.owner)
        self.batch.follow()
        if self.watched:
            self.batch.watch(self._wake)
        return self.batch

    def _wake(self) -> None:
        if self.daemon is not None:
            self.daemon.wake()


def now_and_then(mean_s: float, length_s: float) -> Iterable[Arrival]:
    rng, at_s = random.Random(2), 0.0
    while (at_s := at_s - mean_s * math.log(1.0 - rng.random())) < HOURS * 3600:
        yield Arrival(at_s, JOB, length_s)


def bursts(every_s: float, jobs: int, within_s: float) -> Iterable[Arrival]:
    times = (start * every_s + jobs_s for start in range(1, int(HOURS * 3600 / every_s)) for jobs_s in
             (within_s * job / jobs for job in range(jobs)))  # fmt: skip
    return (Arrival(at_s, JOB, 300.0) for at_s in times)


WORKLOADS: dict[str, Callable[[], Iterable[Arrival]]] = {
    "idle": lambda: (),
    "a job every 10 min": partial(now_and_then, 600.0, 300.0),
    "bursts: 100 jobs in 20 s, every 30 min": partial(bursts, 1801.0, 100, 20.0),
    "busy: a job every 2 s, 120 s each": partial(now_and_then, 2.0, 120.0),
}


def counted(arrivals: Iterable[Arrival], watched: bool) -> CountingBatch:
    pool = Pool("simulated", "simulated", ("medium",), capacity=FLAVOURS["medium"])
    settings = Settings("reaction", pools=(pool,), max_vms=50, waiting_jobs_time_s=0.0)
    cluster = CountingCluster(settings, FLAVOURS, random.Random(1))
    cluster.watched = watched
    cluster.start_daemon()
    feed(cluster.world, arrivals)
    cluster.run(HOURS * 3600.0)
    return cluster.batch


def print_calls() -> None:
    print(f"{'an hour, of ' + str(HOURS):40}   looks          stats  workers   seen after, s: mean  longest")
    for name, arrivals in WORKLOADS.items():
        polled, woken = counted(arrivals(), False), counted(arrivals(), True)
        for how, batch in (("polled", polled), ("woken", woken)):
            seen = sorted(batch.seen_s.values())
            times = f"{statistics.mean(seen):22.2f}{seen[-1]:9.2f}" if seen else ""
            figures = f"{batch.looks / HOURS:8.0f}  {batch.looks / polled.looks:4.2f}x{batch.stats / HOURS:8.0f}"
            print(f"{name if how == 'polled' else '':40}{figures}{batch.worker_reads / HOURS:9.0f}{times}  {how}")


# --------------------------------------------------------------------------- on a real pool


def reaction(run: int, watched: bool) -> tuple[float, float]:
    """Seconds from condor_submit to RunInstances, and seconds that condor_submit itself took."""
    from tests.e2e.cluster import Cluster as RealCluster
    from tests.e2e.cluster import wait_for
    from tests.e2e.daemon import Daemon
    from tests.e2e.rig import lifecycle

    lifecycle.reset()
    cluster = RealCluster()
    periods = ("check_queue_every_s", "check_vms_every_s", "check_vms_in_error_every_s", "batch_settle_s")
    keys: dict[str, object] = {"waiting_jobs_time_s": 0, **dict.fromkeys(periods)}  # None: not set
    daemon = Daemon(f"reaction-{run}", {"elastiq": keys, "htcondor": {"watch_queue": "yes" if watched else "no"}})
    daemon.start()
    try:
        wait_for(lambda: "no job waits" in daemon.log(), 30, "the daemon has read both sides")
        time.sleep(random.uniform(2.0, 2.0 if watched else 2.0 + Settings("").check_queue_every_s))
        submitted = time.time()
        cluster.submit(1, 1)
        returned = time.time()
        calls = wait_for(cluster.launch_calls, 60, "RunInstances is called", 0.02)
        return calls[0]["at"] - submitted, returned - submitted
    finally:
        daemon.stop()


def print_reaction(runs: int) -> None:
    from tests.e2e.rig import lifecycle, places

    with lifecycle.alone():
        found_there, found_up = places.base().exists(), lifecycle.is_up()
        try:
            lifecycle.up()
            woken = [reaction(run, True) for run in range(runs)]
            polled = [reaction(run, False) for run in range((runs + 1) // 2)]
            lifecycle.reset()
        finally:
            if not found_up:
                lifecycle.down()
            if not found_there:
                lifecycle.purge()
    print("condor_submit to RunInstances, s")
    medians = {}
    for how, figures in (("woken", woken), ("polled", polled)):
        times = sorted(latency for latency, _ in figures)
        medians[how] = statistics.median(times)
        print(f"  {how:8} median {medians[how]:6.2f}  longest {times[-1]:6.2f}   {' '.join(f'{s:.2f}' for s in times)}")
    print(f"  polled / woken {medians['polled'] / medians['woken']:.1f}x; condor_submit itself "
          f"{statistics.median(own for _, own in woken):.2f} s of it")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="How soon a job is acted upon, and how many calls that takes.")
    parser.add_argument("--rig", action="store_true", help="also on a real HTCondor pool")
    parser.add_argument("--runs", type=int, default=RUNS, help="submissions there")
    args = parser.parse_args()
    logging.getLogger("elastiq").setLevel(logging.ERROR)
    print(machine())
    print_calls()
    if args.rig:
        print_reaction(args.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
