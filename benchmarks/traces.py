"""What reading a trace costs: python3 benchmarks/traces.py [--jobs 1000000]

For each format, in order and out of order: microseconds of a core for each job, and the peak of resident memory of a
tenth of the jobs and of all. Memory is to be about the same; both ratios are printed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
READ = f"""
import resource, sys, time
sys.path.insert(0, {str(ROOT)!r})
from elastiq.traces import open_trace
trace = open_trace(sys.argv[1])
jobs = sum(1 for job in trace)
used = resource.getrusage(resource.RUSAGE_SELF)
print(trace.format, jobs, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, trace.lines.bad)
"""


def swf(number: int, at: int) -> str:
    return f"{number} {at} 100 {60 + number % 999} 4 -1 -1 4 9999 -1 1 3 1 -1 -1 1 -1 -1\n"


def table(number: int, at: int) -> str:
    return f"{number},{at},{60 + number % 999},4,2000\n"


def sacct(number: int, at: int) -> str:
    return f"{number}|{1700000000 + at}|{1700000100 + at}|{1700000700 + at}|600|COMPLETED|cpu=8,mem=16G,node=1|1|60\n"


def gridengine(number: int, at: int) -> str:
    zeros = ":0" * 17
    submitted = 1700000000 + at
    return (
        f"all.q:node1:users:ann:job.sh:{number}:sge:0:{submitted}:{submitted + 9}:{submitted + 99}:0:0:90{zeros}"
        ":NONE:default:smp:4:0:0.07:0.01:0.0:-l h_vmem=4G -pe smp 4:0.0:NONE:222.0:0:0\n"
    )


def torque(number: int, at: int) -> str:
    submitted = 1700000000 + at
    return (
        f"11/14/2023 22:14:40;E;{number}.head;user=ann group=users jobname=a.sh queue=batch ctime={submitted} "
        f"start={submitted + 9} exec_host=n1/0+n1/1 Resource_List.nodect=1 Resource_List.nodes=1:ppn=4 "
        f"Resource_List.mem=4gb Resource_List.walltime=01:00:00 end={submitted + 99} Exit_status=0\n"
    )


def condor(number: int, at: int) -> str:
    submitted = 1700000000 + at
    more = "".join(f"Attribute{other} = {other}\n" for other in range(100))
    return (
        f"ClusterId = {number}\nProcId = 0\nQDate = {submitted}\nJobStatus = 4\nJobUniverse = 5\nRequestCpus = 4\n"
        f"RequestMemory = 2000\nRequestDisk = DiskUsage\nDiskUsage = 45\nCommittedTime = 90\n{more}"
        f'*** Offset = 0 ClusterId = {number} ProcId = 0 Owner = "ann" CompletionDate = {submitted + 99}\n'
    )


FORMATS: dict[str, tuple[str, Callable[[int, int], str]]] = {
    "swf": ("; Version: 2.2\n", swf),
    "csv": ("id,submit_s,run_s,cpus,memory_mb\n", table),
    "sacct": ("JobID|Submit|Start|End|ElapsedRaw|State|ReqTRES|NNodes|TimelimitRaw\n", sacct),
    "gridengine": ("", gridengine),
    "torque": ("", torque),
    "condor": ("", condor),
}


def made(path: Path, name: str, jobs: int, in_order: bool) -> None:
    """Without order a job may be anywhere."""
    head, line = FORMATS[name]
    chance = random.Random(1)
    with open(path, "w") as file:
        file.write(head)
        file.writelines(
            line(number, 10 * number if in_order else chance.randrange(10 * jobs)) for number in range(1, jobs + 1)
        )


def measured(path: Path) -> tuple[float, float]:
    """Microseconds a job, and megabytes."""
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    _format, jobs, seconds, megabytes, bad = done.stdout.split()
    if int(bad):
        raise SystemExit(f"{path.name}: {bad} lines were none")
    return float(seconds) / int(jobs) * 1e6, float(megabytes)


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="of swf and csv; of the others a fifth (1000000)")
    jobs = parser.parse_args().jobs
    print(f"{'format':12}{'order':7}{'jobs':>9}{'us a job':>10}{'MB, a tenth':>13}{'MB':>7}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name in FORMATS:
            count = jobs if name in ("swf", "csv") else jobs // 5
            for in_order in (True, False):
                path = Path(folder) / "jobs"
                made(path, name, count // 10, in_order)
                _each_us, before_mb = measured(path)
                made(path, name, count, in_order)
                each_us, after_mb = measured(path)
                order = "yes" if in_order else "no"
                ratio = after_mb / before_mb
                print(
                    f"{name:12}{order:7}{count:9}{each_us:10.1f}{before_mb:13.1f}{after_mb:7.1f}{ratio:7.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
