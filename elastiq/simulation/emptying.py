"""Are only lightly used machines emptied, and only where the others have room for what runs there?

A part of the `elastiq.simulation.checker`. By the last reads that the daemon had heard of when it decided; that no job
is evicted is what the checker's I2 says.
"""

from __future__ import annotations

from typing import Iterator

from elastiq.interfaces import Worker, WorkerState
from elastiq.simulation.book import Book
from elastiq.simulation.model import Machine
from elastiq.simulation.statefile import StateFile
from elastiq.simulation.witness import Record

SIZES = ("cpus", "memory_mb")
LIGHT = 0.5
_EPSILON = 1e-6


class Emptying:
    """Told of each peaceful drain before it takes effect."""

    def __init__(self, book: Book, state: StateFile) -> None:
        self._book, self._state = book, state
        self._begun: dict[str, Record] = {}  # worker -> its last such drain

    def is_for_room(self, machine: str) -> bool:
        """Whether that is the reason that the history gives for its drain."""
        return self._state.reason("draining", machine).startswith("lightly used")

    def wrong(self, machine: Machine, record: Record) -> Iterator[str]:
        """What speaks against emptying a machine."""
        name, settings = record.args[0], record.settings
        earlier, self._begun[name] = dict(self._begun), record
        if not settings.consolidate:
            yield f"{machine.id} is emptied, and consolidate = no"
        for group in record.known["jobs"].value.groups if "jobs" in record.known else ():
            sample = self._book.samples.get(group.key)
            if group.waiting and not group.not_eligible and sample and sample.matches:
                if self._book.satisfiable(sample, settings):
                    yield f"{machine.id} is emptied while {group.waiting} jobs {group.key} wait"
        read = record.known.get("workers")
        rows = {row.name: row for row in read.value.workers} if read is not None and read.error is None else {}
        if name not in rows:
            yield f"{machine.id} is emptied, and the last read did not show its worker"
            return
        with_it = {other for other, drain in earlier.items() if drain.decided_s == record.decided_s and other in rows}
        going = {*with_it, name}
        stay = [row for row in rows.values() if row.state is WorkerState.BUSY and row.name not in going]
        stay += [row for row in rows.values() if row.name in settings.static_workers and row.state is WorkerState.IDLE]
        for size in SIZES:
            share = _taken(rows[name], size) / (getattr(rows[name].total, size) or 1.0)
            if share > LIGHT + _EPSILON:
                yield f"{machine.id} is emptied, and {share:.0%} of its {size} is taken"
            free = sum(getattr(row.free, size) or 0.0 for row in stay)
            wanted = sum(_taken(rows[one], size) for one in going)
            if wanted > free + _EPSILON:
                yield f"{machine.id} is emptied, and of {size} the others have {free:g} free: {wanted:g} is taken there"


def _taken(row: Worker, size: str) -> float:
    total, free = getattr(row.total, size), getattr(row.free, size)
    return 0.0 if total is None or free is None else float(total - free)
