"""How HTCondor places jobs on machines, as far as it can be set there: it decides how soon a machine becomes idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NamedTuple, Optional

from elastiq.interfaces import Resources, request_fits
from elastiq.options import Kind, Option
from elastiq.simulation.room import more_than_half
from elastiq.whatif.terms import Result

# Of each: how a simulated world calls it, and for a person which machine a job goes to.
PLACEMENTS = {
    "fullest": ("fullest", "the machine with the fewest free cores, as HTCondor's default is"),
    "oldest": ("of the smallest", "the oldest machine of the smallest size that has room"),
    "emptiest": ("emptiest", "the machine with the most free cores"),
}
DEFAULT = "fullest"
ANY, MORE_THAN_HALF = "any", "more-than-half"
STARTS = (ANY, MORE_THAN_HALF)
# As keys of --set and --sweep. No section of a file has this name.
SECTION = ""
OPTIONS = (
    Option("placement", Kind.CHOICE, DEFAULT, choices=tuple(PLACEMENTS)),
    Option("start", Kind.CHOICE, ANY, choices=STARTS),
)

# The same text as in docs/htcondor.md and packaging/htcondor/elastiq-placement.conf, which have the reasons.
OLDEST_FIRST = (
    "NEGOTIATOR_PRE_JOB_RANK = "
    "1.0e13 * MY.Rank - 1.0e12 * (RemoteOwner =!= undefined) - 1.0e6 * TotalCpus + time() - DaemonStartTime"
)
DOCS = "docs/htcondor.md"
WORTH = 0.02  # of the cost, below which it is not said: another seed might take it back


class Way(NamedTuple):
    """Values of `OPTIONS`."""

    placement: str = DEFAULT
    start: str = ANY

    @property
    def own_size(self) -> bool:
        return self.start == MORE_THAN_HALF

    def changed(self, values: Mapping[str, str]) -> Way:
        """By what is said of it; other keys are not its own."""
        return Way(values.get("placement", self.placement), values.get("start", self.start))

    def __str__(self) -> str:
        return f"placement = {self.placement}, start = {self.start}"


def words(placement: str, own_size: bool) -> str:
    """What is assumed of it."""
    others = "" if placement != DEFAULT or own_size else "; others: --placement, --start"
    starts = ", which starts only jobs of more than half of its cores" if own_size else ""
    return f"a job goes to {PLACEMENTS[placement][1]}{starts}{others}"


def starts(request: Resources, machine: Resources, own_size: bool) -> bool:
    """Whether an empty machine runs such a job."""
    return request_fits(request, machine)[0] and (not own_size or more_than_half(request.cpus, machine))


@dataclass(frozen=True)
class OldestFirst:
    """The same settings with the oldest machine first, which costs less."""

    present: Result
    result: Result


def oldest_first(present: Result, oldest: Result) -> Optional[OldestFirst]:
    """If it is worth its while: it costs less by `WORTH`, in machine-hours where no prices are known, and does all
    that is done now."""
    if oldest.jobs_done < present.jobs_done or oldest.left_jobs > present.left_jobs:
        return None
    now, then = present.machine_hours, oldest.machine_hours
    if present.cost is not None and oldest.cost is not None:
        now, then = present.cost, oldest.cost
    return OldestFirst(present, oldest) if now and then <= (1.0 - WORTH) * now else None
