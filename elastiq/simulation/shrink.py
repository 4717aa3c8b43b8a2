"""The shortest list of happenings that still breaks an invariant: delta debugging over what befell the cluster."""

from __future__ import annotations

import time
from typing import Callable, Iterator, Optional, Sequence

from elastiq.interfaces import Resources
from elastiq.settings import Settings
from elastiq.simulation.scenario import Scenario
from elastiq.simulation.trial import Report, replay_command, run

Fails = Callable[[Sequence[int]], bool]


def shrink(scenario: Scenario, invariant: str, limit_s: float = 120.0) -> tuple[int, ...]:
    """The places of the happenings that it takes to break this invariant, as few as are found in the time."""
    end = time.monotonic() + limit_s

    def fails(keep: Sequence[int]) -> bool:
        return time.monotonic() < end and run(scenario, keep).invariant == invariant

    places = range(len(scenario.happenings))
    jobs = [place for place in places if scenario.happenings[place].kind == "jobs"]
    kept = list(places)
    for bulk in (places, jobs):
        without = [place for place in kept if place not in set(bulk)]
        if fails(without):
            kept = without
    return tuple(minimise(kept, fails))


def minimise(kept: Sequence[int], fails: Fails) -> list[int]:
    """Drop halves, quarters, ... and single ones for as long as what is left still fails."""
    kept = list(kept)
    size = max(1, len(kept) // 2)
    while kept:
        smaller = next((rest for rest in _without_parts(kept, size) if fails(rest)), None)
        if smaller is not None:
            kept = smaller
            size = max(1, min(size, len(kept) // 2))
        elif size == 1:
            break
        else:
            size = max(1, size // 2)
    return kept


def _without_parts(kept: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(kept), size):
        yield [*kept[:start], *kept[start + size :]]


def tell(scenario: Scenario, keep: Optional[Sequence[int]] = None) -> str:
    """What a person needs: the broken invariant, what happened, the last events, and how to see it again."""
    report = run(scenario, keep)
    lines = [
        f"seed {report.seed}, profile {report.profile}: " + ("; ".join(map(str, report.violations)) or "no violation")
    ]
    lines += ["", f"settings: {described(scenario)}"]
    lines += ["", f"what befell the cluster ({len(report.happenings)} happenings):"]
    lines += [f"  {one}" for one in report.happenings]
    lines += ["", "the last events:", *(f"  {line}" for line in report.trace)]
    lines += ["", f"again: {replay_command(report, keep)}"]
    return "\n".join(lines)


def described(scenario: Scenario) -> str:
    """What of the settings is not the default."""
    defaults = Settings(scenario.settings.cluster_name)
    pairs = [(name, value) for name, value in vars(scenario.settings).items() if value != getattr(defaults, name)]
    said = [f"{name}={value}" for name, value in pairs if name != "pools"]
    for pool in scenario.settings.pools:
        size = "as flavour" if pool.capacity != Resources() else "unknown"
        limits = f"min {pool.min_vms}, max {pool.max_vms}"
        said.append(f"pool {pool.name}@{pool.site} {'/'.join(pool.flavours)} {pool.networks} size {size}, {limits}")
    said += [f"{name}={getattr(scenario, name)}" for name in ("can_drain", "lease_s", "image", "latency")]
    return "; ".join(said)


def explain(scenario: Scenario, report: Report, limit_s: float = 120.0) -> str:
    """Shrink a failure, and tell it."""
    return tell(scenario, shrink(scenario, report.invariant, limit_s))
