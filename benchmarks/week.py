#!/usr/bin/env python3
"""A week of a large cluster in virtual time: what grows, how many calls are made, what holds the decision thread.

    python3 benchmarks/week.py                                            # small: 200 nodes, 4 days
    python3 benchmarks/week.py --nodes 5000 --jobs 100000 --days 7 --slowly   # by hand: some twenty minutes

``--slowly`` reads the queue every 200 s and the machines every 600 s, also while some boot or drain, for else
the week of 5,000 machines takes hours: a read of all workers every ten seconds of it.

Each day jobs come for eighteen hours; then all end, and every machine with them, so that each night finds
the daemon with as many machines as the night before: none. What it holds then must not have grown. The calls
of an hour are bounded by the periods, whatever the number of nodes. The longest event of the daemon, in seconds
of processor time, is what a command or a read would have had to wait for the decision thread.
"""

from __future__ import annotations

import argparse
import gc
import logging
import math
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable, Optional

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.memory import machine  # noqa: E402
from elastiq import daemon  # noqa: E402
from elastiq.events import Action, EventQueue, Timer  # noqa: E402
from elastiq.interfaces import Pool, Resources  # noqa: E402
from elastiq.settings import Settings  # noqa: E402
from elastiq.simulation.cluster import Cluster  # noqa: E402
from elastiq.simulation.world import World  # noqa: E402
from elastiq.status import snapshot  # noqa: E402
from tests.simulation.object_graph import sizes  # noqa: E402

FLAVOUR = Resources(cpus=8, memory_mb=16_000)
SHAPES = (1.0, 4.0, 8.0, 8.0, 8.0, 8.0)  # cores
DAY_S = 86_400.0
BUSY_S = 14 * 3600.0  # of a day, in which jobs come; they last four hours at most
LONGEST_S = 4 * 3600.0
QUEUE_EVERY_S, VMS_EVERY_S, PROBLEMS_EVERY_S = 60.0, 180.0, 120.0
SLOWLY = 600.0 / VMS_EVERY_S
# Of reads in an hour: the machines as often as every ten seconds while some boot or drain; the workers once more
# when a drain was answered, and the queue when a job has started.
READS_AT_MOST = 3600.0 / QUEUE_EVERY_S + 3600.0 / PROBLEMS_EVERY_S + 4 * 3600.0 / daemon.ATTENTIVE_S


class Watched(Cluster):
    """A cluster that measures what the daemon's events take, and counts its calls."""

    longest_s = 0.0
    calls: Counter[str]

    def _set_up(self) -> EventQueue:
        events = super()._set_up()
        at, self.calls = events.at, Counter()

        def timed_at(when: float, action: Action) -> Timer:
            return at(when, partial(self._timed, action))

        events.at = timed_at  # type: ignore[method-assign]
        executor: Any = self._executor
        finish, send = executor._finish, executor._send
        executor._finish = lambda *outcome: self._timed(partial(finish, *outcome))
        executor._send = lambda call: (self.calls.update([call.lane]), send(call))
        return events

    def _timed(self, action: Callable[[], object]) -> None:
        began = time.process_time()
        action()
        self.longest_s = max(self.longest_s, time.process_time() - began)


@dataclass
class Night:
    """The state after a day."""

    rss_mb: float
    held: Counter[str]  # what can be reached from the daemon, by the way there
    nodes: int
    peak: int
    busiest: int  # reads in an hour
    acts: int
    longest_s: float
    status_s: float
    real_s: float


def rss_mb() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmRSS:"))


def cluster(nodes: int, seed: int, times: float = 1.0) -> Watched:
    """The cluster, with its periods longer by a factor."""
    settings = Settings(
        "week",
        (Pool("simulated", "simulated", ("large",), capacity=FLAVOUR),),
        max_vms=nodes,
        idle_for_time_s=1200.0,
        check_queue_every_s=QUEUE_EVERY_S * times,
        check_vms_every_s=VMS_EVERY_S * times,
        check_vms_in_error_every_s=PROBLEMS_EVERY_S * times,
    )
    return Watched(settings, {"large": FLAVOUR}, random.Random(seed))


