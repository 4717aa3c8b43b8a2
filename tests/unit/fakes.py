"""A daemon's surroundings that do nothing by themselves: the test begins and ends every call."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence

from elastiq.core import Core
from elastiq.executor import DeadlineError, Done, Outcome, Still, UnsentError, always
from elastiq.interfaces import (
    BatchSystem,
    Cloud,
    CloudCapabilities,
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    EndAnswer,
    EndOutcome,
    Instance,
    Instances,
    InstanceState,
    Intent,
    JobGroup,
    Jobs,
    Machine,
    Owner,
    Pool,
    Resources,
    SourceError,
    Worker,
    Workers,
)
from elastiq.settings import Settings
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.store import Store
from tests.unit.values import some_settings

HEAD = "abcdef0123456789" * 4
MARK = HEAD[:16]
OURS = f"elastiq {MARK} of test"


@dataclass
class Pending:
    """A call that has begun and has not come back."""

    crank: HandExecutor
    source: str
    node: str  # empty for a read
    call: Callable[[], Any]
    done: Callable[[Outcome[Any]], None]
    deadline_s: float
    began: float
    still: Still = always

    def finish(self) -> Any:
        """It is sent, takes effect, and its answer arrives, all now. Returns what was answered or raised."""
        if not self.still():
            return self.fail(UnsentError("not sent"))
        try:
            value = self.call()
        except Exception as exc:  # noqa: BLE001 - as the real executor does
            return self.fail(exc)
        self._report(Outcome(self.began, self.crank.now(), value))
        return value

    def fail(self, error: BaseException) -> BaseException:
        """It ends with this error, without any effect."""
        self._report(Outcome(self.began, self.crank.now(), None, error))
        return error

    def time_out(self) -> None:
        self.fail(DeadlineError(f"no answer within {self.deadline_s:g} s"))

    def _report(self, outcome: Outcome[Any]) -> None:
        self.crank.pending.remove(self)
        self.done(outcome)


class HandExecutor:
    """`elastiq.calling.Executor`, where every call waits until the test ends it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.pending: list[Pending] = []
        self.closed = False

    def read(
        self, source: str, call: Callable[[], Any], done: Callable[[Outcome[Any]], None], deadline_s: float
    ) -> bool:
        if any(p.source == source and not p.node for p in self.pending):
            return False
        self.pending.append(Pending(self, source, "", call, done, deadline_s, self.now()))
        return True

    def act(
        self, source: str, node: str, call: Callable[[], Any], done: Done[Any], deadline_s: float, still: Still = always
    ) -> None:
        self.pending.append(Pending(self, source, node, call, done, deadline_s, self.now(), still))

    def in_flight(self) -> int:
        return len(self.pending)

    def close(self, wait_s: float) -> None:
        self.closed = True

    def reads(self, source: str) -> list[Pending]:
        return [p for p in self.pending if p.source == source and not p.node]

    def acts(self, source: str = "") -> list[Pending]:
        return [p for p in self.pending if p.node and p.source.startswith(source)]

    def only(self, source: str = "") -> Pending:
        """The one act that is in flight."""
        (act,) = self.acts(source)
        return act


