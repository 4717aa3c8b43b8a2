"""A plan that was carried out leaves nothing to do: no machine is drained that would be launched again."""

from __future__ import annotations

from typing import Any, Optional

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from elastiq.interfaces import Resources, Terms, WorkerState
from elastiq.nodes import IN_SERVICE, State
from tests.unit.plans import drained, settles
from tests.unit.values import WALL, a_node, a_pool, a_worker, an_instance, group, situation, some_settings

DAY = 86400.0
NAMES = ("p0", "p1")

pools = st.tuples(
    st.integers(0, 3),  # min_vms
    st.integers(0, 3),  # min_idle_vms
    st.sampled_from([None, 3, 5]),  # max_vms
    st.sampled_from([None, DAY]),  # max_vm_lifetime_s
    st.sampled_from([{}, {"*": 0.1}, {"*": 0.5}]),
    st.sampled_from([("",), ("spot", "on-demand")]),
)
machines = st.tuples(
    st.sampled_from([State.IDLE] * 4 + [State.BUSY] * 2 + [State.BOOTING, State.REQUESTED, State.DRAINING, State.LOST]),
    st.sampled_from([*NAMES, "p0", "p1", "gone", ""]),
    st.sampled_from([0.0, 700.0, 9000.0]),  # idle_s
    st.sampled_from([0.0, 2 * DAY]),  # age
    st.sampled_from(["", "new", "old"]),
    st.sampled_from(["", "", "", "soon"]),  # notice
)


@hypothesis_settings(deadline=None, max_examples=200)
@given(
    made_of=st.tuples(pools, pools),
    nodes=st.lists(machines, max_size=9),
    min_vms=st.integers(0, 4),
    max_vms=st.sampled_from([None, 6, 12]),
    out=st.sampled_from([frozenset(), frozenset({"p0"}), frozenset(NAMES)]),
    waiting=st.sampled_from([0, 0, 1, 7]),
    no_drain=st.sampled_from(["", "", "cools down"]),
)
def test_what_a_plan_has_brought_about_is_not_undone_by_the_next(
    made_of: tuple[Any, Any],
    nodes: list[tuple[State, str, float, float, str, str]],
    min_vms: int,
    max_vms: Optional[int],
    out: frozenset[str],
    waiting: int,
    no_drain: str,
) -> None:
    configured = tuple(
        a_pool(
            name,
            min_vms=least,
            max_vms=most,
            prices=prices,
            markets=markets,
            build="new",
            # Jobs may come to use a spare that was launched because of them, for which another is launched.
            terms=Terms(min_idle_vms=0 if waiting else spares, max_vm_lifetime_s=lifetime_s),
        )
        for name, (least, spares, most, lifetime_s, prices, markets) in zip(NAMES, made_of)
    )
    there = []
    for number, (state, pool, idle_s, age_s, build, notice) in enumerate(nodes, 1):
        node = a_node(state, number, pool=pool, idle_s=idle_s, created_at=WALL - age_s, build=build)
        if state is not State.REQUESTED:
            node.instance = an_instance(f"i-{number}", notice=notice)
        if state is State.BUSY:  # with free room
            node.seen = a_worker(f"w{number}", WorkerState.BUSY, free=Resources(1, 2000), jobs=3)
        there.append(node)
    s = situation(
        *([group(waiting=waiting)] if waiting else []),
        nodes=there,
        settings=some_settings(pools=configured, min_vms=min_vms, max_vms=max_vms),
        drained=out,
        wall=WALL,
        no_drain=no_drain,
    )
    before = s.registry.count(None, IN_SERVICE)
    of_pool = {one.name: s.registry.count(one.name, IN_SERVICE) for one in configured}
    made = settles(s)
    idle = [step.node for step in made.drains if not step.for_good]
    assert not idle or before - len(idle) >= min_vms
    for one in configured:
        gone = sum(node.pool == one.name for node in idle)
        assert not gone or one.name in out or of_pool[one.name] - gone >= one.min_vms
    assert len(drained(made)) == len(set(drained(made)))
