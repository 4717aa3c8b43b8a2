"""How long jobs waited, from counts alone."""

from __future__ import annotations

from typing import Any

from elastiq.interfaces import Jobs
from elastiq.metrics.waits import ENTRIES, Waits
from tests.unit.values import group


class Queue:
    def __init__(self) -> None:
        self.waits = Waits()

    def read(self, at: float, *, missing: tuple[str, ...] = (), **waiting: int) -> None:
        self.waits.take(at, Jobs(tuple(group(key, count) for key, count in waiting.items()), missing))

    @property
    def seen(self) -> tuple[int, float]:
        """How many have left, and how long they had waited together."""
        return sum(self.waits.histogram.counts), self.waits.histogram.total


def queue(**waiting: Any) -> Queue:
    made = Queue()
    made.read(0.0, **waiting)
    return made


def test_who_came_first_leaves_first() -> None:
    jobs = queue()
    jobs.read(10.0, g=2)
    jobs.read(20.0, g=5)
    jobs.read(50.0, g=2)
    assert jobs.seen == (3, 2 * 40.0 + 30.0)
    jobs.read(80.0)
    assert jobs.seen == (5, 110.0 + 2 * 60.0)


def test_groups_are_looked_at_by_themselves() -> None:
    jobs = queue()
    jobs.read(10.0, small=1, large=1)
    jobs.read(40.0, large=1)
    jobs.read(110.0, small=1)
    assert jobs.seen == (2, 30.0 + 100.0)


def test_of_jobs_that_were_there_before_it_is_not_known_for_how_long() -> None:
    jobs = queue(g=3)
    jobs.read(10.0, g=4)
    jobs.read(20.0, g=1)
    assert jobs.seen == (0, 0.0)
    jobs.read(30.0)
    assert jobs.seen == (1, 20.0)


def test_a_read_that_is_not_complete_tells_of_nobody_who_left() -> None:
    jobs = queue()
    jobs.read(10.0, g=2)
    jobs.read(20.0, missing=("a schedd",))
    assert jobs.seen == (0, 0.0)
    jobs.read(30.0, g=1)
    assert jobs.seen == (1, 20.0)


def test_one_read_is_taken_once() -> None:
    jobs = queue()
    jobs.read(10.0, g=2)
    jobs.read(10.0, g=1)
    assert jobs.seen == (0, 0.0)


def test_jobs_that_cannot_run_do_not_wait() -> None:
    jobs = queue()
    jobs.waits.take(10.0, Jobs((group("held", 5, not_eligible="held"),)))
    jobs.read(20.0)
    assert jobs.seen == (0, 0.0)


def test_memory_is_bounded() -> None:
    jobs = queue()
    for number in range(1, 2 * ENTRIES):
        jobs.read(number * 10.0, g=number)
    assert max(len(came) for came in jobs.waits._came.values()) <= ENTRIES
    jobs.read(1e6)
    assert jobs.seen[0] == 2 * ENTRIES - 1
    assert jobs.waits._came == {}
