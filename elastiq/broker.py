"""Which pool and flavour serves which demand, within the quotas.

Pure. Offers are taken in the order of the configuration: the first that fits, is not held back and has
room in its quotas; what one cannot give goes to the next in the same plan.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Collection, Iterable, Iterator, Optional, Sequence

from elastiq.interfaces import JobGroup, Offer, Pool, Resources
from elastiq.nodes import CAPACITY, TO_COME, Node, State
from elastiq.packing import Room, Vector, jobs_held, need, vector, without
from elastiq.situation import Allowance, Launch, Situation, group_name

_EPSILON = 1e-9  # of sums of prices


def capacity(s: Situation, pool: Pool, flavour: str) -> Resources:
    """What a new machine offers: as configured, else as learned from workers that joined, else by the cloud's
    catalogue, of whose memory and disk the operating system takes some."""
    learned = s.registry.learned.get((pool.name, flavour), Resources())
    listed, terms = s.registry.catalogue.get((pool.site, flavour), Resources()), pool.terms
    usable = Resources(
        listed.cpus,
        None if listed.memory_mb is None else max(0.0, listed.memory_mb - terms.reserve_memory_mb),
        None if listed.disk_mb is None else max(0.0, listed.disk_mb - terms.reserve_disk_mb),
        listed.gpus,
    )
    return pool.capacity.merged(learned, _first).merged(usable, _first)


def _first(nearer: float, _: float) -> float:
    return nearer


def empty(s: Situation, pool: str, flavour: str) -> Vector:
    """The room of a new machine; of a pool that is not configured, no more is known than how many jobs it may take."""
    known = s.settings.pool(pool)
    whole = capacity(s, known, flavour) if known else Resources()
    return vector(whole, s.settings.n_jobs_per_vm_of(pool))


class Budget:
    """How many more machines may be there: everything that is not confirmed gone counts."""

    def __init__(self, s: Situation) -> None:
        registry, most = s.registry, s.settings.max_vms
        counted = len(registry) + (s.foreign if s.settings.quota_counts == "all" else 0)
        self._of_all = [Allowance(f"max_vms {most}", _left(most, counted), counted), *map(replace, s.allowances)]
        self._of_pool: dict[str, list[Allowance]] = {}
        for pool in s.settings.pools:
            there, broken = registry.count(pool.name), s.health.breaker(pool.name)
            own = Allowance(f"max_vms {pool.max_vms} of pool {pool.name}", _left(pool.max_vms, there), there)
            canary = [Allowance(broken, _left(1, registry.count(pool.name, TO_COME)), counts="")] if broken else []
            self._of_pool[pool.name] = [*canary, own]

    def take(self, pool: Pool, offer: Offer, wanted: int, held_back: bool = False) -> tuple[int, str]:
        """Count in as many of the wanted as may be launched, none if ``held_back``: how many, and why not all."""
        price = pool.price(offer.flavour, offer.market) or 0.0
        limits = [(one, price if one.priced else 1.0) for one in (*self._of_pool[pool.name], *self._of_all)]
        count, binding = wanted, None
        for limit, each in limits:
            if limit.left + _EPSILON < count * each:
                count, binding = max(0, int(limit.left / each + _EPSILON)), limit
        count = 0 if held_back else count
        for limit, each in limits:
            limit.left -= count * each
            limit.used += count * each
        return count, binding.why() if binding else ""


def _left(limit: Optional[int], there: int) -> float:
    return math.inf if limit is None else max(0, limit - there)


class Orders:
    """The launches of one plan."""

    def __init__(self, s: Situation, room: Room) -> None:
        self._s, self._budget, self._room = s, Budget(s), room
        self._orders: list[Launch] = []

    def floor(self, leaving: Collection[str]) -> None:
        """Raise each pool and the cluster to its minimum, capacity to come counted; not so what will leave."""
        s = self._s
        there = Counter(pool for pool, _ in s.health.unreplaced(s.now))
        there.update(node.pool for node in s.registry if node.state in CAPACITY and node.id not in leaving)
        for pool in s.settings.pools:
            lacking = pool.min_vms - there[pool.name]
            self._any([pool], lacking, f"min_vms {pool.min_vms} of pool {pool.name}")
        together = sum(there.values()) + sum(order.count for order in self._orders)
        self._any(s.settings.pools, s.settings.min_vms - together, f"min_vms {s.settings.min_vms}")

    def spares(self, leaving: Collection[str]) -> None:
        """Raise each pool to its hot spares: machines, there or to come, that no waiting job will use."""
        s, states = self._s, TO_COME | {State.IDLE}
        taken = self._room.reserved.union(leaving)
        unused = [node for node in s.registry if node.state in states and node.id not in taken]
        there = Counter(node.pool for node in unused)
        for order in self._orders:
            there[order.offer.pool] += 0 if order.groups else order.count
        for pool in s.settings.pools:
            lacking = pool.terms.min_idle_vms - there[pool.name]
            self._any([pool], lacking, f"min_idle_vms {pool.terms.min_idle_vms} of pool {pool.name}")

    def replace(self, node: Node, pools: Sequence[Pool], reason: str) -> None:
        """Launch one for a machine that is about to be taken, and not from where the cloud takes it."""
        for pool, offer in _offers(pools):
            if offer != Offer(node.pool, node.flavour, node.network, node.market):
                if self._launch(offer, pool, 1, reason)[0]:
                    self._orders[-1] = replace(self._orders[-1], replaces=(node.id,))
                    self._room.add(empty(self._s, pool.name, offer.flavour), [f"new {offer}"])
                    return

    def serve(self, group: JobGroup, jobs: int, one_only: bool) -> tuple[int, str, bool]:
        """Order machines for so many jobs of a group. Returns how many jobs they hold, why no more, and
        whether any offer would run them."""
        asked = need(group.request)
        covered, why, misfits, matchable = 0, "", [], False
        for pool, offer in self._offers_to(group):
            each, misfit, room = self._fit(group, pool, offer)
            if not each:
                misfits.append(f"{offer}: {misfit}")
                continue
            matchable = True
            if covered >= jobs or (one_only and covered):
                break
            wanted = 1 if one_only else -(-(jobs - covered) // each)
            count, obstacle = self._launch(offer, pool, wanted, group_name(group, jobs, "waiting job"))
            why = obstacle or why
            if count:
                held = min(jobs - covered, count * each)
                covered += held
                # One machine is tried on behalf of all.
                self._orders[-1].groups[group.key] = jobs if one_only else held
                # What the new machines have left serves the groups that come after.
                full, rest = divmod(held, each)
                self._room.add(without(room, asked, each), ["new"] * full)
                self._room.add(without(room, asked, rest), ["new"] * (count - full))
        if one_only and covered:
            why = why or "one machine first: there was room for these jobs that they did not use"
        if not matchable:
            why = "nothing offered can run it: " + "; ".join(dict.fromkeys(misfits)) if misfits else "no pool"
        return covered, why if covered < jobs else "", matchable

    def matchable(self, group: JobGroup) -> bool:
        """Whether any offer would run its jobs, as far as is known."""
        return any(self._fit(group, pool, offer)[0] for pool, offer in self._offers_to(group))

    def _offers_to(self, group: JobGroup) -> Iterator[tuple[Pool, Offer]]:
        """Those that are not known to run none of its jobs."""
        trial = self._s.trials.get(group.key)
        offers = _offers(self._s.settings.pools)
        return ((pool, offer) for pool, offer in offers if not trial.refuses(pool.name, offer.flavour))

    def _fit(self, group: JobGroup, pool: Pool, offer: Offer) -> tuple[int, str, Vector]:
        """How many of its jobs an empty machine holds, if none why, and that machine's room."""
        if group.pools and pool.name.lower() not in group.pools:
            return 0, f"they ask for pool {', '.join(group.pools)}", empty(self._s, pool.name, offer.flavour)
        whole = capacity(self._s, pool, offer.flavour)
        room = vector(whole, self._s.settings.n_jobs_per_vm_of(pool.name))
        fits, misfit = self._s.fits(group, pool, offer.flavour, whole)
        each = jobs_held(room, need(group.request)) if fits else 0
        return each, misfit or "too small", room

    def merged(self) -> tuple[Launch, ...]:
        """One call for each offer, whatever it is for."""
        by_offer: dict[Offer, Launch] = {}
        for order in self._orders:
            before = by_offer.get(order.offer, Launch(order.offer, 0, ""))
            new = [] if order.reason in before.reason else [order.reason]
            reasons = "; ".join([before.reason, *new] if before.reason else new)
            groups = Counter(before.groups) + Counter(order.groups)
            replaces = before.replaces + order.replaces
            by_offer[order.offer] = Launch(order.offer, before.count + order.count, reasons, groups, replaces)
        return tuple(by_offer.values())

    def _any(self, pools: Sequence[Pool], lacking: int, reason: str) -> None:
        for pool, offer in _offers(pools):
            if lacking < 1:
                return
            count, _ = self._launch(offer, pool, lacking, reason)
            lacking -= count
            if count:
                self._room.add(empty(self._s, pool.name, offer.flavour), [f"new {offer}"] * count)

    def _launch(self, offer: Offer, pool: Pool, wanted: int, reason: str) -> tuple[int, str]:
        if pool.name in self._s.drained:
            return 0, f"pool {pool.name} is being drained"
        if pool.site not in self._s.sites:
            return 0, f"the instances of site {pool.site} are not known now"
        obstacle = self._s.health.blocked(offer, pool.site, self._s.now)
        count, limit = self._budget.take(pool, offer, 1 if obstacle else wanted, bool(obstacle))
        if count:
            self._orders.append(Launch(offer, count, reason))
        return count, "; ".join(filter(None, (obstacle, limit)))


def _offers(pools: Iterable[Pool]) -> Iterator[tuple[Pool, Offer]]:
    return ((pool, offer) for pool in pools for offer in pool.offers())
