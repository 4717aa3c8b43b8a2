"""Which waiting jobs the room that there is will hold."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiq.interfaces import Resources
from elastiq.packing import SLOTS, Need, Room, RoomClass, Vector, jobs_held, need, vector, without

# --------------------------------------------------------------------------- one machine


@pytest.mark.parametrize(
    ("room", "asked", "jobs"),
    [
        (Resources(cpus=4), Resources(cpus=1), 4),
        (Resources(cpus=4), Resources(cpus=3), 1),
        (Resources(cpus=4), Resources(cpus=5), 0),
        (Resources(cpus=4), Resources(), 4),
        (Resources(cpus=0), Resources(), 0),
        (Resources(cpus=4, memory_mb=3000), Resources(cpus=1, memory_mb=1000), 3),
        (Resources(cpus=4), Resources(cpus=1, memory_mb=1_000_000), 4),
        (Resources(cpus=4, memory_mb=0), Resources(cpus=1), 4),
        (Resources(cpus=4, gpus=1), Resources(cpus=1, gpus=1), 1),
        (Resources(cpus=4, gpus=0), Resources(cpus=1, gpus=1), 0),
        (Resources(cpus=0.3), Resources(cpus=0.1), 3),
        (Resources(cpus=4), Resources(cpus=0), 4),
        (Resources(cpus=4), Resources(cpus=-1), 4),
        # Nobody knows its cpus: it holds n_jobs_per_vm, here 2, whatever the jobs' cpus.
        (Resources(), Resources(cpus=16), 2),
        (Resources(memory_mb=1500), Resources(cpus=1, memory_mb=1000), 1),
    ],
)
def test_how_many_jobs_a_machine_holds(room: Resources, asked: Resources, jobs: int) -> None:
    assert jobs_held(vector(room, slots=2), need(asked)) == jobs


def test_n_jobs_per_vm_does_not_limit_a_machine_whose_cpus_are_known() -> None:
    assert jobs_held(vector(Resources(cpus=8), slots=2), need(Resources(cpus=1))) == 8


def test_a_job_that_wants_its_machine_for_itself_leaves_nothing_of_it() -> None:
    alone, large = need(Resources(cpus=1), apart=True), vector(Resources(cpus=16, memory_mb=8000), slots=2)
    assert jobs_held(large, alone) == 1 and jobs_held(vector(Resources(cpus=0.5), slots=2), alone) == 0
    assert jobs_held(vector(Resources(), slots=3), alone) == 1
    assert jobs_held(without(large, alone, 1), need(Resources(cpus=1))) == 0
    assert without(large, alone, 0) == large


def test_what_jobs_leave_of_a_machine() -> None:
    room = without(vector(Resources(4, 8000, None, 1), 2), need(Resources(1, 3000, 50, 1)), 1)
    assert room == (3, 5000, None, 0, None)
    assert without(vector(Resources(), 3), need(Resources(cpus=4)), 2) == (None, None, None, None, 1)


# --------------------------------------------------------------------------- all machines


def machines(name: str, count: int, room: Resources, joined: bool = True, stale: bool = False) -> RoomClass:
    return RoomClass(vector(room, 2), [f"{name}{number}" for number in range(count)], joined, stale)


def test_what_is_held_for_one_group_is_not_there_for_the_next() -> None:
    room = Room([machines("w", 2, Resources(cpus=4))])
    assert room.hold(need(Resources(cpus=1)), 6).jobs == 6
    assert room.hold(need(Resources(cpus=1)), 6).jobs == 2
    assert room.hold(need(Resources(cpus=1)), 6).jobs == 0


def test_what_is_left_of_a_machine_serves_smaller_jobs() -> None:
    room = Room([machines("w", 1, Resources(cpus=4))])
    assert room.hold(need(Resources(cpus=3)), 5).jobs == 1
    assert room.hold(need(Resources(cpus=1)), 5).jobs == 1


def test_machines_that_are_there_come_before_machines_to_come_and_the_tightest_first() -> None:
    room = Room(
        [
            machines("coming", 1, Resources(cpus=1), joined=False),
            machines("large", 1, Resources(cpus=16)),
            machines("small", 1, Resources(cpus=2)),
        ]
    )
    held = room.hold(need(Resources(cpus=1)), 2)
    assert (held.on_joined, held.on_coming, room.reserved) == ("small0", "", {"small0"})
    held = room.hold(need(Resources(cpus=1)), 17)
    assert (held.jobs, held.on_joined, held.on_coming) == (17, "large0", "coming0")
    assert room.reserved == {"small0", "large0", "coming0"}


def test_no_more_machines_are_reserved_than_the_jobs_need() -> None:
    room = Room([machines("w", 10, Resources(cpus=4))])
    room.hold(need(Resources(cpus=1)), 9)
    assert len(room.reserved) == 3


def test_stale_room_is_passed_over_and_said_so() -> None:
    room = Room([machines("old", 1, Resources(cpus=4), stale=True), machines("new", 1, Resources(cpus=2))])
    held = room.hold(need(Resources(cpus=1)), 4, stale=False)
    assert (held.jobs, held.passed_over, room.reserved) == (2, True, {"new0"})
    held = room.hold(need(Resources(cpus=1)), 4, stale=True)
    assert (held.jobs, held.passed_over) == (4, False)


def test_stale_room_in_which_the_job_does_not_fit_is_not_passed_over() -> None:
    room = Room([machines("old", 1, Resources(cpus=4), stale=True)])
    assert not room.hold(need(Resources(cpus=8)), 1, stale=False).passed_over


def test_machines_that_are_added_hold_jobs_but_are_not_reserved_as_nodes() -> None:
    room = Room()
    room.add(vector(Resources(cpus=4), 2), ["new"] * 2)
    room.add(vector(Resources(cpus=4), 2), [])
    assert room.hold(need(Resources(cpus=1)), 10).jobs == 8


@pytest.mark.parametrize("stale", [True, False])
def test_equal_room_is_told_apart_where_it_matters(stale: bool) -> None:
    """Machines with equal room are one class only if they are alike in the rest too."""
    room = Room([machines("a", 1, Resources(cpus=4), stale=stale), machines("b", 1, Resources(cpus=4), joined=False)])
    held = room.hold(need(Resources(cpus=1)), 8)
    assert (held.jobs, held.on_joined, held.on_coming) == (8, "a0", "b0")


# --------------------------------------------------------------------------- properties

some_room = st.builds(
    Resources,
    cpus=st.one_of(st.none(), st.integers(0, 8)),
    memory_mb=st.one_of(st.none(), st.integers(0, 8)),
    gpus=st.one_of(st.none(), st.integers(0, 2)),
)
some_request = st.builds(
    Resources,
    cpus=st.one_of(st.none(), st.integers(1, 5)),
    memory_mb=st.one_of(st.none(), st.integers(0, 5)),
    gpus=st.one_of(st.none(), st.integers(0, 1)),
)
some_machines = st.lists(st.tuples(some_room, st.booleans()), max_size=7)
some_groups = st.lists(st.tuples(some_request, st.integers(1, 12)), max_size=5)
SLOTS_OF_UNKNOWN = 3


def naive(
    machines_: list[tuple[Resources, bool]], groups: list[tuple[Resources, int]]
) -> tuple[list[int], list[Vector]]:
    """First fit, one job after another, each on the first machine that has room for it."""
    rooms = [vector(room, SLOTS_OF_UNKNOWN) for room, _ in machines_]
    held = []
    for request, jobs in groups:
        count = 0
        for _ in range(jobs):
            at = next((n for n, room in enumerate(rooms) if jobs_held(room, need(request))), None)
            if at is not None:
                rooms[at] = without(rooms[at], need(request), 1)
                count += 1
        held.append(count)
    return held, rooms


def packed(machines_: list[tuple[Resources, bool]], groups: list[tuple[Resources, int]]) -> list[int]:
    classes = [
        RoomClass(vector(room, SLOTS_OF_UNKNOWN), [str(number)], joined)
        for number, (room, joined) in enumerate(machines_)
    ]
    room = Room(classes)
    return [room.hold(need(request), jobs).jobs for request, jobs in groups]


@given(some_machines, st.tuples(some_request, st.integers(1, 40)))
def test_one_group_is_held_exactly_as_one_by_one(
    machines_: list[tuple[Resources, bool]], group: tuple[Resources, int]
) -> None:
    assert packed(machines_, [group]) == naive(machines_, [group])[0]


@given(st.integers(0, 6), some_room, some_groups)
def test_equal_machines_hold_as_many_as_a_first_fit_one_by_one(
    count: int, room: Resources, groups: list[tuple[Resources, int]]
) -> None:
    """Of equal machines, first fit and classes differ only in which of them is which."""
    groups = [(request, jobs) for request, jobs in groups if request == groups[0][0]]
    alike = [(room, True)] * count
    assert packed(alike, groups) == naive(alike, groups)[0]


def total(vectors: list[Vector], at: int) -> Optional[float]:
    values = [room[at] for room in vectors]
    return None if any(value is None for value in values) else sum(value or 0.0 for value in values)


@given(some_machines, some_groups)
def test_never_more_is_held_than_fits(
    machines_: list[tuple[Resources, bool]], groups: list[tuple[Resources, int]]
) -> None:
    held = packed(machines_, groups)
    rooms = [vector(room, SLOTS_OF_UNKNOWN) for room, _ in machines_]
    for count, (request, jobs) in zip(held, groups):
        assert 0 <= count <= jobs
        assert count <= sum(jobs_held(room, need(request)) for room in rooms)
    asked: list[Need] = [need(request) for request, _ in groups]
    for at in range(SLOTS):
        there = total(rooms, at)
        if there is not None:
            assert sum(count * wants[at] for count, wants in zip(held, asked)) <= there + 1e-3
    if all(room[SLOTS] is not None for room in rooms):
        assert sum(held) <= SLOTS_OF_UNKNOWN * len(rooms)


@given(some_machines, some_groups)
def test_each_machine_alone_holds_what_was_put_on_it(
    machines_: list[tuple[Resources, bool]], groups: list[tuple[Resources, int]]
) -> None:
    """One machine after another, so that what is held is held there."""
    for machine in machines_:
        room = vector(machine[0], SLOTS_OF_UNKNOWN)
        for count, (request, _) in zip(packed([machine], groups), groups):
            assert count <= jobs_held(room, need(request))
            room = without(room, need(request), count)


@given(some_machines, some_groups, st.integers(0, 3))
def test_more_machines_never_hold_fewer_of_one_group(
    machines_: list[tuple[Resources, bool]], groups: list[tuple[Resources, int]], more: int
) -> None:
    for group in groups:
        before = packed(machines_, [group])
        assert packed([*machines_, *machines_[:more]], [group])[0] >= before[0]


def test_classes_do_not_multiply() -> None:
    """A thousand equal machines and many groups stay few classes: the work grows with shapes."""
    room = Room([machines("w", 1000, Resources(cpus=64, memory_mb=256_000))])
    for number in range(200):
        room.hold(need(Resources(cpus=1 + number % 7, memory_mb=1000 + 37 * number)), 50)
    assert len(room._classes) < 400
