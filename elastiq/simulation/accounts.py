"""What the machines of a simulated world cost: the time they ran, and what they did meanwhile."""

from __future__ import annotations

from typing import Callable, Optional

from elastiq.simulation.model import Machine, Tally

# What a machine that is billed does: it is no worker (yet), a worker without a job, or one with some.
BOOTING, IDLE, BUSY = "booting", "idle", "busy"


class Accounts:
    """The bookkeeping half of a `World`."""

    tally: Tally
    machines: dict[str, Machine]
    on_bill: Callable[[Machine], object]  # told of each run of a machine when it begins
    on_billed: Callable[[Machine, float], object]  # and when it ends, with the seconds that it took

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        raise NotImplementedError

    def _bill(self, machine: Machine) -> None:
        """From now on it costs."""
        machine.billed_since = self.now
        self._enter(machine, BOOTING)
        self.on_bill(machine)

    def _used(self, machine: Machine) -> None:
        if machine.phase and machine.phase != BUSY:
            self._enter(machine, BUSY)

    def _unused(self, machine: Machine) -> None:
        if machine.phase:
            self._enter(machine, BOOTING if machine.worker is None else IDLE)

    def _account(self, machine: Machine) -> None:
        """Machine time is what is billed: from "running" to the request to end it."""
        if machine.billed_since is not None:
            self._enter(machine, "")
            self.on_billed(machine, self.now - machine.billed_since)
            machine.billed_since = None

    def _enter(self, machine: Machine, phase: str, now: Optional[float] = None) -> None:
        now, tally = self.now if now is None else now, self.tally
        if machine.phase:
            tally.spent_s[machine.phase] += now - machine.phase_since
            tally.machines[machine.phase] -= 1
        if phase:
            tally.machines[phase] += 1
        machine.phase, machine.phase_since = phase, now

    def settle_accounts(self, until: Optional[float] = None) -> Tally:
        """The tally up to now, or a monotonic time since which nothing has changed, with what still runs."""
        for machine in self.machines.values():
            self._enter(machine, machine.phase, until)
        return self.tally
