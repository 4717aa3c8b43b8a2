"""The one table of legal transitions, and the registry that keeps to it."""

from __future__ import annotations

import itertools

import pytest

from elastiq.interfaces import Resources
from elastiq.nodes import CAPACITY, IN_SERVICE, JOINED, TO_COME, TRANSITIONS, Registry, State
from tests.unit.values import WALL, a_node, a_registry

# One row for each state, one column for each: x is legal, . is a bug, and = is no transition.
#                REQ PEN BOO IDL BUS DRA STO TER GON LOS FAI
MATRIX = """
    requested     =   x   x   x   x   .   .   x   x   .   x
    pending       .   =   x   x   x   .   x   x   x   .   x
    booting       .   .   =   x   x   .   .   x   x   .   x
    idle          .   .   .   =   x   x   .   x   x   x   x
    busy          .   .   .   x   =   x   .   x   x   x   x
    draining      .   .   .   x   x   =   x   x   x   x   x
    stopped       .   x   .   x   x   x   =   x   x   .   x
    terminating   .   .   .   x   x   .   .   =   x   .   .
    gone          .   .   .   .   .   .   .   .   =   .   .
    lost          .   .   .   x   x   .   .   x   x   =   x
    failed        .   .   .   x   x   .   .   x   x   x   =
"""
EXPECTED = {
    (State(row[0]), after): mark
    for row in (line.split() for line in MATRIX.strip().splitlines())
    for after, mark in zip(State, row[1:])
}


def test_the_matrix_names_every_pair_of_states() -> None:
    assert set(EXPECTED) == set(itertools.product(State, State))
    assert set(TRANSITIONS) == set(State)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_a_transition_is_made_only_if_the_table_has_it(before: State, after: State) -> None:
    node = a_node(before)
    registry = a_registry(node)
    mark = EXPECTED[before, after]
    made = registry.move(node, after, "why", WALL + 5)
    assert made is (mark != ".")
    assert node.state is (before if mark == "." else after)
    assert [move.legal for move in registry.moves] == {"x": [True], ".": [False], "=": []}[mark]


def test_an_illegal_move_is_recorded_and_changes_nothing() -> None:
    node = a_node(State.TERMINATING, reason="idle", since=WALL)
    registry = a_registry(node)
    registry.touched.clear()
    assert not registry.move(node, State.PENDING, "nonsense", WALL + 5)
    (move,) = registry.moves
    assert (move.before, move.after, move.reason, move.legal) == (State.TERMINATING, State.PENDING, "nonsense", False)
    assert (node.state, node.reason, node.since) == (State.TERMINATING, "idle", WALL)
    assert registry.touched == {}


def test_a_move_keeps_its_reason_and_its_time_and_is_to_be_stored() -> None:
    node = a_node(State.BOOTING)
    registry = a_registry(node)
    registry.touched.clear()
    registry.move(node, State.IDLE, "no job runs on it", WALL + 5)
    assert (node.reason, node.since) == ("no job runs on it", WALL + 5)
    assert registry.touched == {node.id: node}


def test_the_same_state_again_is_no_move_and_only_a_new_reason_replaces_the_old() -> None:
    node = a_node(State.BUSY, since=WALL, reason="runs 1 job")
    registry = a_registry(node)
    assert registry.move(node, State.BUSY, "", WALL + 5)
    assert (node.reason, node.since) == ("runs 1 job", WALL)
    assert registry.move(node, State.BUSY, "runs 2 jobs", WALL + 6)
    assert (node.reason, node.since, registry.moves) == ("runs 2 jobs", WALL, [])


def test_a_node_that_is_gone_is_counted_and_found_no_more_but_still_to_be_stored() -> None:
    node = a_node(State.TERMINATING)
    registry = a_registry(node)
    registry.move(node, State.GONE, "", WALL)
    assert (len(registry), list(registry), registry.count()) == (0, [], 0)
    assert registry.by_instance("i-1") is None
    assert registry.instance_ids("aws") == frozenset()
    assert registry.touched[node.id] is node


def test_a_requested_node_is_found_by_its_intent_until_it_has_an_instance() -> None:
    first, second = a_node(State.REQUESTED, 1), a_node(State.REQUESTED, 2)
    other = a_node(State.REQUESTED, 3, intent="another")
    registry = a_registry(first, second, other)
    assert registry.requested("launch") == [first, second]
    registry.bind(first, "i-9")
    registry.move(first, State.PENDING, "", WALL)
    assert registry.requested("launch") == [second]
    assert registry.by_instance("i-9") is first
    assert registry.instance_ids("aws") == frozenset({"i-9"})


def test_everything_that_is_not_gone_counts() -> None:
    alive = [state for state in State if state is not State.GONE]
    registry = a_registry(*(a_node(state, number) for number, state in enumerate(alive, 1)))
    assert registry.count() == len(alive)
    assert registry.count("ec2") == len(alive)
    assert registry.count("other") == 0
    assert registry.count("ec2", TO_COME) == 3
    assert registry.count(None, frozenset({State.LOST, State.FAILED})) == 2


def test_the_families_of_states_are_what_they_say() -> None:
    assert {State.REQUESTED, State.PENDING, State.BOOTING} == TO_COME
    assert {State.IDLE, State.BUSY} == IN_SERVICE
    assert {State.IDLE, State.BUSY, State.DRAINING} == JOINED
    assert CAPACITY == TO_COME | IN_SERVICE


def test_the_instances_of_one_site_are_not_those_of_another() -> None:
    registry = a_registry(a_node(number=1), a_node(number=2, site="other"), a_node(State.REQUESTED, 3))
    assert registry.instance_ids("aws") == frozenset({"i-1"})
    assert registry.instance_ids("other") == frozenset({"i-2"})


def test_a_flavour_offers_the_smallest_of_what_its_workers_advertise() -> None:
    registry = Registry()
    node = a_node()
    registry.learn(node, Resources(cpus=4, memory_mb=8000))
    registry.learn(node, Resources(cpus=4, memory_mb=7900, gpus=1))
    registry.learn(node, Resources(memory_mb=8000))
    assert registry.learned == {("ec2", "medium"): Resources(cpus=4, memory_mb=7900, gpus=1)}


def test_nodes_are_numbered_in_the_order_in_which_they_appeared_across_a_restart() -> None:
    registry = a_registry(a_node(number=1), a_node(number=2))
    assert [node.number for node in registry] == [1, 2]
    stranger = registry.next_number()
    again = Registry()
    again.restore(list(registry), {"w9": stranger})
    assert again.touched == {}
    assert again.add(a_node(number=3)).number == 4
    assert [node.number for node in again] == [1, 2, 4]


def test_a_node_is_called_by_its_instance_once_there_is_one() -> None:
    assert a_node(State.REQUESTED).name == "launch.1"
    assert a_node(State.PENDING).name == "i-1"
