"""What is true of the simulated world, and what a daemon could know of it: the checker's own books.

Nothing here asks the daemon, or shares code with it. Times are monotonic seconds.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Iterable, Mapping, Optional

from elastiq.interfaces import Intent, Resources, WorkerState, request_fits
from elastiq.settings import Settings
from elastiq.simulation.model import Job, Machine, SimWorker
from elastiq.simulation.orders import Orders
from elastiq.simulation.witness import Record
from elastiq.simulation.world import World

# Drained by somebody else counts as OTHER here: a machine that is there, and not ours to end.
IN_SERVICE = frozenset({WorkerState.IDLE, WorkerState.BUSY, WorkerState.OTHER})
ENDED = frozenset({"shutting-down", "terminated"})
BROKEN = frozenset({"stopping", "stopped", "error"})


@dataclass(frozen=True)
class View:
    """What a read of the workers told of our machines; by then, for how long each was seen idle, and when the last
    read that showed it was begun."""

    states: Mapping[str, WorkerState]
    idle_s: Mapping[str, float]
    shown: Mapping[str, float]


class Book:
    """Kept up by the checker, at every change of the world and at every call of the daemon."""

    def __init__(self, world: World, mark: str) -> None:
        self.world, self._mark = world, mark  # what our drains carry
        self.orders = Orders()
        self.ours: dict[str, Machine] = {}  # every machine that a launch of ours made, or that was adopted
        self.born: dict[str, float] = {}
        self.made_by: dict[str, Record] = {}  # machine -> its launch
        self.intents: dict[str, Record] = {}  # of the launches that were sent, all lives
        self.store_since = -math.inf  # the present store knows nothing from before
        self.listed: set[str] = set()  # ids that some answer named to the daemon since then
        self.shown: dict[str, float] = {}  # machine -> when the last read that showed its worker was begun
        self.idle_s: dict[str, float] = {}  # machine -> for how long all reads in a row showed it idle
        self.swept: set[str] = set()  # machines whose workers vanished together with more than half of all
        self._before: Optional[Record] = None  # the read of the workers before
        self.called_broken: dict[str, float] = {}  # the cloud named it in error, stopped or impaired: heard when
        self.visible_since: dict[SimWorker, float] = {}
        self.started: dict[int, float] = {}  # job -> when its present run began
        self.busy: dict[str, float] = {}  # machine -> when it ran something last
        self.starts = 0
        self._runs: dict[int, int] = {}
        self.waiting: deque[tuple[float, Mapping[str, int]]] = deque()
        self.samples: dict[str, Job] = {}  # of each shape

    # ------------------------------------------------------------------ kept up

    def changed(self) -> None:
        """The world changed."""
        world, now = self.world, self.world.now
        counts = {}
        for shape, jobs in world.waiting_by_shape().items():
            if jobs:
                counts[shape] = len(jobs)
                if shape not in self.samples:
                    self.samples[shape] = next(iter(jobs.values()))
        if not self.waiting or self.waiting[-1][1] != counts:
            self.waiting.append((now, counts))
        for worker in world.workers.values():
            if worker.takes_jobs or worker.listed:
                self.visible_since.setdefault(worker, now)
            else:
                self.visible_since.pop(worker, None)
            if worker.jobs:
                if worker.machine is not None:
                    self.busy[worker.machine.id] = now
                for job in worker.jobs:
                    if self._runs.get(job.number) != job.run:
                        self._runs[job.number], self.started[job.number] = job.run, now
                        self.starts += 1

    def made(self, record: Record, machines: Iterable[Machine]) -> None:
        """``record``: of the launch that made them, or of their adoption. Their tags may say nothing."""
        for machine in machines:
            self.ours[machine.id] = machine
            self.born[machine.id] = self.world.now
            if record.name == "launch":
                self.made_by[machine.id] = record

    def pool_of(self, machine: Machine) -> str:
        """By its launch; by its tags if the state file that knew of the launch was lost."""
        made_by = self.made_by.get(machine.id)
        known = made_by is not None and made_by.decided_s >= self.store_since
        return str(made_by.args[0].offer.pool) if made_by is not None and known else machine.pool

    def forget_store(self) -> None:
        """The store was lost: what it knew is known no more."""
        self.store_since = self.world.now
        self.orders.forget()
        self.listed.clear()

    def read_workers(self, record: Record) -> None:
        """A read of the workers took place there: whose they are is known in this moment only."""
        machines = {}
        for name, worker in self.world.workers.items():
            if worker.machine is not None:
                machines[name] = worker.machine.id
        record.note = machines

    def hear_workers(self, record: Record) -> None:
        if record.error is not None or record.value is None or record.note is None:
            self._before = None
            return
        states: dict[str, WorkerState] = {}
        for row in record.value.workers:
            machine = record.note.get(row.name)
            if machine in self.ours:
                others = row.drained_by is not None and self._mark not in row.drained_by
                states[machine] = WorkerState.OTHER if others else row.state
                self.shown[machine] = record.decided_s
        self._count_idle(record, states)
        record.note = View(states, dict(self.idle_s), dict(self.shown))

    def _count_idle(self, record: Record, states: Mapping[str, WorkerState]) -> None:
        """Time counts as idle only between two whole looks, one after the other, that both saw it so."""
        before, self._before = self._before, record
        there: Mapping[str, WorkerState] = before.note.states if before is not None else {}
        gap_s = record.decided_s - before.decided_s if before is not None else 0.0
        looked = before is not None and before.life == record.life and before.good and record.good
        for name, state in states.items():
            if state in (WorkerState.BUSY, WorkerState.OTHER):
                self.idle_s[name] = 0.0
            elif looked and state is there.get(name) is WorkerState.IDLE:
                self.idle_s[name] = self.idle_s.get(name, 0.0) + gap_s
        if record.good:
            self._sweep(states, there)

    def _sweep(self, states: Mapping[str, WorkerState], before: Mapping[str, WorkerState]) -> None:
        """More than half of the machines that reported are away: it is the view that is doubted."""
        away = {name for name in (*before, *self.swept) if name not in states and not self.ours[name].ended}
        self.swept = away if 2 * len(away) > len(away) + len(states) else set()

    def hear_instances(self, record: Record) -> None:
        if record.error is not None or record.value is None:
            return
        rows = record.value.owned if record.name == "instances" else record.value
        for row in rows:
            self.listed.add(row.id)
            if row.state.value in BROKEN:
                self.called_broken[row.id] = self.world.now

    # ------------------------------------------------------------------ asked

    def known_machines(self) -> list[Machine]:
        """Ours, not ended, that a daemon with this store can know of: more than one asked for, or one from
        before the store was lost, only once an answer named it."""
        found: list[Machine] = []
        per_intent: dict[str, int] = {}
        for machine in self.ours.values():
            if machine.ended or machine.id not in self.world.machines:
                continue
            sent = self.made_by.get(machine.id)
            if machine.id not in self.listed:
                if sent is None or sent.decided_s < self.store_since:
                    continue
                intent: Intent = sent.args[0]
                per_intent[intent.id] = per_intent.get(intent.id, 0) + 1
                if per_intent[intent.id] > intent.count:
                    continue
            found.append(machine)
        return found

    def busy_since(self, machine: Machine, since: float) -> bool:
        """Whether it runs something now, or did since then."""
        runs = machine.worker is not None and bool(machine.worker.jobs)
        return runs or self.busy.get(machine.id, -math.inf) >= since

    def workers_known(self, record: Record, sending: bool = False) -> View:
        """The last read of the workers that the daemon had heard of when it decided, or sent an act that may have
        waited for its turn."""
        read = ((sending and record.sending) or record.known).get("workers")
        return read.note if read is not None and isinstance(read.note, View) else View({}, {}, {})

    def holds_one_that_waits(self, machine: Machine, window_s: float) -> bool:
        """Whether the machine, empty, holds a job of any shape that waited of late."""
        size = self.world.flavours.get(machine.flavour)
        samples = [self.samples[shape] for shape in self.waited_most(window_s)]
        return size is not None and any(job.matches and request_fits(job.request, size)[0] for job in samples)

    def waited_most(self, window_s: float) -> Mapping[str, int]:
        """The most jobs of each shape that waited at once within the last so many seconds."""
        begin = self.world.now - window_s
        while len(self.waiting) > 1 and self.waiting[1][0] <= begin:
            self.waiting.popleft()
        most: dict[str, int] = {}
        for _, counts in self.waiting:
            for shape, count in counts.items():
                most[shape] = max(most.get(shape, 0), count)
        return most

    def machines_needed(self, settings: Settings, window_s: float, matching: bool) -> int:
        """How many empty machines the jobs that waited of late need at most, the worst offer taken: those that
        some worker runs, or those that none does, of which only a trial can tell."""
        needed = 0
        for shape, count in self.waited_most(window_s).items():
            sample = self.samples[shape]
            runs = sample.matches and self.held_by_one(sample.request, settings) > 0
            each = self.held_by_one(sample.request, settings, as_known=True)
            if runs is matching and each and not sample.not_eligible:
                needed += -(-count // each)
        return needed

    def held_by_one(self, request: Resources, settings: Settings, as_known: bool = False) -> int:
        """How many such jobs the smallest machine that fits holds; 0 if none does. ``as_known``: of a machine whose
        size is not configured a daemon knows no better than ``n_jobs_per_vm``."""
        sizes = []
        for pool in settings.pools if settings.max_vms != 0 else ():
            if as_known and pool.capacity == Resources():
                sizes.append(max(1, settings.n_jobs_per_vm))
            for flavour in pool.flavours:
                machine = self.world.flavours.get(flavour)
                if machine is not None and pool.max_vms != 0 and request_fits(request, machine)[0]:
                    sizes.append(_times(request, machine, settings.n_jobs_per_vm))
        return min(sizes, default=0)

    def satisfiable(self, job: Job, settings: Settings) -> bool:
        return self.held_by_one(job.request, settings) > 0


def _times(request: Resources, machine: Resources, otherwise: int) -> int:
    found: Optional[float] = None
    pairs = zip(vars(request).values(), vars(machine).values())
    for asked, has in pairs:
        if asked and has is not None:
            found = has // asked if found is None else min(found, has // asked)
    return max(1, int(found)) if found is not None else max(1, otherwise)
