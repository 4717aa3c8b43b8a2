"""The status that the control socket hands out: stable keys, documented in docs/status.md. Imported when a client asks.

Ages are seconds, points in time are wall times (seconds since the epoch).
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Optional

from elastiq import __version__
from elastiq.core import Core
from elastiq.interfaces import Jobs, Pool
from elastiq.nodes import CAPACITY, JOINED, TO_COME, Node, State
from elastiq.observations import Observation
from elastiq.planner import Verdict

if TYPE_CHECKING:
    from elastiq.daemon import Daemon

SCHEMA = 1
# One that is not older is handed out as it is.
FRESH_S = 0.25


def current(daemon: Daemon, wait_s: float) -> dict[str, Any]:
    """The status now; if the decision thread does not come to it, the last that it published, else one that is made
    here, as of the time at which the loop was last seen to run. From any other thread."""
    if not daemon.published or daemon.core.now() - daemon.published["monotonic_at"] > FRESH_S:
        done = threading.Event()
        daemon.core.events.post(lambda: setattr(daemon, "asked", True))
        daemon.core.events.post(daemon.publish)
        daemon.core.events.post(done.set)
        if not done.wait(wait_s) and not daemon.published:
            return _of_one_that_hangs(daemon)
    return daemon.published


def _of_one_that_hangs(daemon: Daemon) -> dict[str, Any]:
    while True:
        at, monotonic_at = daemon.beat_at
        with contextlib.suppress(RuntimeError):  # it changed something meanwhile: it is only slow
            return {**snapshot(daemon), "at": at, "monotonic_at": monotonic_at}


def snapshot(daemon: Daemon) -> dict[str, Any]:
    """One object with everything that a person or a script may want to know."""
    core, observer = daemon.core, daemon.observer
    settings, now = daemon.settings_now(), core.now()
    sources = [_source(seen, now) for seen in observer.observations()]
    sources[1].update(settled=not observer.settled_why, why_unsettled=observer.settled_why)
    counted = len(core.registry) + (observer.foreign() if settings.quota_counts == "all" else 0)
    made = {
        "schema": SCHEMA,
        "version": __version__,
        "cluster": settings.cluster_name,
        "head": core.owner.mark,
        "state": state(daemon),
        "at": core.wall(),
        "monotonic_at": now,
        "queue": _queue(daemon, now),
        "nodes": [_node(node) for node in core.registry],
        "pools": [_pool(core, pool) for pool in settings.pools],
        "quota": {
            **_fields(settings, "min_vms max_vms"),
            "counts": settings.quota_counts,
            "counted": counted,
            "limits": [{"limit": one.what, **_fields(one, "used left least counts")} for one in daemon.allowances],
        },
        "sources": sources,
        "last_plan": _plan(daemon),
        "last_action": {"at": daemon.last_action[0], "summary": daemon.last_action[1]},
        **_fields(core, "paused scaled"),
        "notices": [f"{subject}: {text}" for subject, text in sorted(core.notices.items())],
        "counters": dict(sorted(core.counters.items())),
        "faults": dict(core.faults),
        "log_failures": core.log_failures(),
    }
    if daemon.asked:
        from elastiq.telling import explain  # costs time that a daemon of which nobody asks need not pay

        explain(daemon, made)
    return made


def _fields(of: object, names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names.split()}


def state(daemon: Daemon) -> str:
    """One word for what it is doing: see docs/status.md."""
    if daemon.stopping:
        return "stopping"
    if not daemon.paired:
        return "starting"
    off = {daemon.core.off(act) for act in ("launch", "terminate")} - {""}
    return "active" if not off else "dry-run" if "dry run" in off else "paused"


def _queue(daemon: Daemon, now: float) -> dict[str, Any]:
    jobs, verdicts = daemon.observer.jobs, daemon.last_plan.verdicts
    read, aged_s = jobs.value or Jobs((), missing=("the queue",)), age_s(jobs, now)
    return {
        "known": jobs.known(now) is not None,
        "complete": read.complete,
        "waiting_jobs": sum(group.waiting for group in read.groups),
        "running_jobs": sum(group.running or 0 for group in read.groups),
        "unmatchable_jobs": sum(v.group.waiting for v in verdicts if not v.matchable),
        "observed_at": daemon.core.wall() - aged_s if aged_s is not None else None,
        "age_s": aged_s,
        "groups": [_group(daemon, v) for v in verdicts],
    }


def _group(daemon: Daemon, v: Verdict) -> dict[str, Any]:
    return {
        **_fields(v.group, "key sample_job requirements waiting running nodes apart"),
        **asdict(v.group.request),
        "waiting_s": daemon.observer.history.waiting_s(v.group.key, daemon.core.now()),
        **_fields(v, "held launching matchable reason"),
        "standing": daemon.core.trials.standing(v.group.key).value,
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        **_fields(node, "pool site flavour network market since created_at joined_at worker jobs idle_s"),
        **_fields(node, "condemned ordered reason"),
        "id": node.name,
        "node": node.id,
        "state": node.state.value,
        "addresses": sorted(node.addresses),
        "idle_since": node.since if node.state is State.IDLE else None,
    }


def _pool(core: Core, pool: Pool) -> dict[str, Any]:
    blocked = {offer: core.health.blocked(offer, pool.site, core.now()) for offer in pool.offers()}
    return {
        **_fields(pool, "name site min_vms max_vms"),
        **_fields(pool.terms, "min_idle_vms priority"),
        "drained": pool.name in core.drained,
        "flavours": list(pool.flavours),
        "counted": core.registry.count(pool.name),
        "to_come": core.registry.count(pool.name, TO_COME),
        "joined": core.registry.count(pool.name, JOINED),
        "capacity": core.registry.count(pool.name, CAPACITY),
        "breaker": core.health.breaker(pool.name),
        "blocked": {str(offer): why for offer, why in blocked.items() if why},
    }


def age_s(seen: Observation[Any], now: float) -> Optional[float]:
    """Of the last good read, None if there was none."""
    return None if seen.value is None else now - seen.began


def _source(seen: Observation[Any], now: float) -> dict[str, Any]:
    return {**_fields(seen, "name error failures"), "known": seen.known(now) is not None, "age_s": age_s(seen, now)}


def _plan(daemon: Daemon) -> dict[str, Any]:
    plan = daemon.last_plan
    return {
        "at": daemon.last_plan_at,
        "summary": plan.summary,
        "launch": [{**_fields(o, "count reason"), "offer": str(o.offer), "pool": o.offer.pool} for o in plan.launches],
        "drain": [{"node": step.node.name, "reason": step.reason} for step in plan.drains],
        "return": [{"node": step.node.name, "reason": step.reason} for step in plan.returns],
        "terminate": [{"node": step.node.name, "reason": step.reason} for step in plan.ends],
        "reasons": [f"{v.group.waiting} {v.group.key}: {v.reason}" for v in plan.verdicts if v.reason],
    }
