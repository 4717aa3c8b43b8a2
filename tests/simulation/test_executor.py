"""The virtual executor: calls take time, and the lanes are the real executor's."""

from __future__ import annotations

import random
from typing import Any, Callable

import pytest

from elastiq.executor import DeadlineError, Outcome, UnsentError
from elastiq.interfaces import SourceError
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.executor import Latency, VirtualExecutor
from elastiq.threads import ACTS_AT_ONCE, QUEUED_AT_MOST_S

DEADLINE_S = 30.0
SLOW = Latency(0.5, 2.0)
EVEN = Latency(1.0, 1.0)


class Bench:
    """An executor whose calls and results are written down with their time since the start."""

    def __init__(self, seed: int = 1, latency: Latency = SLOW) -> None:
        self.clock = VirtualClock()
        self.events = VirtualQueue(self.clock)
        self.extra_s: list[float] = []
        self.executor = VirtualExecutor(
            self.events,
            random.Random(seed),
            latency,
            answer_delay_s=lambda: self.extra_s.pop(0) if self.extra_s else 0.0,
        )
        self.effects: list[tuple[str, float]] = []
        self.results: list[tuple[str, Outcome[Any]]] = []

    def call(self, name: str) -> Callable[[], str]:
        def call() -> str:
            self.effects.append((name, self.clock.elapsed_s))
            return name.upper()

        return call

    def in_flight(self) -> int:
        return sum(map(len, self.executor._running.values()))

    def done(self, name: str) -> Callable[[Outcome[Any]], None]:
        return lambda outcome: self.results.append((name, outcome))

    def read(self, name: str, source: str = "batch") -> bool:
        return self.executor.read(source, self.call(name), self.done(name), DEADLINE_S)

    def act(self, name: str, node: str, source: str = "cloud") -> None:
        self.executor.act(source, node, self.call(name), self.done(name), DEADLINE_S)

    def outcome(self, name: str) -> Outcome[Any]:
        (found,) = [outcome for seen, outcome in self.results if seen == name]
        return found


def test_a_call_begins_takes_effect_and_is_answered_at_three_times() -> None:
    bench = Bench()
    began = bench.clock.monotonic()
    bench.read("jobs")
    assert bench.effects == [] and bench.in_flight() == 1
    bench.events.run()
    outcome = bench.outcome("jobs")
    assert outcome.value == "JOBS" and outcome.error is None
    assert outcome.began == began
    assert began < began + bench.effects[0][1] < outcome.ended
    assert 1.0 <= outcome.ended - began <= 4.0
    assert bench.in_flight() == 0


def test_an_error_of_the_call_is_its_outcome() -> None:
    bench = Bench()
    error = SourceError("down")

    def fail() -> None:
        raise error

    bench.executor.read("batch", fail, bench.done("jobs"), DEADLINE_S)
    bench.events.run()
    assert bench.outcome("jobs").error is error


def test_reads_of_one_source_go_one_at_a_time_and_sources_do_not_wait_for_each_other() -> None:
    bench = Bench()
    assert bench.read("jobs")
    assert not bench.read("workers")
    assert bench.read("instances", source="cloud")
    bench.events.run()
    assert sorted(name for name, _ in bench.effects) == ["instances", "jobs"]
    assert bench.read("workers")


def test_a_read_does_not_wait_behind_acts() -> None:
    bench = Bench(latency=EVEN)
    for number in range(20):
        bench.act(f"act{number}", f"node{number}")
    assert bench.read("instances", source="cloud")
    bench.events.run()
    assert dict(bench.effects)["instances"] == pytest.approx(1.0)


def test_acts_of_one_node_go_in_order_and_eight_nodes_at_once() -> None:
    bench = Bench(latency=EVEN)
    bench.act("drain", "n0")
    bench.act("terminate", "n0")
    for number in range(1, 10):
        bench.act(f"other{number}", f"n{number}")
    assert bench.in_flight() == 8
    bench.events.run()
    times = dict(bench.effects)
    assert times["drain"] == pytest.approx(1.0)
    assert times["terminate"] == pytest.approx(3.0)  # after the answer of the drain
    assert [times[f"other{number}"] for number in range(1, 8)] == pytest.approx([1.0] * 7)
    assert times["other9"] == pytest.approx(3.0)


