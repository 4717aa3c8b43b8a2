"""Without jobs the plans bring a cluster down to its minima, though some of its machines are too old."""

from __future__ import annotations

import random

from elastiq.interfaces import InstanceState, Pool, Terms
from elastiq.nodes import Node, State
from elastiq.planner import Plan, plan
from elastiq.situation import Situation
from elastiq.stopped import startable
from tests.unit.values import WALL, a_node, a_pool, a_worker, an_instance, situation, some_settings

CASES = 400  # one in 40 shows that what is idle makes way for the replacement that a minimum needs
PLANS = 60
LONG_S = 9000.0
LIFETIME_S = 86400.0
NOW_WALL = WALL + LIFETIME_S


def a_case(seed: int) -> Situation:
    """Two or three pools with room for a replacement; a third of them stop what is idle. What works does not end."""
    draw = random.Random(seed)
    pools = []
    for name in "abc"[: draw.randint(2, 3)]:
        least = draw.choice((0, 1, 2))
        terms = Terms(
            max_vm_lifetime_s=draw.choice((None, LIFETIME_S, LIFETIME_S)),
            min_idle_vms=draw.choice((0, 0, 0, 0, 1)),
            idle_action=draw.choice(("terminate", "terminate", "stop")),
        )
        most = draw.choice((None, least + 1, least + 2))
        pools.append(a_pool(name, min_vms=least, max_vms=most, terms=terms))
    need = sum(pool.min_vms for pool in pools)
    max_vms = need + draw.randint(1, 2)
    settings = some_settings(pools=tuple(pools), min_vms=draw.choice((need, need + 1)), max_vms=max_vms)
    places = [pool.name for pool in pools for _ in range(min(draw.randint(1, 3), pool.max_vms or 3))]
    nodes = []
    for number, pool in enumerate(places[:max_vms], start=1):
        state, created_at = draw.choice((State.IDLE, State.IDLE, State.BUSY)), draw.choice((WALL, NOW_WALL))
        nodes.append(a_node(state, number, pool=pool, created_at=created_at, idle_s=draw.choice((0.0, LONG_S))))
    return situation(nodes=nodes, settings=settings, wall=NOW_WALL)


def joins(s: Situation, node: Node, name: str) -> None:
    node.worker, node.seen, node.idle_s = name, a_worker(name), 0.0
    node.instance = an_instance(node.name)
    s.registry.move(node, State.PENDING, "started", NOW_WALL)
    s.registry.move(node, State.IDLE, "joined", NOW_WALL)


def goes(s: Situation, node: Node) -> None:
    """It is stopped if its pool asks for it, and it is young enough; else it ends."""
    pool = s.settings.pool(node.pool)
    s.registry.move(node, State.DRAINING, "idle", NOW_WALL)
    if pool is not None and pool.terms.idle_action == "stop" and node.created_at > WALL:
        node.instance, node.was_stopped = an_instance(node.name, InstanceState.STOPPED), True
        node.seen = node.worker = None
        s.registry.move(node, State.STOPPED, "idle", NOW_WALL)
    else:
        s.registry.move(node, State.GONE, "idle", NOW_WALL)


def carry_out(s: Situation, made: Plan, name: str) -> None:
    """At once, and all of it goes well."""
    for order in made.launches:
        started = startable(s.registry, s.settings, s.drained, order.offer, s.now, s.wall)[: order.count]
        for node in started if order.offer.market == "stopped" else ():
            joins(s, node, f"{name}-{node.name}")
        for number in range(order.count if order.offer.market != "stopped" else 0):
            node = Node(f"{name}.{len(s.registry)}.{number}", order.offer.pool, "aws", State.REQUESTED, "medium")
            node.created_at = NOW_WALL
            s.registry.add(node)
            s.registry.bind(node, f"i-{node.id}")
            joins(s, node, f"w-{node.id}")
    for step in made.drains:
        goes(s, step.node)
    for step in made.ends:
        s.registry.move(step.node, State.GONE, step.reason, NOW_WALL)


def idle_allowed(pools: tuple[Pool, ...], s: Situation) -> int:
    busy = [node.pool for node in s.registry if node.state is State.BUSY]
    of_pools = sum(max(0, pool.min_vms - busy.count(pool.name)) for pool in pools)
    return max(of_pools, s.settings.min_vms - len(busy), 0) + sum(pool.terms.min_idle_vms for pool in pools)


def test_no_more_stay_idle_than_the_minima_ask_for_and_the_plans_come_to_an_end() -> None:
    for seed in range(CASES):
        s = a_case(seed)
        for number in range(PLANS):
            made = plan(s)
            idle = [node for node in s.registry if node.state is State.IDLE]
            if not (made.launches or made.drains or made.ends):
                if all(node.idle_s >= LONG_S for node in idle):
                    break
                for node in idle:
                    node.idle_s = LONG_S
            carry_out(s, made, f"plan{number}")
        else:
            raise AssertionError(f"case {seed}: no end of it: {made.summary}")
        assert len(idle) <= idle_allowed(s.settings.pools, s), f"case {seed}"
