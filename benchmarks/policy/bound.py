"""What no policy can do better than: lower bounds on machine hours, and why they hold.

**Given the starts.** Let each job j run from s_j to e_j on c_j cores of one machine of C cores. The jobs that run at a
time t need at least N(t) machines (see `machines_needed`), each of them a worker, each launched ``boot`` seconds or
more before. Let x(t) be how many workers there are: x >= N. Each rise of x by one is a launch of its own, which costs
``boot`` beside the time as a worker. Look at the levels k = 1, 2, ...: x is at least k in a set X_k of intervals that
covers the set N_k where N is at least k. The integral of x is the sum of the lengths of the X_k, and the rises of x are
the intervals of all X_k together. Between two neighbouring intervals of N_k with a gap g, X_k either covers the gap,
which costs g, or has another interval, which costs ``boot``. So the cost is at least

    the sum over k of:  |N_k| + boot + the sum over the gaps of N_k of min(g, boot).

The x that does just so attains it, so that no better bound follows from N alone. (The same in steps of time: M. Lin,
A. Wierman, L. L. H. Andrew and E. Thereska, "Dynamic right-sizing for power-proportional data centers", INFOCOM 2011.)
Time that is billed in units is only more.

**At wait = boot** (`Bounds.at_boot`, what ratios are told of): the starts are those of a cluster that launches for each
job at once: every job ``boot`` seconds after it could have begun in a cluster without limits. A rule whose jobs wait
less or more may need a little more or less than that; it compares rules by one number that none of them moves.

**Of a rule's own starts** (`of_starts` with its runs): no policy gives these waits for less. Never beaten.

**Of any starts** (`Bounds.floor`): the work alone, as if it could be put off and packed without loss, and one boot.
Never beaten, and only reached by who lets people wait for days.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Iterable, Sequence

from elastiq.traces.job import TraceJob

Run = tuple[float, float, float]  # start, end, cores
HOUR_S = 3600.0
SHARES = range(1, 9)


@dataclass(frozen=True)
class Bounds:
    """In machine hours. ``peak``: the machines that are needed at once at wait = boot."""

    at_boot: float
    floor: float
    peak: int
    any_size: bool = False  # ``peak`` is told in cores


def bounds(jobs: Sequence[TraceJob], cpus: float, boot_s: float, any_size: bool = False) -> Bounds:
    """``any_size``: machines may be of any number of cores, at a price in proportion; ``cpus`` is then the unit of the
    machine hours alone. Each core is then as a machine of its own, launched and ended with others."""
    runs = [(at_s + boot_s, at_s + boot_s + job.run_s, job.request.cpus or 0.0) for at_s, job in ready(jobs)]
    size = 1.0 if any_size else cpus
    if any_size:
        runs = [(start, end, 1.0) for start, end, cores in runs for _ in range(math.ceil(cores))]
    worth = size / cpus
    weights = _weights({cores for _, _, cores in runs}, size)
    weighed = [[each * (end - start) for each in weights[cores]] for start, end, cores in runs]
    work_s = max(map(sum, zip(*weighed)), default=0.0)
    peak = max((needed for _, needed in machines_needed(runs, size)), default=0)
    floor_s = work_s + (boot_s if runs else 0.0)
    return Bounds(of_starts(runs, size, boot_s) * worth, floor_s * worth / HOUR_S, peak, any_size)


def ready(jobs: Sequence[TraceJob]) -> Iterable[tuple[float, TraceJob]]:
    """When each job could begin in a cluster without limits: at its submission, or when those before it have ended."""
    ends: dict[str, float] = {}
    rest = list(jobs)
    names = {job.name for job in jobs if job.name}
    while rest:
        later = []
        for job in rest:
            before = [name for name in job.after if name in names]
            if all(name in ends for name in before):
                at_s = max([job.at_s, *(ends[name] + job.think_s for name in before)])
                ends[job.name] = max(ends.get(job.name, 0.0), at_s + job.run_s)
                yield at_s, job
            else:
                later.append(job)
        if len(later) == len(rest):
            raise ValueError(f"{later[0].name}: waits for itself")
        rest = later


def of_starts(runs: Iterable[Run], cpus: float, boot_s: float) -> float:
    """The least machine hours at which jobs can run at these times: see the top of this module."""
    seconds, level, since = 0.0, 0, 0.0
    left: dict[int, float] = {}  # by level: when it was left last
    for at_s, needed in machines_needed(runs, cpus):
        seconds += level * (at_s - since)
        for one in range(level, needed):
            seconds += min(at_s - left[one], boot_s) if one in left else boot_s
        for one in range(needed, level):
            left[one] = at_s
        level, since = needed, at_s
    return seconds / HOUR_S


def machines_needed(runs: Iterable[Run], cpus: float) -> list[tuple[float, int]]:
    """From each time on, how many machines the running jobs need at least.

    Each job is given a weight such that those of jobs that fit on one machine add up to at most a whole one; however
    they are placed, there are then as many machines as all weights together. Of the ways to weigh, the one that says
    most at that moment counts (dual feasible functions: S. P. Fekete and J. Schepers, "New classes of fast lower bounds
    for bin packing problems", Mathematical Programming 91, 2001).
    """
    runs = [run for run in runs if run[1] > run[0]]
    changes: dict[float, Counter[float]] = defaultdict(Counter)
    for start, end, cores in runs:
        changes[start][cores] += 1
        changes[end][cores] -= 1
    weights = _weights({cores for _, _, cores in runs}, cpus)
    sums, found = [0.0] * len(next(iter(weights.values()), ())), []
    for at_s in sorted(changes):
        for cores, count in changes[at_s].items():
            if count:
                sums = [total + count * each for total, each in zip(sums, weights[cores])]
        found.append((at_s, math.ceil(max(sums) - 1e-6)))
    return found


def _weights(sizes: set[float], cpus: float) -> dict[float, list[float]]:
    """Of a job of each size, by the ways to weigh."""
    cuts = [0.0, *sorted(size for size in sizes if size < cpus / 2), cpus / 2]
    return {
        size: [*(cut_weight(size / cpus, cut / cpus) for cut in cuts), *(share_weight(size / cpus, k) for k in SHARES)]
        for size in sizes
    }


def cut_weight(size: float, cut: float) -> float:
    """``cut``: up to one half. What is larger than the rest of a machine beside a job of ``cut`` takes a whole one, as
    what is smaller than ``cut`` is left out."""
    if size > 1.0 - cut:
        return 1.0
    return size if size >= cut else 0.0


def share_weight(size: float, k: int) -> float:
    """A machine has no room for k + 1 jobs that are each larger than its (k + 1)th part: each takes a kth part."""
    shares = (k + 1) * size
    whole = math.floor(shares + 1e-9)
    return size if abs(shares - whole) < 1e-9 else whole / k
