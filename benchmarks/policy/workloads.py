"""What the rules are compared on: workloads that a seed makes, and real traces where there are some.

Half of them are for tuning: whoever changes the policy may look at these as often as he likes. The other half only
says how good it then is. ELASTIQ_TRACES names a directory with the real ones; their terms keep them out of the project.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import Callable, Iterator, Optional, Sequence

from benchmarks.policy.ground import Workload
from elastiq.interfaces import Resources
from elastiq.traces.job import TraceJob
from elastiq.traces.opening import open_trace
from elastiq.whatif.synthetic import DAY_S, LublinFeitelson, exponential, log_uniform

TUNE = ("burst", "hpc2n", "seismology", "lublin-8")
REPORT = ("daily", "1000genome", "short", "lublin-128")
HOUR_S = 3600.0
JITTER_S = 1.0
ENVIRONMENT = "ELASTIQ_TRACES"
DAYS = 7
JOBS_A_DAY = 150
WEEKEND = 0.4  # of a working day's jobs


def burst(seed: int) -> Workload:
    """100 one-core jobs of half an hour at once, paid for six hours."""
    chance = random.Random(seed)
    jobs = [_job(JITTER_S * chance.random(), 1.0, 1800.0) for _ in range(100)]
    return Workload("burst", _ordered(jobs), max_vms=20, span_s=6 * HOUR_S, about="100 one-core jobs of 30 minutes")


def daily(seed: int, days: int = DAYS) -> Workload:
    """Jobs of one to eight cores by day, few by night and at the weekend; run times log-uniform."""
    chance = random.Random(seed)
    hours = LublinFeitelson(0, 0).weights()
    jobs = []
    for day in range(days):
        share = WEEKEND if day % 7 >= 5 else 1.0
        for place, weight in enumerate(hours):
            began = day * DAY_S + place * DAY_S / len(hours)
            jobs += [
                _job(at_s, _pick(chance, ((1.0, 0.5), (2.0, 0.2), (4.0, 0.2), (8.0, 0.1))), _run_s(chance))
                for at_s in _poisson(chance, began, DAY_S / len(hours), JOBS_A_DAY * share * weight / len(hours))
            ]
    return Workload("daily", _ordered(jobs), max_vms=40, span_s=days * DAY_S, about=f"{days} days of 1 to 8 cores")


def _run_s(chance: random.Random) -> float:
    return round(log_uniform(chance, 60.0, 4 * HOUR_S), 1)


def short(seed: int) -> Workload:
    """Waves of very short jobs: 300 of 5 to 60 s, every 20 minutes on average, for a day."""
    chance = random.Random(seed)
    jobs = []
    for began in _poisson(chance, 0.0, DAY_S, DAY_S / 1200.0):
        jobs += [_job(began + 10.0 * chance.random(), 1.0, log_uniform(chance, 5.0, 60.0)) for _ in range(300)]
    return Workload("short", _ordered(jobs), max_vms=20, span_s=DAY_S, about="waves of 300 jobs of 5 to 60 s")


def lublin_8(seed: int) -> Workload:
    """The model of Lublin and Feitelson for a small system, on its machines of 8 cores."""
    jobs = list(LublinFeitelson(seed, 1500, largest=8, stretch=0.5))
    return Workload("lublin-8", jobs, max_vms=40, about="Lublin-Feitelson, up to 8 cores")


def lublin_128(seed: int) -> Workload:
    """The same for 128 cores; a job of more than 8 becomes several."""
    jobs = list(LublinFeitelson(seed, 800, largest=128, part_cpus=8))
    return Workload("lublin-128", jobs, max_vms=200, about="Lublin-Feitelson, up to 128 cores, in parts of 8")


def hpc2n(seed: int, directory: Path) -> Workload:
    """The log of HPC2N, on machines of 128 cores, on which each job fits. What its user removed is left out: how much
    work it is depends on the rule."""
    trace = open_trace(directory / "hpc2n-2002-head.swf")
    jobs = [job for job in trace if job.removed_after_s is None and job.run_s]
    return Workload("hpc2n", jobs, cpus=128.0, max_vms=60, about="HPC2N, 57 days, machines of 128 cores")


def dag(name: str, file: str) -> Callable[[int, Path], Workload]:
    """A graph of one-core tasks, each submitted when its parents have ended; one such graph a day."""

    def made(seed: int, directory: Path) -> Workload:
        chance = random.Random(seed)
        jobs = [job._replace(at_s=JITTER_S * chance.random()) for job in open_trace(directory / file)]
        return Workload(name, jobs, max_vms=150, span_s=DAY_S, about=f"{len(jobs)} tasks of a graph")

    return made


MADE: dict[str, Callable[[int], Workload]] = {
    "burst": burst,
    "daily": daily,
    "short": short,
    "lublin-8": lublin_8,
    "lublin-128": lublin_128,
}
REAL: dict[str, Callable[[int, Path], Workload]] = {
    "hpc2n": hpc2n,
    "1000genome": dag("1000genome", "dag-1000genome-22ch.csv"),
    "seismology": dag("seismology", "dag-seismology-1100p.csv"),
}


def traces() -> Optional[Path]:
    """The directory of the real ones; None where there is none."""
    named = os.environ.get(ENVIRONMENT, "")
    return Path(named) if named and Path(named).is_dir() else None


def made(name: str, seed: int) -> Optional[Workload]:
    """A workload as that seed makes it; None if it is a real one and is not there."""
    if name in MADE:
        return MADE[name](seed)
    directory = traces()
    return None if directory is None else REAL[name](seed, directory)


def _job(at_s: float, cpus: float, run_s: float) -> TraceJob:
    return TraceJob(at_s, Resources(cpus=cpus), run_s)


def _ordered(jobs: list[TraceJob]) -> list[TraceJob]:
    return [job._replace(name=str(number)) for number, job in enumerate(sorted(jobs, key=lambda job: job.at_s))]


def _poisson(chance: random.Random, began: float, length_s: float, mean: float) -> Iterator[float]:
    """Times within a span in which so many are to be expected."""
    at_s = exponential(chance, length_s / mean) if mean else math.inf
    while at_s < length_s:
        yield began + at_s
        at_s += exponential(chance, length_s / mean)


def _pick(chance: random.Random, weighted: Sequence[tuple[float, float]]) -> float:
    rest = chance.random()
    for value, weight in weighted:
        rest -= weight
        if rest < 0:
            return value
    return weighted[-1][0]
