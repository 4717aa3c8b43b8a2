"""Why a group of jobs has no machine yet, why a node is kept or goes, and what a pool can do: sentences for people.

Pure. They are made from what the planner saw and decided, when a client asks (`elastiq.telling`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Callable, Iterable, Optional, Sequence

from elastiq.broker import capacity
from elastiq.demand import Standing
from elastiq.interfaces import JobGroup, Pool
from elastiq.nodes import AT_BOOT, IN_SERVICE, JOINED, TO_COME, Node, State
from elastiq.situation import Plan, Situation, Step, Verdict, group_name

NAMED_AT_MOST = 3
BOOTS_TO_BELIEVE = 3  # so many observed boots say more than the configured estimate


@dataclass
class Explainer:
    """What is known at one moment. ``wall`` is its wall time; ``at`` writes a wall time for people."""

    s: Situation
    plan: Plan
    wall: float
    at: Callable[[float], str]
    _reserved: dict[str, list[tuple[int, JobGroup]]] = field(default_factory=lambda: defaultdict(list))
    _boots: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for v in self.plan.verdicts:
            for machine, jobs in v.machines.items():
                self._reserved[machine].append((jobs, v.group))
        p = self.plan
        self._ends, self._drains, self._kept = map(_by_node, ((*p.ends, *p.failed), p.drains, p.kept))
        self._going = Counter(step.node.pool for step in p.drains if step.node.state in IN_SERVICE)
        for node in self.s.registry:
            if node.joined_at is not None and node.id != node.instance_id:  # not one that was found
                took_s = node.joined_at - node.created_at
                if 0 < took_s <= self.s.settings.estimated_vm_deploy_time_s_of(node.pool):
                    self._boots[node.pool, node.flavour].append(took_s)

    # ------------------------------------------------------------------ groups of jobs

    def group(self, v: Verdict) -> str:
        """What becomes of a group's waiting jobs."""
        if v.group.not_eligible:
            return f"not eligible: {v.group.not_eligible}"
        parts = [*self._by_machines(v), *self._by_launches(v)]
        left = v.group.waiting - v.held - v.launching
        if left > 0:
            parts.append((left, self._not_served(v)))
        return "; ".join(text if jobs >= v.group.waiting else f"{jobs} of them: {text}" for jobs, text in parts)

    def _by_machines(self, v: Verdict) -> Iterable[tuple[int, str]]:
        """The jobs that have room, on machines that are there and on those that come."""
        there, coming, other = [], [], []
        for machine in v.machines:
            node = self.s.registry.nodes.get(machine)
            if node is not None and node.state in TO_COME:
                coming.append(node)
            elif node is not None or machine.startswith("worker "):
                there.append(machine)
            else:
                other.append(machine)
        if there:
            names = _named([self._name(machine) for machine in there])
            yield sum(v.machines[machine] for machine in there), f"free room on {names}"
        if coming:
            jobs = sum(v.machines[node.id] for node in coming)
            yield jobs, self._when_joined(coming, "it" if jobs == 1 else "them")
        if other:
            yield sum(v.machines[name] for name in other), "room on machines that are launched for others, too"

    def _when_joined(self, nodes: Sequence[Node], whom: str) -> str:
        due = min(node.created_at + self._boot_s(node) for node in nodes)
        names = f"{nodes[0].state.value} {_named([node.name for node in nodes])}"
        if due <= self.wall:
            return f"{names} will serve {whom} once joined, which was due at {self.at(due)}"
        return f"{names} will serve {whom} at about {self.at(due)}"

    def _boot_s(self, node: Node) -> float:
        """How long such a machine takes to join: the median of those that did, else what is configured."""
        seen = self._boots.get((node.pool, node.flavour), ())
        if len(seen) >= BOOTS_TO_BELIEVE:
            return median(seen)
        return self.s.settings.estimated_vm_deploy_time_s_of(node.pool)

    def _by_launches(self, v: Verdict) -> Iterable[tuple[int, str]]:
        if v.launching:
            orders = [f"{order.count} of {order.offer}" for order in self.plan.launches if v.group.key in order.groups]
            would = "dry run: would launch " if self.s.settings.dry_run_boot_vms else "launching "
            yield v.launching, would + _named(orders)

    def _not_served(self, v: Verdict) -> str:
        s, key, reason = self.s, v.group.key, v.reason
        if not v.matchable and s.trials.standing(key) is not Standing.UNSERVED:
            return self._misfit(v.group) or reason
        waiting_s, window_s = s.history.waiting_s(key, s.now), s.settings.waiting_jobs_time_s
        if "waiting_jobs_time_s" in reason and waiting_s < window_s:
            until = self.at(self.wall + window_s - waiting_s)
            return f"waits too briefly, until {until} (waiting_jobs_time_s {window_s:g})"
        held_back = [text for scope, text in self._blocks() if f"{scope} is held back" in reason]
        return "; ".join(held_back) or reason or "not served yet: the next plan decides"

    def _misfit(self, group: JobGroup) -> str:
        """The sizes that no flavour on offer has; empty if it is not for a size."""
        s = self.s
        pools = [pool for pool in s.settings.pools if not group.pools or pool.name.lower() in group.pools]
        sizes = [vars(capacity(s, pool, flavour)) for pool in pools for flavour in pool.flavours]
        found = []
        for what, asked in vars(group.request).items():
            largest = [has[what] for has in sizes]
            if asked is not None and largest and all(has is not None and has < asked for has in largest):
                found.append(f"asks {_size(what, asked)}, the largest flavour has {_size(what, max(largest))}")
        return f"nothing fits: {' and '.join(found)}" if found else ""

    # ------------------------------------------------------------------ nodes

    def node(self, node: Node) -> str:
        """Why a node is kept or goes."""
        why = self._ends.get(node.id)
        if why and node.state is not State.TERMINATING:
            return f"{self._would('is ended', 'be ended')}: {why}"
        tell = {
            State.REQUESTED: self._booting,
            State.PENDING: self._booting,
            State.BOOTING: self._booting,
            State.IDLE: self._idle,
            State.BUSY: self._busy,
            State.DRAINING: self._draining,
            State.LOST: self._lost,
            State.FAILED: self._failed,
        }.get(node.state)
        if tell is not None:
            return tell(node)
        return f"its end was asked for at {self.at(node.since)} ({node.reason}): counts until the cloud confirms it"

    def worker(self, name: str) -> str:
        """Why a worker that is no node is left alone."""
        explained = self.s.registry.strangers[name].explained
        return f"no machine of elastiq's, never ended: {explained or 'matches no instance that is known'}"

    def _would(self, does: str, do: str) -> str:
        return f"dry run: would {do}" if self.s.settings.dry_run_shutdown_vms else does

    def _booting(self, node: Node) -> str:
        if node.id in self._kept:
            return f"kept: {self._kept[node.id]}"
        by = self.at(self.wall + self.s.settings.estimated_vm_deploy_time_s_of(node.pool) - node.boot_s)
        if node.state in AT_BOOT:
            text = f"booting: joins until {by} or is ended"
        else:
            text = f"asked for at {self.at(node.created_at)}, the cloud does not show it yet"
        if self.s.no_end and node.state in AT_BOOT:
            text += f"; that time stands still: {self.s.no_end}"
        return text + self._for_whom(node, ", for ")

    def _idle(self, node: Node) -> str:
        s, settings = self.s, self.s.settings
        if node.id in self._drains:
            return f"{self._would('goes', 'go')}: {self._drains[node.id]}"
        idle_for_s, pool = settings.idle_for_time_s_of(node.pool), settings.pool(node.pool)
        if node.id in self._reserved:
            return "kept: reserved" + self._for_whom(node, " for ")
        trying = [key for key in node.groups if s.trials.standing(key) is Standing.TRYING]
        if trying and any(v.group.key in trying for v in self.plan.verdicts):
            return "kept: launched for waiting jobs of which none has started yet"
        if node.idle_s < idle_for_s and (pool is not None or not node.pool):
            may = f"may go at {self.at(self.wall + idle_for_s - node.idle_s)}"
            return f"idle for {node.idle_s:.0f} s of idle_for_time_s {idle_for_s:g}: {may}"
        if s.no_end:
            return f"kept: nothing is ended now, {s.no_end}"
        if node.site not in s.sites:
            return f"kept: the instances of site {node.site} are not known now"
        if not node.may_act(s.now):
            until = "until what was asked for it is answered" if node.acting else f"until {self._retry(node)}"
            return f"kept {until}: {node.reason}"
        return self._floor(node, pool)

    def _retry(self, node: Node) -> str:
        return self.at(self.wall + node.retry_at - self.s.now)

    def _floor(self, node: Node, pool: Optional[Pool]) -> str:
        """What keeps an idle machine that nobody needs, and whose time is up."""
        registry, settings = self.s.registry, self.s.settings
        if registry.count(None, IN_SERVICE) - sum(self._going.values()) <= settings.min_vms:
            return f"kept: min_vms {settings.min_vms}"
        if pool is not None:
            gone = self._going[pool.name]
            if registry.count(pool.name, IN_SERVICE) - gone <= pool.min_vms:
                return f"kept: min_vms {pool.min_vms} of pool {pool.name}"
            if registry.count(pool.name, {State.IDLE}) - gone <= pool.terms.min_idle_vms:
                return f"kept: min_idle_vms {pool.terms.min_idle_vms} of pool {pool.name}"
        return f"idle for {node.idle_s:.0f} s: may go now"

    def _busy(self, node: Node) -> str:
        if node.id in self._drains:
            return f"{self._would('goes', 'go')} once its jobs have ended: {self._drains[node.id]}"
        if node.runs_something:
            return f"busy: {node.reason}" + (f"; goes once they have ended: {node.condemned}" if node.condemned else "")
        return f"kept: {node.reason}"

    def _draining(self, node: Node) -> str:
        s, since = self.s, f"draining since {self.at(node.since)} ({node.reason})"
        if node.acting:
            return f"{since}, waits for the batch system's answer"
        if node.act_ended is None or s.workers_began < node.act_ended:
            return f"{since}, waits for a read of the workers"
        if node.runs_something:
            return f"{since}, ended once its jobs have ended ({node.jobs})"
        until = self.at(self.wall + node.act_ended + s.settings.drain_timeout_s - s.now)
        return f"{since}, ended once a read shows it out of service, returned at {until}"

    def _lost(self, node: Node) -> str:
        after_s, left_s = self.s.settings.lost_after_s, self.s.settings.lost_after_s - node.lost_s
        text = f"lost: its worker has been missing for {node.lost_s:.0f} s of lost_after_s {after_s:g}"
        if left_s > 0 and not self.s.no_end:
            return f"{text}, ended at {self.at(self.wall + left_s)} if no job is recorded there"
        return f"{text}: kept, {self.s.no_end or node.reason}"

    def _failed(self, node: Node) -> str:
        waits = self.s.no_end or ("" if node.may_act(self.s.now) else f"asked again at {self._retry(node)}")
        return f"failed: {node.reason}; ended once it is known that it runs nothing" + (f" ({waits})" if waits else "")

    def _for_whom(self, node: Node, before: str) -> str:
        groups = sorted(self._reserved.get(node.id, ()), key=lambda one: -one[0])
        return before + _named([_jobs(count, group) for count, group in groups]) if groups else ""

    def _name(self, machine: str) -> str:
        node = self.s.registry.nodes.get(machine)
        if node is None:
            return machine.partition("worker ")[2] or machine
        return f"{node.worker} ({node.name})" if node.worker else node.name

    # ------------------------------------------------------------------ pools

    def pool(self, pool: Pool) -> list[str]:
        """What a pool is, what holds it back, and which of the waiting jobs its machines would run."""
        s, count, terms = self.s, self.s.registry.count, pool.terms
        most = "no limit of its own" if pool.max_vms is None else f"at most {pool.max_vms}"
        states = f"{count(pool.name, JOINED)} joined, {count(pool.name, TO_COME)} to come"
        lines = [f"{count(pool.name)} machines count ({states}); {most}, min_vms {pool.min_vms}"]
        lines += [f"flavour {flavour or 'of the cloud'}: {self._flavour(pool, flavour)}" for flavour in pool.flavours]
        own = {key: value for key, value in vars(terms).items() if value not in (None, 0, 0.0, (), "terminate")}
        if own:
            lines.append("its own terms: " + ", ".join(f"{key} {_plain(value)}" for key, value in own.items()))
        if any(pool.markets):
            lines.append(f"markets: {', '.join(filter(None, pool.markets))}")
        if pool.site not in s.sites:
            lines.append(f"the instances of site {pool.site} are not known now: nothing is launched or ended there")
        scopes = (f"site {pool.site}", f"pool {pool.name}", *(f"offer {offer}" for offer in pool.offers()))
        lines += [text for scope, text in self._blocks() if scope in scopes]
        breaker = s.health.breaker(pool.name)
        return [*lines, *([breaker] if breaker else []), *self._runs(pool)]

    def _flavour(self, pool: Pool, flavour: str) -> str:
        sizes = [_size(what, has) for what, has in vars(capacity(self.s, pool, flavour)).items() if has is not None]
        price = pool.price(flavour)
        cost = "no price" if price is None else f"{price:g} an hour"
        return f"{', '.join(sizes) or 'its size is not known until one has joined'}; {cost}"

    def _runs(self, pool: Pool) -> Iterable[str]:
        runs: list[str] = []
        misfits: list[str] = []
        for v in self.plan.verdicts:
            if not v.group.not_eligible:
                sizes = {flavour: capacity(self.s, pool, flavour) for flavour in pool.flavours}
                fits = any(self.s.fits(v.group, pool, flavour, size)[0] for flavour, size in sizes.items())
                (runs if fits else misfits).append(_jobs(v.group.waiting, v.group))
        if runs:
            yield f"of the waiting jobs it can run {_named(runs)}"
        if misfits:
            yield f"it cannot run {_named(misfits)}"

    def _blocks(self) -> Iterable[tuple[str, str]]:
        """What is held back now: the scope, and until when and why."""
        for scope, block in self.s.health.blocks.items():
            left_s = block.until - self.s.now
            if left_s > 0:
                yield scope, f"{scope} is held back until {self.at(self.wall + left_s)}: {block.reason}"


def _by_node(steps: Iterable[Step]) -> dict[str, str]:
    return {step.node.id: step.reason for step in steps}


def _jobs(count: int, group: JobGroup) -> str:
    return group_name(group, count, "waiting job")


def _named(names: Sequence[str]) -> str:
    """A few of them, and how many more there are."""
    if len(names) <= NAMED_AT_MOST:
        return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return f"{', '.join(names[:NAMED_AT_MOST])} and {len(names) - NAMED_AT_MOST} more"


def _size(what: str, value: float) -> str:
    if not what.endswith("_mb"):
        return f"{value:g} {what}"
    kind = "" if what == "memory_mb" else f" of {what[:-3]}"
    return (f"{value / 1024:.4g} GB" if value >= 1024 else f"{value:g} MB") + kind


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return "; ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
