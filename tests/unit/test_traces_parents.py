"""Whom a job of a trace really waits for."""

from __future__ import annotations

import random
from typing import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiq.traces.job import Lines
from elastiq.traces.parents import ITSELF, NOT_THERE, RING, Names, resolved
from elastiq.traces.rows import Row

Graph = dict[str, Sequence[str]]


def rows(graph: Graph, at_s: float = 0.0) -> list[Row]:
    return [Row(at_s, 1.0, 1.0, name=name, after=tuple(after)) for name, after in graph.items()]


def waits(graph: Graph) -> tuple[dict[str, tuple[str, ...]], Lines]:
    tally = Lines()
    return {row.name: row.after for row in resolved(rows(graph), tally)}, tally


@pytest.mark.parametrize("size", [2, 3, 4, 7, 1000])
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_first_of_a_ring_of_any_length_waits_for_nobody_in_it(size: int, shuffled: bool) -> None:
    ring = {f"{n}": [f"{(n + 1) % size}"] for n in range(size)}
    names = list(ring)
    if shuffled:
        random.Random(size).shuffle(names)
    found, tally = waits({name: ring[name] for name in names})
    assert found == {name: () if name == names[0] else tuple(ring[name]) for name in names}
    assert tally.noted == {RING: 1}


def test_those_that_wait_for_a_ring_still_do() -> None:
    found, tally = waits({"late": ["b"], "a": ["c"], "b": ["a"], "c": ["b"], "free": []})
    assert found == {"late": ("b",), "a": (), "b": ("a",), "c": ("b",), "free": ()}
    assert tally.noted == {RING: 1}


def test_what_is_odd_is_told_with_the_first_lines() -> None:
    tally = Lines()
    ring = [row._replace(line=number) for number, row in enumerate(rows({"a": ["c"], "b": ["a"], "c": ["b"]}), 2)]
    lost = [Row(5.0, 1.0, 1.0, after=("nobody",), line=number) for number in range(9, 99)]
    assert [row.line for row in resolved([*ring, *lost], tally)] == [2, 3, 4, *range(9, 99)]
    assert tally.noted_lines == {RING: [2], NOT_THERE: [9, 10, 11, 12, 13]}


def test_rings_that_share_a_job_are_all_cut() -> None:
    found, tally = waits({"a": ["b", "c"], "b": ["a"], "c": ["a"]})
    assert found == {"a": (), "b": ("a",), "c": ("a",)}
    assert tally.noted == {RING: 1}, "it is one job that does not wait"


def test_one_that_waits_for_itself_does_not() -> None:
    found, tally = waits({"a": ["a", "b"], "b": []})
    assert (found, tally.noted) == ({"a": ("b",), "b": ()}, {ITSELF: 1})


def test_who_is_not_there_is_noted_once_for_a_job() -> None:
    tally = Lines()
    graph = [*rows({"a": ["x", "y"], "b": []}), *rows({"c": ["b", "later"]}, 5.0), *rows({"later": ["a"]}, 9.0)]
    assert list(resolved(graph, tally)) == graph, "whoever plays it finds nobody to wait for"
    assert tally.noted == {NOT_THERE: 2}


def test_a_ring_over_several_moments_holds_nobody_up() -> None:
    tally = Lines()
    graph = [*rows({"a": ["c"]}), *rows({"b": ["a"]}, 1.0), *rows({"c": ["b"]}, 2.0)]
    assert list(resolved(graph, tally)) == graph
    assert tally.noted == {NOT_THERE: 1}


def test_parts_of_one_job_wait_as_one() -> None:
    tally = Lines()
    parts = [Row(0.0, 1.0, 1.0, name=name, after=after) for name in "ab" for after in (("b",), ("a",), ())]
    found = list(resolved(parts, tally))
    assert [row.after for row in found if row.name == "a"] == [(), (), ()]
    assert [row.after for row in found if row.name == "b"] == [(), ("a",), ()]


@given(st.dictionaries(st.integers(0, 12), st.lists(st.integers(0, 12), max_size=4), max_size=13))
def test_whatever_the_graph_every_job_can_run_in_the_end_and_the_order_stays(edges: dict[int, list[int]]) -> None:
    graph: Graph = {str(name): [str(one) for one in after] for name, after in edges.items()}
    found, _tally = waits(graph)
    assert list(found) == list(graph)
    done: set[str] = set()
    while True:
        ready = [name for name, after in found.items() if name not in done and not {*after} & (found.keys() - done)]
        if not ready:
            break
        done.update(ready)
    assert done == found.keys()
    for name, after in found.items():
        assert {*after} <= {*graph[name]}
    if done == {name for name in graph if not {*graph[name]} & graph.keys()}:
        assert found == {name: tuple(after) for name, after in graph.items()}, "nothing was cut without a reason"


def test_a_great_graph_and_many_rings_take_no_time_that_anybody_notices() -> None:
    chain: Graph = {f"{n}": [f"{n + 1}"] for n in range(20_000)}
    rings: Graph = {f"r{n}": [f"r{n ^ 1}"] for n in range(20_000)}
    hub: Graph = {"20000": [f"r{n}" for n in range(20_000)]}
    found, tally = waits({**chain, **hub, **rings})
    assert tally.noted == {RING: 10_000}
    assert sum(not after for after in found.values()) == 10_000


def test_of_names_none_is_forgotten_and_few_others_are_taken_for_one() -> None:
    names = Names()
    for number in range(50_000):
        names.add(f"in {number}")
    assert all(f"in {number}" in names for number in range(50_000))
    assert sum(f"out {number}" in names for number in range(50_000)) < 50