@dataclass
class Script:
    """What was asked, in order, and what is answered: a value, or an exception to raise."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    def ask(self, name: str, *args: Any) -> Any:
        self.asked.append((name, *args))
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise copy.copy(answer)  # each with a traceback of its own
        return answer(*args) if callable(answer) else answer

    def calls(self, name: str) -> list[tuple[Any, ...]]:
        return [tuple(args) for asked, *args in self.asked if asked == name]


class FakeBatch(BatchSystem):
    section = "fake"

    def __init__(self) -> None:
        self.script = Script(
            answers={
                "jobs": Jobs(()),
                "workers": Workers((), source_up_s=1e6),
                "drain": DrainAnswer(DrainOutcome.DRAINED),
                "undrain": None,
                "recorded": {},
                "jobs on": (),
                "prepare": None,
                "register": None,
                "unregister": None,
                "forget": None,
            }
        )

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> FakeBatch:
        return cls()

    def set_workers(self, *workers: Worker, up_s: float = 1e6) -> None:
        self.script.answers["workers"] = Workers(workers, source_up_s=up_s)

    def jobs(self) -> Jobs:
        answer: Jobs = self.script.ask("jobs")
        return answer

    def workers(self) -> Workers:
        answer: Workers = self.script.ask("workers")
        return answer

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        answer: DrainAnswer = self.script.ask("drain", worker, mode)
        return answer

    def undrain(self, worker: str) -> None:
        self.script.ask("undrain", worker)

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        answer: Mapping[str, int] = self.script.ask("recorded", tuple(workers))
        return answer

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        answer: tuple[str, ...] = self.script.ask("jobs on", worker)
        return answer

    def forget(self, worker: str) -> None:
        self.script.ask("forget", worker)


class RecordingBatch(FakeBatch):
    """One that has to be told of machines."""

    keeps_records = True

    def prepare(self, intent: Intent) -> None:
        self.script.ask("prepare", intent)

    def register(self, instance: Instance) -> None:
        self.script.ask("register", instance.id, instance.addresses)

    def unregister(self, instance: Instance) -> None:
        self.script.ask("unregister", instance.id, instance.addresses)


class MatchingBatch(FakeBatch):
    """One that can match: every job with every machine, but for groups in ``refusals``."""

    can_match = True

    def __init__(self) -> None:
        super().__init__()
        self.refusals: dict[str, str] = {}  # by a group's key, why
        self.script.answers.update(match=None, portrait=lambda worker: f"drawn from {worker}")

    def match(self, groups: Sequence[JobGroup], machines: Sequence[Machine]) -> Mapping[tuple[str, Machine], str]:
        self.script.ask("match", tuple(groups), tuple(machines))
        return {(one.key, machine): self.refusals.get(one.key, "") for one in groups for machine in machines}

    def portrait(self, worker: str) -> str:
        return str(self.script.ask("portrait", worker))


class FakeCloud(Cloud):
    kind = "ec2"

    def __init__(self, find: bool = True) -> None:
        self.capabilities = CloudCapabilities(find=find)
        self.script = Script(
            answers={
                "instances": Instances(()),
                "launch": self._made,
                "find": (),
                "terminate": lambda ids: dict.fromkeys(ids, EndAnswer(EndOutcome.ENDING)),
                "stop": lambda ids: dict.fromkeys(ids, EndAnswer(EndOutcome.ENDING)),
                "start": lambda ids: dict.fromkeys(ids, EndAnswer(EndOutcome.ENDING)),
                "problems": {},
                "flavours": {},
                "adopt": None,
            }
        )
        self._number = 100

    @classmethod
    def from_config(cls, pools: Sequence[Pool], owner: Owner) -> FakeCloud:
        return cls()

    def make(self, intent: Intent, count: Optional[int] = None) -> tuple[Instance, ...]:
        """So many instances of an intent, all of them unless told."""
        made = []
        for _ in range(intent.count if count is None else count):
            self._number += 1
            address = frozenset({f"10.0.1.{self._number}"})
            name = f"i-{self._number}"
            made.append(Instance(name, InstanceState.PENDING, address, pool=intent.offer.pool, intent=intent.id))
        return tuple(made)

    def _made(self, intent: Intent) -> tuple[Instance, ...]:
        return self.make(intent)

    def set_instances(self, *owned: Instance) -> None:
        self.script.answers["instances"] = Instances(owned)

    def instances(self, known: frozenset[str]) -> Instances:
        answer: Instances = self.script.ask("instances")
        return answer

    def launch(self, intent: Intent) -> tuple[Instance, ...]:
        answer: tuple[Instance, ...] = self.script.ask("launch", intent)
        return answer

    def find(self, intent: Intent) -> tuple[Instance, ...]:
        answer: tuple[Instance, ...] = self.script.ask("find", intent)
        return answer

    def terminate(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        answer: Mapping[str, EndAnswer] = self.script.ask("terminate", tuple(ids))
        return answer

    def stop(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        answer: Mapping[str, EndAnswer] = self.script.ask("stop", tuple(ids))
        return answer

    def start(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        answer: Mapping[str, EndAnswer] = self.script.ask("start", tuple(ids))
        return answer

    def flavours(self, names: Sequence[str]) -> Mapping[str, Resources]:
        answer: Mapping[str, Resources] = self.script.ask("flavours", tuple(names))
        return answer

    def problems(self, ids: Sequence[str]) -> Mapping[str, str]:
        answer: Mapping[str, str] = self.script.ask("problems", tuple(ids))
        return answer

    def adopt(self, ids: Sequence[str]) -> None:
        self.script.ask("adopt", tuple(ids))


UNREACHABLE = SourceError("connection refused")


class Surroundings:
    """A `Core` with all that it needs, on a virtual clock. ``store_path`` outlives it."""

    batch_class: type[FakeBatch] = FakeBatch

    def __init__(self, store_path: str = ":memory:", find: bool = True, **changed: Any) -> None:
        self.clock = VirtualClock()
        self.events = VirtualQueue(self.clock)
        self.executor = HandExecutor(self.clock.monotonic)
        self.batch, self.cloud = self.batch_class(), FakeCloud(find)
        self.settings: Settings = some_settings(**changed)
        self.store = Store(store_path)
        self._launches = 0
        self.owner = Owner("test", HEAD, frozenset({"10.9.9.9"}), "i-head")
        self.core = Core(
            self.settings,
            self.batch,
            dict.fromkeys(self.settings.sites, self.cloud),
            self.owner,
            self.events,
            self.executor,
            self.store,
            new_id=self._new_id,
        )

    def _new_id(self) -> str:
        self._launches += 1
        return f"launch{self._launches}"

    def now(self) -> float:
        return self.clock.monotonic()

    def run(self, seconds: float = 0.0) -> None:
        """Let so much time pass; what is due happens."""
        self.events.after(seconds, self.events.stop)
        self.events.run()
