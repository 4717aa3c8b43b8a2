"""Short ways to look at a plan, and to see what the next one makes of its results."""

from __future__ import annotations

from dataclasses import replace

from elastiq.nodes import Node, State
from elastiq.planner import Plan, plan
from elastiq.situation import Situation


def launched(made: Plan) -> dict[str, int]:
    """How many of each offer."""
    return {str(order.offer): order.count for order in made.launches}


def drained(made: Plan) -> list[str]:
    """Which nodes, in the order of the plan."""
    return [step.node.name for step in made.drains]


def reason(made: Plan, key: str = "g") -> str:
    """Why a group is not served, or what serves it."""
    return next(verdict.reason for verdict in made.verdicts if verdict.group.key == key)


def carry_out(s: Situation, made: Plan) -> None:
    """What the daemon does to the registry with a plan: machines are asked for, and idle ones begin to drain."""
    number = len(s.registry)
    pools = {pool.name: pool for pool in s.settings.pools}
    for order in made.launches:
        pool = pools[order.offer.pool]
        for _ in range(order.count):
            number += 1
            node = Node(f"new.{number}", pool.name, pool.site, State.REQUESTED, order.offer.flavour)
            node.created_at, node.build, node.market = s.wall, pool.build, order.offer.market
            node.groups = dict(order.groups)
            s.registry.add(node)
        for name in order.replaces:
            s.registry.nodes[name].replaced = True
    for step in made.drains:
        s.registry.move(step.node, State.DRAINING, step.reason, s.wall)


def settles(s: Situation) -> Plan:
    """Carries out one plan; the next does nothing at all, or the test fails. Returns the first."""
    first = plan(s)
    carry_out(s, first)
    again = plan(replace(s))
    assert (launched(again), drained(again)) == ({}, []), again.summary
    return first
