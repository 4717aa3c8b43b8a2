"""What a simulation assumes, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from elastiq.interfaces import Resources


@dataclass(frozen=True)
class Assumed:
    """What neither the configuration nor the trace tells.

    ``boot_s``: seconds from a launch until the machine is a worker, a range from and to from which each is drawn.
    ``flavours``: what a machine of each flavour has. ``prices``: of an hour, by pool and flavour; where there is none
    the cost is not known. ``billed_s``: a machine's time is paid in units of so many seconds. ``placement``: which
    machine a job goes to, one of `whatif.placing.PLACEMENTS`. ``own_size``: machines start only jobs of more than half
    of their cpus.
    """

    flavours: Mapping[str, Resources]
    prices: Mapping[tuple[str, str], float] = field(default_factory=dict)
    boot_s: tuple[float, float] = (120.0, 120.0)
    billed_s: float = 1.0
    seed: int = 1
    placement: str = "fullest"
    own_size: bool = False


@dataclass(frozen=True)
class Result:
    """What became of a trace under one configuration. Waits are seconds from submission to the (first) start, of the
    jobs that started; None where none did. Machine hours are those which are billed: from the launch to the request
    to end it, for each machine."""

    jobs: int  # of the trace
    jobs_done: int
    mean_wait_s: Optional[float]
    median_wait_s: Optional[float]
    p95_wait_s: Optional[float]
    mean_slowdown: Optional[float]  # bounded: (wait + run) / max(run, 10 s), at least 1
    machine_hours: float
    idle_machine_hours: float  # of these: a worker on which no job ran
    boot_machine_hours: float  # of these: not a worker yet
    peak_vms: int
    launches: int
    cost: Optional[float]  # None: of some machine no price is known
    unmatchable_jobs: int  # that no flavour fits
    cancelled_jobs: int  # removed while they waited
    killed_jobs: int  # by elastiq: 0, or there is a bug
    left_jobs: int  # not started at the end, though a flavour fits
    bad_lines: int
    left_out: int  # jobs of the trace of which too little is known
    simulated_s: float
    held_jobs: int = 0  # of the jobs left: they waited for others that never ended
    settings: Mapping[str, str] = field(default_factory=dict)  # what this run changed of the configuration

    def as_dict(self) -> dict[str, Any]:
        """For JSON; ``settings`` only where there are some."""
        found = {key: value for key, value in vars(self).items() if key != "settings"}
        return {**found, "settings": dict(self.settings)} if self.settings else found
