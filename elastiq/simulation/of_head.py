"""What befalls the daemon, its disk, its configuration and its head node."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import partial
from typing import Any, Mapping, Optional, TypeVar

from elastiq.commanding import carry_out
from elastiq.interfaces import Pool
from elastiq.settings import Settings
from elastiq.simulation.chance import chance
from elastiq.simulation.kinds import Kind, later
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage

T = TypeVar("T", int, float)


def kill(stage: Stage, it: Happening) -> None:
    """The daemon is killed at its ``number``th operation from now whose name begins with ``at`` ("" for any), at
    the latest after ``for_s``, and started again ``down_s`` later; ``lost``: requests on their way are, too."""
    args = it.args
    stage.arm(args.get("at", ""), args["number"], args["down_s"], args["for_s"], bool(args.get("lost")))


def restart(stage: Stage, it: Happening) -> None:
    """The daemon is stopped as by SIGTERM, and started again ``down_s`` later."""
    stage.reconfigure(stage.settings, it.args["down_s"])


# --------------------------------------------------------------------------- the disk


def disk_trouble(stage: Stage, it: Happening) -> None:
    """For ``for_s`` no write to the store succeeds: the disk is ``how`` "full" or "readonly"."""
    stage.disk_trouble[it.key] = it.args["how"]
    later(stage, it, lambda: stage.disk_trouble.pop(it.key, None))


def store_damaged(stage: Stage, it: Happening) -> None:
    """The daemon is killed and its state file is damaged, ``how``: "removed", "emptied", "truncated",
    "overwritten", "garbage"; it is started again ``down_s`` later."""
    stage.kill_now(it.args["down_s"])
    damage(stage.store_path, it.args["how"], it.key)


def damage(path: str, how: str, key: str) -> None:
    """What crashes and full disks leave of a file."""
    for suffix in ("-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.remove(path + suffix)
    if not os.path.exists(path):
        return
    size = os.path.getsize(path)
    if how == "removed":
        os.remove(path)
    elif how in ("emptied", "truncated"):
        os.truncate(path, 0 if how == "emptied" else int(size * chance(key, "cut")))
    else:
        with open(path, "r+b") as file:
            if how == "garbage":
                file.write(b"\0" * size)
            else:
                file.seek(int(size * chance(key, "place")))
                file.write(bytes(int(256 * chance(key, number)) for number in range(1024)))


# --------------------------------------------------------------------------- the configuration


def reconfigured(stage: Stage, it: Happening) -> None:
    """The configuration changes as in `changed`: by a reload, or by a restart of ``down_s``."""
    stage.reconfigure(changed(stage.settings, it.args["change"]), it.args.get("down_s"))


def changed(settings: Settings, change: Mapping[str, Any]) -> Settings:
    """``remove_pool``: its name (the last pool stays); ``pools``: by name, what of it is other, of its ``terms``, too;
    all else: keys of `Settings`."""
    plain = {name: value for name, value in change.items() if name not in ("pools", "remove_pool")}
    pools = [pool for pool in settings.pools if pool.name != change.get("remove_pool")] or list(settings.pools)
    others = change.get("pools", {})
    return with_room(replace(settings, pools=tuple(_other(pool, others.get(pool.name, {})) for pool in pools), **plain))


def _other(pool: Pool, change: Mapping[str, Any]) -> Pool:
    known: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in change.items()}
    if "terms" in known:
        known["terms"] = replace(pool.terms, **known["terms"])
    after = replace(pool, **known)
    if "flavours" in known or "networks" in known:
        after = replace(after, fingerprint=f"{after.flavours}/{after.networks}")
    return after


def with_room(s: Settings) -> Settings:
    """With one machine above the minimum wherever there is a limit. Without, a minimum made of one flavour keeps
    those out for ever that need another: so configured, that is what was asked for."""
    pools = s.pools
    if s.max_vms is not None and sum(pool.min_vms for pool in pools) >= s.max_vms:
        pools = tuple(replace(pool, min_vms=0) for pool in pools)
    least = s.min_vms if s.max_vms is None else min(s.min_vms, s.max_vms - 1)
    floor = max(least, sum(pool.min_vms for pool in pools))
    spares = sum(pool.terms.min_idle_vms for pool in pools)
    if spares and s.max_vms is not None and floor + spares >= s.max_vms:
        pools, spares = tuple(replace(pool, terms=replace(pool.terms, min_idle_vms=0)) for pool in pools), 0
    floor += spares
    most = [pool.max_vms if pool.max_vms is None else max(pool.max_vms, floor + 1) for pool in pools]
    pools = tuple(replace(pool, max_vms=each) for pool, each in zip(pools, most))
    each = max((price for pool in pools for price in pool.prices.values()), default=0.0)
    return replace(
        s,
        min_vms=least,
        pools=pools,
        max_launches_per_hour=_at_least(s.max_launches_per_hour, floor + 1),
        max_cost_per_hour=_at_least(s.max_cost_per_hour, round(each * (floor + 1), 2)),
        max_cost_per_day=_at_least(s.max_cost_per_day, round(each * (25 * floor + 2), 2)),
    )


def _at_least(limit: Optional[T], least: T) -> Optional[T]:
    return None if limit is None else max(limit, least)


def adopted(stage: Stage, it: Happening) -> None:
    """A person runs ``elastiqctl adopt``, for all instances of another head node that it lists."""
    daemon = stage.daemon
    if daemon is not None and not stage.asleep:
        listed = carry_out(daemon, "adopt", {})["instances"]
        if listed:
            carry_out(daemon, "adopt", {"ids": listed})


# --------------------------------------------------------------------------- the machine


class FailingSink(logging.Handler):
    """A log sink whose disk is full, counted as the service's own sinks count."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.failures += 1


def log_fails(stage: Stage, it: Happening) -> None:
    """For ``for_s`` no record of the log can be written."""
    sink = FailingSink()
    logger = logging.getLogger("elastiq")
    logger.addHandler(sink)
    if stage.core is not None:
        stage.core.log_failures = lambda: sink.failures
    stage.at_end.append(partial(logger.removeHandler, sink))
    later(stage, it, partial(logger.removeHandler, sink))


def clock_steps(stage: Stage, it: Happening) -> None:
    """The head node's wall clock steps by ``by_s``."""
    stage.clock.step_wall(it.args["by_s"])


def head_sleeps(stage: Stage, it: Happening) -> None:
    """The head node is suspended for ``for_s``; ``counts``: its monotonic clock goes on meanwhile."""
    stage.suspend(it.args["for_s"], bool(it.args.get("counts")))


KINDS: Mapping[str, Kind] = {
    "kill": kill,
    "restart": restart,
    "disk_trouble": disk_trouble,
    "store_damaged": store_damaged,
    "reconfigured": reconfigured,
    "adopted": adopted,
    "log_fails": log_fails,
    "clock_steps": clock_steps,
    "head_sleeps": head_sleeps,
}
