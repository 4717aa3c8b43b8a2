"""How long an idle machine is kept where `idle_for_time_s` is `auto`.

Pure. A machine that is idle costs as much as one that boots, and what ends too early has to boot again. So a machine is
kept for as long as would have cost least in the past: for each of the last pauses of machines like it, from the end
of one use to the next, either the pause, or the time for which it is kept and another boot. Until some pauses were
seen it is half the time that machines take to boot. `prefer` says what a boot is worth, for somebody waits for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastiq.nodes import Node
    from elastiq.settings import Settings

AUTO = math.inf  # in place of seconds: what does not know of it keeps everything
LONGEST_S = 3600.0  # a pause of an hour or longer is none: where an hour is billed, it is used up
POLLS = 2  # the queue is read so often before an idle machine may go: the next job may be on its way
BOOTS, PAUSES, TO_BELIEVE = 9, 100, 10
PARTS = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 2.0)  # of a boot: what is tried
# By `prefer`: which part of a boot it is at first, and how many times its price a boot is worth.
AT_FIRST, WORTH = {"wait": 1.0, "balanced": 0.5, "cost": 0.0}, {"wait": 2.0, "balanced": 1.0, "cost": 1.0}
WAITS_S = {"wait": 0.0, "balanced": 0.0, "cost": 120.0}  # `waiting_jobs_time_s`, where that is `auto`


@dataclass
class Uses:
    """What was seen of the machines of each pool: the times that they took to boot, and the pauses (seconds)."""

    seen: dict[str, list[list[float]]] = field(default_factory=dict)
    _new: dict[str, list[float]] = field(default_factory=dict)  # pauses since the last boot
    _ended: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # when the last use of a machine ended
    _best: dict[tuple[str, str], float] = field(default_factory=dict)  # by pool and `prefer`

    def booted(self, pool: str, boot_s: float) -> None:
        boots, pauses = self.seen.get(pool, ([], []))
        pauses = [*pauses, *self._new.pop(pool, ())][-PAUSES:]
        self.seen[pool] = [[*boots, round(boot_s, 1)][-BOOTS:], pauses]
        self._best.clear()

    def used_again(self, pool: str, pause_s: float) -> None:
        self._new[pool] = [*self._new.get(pool, ()), round(min(pause_s, LONGEST_S), 1)][-PAUSES:]

    def ends(self, node: Node, wall: float) -> None:
        """An idle machine is taken out of service."""
        ended = self._ended.setdefault((node.pool, node.flavour), [])
        ended.append(wall - node.idle_s)
        if len(ended) > PAUSES:
            self.used_again(node.pool, wall - ended.pop(0))

    def launched(self, node: Node) -> None:
        """Had the one that ended last been kept, it would be used now."""
        if ended := self._ended.get((node.pool, node.flavour)):
            self.used_again(node.pool, max(0.0, node.created_at - ended.pop()))

    def idle_for_s(self, s: Settings, pool: str) -> float:
        """How long an idle machine of the pool is kept (seconds)."""
        if (limit_s := s.idle_for_time_s_of(pool)) < AUTO:
            return limit_s
        deploy_s = s.estimated_vm_deploy_time_s_of(pool)
        if (key := (pool, s.prefer)) not in self._best:
            boots, pauses = self.seen.get(pool, ([], []))
            boot_s, first = sorted(boots or [deploy_s])[len(boots) // 2], AT_FIRST[s.prefer]
            tried = [part * boot_s for part in (first, *(PARTS if len(pauses) >= TO_BELIEVE else ()))]
            worth_s = WORTH[s.prefer] * boot_s
            costs = [sum(p if p <= kept_s else kept_s + worth_s for p in pauses) for kept_s in tried]
            self._best[key] = tried[costs.index(min(costs))]
        return min(max(self._best[key], POLLS * s.check_queue_every_s), LONGEST_S, deploy_s)
