"""Are there never many more machines launched than what waited of late needs?

A part of the `elastiq.simulation.checker`.
"""

from __future__ import annotations

from collections import Counter
from typing import Iterable

from elastiq.interfaces import Intent
from elastiq.settings import Settings
from elastiq.simulation.book import Book
from elastiq.simulation.going import Going
from elastiq.simulation.model import Machine
from elastiq.simulation.statefile import StateFile
from elastiq.simulation.witness import Record

# A machine more than the waiting jobs need may be launched for each group (one is tried on behalf of all).
STORM_SLACK = 1


class Storms:
    """Asked of each launch before it takes effect."""

    def __init__(self, book: Book, state: StateFile, going: Going) -> None:
        self._book, self._state, self._going = book, state, going

    def stormy(self, record: Record, intent: Intent, window_s: float) -> str:
        """What is wrong with a launch, empty if it is none too many. ``window_s``: for how long before, at most, what
        it was decided upon was seen."""
        book, settings = self._book, record.settings
        shown = book.workers_known(record).states
        present = [machine for machine in book.known_machines() if self._useful(machine, shown, settings)]
        useful = [machine for machine in present if book.holds_one_that_waits(machine, window_s)]
        since = book.world.now - window_s
        busy = sum(1 for machine in useful if book.busy_since(machine, since))
        needed = book.machines_needed(settings, window_s, matching=True)
        floor = settings.min_vms + sum(pool.min_vms for pool in settings.pools)
        tried = book.machines_needed(settings, window_s, matching=False)
        slack = STORM_SLACK * (1 + len(book.waited_most(window_s))) + sum(p.terms.min_idle_vms for p in settings.pools)
        # A pool may lack machines for its own minimum though others have more than theirs.
        here = Counter(book.pool_of(machine) for machine in present)
        below = max(floor - len(present), sum(max(0, pool.min_vms - here[pool.name]) for pool in settings.pools))
        lacking = max(0, below) + max(0, busy + needed - len(useful))
        if intent.count > lacking + tried + slack:  # others come in their place
            lacking += sum(1 for machine in present if self._going.why(machine, settings))
        if intent.count > lacking + tried + slack:  # those that are being drained serve nobody
            lacking += sum(1 for machine in useful if self._state.last_move(machine.id) == "draining")
        if intent.count > lacking + tried + slack:  # those that the cloud takes are replaced, if they ran jobs
            taken = [machine for machine in book.known_machines() if machine.notice and machine not in present]
            lacking += sum(1 for machine in taken if book.busy_since(machine, since))
        if intent.count <= lacking + tried + slack:
            return ""
        return (
            f"launch storm: {intent.count} more with {len(present)} there, {len(useful)} of use ({busy} busy);"
            f" of late the waiting jobs needed {needed}, those that nobody matches {tried}, the minima {floor}"
        )

    def _useful(self, machine: Machine, shown: Iterable[str], settings: Settings) -> bool:
        worker = machine.worker
        if worker is not None:
            return worker.takes_jobs and machine.id in shown
        age_s = self._book.world.now - self._book.born[machine.id]
        young = age_s < settings.estimated_vm_deploy_time_s and machine.id not in self._book.shown
        return young and machine.state.value in ("pending", "running") and machine.id not in self._book.called_broken
