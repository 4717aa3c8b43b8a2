"""The truth of a simulated cluster: what runs where, whoever looks.

The batch system and the cloud of the simulation answer from here; the checks of the tests do, too.
All that happens is an event of the queue, and all chance comes from the one generator given.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable, Iterable, Mapping, Optional

from elastiq.events import EventQueue
from elastiq.interfaces import InstanceState, Resources
from elastiq.simulation.clock import VirtualClock
from elastiq.simulation.faults import Faults
from elastiq.simulation.jobs import JobQueue, JobsByShape
from elastiq.simulation.model import Act, Job, JobState, Machine, SimWorker, Tally

Range = tuple[float, float]  # seconds, from and to


DAY_S = 86_400.0


@dataclass
class Image:
    """How machines come up and go. It may be changed while the world runs, and holds for later launches."""

    boot_s: Range = (30.0, 60.0)  # from the launch until the cloud says "running"
    join_s: Range = (20.0, 50.0)  # from there until it is a worker
    shutdown_s: Range = (15.0, 40.0)  # from the request until the cloud says "terminated"
    joins: bool = True
    publishes_id: bool = False  # the worker's ad holds the instance's id
    odd_names: bool = False  # workers have names that have nothing to do with their addresses
    more_addresses: bool = False  # the worker's ad has addresses that the cloud does not know


@dataclass
class World(JobQueue):
    """``limits`` says how many machines of a flavour may exist at once: the cloud has no more."""

    events: EventQueue
    clock: VirtualClock
    rng: random.Random
    flavours: Mapping[str, Resources]
    image: Image = field(default_factory=Image)
    limits: dict[str, int] = field(default_factory=dict)
    account_limit: Optional[int] = None
    faults: Faults = field(default_factory=Faults)
    negotiate_every_s: float = 20.0
    lease_s: float = 2400.0  # for which a dead machine's jobs stay recorded as running (HTCondor's default)
    ended_listed_s: float = 3600.0  # for which the cloud lists what has ended
    ads_stay_s: float = 0.0  # for which a dead worker stays in the collector's list
    cloud_skew_s: float = 0.0  # of the cloud's clock
    registers: bool = False  # the batch system lets only workers in that were made known to it

    def __post_init__(self) -> None:
        self.jobs: dict[int, Job] = {}  # those that are not done
        self.machines: dict[str, Machine] = {}
        self.workers: dict[str, SimWorker] = {}
        self.registered: dict[str, str] = {}  # by address: the instance that the batch system expects there
        self.tally = Tally()
        self.collector_since = self.now - DAY_S
        self.on_change: Callable[[], None] = lambda: None
        self.on_job_change: Callable[[], None] = lambda: None
        self.job_changes = self.worker_changes = self.machine_changes = 0
        self.on_act: Callable[[Act], None] = lambda act: None
        self.on_birth: Callable[[Machine], None] = lambda machine: None
        self.size_of: Callable[[Machine], Optional[Resources]] = lambda machine: self.flavours.get(machine.flavour)
        self.on_bill: Callable[[Machine], object] = lambda machine: None
        self.on_billed: Callable[[Machine, float], object] = lambda machine, seconds: None
        self.on_start: Callable[[Job], object] = self._note_wait  # of the first start of each
        self.on_end: Callable[[Job], object] = lambda job: None  # done or removed
        self.never_recycled: set[str] = set()  # the head node has them, whatever becomes of its instance
        self.recycled: Optional[list[str]] = None  # addresses of ended machines, to be given again; None: never
        self.launch_at_most: Optional[int] = None  # in one call
        self.end_at_most: Optional[int] = None
        self.catalogue = False  # whether the cloud tells what its flavours have
        self._numbers = itertools.count(1)
        self._addresses = itertools.count(1)
        self._waiting, self._running = JobsByShape(), JobsByShape()
        self._negotiating = False
        self._answer_delay_s = 0.0

    # ------------------------------------------------------------------ time and chance

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self.clock.monotonic()

    @property
    def wall(self) -> float:
        """Wall time as it is, whatever the head node's clock says."""
        return self.clock.true_time()

    @property
    def cloud_wall(self) -> float:
        """What the cloud's clock shows."""
        return self.wall + self.cloud_skew_s

    def draw(self, span: Range) -> float:
        """A time within the range; from `random` alone, which is the same in every version of Python."""
        return span[0] + (span[1] - span[0]) * self.rng.random()

    def delay_answer(self, seconds: float) -> None:
        """Let the answer of the call that is being made come later."""
        self._answer_delay_s += seconds

    def take_answer_delay_s(self) -> float:
        """For the executor, after each call."""
        taken, self._answer_delay_s = self._answer_delay_s, 0.0
        return taken

    def record(self, what: str, targets: Iterable[str], head: str, **more: Any) -> None:
        """Tell of an act that takes effect now."""
        self.on_act(Act(self.clock.elapsed_s, what, tuple(targets), head, **more))

    def _machines_changed(self) -> None:
        self.machine_changes += 1
        self.worker_changes += 1
        self.on_change()

    # ------------------------------------------------------------------ workers

    def add_worker(self, name: str, address: str, total: Resources, machine: Optional[Machine] = None) -> SimWorker:
        """A worker joins the pool."""
        worker = self.workers[name] = SimWorker(name, address, total, self.wall, machine)
        if machine is not None:
            machine.worker = worker
            self._unused(machine)
        self._negotiate_soon()
        self._machines_changed()
        return worker

    def drain(self, worker: SimWorker, reason: str) -> None:
        worker.drained_by = reason
        self._machines_changed()

    def undrain(self, worker: SimWorker) -> None:
        worker.drained_by = None
        self._negotiate_soon()
        self._machines_changed()

    def crash(self, worker: SimWorker) -> None:
        """A worker dies by itself: off the list, its jobs recorded until their lease ends."""
        if not worker.alive:
            return
        self._die(worker)
        for job in list(worker.jobs):
            self.tally.lost += 1
            self.events.after(self.lease_s, partial(self._lease_ends, job, job.run))
        self._machines_changed()

    def _lease_ends(self, job: Job, run: int) -> None:
        if job.state is JobState.RUNNING and job.run == run:
            self._leave(job)
            self._wait(job)

    def _die(self, worker: SimWorker) -> None:
        worker.alive, worker.listed = False, self.ads_stay_s > 0
        if worker.machine is not None and worker.machine.worker is worker:
            worker.machine.worker = None
            self._unused(worker.machine)
        if worker.listed:
            self.events.after(self.ads_stay_s, partial(self._unlist, worker))
        else:
            self._unlist(worker)

    def _unlist(self, worker: SimWorker) -> None:
        worker.listed = False
        if self.workers.get(worker.name) is worker:
            del self.workers[worker.name]

    # ------------------------------------------------------------------ machines

    def room(self, flavour: str) -> Optional[int]:
        """How many more machines of a flavour the cloud has; None for any number."""
        limit = self.limits.get(flavour)
        if limit is None:
            return None
        present = sum(1 for m in self.machines.values() if m.flavour == flavour and not (m.ended or m.stopped))
        return max(0, limit - present)

    def launch(self, machine_of: Callable[[str, str], Machine], by_image: bool = True) -> Machine:
        """Start a machine, made from a new id and a new address; by the present image, with what befalls it."""
        number = next(self._numbers)
        machine = machine_of(f"i-{number:08x}", self._new_address())
        self.machines[machine.id] = machine
        if machine.ours:
            self.tally.launches += 1
            self.tally.present += 1
            self.tally.peak = max(self.tally.peak, self.tally.present)
        image = self.image
        machine.boot_s, machine.join_s = self.draw(image.boot_s), self.draw(image.join_s)
        machine.joins, machine.publishes_id = image.joins, image.publishes_id
        machine.odd_name = image.odd_names
        if image.more_addresses:
            machine.other_addresses = (f"192.168.{number // 250 % 250}.{number % 250 + 1}", f"fd00::{number:x}")
        if by_image:
            self.on_birth(machine)
        self._comes_up(machine)
        return machine

    def _comes_up(self, machine: Machine) -> None:
        if machine.boots:
            self.events.after(machine.boot_s, lambda: self._boot(machine))
            self.events.after(machine.boot_s + machine.join_s, lambda: self.join(machine))
        self._machines_changed()

    def _new_address(self) -> str:
        if self.recycled:
            return self.recycled.pop(0)
        number = next(self._addresses)
        return f"10.0.{number // 250}.{number % 250 + 1}"

    def _boot(self, machine: Machine) -> None:
        if machine.state is InstanceState.PENDING:
            machine.state = InstanceState.RUNNING
            self._bill(machine)
            self._machines_changed()

    def join(self, machine: Machine) -> None:
        """Its worker starts, if it runs, may join and has none; one that the batch system does not expect asks again
        and again."""
        if machine.state is InstanceState.RUNNING and machine.joins and machine.worker is None:
            machine.asks = self.registers and self.registered.get(machine.address) != machine.id
            size = self.size_of(machine)
            if size is None or machine.asks:
                return
            name = f"ip-{machine.address.replace('.', '-')}.example.org"
            if machine.odd_name:
                name = f"node-{machine.id[-4:]}.cluster.local"
            worker = self.add_worker(name, machine.address, size, machine)
            worker.instance_id = machine.id if machine.publishes_id else None
            worker.other_addresses = machine.other_addresses

    def register(self, instance_id: str, addresses: Iterable[str]) -> None:
        """Let the batch system expect the worker of an instance at these addresses, and nowhere else."""
        self.unregister(instance_id)
        self.registered.update(dict.fromkeys(addresses, instance_id))
        machine = self.machines.get(instance_id)
        if machine is not None and machine.asks:
            self.join(machine)

    def unregister(self, instance_id: str) -> None:
        """What another instance has by now is left alone."""
        self.registered = {address: name for address, name in self.registered.items() if name != instance_id}

    def terminate(self, machine: Machine) -> None:
        """End a machine by request. A job that runs there dies: that is counted as killed."""
        if machine.ending:
            return
        machine.state = InstanceState.SHUTTING_DOWN
        self.tally.terminations += 1
        self._account(machine)
        self._kill(machine.worker)
        self.events.after(self.draw(self.image.shutdown_s), lambda: self._ended(machine))
        self._machines_changed()

    def _kill(self, worker: Optional[SimWorker]) -> None:
        if worker is not None:
            killed = list(worker.jobs)
            self.tally.killed += len(killed)
            for job in killed:
                self._leave(job)
                self._wait(job)
            self._die(worker)

    def stop(self, machine: Machine) -> None:
        """Stop a machine that runs, by request. A job that runs there dies: that is counted as killed."""
        if machine.state is not InstanceState.RUNNING:
            return
        machine.state, machine.down = InstanceState.STOPPING, True
        self.tally.stops += 1
        self._account(machine)
        self._kill(machine.worker)
        self.events.after(self.draw(self.image.shutdown_s), lambda: self._down(machine))
        self._machines_changed()

    def _down(self, machine: Machine) -> None:
        if machine.state is InstanceState.STOPPING:
            machine.state = InstanceState.STOPPED
            self._machines_changed()

    def start_again(self, machine: Machine) -> None:
        """Start a stopped machine, by request: it boots anew, and keeps its id and address."""
        if machine.state is not InstanceState.STOPPED:
            return
        machine.state, machine.launched_at = InstanceState.PENDING, self.cloud_wall  # as EC2 tells it
        machine.down = False
        self.tally.starts += 1
        machine.boot_s, machine.join_s = self.draw(self.image.boot_s), self.draw(self.image.join_s)
        self._comes_up(machine)

    def _ended(self, machine: Machine) -> None:
        if machine.ended:
            return
        if machine.ours:
            self.tally.present -= 1
        machine.state = InstanceState.TERMINATED
        if self.recycled is not None and machine.address not in self.never_recycled:
            self.recycled.append(machine.address)
        self.events.after(self.ended_listed_s, lambda: self.machines.pop(machine.id, None))
        self._machines_changed()

    def interrupt(self, machine: Machine) -> None:
        """The cloud takes a machine back, with what runs there."""
        if not machine.ending:
            self.fall(machine, InstanceState.SHUTTING_DOWN)
            self.events.after(self.draw(self.image.shutdown_s), lambda: self._ended(machine))

    def announce(self, machine: Machine, notice: str) -> None:
        """The cloud says of a machine what it is about to do with it."""
        machine.notice = notice
        self._machines_changed()

    def fall(self, machine: Machine, state: InstanceState) -> None:
        """A machine is stopped, in error or shutting down, by itself: its worker dies, its jobs are lost."""
        if machine.ending or (machine.stopped and state is InstanceState.STOPPING):
            return
        machine.state = state
        self._account(machine)
        if machine.worker is not None:
            self.crash(machine.worker)
        self._machines_changed()

    def mend(self, image: Image, limits: Mapping[str, int]) -> None:
        """Put right what does not come right by itself: machines launched from now on are well."""
        self.image, self.limits, self.account_limit = replace(image), dict(limits), None
        self.recycled, self.ads_stay_s = None, 0.0
        for machine in self.machines.values():
            machine.hole = machine.problem = ""
            machine.joins = machine.joins or machine.stopped
        for worker in list(self.workers.values()):
            if worker.alive:
                worker.listed = True
            else:
                self._unlist(worker)
        self._negotiate_soon()
