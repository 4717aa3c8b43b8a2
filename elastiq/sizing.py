"""Machines of the right sizes for groups of jobs: offers as choices for `elastiq.choosing`, its answer as orders.

Pure. Imported where the offers are of several sizes, or a job needs several machines.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Optional, Sequence

from elastiq.broker import ONE_FIRST, Orders, Served, Wanted, capacity, empty, unmatchable
from elastiq.choosing import LIMITED, ONE_ONLY, Choice, Chosen, Want, choose
from elastiq.interfaces import JobGroup, Offer, Pool
from elastiq.nodes import State
from elastiq.packing import need
from elastiq.policies import Tier, by_cores, tiers
from elastiq.situation import ASKING, Allowance, Situation

Offers = Sequence[tuple[Pool, Offer]]
_EPSILON = 1e-9  # of sums of prices


def serve(orders: Orders, wants: Sequence[Wanted]) -> dict[str, Served]:
    """Order machines for the groups, the most important first. Offers of an earlier tier come first, whatever
    they cost."""
    left = list(wants)
    served: dict[str, Served] = {}
    tiers, in_vain = _tiers(orders), None
    for number, tier in enumerate(tiers):
        last = number == len(tiers) - 1
        if last or tier.offers is not in_vain:  # the steps of a balance are many, of the same offers
            left = _serve_tier(orders, left, tier, served, last)
            in_vain = None if any(served[want.group.key].matchable for want in left) else tier.offers
    return served


def _tiers(orders: Orders) -> list[Tier]:
    plain = orders.s.settings.policy == ("cheapest",)
    return [Tier(orders.offers)] if plain else tiers(orders.s, orders.offers)


def expected_price(s: Situation, pool: Pool, offer: Offer) -> float:
    """What a machine of an offer is taken to cost an hour: its price; where it has none, as much for a core as the
    dearest that has, and where none has, 1. A pool whose boots fail has to be cheaper by so many times."""
    doubt = s.health.doubt(pool.name, s.now)
    price = None if by_cores(s) else pool.price(offer.flavour, offer.market)
    return doubt * (_by_cores(s, pool, offer.flavour) if price is None else price)


def _by_cores(s: Situation, pool: Pool, flavour: str) -> float:
    known = [(p, o, p.price(o.flavour, o.market)) for p in s.settings.pools for o in p.offers()]
    of_core = [price / _cores(s, p, o.flavour) for p, o, price in known if price is not None]
    return _cores(s, pool, flavour) * max(of_core, default=1.0)


def _cores(s: Situation, pool: Pool, flavour: str) -> float:
    """Of one whose size is not known, as many as the jobs that it is taken to run."""
    return capacity(s, pool, flavour).cpus or float(s.settings.n_jobs_per_vm_of(pool.name))


def _serve_tier(orders: Orders, wants: list[Wanted], tier: Tier, served: dict[str, Served], last: bool) -> list[Wanted]:
    """Order from these offers; returns what is left for the next tier."""
    obstacles = {offer: orders.obstacle(pool, offer)[0] or _full(orders, pool, offer) for pool, offer in tier.offers}
    there = [(pool, offer) for pool, offer in tier.offers if not obstacles[offer]]
    limits: list[Allowance] = []
    choices = [_choice(orders, tier, pool, offer, limits) for pool, offer in there]
    fits = {want.group.key: _fits(orders, want, tier.offers) for want in wants}
    asking = {key: why for key, of in fits.items() for _, offer in there if (why := of[offer]) in ASKING}
    asked = [
        Want(
            want.group.key,
            need(want.group.request, want.group.apart),
            want.jobs,
            want.group.nodes,
            [at for at, (_, offer) in enumerate(there) if fits[want.group.key].get(offer) == ""],
            want.one_only,
        )
        for want in wants
        if want.group.key not in asking  # what is being asked may be the better offer
    ]
    chosen = choose(asked, choices, [limit.left for limit in limits])
    _order(orders, chosen, there, wants)
    rest: list[Wanted] = []
    for want in wants:
        key, before = want.group.key, served.get(want.group.key)
        why_not = asking.get(key)
        one = Served(0, why_not, True) if why_not else _served(want, chosen, limits, obstacles, fits[key])
        if before is not None:
            why = one.why if one.matchable else before.why
            one = Served(before.jobs + one.jobs, why, before.matchable or one.matchable)
        served[key] = one
        missing = 0 if want.one_only and one.jobs else chosen.left[key].jobs if key in chosen.left else 0
        if missing and not last:
            rest.append(Wanted(want.group, missing, want.one_only))
    return rest


def _full(orders: Orders, pool: Pool, offer: Offer) -> str:
    """Why a quota or a cap allows not even one; empty if they do."""
    price = pool.price(offer.flavour, offer.market) or 0.0
    limits = ((limit, price if limit.priced else 1.0) for limit in orders.budget.of(pool, offer))
    return next((limit.why() for limit, each in limits if limit.left + _EPSILON < each), "")


def _choice(orders: Orders, tier: Tier, pool: Pool, offer: Offer, limits: list[Allowance]) -> Choice:
    uses = []
    price = pool.price(offer.flavour, offer.market) or 0.0
    cap = tier.caps.get(pool.name)
    for limit in [*orders.budget.of(pool, offer), *([cap] if cap else [])]:
        if limit.left == math.inf:
            continue
        at = next((at for at, known in enumerate(limits) if known is limit), len(limits))
        limits += [limit] if at == len(limits) else []
        uses.append((at, price if limit.priced else 1.0))
    room = empty(orders.s, pool.name, offer.flavour)
    return Choice(room, expected_price(orders.s, pool, offer), uses=tuple(uses))


def _fits(orders: Orders, want: Wanted, offers: Offers) -> dict[Offer, str]:
    """Of each offer that may be tried for a group: empty if it would run its jobs, else why not."""
    kinds: dict[tuple[str, str], str] = {}
    found, trial = {}, orders.s.trials.get(want.group.key)
    for pool, offer in offers:
        kind = (pool.name, offer.flavour)
        if kind not in kinds:
            refused = trial.refuses(*kind)
            each, misfit = (0, None) if refused else orders.fit(want.group, pool, offer.flavour)
            kinds[kind] = "" if each else misfit or "it ran none of them before"
        found[offer] = kinds[kind]
    return found


def _order(orders: Orders, chosen: Chosen, there: Offers, wants: Sequence[Wanted]) -> None:
    by_key = {want.group.key: want for want in wants}
    before: Counter[str] = Counter()  # slots; a job of several machines counts where its last one is
    for machines in chosen.machines:
        pool, offer = there[machines.choice]
        names = [by_key[key].name for key in machines.slots]
        groups = {}
        for key, slots in machines.slots.items():
            want, nodes = by_key[key], by_key[key].group.nodes
            jobs = (before[key] + slots) // nodes - before[key] // nodes
            before[key] += slots
            groups[key] = want.jobs if want.one_only else jobs
        orders.launch(offer, pool, machines.count, "; ".join(dict.fromkeys(names)), groups)


def _served(
    want: Wanted, chosen: Chosen, limits: Sequence[Allowance], obstacles: dict[Offer, str], fits: dict[Offer, str]
) -> Served:
    left = chosen.left.get(want.group.key)
    jobs = want.jobs - (left.jobs if left else 0)
    fitting = [offer for offer, misfit in fits.items() if not misfit]
    if not fitting:
        return Served(0, unmatchable(f"{offer}: {misfit}" for offer, misfit in fits.items()), False)
    if left is None:
        return Served(jobs, "", True)
    return Served(jobs, _why(left.why, [limits[at].why() for at in left.limits], [obstacles[o] for o in fitting]), True)


def _why(kind: str, limits: Sequence[str], obstacles: Sequence[str]) -> str:
    if kind == ONE_ONLY:
        return ONE_FIRST
    found: list[Optional[str]] = [*dict.fromkeys(obstacles), *(limits if kind == LIMITED else ())]
    return "; ".join(filter(None, found)) or "no machine holds it"


def claimed(s: Situation, group: JobGroup) -> int:
    """Jobs of several machines for which some have joined, and are held for them until the others have."""
    since = s.wall - s.settings.unused_room_s
    nodes = (n for n in s.registry if n.state is State.BUSY and n.joined_at is not None and n.joined_at > since)
    return min(group.waiting, sum(node.groups.get(group.key, 0) for node in nodes))
