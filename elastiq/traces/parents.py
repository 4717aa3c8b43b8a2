"""Which jobs a job of a trace really waits for: those that are in the trace by then, and never itself in a ring.

Rows come by their submission, so a ring can only be among rows of one moment: of others, the earliest waits for
nothing that is there yet.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from elastiq.traces.job import Lines
from elastiq.traces.rows import Row

ITSELF = "waits for itself"
RING = "waits for a job that waits for it"
NOT_THERE = "waits for a job that is not in the trace, or that comes later"


class Names:
    """The names that were, in 2 MB however many they are (a Bloom filter): beside a million of them, one other in
    seventy is taken for one."""

    BITS = 1 << 24

    def __init__(self) -> None:
        self._bits = bytearray(self.BITS >> 3)

    def add(self, name: str) -> None:
        for place in self._places(name):
            self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, name: str) -> bool:
        return all(self._bits[place >> 3] & (1 << (place & 7)) for place in self._places(name))

    def _places(self, name: str) -> tuple[int, int]:
        found = hash(name)
        return found & (self.BITS - 1), (found >> 32) & (self.BITS - 1)


def resolved(rows: Iterable[Row], tally: Lines) -> Iterator[Row]:
    """The same rows, without what lets a job wait for itself; what is odd is noted, once for a row."""
    names, moment = Names(), 0.0
    together: list[Row] = []  # of one moment, from the first on that waits for others
    for row in rows:
        if together and row.submit_s != moment:
            yield from _settled(together, names, tally)
            together = []
        if row.name:
            names.add(row.name)
        if row.after or together:
            together.append(row)
            moment = row.submit_s
        else:
            yield row
    yield from _settled(together, names, tally)


def _settled(rows: Sequence[Row], names: Names, tally: Lines) -> list[Row]:
    cut = _cuts(rows)
    made = []
    for row in rows:
        without = cut.get(row.name, set()) if row.name else set()
        after = tuple(name for name in row.after if name != row.name and name not in without)
        if row.name in row.after:
            tally.note(ITSELF)
        if not without.isdisjoint(row.after):
            tally.note(RING)
        if any(name not in names for name in after):
            tally.note(NOT_THERE)
        made.append(row if len(after) == len(row.after) else row._replace(after=after))
    return made


def _cuts(rows: Sequence[Row]) -> dict[str, set[str]]:
    """For the first job of each ring, the parent that it does not wait for. Rows of one name are parts of one job."""
    waits: dict[str, set[str]] = {}
    for row in rows:
        if row.name and row.after:
            waits.setdefault(row.name, set()).update(row.after)
    for name, parents in waits.items():
        parents &= waits.keys() - {name}
    names, at = list(waits), 0
    order = {name: number for number, name in enumerate(names)}
    children: dict[str, list[str]] = {name: [] for name in waits}
    for name, parents in waits.items():
        for parent in parents:
            children[parent].append(name)
    free = [name for name, parents in waits.items() if not parents]
    cut: dict[str, set[str]] = {}
    while True:
        while free:
            name = free.pop()
            del waits[name]
            for child in children[name]:
                if child in waits and name in waits[child]:
                    waits[child].remove(name)
                    if not waits[child]:
                        free.append(child)
        while at < len(names) and names[at] not in waits:
            at += 1
        if at == len(names):
            return cut
        first, parent = _first_of_ring(names[at], waits, order)
        cut.setdefault(first, set()).add(parent)
        waits[first].remove(parent)
        if not waits[first]:
            free.append(first)


def _first_of_ring(start: str, waits: dict[str, set[str]], order: dict[str, int]) -> tuple[str, str]:
    """Of the ring that one comes to by its parents: the job that came first, and for whom of the ring it waits."""
    path: list[str] = []
    places: dict[str, int] = {}
    name = start
    while name not in places:
        places[name] = len(path)
        path.append(name)
        name = min(waits[name], key=order.__getitem__)
    ring = path[places[name] :]
    at = min(range(len(ring)), key=lambda place: order[ring[place]])
    return ring[at], ring[(at + 1) % len(ring)]
