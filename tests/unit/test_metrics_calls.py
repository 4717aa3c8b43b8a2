"""Calls are counted by what they are and how they end, and pass as if nobody counted."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from elastiq.executor import DeadlineError, Outcome, UnsentError
from elastiq.interfaces import SourceError, ThrottledError
from elastiq.metrics.calls import CODES, OTHER, CountingExecutor
from elastiq.metrics.families import Summary
from tests.unit.fakes import FakeBatch, FakeCloud, HandExecutor


class Counted:
    def __init__(self) -> None:
        self.now = 0.0
        self.hand = HandExecutor(lambda: self.now)
        self.executor = CountingExecutor(self.hand)
        self.outcomes: list[Outcome[Any]] = []

    def read(self, source: str, call: Any) -> bool:
        return self.executor.read(source, call, self.outcomes.append, 60.0)

    def act(self, source: str, key: str, call: Any) -> None:
        self.executor.act(source, key, call, self.outcomes.append, 60.0)

    def calls(self) -> dict[tuple[str, ...], Any]:
        return dict(self.executor.values()["elastiq_calls_total"])

    def errors(self) -> dict[tuple[str, ...], Any]:
        return dict(self.executor.values()["elastiq_call_errors_total"])


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_reads_are_counted_by_source_and_operation(counted: Counted) -> None:
    batch, cloud = FakeBatch(), FakeCloud()
    for source, call in (
        ("queue", batch.jobs),
        ("workers", batch.workers),
        ("cloud aws", partial(cloud.instances, frozenset())),
        ("find aws", partial(cloud.find, None)),
        ("recorded jobs", partial(batch.jobs_recorded_on, [])),
    ):
        assert counted.read(source, call)
    for pending in list(counted.hand.pending):
        pending.fail(SourceError("no"))
    assert counted.calls() == {
        ("batch", "", "jobs"): 1,
        ("batch", "", "workers"): 1,
        ("cloud", "aws", "instances"): 1,
        ("cloud", "aws", "find"): 1,
        ("batch", "", "jobs_recorded_on"): 1,
    }


def test_acts_are_counted_by_what_they_do(counted: Counted) -> None:
    counted.act("cloud aws", "launch abc", lambda: 1)
    counted.act("cloud aws", "terminate", lambda: 1)
    counted.act("batch", "node.1", partial(FakeBatch().undrain, "w1"))
    for pending in list(counted.hand.pending):
        pending.fail(ThrottledError("slow down"))
    assert counted.calls().keys() == {
        ("cloud", "aws", "launch"),
        ("cloud", "aws", "terminate"),
        ("batch", "", "undrain"),
    }
    assert counted.errors()["cloud", "aws", "launch", "ThrottledError"] == 1


def test_how_long_they_took_is_summed(counted: Counted) -> None:
    for seconds in (2.0, 5.0):
        counted.read("queue", FakeBatch().jobs)
        counted.now += seconds
        counted.hand.pending[0].time_out()
    assert counted.executor.values()["elastiq_call_duration_seconds"] == {("batch", "", "jobs"): Summary(2, 7.0)}
    assert counted.errors() == {("batch", "", "jobs", "DeadlineError"): 2}


def test_what_was_not_sent_is_no_call(counted: Counted) -> None:
    counted.act("cloud aws", "terminate", lambda: 1)
    counted.hand.only().fail(UnsentError("too old"))
    assert counted.calls() == {}
    assert counted.errors() == {("cloud", "aws", "terminate", "UnsentError"): 1}


def test_the_outcome_passes_unchanged(counted: Counted) -> None:
    counted.read("queue", lambda: 42)
    counted.hand.pending[0].finish()
    counted.read("queue", lambda: 42)
    counted.hand.pending[0].fail(error := DeadlineError("late"))
    assert [(one.value, one.error) for one in counted.outcomes] == [(42, None), (None, error)]


def test_a_read_that_is_refused_is_said_so(counted: Counted) -> None:
    assert counted.read("queue", lambda: 1) and not counted.read("queue", lambda: 1)


def test_a_cloud_with_ever_new_codes_does_not_fill_memory(counted: Counted) -> None:
    for number in range(CODES + 50):
        counted.executor.requested("aws", "run_instances", f"Odd{number}", 1)
    refusals = counted.executor.values()["elastiq_api_errors_total"]
    assert len(refusals) == CODES + 1 and refusals["aws", "run_instances", OTHER] == 50
    assert counted.executor.values()["elastiq_api_requests_total"] == {("aws", "run_instances"): CODES + 50}


def test_closing_closes_the_executor(counted: Counted) -> None:
    counted.executor.close(0.0)
    assert counted.hand.closed
