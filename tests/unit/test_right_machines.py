"""The right machines: what holds for every plan, whatever waits, is offered and is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Optional

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from elastiq.broker import capacity, empty
from elastiq.interfaces import JobGroup, Pool, Resources, WorkerState, request_fits
from elastiq.nodes import Node, State
from elastiq.packing import jobs_held, need
from elastiq.planner import plan
from elastiq.situation import NOT_ASKED, Allowance, Launch, Plan, Situation
from tests.unit.plans import carry_out, launched, reason
from tests.unit.values import FOUR, a_node, a_pool, a_worker, group, situation, some_settings

# --------------------------------------------------------------------------- room is for those that may use it


def a_feature(group: JobGroup, pool: Pool, flavour: str, machine: Resources) -> tuple[bool, str]:
    """Of the pools of these tests only b has the feature that jobs of group g ask for."""
    return (True, "") if pool.name == "b" or group.key != "g" else (False, "no worker of this pool has it")


TWO_POOLS = some_settings(pools=(a_pool("a"), a_pool("b")))


@pytest.mark.parametrize("state", [State.IDLE, State.BOOTING])
def test_room_on_machines_that_would_not_run_a_job_keeps_none_of_the_right_ones_from_it(state: State) -> None:
    nodes = [a_node(state, 1, pool="a")]
    made = plan(situation(group(waiting=2), group("other"), nodes=nodes, settings=TWO_POOLS, fits=a_feature))
    assert launched(made) == {"b/medium": 1}
    assert "i-1" in reason(made, "other")


def test_room_in_another_pool_than_a_job_asks_for_keeps_none_from_it() -> None:
    nodes = [a_node(State.IDLE, 1, pool="a")]
    assert launched(plan(situation(group(waiting=2, pools=("b",)), nodes=nodes, settings=TWO_POOLS))) == {"b/medium": 1}
    assert launched(plan(situation(group(waiting=2, pools=("a",)), nodes=nodes, settings=TWO_POOLS))) == {}


def test_what_new_machines_have_left_serves_only_jobs_that_they_would_run() -> None:
    made = plan(situation(group("f", waiting=2), group("g"), settings=TWO_POOLS, fits=a_feature))
    assert launched(made) == {"a/medium": 1, "b/medium": 1}
    made = plan(situation(group("f", waiting=2), group("h"), settings=TWO_POOLS, fits=a_feature))
    assert launched(made) == {"a/medium": 1}


def test_a_machine_that_turned_out_larger_than_was_said_of_it_holds_what_it_holds() -> None:
    node = a_node(State.IDLE, 1, pool="a", seen=a_worker("w1", free=Resources(8, 16_000), total=Resources(8, 16_000)))
    assert launched(plan(situation(group(request=Resources(8, 16_000)), nodes=[node], settings=TWO_POOLS))) == {}


# --------------------------------------------------------------------------- what is being asked


def asking(group: JobGroup, pool: Pool, flavour: str, machine: Resources) -> tuple[bool, str]:
    return (False, NOT_ASKED) if pool.name == "a" else (True, "")


@pytest.mark.parametrize("size", [FOUR, Resources(8, 16_000)], ids=["one size", "several"])
def test_no_other_machine_is_taken_while_it_is_being_asked_whether_the_better_one_fits(size: Resources) -> None:
    settings = some_settings(pools=(a_pool("a", capacity=size), a_pool("b", prices={"*": 9.0})))
    made = plan(situation(group(waiting=2), settings=settings, fits=asking))
    assert (launched(made), reason(made)) == ({}, NOT_ASKED)
    assert made.verdicts[0].matchable


@pytest.mark.parametrize("size", [FOUR, Resources(8, 16_000)], ids=["one size", "several"])
def test_where_nothing_may_be_launched_nobody_waits_for_what_would_fit_there(size: Resources) -> None:
    settings = some_settings(pools=(a_pool("a", capacity=size, site="dark"), a_pool("b")))
    assert launched(plan(situation(group(waiting=2), settings=settings, fits=asking))) == {"b/medium": 1}


# --------------------------------------------------------------------------- everything at random

SIZES = {
    "small": Resources(1, 2000, 10_000, 0),
    "medium": Resources(4, 8000, 10_000, 0),
    "fat": Resources(4, 64_000, 10_000, 0),
    "gpu": Resources(8, 16_000, 10_000, 2),
    "unknown": Resources(),
}
FEATURES = ("", "docker", "fast")


@dataclass(frozen=True)
class Offered:
    flavours: tuple[str, ...]
    price: Optional[float]
    max_vms: Optional[int]
    features: frozenset[str]
    known: bool


@dataclass(frozen=True)
class Asked:
    request: Resources
    waiting: int
    feature: str
    pools: tuple[str, ...]
    nodes: int


@dataclass(frozen=True)
class There:
    state: State
    pool: int
    flavour: int
    busy: float  # of its cpus


@dataclass(frozen=True)
class Case:
    """What a situation is made of. Each call makes one of its own, as a plan may be carried out in it."""

    offered: tuple[Offered, ...]
    asked: tuple[Asked, ...]
    there: tuple[There, ...]
    max_vms: Optional[int]
    cost_left: Optional[float]

    def __call__(self) -> Situation:
        pools = tuple(
            a_pool(
                f"p{number}", flavours=of.flavours, capacity=Resources(), max_vms=of.max_vms,
                site="aws" if of.known else "dark", prices={} if of.price is None else {"*": of.price},
            )
            for number, of in enumerate(self.offered)
        )  # fmt: skip
        groups = [
            group(f"g{number}", of.waiting, of.request, pools=of.pools, nodes=of.nodes, requirements=of.feature)
            for number, of in enumerate(self.asked)
        ]
        allowances = () if self.cost_left is None else (Allowance("max_cost_per_hour", self.cost_left, priced=True),)
        made = situation(
            *groups,
            nodes=[self._node(number, of, pools) for number, of in enumerate(self.there, 1)],
            settings=some_settings(pools=pools, max_vms=self.max_vms),
            fits=self.fits,
            allowances=allowances,
        )
        made.registry.catalogue.update({(pool.site, name): SIZES[name] for pool in pools for name in pool.flavours})
        return made

    def fits(self, group: JobGroup, pool: Pool, flavour: str, machine: Resources) -> tuple[bool, str]:
        if group.requirements not in self.offered[int(pool.name[1:])].features:
            return False, f"no {group.requirements}"
        return request_fits(group.request, machine)

    def _node(self, number: int, of: There, pools: tuple[Pool, ...]) -> Node:
        pool = pools[of.pool % len(pools)]
        flavour = pool.flavours[of.flavour % len(pool.flavours)]
        size, changed = SIZES[flavour], {}
        if of.state in (State.IDLE, State.BUSY):
            busy = of.state is State.BUSY
            free = Resources(*(has if has is None else has * (1 - of.busy * busy) for has in vars(size).values()))
            state = WorkerState.BUSY if busy else WorkerState.IDLE
            changed = {"seen": a_worker(f"w{number}", state, total=size, free=free, jobs=int(busy))}
        return a_node(of.state, number, pool=pool.name, site=pool.site, flavour=flavour, **changed)


some_offers = st.builds(
    Offered,
    flavours=st.lists(st.sampled_from(sorted(SIZES)), min_size=1, max_size=3, unique=True).map(tuple),
    price=st.sampled_from([None, 0.0, 0.1, 0.3, 1.0]),
    max_vms=st.sampled_from([None, None, 0, 1, 4]),
    features=st.sampled_from([frozenset(FEATURES), frozenset(FEATURES), frozenset({""}), frozenset({"", "docker"})]),
    known=st.sampled_from([True, True, True, False]),
)
some_asked = st.builds(
    Asked,
    request=st.builds(
        Resources,
        cpus=st.sampled_from([None, 1, 1, 2, 3, 4, 8, 64]),
        memory_mb=st.sampled_from([None, 500, 2000, 7000, 50_000]),
        gpus=st.sampled_from([None, None, None, 1, 2, 3]),
    ),
    waiting=st.sampled_from([1, 2, 3, 7, 50]),
    feature=st.sampled_from(["", "", *FEATURES]),
    pools=st.sampled_from([(), (), (), ("p0",), ("p1", "p2"), ("nowhere",)]),
    nodes=st.sampled_from([1, 1, 1, 1, 3]),
)
some_nodes = st.builds(
    There,
    state=st.sampled_from([State.REQUESTED, State.BOOTING, State.IDLE, State.IDLE, State.BUSY, State.DRAINING]),
    pool=st.integers(0, 2),
    flavour=st.integers(0, 2),
    busy=st.sampled_from([0.25, 0.5, 1.0]),
)
some_cases = st.builds(
    Case,
    offered=st.lists(some_offers, min_size=1, max_size=3).map(tuple),
    asked=st.lists(some_asked, min_size=1, max_size=4).map(tuple),
    there=st.lists(some_nodes, max_size=3).map(tuple),
    max_vms=st.sampled_from([None, 0, 3, 8, 40]),
    cost_left=st.sampled_from([None, None, 0.35, 2.0]),
)


def price_of(s: Situation, order: Launch) -> float:
    pool = s.settings.pool(order.offer.pool)
    return (pool and pool.price(order.offer.flavour)) or 0.0


def would_run(s: Situation, one: JobGroup, pool: Pool, flavour: str) -> bool:
    """Whether an empty machine would run a job of the group, from all that is known."""
    if one.pools and pool.name not in one.pools:
        return False
    fits = s.fits(one, pool, flavour, capacity(s, pool, flavour))[0]
    return fits and jobs_held(empty(s, pool.name, flavour), need(one.request)) > 0


@hypothesis_settings(deadline=None, max_examples=120)
@given(some_cases)
def test_every_machine_that_is_launched_can_run_what_it_is_launched_for(case: Case) -> None:
    s = case()
    made = plan(s)
    launching = {verdict.group.key: verdict.launching for verdict in made.verdicts}
    groups = {verdict.group.key: verdict.group for verdict in made.verdicts}
    jobs: Counter[str] = Counter()
    for order in made.launches:
        pool = s.settings.pool(order.offer.pool)
        assert pool is not None and order.count > 0
        assert all(would_run(s, groups[key], pool, order.offer.flavour) for key in order.groups), order
        jobs.update(order.groups)
        if all(groups[key].nodes == 1 for key in order.groups):  # else one job may be on machines of several offers
            for at, has in enumerate(empty(s, pool.name, order.offer.flavour)):
                taken = sum(count * (*need(groups[key].request), 1.0)[at] for key, count in order.groups.items())
                assert has is None or taken <= has * order.count + 1e-6
    # less, where all machines are of one size, and what one has left over serves a further group
    assert all(count <= launching[key] for key, count in jobs.items())


@hypothesis_settings(deadline=None, max_examples=120)
@given(some_cases)
def test_nothing_is_launched_that_no_job_uses(case: Case) -> None:
    made = plan(case())
    slots = sum(verdict.launching * verdict.group.nodes for verdict in made.verdicts)
    assert sum(order.count for order in made.launches) <= slots
    if all(verdict.group.nodes == 1 for verdict in made.verdicts):  # else an order may have a part of a job only
        assert all(order.count <= sum(order.groups.values()) for order in made.launches)


@hypothesis_settings(deadline=None, max_examples=120)
@given(some_cases)
def test_no_launch_goes_beyond_a_quota_or_a_cap(case: Case) -> None:
    s = case()
    made = plan(s)
    total, cost = 0, 0.0
    by_pool: Counter[str] = Counter()
    for order in made.launches:
        pool = s.settings.pool(order.offer.pool)
        assert pool is not None and pool.site in s.sites
        total, by_pool[pool.name] = total + order.count, by_pool[pool.name] + order.count
        cost += order.count * price_of(s, order)
    assert case.max_vms is None or total <= max(0, case.max_vms - len(s.registry))
    assert case.cost_left is None or cost <= case.cost_left + 1e-6
    for pool in s.settings.pools:
        left = None if pool.max_vms is None else max(0, pool.max_vms - s.registry.count(pool.name))
        assert left is None or by_pool[pool.name] <= left


@hypothesis_settings(deadline=None, max_examples=120)
@given(some_cases)
def test_jobs_that_no_offer_fits_launch_nothing_and_are_told_so(case: Case) -> None:
    s = case()
    made = plan(s)
    for verdict in made.verdicts:
        of_group = [order for order in made.launches if verdict.group.key in order.groups]
        kinds = [(pool, flavour) for pool in s.settings.pools for flavour in pool.flavours]
        fitting = [kind for kind in kinds if would_run(s, verdict.group, *kind)]
        if not fitting:
            assert not of_group and not verdict.launching
            assert verdict.held >= verdict.group.waiting or not verdict.matchable
            assert verdict.held or verdict.reason.startswith("nothing offered can run it: "), verdict.reason
        elif verdict.held + verdict.launching < verdict.group.waiting:
            assert verdict.matchable and verdict.reason
            assert not verdict.reason.startswith("nothing offered can run it"), verdict.reason


@hypothesis_settings(deadline=None, max_examples=60)
@given(some_cases)
def test_the_same_situation_has_the_same_plan(case: Case) -> None:
    def told(made: Plan) -> object:
        return made.launches, made.verdicts, made.summary, [step.node.id for step in made.drains]

    s = case()
    first = told(plan(s))
    assert told(plan(s)) == first and told(plan(case())) == first


def join(s: Situation) -> None:
    """All machines that are to come have joined, as large as they were said to be, and nothing runs there."""
    for number, node in enumerate(s.registry):
        pool = s.settings.pool(node.pool)
        if node.state in (State.REQUESTED, State.BOOTING) and pool is not None:
            size = capacity(s, pool, node.flavour)
            node.state, node.seen = State.IDLE, a_worker(f"n{number}", total=size, free=size)


@hypothesis_settings(deadline=None, max_examples=120)
@given(some_cases, st.booleans())
def test_jobs_that_have_room_on_machines_to_come_or_idle_ones_launch_nothing(case: Case, joined: bool) -> None:
    s = replace(case, asked=case.asked[:1], there=(), max_vms=None, cost_left=None)()
    made = plan(s)
    carry_out(s, made)
    if joined:
        join(s)
    served = {v.group.key for v in made.verdicts if v.held + v.launching == v.group.waiting}
    left = [v for v in made.verdicts if v.matchable and v.group.key not in served]  # a pool is full
    again = plan(s)
    assert left or not again.launches, again.summary
