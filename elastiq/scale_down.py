"""Which machines go: the idle ones that nobody needs, those that are to leave, and those that are of no use.

Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import AbstractSet, Mapping

from elastiq.idling import AUTO
from elastiq.interfaces import Pool, WorkerState
from elastiq.nodes import AT_BOOT, IN_SERVICE, Node, State
from elastiq.situation import Situation, Step

Steps = tuple[Step, ...]


def leaving(s: Situation, may_leave: bool) -> Mapping[str, str]:
    """The nodes that are to go for another reason than idleness, each with its reason. ``may_leave``: one of them by
    what it is itself."""
    if not (may_leave or s.drained or any(pool.terms.max_vm_lifetime_s for pool in s.settings.pools)):
        return {}
    from elastiq.leaving import reasons

    return reasons(s)


def drains(s: Situation, reserved: AbstractSet[str], leaving: Mapping[str, str]) -> list[Step]:
    """Idle machines that nobody needs: the dearest first, then the longest idle, never below a minimum. What has
    not joined yet may never do: it is no part of the minimum here. Of those that are to leave, the busy ones
    are drained for good only where the cloud is about to take them."""
    idle = [n for n in s.registry if n.state is State.IDLE and n.seen is not None and n.seen.state is WorkerState.IDLE]
    pools = {pool.name: pool for pool in s.settings.pools}
    due = leaving or any(n.pool not in pools or n.idle_s >= s.idle_for_s(n.pool) for n in idle)
    if s.no_end or not due:
        return []
    minima = [(None, s.settings.min_vms), *((p.name, p.min_vms) for p in s.settings.pools if p.name not in s.drained)]
    spare = Counter({name: s.registry.count(name, IN_SERVICE) - least for name, least in minima})
    # Those that are to leave keep up no minimum for the others: another would be launched at once. Nor does one whose
    # drain is being undone: that may fail. But one that its own pool's minimum keeps does not go.
    going = [n for n in s.registry if n.state in IN_SERVICE and (n.id in leaving or (n.seen and n.seen.is_drained))]
    going_of = Counter(of for node in going for of in (None, node.pool))
    if leaving:
        from elastiq.minima import staying

        going_of[None] -= sum(staying(s, leaving).values())
    unused = Counter(node.pool for node in idle if node.id not in reserved and node.id not in leaving)
    steps: list[Step] = []
    for node in sorted(idle, key=lambda n: (n.id not in leaving, -_price(pools, n), -n.idle_s, n.id)):
        pool, leaves = pools.get(node.pool), node.id in leaving
        if not node.may_act(s.now) or node.site not in s.sites or (node.id in reserved and not leaves):
            continue
        minima_of = [of for of in (None, node.pool) if of in spare]
        if any(spare[of] - (0 if leaves else going_of[of]) < 1 for of in minima_of):
            continue
        if node.pool and not pool:  # one that was found without tags says no pool
            why = f"pool {node.pool} is no longer configured"
        elif leaves:
            why = leaving[node.id]
        elif s.no_drain or node.idle_s < s.idle_for_s(node.pool):
            continue
        elif pool and unused[pool.name] <= pool.terms.min_idle_vms:
            continue
        else:
            auto = s.settings.idle_for_time_s_of(node.pool) == AUTO
            why = f"idle for {node.idle_s:.0f} s" + (f" of {s.idle_for_s(node.pool):.0f} s (auto)" if auto else "")
            unused[node.pool] -= 1
        steps.append(Step(node, why))
        spare.subtract(minima_of)
        going_of.subtract(minima_of if leaves else ())
    return steps


def _price(pools: Mapping[str, Pool], node: Node) -> float:
    return (pools[node.pool].price(node.flavour, node.market) if node.pool in pools else None) or 0.0


def useless(s: Situation) -> tuple[Steps, Steps, Steps]:
    """Machines whose boot deadline passed, those that can be ended since no job runs there, and those whose deadline
    passed but that are kept."""
    late = any(n.state in AT_BOOT and n.boot_s >= s.settings.estimated_vm_deploy_time_s_of(n.pool) for n in s.registry)
    if s.no_end or not (late or s.registry.count(None, {State.FAILED, State.LOST})):
        return (), (), ()
    from elastiq.useless import sort_out

    return sort_out(s)
