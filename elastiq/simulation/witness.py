"""A record of every call that the daemon makes: when it was decided, what it did, what was heard of it.

Two wrappers, at the seams that the simulation has anyway: around the executor (a decision, an answer that
arrives) and around the world's faults (the effect, and the truth that a fault may have bent). What is known
to the daemon when it decides is exactly what was heard by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, TypeVar

from elastiq.calling import Executor
from elastiq.executor import Done, Outcome, Still, always
from elastiq.settings import Settings
from elastiq.simulation.faults import Call, Faults

T = TypeVar("T")

READS = frozenset({"jobs", "workers", "instances"})


@dataclass(eq=False)
class Record:
    """One call; ``*_s`` are monotonic. ``known``: the last reads heard of, by name and site, when it was decided;
    ``sending``: the same when an act was sent, which may have waited for its turn.

    ``truth`` is what the simulated system itself answered; ``value`` or ``error`` is what the daemon heard.
    """

    life: int
    decided_s: float
    settings: Settings
    known: Mapping[str, Record] = field(repr=False)
    source: str = ""
    name: str = ""
    sending: Mapping[str, Record] = field(default_factory=dict, repr=False)
    args: tuple[Any, ...] = ()
    effect_s: Optional[float] = None
    heard_s: Optional[float] = None
    truth: Any = field(default=None, repr=False)
    value: Any = field(default=None, repr=False)
    error: Optional[BaseException] = None
    note: Any = field(default=None, repr=False)  # the listener's own

    @property
    def key(self) -> str:
        """Under which a read is known: by site for the listings."""
        return f"{self.name} {self.source}" if self.source != "batch" else self.name

    @property
    def good(self) -> bool:
        """A whole answer came back."""
        return self.heard_s is not None and self.error is None and not getattr(self.value, "missing", ())


class Listener:
    """Who is told of the calls; all before the daemon goes on."""

    def called(self, record: Record) -> None:
        """It arrives there."""

    def before(self, record: Record) -> None:
        """It is about to take effect. Not called where it never does."""

    def after(self, record: Record) -> None:
        """It took effect."""

    def failed(self, record: Record) -> None:
        """It came to an error there, before or after an effect."""

    def heard(self, record: Record) -> None:
        """The daemon is about to hear of it."""


class Witness:
    """``settings`` are those in force at the moment."""

    def __init__(self, now: Callable[[], float], settings: Callable[[], Settings]) -> None:
        self._now, self._settings = now, settings
        self.listener = Listener()
        self.life = 0
        self.known: dict[str, Record] = {}
        self.calls: dict[str, int] = {}
        self.hung: dict[str, int] = {}  # how many reads had no answer by their deadline
        self.begun: dict[str, float] = {}  # when each kind of call was decided upon last
        self._current: Optional[Record] = None

    def new_life(self) -> None:
        """A daemon starts that knows nothing yet."""
        self.life += 1
        self.known, self.begun, self.hung = {}, {}, {}

    # ------------------------------------------------------------------ the executor's side

    def watch(
        self, call: Callable[[], T], done: Done[T], still: Still = always
    ) -> tuple[Callable[[], T], Done[T], Still]:
        """The same call, watched."""
        record = Record(self.life, self._now(), self._settings(), dict(self.known))

        def watched() -> T:
            self._current = record
            try:
                return call()
            finally:
                self._current = None

        def hear(outcome: Outcome[T]) -> None:
            record.heard_s, record.value, record.error = self._now(), outcome.value, outcome.error
            if record.life == self.life and record.name in READS:
                self.known[record.key] = record
                late = type(outcome.error).__name__ == "DeadlineError"
                self.hung[record.key] = self.hung.get(record.key, 0) + late
                record.known = {}  # or each would keep all before it
            self.listener.heard(record)
            done(outcome)

        def starts() -> bool:
            record.sending = dict(self.known)
            return still()

        return watched, hear, starts

    # ------------------------------------------------------------------ the world's side

    def apply(self, faults: Faults, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
        """Pass a call through the faults, and note its effect."""
        record = self._current or Record(self.life, self._now(), self._settings(), {})
        record.source, record.name, record.args = call.source, call.name, call.args
        self.calls[call.name] = self.calls.get(call.name, 0) + 1
        self.begun[record.key] = record.decided_s
        self.listener.called(record)

        def watched() -> T:
            self.listener.before(record)
            value = work()
            record.truth, record.effect_s = value, self._now()
            self.listener.after(record)
            return value

        try:
            return faults.apply(call, watched, delay_answer)
        except Exception:  # only to write down that it failed: it goes on to whoever called
            self.listener.failed(record)
            raise


class WatchedExecutor:
    """Any executor, watched."""

    def __init__(self, inner: Executor, witness: Witness) -> None:
        self._inner, self._witness = inner, witness

    def read(self, source: str, call: Callable[[], T], done: Done[T], deadline_s: float) -> bool:
        watched, hear, _ = self._witness.watch(call, done)
        return self._inner.read(source, watched, hear, deadline_s)

    def act(
        self, source: str, node: str, call: Callable[[], T], done: Done[T], deadline_s: float, still: Still = always
    ) -> None:
        watched, hear, starts = self._witness.watch(call, done, still)
        self._inner.act(source, node, watched, hear, deadline_s, starts)

    def close(self, wait_s: float) -> Any:
        return self._inner.close(wait_s)


class WatchedFaults(Faults):
    """Any faults, watched."""

    def __init__(self, inner: Faults, witness: Witness) -> None:
        self.inner, self._witness = inner, witness

    def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
        return self._witness.apply(self.inner, call, work, delay_answer)