def test_calls_in_flight_overtake_each_other() -> None:
    orders = set()
    for seed in range(10):
        bench = Bench(seed)
        for number in range(5):
            bench.act(str(number), f"n{number}")
        bench.events.run()
        orders.add("".join(name for name, _ in bench.results))
    assert len(orders) > 5


def test_a_call_past_its_deadline_is_unknown_and_its_late_answer_is_dropped() -> None:
    bench = Bench(latency=EVEN)
    bench.extra_s = [100.0]
    bench.read("jobs")
    bench.events.run()
    outcome = bench.outcome("jobs")  # exactly one, though the answer came later
    assert isinstance(outcome.error, DeadlineError)
    assert outcome.ended - outcome.began == pytest.approx(DEADLINE_S)
    assert bench.clock.elapsed_s > 100.0
    assert dict(bench.effects) == {"jobs": pytest.approx(1.0)}


def test_a_hung_read_frees_its_source_at_the_deadline() -> None:
    bench = Bench()
    bench.extra_s = [float("inf")]
    bench.read("jobs")
    bench.events.run()
    assert bench.read("jobs again")
    bench.events.run()
    assert bench.outcome("jobs again").value == "JOBS AGAIN"


def test_a_request_slower_than_the_deadline_takes_effect_after_it_was_given_up() -> None:
    bench = Bench(latency=Latency(40.0, 40.0))
    bench.act("launch", "n1")
    bench.events.run()
    assert isinstance(bench.outcome("launch").error, DeadlineError)
    assert dict(bench.effects) == {"launch": pytest.approx(40.0)}


def test_a_closed_executor_starts_nothing_and_reports_nothing_but_what_was_sent_takes_effect() -> None:
    bench = Bench()
    bench.act("launch", "n1")
    bench.act("terminate", "n1")
    bench.executor.close(8.0)
    assert not bench.read("jobs")
    bench.events.run()
    assert [name for name, _ in bench.effects] == ["launch"]
    assert bench.results == []


def test_one_seed_gives_one_course_and_another_seed_another() -> None:
    def course(seed: int) -> list[tuple[str, float]]:
        bench = Bench(seed)
        for number in range(12):
            bench.act(str(number), f"n{number % 9}")
        bench.events.run()
        return bench.effects

    assert course(7) == course(7)
    assert course(7) != course(8)


def test_ctrl_c_in_a_call_is_not_taken_for_its_result() -> None:
    clock = VirtualClock()
    events = VirtualQueue(clock)
    executor = VirtualExecutor(events, random.Random(1))

    def interrupted() -> None:
        raise KeyboardInterrupt

    executor.read("queue", interrupted, lambda outcome: None, 60.0)
    with pytest.raises(KeyboardInterrupt):
        events.run()


def test_an_act_that_cannot_be_sent_in_time_is_given_back_unsent() -> None:
    """What had decided upon it is too old by then; it has no effect, now or later."""
    bench = Bench()
    bench.extra_s = [1000.0] * ACTS_AT_ONCE
    for number in range(ACTS_AT_ONCE):
        bench.act(f"hangs{number}", f"n{number}")
    bench.act("late", "late")
    bench.act("behind", "n0")
    bench.events.after(100.0, bench.events.stop)
    bench.events.run()
    for name in ("late", "behind"):
        outcome = bench.outcome(name)
        assert isinstance(outcome.error, UnsentError)
        assert outcome.began == outcome.ended == pytest.approx(1000.0 + QUEUED_AT_MOST_S)
    assert not {"late", "behind"} & {name for name, _ in bench.effects}


def test_an_act_that_had_to_wait_a_moment_is_made_once() -> None:
    bench = Bench()
    for number in range(3 * ACTS_AT_ONCE):
        bench.act(f"a{number}", f"n{number}")
    bench.events.after(100.0, bench.events.stop)
    bench.events.run()
    assert sorted(name for name, _ in bench.effects) == sorted(f"a{number}" for number in range(3 * ACTS_AT_ONCE))
    assert all(outcome.error is None for _, outcome in bench.results)
    assert len(bench.results) == 3 * ACTS_AT_ONCE
