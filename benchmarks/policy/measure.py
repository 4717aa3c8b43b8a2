"""One number of each kind for each rule: the mean over the seeds and their spread, and who is on the frontier."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any, Sequence

from benchmarks.policy.bound import Bounds, of_starts
from benchmarks.policy.ground import Played

# Two rules are as good as each other within so much: less than the seeds differ, and than anybody would pay for.
SAME_COST, SAME_WAIT_S = 0.005, 1.0


@dataclass(frozen=True)
class Measured:
    """What one rule made of one workload, over the seeds. Hours are those of machines of the workload's ``cpus``; the
    ratios are those of the cost to `Bounds.at_boot`, and to the least cost of the waits that the rule had."""

    rule: str
    cost_h: float
    cost_spread: float
    mean_wait_s: float
    wait_spread_s: float
    p95_wait_s: float
    ratio: float
    ratio_spread: float
    own_ratio: float
    launches: float
    peak: int
    unfinished: int
    killed: int
    on_frontier: bool = False
    dominated_by: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def measured(rule: str, plays: Sequence[Played], least: Sequence[Bounds]) -> Measured:
    """The plays of a rule, one of each seed, beside the bounds of the same seeds."""
    costs = [play.cost_h for play in plays]
    ratios = [cost / bound.at_boot for cost, bound in zip(costs, least)]
    waits = [fmean(play.waits_s) if play.waits_s else math.inf for play in plays]
    own = [play.cost_h / own_bound_h(play) for play in plays if play.runs]
    return Measured(
        rule,
        fmean(costs),
        _spread(costs),
        fmean(waits),
        _spread(waits),
        fmean(quantile(play.waits_s, 0.95) for play in plays),
        fmean(ratios),
        _spread(ratios),
        fmean(own) if own else math.inf,
        fmean(play.launches for play in plays),
        max(play.peak for play in plays),
        sum(play.unfinished for play in plays),
        sum(play.killed for play in plays),
    )


def own_bound_h(play: Played) -> float:
    """The least machine hours at which jobs can start when they did, with the shortest boot that there is."""
    workload = play.workload
    if workload.flavours:
        cores = [(start, end, 1.0) for start, end, cpus in play.runs for _ in range(math.ceil(cpus))]
        return of_starts(cores, 1.0, workload.boot_s[0]) / workload.cpus
    return of_starts(play.runs, workload.cpus, workload.boot_s[0])


def with_frontier(rows: Sequence[Measured]) -> list[Measured]:
    """Who is dominated, and by whom: by one that is better in cost or mean wait, and not worse in the other."""
    found = []
    for row in rows:
        better = next((other.rule for other in rows if dominates(other, row)), "")
        found.append(Measured(**{**asdict(row), "on_frontier": not better, "dominated_by": better}))
    return found


def dominates(one: Measured, other: Measured) -> bool:
    """Whether it is better on one axis by more than the noise, and on the other not worse at all. What did not run all
    jobs is better than nobody."""
    if one.unfinished or one.killed:
        return False
    cheaper = one.cost_h < other.cost_h * (1 - SAME_COST)
    sooner = one.mean_wait_s < other.mean_wait_s - SAME_WAIT_S
    return (cheaper and one.mean_wait_s <= other.mean_wait_s) or (sooner and one.cost_h <= other.cost_h)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _spread(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


HEAD = ("rule", "hours", "±", "ratio", "±", "to own", "wait s", "±", "p95 s", "launches", "frontier")


def table(rows: Sequence[Measured], least: Sequence[Bounds]) -> list[tuple[str, ...]]:
    """For people; the cheapest first."""
    lines: list[tuple[str, ...]] = [HEAD]
    for row in sorted(rows, key=lambda row: row.cost_h):
        note = "yes" if row.on_frontier else f"no: {row.dominated_by}"
        note += f"; {row.unfinished} JOBS LEFT" if row.unfinished else ""
        note += f"; {row.killed} JOBS KILLED" if row.killed else ""
        lines.append(
            (
                row.rule, f"{row.cost_h:.2f}", f"{row.cost_spread:.2f}", f"{row.ratio:.3f}", f"{row.ratio_spread:.3f}",
                f"{row.own_ratio:.3f}", f"{row.mean_wait_s:.1f}", f"{row.wait_spread_s:.1f}", f"{row.p95_wait_s:.1f}",
                f"{row.launches:.1f}", note,
            )
        )  # fmt: skip
    bound, work = fmean(b.at_boot for b in least), fmean(b.floor for b in least)
    unit = "cores" if any(b.any_size for b in least) else "machines"
    peak = f"at most {max(b.peak for b in least)} {unit} at once"
    lines.append(("bound at wait = boot", f"{bound:.2f}", "", "1", "", "", "", "", "", "", peak))
    lines.append(("the work alone", f"{work:.2f}", "", f"{work / bound:.3f}", "", "", "", "", "", "", ""))
    return lines


def aligned(lines: Sequence[Sequence[str]], markdown: bool = False) -> str:
    """The first and the last column to the left, numbers to the right."""
    if markdown:
        rule = ["---", *["---:"] * (len(lines[0]) - 2), "---"]
        return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join(
        "  "
        + "  ".join(
            cell.ljust(width) if place in (0, len(widths) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )
