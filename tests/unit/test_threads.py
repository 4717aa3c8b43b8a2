"""The real executor: calls that hang are reported in time and hold up nothing but themselves."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Iterator

import pytest

from elastiq.events import EventQueue, RealClock
from elastiq.executor import DeadlineError, Outcome
from elastiq.threads import ABANDONED_AT_MOST, ThreadExecutor


class Bench:
    def __init__(self) -> None:
        self.events = EventQueue(RealClock(), longest_pause_s=0.05)
        self.executor = ThreadExecutor(self.events)
        self.results: list[tuple[str, Outcome[Any]]] = []
        self.hang = threading.Event()  # until it is set, `hung` does not return

    def hung(self) -> None:
        self.hang.wait(30)

    def done(self, name: str) -> Callable[[Outcome[Any]], None]:
        return lambda outcome: self.results.append((name, outcome))

    def run_until(self, true: Callable[[], object], within_s: float = 10.0) -> None:
        """Let the loop run until something is true."""
        end = time.monotonic() + within_s
        came = False

        def look() -> None:
            nonlocal came
            came = bool(true())
            if came or time.monotonic() > end:
                self.events.stop()
            else:
                self.events.after(0.01, look)

        look()
        self.events.run()
        assert came, "it did not come true in time"


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.hang.set()


def test_a_result_and_an_error_come_back_on_the_loop_with_their_times(bench: Bench) -> None:
    threads: list[threading.Thread] = []

    def fail() -> None:
        threads.append(threading.current_thread())
        raise ValueError("no")

    assert bench.executor.read("batch", lambda: "jobs", bench.done("read"), 10)
    bench.executor.act("cloud", "n1", fail, bench.done("act"), 10)
    assert bench.executor.in_flight() == 2
    bench.run_until(lambda: len(bench.results) == 2)
    outcomes = dict(bench.results)
    assert outcomes["read"].value == "jobs" and outcomes["read"].error is None
    assert outcomes["read"].began <= outcomes["read"].ended
    assert isinstance(outcomes["act"].error, ValueError)
    assert threads[0] is not threading.current_thread()
    assert bench.executor.in_flight() == 0


def test_a_call_that_hangs_is_unknown_at_its_deadline_and_what_it_returns_later_is_dropped(bench: Bench) -> None:
    bench.executor.read("batch", bench.hung, bench.done("jobs"), 0.1)
    assert not bench.executor.read("batch", bench.hung, bench.done("second"), 0.1)
    bench.run_until(lambda: bench.results)
    assert isinstance(bench.results[0][1].error, DeadlineError)
    bench.hang.set()
    assert bench.executor.read("batch", lambda: 1, bench.done("next"), 10)
    bench.run_until(lambda: len(bench.results) == 2)
    assert [name for name, _ in bench.results] == ["jobs", "next"]


def test_a_source_that_hung_too_often_is_asked_no_more_until_a_call_returns(bench: Bench) -> None:
    for number in range(ABANDONED_AT_MOST):
        assert bench.executor.read("batch", bench.hung, bench.done(f"read {number}"), 0.01)
        bench.run_until(lambda: not bench.executor.in_flight())
    assert not bench.executor.read("batch", lambda: 1, bench.done("refused"), 10)
    assert bench.executor.read("cloud", lambda: 1, bench.done("another source"), 10)
    bench.hang.set()
    bench.run_until(lambda: bench.executor.read("batch", lambda: 1, bench.done("again"), 10))
    bench.run_until(lambda: "again" in dict(bench.results))


def test_an_act_of_a_node_waits_for_the_one_before_and_others_do_not(bench: Bench) -> None:
    bench.executor.act("cloud", "n1", bench.hung, bench.done("drain"), 10)
    bench.executor.act("cloud", "n1", lambda: None, bench.done("end"), 10)
    bench.executor.act("cloud", "n2", lambda: None, bench.done("other"), 10)
    bench.run_until(lambda: bench.results)
    assert [name for name, _ in bench.results] == ["other"]
    bench.hang.set()
    bench.run_until(lambda: len(bench.results) == 3)
    assert [name for name, _ in bench.results] == ["other", "drain", "end"]


def test_closing_waits_for_calls_in_flight_drops_the_others_and_does_not_wait_for_ever(bench: Bench) -> None:
    made: list[str] = []

    def slow() -> None:
        time.sleep(0.2)
        made.append("in flight")

    bench.executor.act("cloud", "n1", slow, bench.done("1"), 10)
    bench.executor.act("cloud", "n1", lambda: made.append("waiting"), bench.done("2"), 10)
    bench.executor.close(10)
    assert made == ["in flight"]
    assert not bench.executor.read("batch", lambda: 1, bench.done("late"), 10)

    stuck = Bench()
    stuck.executor.act("cloud", "n1", stuck.hung, stuck.done("hung"), 10)
    began = time.monotonic()
    stuck.executor.close(0.2)
    assert 0.15 < time.monotonic() - began < 5
    stuck.hang.set()
