#!/usr/bin/env python3
"""One burst of jobs, and a day without any: machine-hours and waiting of elastiq and, where it can be had, of TARDIS.

    python3 benchmarks/burst.py [--tardis PYTHON | --without-tardis]

100 jobs of one core and 30 minutes come at once to an empty cluster of machines with 8 cores, 20 at most, which boot
for 120 s; six hours are looked at. 6.25 machine-hours are the least: 50 core-hours, and no boot. A day without jobs
asks what an empty queue costs where one machine is kept, after a start from nothing.

elastiq is its own production loop in the engine of `elastiqctl simulate`. TARDIS is its own code in simulated time
(benchmarks/_tardis.py), with the configuration that its documentation gives as the example. For --tardis name a Python
that has the package cobald-tardis; without it a temporary environment is made, by pip.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks._tardis_home import tardis_python  # noqa: E402
from benchmarks.memory import machine  # noqa: E402
from elastiq.interfaces import Resources  # noqa: E402
from elastiq.traces.job import TraceJob  # noqa: E402
from elastiq.whatif.configuration import Configuration  # noqa: E402
from elastiq.whatif.study import play  # noqa: E402
from elastiq.whatif.terms import Assumed  # noqa: E402

JOBS, JOB_S, CORES, HOURS = 100, 1800.0, 8, 6.0
RUNS = 5  # of TARDIS, which keeps its drones in sets without an order
IDEAL_HOURS = JOBS * JOB_S / CORES / 3600.0
DAY_S = 86_400.0
ASSUMED = Assumed({"8-core": Resources(cpus=float(CORES))}, boot_s=(120.0, 120.0))
OURS = {
    "elastiq, as the example file has it": ("idle_for_time_s=auto", "waiting_jobs_time_s=auto"),
    "elastiq, and prefer = cost": ("idle_for_time_s=auto", "waiting_jobs_time_s=auto", "prefer=cost"),
    "elastiq, idle_for_time_s = 300": ("idle_for_time_s=300", "waiting_jobs_time_s=auto"),
    "elastiq, as an old file has it (3600, and waiting_jobs_time_s = 40)": (
        "idle_for_time_s=3600",
        "waiting_jobs_time_s=40",
    ),
}


@dataclass
class Found:
    hours: float
    mean_s: Optional[float]
    p95_s: Optional[float]
    peak: int
    launches: int
    done: int


class Given:
    """Some jobs as a trace."""

    began_at = None

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        self._jobs = jobs

    def __iter__(self) -> Iterator[TraceJob]:
        return iter(self._jobs)


def ours(changes: Sequence[str], jobs: Sequence[TraceJob]) -> Found:
    configuration = Configuration()
    settings = configuration.with_changes([configuration.keys.change(text) for text in changes]).settings
    found = play(settings, Given(jobs), ASSUMED)
    assert not found.killed_jobs and found.jobs_done == len(jobs), found
    assert found.simulated_s <= max(HOURS * 3600.0, DAY_S + 3600.0), found
    waits = found.mean_wait_s, found.p95_wait_s
    return Found(found.machine_hours, *waits, found.peak_vms, found.launches, found.jobs_done)


def tardis(python: str, jobs: int, hours: float) -> Found:
    argv = [python, str(ROOT / "benchmarks" / "_tardis.py"), str(jobs), str(hours)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout)
    waits = said["mean_wait_s"], said["p95_wait_s"]
    return Found(said["machine_hours"], *waits, said["peak_vms"], said["launches"], said["jobs_done"])


def main() -> int:
    parser = argparse.ArgumentParser(description="One burst of jobs, and a day without any.")
    parser.add_argument("--tardis", metavar="PYTHON", help="a Python that has cobald-tardis")
    parser.add_argument("--without-tardis", action="store_true")
    args = parser.parse_args()
    print(f"{machine()}; Python {sys.version.split()[0]}")
    request = Resources(cpus=1.0)
    burst = [TraceJob(0.0, request, JOB_S)] * JOBS
    found = {name: ours(changes, burst) for name, changes in OURS.items()}
    empty = [TraceJob(0.0, request, 1.0), TraceJob(DAY_S, request, 1.0)]  # a trace has to begin and to end
    idle = {
        f"elastiq, min_vms = {kept}": ours((f"quota.min_vms={kept}", "idle_for_time_s=auto"), empty) for kept in (0, 1)
    }
    with tardis_python(args.tardis, args.without_tardis) as (python, why):
        if python is None:
            print(f"TARDIS is left out: {why}")
        else:
            runs = sorted((tardis(python, JOBS, HOURS) for _ in range(RUNS)), key=lambda one: one.hours)
            spread = f"{runs[0].hours:.1f} to {runs[-1].hours:.1f} in {RUNS} runs"
            found[f"TARDIS {why}, as its example has it ({spread})"] = runs[RUNS // 2]
            idle["TARDIS, minimum: 1"] = tardis(python, 0, 24.0)
    print(f"\n{JOBS} jobs of 1 core and {JOB_S / 60:g} min, machines of {CORES} cores, {HOURS:g} h")
    print("machine-hours  to ideal  mean wait  p95 wait  peak  launches")
    print(f"{IDEAL_HOURS:13.2f}  {1:8.2f}                                         the least: no boot, no wait")
    for name, one in found.items():
        assert one.done == JOBS, (name, one)
        print(
            f"{one.hours:13.2f}  {one.hours / IDEAL_HOURS:8.2f}  {one.mean_s:7.0f} s  {one.p95_s:6.0f} s"
            f"  {one.peak:4d}  {one.launches:8d}   {name}"
        )
    print("\na day without jobs, but for one of a second at either end of elastiq's")
    for name, one in idle.items():
        print(f"{one.hours:13.2f}  machine-hours   {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
