"""The status that the control socket hands out: stable keys, documented in docs/status.md.

Pure. Ages are seconds, points in time are wall times (seconds since the epoch).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from elastiq import __version__
from elastiq.nodes import CAPACITY, JOINED, TO_COME, Node, State
from elastiq.observations import Observation
from elastiq.planner import Plan, Verdict

if TYPE_CHECKING:
    from elastiq.daemon import Daemon

SCHEMA = 1
NODE = "pool site flavour network since created_at joined_at worker jobs idle_s reason".split()


def snapshot(daemon: Daemon) -> dict[str, Any]:
    """One object with everything that a person or a script may want to know."""
    core = daemon.core
    settings = core.settings
    return {
        "schema": SCHEMA,
        "version": __version__,
        "cluster": settings.cluster_name,
        "head": core.owner.head[:16],
        "state": _state(daemon),
        "at": core.wall(),
        "monotonic_at": core.now(),
        "queue": _queue(daemon),
        "nodes": [_node(node) for node in core.registry],
        "pools": [_pool(daemon, pool.name) for pool in settings.pools],
        "quota": {
            "min_vms": settings.min_vms,
            "max_vms": settings.max_vms,
            "counts": settings.quota_counts,
            "counted": len(core.registry) + (daemon.observer.foreign() if settings.quota_counts == "all" else 0),
        },
        "sources": _sources(daemon),
        "last_plan": _plan(daemon),
        "last_action": {"at": daemon.last_action[0], "summary": daemon.last_action[1]},
        "notices": [f"{subject}: {text}" for subject, text in sorted(core.notices.items())],
        "counters": dict(sorted(core.counters.items())),
        "faults": dict(core.faults),
        "log_failures": core.log_failures(),
    }


def _state(daemon: Daemon) -> str:
    if daemon.stopping:
        return "stopping"
    if not daemon.paired:
        return "starting"
    settings = daemon.core.settings
    if settings.dry_run_boot_vms or settings.dry_run_shutdown_vms:
        return "dry-run"
    return "active"


def _queue(daemon: Daemon) -> dict[str, Any]:
    core, jobs = daemon.core, daemon.observer.jobs
    now = core.now()
    known = jobs.known(now) is not None
    groups = jobs.value.groups if jobs.value is not None else ()
    verdicts = {v.group.key: v for v in daemon.last_plan.verdicts} if daemon.last_plan else {}
    age_s = now - jobs.began if jobs.value is not None else None
    return {
        "known": known,
        "complete": jobs.value.complete if jobs.value is not None else False,
        "waiting_jobs": sum(group.waiting for group in groups),
        "running_jobs": sum(group.running or 0 for group in groups),
        "unmatchable_jobs": sum(v.group.waiting for v in verdicts.values() if not v.matchable),
        "observed_at": core.wall() - age_s if age_s is not None else None,
        "age_s": age_s,
        "groups": [_group(daemon, v) for v in verdicts.values()],
    }


def _group(daemon: Daemon, v: Verdict) -> dict[str, Any]:
    return {
        **{name: getattr(v.group, name) for name in ("key", "sample_job", "requirements", "waiting", "running")},
        **asdict(v.group.request),
        "waiting_s": daemon.observer.history.waiting_s(v.group.key, daemon.core.now()),
        **{name: getattr(v, name) for name in ("held", "launching", "matchable", "reason")},
        "standing": daemon.core.trials.standing(v.group.key).value,
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        **{name: getattr(node, name) for name in NODE},
        "id": node.name,
        "node": node.id,
        "state": node.state.value,
        "addresses": sorted(node.addresses),
        "idle_since": node.since if node.state is State.IDLE else None,
    }


def _pool(daemon: Daemon, name: str) -> dict[str, Any]:
    core = daemon.core
    pool = core.settings.pool(name)
    assert pool is not None
    blocked = {
        str(offer): why for offer in pool.offers() for why in [core.health.blocked(offer, pool.site, core.now())] if why
    }
    return {
        "name": name,
        "site": pool.site,
        "flavours": list(pool.flavours),
        "min_vms": pool.min_vms,
        "max_vms": pool.max_vms,
        "counted": core.registry.count(name),
        "to_come": core.registry.count(name, TO_COME),
        "joined": core.registry.count(name, JOINED),
        "capacity": core.registry.count(name, CAPACITY),
        "breaker": core.health.breaker(name),
        "blocked": blocked,
    }


def _sources(daemon: Daemon) -> list[dict[str, Any]]:
    observer = daemon.observer
    observed: list[Observation[Any]] = [observer.jobs, observer.workers, *observer.instances.values()]
    rows = [_source(seen, daemon.core.now()) for seen in observed]
    rows[1].update(settled=not observer.settled_why, why_unsettled=observer.settled_why)
    return rows


def _source(seen: Observation[Any], now: float) -> dict[str, Any]:
    return {
        **{name: getattr(seen, name) for name in ("name", "error", "failures")},
        "known": seen.known(now) is not None,
        "age_s": now - seen.began if seen.value is not None else None,
    }


def _plan(daemon: Daemon) -> dict[str, Any]:
    plan: Plan | None = daemon.last_plan
    if plan is None:
        return {"at": None, "launch": [], "drain": [], "terminate": [], "reasons": [], "summary": ""}
    return {
        "at": daemon.last_plan_at,
        "summary": plan.summary,
        "launch": [
            {"offer": str(order.offer), "pool": order.offer.pool, "count": order.count, "reason": order.reason}
            for order in plan.launches
        ],
        "drain": [{"node": step.node.name, "reason": step.reason} for step in plan.drains],
        "terminate": [{"node": step.node.name, "reason": step.reason} for step in plan.ends],
        "reasons": [f"{v.group.waiting} {v.group.key}: {v.reason}" for v in plan.verdicts if v.reason],
    }
