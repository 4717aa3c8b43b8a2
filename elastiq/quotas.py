"""Limits that contradict each other. Imported only for a configuration with a min_vms or min_idle_vms."""

from __future__ import annotations

from typing import Iterator, Mapping

from elastiq.inifile import Problems
from elastiq.interfaces import Pool
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


def check_quotas(s: Settings, sections: Mapping[str, Pool], all_pools: bool, problems: Problems) -> None:
    """``sections`` are those of the pools. Not ``all_pools``: there are some that could not be read."""
    section_of = {"": "quota", **{pool.name: section for section, pool in sections.items()}}
    for places, text in contradictions(s, all_pools):
        name, key = places[0]
        problems.at(section_of[name], key, text)
