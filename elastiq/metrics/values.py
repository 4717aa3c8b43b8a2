"""The values of the metrics: read from the daemon on its decision thread, in a moment and without a call."""

from __future__ import annotations

import platform
from collections import Counter
from typing import TYPE_CHECKING, Any, Mapping, Optional

from elastiq import __version__, status
from elastiq.metrics.families import Value, Values
from elastiq.metrics.reasons import COMING, LAUNCHING, REASONS, ROOM, jobs_waiting
from elastiq.nodes import Node, State
from elastiq.observations import Observation
from elastiq.stopped import is_stopped

if TYPE_CHECKING:
    from elastiq.daemon import Daemon
    from elastiq.settings import Settings

STATES = ("starting", "active", "dry-run", "paused", "stopping")
# What `Core.count` counts of what goes wrong, and its ``kind`` in elastiq_errors_total.
ERRORS = {
    "launch_errors": "launch",
    "terminate_errors": "terminate",
    "drains_unknown": "drain_unknown",
    "drains_refused": "drain_refused",
    "drains_slipped_in": "drain_too_late",
    "forget_errors": "forget",
    "store_errors": "store",
    "handler_faults": "handler_fault",
    "plugin_faults": "plugin_fault",
    "illegal_transitions": "illegal_transition",
    "hook_failures": "hook",
    "hooks_dropped": "hook_dropped",
}

# Of each family, by the values of its labels; None: not known now.
Found = dict[str, Mapping[tuple[str, ...], Optional[float]]]


def values(daemon: Daemon) -> Values:
    """Of the families that show what is now. Unknown is not empty: what is not known has no value."""
    core, settings, now = daemon.core, daemon.settings_now(), daemon.core.now()
    foreign = daemon.observer.foreign() if settings.quota_counts == "all" else 0
    state = status.state(daemon)
    found: Found = {
        "build_info": {(__version__, platform.python_version()): 1},
        "cluster_info": {(settings.cluster_name, core.owner.mark): 1},
        "state": {(one,): one == state for one in STATES},
        "act_allowed": {(act,): not core.off(act) for act in ("launch", "terminate")},
        "published_timestamp_seconds": {(): core.wall()},
        "last_plan_timestamp_seconds": {(): daemon.last_plan_at},
        "last_action_timestamp_seconds": {(): daemon.last_action[0]},
        "notices": {(): len(core.notices)},
        "nodes_counted": {(): len(core.registry) + foreign},
        "nodes_max": {(): settings.max_vms},
        "nodes_min": {(): settings.min_vms},
        "strangers": {(): sum(not one.explained for one in core.registry.strangers.values())},
        "launches_unknown": {(): len(daemon.observer.launching.open)},
        "limit_used": {(one.what.split()[0],): one.used for one in daemon.allowances},
        "limit_left": {(one.what.split()[0],): one.left for one in daemon.allowances},
        "errors_total": {(kind,): core.counters[name] for name, kind in ERRORS.items()},
        "store_writable": {(): not core.store_broken},
        "log_failures_total": {(): core.log_failures()},
        **_observed(daemon, now),
        **_jobs(daemon, now),
        **_nodes(daemon, settings),
        **_pools(daemon, settings, now),
    }
    return {f"elastiq_{name}": known for name, of in found.items() if (known := _known(of))}


def _known(rows: Mapping[tuple[str, ...], Optional[float]]) -> dict[tuple[str, ...], Value]:
    return {labels: float(value) for labels, value in rows.items() if value is not None}


def _observed(daemon: Daemon, now: float) -> Found:
    observer = daemon.observer
    sources: dict[tuple[str, ...], Observation[Any]] = {
        ("queue", ""): observer.jobs,
        ("workers", ""): observer.workers,
        **{("instances", site): seen for site, seen in observer.instances.items()},
    }
    read, views = observer.jobs.value, {site: seen.known(now) for site, seen in observer.instances.items()}
    return {
        "observation_known": {source: seen.known(now) is not None for source, seen in sources.items()},
        "observation_age_seconds": {source: status.age_s(seen, now) for source, seen in sources.items()},
        "observation_failures": {source: seen.failures for source, seen in sources.items()},
        "queue_complete": {(): read.complete if read is not None else None},
        "workers_settled": {(): not observer.settled_why},
        "foreign_instances": {(site,): view.foreign for site, view in views.items() if view is not None},
        "other_heads_instances": {(site,): len(view.other_heads) for site, view in views.items() if view is not None},
    }


def _jobs(daemon: Daemon, now: float) -> Found:
    core, plan = daemon.core, daemon.last_plan
    if daemon.observer.jobs.known(now) is None:
        return {}
    waiting: dict[tuple[str, ...], Optional[float]] = {("", reason): 0.0 for reason in REASONS}
    waiting.update({(pool.name, by): 0.0 for pool in core.settings.pools for by in (ROOM, COMING, LAUNCHING)})
    standing = {v.group.key: core.trials.standing(v.group.key) for v in plan.verdicts}
    waiting.update(jobs_waiting(core.registry, plan, standing, bool(core.off("launch"))))
    return {"jobs_waiting": waiting}


def _nodes(daemon: Daemon, settings: Settings) -> Found:
    registry, pools = daemon.core.registry, [pool.name for pool in settings.pools]
    states: dict[tuple[str, ...], Optional[float]] = {
        (pool, state.value): 0.0 for pool in pools for state in State if state is not State.GONE
    }
    states.update(Counter((node.pool, node.state.value) for node in registry))
    jobs: Counter[tuple[str, ...]] = Counter({(pool,): 0 for pool in pools})
    cost: dict[tuple[str, ...], float] = {(pool.name,): 0.0 for pool in settings.pools if pool.prices}
    for node in registry:
        jobs[(node.pool,)] += node.jobs
        if (each := price(settings, node)) is not None and not is_stopped(node):
            cost[(node.pool,)] += each
    return {"nodes": states, "jobs_running": jobs, "cost_per_hour": cost}


def price(settings: Settings, node: Node) -> Optional[float]:
    """What a machine costs an hour, None if that is not known."""
    pool = settings.pool(node.pool)
    return pool.price(node.flavour, node.market) if pool is not None else None


def _pools(daemon: Daemon, settings: Settings, now: float) -> Found:
    core, pools = daemon.core, settings.pools
    offers = {pool.name: pool.offers() for pool in pools}
    blocked = {
        pool.name: sum(bool(core.health.blocked(offer, pool.site, now)) for offer in offers[pool.name])
        for pool in pools
    }
    return {
        "pool_nodes_max": {(pool.name,): pool.max_vms for pool in pools},
        "pool_nodes_min": {(pool.name,): pool.min_vms for pool in pools},
        "pool_drained": {(pool.name,): pool.name in core.drained for pool in pools},
        "pool_failed_boots": {(pool.name,): core.health.failed_boots.get(pool.name, 0) for pool in pools},
        "pool_breaker_open": {(pool.name,): core.health.breaker(pool.name) is not None for pool in pools},
        "pool_offers": {(pool.name,): len(offers[pool.name]) for pool in pools},
        "pool_offers_held_back": {(pool.name,): blocked[pool.name] for pool in pools},
    }
