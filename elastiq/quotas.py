"""Limits that contradict each other, and the spare of `prefer = wait`. Imported only for a configuration with that, or
with a min_vms, min_idle_vms or max_vm_lifetime_s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Collection, Iterator, Mapping

from elastiq.inifile import Problems, Section
from elastiq.interfaces import Pool
from elastiq.keys import CORE
from elastiq.settings import Settings

Place = tuple[str, str]  # a pool's name, empty for the cluster, and a key


def contradictions(s: Settings, all_pools: bool = True) -> Iterator[tuple[list[Place], str]]:
    """What is wrong, with the keys that it is about; it is said of the first. What a pool that could not be read
    has room for is not known."""
    most, names = s.max_vms, [pool.name for pool in s.pools]
    if most and s.min_vms > most:
        yield [("", "min_vms"), ("", "max_vms")], f"{s.min_vms} is above max_vms, which is {most}"
    for key in ("min_vms", "min_idle_vms"):
        floors = {pool.name: pool.min_vms if key == "min_vms" else pool.terms.min_idle_vms for pool in s.pools}
        for pool in s.pools:
            if pool.max_vms and floors[pool.name] > pool.max_vms:
                text = f"{floors[pool.name]} is above the pool's max_vms, which is {pool.max_vms}"
                yield [(pool.name, key), (pool.name, "max_vms")], text
        together = sum(floors.values())
        if most and together > most:
            text = f"{most} is below the pools' {key}, which are {together} together"
            yield [("", "max_vms"), *((name, key) for name in names)], text
    room = sum(pool.max_vms or s.min_vms for pool in s.pools)  # one without a limit has room enough
    if s.pools and all_pools and s.min_vms > room:
        text = f"{s.min_vms} is above the pools' max_vms, which are {room} together"
        yield [("", "min_vms"), *((name, "max_vms") for name in names)], text


def keep_a_spare(pools: dict[str, Pool], sections: Mapping[str, Section]) -> None:
    """`prefer = wait`: of the first pool, if it does not say itself how many machines are to be idle. ``pools``: by
    section."""
    for name, pool in list(pools.items())[:1]:
        if "min_idle_vms" not in sections[name].entries:
            pools[name] = replace(pool, terms=replace(pool.terms, min_idle_vms=1))


def check_quotas(
    s: Settings,
    sections: Mapping[str, Pool],
    bad: Collection[Place],
    scheduled: bool,
    problems: Problems,
    warnings: Problems,
) -> None:
    """``sections`` are those of the pools; ``bad``: sections and keys that could not be read; ``scheduled``: there are
    schedules, which may lower a minimum."""
    known = replace(s, max_vms=None) if ("quota", "max_vms") in bad else s
    section_of = {"": "quota", **{pool.name: section for section, pool in sections.items()}}
    for places, text in contradictions(known, {section for section, _ in bad} <= {*CORE}):
        name, key = places[0]
        problems.at(section_of[name], key, text)
    if ("elastiq", "estimated_vm_deploy_time_s") not in bad:
        _check_lifetimes(s, sections, problems)
    if not scheduled and ("quota", "max_vms") not in bad:
        _check_replacements(s, sections, warnings)


def _check_lifetimes(s: Settings, sections: Mapping[str, Pool], problems: Problems) -> None:
    """A machine is to live longer than it boots."""
    for section, pool in sections.items():
        lifetime_s, boot_s = pool.terms.max_vm_lifetime_s, s.estimated_vm_deploy_time_s_of(pool.name)
        if lifetime_s is not None and lifetime_s < boot_s:
            text = f"{lifetime_s:g} is below estimated_vm_deploy_time_s, which is {boot_s:g}; raise it"
            problems.at(section, "max_vm_lifetime_s", text)


def _check_replacements(s: Settings, sections: Mapping[str, Pool], warnings: Problems) -> None:
    """Where a minimum needs a machine that is too old, another has to fit beside it first."""
    full = s.max_vms == max(s.min_vms, sum(pool.min_vms for pool in s.pools))
    for section, pool in sections.items():
        whose = "the pool's" if pool.min_vms == pool.max_vms else "the cluster's" if full else ""
        if whose and pool.terms.max_vm_lifetime_s:
            text = f"ends none that min_vms needs: no other fits beside it, raise {whose} max_vms above min_vms"
            warnings.at(section, "max_vm_lifetime_s", text)
