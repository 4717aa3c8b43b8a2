"""What the machines of a simulated world cost: the time they ran, and the part of it without a job."""

from __future__ import annotations

from elastiq.simulation.model import Machine, Tally


class Accounts:
    """The bookkeeping half of a `World`."""

    tally: Tally
    machines: dict[str, Machine]

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        raise NotImplementedError

    def _used(self, machine: Machine) -> None:
        if machine.unused_since is not None:
            self.tally.unused_s += self.now - machine.unused_since
            machine.unused_since = None

    def _unused(self, machine: Machine) -> None:
        if machine.billed_since is not None and machine.unused_since is None:
            machine.unused_since = self.now

    def _account(self, machine: Machine) -> None:
        """Machine time is what is billed: from "running" to the request to end it."""
        self._used(machine)
        if machine.billed_since is not None:
            self.tally.machine_s += self.now - machine.billed_since
            machine.billed_since = None

    def settle_accounts(self) -> Tally:
        """The tally up to now, with what still runs."""
        for machine in self.machines.values():
            running, unused = machine.billed_since is not None, machine.unused_since is not None
            self._account(machine)
            machine.billed_since = self.now if running else None
            machine.unused_since = self.now if unused else None
        return self.tally
