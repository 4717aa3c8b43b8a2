"""Scenarios bent towards what a mutant gets wrong: more of some happenings, other settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable

from elastiq.simulation.scenario import Happening, Scenario

Bend = Callable[[Scenario], Scenario]


def often(kind: str, times: int = 4, **args: Any) -> Bend:
    """A kind of happening so many times, spread over the scenario."""

    def bend(scenario: Scenario) -> Scenario:
        step_s = scenario.calm_at_s / (times + 1)
        more = [
            Happening(round(step_s * (n + 0.5), 1), kind, args, f"{scenario.seed}.{kind}.{n}") for n in range(times)
        ]
        return _with(scenario, more)

    return bend


def throughout(kind: str, **args: Any) -> Bend:
    """A kind of happening from the first second on, as long as the scenario lasts."""

    def bend(scenario: Scenario) -> Scenario:
        lasting = {**args, "for_s": round(scenario.calm_at_s, 1)}
        return _with(scenario, [Happening(0.0, kind, lasting, f"{scenario.seed}.{kind}")])

    return bend


def setting(**changed: Any) -> Bend:
    """Other settings; ``pool_*`` are the first pool's, ``pools_*`` all pools'."""

    def bend(scenario: Scenario) -> Scenario:
        of_pool = {name[5:]: value for name, value in changed.items() if name.startswith("pool_")}
        of_all = {name[6:]: value for name, value in changed.items() if name.startswith("pools_")}
        plain = {name: value for name, value in changed.items() if not name.startswith(("pool_", "pools_"))}
        first, *others = (replace(pool, **of_all) for pool in scenario.settings.pools)
        settings = replace(scenario.settings, pools=(replace(first, **of_pool), *others), **plain)
        return replace(scenario, settings=settings)

    return bend


def only(*happenings: tuple[float, str, dict[str, Any]], calm_at_s: float, **other: Any) -> Bend:
    """Nothing but these, each at its second; ``other`` is of the scenario."""

    def bend(scenario: Scenario) -> Scenario:
        placed = [Happening(at_s, kind, args, f"{scenario.seed}.{at_s}.{kind}") for at_s, kind, args in happenings]
        return replace(scenario, happenings=tuple(placed), calm_at_s=calm_at_s, **other)

    return bend


def both(*bends: Bend) -> Bend:
    """One after the other."""

    def bend(scenario: Scenario) -> Scenario:
        for one in bends:
            scenario = one(scenario)
        return scenario

    return bend


def jobs(times: int = 4, count: int = 12, length_s: float = 400.0) -> Bend:
    """Bursts of the same small jobs."""
    return often("jobs", times, cpus=1.0, memory_mb=1024.0, lengths=[length_s + 7.0 * n for n in range(count)])


def _with(scenario: Scenario, more: list[Happening]) -> Scenario:
    happenings = sorted((*scenario.happenings, *more), key=lambda one: one.at_s)
    calm_at_s = max(scenario.calm_at_s, max(one.ends_s for one in happenings) + 120.0)
    return replace(scenario, happenings=tuple(happenings), calm_at_s=calm_at_s)
