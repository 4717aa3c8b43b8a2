"""The cheapest machines for a few jobs, by trying everything. Shares no code with the daemon.

A job is a tuple of what it takes (one number for each dimension) with the name of its group, a machine a tuple
of what it has with its price. Every way to put the jobs together is enumerated, one job after another.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Iterator, Optional, Sequence

Room = tuple[float, ...]
Bin = tuple[str, ...]  # the groups of the jobs on one machine, sorted


@dataclass
class Oracle:
    """``groups``: name -> what a job takes, how many jobs. The names are in the order of importance.
    ``machines``: what each has, its price an hour. ``limits``: what is left, and what a machine of each kind
    takes of it."""

    groups: dict[str, tuple[Room, int]]
    machines: list[tuple[Room, float]]
    spread: float
    mixing: float
    limits: list[tuple[float, list[float]]] = field(default_factory=list)
    nodes: dict[str, int] = field(default_factory=dict)  # 1 where nothing is said

    def expected(self, machine: int, jobs: Bin) -> float:
        """Price x expected time of a machine."""
        lengths = 0
        for name, slots in Counter(jobs).items():
            lengths += -(-slots // self.nodes.get(name, 1))
        kept = 1 + self.spread * sum(1 / n for n in range(2, lengths + 1))
        return self.machines[machine][1] * (kept + self.mixing * (len(set(jobs)) - 1))

    def holders(self, jobs: Bin) -> list[int]:
        taken = [sum(amounts) for amounts in zip(*(self.groups[name][0] for name in jobs))]
        return [
            at
            for at, (room, _) in enumerate(self.machines)
            if all(there >= amount - 1e-7 for there, amount in zip(room, taken))
        ]

    def least(self, refilled: bool = False) -> float:
        """The least cost of all jobs without limits; each fits somewhere."""
        slots = [name for name, (_, jobs) in self.groups.items() for _ in range(jobs * self.nodes.get(name, 1))]
        price: dict[Bin, Optional[float]] = {}
        for jobs in self._bins(slots):
            costs = [self.machines[at][1] if refilled else self.expected(at, jobs) for at in self.holders(jobs)]
            price[jobs] = min(costs, default=None)
        ways: set[tuple[Bin, ...]] = {()}
        for name in slots:
            ways = {
                tuple(sorted((*way[:at], (*bin_, name), *way[at + 1 :])))
                for way in ways
                for at, bin_ in [*enumerate(way), (len(way), ())]
                if price[(*bin_, name)] is not None
            }
        return min(sum(price[bin_] or 0.0 for bin_ in way) for way in ways)

    @staticmethod
    def _bins(slots: Sequence[str]) -> Iterator[Bin]:
        count = Counter(slots)
        for counts in product(*(range(number + 1) for number in count.values())):
            if any(counts):
                yield tuple(name for name, number in zip(count, counts) for _ in range(number))

    def best(self) -> tuple[tuple[int, ...], float]:
        """Within the limits: the slots served of each group, and the least cost for that (the price alone if
        jobs are left)."""
        names = list(self.groups)
        ways: set[tuple[tuple[int, Bin], ...]] = {()}
        for name in names:
            for _ in range(self.groups[name][1] * self.nodes.get(name, 1)):
                ways |= {more for way in ways for more in self._ways(way, name)}
        worth: dict[tuple[int, ...], list[float]] = {}
        for way in ways:
            served = Counter(name for _, jobs in way for name in jobs)
            if any(number % self.nodes.get(name, 1) for name, number in served.items()):
                continue
            whole = all(served[name] == jobs * self.nodes.get(name, 1) for name, (_, jobs) in self.groups.items())
            cost = sum(self.expected(at, jobs) if whole else self.machines[at][1] for at, jobs in way)
            worth.setdefault(tuple(served[name] for name in names), []).append(cost)
        most = max(worth)
        return most, min(worth[most])

    def _ways(self, way: tuple[tuple[int, Bin], ...], name: str) -> Iterator[tuple[tuple[int, Bin], ...]]:
        """All ways to add one slot."""
        for at, (machine, jobs) in enumerate(way):
            if machine in self.holders((*jobs, name)):
                yield tuple(sorted((*way[:at], (machine, (*jobs, name)), *way[at + 1 :])))
        for machine in self.holders((name,)):
            used = Counter(one for one, _ in way)
            used[machine] += 1
            if all(
                sum(amounts[one] * count for one, count in used.items()) <= left + 1e-7 for left, amounts in self.limits
            ):
                yield tuple(sorted((*way, (machine, (name,)))))


def random_case(
    rng: random.Random, jobs: int, machines: int
) -> tuple[dict[str, tuple[Room, int]], list[tuple[Room, float]]]:
    """Groups with so many jobs together, and machines on one of which each of them fits. Two dimensions; the
    price per core is flat, or not."""
    kinds: list[tuple[Room, float]] = []
    flat = rng.random() < 0.5
    for _ in range(machines):
        cpus = rng.choice((1, 2, 3, 4, 6, 8, 12, 16))
        price = 0.05 * cpus * (1.0 if flat else rng.uniform(0.5, 1.5))
        kinds.append(((float(cpus), float(cpus * rng.choice((2, 4, 8)))), price))
    groups: dict[str, tuple[Room, int]] = {}
    left = jobs
    while left:
        room = rng.choice(kinds)[0]
        part = rng.choice((0.3, 0.6, 1.0))
        asked = (float(rng.randint(1, max(1, int(part * room[0])))), float(rng.randint(1, max(1, int(part * room[1])))))
        count = rng.randint(1, min(left, 4))
        groups[f"group {len(groups)}"] = (asked, count)
        left -= count
    return groups, kinds
