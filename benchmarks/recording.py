#!/usr/bin/env python3
"""What it costs to keep what is seen of the queue, and to make a trace of a month of it.

    python3 benchmarks/recording.py [--groups 20] [--days 35] [--jobs 500000]

For some numbers of groups: what a poll takes where nothing has changed and where every group has, as a part of the
15 s between two polls, and against what the daemon does with a read anyway (who has waited how long); the memory.
Then a month of a busy queue: the size of its files, and what its trace takes.
"""

from __future__ import annotations

import argparse
import logging
import random
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from elastiq.interfaces import JobGroup, Jobs, Resources
from tests.unit.fakes import Surroundings

ROOT = Path(__file__).resolve().parents[1]
POLL_S = 15.0
TIMES = 200
RECORD = "import sys; from elastiq.cli import main; sys.exit(main())"


def jobs_of(counts: Sequence[tuple[int, int]]) -> Jobs:
    made = (
        JobGroup(f"{number:016x}", Resources(1 + number % 8, 2000.0), waiting, running)
        for number, (waiting, running) in enumerate(counts)
    )
    return Jobs(tuple(made))


def spent_s(rig: Surroundings, looks: Sequence[Jobs], take: Callable[[Jobs], object]) -> float:
    """Processor time of one."""
    took = 0.0
    for jobs in looks:
        began = time.process_time()
        take(jobs)
        took += time.process_time() - began
        rig.clock.wait(POLL_S)
    return took / len(looks)


def polls(folder: Path) -> None:
    from elastiq.demand import WaitingHistory
    from elastiq.recording import Recording

    print("groups   nothing new, of 15 s   all new, of 15 s   to who has waited   memory")
    for groups in (1, 20, 200, 2000):
        rig, rng, history = Surroundings(), random.Random(1), WaitingHistory(40.0)
        looks = [jobs_of([(rng.randrange(1, 200), rng.randrange(200)) for _ in range(groups)]) for _ in range(TIMES)]
        tracemalloc.start()
        recording = Recording(rig.core, folder / f"of{groups}")
        recording.take(looks[0])
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        rig.clock.wait(POLL_S)
        calm, busy = spent_s(rig, looks[:1] * TIMES, recording.take), spent_s(rig, looks, recording.take)
        times = iter(range(10**9))
        waits = spent_s(rig, looks[:1] * TIMES, lambda jobs: history.observe(POLL_S * next(times), jobs))  # noqa: B023
        parts = f"{calm * 1e6:>9.0f} us {calm / POLL_S:>9.4%} {busy * 1e6:>6.0f} us {busy / POLL_S:>8.4%}"
        print(f"{groups:>6} {parts} {calm / waits:>19.1f} {memory / 1024:>5.0f} KB")


def month(folder: Path, groups: int, days: int, jobs: int) -> None:
    """Jobs arrive evenly, run for half an hour on average, and wait where too many would run."""
    from elastiq.recording import Recording

    rig, rng = Surroundings(record_days=days), random.Random(1)
    recording, state = Recording(rig.core, folder / "queue"), [(0, 0)] * groups
    looks = int(days * 86_400 / POLL_S)
    arrives, ends = jobs / looks / groups, POLL_S / 1800.0
    room, made, took = 1.05 * arrives / ends, 0, 0.0
    for _ in range(looks):
        for number, (waiting, running) in enumerate(state):
            came = int(arrives) + (rng.random() < arrives % 1.0)
            left = int(running * ends) + (rng.random() < running * ends % 1.0)
            waiting, running, made = waiting + came, running - left, made + came
            start = max(0, min(waiting, int(room) - running))
            state[number] = (waiting - start, running + start)
        given = jobs_of(state)
        began = time.process_time()
        recording.take(given)
        took += time.process_time() - began
        rig.clock.wait(POLL_S)
    sizes = [file.stat().st_size for file in (folder / "queue").iterdir()]
    print(
        f"{days} days, {groups} groups, {made} jobs: {sum(sizes) / 1e6:.1f} MB, a day at most {max(sizes) / 1e6:.2f} MB"
    )
    print(f"  recorded in {took:.1f} s of processor time, {took / (days * 86_400.0):.5%} of a core")
    file = folder / "queue.csv"
    words = ["record", "--statedir", str(folder), "--output", str(file), "--until", "2024-12-31"]
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", RECORD, *words], cwd=ROOT, check=True)
    resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"  its trace: {time.monotonic() - began:.0f} s, {resident:.0f} MB resident, {file.stat().st_size / 1e6:.0f} MB"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of recording the queue.")
    parser.add_argument("--groups", type=int, default=20, help="of the month (20)")
    parser.add_argument("--days", type=int, default=35, help="of the month (35)")
    parser.add_argument("--jobs", type=int, default=500_000, help="of the month (500000)")
    asked = parser.parse_args()
    logging.getLogger("elastiq").setLevel(logging.ERROR)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    import elastiq.recording  # noqa: F401 - its weight

    print(f"the module: {(tracemalloc.get_traced_memory()[0] - before) / 1024:.0f} KB")
    tracemalloc.stop()
    with tempfile.TemporaryDirectory() as folder:
        polls(Path(folder))
        month(Path(folder), asked.groups, asked.days, asked.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
