"""A plan that was carried out leaves nothing to do: no machine is drained that would be launched again."""

from __future__ import annotations

import random
from typing import Any, Optional

from elastiq.interfaces import Pool, Resources, Terms, WorkerState
from elastiq.nodes import IN_SERVICE, Node, State
from elastiq.situation import Situation
from tests.unit.plans import drained, settles
from tests.unit.values import WALL, a_node, a_pool, a_worker, an_instance, group, situation, some_settings

CASES = 800  # one in 270 shows that what is to leave keeps up no minimum
DAY_S = 86400.0
NAMES = ("p0", "p1")
ELSEWHERE = (State.BOOTING, State.REQUESTED, State.DRAINING, State.LOST)


class Draw(random.Random):
    """Two times in three the usual: what goes wrong needs few unusual things at once."""

    def mostly(self, usual: Any, *others: Any) -> Any:
        return usual if self.random() < 2 / 3 else self.choice(others)

    def pool(self, name: str, spares: bool) -> Pool:
        lifetime_s = self.mostly(None, DAY_S)
        return a_pool(
            name,
            min_vms=self.mostly(0, 1, 3),
            max_vms=self.mostly(None, 3, 5),
            prices=self.mostly({}, {"*": 0.1}, {"*": 0.5}),
            markets=self.mostly(("",), ("spot", "on-demand")),
            build="new",
            terms=Terms(min_idle_vms=self.mostly(0, 1, 3) if spares else 0, max_vm_lifetime_s=lifetime_s),
        )

    def node(self, number: int) -> Node:
        state = self.choice((State.IDLE, State.BUSY, self.mostly(State.IDLE, *ELSEWHERE)))
        node = a_node(
            state,
            number,
            pool=self.choice((*NAMES, self.mostly("p0", "gone", ""))),
            idle_s=self.mostly(700.0, 0.0, 9000.0),
            created_at=WALL - self.mostly(0.0, 2 * DAY_S),
            build=self.mostly("new", "", "old"),
        )
        if state is not State.REQUESTED:
            node.instance = an_instance(f"i-{number}", notice=self.mostly("", "soon"))
        if state is State.BUSY:  # with some free room
            node.seen = a_worker(f"w{number}", WorkerState.BUSY, free=Resources(1, 2000), jobs=3)
        return node

    def situation(self) -> Situation:
        waiting = self.mostly(0, 1, 7)
        # Jobs may come to use a spare that was launched because of them, for which another is launched.
        pools = tuple(self.pool(name, spares=not waiting) for name in NAMES)
        return situation(
            *([group(waiting=waiting)] if waiting else []),
            nodes=[self.node(number) for number in range(1, self.randint(2, 7))],
            settings=some_settings(pools=pools, min_vms=self.mostly(1, 0, 2), max_vms=self.mostly(None, 6, 12)),
            drained=self.choice((frozenset(), frozenset({"p0"}), frozenset(NAMES))),
            wall=WALL,
            no_drain=self.mostly("", "cools down"),
        )


def test_what_a_plan_has_brought_about_is_not_undone_by_the_next_and_goes_below_no_minimum() -> None:
    for seed in range(CASES):
        s = Draw(seed).situation()
        kept = [pool for pool in s.settings.pools if pool.name not in s.drained]
        minima: dict[Optional[str], int] = {None: s.settings.min_vms, **{pool.name: pool.min_vms for pool in kept}}
        before = {name: s.registry.count(name, IN_SERVICE) for name in minima}
        made = settles(s)
        assert len(drained(made)) == len(set(drained(made))), seed
        idle = [step.node for step in made.drains if not step.for_good]
        for name, least in minima.items():
            gone = sum(name in (None, node.pool) for node in idle)
            assert not gone or before[name] - gone >= least, seed
