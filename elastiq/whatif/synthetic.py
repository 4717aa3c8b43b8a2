"""Workloads out of published models, so that what is measured can be repeated without anybody's log.

`LublinFeitelson` is the model of U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling
the characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003, pages 1105-1122: sizes
log-uniform in two stages, run times hyper-gamma in the logarithm and longer for larger jobs, arrivals with a daily
cycle. Its parameters are those of the authors' own program, m_lublin99.c, for jobs that are not told apart into batch
and interactive ones (https://www.cs.huji.ac.il/labs/parallel/workload/m_lublin99/).

All chance comes from `random.Random.random`, the only method of which every version of Python makes the same. A
stream that is iterated over again is the same again.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Iterator

from elastiq.interfaces import Resources
from elastiq.traces.job import Lines, TraceJob

DAY_S = 86_400.0
BUCKETS = 48  # of a day, half an hour each
BUCKET_S = DAY_S / BUCKETS


@dataclass
class LublinFeitelson:
    """So many ``jobs`` of a machine room of ``largest`` cores, from midnight on.

    ``stretch`` is what the gaps between jobs are multiplied with: 1 is the load of the model, about a job in 18
    minutes. ``part_cpus``: a job of more cores becomes several of at most so many, submitted together, as the jobs
    here run on one machine each; they run for the same time.
    """

    seed: int
    jobs: int
    largest: int = 128
    stretch: float = 1.0
    part_cpus: float = math.inf
    format: str = "synthetic"
    lines: Lines = field(default_factory=Lines)
    began_at: None = None

    # The size: how many jobs have one core, and how many of all have a power of two.
    serial: float = 0.244
    power_of_two: float = 0.576
    low: float = 0.8  # the logarithm (of two) of the smallest parallel job's size
    below_middle: float = 0.86
    # The logarithm of the run time: two gamma distributions, the first with the probability p = slope x cores + base.
    run: tuple[tuple[float, float], tuple[float, float]] = ((4.2, 0.94), (312.0, 0.03))
    slope: float = -0.0054
    base: float = 0.78
    longest_log_s: float = 12.0
    # The logarithm of a gap at the rush hour, the factor that makes it one of the whole day, and the daily cycle.
    gap: tuple[float, float] = (10.2303, 0.4871)
    of_all_hours: float = 1.0225
    longest_gap_log_s: float = 13.0
    cycle: tuple[float, float] = (8.1737, 3.9631)
    day_begins: int = 11  # the half-hour at which the cycle begins

    def __iter__(self) -> Iterator[TraceJob]:
        """The jobs by their submission; the first one's is 0, as a trace's."""
        self.lines = Lines()
        chance, began = random.Random(self.seed), None
        for number, at_s in zip(range(1, self.jobs + 1), self._arrivals(chance)):
            began = at_s if began is None else began
            cores = self._cores(chance)
            run_s = self._run_s(chance, cores)
            for cpus in parts(cores, self.part_cpus):
                self.lines.jobs += 1
                yield TraceJob(at_s - began, Resources(cpus=cpus), run_s, str(number))

    def read_part(self) -> float:
        """How much of it was given."""
        return min(1.0, self.lines.jobs / max(1, self.jobs))

    def _cores(self, chance: random.Random) -> float:
        kind = chance.random()
        if kind < self.serial:
            return 1.0
        high = math.log2(self.largest)
        # The authors: between high - 3.5 and high - 1.5. 2.5, but for a machine room that is too small for it.
        middle = high - 2.5 if high - 2.5 > self.low else max(self.low, high - 1.5)
        first = chance.random() < self.below_middle
        below, above = (self.low, middle) if first else (middle, high)
        size = below + (above - below) * chance.random()
        if kind < self.serial + self.power_of_two:
            size = float(math.floor(size + 0.5))
        return float(max(1, min(self.largest, math.floor(2.0**size + 0.5))))

    def _run_s(self, chance: random.Random, cores: float) -> float:
        first = chance.random() < min(1.0, max(0.0, self.slope * cores + self.base))
        while True:
            log_s = gamma(chance, *self.run[0 if first else 1])
            if log_s <= self.longest_log_s:
                return float(max(1, math.floor(math.exp(log_s))))

    def _arrivals(self, chance: random.Random) -> Iterator[float]:
        """Each gap is paid for in points; the busier the half-hour, the more points it takes to get through it."""
        weights, (shape, scale) = self.weights(), self.gap
        at_s = points = 0.0  # the points that are still owed, and the time up to which all are
        while True:
            log_s = gamma(chance, shape * self.of_all_hours, scale)
            if log_s > self.longest_gap_log_s:
                continue
            points += math.exp(log_s) * self.stretch / BUCKET_S
            while True:
                bucket = math.floor(at_s / BUCKET_S)
                weight = weights[bucket % BUCKETS]
                left_s = (bucket + 1) * BUCKET_S - at_s
                if points <= weight * left_s / BUCKET_S:
                    break
                points -= weight * left_s / BUCKET_S
                at_s = (bucket + 1) * BUCKET_S
            at_s, points = at_s + BUCKET_S * points / weight, 0.0
            yield round(at_s, 3)

    def weights(self) -> list[float]:
        """Of each half-hour from midnight on; 1 on average."""
        weights = [0.0] * BUCKETS
        for place in range(self.day_begins, self.day_begins + BUCKETS):
            inside = gamma_below(place + 0.5, *self.cycle) - gamma_below(place - 0.5, *self.cycle)
            weights[(place - 1) % BUCKETS] = inside
        mean = sum(weights) / BUCKETS
        return [weight / mean for weight in weights]


def parts(cores: float, most: float) -> Iterator[float]:
    """A job's cores as those of jobs that ask for at most so many."""
    while cores > most:
        yield most
        cores -= most
    yield cores


def gamma(chance: random.Random, shape: float, scale: float) -> float:
    """A gamma variate of a shape of at least 1, by G. Marsaglia and W. W. Tsang, "A simple method for generating gamma
    variables", ACM Transactions on Mathematical Software 26(3), 2000."""
    third = shape - 1.0 / 3.0
    spread = 1.0 / math.sqrt(9.0 * third)
    while True:
        x = normal(chance)
        v = (1.0 + spread * x) ** 3
        if v > 0 and math.log(1.0 - chance.random()) < 0.5 * x * x + third * (1.0 - v + math.log(v)):
            return third * v * scale


def normal(chance: random.Random) -> float:
    """A standard normal variate, by G. E. P. Box and M. E. Muller (1958)."""
    return math.sqrt(-2.0 * math.log(1.0 - chance.random())) * math.cos(2.0 * math.pi * chance.random())


def exponential(chance: random.Random, mean: float) -> float:
    """An exponential variate."""
    return -mean * math.log(1.0 - chance.random())


def log_uniform(chance: random.Random, least: float, most: float) -> float:
    """A variate whose logarithm is uniform: so A. B. Downey found run times to be ("A parallel workload model and its
    implications for processor allocation", HPDC 1997)."""
    return float(least * (most / least) ** chance.random())


def gamma_below(x: float, shape: float, scale: float) -> float:
    """The part of a gamma distribution that lies below x: the regularised incomplete gamma function, by its series
    (NIST Digital Library of Mathematical Functions, 8.11.4)."""
    x /= scale
    term = total = 1.0 / shape
    count = shape
    while term > total * 1e-12:
        count += 1.0
        term *= x / count
        total += term
    return total * math.exp(shape * math.log(x) - x - math.lgamma(shape))
