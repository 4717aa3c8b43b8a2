"""What each single change does: elastiq's default with one thing different, on the same seeds. For docs/policy.md."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Callable, Mapping, Sequence, Union

from benchmarks.policy import measure
from benchmarks.policy.bound import Bounds, bounds
from benchmarks.policy.elastiq_rule import Elastiq
from benchmarks.policy.ground import Played, Workload, play

OWN = "own"


@dataclass(frozen=True)
class Experiment:
    """``flavours``: cores of each, or `OWN`: one for each size that a job of the workload has."""

    what: str
    changed: Mapping[str, str] = field(default_factory=dict)
    placement: str = "fullest"
    flavours: Union[Sequence[float], str] = ()
    own_size: bool = False


SIZES = tuple(2.0**n for n in range(8))
EXPERIMENTS = (
    Experiment("the default"),
    *(Experiment(f"idle_for_time_s = {s}", {"idle_for_time_s": s}) for s in ("15", "30", "60", "120", "300", "3600")),
    *(Experiment(f"waiting_jobs_time_s = {s}", {"waiting_jobs_time_s": s}) for s in ("40", "120", "300")),
    Experiment("check_queue_every_s = 5", {"check_queue_every_s": "5"}),
    Experiment("one hot spare: min_idle_vms = 1", {"min_idle_vms": "1"}),
    Experiment("consolidate = yes", {"consolidate": "yes"}),
    Experiment("the oldest machine first", placement="oldest"),
    Experiment("the emptiest machine first", placement="emptiest"),
    Experiment("a job where it prolongs least", placement="end"),
    Experiment("the oldest first, and consolidate = yes", {"consolidate": "yes"}, "oldest"),
    Experiment("flavours of 1, 2, 4, 8 ... cores", flavours=SIZES),
    Experiment("flavours, the oldest machine first", placement="oldest", flavours=SIZES),
    Experiment("flavours, START of more than half", flavours=SIZES, own_size=True),
    Experiment("flavours of the jobs' own sizes", flavours=OWN),
)


def shaped(workload: Workload, flavours: Union[Sequence[float], str], placement: str) -> Workload:
    """The workload with these machines. Of small ones it may have more."""
    if flavours == OWN:
        sizes = sorted({job.request.cpus or 1.0 for job in workload.jobs})
    else:
        sizes = [float(size) for size in flavours if float(size) <= workload.cpus]
    most = int(workload.max_vms * workload.cpus) if sizes else workload.max_vms
    return replace(workload, flavours=tuple(sizes), max_vms=most, placement=placement)


def tried(make: Callable[[int], Workload], seeds: Sequence[int]) -> list[measure.Measured]:
    """A row for each experiment."""
    rows = []
    for one in EXPERIMENTS:
        plays: list[Played] = []
        least: list[Bounds] = []
        for seed in seeds:
            workload = replace(shaped(make(seed), one.flavours, one.placement), own_size=one.own_size)
            runner = Elastiq(workload, seed, one.changed)
            plays.append(play(workload, runner.world, runner))
            least.append(bounds(workload.jobs, workload.cpus, fmean(workload.boot_s), bool(workload.flavours)))
        rows.append(measure.measured(one.what, plays, least))
    return rows


def table(rows: Sequence[measure.Measured]) -> list[tuple[str, ...]]:
    """What each changes against the first."""
    lines: list[tuple[str, ...]] = [("", "hours", "change", "ratio", "wait s", "p95 s", "launches")]
    for row in rows:
        change = f"{100 * (row.cost_h / rows[0].cost_h - 1):+.1f} %"
        waits = (f"{row.mean_wait_s:.1f}", f"{row.p95_wait_s:.1f}")
        lines.append((row.rule, f"{row.cost_h:.2f}", change, f"{row.ratio:.3f}", *waits, f"{row.launches:.1f}"))
    return lines