def submit_day(made: Watched, nodes: int, jobs: int, rng: random.Random) -> None:
    """The jobs of a day: bursts in which many come at once, and single ones; more than the machines can take."""
    cores = [rng.choice(SHAPES) for _ in range(jobs)]
    mean_s = 1.6 * nodes * FLAVOUR.cpus * BUSY_S / sum(cores) if FLAVOUR.cpus else 0.0
    bursts = [rng.random() * BUSY_S / 2 for _ in range(3)]
    for number in range(jobs):
        at_s = bursts[number // 3 % 3] + 300.0 * rng.random() if number % 3 else rng.random() * BUSY_S
        length_s = min(LONGEST_S, 60.0 - mean_s * math.log(1.0 - rng.random()))
        request = Resources(cpus=cores[number], memory_mb=1500.0 * cores[number])
        made.events.after(at_s, partial(made.world.submit, request, length_s))


def day(made: Watched, nodes: int, jobs: int, rng: random.Random) -> Night:
    """Let a day pass, and look at what is left."""
    began = time.perf_counter()
    submit_day(made, nodes, jobs, rng)
    made.longest_s, busiest, acts, peak, status_s = 0.0, 0, 0, 0, 0.0
    for _ in range(24):
        made.calls.clear()
        made.run(DAY_S / 24)
        reads = sum(count for lane, count in made.calls.items() if lane.startswith("read "))
        busiest, acts = max(busiest, reads), acts + sum(made.calls.values()) - reads
        peak = max(peak, made.world.tally.present)
        assert made.daemon is not None and not made.daemon.core.faults, made.daemon
        looked = time.process_time()
        snapshot(made.daemon)
        status_s = max(status_s, time.process_time() - looked)
    gc.collect()
    assert made.daemon is not None
    held = sizes(made.daemon, outside=(World, Cluster))
    left = len(made.daemon.core.registry)
    return Night(rss_mb(), held, left, peak, busiest, acts, made.longest_s, status_s, time.perf_counter() - began)


def judged(nights: list[Night]) -> list[str]:
    """What grew from the first nights to the last ones, or was too much."""
    wrong = [f"{night.nodes} machines are left at night" for night in nights if night.nodes]
    if max(night.busiest for night in nights) > READS_AT_MOST:
        wrong.append(f"more than {READS_AT_MOST:.0f} reads in an hour")
    half = len(nights) // 2
    before: Counter[str] = Counter()
    for night in nights[:half]:
        before |= night.held
    # Timers that were cancelled stay until their time: a few more or fewer are in the queue at any moment.
    grown = {
        way: (before[way], count)
        for way, count in nights[-1].held.items()
        if half and count > before[way] + 20 + before[way] // 10
    }
    return wrong + ([f"the daemon holds more than in the first nights: {grown}"] if grown else [])


def main(argv: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description="A week of a large cluster, in virtual time.")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slowly", action="store_true", help="with longer periods, see above")
    args = parser.parse_args(argv)
    logging.getLogger("elastiq").setLevel(logging.CRITICAL)
    rng = random.Random(args.seed)
    print(f"{machine()}; Python {sys.version.split()[0]}")
    print(f"{args.nodes} nodes, {args.jobs} jobs, {args.days} days")
    made = cluster(args.nodes, args.seed, SLOWLY if args.slowly else 1.0)
    if args.slowly:
        daemon.ATTENTIVE_S = made.settings.check_vms_every_s
    made.start_daemon()
    print("day  peak nodes  resident MB  items held  reads/h at most  acts  longest event  status made in  real time")
    nights: list[Night] = []
    for number in range(1, args.days + 1):
        night = day(made, args.nodes, args.jobs // args.days, rng)
        nights.append(night)
        print(
            f"{number:3d}  {night.peak:10d}  {night.rss_mb:11.1f}  {sum(night.held.values()):10d}  "
            f"{night.busiest:15d}  {night.acts:4d}  {night.longest_s:11.3f} s  {night.status_s:12.4f} s  "
            f"{night.real_s:7.1f} s",
            flush=True,
        )
    wrong, tally = judged(nights), made.world.settle_accounts()
    print(
        f"{tally.done} of {tally.submitted} jobs done, {tally.killed} killed; {tally.launches} machines launched, "
        f"{tally.terminations} ended; {tally.machine_s / 3600:.0f} machine hours, of which unused "
        f"{100 * tally.unused_s / max(1.0, tally.machine_s):.0f} %"
    )
    made.kill_daemon()
    if tally.killed:
        wrong.append(f"{tally.killed} jobs were killed")
    for text in wrong:
        print(f"VIOLATION: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
