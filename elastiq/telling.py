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

SOON_S = 180.0  # what is nearer is told to the second
DAY_S = 86_400.0


def local(wall: float, now: float) -> str:
    """A wall time as the clock on this machine's wall shows it; with the day where it is not within one."""
    form = "%H:%M:%S" if abs(wall - now) < SOON_S else "%H:%M" if abs(wall - now) < DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(wall))


def explain(daemon: Daemon, status: dict[str, Any]) -> None:
    """Add to a status that was just made. On the decision thread."""
    core, plan = daemon.core, daemon.last_plan
    situation, wall = daemon.situation(), core.wall()
    explainer = Explainer(situation, plan, wall, partial(local, now=wall))
    for shown, verdict in zip(status["queue"]["groups"], plan.verdicts):
        shown["explanation"] = explainer.group(verdict)
        shown["waited"] = situation.history.waited(verdict.group.key)
        shown["machines"] = dict(verdict.machines)
    for shown, node in zip(status["nodes"], core.registry):
        shown["explanation"] = explainer.node(node)
        shown.update(boot_s=node.boot_s, lost_s=node.lost_s, room_s=node.room_s)
    for shown, pool in zip(status["pools"], core.settings.pools):
        shown["detail"] = explainer.pool(pool)
    status["strangers"] = [
        {"worker": name, "explanation": explainer.worker(name)} for name in sorted(core.registry.strangers)
    ]
    blocks = core.health.blocks.items()
    status["blocks"] = [
        {"scope": scope, "until": wall + one.until - situation.now, "wait_s": one.wait_s, "reason": one.reason}
        for scope, one in blocks
        if one.until > situation.now
    ]
    status.update(no_launch=situation.no_launch, no_end=situation.no_end)
