"""What became of the machines: counted from the history in the store, so that it goes on after a restart.

Pure. Each line of history is counted once, by its number; what is kept in the store is the counts, the number of
the last line, and the machines that are there. What a crash loses of the counts is in the history still: no counter
ever steps back, which Prometheus would take for a restart from 0.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any, Callable, Iterable, Optional

from elastiq.metrics.families import Histogram, Value, Values
from elastiq.nodes import AT_BOOT, JOINED, SPENT, Node, State

BOOT_S = (15, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1800, 3600)
LIFETIME_S = (300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800, 2592000)
BY_HAND = "elastiqctl "  # how the reason of what a person orders begins
KINDS = ("launch", "boot", "lost", "broken")  # of failures
PLAIN = ("launches_asked_total", "launches_total", "stops_total", "starts_total", "machine_seconds_total")
ENDING = frozenset({State.TERMINATING, State.GONE})

# A line of history with its number: number, wall time, what, node, pool, reason.
Line = tuple[int, float, str, str, str, str]
Price = Callable[[Node], Optional[float]]

_STATES = {state.value: state for state in State}
_NOT_MADE = re.compile(r".*\.\d+")  # the name of a machine that a launch asked for, and the cloud has not made


@dataclass
class Machine:
    """One that is there. Times are wall times."""

    pool: str
    state: State
    since: float  # its launch
    up_since: float  # its launch, or its last start
    counted_to: float  # up to where its time and cost are counted
    price: Optional[float] = None  # an hour, None: not known
    unpriced_s: Optional[float] = 0.0  # counted before the price was looked at, None: it was


class Tally:
    """The counts."""

    def __init__(self, stored: Optional[dict[str, Any]] = None) -> None:
        """Begin, or go on with what `stored` gave."""
        kept = stored or {"number": 0, "counts": [], "boot": {}, "lifetime": {}, "machines": {}}
        self.number: int = kept["number"]  # of the last line that was counted
        # by family, without `elastiq_`, and labels
        self.counts: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self.counts.update({tuple(key): value for *key, value in kept["counts"]})
        self.boot = _histograms(BOOT_S, kept["boot"])
        self.lifetime = _histograms(LIFETIME_S, kept["lifetime"])
        self.machines = {
            name: Machine(**{**one, "state": State(one["state"])}) for name, one in kept["machines"].items()
        }
        self._seen: frozenset[str] = frozenset()  # in the registry, by `follow`

    def stored(self) -> dict[str, Any]:
        """For the store (JSON)."""
        return {
            "number": self.number,
            "counts": [[*key, value] for key, value in self.counts.items()],
            "boot": {pool: [*one.counts, one.total] for pool, one in self.boot.items()},
            "lifetime": {pool: [*one.counts, one.total] for pool, one in self.lifetime.items()},
            "machines": {name: {**asdict(one), "state": one.state.value} for name, one in self.machines.items()},
        }

    def values(self, pools: Iterable[str] = ()) -> Values:
        """The families that are filled from here; of these ``pools`` also what has not happened yet."""
        found: dict[str, dict[tuple[str, ...], Value]] = {}
        for pool in pools:
            for family in PLAIN:
                found.setdefault(f"elastiq_{family}", {})[(pool,)] = 0.0
            found.setdefault("elastiq_failures_total", {}).update({(pool, kind): 0.0 for kind in KINDS})
        for name, bounds, of in (("boot", BOOT_S, self.boot), ("lifetime", LIFETIME_S, self.lifetime)):
            rows = found[f"elastiq_{name}_seconds"] = {(pool,): Histogram(bounds) for pool in pools}
            rows.update({(pool,): one.copy() for pool, one in of.items()})
        for (family, *labels), value in self.counts.items():
            found.setdefault(f"elastiq_{family}", {})[tuple(labels)] = value
        return found

    # ------------------------------------------------------------------ counting

    def take(self, lines: Iterable[Line]) -> None:
        """Count lines of history, oldest first; those that were counted already are left out."""
        for number, at, what, node, pool, reason in lines:
            if number <= self.number:
                continue
            self.number = number
            if what == "launch":
                self.counts["launches_asked_total", pool] += _leading_number(reason)
            elif what in _STATES:
                self._moved(_STATES[what], node, pool, at, by_hand=reason.startswith(BY_HAND))

    def follow(self, nodes: Iterable[Node], now: float, price: Price) -> None:
        """Count the time up to now of the machines that are there, all lines having been taken; and put right what
        history does not tell: machines that were found, or of which the end could not be written down."""
        there = {node.name: node for node in nodes if node.instance_id and node.state is not State.GONE}
        for name in self.machines.keys() - there.keys():
            if name in self._seen:
                self._moved(State.GONE, name, self.machines[name].pool, now)
            else:
                del self.machines[name]
        self._seen = frozenset(there)
        for name, node in there.items():
            if name not in self.machines:
                born = min(node.created_at or now, now)
                self.machines[name] = Machine(node.pool, node.state, born, born, now)
            machine = self.machines[name]
            self._count_time(machine, now)
            machine.state, machine.price = node.state, price(node)
            if machine.unpriced_s is not None:
                self._count_cost(machine, machine.unpriced_s)
                machine.unpriced_s = None

    def _moved(self, after: State, name: str, pool: str, at: float, by_hand: bool = False) -> None:
        machine = self.machines.get(name)
        if machine is None:
            if _NOT_MADE.fullmatch(name):
                self.counts["failures_total", pool, "launch"] += 1
                return
            machine = self.machines[name] = Machine(pool, State.REQUESTED, at, at, at)
            if after is State.PENDING:  # others were found
                self.counts["launches_total", pool] += 1
        before, machine.state = machine.state, after
        self._count_time(machine, at, before)
        if before in AT_BOOT and after in JOINED:
            self._observe(self.boot, BOOT_S, pool, at - machine.up_since)
        if not by_hand:
            self._count_failure(before, after, pool)
        if after is State.STOPPED:
            self.counts["stops_total", pool] += 1
        elif before is State.STOPPED and after in (*AT_BOOT, *JOINED):
            self.counts["starts_total", pool] += 1
            machine.up_since = at
        if after in ENDING and before not in ENDING:
            self.counts["terminations_total", pool, before.value] += 1
        if after is State.GONE:
            self._observe(self.lifetime, LIFETIME_S, pool, at - machine.since)
            del self.machines[name]

    def _count_failure(self, before: State, after: State, pool: str) -> None:
        if before in AT_BOOT and after in SPENT:
            self.counts["failures_total", pool, "boot"] += 1
        elif after is State.LOST:
            self.counts["failures_total", pool, "lost"] += 1
        elif after is State.FAILED:
            self.counts["failures_total", pool, "broken"] += 1

    def _count_time(self, machine: Machine, to: float, state: Optional[State] = None) -> None:
        """Count the time in its state; one that is stopped costs nothing."""
        passed_s = to - machine.counted_to
        if passed_s <= 0:  # the wall clock was set back
            return
        machine.counted_to = to
        if (state or machine.state) is not State.STOPPED:
            self.counts["machine_seconds_total", machine.pool] += passed_s
            if machine.unpriced_s is None:
                self._count_cost(machine, passed_s)
            else:
                machine.unpriced_s += passed_s

    def _count_cost(self, machine: Machine, seconds: float) -> None:
        if machine.price is not None:
            self.counts["cost_total", machine.pool] += machine.price * seconds / 3600.0

    @staticmethod
    def _observe(into: dict[str, Histogram], bounds: tuple[int, ...], pool: str, seconds: float) -> None:
        into.setdefault(pool, Histogram(bounds)).observe(max(0.0, seconds))


def _histograms(bounds: tuple[int, ...], stored: dict[str, list[Any]]) -> dict[str, Histogram]:
    fits = len(bounds) + 2  # they may have been others in an earlier version
    return {
        pool: Histogram(bounds, counts, total) for pool, (*counts, total) in stored.items() if len(counts) + 1 == fits
    }


def _leading_number(reason: str) -> int:
    """Of `3 of POOL/FLAVOUR: why`."""
    first = reason.partition(" ")[0]
    return int(first) if first.isdecimal() else 0
