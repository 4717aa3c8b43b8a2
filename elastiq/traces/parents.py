"""Which jobs a job of a trace really waits for: those that are in the trace by then, and never itself in a ring.

Rows come by their submission, so a ring can only be among rows of one moment: of others, the earliest waits for
nothing that is there yet.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence
from zlib import crc32

from elastiq.traces.job import Lines
from elastiq.traces.rows import Row

ITSELF = "waits for itself"
RING = "waits for a job that waits for it"
_SPREAD = 0x9E3779B1  # of a second place: Knuth, TAOCP 6.4
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
        # The same in every run, as Python's own hash of a text is not.
        found = crc32(name.encode("utf-8", "surrogatepass"))
        return found & (self.BITS - 1), (found * _SPREAD >> 16) & (self.BITS - 1)


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
            tally.note(ITSELF, row.line)
        if not without.isdisjoint(row.after):
            tally.note(RING, row.line)
        if any(name not in names for name in after):
            tally.note(NOT_THERE, row.line)
        made.append(row if len(after) == len(row.after) else row._replace(after=after))
    return made


def _cuts(rows: Sequence[Row]) -> dict[str, set[str]]:
    """For the first job of each ring, the parents that it does not wait for. Rows of one name are parts of one job.

    Jobs that wait for none of the others go away (Kahn's algorithm); when none is left that could, there is a ring. The
    work is that of looking at each parent once and walking each ring once."""
    asked: dict[str, set[str]] = {}
    for row in rows:
        if row.name and row.after:
            asked.setdefault(row.name, set()).update(row.after)
    order = {name: number for number, name in enumerate(asked)}
    waits: dict[str, list[str]] = {}  # the first to come is last
    children: dict[str, list[str]] = {name: [] for name in asked}
    for name, parents in asked.items():
        within = [parent for parent in parents if parent in asked and parent != name]
        waits[name] = sorted(within, key=order.__getitem__, reverse=True)
        for parent in within:
            children[parent].append(name)
    left = {name: len(parents) for name, parents in waits.items()}  # of whom it waits for; those alone are in `waits`
    free = [name for name, number in left.items() if not number]
    names, at = list(asked), 0
    cut: dict[str, set[str]] = {}
    path: dict[str, None] = {}
    while True:
        while free:
            name = free.pop()
            del waits[name]
            for child in children[name]:
                if name not in cut.get(child, ()):
                    left[child] -= 1
                    if not left[child]:
                        free.append(child)
        while path and next(reversed(path)) not in waits:  # who waits for one that waits does so still
            path.popitem()
        if not path:
            while at < len(names) and names[at] not in waits:
                at += 1
            if at == len(names):
                return cut
            path[names[at]] = None
        first = _first_of_ring(path, waits, order)
        cut.setdefault(first, set()).add(waits[first].pop())
        left[first] -= 1
        if not left[first]:
            free.append(first)


def _first_of_ring(path: dict[str, None], waits: dict[str, list[str]], order: dict[str, int]) -> str:
    """Of the ring that one comes to by the parents of the last of ``path``: the job that came first; whom it waits for
    there is the last in its list. In ``path`` is left who leads there: the way is not gone again for the next ring."""
    name = next(reversed(path))
    while True:
        parents = waits[name]
        while parents[-1] not in waits:
            parents.pop()
        name = parents[-1]
        if name in path:
            break
        path[name] = None
    ring = [path.popitem()[0]]
    while ring[-1] != name:
        ring.append(path.popitem()[0])
    return min(ring, key=order.__getitem__)
