"""Which values of which keys a search may try."""

from __future__ import annotations

from contextlib import suppress
from typing import Iterable, Iterator, Optional

from elastiq.whatif.assuming import Supposition
from elastiq.whatif.overrides import Change, Keys, OverrideError
from elastiq.whatif.terms import Result

Axis = list[Change]

_OF_BOOT = (0.25, 0.5, 1.0, 2.0)  # idle times, as parts of the time that a machine boots
_IDLE_S = (300, 900, 1800, 3600)
_WAITING_S = (0, 15, 40, 120)
_OF_PEAK = (0.25, 0.4, 0.55, 0.7, 0.85)  # quotas, as parts of what was used
MOST_FLAVOURS = 6


def axes(
    keys: Keys,
    supposed: Supposition,
    present: Result,
    quota_up_to: Optional[int] = None,
    mean_run_s: Optional[float] = None,
) -> list[Axis]:
    """By what they change most. A quota is never above the present one, or what a person allows. ``mean_run_s``: how
    long jobs run, where that is known."""
    settings = supposed.settings
    several = len(settings.pools) > 1
    found = [
        _axis(keys, "elastiq.idle_for_time_s", _idle_s(supposed)),
        *(_axis(keys, name, _idle_s(supposed)) for name in _own(keys, supposed, "idle_for_time_s")),
        *_flavours(keys, supposed),
        *(_axis(keys, name, ("wait", "balanced", "cost")) for name in ("elastiq.prefer", "broker.prefer")),
        _axis(keys, "elastiq.waiting_jobs_time_s", map(str, _WAITING_S)),
        _axis(keys, "elastiq.job_length_s", _lengths_s(supposed, mean_run_s)),
        _axis(keys, "quota.max_vms", _quotas(present.peak_vms, settings.max_vms, quota_up_to)),
    ]
    for pool in settings.pools if several else ():
        most = min((limit for limit in (pool.max_vms, settings.max_vms) if limit is not None), default=None)
        found.append(_axis(keys, f"pool:{pool.name}.max_vms", _quotas(present.peak_vms, most, None)))
    if several or any(len(pool.flavours) > 1 for pool in settings.pools):
        policies = ["cheapest", "least-waste", *(("balance", "priority") if several else ())]
        found.append(_axis(keys, "broker.policy", policies))
    return [axis for axis in found if axis]


def _axis(keys: Keys, name: str, values: Iterable[str]) -> Axis:
    """Those values that the key has, and that are not its present one; none where there is no such key."""
    axis = []
    for value in values:
        with suppress(OverrideError):
            change = keys.change(f"{name}={value}")
            axis += [] if keys.same(change) else [change]
    return axis


def _own(keys: Keys, supposed: Supposition, key: str) -> Iterator[str]:
    """Where pools have a value of their own."""
    for pool in supposed.settings.pools:
        if getattr(pool.terms, key) is not None:
            yield f"pool:{pool.name}.{key}"


def _idle_s(supposed: Supposition) -> list[str]:
    boot_s = sum(supposed.assumed.boot_s) / 2
    found = {max(1, round(boot_s * part)) for part in _OF_BOOT} | set(_IDLE_S)
    return ["auto", *map(str, sorted(found))]


def _lengths_s(supposed: Supposition, mean_run_s: Optional[float]) -> list[str]:
    """That of jobs of which several run in a slot in the time of a boot; and 0, that nothing is said of it."""
    short = mean_run_s is not None and 2 * mean_run_s <= sum(supposed.assumed.boot_s) / 2
    return [str(max(1, round(mean_run_s))), "0"] if short and mean_run_s is not None else ["0"]


def _quotas(peak: int, most: Optional[int], up_to: Optional[int]) -> list[str]:
    """Below what was used, since the rest makes no difference; above it only where that is allowed."""
    found = {max(1, round(peak * part)) for part in _OF_PEAK}
    if up_to is not None and most is not None and up_to > most:
        found |= {up_to, (most + up_to) // 2}
    limit = max((one for one in (most, up_to) if one is not None), default=None)
    return [str(one) for one in sorted(found) if limit is None or one <= limit]


def _flavours(keys: Keys, supposed: Supposition) -> Iterator[Axis]:
    for pool in supposed.settings.pools:
        flavours = pool.flavours[:MOST_FLAVOURS]
        if len(pool.flavours) > 1:
            fewer = [[one for one in flavours if one != left] for left in flavours] if len(flavours) > 2 else []
            several = [", ".join(names) for names in ([*reversed(pool.flavours)], *fewer)]
            yield _axis(keys, f"pool:{pool.name}.flavour", [*flavours, *several])
