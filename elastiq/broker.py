"""Which pool and flavour serves which demand, within the quotas.

Pure. Offers are taken in the order of the configuration: the first that fits, is not held back and has
room in its quotas; what one cannot give goes to the next in the same plan.
"""

from __future__ import annotations

from typing import Optional, Sequence

from elastiq.interfaces import JobGroup, Offer, Pool, Resources
from elastiq.nodes import CAPACITY, TO_COME
from elastiq.packing import Need, Room, Vector, jobs_held, need, vector, without
from elastiq.situation import Launch, Situation, group_name


def capacity(s: Situation, pool: Pool, flavour: str) -> Resources:
    """What a new machine offers: as configured, else as learned from workers that joined."""
    learned = s.registry.learned.get((pool.name, flavour), Resources())
    return pool.capacity.merged(learned, lambda configured, _: configured)


class Budget:
    """How many more machines may be there: everything that is not confirmed gone counts."""

    def __init__(self, s: Situation) -> None:
        self._s = s
        limit = s.settings.max_vms
        self.counted = len(s.registry) + (s.foreign if s.settings.quota_counts == "all" else 0)
        self._left = None if limit is None else max(0, limit - self.counted)
        self._pool_left: dict[str, Optional[int]] = {}
        self._why: dict[str, str] = {}
        for pool in s.settings.pools:
            there = s.registry.count(pool.name)
            left = None if pool.max_vms is None else max(0, pool.max_vms - there)
            self._why[pool.name] = f"pool {pool.name} may have max_vms {pool.max_vms} ({there} counted)"
            broken = s.health.breaker(pool.name)
            if broken:
                canary = max(0, 1 - s.registry.count(pool.name, TO_COME))
                left, self._why[pool.name] = (canary if left is None else min(left, canary)), broken
            self._pool_left[pool.name] = left

    def allowed(self, pool: str, wanted: int) -> tuple[int, str]:
        """How many of the wanted may be launched, and why not all."""
        left = self._pool_left[pool]
        count = min(x for x in (wanted, self._left, left) if x is not None)
        if count == wanted:
            return count, ""
        if left == count:
            return count, self._why[pool]
        return count, f"max_vms {self._s.settings.max_vms} is reached ({self.counted + count} counted)"

    def take(self, pool: str, count: int) -> None:
        if self._left is not None:
            self._left -= count
            self.counted += count
        left = self._pool_left[pool]
        if left is not None:
            self._pool_left[pool] = left - count


class Orders:
    """The launches of one plan."""

    def __init__(self, s: Situation, budget: Budget, room: Room) -> None:
        self._s, self._budget, self._room = s, budget, room
        self._orders: list[Launch] = []

    def floor(self) -> None:
        """Raise each pool and the cluster to its minimum, capacity to come counted."""
        s = self._s
        for pool in s.settings.pools:
            lacking = pool.min_vms - s.registry.count(pool.name, CAPACITY)
            self._any([pool], lacking, f"min_vms {pool.min_vms} of pool {pool.name}")
        there = s.registry.count(None, CAPACITY) + sum(order.count for order in self._orders)
        self._any(s.settings.pools, s.settings.min_vms - there, f"min_vms {s.settings.min_vms}")

    def serve(
        self, group: JobGroup, jobs: int, one_only: bool, refused_by: Sequence[str] = ()
    ) -> tuple[int, str, bool]:
        """Order machines for so many jobs of a group, from pools other than those known not to run it.
        Returns how many jobs they hold, why no more, and whether any offer would run them."""
        asked = need(group.request)
        covered, why, misfits, matchable = 0, "", [], False
        for pool, offer in self._offers(self._s.settings.pools):
            if pool.name in refused_by:
                continue
            each, misfit, room = self._fit(group, pool, offer)
            if not each:
                misfits.append(f"{offer}: {misfit}")
                continue
            matchable = True
            if covered >= jobs or (one_only and covered):
                break
            wanted = 1 if one_only else -(-(jobs - covered) // each)
            count, obstacle = self._launch(offer, pool, wanted, f"{jobs} waiting {group_name(group)}")
            why = obstacle or why
            if count:
                held = min(jobs - covered, count * each)
                covered += held
                order = self._orders[-1]
                for_jobs = jobs if one_only else held  # one machine is tried on behalf of all
                self._orders[-1] = Launch(order.offer, order.count, order.reason, {group.key: for_jobs})
                self._leave_room(room, asked, each, count, held)
        if one_only and covered:
            why = why or "one machine first: there was room for these jobs that they did not use"
        if not matchable:
            why = "nothing offered can run it: " + "; ".join(dict.fromkeys(misfits)) if misfits else "no pool"
        return covered, why if covered < jobs else "", matchable

    def matchable(self, group: JobGroup) -> bool:
        """Whether any offer would run its jobs, as far as is known."""
        trial = self._s.trials.get(group.key)
        refused_by = trial.refused_by if trial else ()
        return any(
            pool.name not in refused_by and self._fit(group, pool, offer)[0]
            for pool, offer in self._offers(self._s.settings.pools)
        )

    def _fit(self, group: JobGroup, pool: Pool, offer: Offer) -> tuple[int, str, Vector]:
        """How many of its jobs an empty machine holds, if none why, and that machine's room."""
        whole = capacity(self._s, pool, offer.flavour)
        room = vector(whole, self._s.settings.n_jobs_per_vm)
        fits, misfit = self._s.fits(group, whole)
        each = jobs_held(room, need(group.request)) if fits else 0
        return each, misfit or "too small", room

    def merged(self) -> tuple[Launch, ...]:
        """One call for each offer, whatever it is for."""
        by_offer: dict[Offer, Launch] = {}
        for order in self._orders:
            before = by_offer.get(order.offer)
            if before is None:
                by_offer[order.offer] = order
                continue
            groups = dict(before.groups)
            for key, jobs in order.groups.items():
                groups[key] = groups.get(key, 0) + jobs
            reasons = before.reason if order.reason in before.reason else f"{before.reason}; {order.reason}"
            by_offer[order.offer] = Launch(order.offer, before.count + order.count, reasons, groups)
        return tuple(by_offer.values())

    def _any(self, pools: Sequence[Pool], lacking: int, reason: str) -> None:
        for pool, offer in self._offers(pools):
            if lacking < 1:
                return
            count, _ = self._launch(offer, pool, lacking, reason)
            lacking -= count
            if count:
                whole = vector(capacity(self._s, pool, offer.flavour), self._s.settings.n_jobs_per_vm)
                self._room.add(whole, [f"new {offer}"] * count)

    def _offers(self, pools: Sequence[Pool]) -> list[tuple[Pool, Offer]]:
        return [(pool, offer) for pool in pools for offer in pool.offers()]

    def _launch(self, offer: Offer, pool: Pool, wanted: int, reason: str) -> tuple[int, str]:
        if pool.site not in self._s.sites:
            return 0, f"the instances of site {pool.site} are not known now"
        obstacle = self._s.health.blocked(offer, pool.site, self._s.now)
        if obstacle:
            return 0, obstacle
        count, obstacle = self._budget.allowed(offer.pool, wanted)
        if count:
            self._budget.take(offer.pool, count)
            self._orders.append(Launch(offer, count, reason))
        return count, obstacle

    def _leave_room(self, room: Vector, asked: Need, each: int, count: int, held: int) -> None:
        """What the new machines have left serves the groups that come after."""
        full, rest = divmod(held, each)
        self._room.add(without(room, asked, each), ["new"] * full)
        self._room.add(without(room, asked, rest), ["new"] * (count - full))
