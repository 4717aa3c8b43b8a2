"""Are machines stopped and started as they should be?

A part of the `elastiq.simulation.checker`: none is stopped with jobs on it, none is launched while one like it could
be started, and what is stopped is not ended without a cause.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from elastiq.interfaces import EndOutcome, InstanceState, Intent, WorkerState
from elastiq.simulation.model import Machine
from elastiq.simulation.witness import Record

if TYPE_CHECKING:
    from elastiq.simulation.checker import Checker

HELD_BACK_S = 700.0  # after a start that failed, at most


class Resting:
    """Told by the checker of the calls."""

    def __init__(self, checker: Checker) -> None:
        self._checker, self._book = checker, checker.book
        self._asked: dict[str, float] = {}  # machine -> when its first stop, since it last ran, was decided
        self._worker: dict[str, str] = {}  # machine -> its worker, when it was stopped
        self._heard: dict[str, float] = {}  # machine -> since when the listings say that it is stopped
        self._forgotten: dict[str, Record] = {}  # worker -> when the batch system was last told to forget it
        self._refused: dict[tuple[str, str], float] = {}  # pool and flavour -> when a start last failed
        self._failed: Counter[str] = Counter()  # machine -> its starts that failed

    def lost(self) -> None:
        """The state file that knew of all this was lost."""
        self.__init__(self._checker)  # type: ignore[misc]

    # ------------------------------------------------------------------ calls

    def called(self, record: Record) -> None:
        if record.name == "forget":
            self._forgotten[record.args[0]] = record

    def heard_of(self, record: Record) -> None:
        now = self._book.world.now
        if record.name == "instances" and record.error is None and record.value is not None:
            for row in record.value.owned:
                if row.state is InstanceState.STOPPED:
                    self._heard.setdefault(row.id, now)
                else:
                    self._heard.pop(row.id, None)
        elif record.name == "start":
            answers = record.value or {}
            for name in record.args[0]:
                if name not in answers or answers[name].outcome is not EndOutcome.ENDING:
                    self._failed[name] += 1
                    machine = self._book.world.machines.get(name)
                    if machine is not None:
                        self._refused[self._book.pool_of(machine), machine.flavour] = now

    def before_stop(self, record: Record) -> None:
        checker = self._checker
        checker.book.changed()
        for machine in self._ours("stop", record):
            if machine.state is not InstanceState.RUNNING:
                continue
            worker = machine.worker
            if worker is not None:
                self._worker[machine.id] = worker.name
                if worker.jobs and not checker.could_not_know(machine, record):
                    checker.fail("I2", f"stop of {machine.id} with {len(worker.jobs)} jobs")
            if machine.id not in self._asked:
                self._asked[machine.id] = record.decided_s
                checker.reason("stopped", machine.id, record)
                if not checker.state.decided_before("stopped", machine.id):
                    site = checker.site_of(machine, record)
                    checker.reads_known(record, f"stop of {machine.id}", ("jobs", "workers"), site)
                state = self._book.workers_known(record, sending=True).states.get(machine.id)
                shown = state is WorkerState.DRAINED or (state is WorkerState.IDLE and not checker.can_drain)
                # What was asked for in vain for long may have lost its worker meanwhile, or still be drained.
                harmless = worker is None or worker.drained_by is not None
                if not (shown or harmless or checker.state.decided_before("stopped", machine.id)):
                    said = state.value if state is not None else "not at all"
                    checker.fail("I6", f"stop of {machine.id}, whose worker the last look showed {said}")
            elif worker is not None and worker.takes_jobs and not checker.could_not_know(machine, record):
                checker.fail("I6", f"stop of {machine.id} again, though its worker came back and takes jobs")

    def before_start(self, record: Record) -> None:
        checker, book = self._checker, self._book
        machines = list(self._ours("start", record))
        checker.stops.starts.append(record)
        for machine in machines:
            if record.decided_s >= book.store_since and checker.state.last_move(machine.id) == "stopped":
                checker.fail("I5", f"start of {machine.id} takes effect, and no state file knows of it")
            checker.reason("pending", machine.id, record)
            pool, known = book.pool_of(machine), [one for one in book.known_machines() if one not in machines]
            if record.settings.pool(pool) is None:
                checker.fail("I1", f"start of {machine.id} in pool {pool}, which is not configured")
            elif passed := checker.stops.passed(record, pool, machine.flavour, len(machines), known):
                checker.fail("I1", f"start of {machine.id}: {passed}")
            if machine.state is InstanceState.STOPPED:  # it is as new
                self._asked.pop(machine.id, None)
                book.born[machine.id] = book.world.now
                for memory in (book.shown, book.called_broken, book.idle_s):
                    memory.pop(machine.id, None)
        checker.reads_known(record, f"launch by a start of {record.args[0][0]}", ("jobs", "workers"), record.source)

    def _ours(self, act: str, record: Record) -> list[Machine]:
        found = []
        for name in record.args[0]:
            machine = self._book.world.machines.get(name)
            if machine is not None and name not in self._book.ours:
                self._checker.fail("I3", f"{act} of {name}, which is not ours")
            elif machine is not None:
                found.append(machine)
        return found

    # ------------------------------------------------------------------ instead of a launch, and of an end

    def passed_over(self, record: Record, intent: Intent) -> str:
        """Which stopped machine could have been started instead of such a launch; empty if none."""
        for machine in self._book.known_machines():
            kind = (self._book.pool_of(machine), machine.flavour)
            if kind == (intent.offer.pool, intent.offer.flavour) and self._could_be_started(machine, record):
                return f"launch of {intent.offer}, though {machine.id} is stopped and could be started"
        return ""

    def _could_be_started(self, machine: Machine, record: Record) -> bool:
        settings, book, kind = record.settings, self._book, (self._book.pool_of(machine), machine.flavour)
        pool, heard_s = settings.pool(kind[0]), self._heard.get(machine.id, math.inf)
        if machine.state is not InstanceState.STOPPED or pool is None or pool.terms.idle_action != "stop":
            return False
        forgotten = self._forgotten.get(self._worker.get(machine.id, ""))
        if heard_s >= record.decided_s or forgotten is None or forgotten.life != record.life:
            return False
        if forgotten.decided_s >= record.decided_s or forgotten.decided_s < heard_s:
            return False
        if machine.id in book.workers_known(record).states or self._failed[machine.id]:
            return False
        held_back = record.decided_s - self._refused.get(kind, -math.inf) < HELD_BACK_S
        if held_back or self._checker.going.why(machine, settings):
            return False
        return self._checker.state.last_move(machine.id) == "stopped"

    def no_cause(self, machine: Machine, record: Record) -> str:
        """Empty if a machine that is stopped may be ended: it is of no use any more, or in the way of another."""
        settings, book, name = record.settings, self._book, self._book.pool_of(machine)
        pool = settings.pool(name)
        if machine.state is not InstanceState.STOPPED or pool is None or pool.terms.idle_action != "stop":
            return ""
        if "stopped" not in self._checker.state.last_moves(machine.id):
            return ""  # it was found so
        if machine.id not in self._asked or self._failed[machine.id] or self._checker.going.why(machine, settings):
            return ""
        known = book.known_machines()
        here = sum(1 for one in known if book.pool_of(one) == name)
        asked = max(0, self._checker.state.machines() - len(known))  # in the same plan, and not made yet
        full = settings.max_vms is not None and len(known) + asked >= settings.max_vms
        full = full or (pool.max_vms is not None and here + asked >= pool.max_vms) or settings.quota_counts == "all"
        lacks = bool(book.waited_most(1200.0)) or settings.min_vms or any(one.min_vms for one in settings.pools)
        return "" if full and lacks else "it is stopped, and could be started again"
