"""The real executor: calls that hang are reported in time and hold up nothing but themselves."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Callable, Iterator

import pytest

from elastiq.events import EventQueue, RealClock
from elastiq.executor import DeadlineError, Outcome, UnsentError
from elastiq.threads import ABANDONED_AT_MOST, ACTS_AT_ONCE, ThreadExecutor
from tests.waiting import PATIENCE_S


class Bench:
    def __init__(self) -> None:
        self.events = EventQueue(RealClock(), longest_pause_s=0.05)
        self.executor = ThreadExecutor(self.events)
        self.results: list[tuple[str, Outcome[Any]]] = []
        self.hang = threading.Event()  # until it is set, `hung` does not return

    def hung(self) -> None:
        self.hang.wait(600)

    def in_flight(self) -> int:
        return sum(map(len, self.executor._running.values()))

    def done(self, name: str) -> Callable[[Outcome[Any]], None]:
        return lambda outcome: self.results.append((name, outcome))

    def run_until(self, true: Callable[[], object], within_s: float = PATIENCE_S) -> None:
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
    bench.executor.act("cloud", "n1", fail, bench.done("act"), 60)
    assert bench.in_flight() == 2
    bench.run_until(lambda: len(bench.results) == 2)
    outcomes = dict(bench.results)
    assert outcomes["read"].value == "jobs" and outcomes["read"].error is None
    assert outcomes["read"].began <= outcomes["read"].ended
    assert isinstance(outcomes["act"].error, ValueError)
    assert threads[0] is not threading.current_thread()
    assert bench.in_flight() == 0


def test_a_call_that_hangs_is_unknown_at_its_deadline_and_what_it_returns_later_is_dropped(bench: Bench) -> None:
    bench.executor.read("batch", bench.hung, bench.done("jobs"), 0.1)
    assert not bench.executor.read("batch", bench.hung, bench.done("second"), 0.1)
    bench.run_until(lambda: bench.results)
    assert isinstance(bench.results[0][1].error, DeadlineError)
    bench.hang.set()
    assert bench.executor.read("batch", lambda: 1, bench.done("next"), 60)
    bench.run_until(lambda: len(bench.results) == 2)
    assert [name for name, _ in bench.results] == ["jobs", "next"]


def test_a_source_that_hung_too_often_is_asked_no_more_until_a_call_returns(bench: Bench) -> None:
    for number in range(ABANDONED_AT_MOST):
        assert bench.executor.read("batch", bench.hung, bench.done(f"read {number}"), 0.01)
        bench.run_until(lambda: not bench.in_flight())
    assert not bench.executor.read("batch", lambda: 1, bench.done("refused"), 60)
    assert bench.executor.read("cloud", lambda: 1, bench.done("another source"), 60)
    bench.hang.set()
    bench.run_until(lambda: bench.executor.read("batch", lambda: 1, bench.done("again"), 60))
    bench.run_until(lambda: "again" in dict(bench.results))


def test_an_act_of_a_node_waits_for_the_one_before_and_others_do_not(bench: Bench) -> None:
    bench.executor.act("cloud", "n1", bench.hung, bench.done("drain"), 10)
    bench.executor.act("cloud", "n1", lambda: None, bench.done("end"), 60)
    bench.executor.act("cloud", "n2", lambda: None, bench.done("other"), 60)
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

    bench.executor.act("cloud", "n1", slow, bench.done("1"), 60)
    bench.executor.act("cloud", "n1", lambda: made.append("waiting"), bench.done("2"), 60)
    bench.executor.close(PATIENCE_S)
    assert made == ["in flight"]
    assert not bench.executor.read("batch", lambda: 1, bench.done("late"), 60)

    stuck = Bench()
    stuck.executor.act("cloud", "n1", stuck.hung, stuck.done("hung"), 10)
    began = time.monotonic()
    stuck.executor.close(0.2)
    assert 0.15 < time.monotonic() - began < PATIENCE_S, "not when the call returns"
    stuck.hang.set()


@pytest.mark.parametrize("error", [ValueError("a date"), SystemExit(3)], ids=type)
def test_whatever_a_call_raises_travels_in_the_outcome(bench: Bench, error: BaseException) -> None:
    def fail() -> None:
        raise error

    bench.executor.read("batch", fail, bench.done("read"), 60)
    bench.run_until(lambda: bench.results)
    assert bench.results[0][1].error is error
    assert bench.results[0][1].value is None


def test_reads_do_not_wait_behind_acts(bench: Bench) -> None:
    for number in range(2 * ACTS_AT_ONCE):
        bench.executor.act("cloud", f"n{number}", bench.hung, bench.done("act"), 60)
    assert bench.executor.read("cloud", lambda: 1, bench.done("read"), 60)
    bench.run_until(lambda: bench.results)
    assert [name for name, _ in bench.results] == ["read"]


def test_acts_of_one_node_go_in_their_order_and_do_not_overlap(bench: Bench) -> None:
    running: list[int] = []
    overlaps: list[int] = []

    def call(number: int) -> None:
        running.append(number)
        overlaps.extend(running[:-1])
        time.sleep(0.01)
        running.remove(number)

    for number in range(6):
        bench.executor.act("cloud", "n1", partial(call, number), bench.done(f"{number}"), 60)
    bench.run_until(lambda: len(bench.results) == 6)
    assert ([name for name, _ in bench.results], overlaps) == (["0", "1", "2", "3", "4", "5"], [])


def test_at_most_eight_acts_of_a_source_run_at_once(bench: Bench) -> None:
    gates = [threading.Event() for _ in range(11)]
    begun: list[int] = []

    def call(number: int) -> None:
        begun.append(number)
        gates[number].wait(600)

    for number in range(11):
        bench.executor.act("cloud", f"n{number}", partial(call, number), bench.done(f"{number}"), 60)
    bench.run_until(lambda: len(begun) == 8)
    assert (bench.in_flight(), sorted(begun)) == (8, list(range(8)))
    gates[3].set()
    bench.run_until(lambda: len(begun) == 9)
    bench.run_until(lambda: [name for name, _ in bench.results] == ["3"])
    assert (bench.in_flight(), begun[8]) == (8, 8)
    for gate in gates:
        gate.set()
    bench.run_until(lambda: len(bench.results) == 11)


def test_an_act_past_its_deadline_makes_room_for_the_next_of_its_node(bench: Bench) -> None:
    bench.executor.act("cloud", "n1", bench.hung, bench.done("hung"), 0.05)
    bench.executor.act("cloud", "n1", lambda: 1, bench.done("next"), 60)
    bench.run_until(lambda: len(bench.results) == 2)
    assert [(name, str(outcome.error)) for name, outcome in bench.results] == [
        ("hung", "no answer within 0.05 s"),
        ("next", "None"),
    ]


def test_an_act_that_has_lost_its_reason_when_its_turn_comes_is_given_back_unsent(bench: Bench) -> None:
    sent: list[str] = []
    wanted = True
    bench.executor.act("cloud", "n1", bench.hung, bench.done("before"), 60)
    bench.executor.act("cloud", "n1", lambda: sent.append("it"), bench.done("it"), 60, lambda: wanted)
    bench.executor.act("cloud", "n1", lambda: sent.append("behind"), bench.done("behind"), 60)
    bench.run_until(bench.in_flight)
    wanted = False
    bench.hang.set()
    bench.run_until(lambda: len(bench.results) == 3)
    assert sent == ["behind"]
    error = dict(bench.results)["it"].error
    assert isinstance(error, UnsentError) and "not so any more" in str(error)


def test_acts_behind_too_many_hung_ones_wait_and_then_go_on(bench: Bench) -> None:
    for number in range(ABANDONED_AT_MOST):
        bench.executor.act("cloud", f"n{number}", bench.hung, bench.done("hung"), 0.05)
    bench.run_until(lambda: len(bench.results) == ABANDONED_AT_MOST)
    begun = threading.Event()
    bench.executor.act("cloud", "last", begun.set, bench.done("last"), 60)
    assert not begun.wait(0.1)
    bench.hang.set()
    bench.run_until(lambda: "last" in dict(bench.results))


def test_a_result_wakes_the_loop_at_once(bench: Bench) -> None:
    bench.events.longest_pause_s = 3600.0
    bench.executor.read("batch", lambda: 1, lambda outcome: bench.events.stop(), 3600)
    bench.events.run()  # which ends, or does not


def test_a_done_that_fails_does_not_keep_the_next_act_from_being_started(bench: Bench) -> None:
    def fail(outcome: Outcome[Any]) -> None:
        raise ZeroDivisionError

    bench.executor.act("cloud", "n1", lambda: 1, fail, 60)
    bench.executor.act("cloud", "n1", lambda: 2, bench.done("next"), 60)
    with pytest.raises(ZeroDivisionError):
        bench.run_until(lambda: False)
    bench.run_until(lambda: bench.results)


def test_a_thread_that_cannot_be_started_is_an_outcome_and_no_hung_call(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        for number in range(2 * ABANDONED_AT_MOST):
            assert bench.executor.read("batch", lambda: 1, bench.done(f"{number}"), 60)
            bench.run_until(lambda: not bench.in_flight())
    assert {str(outcome.error) for _, outcome in bench.results} == {"can't start new thread"}
    assert bench.executor.read("batch", lambda: 1, bench.done("again"), 60)
    bench.run_until(lambda: "again" in dict(bench.results))


def test_nothing_that_comes_back_after_closing_is_heard(bench: Bench) -> None:
    returned = threading.Event()

    def late() -> None:
        bench.hung()
        returned.set()

    bench.executor.read("batch", late, bench.done("late"), 0.1)
    bench.executor.close(0)
    bench.hang.set()
    assert returned.wait(PATIENCE_S)
    end = time.monotonic() + 0.3
    bench.run_until(lambda: time.monotonic() > end)
    assert bench.results == []
