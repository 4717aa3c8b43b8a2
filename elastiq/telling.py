"""What a status says beyond its facts, for those who ask: the sentences of `elastiq.explain`, and what
`elastiqctl plan` takes over from a running daemon. Imported when a client asks for the status.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from elastiq.explain import Explainer

if TYPE_CHECKING:
    from elastiq.daemon import Daemon
    from elastiq.settings import Settings

SOON_S = 180.0  # what is nearer is told to the second
DAY_S = 86_400.0


def local(wall: float, now: float) -> str:
    """A wall time as the clock on this machine's wall shows it; with the day where it is not within one."""
    form = "%H:%M:%S" if abs(wall - now) < SOON_S else "%H:%M" if abs(wall - now) < DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(wall))


def explain(daemon: Daemon, status: dict[str, Any]) -> None:
    """Add to a status that was just made. On the decision thread."""
    core, plan, situation = daemon.core, daemon.last_plan, daemon.situation()
    wall = situation.wall
    explainer = Explainer(situation, plan, partial(local, now=wall))
    for shown, verdict in zip(status["queue"]["groups"], plan.verdicts):
        shown["explanation"] = explainer.group(verdict)
        shown["waited"] = situation.history.waited(verdict.group.key)
        shown["machines"] = dict(verdict.machines)
    for shown, node in zip(status["nodes"], core.registry):
        shown["explanation"] = explainer.node(node)
        shown.update(boot_s=node.boot_s, lost_s=node.lost_s, room_s=node.room_s)
    status["schedules"] = []
    scheduled = _schedules(situation.settings, wall, status) if situation.settings.schedules else {}
    for shown, pool in zip(status["pools"], situation.settings.pools):
        shown["detail"] = [*explainer.pool(pool), *scheduled.get("", ()), *scheduled.get(pool.name, ())]
    status["strangers"] = [
        {"worker": name, "explanation": explainer.worker(name)} for name in sorted(core.registry.strangers)
    ]
    blocks = core.health.blocks.items()
    status["blocks"] = [
        {"scope": scope, "until": wall + one.until - situation.now, "wait_s": one.wait_s, "reason": one.reason}
        for scope, one in blocks
        if one.until > situation.now
    ]
    if core.paused:
        acts = ", ".join(f"no {act} ({why})" for act, why in core.paused.items())
        status["notices"].append(f"switches: {acts}, until elastiqctl resume")
    keys = [f"{act} = no" for act in ("launch", "terminate") if not getattr(core.settings, act)]
    if keys:
        status["notices"].append(f"switches: {', '.join(keys)} in [elastiq] of the configuration")
    status.update(no_launch=situation.no_launch, no_end=situation.no_end, no_drain=situation.no_drain)


def _schedules(settings: Settings, wall: float, status: dict[str, Any]) -> dict[str, list[str]]:
    """What is said of the schedules in force, by pool; those of the cluster under an empty name. Their names go
    into the status."""
    from elastiq.schedule import next_change, schedules_in_force

    found: dict[str, list[str]] = {}
    change = next_change(settings, wall)
    until = f"; the next change is at {local(change, wall)}" if change is not None else ""
    in_force = schedules_in_force(settings, wall)
    status["schedules"] = [schedule.name for schedule in in_force]
    for one in in_force:
        limits = ", ".join(f"{key} {'unlimited' if value is None else value}" for key, value in one.limits)
        whose = "" if one.pool else " for the whole cluster"
        found.setdefault(one.pool, []).append(f"schedule {one.name} is in force{whose}: {limits}{until}")
    return found
