"""What all explanations look up, and how they name things."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median
from typing import Callable, Iterable, Iterator, Optional, Sequence

from elastiq import scale_down
from elastiq.interfaces import JobGroup
from elastiq.nodes import IN_SERVICE, Node, State
from elastiq.situation import Plan, Situation, group_name
from elastiq.wording import counted

NAMED_AT_MOST = 3
BOOTS_TO_BELIEVE = 3  # so many observed boots say more than the configured estimate


class Known:
    """A situation and its plan, by what is asked for: ``reserved`` are the jobs that a machine has room for, by
    their groups; ``unused`` how many idle ones of a pool nobody needs; ``drains``, ``ends`` and ``kept`` the reasons of
    the plan's steps, by node id."""

    def __init__(self, s: Situation, plan: Plan, at: Callable[[float], str]) -> None:
        self.s, self.plan, self.at = s, plan, at
        self.leaving = scale_down.leaving(s, may_leave=True)
        self.reserved: dict[str, list[tuple[int, JobGroup]]] = defaultdict(list)
        for v in plan.verdicts:
            for machine, jobs in v.machines.items():
                self.reserved[machine].append((jobs, v.group))
        self.drains = {step.node.id: step.reason for step in plan.drains}
        self.ends = {step.node.id: step.reason for step in (*plan.ends, *plan.failed)}
        self.kept = {step.node.id: step.reason for step in plan.kept}
        going = [step.node for step in plan.drains if step.node.state is State.IDLE]
        # As `scale_down.drains` has it.
        left = [one for one in s.registry if one.id in self.leaving or (one.seen and one.seen.is_drained)]
        left = [one for one in left if one.id not in {node.id for node in going}]
        self._going = _by_pool(going)
        self._leaving_later = _by_pool(node for node in left if node.state in IN_SERVICE)
        idle = (node for node in s.registry if node.state is State.IDLE)
        self.unused = _by_pool(node for node in idle if node.id not in self.reserved and node.id not in self.leaving)
        self._boots: dict[tuple[str, str], list[float]] = defaultdict(list)
        for node in s.registry:
            if node.joined_at is not None and node.id != node.instance_id:  # not one that was found
                took_s = node.joined_at - node.created_at
                if 0 < took_s <= s.settings.estimated_vm_deploy_time_s_of(node.pool):
                    self._boots[node.pool, node.flavour].append(took_s)

    def stay(self, pool: Optional[str], leaves: bool) -> int:
        """How many machines of a pool, or of all, keep up its minimum once the plan is carried out: for one that is
        to leave itself, those that leave later do."""
        there = self.s.registry.count(pool, IN_SERVICE) - self._going[pool]
        return there if leaves else there - self._leaving_later[pool]

    def when(self, in_s: float) -> str:
        """The moment that comes in so many seconds."""
        return self.at(self.s.wall + in_s)

    def boot_s(self, node: Node) -> Optional[float]:
        """How long such a machine takes to join: the median of those that did, None if those are too few."""
        seen = self._boots.get((node.pool, node.flavour), ())
        return median(seen) if len(seen) >= BOOTS_TO_BELIEVE else None

    def blocks(self) -> Iterator[tuple[str, str]]:
        """What is held back now: the scope, and until when and why."""
        for scope, block in self.s.health.blocks.items():
            if block.until > self.s.now:
                yield scope, f"{scope} is held back until {self.when(block.until - self.s.now)}: {block.reason}"

    def machine(self, name: str) -> str:
        """A machine of a verdict, as people call it."""
        node = self.s.registry.nodes.get(name)
        if node is None:
            return name.partition("worker ")[2] or name
        return f"{node.worker} ({node.name})" if node.worker else node.name


def _by_pool(nodes: Iterable[Node]) -> Counter[Optional[str]]:
    """How many there are of each pool; of all of them under None."""
    return Counter(of for node in nodes for of in (None, node.pool))


def waiting(count: int, group: JobGroup) -> str:
    return group_name(group, count, "waiting job")


def named(names: Sequence[str]) -> str:
    """A few of them, and how many more there are."""
    if len(names) <= NAMED_AT_MOST:
        return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return f"{', '.join(names[:NAMED_AT_MOST])} and {len(names) - NAMED_AT_MOST} more"


def size(what: str, value: float) -> str:
    """One of the sizes of `Resources`, by its name there."""
    if not what.endswith("_mb"):
        return counted(value, what[:-1])
    kind = "" if what == "memory_mb" else f" of {what[:-3]}"
    return (f"{value / 1024:.4g} GB" if value >= 1024 else f"{value:g} MB") + kind
