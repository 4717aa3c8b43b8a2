"""Which pool and flavour serves which demand, within the quotas.

Pure. Offers are taken in the order of the configuration: the first that fits, is not held back and has
room in its quotas; what one cannot give goes to the next in the same plan.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Iterable, Iterator, Mapping, Optional, Sequence

from elastiq.interfaces import JobGroup, Offer, Pool, Resources, Worker, request_fits
from elastiq.nodes import TO_COME, State
from elastiq.packing import Kind, Refuses, Room, Vector, jobs_held, need, vector, without
from elastiq.situation import ASKING, Allowance, Launch, Situation, group_name

_EPSILON = 1e-9  # of sums of prices
Groups = Mapping[str, int]  # how many jobs of each
NO_GROUPS: Groups = {}


def capacity(s: Situation, pool: Pool, flavour: str) -> Resources:
    """What a new machine offers: as configured, else as learned from workers that joined, else by the cloud's
    catalogue, of whose memory and disk the operating system takes some."""
    kind = (pool.name, flavour)
    if kind not in s.sizes:
        learned = s.registry.learned.get(kind, Resources())
        listed = s.registry.catalogue.get((pool.site, flavour), Resources())
        usable = listed.less(Resources(0.0, pool.terms.reserve_memory_mb, pool.terms.reserve_disk_mb, 0.0))
        s.sizes[kind] = pool.capacity.merged(learned).merged(usable)
    return s.sizes[kind]


def empty(s: Situation, pool: str, flavour: str) -> Vector:
    """The room of a new machine; of a pool that is not configured, no more is known than how many jobs it may take."""
    known = s.settings.pool(pool)
    whole = capacity(s, known, flavour) if known else Resources()
    return vector(whole, s.settings.n_jobs_per_vm_of(pool))


def free_room(s: Situation, pool: str, worker: Worker) -> Vector:
    """What a worker of that pool has left."""
    known = worker.free.cpus is not None
    return vector(worker.free, 0 if known else max(0, s.settings.n_jobs_per_vm_of(pool) - worker.jobs))


class Budget:
    """How many more machines may be there: everything that is not confirmed gone counts."""

    def __init__(self, s: Situation) -> None:
        registry, most = s.registry, s.settings.max_vms
        counted = len(registry) + (s.foreign if s.settings.quota_counts == "all" else 0)
        self.of_all = [Allowance(f"max_vms {most}", _left(most, counted), counted), *map(replace, s.allowances)]
        self.of_pool: dict[str, list[Allowance]] = {}
        self.stopped: dict[tuple[Pool, Offer], Allowance] = {}
        if registry.count(None, {State.STOPPED}):
            from elastiq.stopped import offers

            self.stopped = offers(s)
        for pool in s.settings.pools:
            there, broken = registry.count(pool.name), s.health.breaker(pool.name)
            own = Allowance(f"max_vms {pool.max_vms} of pool {pool.name}", _left(pool.max_vms, there), there)
            canary = [Allowance(broken, _left(1, registry.count(pool.name, TO_COME)), counts="")] if broken else []
            self.of_pool[pool.name] = [*canary, own]

    def of(self, pool: Pool, offer: Offer) -> list[Allowance]:
        """The limits that hold for the machines of an offer. A stopped one counts already."""
        if (pool, offer) in self.stopped:
            return [self.stopped[pool, offer], *self.of_pool[pool.name][:-1], *self.of_all[1:]]
        return [*self.of_pool[pool.name], *self.of_all]

    def take(self, pool: Pool, offer: Offer, wanted: int, held_back: bool = False) -> tuple[int, str]:
        """Count in as many of the wanted as may be launched, none if ``held_back``: how many, and why not all."""
        price = pool.price(offer.flavour, offer.market) or 0.0
        limits = [(one, price if one.priced else 1.0) for one in self.of(pool, offer)]
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


@dataclass(frozen=True)
class Wanted:
    """Jobs of a group for which there is no room. ``one_only``: one machine is tried on behalf of all."""

    group: JobGroup
    jobs: int
    one_only: bool = False

    @property
    def name(self) -> str:
        """For people."""
        return group_name(self.group, self.jobs, "waiting job")


@dataclass(frozen=True)
class Served:
    """How many jobs the ordered machines hold, why no more, and whether any offer would run them."""

    jobs: int
    why: str
    matchable: bool


ONE_FIRST = "one machine first: there was room for these jobs that they did not use"


class Orders:
    """The launches of one plan."""

    def __init__(self, s: Situation, room: Room) -> None:
        self.s, self.budget, self.room = s, Budget(s), room
        self._left = Room()  # what the ordered machines have left
        self.made: list[Launch] = []
        self.unasked: list[tuple[str, str]] = []  # pool and name of the machines that are ordered for no group
        self.offers = offers_in_order(s, [*self.budget.stopped])
        self.unserved: list[tuple[JobGroup, int]] = []  # jobs that want a machine, and get none

    def one_size(self, wants: Sequence[Wanted]) -> bool:
        """Whether there is no size to choose: all machines are alike, and each job needs one."""
        sizes = {empty(self.s, pool.name, offer.flavour) for pool, offer in self.offers}
        return len(sizes) < 2 and all(want.group.nodes == 1 for want in wants)

    def serve(self, want: Wanted) -> Served:
        """Order machines for one group, where all are of one size."""
        group, asked = want.group, need(want.group.request, want.group.apart)
        covered = self._left.hold(asked, want.jobs, refuses=self.refuses(group)).jobs
        why, misfits, matchable = "", [], False
        for pool, offer in self.offers_to(group):
            each, misfit = self.fit(group, pool, offer.flavour)
            if misfit in ASKING and covered < want.jobs and not self.obstacle(pool, offer)[0]:
                return Served(covered, misfit, True)  # it may be the better one
            if not each:
                misfits.append(f"{offer}: {misfit}")
                continue
            matchable = True
            if covered >= want.jobs or (want.one_only and covered):
                break
            wanted = 1 if want.one_only else -(-(want.jobs - covered) // each)
            count, obstacle = self.launch(offer, pool, wanted, want.name)
            why = obstacle or why
            if count:
                held = min(want.jobs - covered, count * each)
                covered += held
                # One machine is tried on behalf of all.
                self.made[-1].groups[group.key] = want.jobs if want.one_only else held
                # What the new machines have left serves the groups that come after.
                room, (full, rest) = empty(self.s, pool.name, offer.flavour), divmod(held, each)
                kind = (pool.name, offer.flavour)
                self._left.add(without(room, asked, each), ["new"] * full, kind)
                self._left.add(without(room, asked, rest), ["new"] * (count - full), kind)
        if want.one_only and covered:
            why = why or ONE_FIRST
        return Served(covered, (why if matchable else unmatchable(misfits)) if covered < want.jobs else "", matchable)

    def matchable(self, group: JobGroup) -> bool:
        """Whether any offer would run its jobs, as far as is known."""
        return any(self.fit(group, pool, offer.flavour)[0] for pool, offer in self.offers_to(group))

    def offers_to(self, group: JobGroup) -> Iterator[tuple[Pool, Offer]]:
        """Those that are not known to run none of its jobs."""
        trial = self.s.trials.get(group.key)
        return ((pool, offer) for pool, offer in self.offers if not trial.refuses(pool.name, offer.flavour))

    def fit(self, group: JobGroup, pool: Pool, flavour: str) -> tuple[int, str]:
        """How many of its jobs an empty machine holds, and if none why."""
        if group.pools and pool.name.lower() not in group.pools:
            return 0, f"they ask for pool {', '.join(group.pools)}"
        fits, misfit = self.s.fits(group, pool, flavour, capacity(self.s, pool, flavour))
        each = jobs_held(empty(self.s, pool.name, flavour), need(group.request, group.apart)) if fits else 0
        return each, misfit or "too small"

    def refuses(self, group: JobGroup) -> Refuses:
        """Tells of which kinds of machines it is known, not by their size, that they run none of its jobs."""
        known: dict[Kind, bool] = {}

        def refused(kind: Kind) -> bool:
            pool = self.s.settings.pool(kind[0])
            if pool is not None and kind not in known:
                size = capacity(self.s, pool, kind[1])
                fits, why = self.s.fits(group, pool, kind[1], size)
                by_match = not fits and why not in ASKING and request_fits(group.request, size)[0]
                known[kind] = by_match or bool(group.pools and pool.name.lower() not in group.pools)
            return known.get(kind, False)

        return refused

    def merged(self) -> tuple[Launch, ...]:
        """One call for each offer, whatever it is for."""
        by_offer: dict[Offer, Launch] = {}
        for order in self.made:
            before = by_offer.get(order.offer, Launch(order.offer, 0, ""))
            new = [] if order.reason in before.reason else [order.reason]
            reasons = "; ".join([before.reason, *new] if before.reason else new)
            groups = Counter(before.groups) + Counter(order.groups)
            replaces = before.replaces + order.replaces
            by_offer[order.offer] = Launch(order.offer, before.count + order.count, reasons, groups, replaces)
        return tuple(by_offer.values())

    def launch(self, offer: Offer, pool: Pool, wanted: int, reason: str, groups: Groups = NO_GROUPS) -> tuple[int, str]:
        """Order as many of the wanted machines as may be launched: how many, and why not all."""
        obstacle, again = self.obstacle(pool, offer)
        count, limit = self.budget.take(pool, offer, 1 if obstacle else wanted, bool(obstacle)) if again else (0, "")
        if count:
            self.made.append(Launch(offer, count, reason, dict(groups)))
        return count, "; ".join(filter(None, (obstacle, limit)))

    def obstacle(self, pool: Pool, offer: Offer) -> tuple[str, bool]:
        """Why nothing may be launched from an offer now, empty if it may; and whether its quotas matter at all."""
        if pool.name in self.s.drained:
            return f"pool {pool.name} is being drained", False
        if pool.site not in self.s.sites:
            return f"the instances of site {pool.site} are not known now", False
        return self.s.health.blocked(offer, pool.site, self.s.now), True


def unmatchable(misfits: Iterable[str]) -> str:
    """What to say of jobs that no offer runs; ``misfits`` say why of each offer."""
    why = "; ".join(dict.fromkeys(misfits))
    return f"nothing offered can run it: {why}" if why else "no pool"


def _by_price(s: Situation, pool: Pool, offer: Offer) -> tuple[float, float]:
    """What orders offers by price; one without a price comes as if it were free, but after what fails less."""
    doubt = s.health.doubt(pool.name, s.now)
    return (pool.price(offer.flavour, offer.market) or 0.0) * doubt, doubt


def offers_in_order(s: Situation, first: Sequence[tuple[Pool, Offer]]) -> list[tuple[Pool, Offer]]:
    """All offers, in the order in which they are preferred; as configured where that does not decide."""
    offers = [*first, *((pool, offer) for pool in s.settings.pools for offer in pool.offers())]
    if s.settings.policy == ("cheapest",):
        return sorted(offers, key=lambda one: _by_price(s, *one))
    from elastiq.policies import in_order

    return in_order(s, offers, partial(_by_price, s))
