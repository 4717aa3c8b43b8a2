"""The limits that hold at a moment: those of the file, then of the schedules in force, then what a person set by
`elastiqctl scale N`: so many machines at least, of the cluster or of a pool, until `elastiqctl scale auto`.

Imported where one of the latter is set. What a person set outlives a restart; max_vms is the stronger.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Mapping

from elastiq.core import Core
from elastiq.protocol import Refused
from elastiq.quotas import contradictions
from elastiq.settings import Settings


def limits_now(core: Core) -> Settings:
    """The settings with the limits that hold now. The same object as long as none changes where nothing is scaled."""
    settings = scheduled(core)
    core.tell("scale", told(settings, core.scaled), logging.INFO)
    return held(settings, core.scaled) if core.scaled else settings


def scheduled(core: Core) -> Settings:
    """The settings with the limits of the schedules that are in force."""
    if not core.settings.schedules:
        return core.settings
    from elastiq.schedule import in_force

    return in_force(core.settings, core.wall())


def held(settings: Settings, scaled: Mapping[str, int]) -> Settings:
    """The settings with these numbers as their min_vms, as far as max_vms allows; the cluster's is under an empty
    name."""
    pools = tuple(
        replace(pool, min_vms=_at_most(scaled[pool.name], pool.max_vms)) if pool.name in scaled else pool
        for pool in settings.pools
    )
    least = _at_most(scaled[""], settings.max_vms) if "" in scaled else settings.min_vms
    return replace(settings, pools=pools, min_vms=least)


def _at_most(number: int, most: Any) -> int:
    return number if most is None else min(number, int(most))


def told(settings: Settings, scaled: Mapping[str, int]) -> str:
    """What a person should know of it; empty if nothing is scaled."""
    most = {"": settings.max_vms, **{pool.name: pool.max_vms for pool in settings.pools}}
    parts = []
    for name, number in sorted(scaled.items()):
        text = f"{f'pool {name}' if name else 'the cluster'} is held at {number} or more machines"
        if name not in most:
            text += ", but is not configured any more"
        elif _at_most(number, most[name]) < number:
            text += f", but max_vms is {most[name]} now"
        parts.append(text + f", until elastiqctl scale auto{f' --pool {name}' if name else ''}")
    return "; ".join(parts)


def change(core: Core, args: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out ``scale``; the next plan does what follows from it. Raises `Refused`."""
    name, number = args.get("pool") or "", args.get("vms")
    if not isinstance(name, str) or not (number is None or (type(number) is int and number >= 0)):
        raise Refused("malformed", '"vms" is a number of machines, or null for none; "pool" is the name of a pool')
    scaled = {key: value for key, value in core.scaled.items() if key != name}
    if number is not None:
        _refuse(core, name, number, scaled)
        scaled[name] = number
    elif name and name not in core.scaled and core.settings.pool(name) is None:
        raise Refused("impossible", _no_pool(core, name))
    if scaled != core.scaled:
        if not core.stored(lambda: core.store.remember("scaled", scaled)):
            raise Refused("impossible", "the state cannot be written (see elastiqctl status): nothing was changed")
        core.scaled = scaled
        core.tell("scale", told(scheduled(core), scaled), logging.INFO)
        what = f"elastiqctl scale {'auto' if number is None else number}{f' --pool {name}' if name else ''}"
        core.record("scale", "", name, what)
        core.say("command", f"{what}: done", logging.WARNING, verb="scale", pool=name, reason=what)
    return {"scaled": dict(scaled)}


def _refuse(core: Core, name: str, number: int, others: Mapping[str, int]) -> None:
    """Raises `Refused` where it cannot be."""
    settings = scheduled(core)
    pool = settings.pool(name)
    if name and pool is None:
        raise Refused("impossible", _no_pool(core, name))
    if name in core.drained:
        raise Refused("impossible", f"pool {name} is out of service: elastiqctl undrain-pool {name} comes first")
    most = settings.max_vms if pool is None else pool.max_vms
    whose = f"pool {name}'s" if name else "the cluster's"
    if most is not None and number > most:
        raise Refused("impossible", f"{number} is above {whose} max_vms, which is {most}: nothing was changed")
    before = [text for _, text in contradictions(held(settings, others))]
    wrong = [text for _, text in contradictions(held(settings, {**others, name: number})) if text not in before]
    if wrong:
        raise Refused("impossible", f"{'; '.join(wrong)}: nothing was changed")


def _no_pool(core: Core, name: str) -> str:
    return f"there is no pool `{name}`; there are {', '.join(pool.name for pool in core.settings.pools)}"
