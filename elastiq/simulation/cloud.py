"""The simulated cloud: what the world's machines look like from outside, and how they are asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar

from elastiq.interfaces import (
    CapacityError,
    Check,
    Cloud,
    CloudCapabilities,
    ConfigurationError,
    EndAnswer,
    EndOutcome,
    Instance,
    Instances,
    InstanceState,
    Intent,
    Looks,
    Owner,
    Pool,
    QuotaError,
    Resources,
    SourceError,
)
from elastiq.simulation.faults import Call
from elastiq.simulation.model import Machine
from elastiq.simulation.world import World

T = TypeVar("T")


class SimulatedCloud(Cloud):
    """The contract over a `World`; every call passes the world's faults."""

    kind = "simulated"
    capabilities = CloudCapabilities(stop=True)

    def __init__(self, world: World, owner: Owner, site: str = "simulated") -> None:
        self._world = world
        self._owner = owner
        self._site = site

    @classmethod
    def from_config(cls, pools: Sequence[Pool], owner: Owner) -> SimulatedCloud:
        """The options of the pools hold the world."""
        return cls(pools[0].options["world"], owner, pools[0].site)

    def instances(self, known: frozenset[str]) -> Instances:
        return self._call("instances", (known,), lambda: self._instances(known))

    def launch(self, intent: Intent) -> tuple[Instance, ...]:
        return self._call("launch", (intent,), lambda: self._launch(intent))

    def find(self, intent: Intent) -> tuple[Instance, ...]:
        return self._call("find", (intent,), lambda: self._made_by(intent))

    def terminate(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        return self._call("terminate", (tuple(ids),), lambda: self._terminate(ids))

    def stop(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        return self._call("stop", (tuple(ids),), lambda: self._stop(ids))

    def start(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        return self._call("start", (tuple(ids),), lambda: self._start(ids))

    def flavours(self, names: Sequence[str]) -> Mapping[str, Resources]:
        return self._call("flavours", (tuple(names),), lambda: self._flavours(names))

    def problems(self, ids: Sequence[str]) -> Mapping[str, str]:
        return self._call("problems", (tuple(ids),), lambda: self._problems(ids))

    def adopt(self, ids: Sequence[str]) -> None:
        self._call("adopt", (tuple(ids),), lambda: self._adopt(ids))

    def checks(self) -> Looks:
        return {"instances": self._check_instances, "room in the account": self._check_room}

    # ------------------------------------------------------------------ the answers

    def _check_instances(self) -> Iterator[Check]:
        found = self.instances(frozenset())
        yield Check("instances", "ok", f"{len(found.owned)} of ours, {found.foreign} of others")

    def _check_room(self) -> Iterator[Check]:
        present, most = len(self.instances(frozenset()).owned), self._world.account_limit
        if most is not None and present >= most:
            yield Check("room in the account", "error", f"{present} of at most {most} machines", "ask for more")
        else:
            yield Check("room in the account", "ok", f"{present} machines, at most {most or 'as many as there are'}")

    def _call(self, name: str, args: tuple[Any, ...], work: Callable[[], T]) -> T:
        return self._world.faults.apply(Call(self._site, name, args), work, self._world.delay_answer)

    def _instances(self, known: frozenset[str]) -> Instances:
        owned, other_heads, foreign = [], [], []
        for machine in self._seen():
            if machine.id == self._owner.instance_id or machine.address in self._owner.addresses:
                continue
            if self._owns(machine, known):
                owned.append(self._row(machine))
            elif machine.cluster == self._owner.cluster:
                other_heads.append(self._row(machine))
            elif not machine.ended:
                foreign.append(machine)
        return Instances(
            tuple(owned), tuple(other_heads), len(foreign), frozenset(machine.address for machine in foreign)
        )

    def _seen(self) -> Iterator[Machine]:
        """The machines of this site that its calls know by now."""
        now = self._world.now
        for machine in self._world.machines.values():
            if machine.visible_at <= now and machine.site in ("", self._site):
                yield machine

    def _known(self, ids: Sequence[str]) -> dict[str, Machine]:
        asked = frozenset(ids)
        return {machine.id: machine for machine in self._seen() if machine.id in asked}

    def _owns(self, machine: Machine, known: frozenset[str]) -> bool:
        if machine.head:
            return (machine.cluster, machine.head) == (self._owner.cluster, self._owner.head)
        return machine.token.startswith(self._owner.token_prefix) or machine.id in known

    def _row(self, machine: Machine) -> Instance:
        """The same object as long as nothing changes."""
        m = machine
        key = (m.state, m.notice, m.addressed_at <= self._world.now, m.launched_at, m.head, m.pool, m.intent, m.token)
        if machine.row is None or machine.row[0] != key:
            machine.row = (key, self._made(machine))
        return machine.row[1]

    def _made(self, machine: Machine) -> Instance:
        return Instance(
            id=machine.id,
            state=machine.state,
            addresses=frozenset({machine.address} if machine.addressed_at <= self._world.now else ()),
            launched_at=machine.launched_at,
            flavour=machine.flavour,
            pool=machine.pool,
            intent=machine.intent,
            token=machine.token,
            state_detail=machine.state.value,
            head=machine.head,
            notice=machine.notice,
        )

    def _launch(self, intent: Intent) -> tuple[Instance, ...]:
        again = self._made_by(intent)
        if again:  # EC2: the same ClientToken answers with what it made the first time
            return again
        world, flavour = self._world, intent.offer.flavour
        if flavour not in world.flavours:
            raise ConfigurationError(f"launching {intent.offer}: there is no flavour {flavour!r}")
        room = world.room(flavour)
        count = intent.count if room is None else min(room, intent.count)
        if count == 0:
            raise CapacityError(f"launching {intent.offer}: no capacity for {flavour}")
        if world.account_limit is not None:
            present = sum(1 for machine in world.machines.values() if not (machine.ended or machine.stopped))
            if present + count > world.account_limit:
                raise QuotaError(f"launching {intent.offer}: the account may have {world.account_limit}")
        made = [self._make(intent) for _ in range(min(count, world.launch_at_most or count))]
        self._world.record(
            "launch",
            [machine.id for machine in made],
            self._owner.head,
            intent=intent.id,
            token=intent.token,
            offer=str(intent.offer),
            asked=intent.count,
        )
        return tuple(
            replace(self._row(machine), pool=intent.offer.pool, intent=intent.id, token=intent.token)
            for machine in made
        )

    def _make(self, intent: Intent) -> Machine:
        def machine_of(machine_id: str, address: str) -> Machine:
            return Machine(
                id=machine_id,
                address=address,
                flavour=intent.offer.flavour,
                launched_at=self._world.cloud_wall,
                site=self._site,
                made_for=(self._owner.cluster, self._owner.head, intent.id),
                network=intent.offer.network,
                market=intent.offer.market,
                pool=intent.offer.pool,
                cluster=self._owner.cluster,
                head=self._owner.head,
                intent=intent.id,
                token=intent.token,
            )

        return self._world.launch(machine_of)

    def _made_by(self, intent: Intent) -> tuple[Instance, ...]:
        found = [
            machine
            for machine in self._seen()
            if intent.token == machine.token or (machine.head == self._owner.head and intent.id == machine.intent)
        ]
        return tuple(self._row(machine) for machine in found)

    def _terminate(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        known = self._known(ids)
        most = self._world.end_at_most or len(ids)
        answers = dict.fromkeys(ids[most:], EndAnswer(EndOutcome.FAILED, "the answer does not name it"))
        for machine_id in ids[:most]:
            machine = known.get(machine_id)
            if machine is None:
                answers[machine_id] = EndAnswer(EndOutcome.NOT_FOUND, "there is no such instance")
                continue
            self._record("terminate", machine)
            self._world.terminate(machine)
            answers[machine_id] = EndAnswer(EndOutcome.ENDING)
        return answers

    def _record(self, what: str, machine: Machine) -> None:
        jobs = machine.worker.jobs if machine.worker is not None and not machine.ending else ()
        numbers = tuple(job.number for job in jobs)
        self._world.record(what, [machine.id], self._owner.head, jobs=numbers, detail=machine.state.value)

    def _stop(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        known = self._known(ids)
        answers = dict.fromkeys(ids, EndAnswer(EndOutcome.NOT_FOUND, "there is no such instance"))
        for machine in known.values():
            answers[machine.id] = EndAnswer(EndOutcome.ENDING)
            if machine.market == "spot" or not machine.stoppable:
                answers[machine.id] = EndAnswer(EndOutcome.FAILED, "UnsupportedOperation: it cannot be stopped")
            elif machine.state is InstanceState.RUNNING:
                self._record("stop", machine)
                self._world.stop(machine)
            elif not machine.stopped:
                answers[machine.id] = EndAnswer(EndOutcome.FAILED, f"IncorrectInstanceState: {machine.state.value}")
        return answers

    def _start(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        """As EC2's plugin: what there is no room for is refused alone, if there is room for some."""
        known, world = self._known(ids), self._world
        answers = dict.fromkeys(ids, EndAnswer(EndOutcome.NOT_FOUND, "there is no such instance"))
        started, full = 0, ""
        for machine in known.values():
            present = sum(1 for one in world.machines.values() if not (one.ended or one.stopped))
            if machine.state in (InstanceState.PENDING, InstanceState.RUNNING):
                answers[machine.id] = EndAnswer(EndOutcome.ENDING)
            elif machine.state is not InstanceState.STOPPED:
                answers[machine.id] = EndAnswer(EndOutcome.FAILED, f"IncorrectInstanceState: {machine.state.value}")
            elif world.room(machine.flavour) == 0 or present == world.account_limit:
                full = f"no capacity for {machine.flavour}"
                answers[machine.id] = EndAnswer(EndOutcome.FAILED, full)
            else:
                started += 1
                self._record("start", machine)
                world.start_again(machine)
                answers[machine.id] = EndAnswer(EndOutcome.ENDING)
        if full and not started:
            raise CapacityError(f"starting {', '.join(ids)}: {full}")
        return answers

    def _flavours(self, names: Sequence[str]) -> Mapping[str, Resources]:
        known = self._world.flavours if self._world.catalogue else {}
        return {name: known[name] for name in names if name in known}

    def _problems(self, ids: Sequence[str]) -> Mapping[str, str]:
        return {
            key: machine.problem or "state error"
            for key, machine in self._known(ids).items()
            if machine.problem or machine.state is InstanceState.ERROR
        }

    def _adopt(self, ids: Sequence[str]) -> None:
        known = self._known(ids)
        for machine_id in ids:
            machine = known.get(machine_id)
            if machine is None:
                raise SourceError(f"adopting {machine_id}: there is no such instance")
            self._world.record("adopt", [machine_id], self._owner.head, detail=machine.head)
            machine.cluster, machine.head = self._owner.cluster, self._owner.head
