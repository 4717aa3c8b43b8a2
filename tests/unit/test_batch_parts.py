"""What the plugins for batch systems share: shapes, addresses, sets of tasks, and the drain in two steps."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiq.interfaces import DrainMode, DrainOutcome, Resources, SourceError
from elastiq.plugins.batch import careful_drain, hosts, index_sets
from elastiq.plugins.batch.shapes import Groups, Shape, key_among

ONE_CPU = Shape(Resources(cpus=1))

# --------------------------------------------------------------------------- shapes


def test_jobs_of_one_shape_are_one_group_with_the_first_that_waits_as_sample() -> None:
    groups = Groups()
    groups.add(ONE_CPU, running=2, sample="1")
    groups.add(Shape(Resources(cpus=1)), waiting=3, sample="2")
    groups.add(ONE_CPU, waiting=1, sample="3")
    (group,) = groups.all()
    assert (group.key, group.waiting, group.running, group.sample_job) == (ONE_CPU.key, 4, 2, "2")
    assert group.request == Resources(cpus=1)


def test_all_that_makes_a_shape_is_in_its_group() -> None:
    shape = Shape(Resources(2, 100, 5, 1), "has_ssd", "", ("big",), 3, ("a = 1",))
    groups = Groups()
    groups.add(shape, waiting=1)
    (group,) = groups.all()
    shown = (group.request, group.requirements, group.not_eligible, group.pools, group.nodes, group.ad)
    assert shown == (shape.request, "has_ssd", "", ("big",), 3, ("a = 1",))


def test_whatever_makes_jobs_differ_makes_their_keys_differ() -> None:
    shapes = [
        ONE_CPU,
        Shape(Resources(memory_mb=1)),
        Shape(Resources(cpus=1), "x"),
        Shape(Resources(cpus=1), pools=("x",)),
        Shape(Resources(cpus=1), pools=("x", "y")),
        Shape(Resources(cpus=1), nodes=2),
        Shape(Resources(cpus=1), ad=("x",)),
    ]
    assert len({shape.key for shape in shapes}) == len(shapes)


def test_a_key_is_the_same_in_every_version_and_does_not_tell_what_may_change() -> None:
    assert ONE_CPU.key == Shape(Resources(cpus=1.0), not_eligible="held back").key == "f9ab0325349d7d42"


def test_jobs_that_only_differ_in_why_they_cannot_run_have_keys_of_their_own() -> None:
    for eligible in (True, False):
        groups = Groups()
        if eligible:
            groups.add(ONE_CPU, waiting=1)
        groups.add(Shape(Resources(cpus=1), not_eligible="no licence"), waiting=2)
        groups.add(Shape(Resources(cpus=1), not_eligible="over its limit"), waiting=3)
        keys = {group.key: group.not_eligible for group in groups.all()}
        assert len(keys) == 2 + eligible
        assert keys.get(ONE_CPU.key, "") == ""
    alone = Groups()
    alone.add(Shape(Resources(cpus=1), not_eligible="no licence"), waiting=2)
    assert [group.key for group in alone.all()] == [ONE_CPU.key]


def test_the_key_of_a_job_that_cannot_run_is_that_of_its_group_whatever_else_waits() -> None:
    blocked = Shape(Resources(cpus=1), not_eligible="no licence")
    for others in ((), (ONE_CPU,), (Shape(Resources(cpus=1), not_eligible="over its limit"),)):
        groups = Groups()
        for shape in (*others, blocked):
            groups.add(shape, waiting=1)
        (own,) = [group for group in groups.all() if group.not_eligible == "no licence"]
        assert key_among(blocked, groups.all) == own.key


# --------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("host", "texts", "found"),
    [
        ("w1", (), set()),
        ("w1", ("10.0.0.7",), {"10.0.0.7"}),
        ("10.0.0.7", (), {"10.0.0.7"}),
        ("10-0-0-7.example.org", (), {"10.0.0.7"}),
        ("ip-10-0-0-7", ("10.0.0.7",), {"10.0.0.7"}),
        ("ip-10-0-0-7.eu-west-1.compute.internal", (), {"10.0.0.7"}),
        ("2001-db8--7.example.org", (), {"2001:db8::7"}),
        ("w1", ("2001:0DB8:0:0::7",), {"2001:db8::7"}),
        ("w1", ("127.0.0.1", "::1", "0.0.0.0", "169.254.1.1", "fe80::1", "", "w1", "(null)"), set()),
        ("node-1", (), set()),
        ("10-0-0-700", (), set()),
    ],
)
def test_addresses_are_those_by_which_a_machine_can_be_known(
    host: str, texts: tuple[str, ...], found: set[str]
) -> None:
    assert hosts.addresses(host, texts) == found


# --------------------------------------------------------------------------- sets of task numbers


@pytest.mark.parametrize(
    ("text", "count"),
    [("3", 1), ("1-100:1", 100), ("2,4-10:1", 8), ("1,3,5-9:2", 5), ("[0-9]", 10), (" 1 , 2 ", 2), ("1-10:3", 4)],
)
def test_a_set_of_tasks_is_counted(text: str, count: int) -> None:
    assert index_sets.count(text) == count


@pytest.mark.parametrize(
    ("text", "count", "limit"),
    [("[4-190%2]", 187, 2), ("[1-100]%5", 100, 5), ("[1,3]", 2, None), ("7", 1, None), ("1-3%1", 3, 1)],
)
def test_a_set_may_say_how_many_run_at_once(text: str, count: int, limit: Optional[int]) -> None:
    assert index_sets.limited(text) == (count, limit)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1-9:0", "1..3", "1,,2", "1;2", "N/A", "1 2"])
def test_what_is_no_set_of_tasks_is_an_error_not_nothing(text: str) -> None:
    for read in (index_sets.count, index_sets.limited):
        with pytest.raises(ValueError, match="no set of task numbers"):
            read(text)
    with pytest.raises(ValueError, match="no set of task numbers"):
        index_sets.includes(text, 1)


@pytest.mark.parametrize("text", ["1-3%", "1-3%x", "1-3%-1", "1%2%3"])
def test_a_limit_that_is_no_number_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="no set of task numbers"):
        index_sets.limited(text)


PARTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 7)), min_size=1, max_size=4)


@given(PARTS)
def test_a_set_holds_the_numbers_that_it_counts(parts: list[tuple[int, int, int]]) -> None:
    text = ",".join(f"{first}-{first + more}:{step}" for first, more, step in parts)
    numbers = [number for first, more, step in parts for number in range(first, first + more + 1, step)]
    assert index_sets.count(text) == len(numbers)
    assert {number for number in range(100) if index_sets.includes(text, number)} == set(numbers)


# --------------------------------------------------------------------------- the drain in two steps


class Worker:
    """``looks``: how many jobs each look shows; an error is raised."""

    def __init__(self, *looks: int | SourceError, reopens: bool = True) -> None:
        self._looks, self._reopens = list(looks), reopens
        self.did: list[str] = []

    def jobs_there(self) -> int:
        self.did.append("look")
        seen = self._looks.pop(0)
        if isinstance(seen, SourceError):
            raise seen
        return seen

    def close(self) -> None:
        self.did.append("close")

    def reopen(self) -> None:
        self.did.append("reopen")
        if not self._reopens:
            raise SourceError("it hangs")

    def drain(self, mode: DrainMode = DrainMode.IF_IDLE) -> DrainOutcome:
        return careful_drain.drain(mode, self.jobs_there, self.close, self.reopen).outcome


def test_an_idle_worker_is_closed_and_looked_at_again() -> None:
    worker = Worker(0, 0)
    assert worker.drain() is DrainOutcome.DRAINED
    assert worker.did == ["look", "close", "look"]


def test_a_busy_worker_is_not_closed() -> None:
    worker = Worker(1)
    assert worker.drain() is DrainOutcome.BUSY
    assert worker.did == ["look"]


def test_a_worker_into_which_a_job_slipped_is_opened_again() -> None:
    worker = Worker(0, 1)
    assert worker.drain() is DrainOutcome.BUSY
    assert worker.did == ["look", "close", "look", "reopen"]


def test_a_worker_that_cannot_be_opened_again_is_unknown_not_busy() -> None:
    worker = Worker(0, 1, reopens=False)
    with pytest.raises(SourceError, match="it hangs"):
        worker.drain()


@pytest.mark.parametrize(
    ("reopens", "said"), [(True, "timed out"), (False, "timed out; it could not be opened again either: it hangs")]
)
def test_a_worker_that_nobody_sees_after_it_was_closed_is_opened_again(reopens: bool, said: str) -> None:
    worker = Worker(0, SourceError("timed out"), reopens=reopens)
    with pytest.raises(SourceError) as caught:
        worker.drain()
    assert str(caught.value) == said
    assert worker.did == ["look", "close", "look", "reopen"]


def test_a_worker_that_nobody_sees_is_not_closed() -> None:
    worker = Worker(SourceError("timed out"))
    with pytest.raises(SourceError):
        worker.drain()
    assert worker.did == ["look"]


def test_a_peaceful_drain_closes_without_a_look() -> None:
    worker = Worker()
    assert worker.drain(DrainMode.PEACEFUL) is DrainOutcome.DRAINED
    assert worker.did == ["close"]
