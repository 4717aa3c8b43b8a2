from __future__ import annotations

import threading

from elastiq.events import EventQueue, RealClock
from elastiq.simulation.clock import VirtualQueue


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1e9 + self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def test_actions_run_in_the_order_of_their_times_on_the_virtual_clock() -> None:
    clock = FakeClock()
    events = VirtualQueue(clock)
    seen: list[tuple[str, float]] = []
    events.after(5, lambda: seen.append(("b", clock.now)))
    events.after(2, lambda: seen.append(("a", clock.now)))
    events.run()
    assert seen == [("a", 102.0), ("b", 105.0)]


def test_a_cancelled_timer_does_not_run_and_cancelling_twice_is_harmless() -> None:
    clock = FakeClock()
    events = VirtualQueue(clock)
    seen: list[str] = []
    timer = events.after(1, lambda: seen.append("never"))
    timer.cancel()
    timer.cancel()
    events.run()
    assert seen == []


def test_a_post_from_another_thread_wakes_a_loop_that_waits_for_a_far_timer() -> None:
    events = EventQueue(RealClock(), longest_pause_s=3600)
    seen: list[str] = []
    events.after(7200, lambda: seen.append("late"))

    def act() -> None:
        events.post(lambda: seen.append("posted"))
        events.post(events.stop)

    thread = threading.Timer(0.05, act)
    thread.start()
    events.run()  # which ends, or does not
    thread.join()
    assert seen == ["posted"]


def test_an_idle_queue_keeps_running_until_it_is_stopped() -> None:
    events = EventQueue(RealClock(), longest_pause_s=0.01)
    thread = threading.Timer(0.1, events.stop)
    thread.start()
    events.run()
    thread.join()


def test_an_action_may_schedule_itself_again() -> None:
    clock = FakeClock()
    events = VirtualQueue(clock)
    times: list[float] = []

    def tick() -> None:
        times.append(clock.now)
        if len(times) < 3:
            events.after(10, tick)

    events.after(10, tick)
    events.run()
    assert times == [110.0, 120.0, 130.0]


def test_a_stop_that_comes_before_the_run_is_not_lost() -> None:
    events = EventQueue(RealClock())
    ran: list[str] = []
    events.after(0.0, lambda: ran.append("x"))
    events.stop()
    events.run()
    assert not ran


def test_an_inbox_that_was_just_emptied_never_stops_the_loop() -> None:
    clock = FakeClock()
    events = VirtualQueue(clock)
    seen: list[int] = []
    for number in range(50_000):  # Python 3.9's SimpleQueue alone hung within 10,000
        events.post(lambda number=number: seen.append(number))  # type: ignore[misc]
        events.run()
    assert seen == list(range(50_000))


def test_a_short_wait_after_an_action_never_stops_the_loop() -> None:
    events = EventQueue(RealClock())
    seen: list[int] = []

    def act() -> None:
        seen.append(len(seen))
        if len(seen) == 20_000:
            events.stop()
        elif len(seen) % 2:
            events.post(act)
        else:
            events.after(1e-6, act)

    events.post(act)
    events.run()
    assert len(seen) == 20_000


def test_the_clock_of_the_timers_goes_on_while_the_machine_is_suspended() -> None:
    """Only so is an answer from before known to be old. /proc/uptime counts suspended time (proc(5))."""
    with open("/proc/uptime", encoding="ascii") as file:
        before = float(file.read().split()[0])
        now = RealClock.monotonic()
        file.seek(0)
        after = float(file.read().split()[0])
    assert before - 0.02 <= now <= after + 0.02
