"""How many machines and jobs there were over time, in a fixed number of rows: the newer, the finer.

Pure. A row is packed, so that two months of them take half a megabyte. What was not known at a time is NaN there,
which is not 0; a time in which nobody looked has no row.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from itertools import takewhile
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

# What a row holds behind its wall time: jobs, then machines by what they are, then their price an hour.
FIELDS = ("waiting", "running", "booting", "idle", "busy", "draining", "other", "cost")
MACHINES = ("booting", "idle", "busy", "draining")  # those that are paid for
_ROW = struct.Struct("<d8f")
GAP = 2.2  # so many steps without a row are a gap


class Tier(NamedTuple):
    """A row every ``step_s`` seconds, for the last ``rows`` steps."""

    step_s: float
    rows: int

    @property
    def span_s(self) -> float:
        return self.step_s * self.rows


# A day, a week, two months.
TIERS = (Tier(30.0, 2880), Tier(300.0, 2016), Tier(3600.0, 1440))

Rows = tuple[tuple[bytes, ...], ...]


class Kept(NamedTuple):
    """A row as the store has it: a tier has no two of one ``slot``, so that a new one replaces the oldest."""

    tier: int
    slot: int
    row: bytes


class Trend:
    """The rows of all tiers, finest first. ``rows`` is replaced whole, never changed: any thread may read it."""

    def __init__(self, tiers: Sequence[Tier] = TIERS, kept: Iterable[tuple[int, bytes]] = ()) -> None:
        """``kept``: the tier and the row of what an earlier run has seen, in any order. What has not the form of a
        row, or is too old for its tier, is left out."""
        self.tiers = tuple(tiers)
        found: list[list[bytes]] = [[] for _ in tiers]
        for tier, row in kept:
            if tier in range(len(tiers)) and len(row) == _ROW.size:
                found[tier].append(row)
        self._rows = [deque(sorted(rows, key=at), tier.rows) for rows, tier in zip(found, tiers)]
        self._publish()

    def add(self, wall: float, values: Sequence[float]) -> list[Kept]:
        """Take a row; returns all that are new, for the store. After a step back of the clock, what lies ahead goes."""
        before = at(self._rows[0][-1]) if self._rows[0] else -math.inf
        for rows in self._rows:
            while rows and at(rows[-1]) > wall:
                rows.pop()
        new = [self._keep(0, _ROW.pack(wall, *values), at_end=True)]
        for number, tier in enumerate(self.tiers[1:], 1):
            begin = before // tier.step_s * tier.step_s if before > -math.inf else math.inf
            if begin + tier.step_s <= wall:  # the step in which the last row fell is over
                if finer := _between(self._rows[number - 1], begin, begin + tier.step_s):
                    new.append(self._keep(number, _ROW.pack(begin, *mean(map(unpack, finer)))))
        for rows, tier in zip(self._rows, self.tiers):
            while at(rows[0] if rows else new[0].row) < wall - tier.span_s:
                rows.popleft()
        self._publish()
        return new

    def _keep(self, number: int, row: bytes, at_end: bool = False) -> Kept:
        rows, tier = self._rows[number], self.tiers[number]
        if not at_end and rows and at(rows[-1]) >= at(row):
            rows.pop()  # told once more, after a step of the clock
        rows.append(row)
        return Kept(number, int(at(row) // tier.step_s) % tier.rows, row)

    def _publish(self) -> None:
        self.rows: Rows = tuple(tuple(rows) for rows in self._rows)


def _between(rows: deque[bytes], begin: float, end: float) -> list[bytes]:
    """Those of a step that is over: they are among the newest."""
    newest = takewhile(lambda row: at(row) >= begin, reversed(rows))
    return [row for row in newest if at(row) < end]


def at(row: bytes) -> float:
    """The wall time of a row."""
    return float(struct.unpack_from("<d", row)[0])


def unpack(row: bytes) -> tuple[float, ...]:
    """The values of a row, in the order of FIELDS."""
    return _ROW.unpack(row)[1:]


def mean(rows: Iterable[tuple[float, ...]]) -> list[float]:
    """The mean of each field over those rows that know it, NaN where none does."""
    columns = [[value for value in column if not math.isnan(value)] for column in zip(*rows)]
    return [math.fsum(column) / len(column) if column else math.nan for column in columns]


def series(rows: Rows, tiers: Sequence[Tier], since: float, until: float, points: int) -> dict[str, Any]:
    """What is known of a time, for a chart of about so many points.

    ``at`` and each of FIELDS are lists of one length, unknown values None; ``width_s`` is how far points are apart
    at least: what is more than GAP times that is a time of which nothing is known.
    """
    number = next((n for n, tier in enumerate(tiers) if tier.span_s >= until - since), len(tiers) - 1)
    width_s = max(tiers[number].step_s, (until - since) / points)
    found: dict[str, Any] = {"width_s": width_s, "at": [], **{name: [] for name in FIELDS}}
    for group in _grouped(_merged(rows, tiers, number, since), width_s):
        found["at"].append(round(math.fsum(at(row) for row in group) / len(group), 1))
        for name, value in zip(FIELDS, mean(map(unpack, group))):
            found[name].append(None if math.isnan(value) else round(value, 4 if name == "cost" else 2))
    return found


def _merged(rows: Rows, tiers: Sequence[Tier], number: int, since: float) -> Iterator[bytes]:
    """The rows of a tier, and from the finer ones what is too new for it."""
    for one in range(number, -1, -1):
        for row in rows[one]:
            if at(row) >= since:
                yield row
                since = at(row)
        if rows[one] and one:
            since = max(since, at(rows[one][-1]) + tiers[one].step_s)


def _grouped(rows: Iterable[bytes], width_s: float) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    for row in rows:
        if group and at(row) // width_s != at(group[0]) // width_s:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def totals(rows: Rows, tiers: Sequence[Tier], since: float) -> dict[str, Any]:
    """Machine hours, busy ones of these, and what they cost (None where nothing has a price), in the finest tier."""
    fine = [row for row in rows[0] if at(row) >= since]
    hours = busy = cost = 0.0
    priced = False
    for row, following in zip(fine, fine[1:]):
        lasted_h = (at(following) - at(row)) / 3600.0
        if lasted_h * 3600.0 > GAP * tiers[0].step_s:
            continue
        values = dict(zip(FIELDS, unpack(row)))
        hours += lasted_h * sum(values[name] for name in MACHINES)
        busy += lasted_h * values["busy"]
        if not math.isnan(values["cost"]):
            cost, priced = cost + lasted_h * values["cost"], True
    since = at(fine[0]) if fine else since
    return {"since": since, "machine_hours": hours, "busy_hours": busy, "cost": cost if priced else None}
