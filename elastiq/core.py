"""What the parts of the daemon share: the state, and the ways to log, count, store and guard.

Only the decision thread uses it.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, TypeVar, Union

from elastiq.demand import Standing, Trials
from elastiq.events import EventQueue
from elastiq.executor import DeadlineError, Done, Outcome, Still, always
from elastiq.health import Health
from elastiq.interfaces import BatchSystem, Cloud, Jobs, Owner, SourceError
from elastiq.nodes import AT_BOOT, IN_SERVICE, SPENT, TO_COME, Move, Registry, State
from elastiq.settings import Settings
from elastiq.store import Store, StoreError, learned_from_json, learned_to_json

if TYPE_CHECKING:
    from elastiq.calling import Executor
    from elastiq.limits import Ledger
    from elastiq.preparing import Records

log = logging.getLogger("elastiq")
T = TypeVar("T")
Plugin = Union[BatchSystem, Cloud]
Act = Callable[[], Any]

# The deadline of an act or a read lies this much beyond what the plugin promises for itself.
MARGIN_S = 5.0
# What `tell_once` is told of single nodes and intents: forgotten with them.
TOLD_OF_NODES = ("drain", "undrain", "dry run", "find", "problem", "stop", "start")


def new_id() -> str:
    """A fresh name for an intent."""
    return uuid.uuid4().hex[:20]


def _kind(text: str) -> str:
    """The text without its numbers: a count that goes down is no news."""
    return text.translate(str.maketrans("", "", "0123456789"))


@dataclass(eq=False)
class Core:
    """The daemon's state, and its hands to the outside."""

    settings: Settings
    batch: BatchSystem
    clouds: Mapping[str, Cloud]
    owner: Owner
    events: EventQueue
    executor: Executor
    store: Store
    new_id: Callable[[], str] = new_id
    jitter: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.registry, self.health, self.trials = Registry(), Health(), Trials()
        self.counters: Counter[str] = Counter()
        self.notices: dict[str, str] = {}  # what a person should know now, by subject
        self.ledger: Optional[Ledger] = None  # where a limit of launches or cost is set
        self.records: Optional[Records] = None  # where the batch system has to be told of machines
        self.drained: frozenset[str] = frozenset()  # pools that a person takes out of service
        self.paused: Mapping[str, str] = {}  # "launch" or "terminate", and why a person wants none
        self.scaled: Mapping[str, int] = {}  # by pool, "" for the cluster: the min_vms that a person set
        self.listeners: list[Callable[[str, Mapping[str, Any]], object]] = []  # of `say`: the extras
        self.store_is_new = False  # and nothing was launched since
        self.lost_until = 0.0  # monotonic: what a lost store knew of may not be listed yet
        self.store_broken = False
        self.log_failures: Callable[[], int] = lambda: 0  # records that the log could not take; the service sets it
        self.saw_queue: Callable[[Jobs], None] = lambda _: None  # keeps what was seen; the service sets it
        self.faults: Counter[str] = Counter()  # distinct exceptions that are bugs
        self._told: dict[str, str] = {}
        self._facts_stored: dict[str, Any] = {"learned": {}, "strangers": {}, "failed_boots": {}, "uses": {}}

    # ------------------------------------------------------------------ time

    def now(self) -> float:
        return self.events.clock.monotonic()

    def wall(self) -> float:
        return self.events.clock.time()

    # ------------------------------------------------------------------ telling

    def count(self, what: str, by: int = 1) -> None:
        self.counters[what] += by

    def say(self, event: str, text: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event of docs/logs.md, and let the extras know of it."""
        log.log(level, "%s", text, extra={"event": event, "fields": fields})
        for listener in self.listeners:
            self.guard(f"listener of {event}", partial(listener, event, fields))

    def tell(self, subject: str, text: str, level: int = logging.WARNING) -> None:
        """Keep a notice for the status, and log it when it is new but for numbers. An empty text takes it back."""
        if text:
            if _kind(self.notices.get(subject, "")) != _kind(text):
                self.say("notice", f"{subject}: {text}", level, subject=subject, reason=text)
            self.notices[subject] = text
        elif self.notices.pop(subject, None):
            self.say("notice", f"{subject}: over", subject=subject, reason="")

    def tell_once(self, subject: str, text: str, level: int = logging.INFO, event: str = "note", **more: Any) -> None:
        """Log a sentence when it differs, not only in numbers, from the last one on the subject."""
        if self._told.get(subject) != _kind(text):
            self._told[subject] = _kind(text)
            self.say(event, text, level, subject=subject, **more)

    def record(self, what: str, node: str, pool: str, reason: str) -> None:
        """A line of history."""
        self.stored(partial(self.store.save, (), [(self.wall(), what, node, pool, reason)]))

    def stored(self, write: Callable[[], object]) -> bool:
        """Write to the store. That it cannot be written is told, and no reason to stop; returns whether it
        could."""
        try:
            write()
            return True
        except StoreError as exc:
            from elastiq.faults import of_store

            of_store(self, exc)
            return False

    def off(self, act: str) -> str:
        """Why there is to be no ``launch`` or no ``terminate`` by a person's wish; empty if they may be."""
        s = self.settings
        dry = s.dry_run_boot_vms if act == "launch" else s.dry_run_shutdown_vms
        return self.paused.get(act, "") or ("dry run" if dry else "" if getattr(s, act) else f"{act} = no")

    # ------------------------------------------------------------------ guarding

    def guard(self, name: str, action: Callable[[], object]) -> bool:
        """Run a piece of the loop; a bug in it is logged with its traceback once, counted, and does not
        stop the loop. Returns whether it went well."""
        try:
            action()
            return True
        except Exception as exc:  # noqa: BLE001 - the loop outlives any fault in any handler; it is logged and shown
            from elastiq.faults import caught

            caught(self, name, exc)
            return False

    def _guarded(self, name: str, done: Done[Any]) -> Done[Any]:
        """The same for what takes the result of a call; the state is stored afterwards."""

        def take(outcome: Outcome[Any]) -> None:
            self.guard(name, lambda: done(outcome))
            self.guard("persist", self.persist)

        return take

    def explain(self, error: Optional[BaseException]) -> str:
        """One line for a failed call."""
        if error is None:
            return "no answer"
        if isinstance(error, (SourceError, DeadlineError)):
            return str(error)
        from elastiq.faults import of_plugin

        return of_plugin(self, error)

    def failed(self, subject: str, what: str, outcome: Outcome[Any]) -> bool:
        """Whether a call has failed; that it has is logged."""
        if outcome.error is not None:
            self.tell_once(subject, f"{what}: {self.explain(outcome.error)}")
        return outcome.error is not None

    # ------------------------------------------------------------------ calling

    def read(self, source: str, plugin: Plugin, call: Callable[[], T], done: Done[T]) -> bool:
        """Start a read unless one of this source is in flight (then False)."""
        self.count("reads")
        return self.executor.read(source, call, self._guarded(source, done), plugin.call_deadline_s + MARGIN_S)

    def act_on_batch(self, key: str, call: Act, done: Done[Any]) -> None:
        """Acts of one ``key``, as a node's id, are done in their order."""
        self._act("batch", self.batch, key, call, done)

    def act_on_cloud(self, site: str, key: str, call: Act, done: Done[Any], still: Still = always) -> None:
        self._act(f"cloud {site}", self.clouds[site], key, call, done, still)

    def _act(self, source: str, plugin: Plugin, key: str, call: Act, done: Done[Any], still: Still = always) -> None:
        self.count(f"{source.partition(' ')[0]}_acts")
        told, deadline_s = self._guarded(f"act on {source}", done), plugin.call_deadline_s + MARGIN_S
        self.executor.act(source, key, call, told, deadline_s, still)

    # ------------------------------------------------------------------ storing

    def restore(self) -> None:
        """Take up where the last run left off."""
        stored = {key: self.store.recall(key) or {} for key in self._facts_stored}
        self._facts_stored = {**stored, "learned": learned_from_json(stored["learned"])}
        self.registry.restore(self.store.nodes(), self._facts_stored["strangers"])
        cluster, before = self.settings.cluster_name, self.store.recall("cluster")
        if len(self.registry) and before not in (None, cluster):
            from elastiq.torn import of_another

            raise of_another(self.store.path, len(self.registry), before, cluster)
        self.store_is_new = before is None
        self.stored(partial(self.store.remember, "cluster", cluster))
        self.registry.learned, self.registry.uses.seen = dict(self._facts_stored["learned"]), {**stored["uses"]}
        self.drained = frozenset(self.store.recall("drained") or ())
        self.paused, self.scaled = self.store.recall("paused") or {}, self.store.recall("scaled") or {}
        self.health.failed_boots = dict(self._facts_stored["failed_boots"])
        self.trials.records = {trial.key: trial for trial in self.store.trials()}
        for node in self.registry:
            node.listed_by = self.now() + self.settings.intent_settle_s
            if node.condemned:
                self.tell(f"black hole {node.name}", f"{node.condemned}: drained for good")
        self.follow_sites()
        self.follow_limits()
        if self.store.notice:
            self.tell("store", self.store.notice)
            self.lost_until = self.now() + self.settings.intent_settle_s

    def follow_sites(self) -> None:
        """Look after the nodes whose site is not configured, as after a change of the access key."""
        if any(node.site not in self.clouds for node in self.registry):
            from elastiq.sites import follow

            follow(self.registry, self.settings, self.clouds)

    def follow_limits(self) -> None:
        """Keep a ledger while a limit of launches or cost is set."""
        s, store = self.settings, self.store
        if self.ledger is None and any((s.max_launches_per_hour, s.max_cost_per_hour, s.max_cost_per_day)):
            from elastiq import history, limits

            self.ledger = limits.Ledger(store.recall("ledger"), self.now(), self.wall(), history.lines(store, 10**6))

    def persist(self) -> None:
        """Log, count and store what changed since the last time."""
        moves, self.registry.moves = self.registry.moves, []
        for move in moves:
            self._moved(move)
        self.stored(partial(self._store_changes, [move for move in moves if move.legal]))

    def _store_changes(self, moves: list[Move]) -> None:
        registry, store = self.registry, self.store
        if registry.touched or moves:
            lines = [(move.at, move.after.value, move.node.name, move.node.pool, move.reason) for move in moves]
            store.save(registry.touched.values(), lines)
            registry.touched.clear()
        if self.trials.changed:
            store.replace_trials(self.trials.records.values())
            self.trials.changed = False
        strangers = {name: stranger.number for name, stranger in registry.strangers.items()}
        learned, failed_boots, uses = registry.learned, self.health.failed_boots, registry.uses.seen
        facts: dict[str, dict[Any, Any]] = {"learned": learned, "strangers": strangers}
        facts.update(failed_boots=failed_boots, uses=uses)
        for key, value in facts.items():
            if value != self._facts_stored[key]:
                store.remember(key, learned_to_json(learned) if key == "learned" else value)
                self._facts_stored[key] = dict(value)
        registry.stranger_numbers = strangers
        if self.ledger is not None and self.ledger.is_due():
            store.remember("ledger", self.ledger.stored(self.wall()))
        if self.store_broken:
            store.remember("last_failure", [self.wall(), 65_536 * " "])  # a write that shows that there is room again
            self.store_broken = False
            self.tell("store", "")

    def _moved(self, move: Move) -> None:
        node, before, after = move.node, move.before, move.after
        if not move.legal:
            from elastiq.faults import illegal

            return illegal(self, move)
        facts = {key: getattr(node, key) for key in ("id", "instance_id", "pool", "flavour")}
        facts.update(node=node.name, before=before.value, after=after.value, reason=move.reason)
        level = logging.DEBUG if {before, after} == IN_SERVICE else logging.INFO  # jobs come and go
        level = logging.WARNING if after in (State.LOST, State.FAILED) else level
        self.say("node", f"{node.name} ({node.pool}): {before.value} -> {after.value}: {move.reason}", level, **facts)
        self.count(f"moves_{after.value}")
        if before is State.IDLE and after is State.DRAINING:
            self.registry.uses.ends(node, move.at)
        elif before is State.REQUESTED and after in AT_BOOT:
            self.registry.uses.launched(node)
        elif before in {*TO_COME, State.FAILED} and after in IN_SERVICE:
            self.health.boot_joined(node.pool)
        elif before in AT_BOOT and after in SPENT and not node.ordered:
            from elastiq.failed_boots import failed

            failed(self, node.pool)
        if after not in (State.GONE, State.FAILED, State.STOPPED):
            return
        for kind in TOLD_OF_NODES:
            for name in (node.id, node.instance_id, node.intent):
                self._told.pop(f"{kind} {name}", None)
        groups, node.groups = node.groups, {}
        if any(self.trials.standing(key) is Standing.TRYING for key in groups):
            from elastiq.untried import give_back

            give_back(self.registry, self.trials, node, groups)
