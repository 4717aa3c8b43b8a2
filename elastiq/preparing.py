"""What a batch system has to be told of machines before they can join, and after their end (Slurm, Grid Engine, PBS).
Imported for one that has to.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterator

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import Cloud, Instance, InstanceState, Intent, SourceError, TransientError
from elastiq.nodes import AT_BOOT, Node, State

RETRY_S = 30.0
LONGEST_RETRY_S = 600.0
STORED = "records"
IN_FLIGHT = float("inf")


class Records:
    """Lets the batch system know machines, and forget them; what fails is asked for again, after a restart too.

    On the decision thread.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[str, frozenset[str]] = {}  # by instance id: the addresses that it was registered with
        self._ended: dict[str, dict[str, Any]] = dict(core.store.recall(STORED) or {})  # by id: what is to be forgotten
        self._failures: dict[str, int] = {}
        self._retry_at: dict[str, float] = {}  # monotonic

    def launching(self, cloud: Cloud, intent: Intent) -> tuple[Instance, ...]:
        """A launch, once the batch system is ready for it. A call to the outside: in any thread."""
        try:
            self._core.batch.prepare(intent)
        except SourceError as exc:
            raise TransientError(f"the batch system was not ready for a launch: {exc}", launched_nothing=True) from exc
        return cloud.launch(intent)

    def follow(self) -> None:
        """Register machines that boot, and go on with what failed. After each plan."""
        now = self._core.now()
        for node in self._core.registry:
            name = node.instance_id
            back = node.state not in (State.STOPPED, State.GONE)
            if back and name in self._ended and self._retry_at.get(name) != IN_FLIGHT:  # it was stopped, and started
                self._forgotten(name)
            if node.state in AT_BOOT and name and node.addresses and self._known.get(name) != node.addresses:
                if self._retry_at.get(name, 0.0) <= now:
                    self._register(node, name, node.addresses)
        for name in [name for name in self._ended if self._retry_at.get(name, 0.0) <= now]:
            self._forget(name)

    def forget(self, node: Node) -> None:
        """Its instance is gone, or was stopped."""
        name = node.instance_id or node.id
        self._known.pop(name, None)
        self._clear(name)
        self._core.tell(f"register {node.name}", "")
        self._ended[name] = {
            "worker": node.worker, "addresses": sorted(node.addresses), "flavour": node.flavour, "pool": node.pool
        }  # fmt: skip
        self._store()
        self._forget(name)

    # ------------------------------------------------------------------ one machine

    def _register(self, node: Node, name: str, addresses: frozenset[str]) -> None:
        def registered() -> None:
            self._known[name] = addresses

        state, flavour, pool = InstanceState.PENDING, node.flavour, node.pool
        instance = node.instance or Instance(name, state, addresses, flavour=flavour, pool=pool)
        self._act(name, f"register {node.name}", partial(self._core.batch.register, instance), registered)

    def _forget(self, name: str) -> None:
        """What is another machine's by now is left alone."""
        ended, batch = self._ended[name], self._core.batch
        worker, addresses = ended["worker"], frozenset(ended["addresses"])
        if any(addresses & node.addresses or worker in (node.worker or "-",) for node in self._others(name)):
            return self._forgotten(name)
        instance = Instance(name, InstanceState.TERMINATED, addresses, flavour=ended["flavour"], pool=ended["pool"])

        def both() -> None:
            if worker is not None:
                batch.forget(worker)
            batch.unregister(instance)

        self._act(name, f"forget {worker or name}", both, partial(self._forgotten, name))

    def _others(self, name: str) -> Iterator[Node]:
        return (node for node in self._core.registry if name not in (node.instance_id, node.id))

    def _forgotten(self, name: str) -> None:
        self._ended.pop(name, None)
        self._clear(name)
        self._store()

    def _store(self) -> None:
        self._core.stored(partial(self._core.store.remember, STORED, self._ended))

    # ------------------------------------------------------------------ one act

    def _act(self, name: str, what: str, call: Callable[[], None], done: Callable[[], None]) -> None:
        core = self._core
        self._retry_at[name] = IN_FLIGHT

        def answered(outcome: Outcome[None]) -> None:
            self._retry_at.pop(name, None)
            if outcome.error is None:
                core.tell(what, "")
                self._clear(name)
                return done()
            failures = self._failures[name] = self._failures.get(name, 0) + 1
            self._retry_at[name] = core.now() + min(LONGEST_RETRY_S, RETRY_S * 2 ** min(failures - 1, 10))
            core.count("record_errors")
            core.tell(what, f"{core.explain(outcome.error)}: asked again")

        core.act_on_batch(name, call, answered)

    def _clear(self, name: str) -> None:
        self._failures.pop(name, None)
        self._retry_at.pop(name, None)
