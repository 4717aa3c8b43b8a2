"""The judge of what a batch system is told of machines: only of ours, while they are there, and not for good."""

from __future__ import annotations

from elastiq.simulation.book import ENDED
from elastiq.simulation.checker import Checker
from elastiq.simulation.liveness import LONGEST_BACKOFF_S
from elastiq.simulation.witness import Listener, Record

# A machine has ended, and still its worker is expected: its end has to be seen, a call that hangs is given up, and
# one that failed is asked again.
LEFT_AT_MOST_S = 2 * LONGEST_BACKOFF_S + 600.0


class Registrations(Listener):
    """``calm_at_s``: since the start; nothing fails any more."""

    def __init__(self, checker: Checker, calm_at_s: float) -> None:
        self._checker, self._calm_at_s = checker, calm_at_s
        self._left: dict[str, float] = {}  # since when the worker of an ended machine is expected
        self._started: dict[str, float] = {}  # when a machine was last asked to start again

    def called(self, record: Record) -> None:
        """A call of the daemon arrives there: I3, I6."""
        if record.name == "start":
            self._started.update(dict.fromkeys(record.args[0], self._checker.world.now))
        if record.name not in ("register", "unregister"):
            return
        instance, checker = record.args[0], self._checker
        machine = checker.world.machines.get(instance.id)
        if machine is not None and instance.id not in checker.book.ours:
            checker.fail("I3", f"{record.name} of {instance.id}, which is not ours")
        elif record.name == "register" and not instance.addresses:
            checker.fail("I6", f"register of {instance.id}, whose address is not known")
        elif record.name == "unregister" and machine is not None:
            since = self._started.get(instance.id, record.decided_s)
            if machine.state.value not in ENDED and not machine.stopped and record.decided_s >= since:
                checker.fail("I6", f"unregister of {instance.id}, which is there")

    def look(self) -> None:
        """I4: what is left behind would wait for the next machine with that address."""
        world, book = self._checker.world, self._checker.book
        expected = set(world.registered.values())
        there = {name for name, machine in world.machines.items() if not machine.ended}
        known = {name for name in expected - there if book.born.get(name, 0.0) >= book.store_since}
        self._left = {name: self._left.get(name, world.clock.elapsed_s) for name in known}
        for name, since_s in self._left.items():
            if world.clock.elapsed_s > max(since_s, self._calm_at_s) + LEFT_AT_MOST_S:
                self._checker.fail("I4", f"{name} has ended, and the batch system still expects its worker")
