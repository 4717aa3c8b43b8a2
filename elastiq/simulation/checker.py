"""The judge of a simulated life: are the invariants I1 to I12 of the design kept?

It shares no code with the daemon. It sees the truth of the world, the calls at the contracts' edge, and
what anybody can see of a daemon: its status, its log and its state file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterable, Optional

from elastiq.interfaces import DrainMode, DrainOutcome, Intent, Owner, WorkerState
from elastiq.settings import Settings
from elastiq.simulation.book import ENDED, IN_SERVICE, Book
from elastiq.simulation.canaries import Canaries
from elastiq.simulation.emptying import Emptying
from elastiq.simulation.going import Going, idle_for_s
from elastiq.simulation.hard_stops import HardStops
from elastiq.simulation.model import Machine, SimWorker
from elastiq.simulation.resting import Resting
from elastiq.simulation.statefile import StateFile
from elastiq.simulation.storms import Storms
from elastiq.simulation.witness import Listener, Record
from elastiq.simulation.world import World

# What cannot be kept, because no daemon could know or do better. Everything else is a violation.
EXEMPTIONS = (
    "I1: a machine that no answer has named yet does not count if the cloud made more than was asked for (a token"
    " ignored), or if the state file that knew of its launch was lost: nobody could know of it.",
    "I2: a job that started after the last look at its worker, where that worker was first listed after that look, or"
    " where the batch system cannot drain, or where a drain that was seen in effect was lost by the batch system"
    " itself: between the last look and the end nothing can be known.",
    "I10: a source of which eight reads have hung is asked no more until one of them returns: each may hold a thread"
    " for good.",
    "I5: a launch that was decided before the state file was lost or torn is in no journal any more.",
    "I12: what was decided while the state file could not be written, or before it was lost, is not in its history.",
)

SLACK_S = 5.0
DEADLINE_S = {"jobs": 65.0, "workers": 65.0, "instances": 125.0}  # of a call, with its margin
STALE_PERIODS = 3


@dataclass(frozen=True)
class Violation:
    """``at_s`` is since the start."""

    invariant: str
    at_s: float
    what: str

    def __str__(self) -> str:
        hours, rest = divmod(self.at_s, 3600.0)
        return f"{self.invariant} at {hours:.0f}:{rest // 60:02.0f}:{rest % 60:04.1f}: {self.what}"


class Checker(Listener):
    """Judges each call as it takes effect, by the book."""

    def __init__(
        self,
        world: World,
        owner: Owner,
        state: StateFile,
        settings: Callable[[], Settings],
        tell: Callable[[str], None],
        can_drain: bool = True,
    ) -> None:
        self.world, self.owner, self.state, self.settings, self.can_drain = world, owner, state, settings, can_drain
        self.upkeep: Listener = Listener()
        self.life: Callable[[], int] = lambda: 0  # of the present daemon
        self.book = Book(world, owner.mark)
        self.stops, self.canaries = HardStops(self.book, state, settings), Canaries(self.book, state, settings)
        self.emptying = Emptying(self.book, state)
        self.going = Going(self.book)
        self.storms, self.resting = Storms(self.book, state, self.going), Resting(self)
        self.violations: list[Violation] = []
        self._tell = tell
        self._asked_to_end: dict[str, float] = {}  # by machine: when this store's first such call was decided
        self._decided_to_end: dict[str, float] = {}  # the same, though no call took effect
        self._why_not_then: dict[str, str] = {}  # by machine: what spoke against its end then
        self.condemned: set[str] = set()  # machines that were drained as black holes
        self._drains: dict[str, Record] = {}  # by machine: the last one

    def fail(self, invariant: str, what: str) -> None:
        violation = Violation(invariant, self.world.clock.elapsed_s, what)
        self.violations.append(violation)
        self._tell(f"VIOLATION {violation}")

    def changed(self) -> None:
        """The world changed."""
        self.book.changed()
        self.stops.changed()

    def store_lost(self) -> None:
        self.book.forget_store()
        self.stops.lost()
        self.canaries.lost()
        self.resting.lost()
        self._asked_to_end.clear()
        self._decided_to_end.clear()
        self._why_not_then.clear()

    # ------------------------------------------------------------------ calls

    def called(self, record: Record) -> None:
        self.upkeep.called(record)
        self.resting.called(record)
        for name in record.args[0] if record.name == "terminate" else ():
            machine = self.world.machines.get(name)
            if name not in self._decided_to_end and machine is not None and name in self.book.ours:
                self._decided_to_end[name] = record.decided_s
                self._why_not_then[name] = self._no_cause(machine, record) or self.resting.no_cause(machine, record)

    def before(self, record: Record) -> None:
        check = getattr(self, f"_before_{record.name}", None)
        if check is not None:
            check(record)

    def after(self, record: Record) -> None:
        if record.name == "launch":
            new = [m for m in self.world.machines.values() if m.id not in record.note]
            self.book.made(record, new)
            self.going.made(new)
            self._tell(f"launch {record.args[0].id}: made {[m.id for m in new]}")
        elif record.name == "workers":
            self.book.read_workers(record)
        elif record.name == "drain":
            self._tell(f"drain {record.args[0]}: {record.truth.outcome.value}")
        elif record.name in ("terminate", "stop", "start", "adopt", "undrain"):
            self._tell(f"{record.name} {record.args[0]}")

    def _before_stop(self, record: Record) -> None:
        self.resting.before_stop(record)

    def _before_start(self, record: Record) -> None:
        self.resting.before_start(record)

    def failed(self, record: Record) -> None:
        self._tell(f"{record.name} {_short(record.args)}: failed there")

    def heard(self, record: Record) -> None:
        self.upkeep.heard(record)
        self.resting.heard_of(record)
        if record.name == "workers":
            self.book.hear_workers(record)
        elif record.name in ("instances", "launch", "find"):
            self.book.hear_instances(record)
        elif record.name == "jobs_on" and record.error is None and record.effect_s is not None:
            self.book.orders.named_s[record.args[0]] = record.effect_s
        elif record.name == "problems" and record.value:
            self.book.called_broken.update(dict.fromkeys(record.value, self.world.now))
        if record.error is not None:
            self._tell(f"heard of {record.name or 'a call'} {record.source}: {record.error}")

    # ------------------------------------------------------------------ launches

    def _before_launch(self, record: Record) -> None:
        intent: Intent = record.args[0]
        settings = record.settings
        record.note = frozenset(self.world.machines)
        if intent.id in self.book.intents or (record.life == self.life() and intent.id in self.state.intents_before):
            self.fail("I5", f"launch {intent.id} was sent again")
        self.book.intents.setdefault(intent.id, record)
        if record.decided_s >= self.book.store_since and not self.state.has_intent(intent.id):
            self.fail("I5", f"launch {intent.id} takes effect, and no journal knows of it")
        self.reason("launch", intent.id, record)
        self._cap(record, intent, settings)
        self.reads_known(record, f"launch {intent.id}", ("jobs", "workers"), record.source)
        delay_s = self.world.now - record.decided_s
        window_s = STALE_PERIODS * settings.check_queue_every_s + DEADLINE_S["jobs"] + SLACK_S + delay_s
        if storm := self.storms.stormy(record, intent, window_s):
            self.fail("I6", storm)
        if passed_over := self.resting.passed_over(record, intent):
            self.fail("I6", passed_over)
        if hasty := self.canaries.hasty(record, intent):
            self.fail("I6", hasty)

    def _cap(self, record: Record, intent: Intent, settings: Settings) -> None:
        known = self.book.known_machines()
        foreign = 0
        if settings.quota_counts == "all":
            views = [r.value for key, r in record.known.items() if key.startswith("instances") and r.error is None]
            foreign = sum(view.foreign + len(view.other_heads) for view in views)
        there = len(known) + foreign
        if settings.max_vms is not None and there + intent.count > settings.max_vms:
            self.fail("I1", f"launch of {intent.count} with {there} there: max_vms {settings.max_vms}")
        offer = intent.offer
        if passed := self.stops.passed(record, offer.pool, offer.flavour, intent.count, known):
            self.fail("I1", passed)
        pool = settings.pool(intent.offer.pool)
        if pool is None:
            self.fail("I1", f"launch in pool {intent.offer.pool}, which is not configured")
        elif pool.max_vms is not None:
            here = sum(1 for machine in known if self.book.pool_of(machine) == pool.name)
            if here + intent.count > pool.max_vms:
                self.fail("I1", f"launch of {intent.count} with {here} there: max_vms {pool.max_vms} of {pool.name}")

    # ------------------------------------------------------------------ drains

    def _before_drain(self, record: Record) -> None:
        worker = self.world.workers.get(record.args[0])
        machine = worker.machine if worker is not None else None
        if worker is None:
            return
        if machine is None or machine.id not in self.book.ours:
            self.fail("I3", f"drain of {worker.name}, which is not ours")
            return
        self._drains[machine.id] = record
        emptied = record.args[1] is DrainMode.PEACEFUL and self.emptying.is_for_room(machine.id)
        for wrong in self.emptying.wrong(machine, record) if emptied else ():
            self.fail("I6", wrong)
        by_hand = machine.id in self.book.orders.out
        if machine.id in self.book.orders.doomed:
            self.reason("draining", machine.id, record)
            return
        if record.args[1] is DrainMode.PEACEFUL and not (emptied or by_hand):
            self.condemned.add(machine.id)
        self.reads_known(record, f"drain of {worker.name}", ("jobs", "workers"), self.site_of(machine, record))
        self.reason("draining", machine.id, record)
        if (emptied or not worker.jobs) and not (machine.notice or by_hand):  # the cloud takes it, drained or not
            self._floor(machine, record)
        self._idle_long(machine, worker, record)

    def _before_undrain(self, record: Record) -> None:
        worker = self.world.workers.get(record.args[0])
        machine = worker.machine if worker is not None else None
        if worker is None:
            return
        if machine is None or machine.id not in self.book.ours:
            self.fail("I3", f"undrain of {worker.name}, which is not ours")
        elif worker.drained_by is not None and not self._by_us(worker):
            self.fail("I3", f"undrain of {worker.name}, which was drained by somebody else: {worker.drained_by}")

    def _by_us(self, worker: SimWorker) -> bool:
        return worker.drained_by is not None and self.owner.mark in worker.drained_by

    def _idle_long(self, machine: Machine, worker: SimWorker, record: Record) -> None:
        """Only a machine that was seen idle for long is drained, or a black hole, or one whose pool is no more."""
        settings, mode = record.settings, record.args[1]
        seen_s = self.book.workers_known(record).idle_s.get(machine.id, 0.0)
        pool = self.book.pool_of(machine)
        configured = not pool or settings.pool(pool) is not None
        early = configured and seen_s < idle_for_s(pool, settings)[0] - SLACK_S
        if mode is DrainMode.IF_IDLE and early and not self.going.why(machine, settings):
            self.fail("I6", f"drain of {worker.name}, which was seen idle for {seen_s:.0f} s only")

    def _floor(self, machine: Machine, record: Record) -> None:
        """After this drain there must be the minimum of what the daemon last saw in service."""
        read = record.known.get("workers")
        if read is None:
            return
        left = {name for name, state in self.book.workers_known(record).states.items() if state in IN_SERVICE}
        for other, drain in self._drains.items():
            done = drain.truth is None or drain.truth.outcome is DrainOutcome.DRAINED
            if drain.decided_s >= read.decided_s and done and drain.life == record.life:
                left.discard(other)
        left.discard(machine.id)
        left &= set(self.book.ours)
        settings = record.settings
        if len(left) < settings.min_vms:
            self.fail("I9", f"drain of {machine.id} leaves {len(left)} in service: min_vms {settings.min_vms}")
        pool = settings.pool(self.book.pool_of(machine))
        if pool is not None:
            here = sum(1 for name in left if self.book.pool_of(self.book.ours[name]) == pool.name)
            if here < pool.min_vms:
                self.fail("I9", f"drain of {machine.id} leaves {here} of pool {pool.name}: min_vms {pool.min_vms}")

    # ------------------------------------------------------------------ ends

    def _before_terminate(self, record: Record) -> None:
        self.book.changed()
        for name in record.args[0]:
            machine = self.world.machines.get(name)
            if name == self.owner.instance_id or (machine and machine.address in self.owner.addresses):
                self.fail("I3", f"terminate of the head node {name}")
            elif machine is not None and name not in self.book.ours:
                self.fail("I3", f"terminate of {name}, which is not ours")
            elif machine is not None and machine.state.value not in ENDED:
                self._judge_end(machine, record)

    def _judge_end(self, machine: Machine, record: Record) -> None:
        worker, doomed = machine.worker, machine.id in self.book.orders.doomed
        if doomed and (unnamed := self.book.orders.unnamed(machine, self.book.started)):
            self.fail("I2", f"terminate of {machine.id} by force with jobs that nobody was told of: {unnamed}")
        if worker is not None and worker.jobs and not (doomed or self.could_not_know(machine, record)):
            since_s = self.world.now - min(self.book.started[job.number] for job in worker.jobs)
            self.fail("I2", f"terminate of {machine.id} with {len(worker.jobs)} jobs, the first for {since_s:.1f} s")
        if machine.id not in self._asked_to_end:
            self._asked_to_end[machine.id] = record.decided_s
            what, site = f"terminate of {machine.id}", self.site_of(machine, record)
            if not (doomed or self._asked_again(machine, record)):
                self.reads_known(record, what, ("jobs", "workers"), site)
            self.reason("terminating", machine.id, record, self._decided_to_end.get(machine.id))
            why_not = self._no_cause(machine, record) or self.resting.no_cause(machine, record)
            if why_not and self._why_not_then.get(machine.id, why_not):  # else it had one, and is asked for again
                self.fail("I6", f"terminate of {machine.id} without a cause: {why_not}")
        elif worker is not None and worker.listed and worker.drained_by is None and not doomed:
            if not self.could_not_know(machine, record):
                self.fail("I6", f"terminate of {machine.id} again, though its worker came back and takes jobs")

    def _asked_again(self, machine: Machine, record: Record) -> bool:
        """Whether the end was decided in an earlier life, or for an earlier call, which took no effect: it is asked for
        again until the cloud confirms it, by a look at the worker alone."""
        before = self._decided_to_end.get(machine.id, record.decided_s) < record.decided_s
        once = self.state.times("terminating", machine.id) == 1
        return (before and once) or self.state.decided_before("terminating", machine.id)

    def could_not_know(self, machine: Machine, record: Record) -> bool:
        """See `EXEMPTIONS`, I2. What counts is what was known when it was sent: it may have waited for its turn."""
        worker, read = machine.worker, (record.sending or record.known).get("workers")
        if worker is None or read is None or read.effect_s is None:
            return False
        started = [self.book.started[job.number] for job in worker.jobs]
        if any(at < read.effect_s for at in started):  # what starts in the moment of the look starts after it
            return False
        new = self.book.visible_since.get(worker, self.world.now) >= read.effect_s
        seen = self.book.workers_known(record, sending=True).states.get(machine.id)
        undrained = seen is WorkerState.DRAINED and worker.drained_by is None
        return new or undrained or not self.can_drain

    def _no_cause(self, machine: Machine, record: Record) -> str:
        """Empty if this machine may be ended: it was seen drained and empty, it never joined (nor, for as long as
        a boot, since the state that knew it was lost; its jobs are I2's), it was away for long, or called broken."""
        settings, book = record.settings, self.book
        if machine.id in book.orders.doomed:
            return ""
        view = book.workers_known(record)
        state = book.workers_known(record, sending=True).states.get(machine.id)
        if state is WorkerState.DRAINED or (state is WorkerState.IDLE and not self.can_drain):
            return ""
        if state is WorkerState.OTHER and machine.id in book.orders.out:
            return ""  # somebody else had drained it
        if state is not None:
            return f"the last look showed its worker {state.value}"
        last = view.shown.get(machine.id)
        if machine.id in book.called_broken:
            return ""
        age_s = record.decided_s - max(book.born[machine.id], book.store_since)
        young = age_s < settings.estimated_vm_deploy_time_s - SLACK_S and machine.id not in book.orders.out
        if last is None or (last < book.store_since and not young):
            return f"launched {age_s:.0f} s ago, it may still join" if young else ""
        away_s = record.decided_s - last
        longest_s = settings.lost_after_s + (settings.batch_settle_s if machine.id in book.swept else 0.0)
        return f"its worker was seen {away_s:.0f} s ago" if away_s < longest_s else ""

    # ------------------------------------------------------------------ what a decision rests on

    def site_of(self, machine: Machine, record: Record) -> str:
        sent = self.book.made_by.get(machine.id)
        return sent.source if sent is not None else record.source

    def reads_known(self, record: Record, what: str, reads: Iterable[str], site: str) -> None:
        """A decision rests on the last reads: each came back whole, and not too long ago."""
        settings = record.settings
        periods = {"jobs": settings.check_queue_every_s, "workers": settings.check_vms_every_s}
        ends = not what.startswith("launch")
        for name in (*reads, f"instances {site}"):
            read = record.known.get(name)
            if read is None:
                if name.startswith("instances") and not any(key == name for key in record.known):
                    continue
                self.fail("I6", f"{what} was decided before the first read of {name}")
                continue
            short = name.partition(" ")[0]
            longest_s = STALE_PERIODS * periods.get(short, settings.check_vms_every_s) + DEADLINE_S[short] + SLACK_S
            age_s = record.decided_s - read.decided_s
            if read.error is not None:
                self.fail("I6", f"{what} was decided though the last read of {name} had failed: {read.error}")
            elif ends and not read.good:
                self.fail("I6", f"{what} was decided though the last read of {name} was partial")
            elif age_s > longest_s:
                self.fail("I6", f"{what} was decided on a read of {name} from {age_s:.0f} s before")
            elif short == "workers" and ends:
                up_s = read.value.source_up_s
                if up_s is not None and up_s < settings.batch_settle_s:
                    self.fail("I6", f"{what} was decided though the collector was up for {up_s:.0f} s only")

    def reason(self, what: str, node: str, record: Record, decided_s: Optional[float] = None) -> None:
        decided_s = record.decided_s if decided_s is None else decided_s
        if decided_s < self.book.store_since or not self.state.writable_since(decided_s):
            return
        if not self.state.reason(what, node).strip():
            self.fail("I12", f"{what} of {node} has no reason in the history")

    # ------------------------------------------------------------------ ownership

    def _before_adopt(self, record: Record) -> None:
        for name in record.args[0]:
            machine = self.world.machines.get(name)
            if machine is None:
                continue
            if machine.cluster != self.owner.cluster:
                self.fail("I3", f"adoption of {name}, which belongs to another cluster")
            self.book.made(record, [machine])


def _short(args: object) -> Optional[str]:
    text = str(args)
    return text if len(text) < 80 else text[:77] + "..."
