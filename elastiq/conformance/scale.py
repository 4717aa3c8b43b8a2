"""Queues that are long, and calls that never end. See `elastiq.conformance.batch`."""

from __future__ import annotations

import resource
import time
from typing import Any, Callable, TypeVar

import pytest

from elastiq.conformance import Conformance, needs
from elastiq.conformance.bench import BatchBench
from elastiq.interfaces import DrainMode, SourceError

T = TypeVar("T")

JOBS = 10_000
FEWER = 1_000
AT_MOST = 50  # times as long for ten times as many: growth by the square would be a hundred times


def used_s() -> float:
    """Of the processor, by us and by all commands that have ended: other work on the machine does not count."""
    commands = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + commands.ru_utime + commands.ru_stime


def quickest_s(call: Callable[[], T]) -> tuple[float, T]:
    """Of two calls, the first of which may have more to do; and the answer."""
    taken = []
    for _ in range(2):
        began = used_s()
        answer = call()
        taken.append(used_s() - began)
    return min(taken), answer


class Scale(Conformance):
    """What must not grow without bound."""

    def test_ten_thousand_jobs_are_few_groups_and_take_no_more_than_their_share(self, bench: BatchBench) -> None:
        for cpus in (1, 2):
            bench.submit(count=FEWER // 2, cpus=cpus)
        short_s, _ = quickest_s(bench.batch.jobs)
        for cpus in (1, 2):
            bench.submit(count=(JOBS - FEWER) // 2, cpus=cpus)
        long_s, jobs = quickest_s(bench.batch.jobs)
        groups = sorted((group.request.cpus or 0, group.waiting) for group in jobs.groups)
        assert groups == [(1, JOBS // 2), (2, JOBS // 2)]
        assert long_s < AT_MOST * max(short_s, 0.005), (short_s, long_s)

    @needs("arrays")
    def test_an_array_of_ten_thousand_tasks_is_one_group(self, bench: BatchBench) -> None:
        bench.submit_array(JOBS)
        (group,) = bench.batch.jobs().groups
        assert group.waiting == JOBS

    @needs("hang")
    @pytest.mark.parametrize("call", ["jobs", "workers", "jobs_recorded_on"])
    def test_a_read_that_is_never_answered_ends_by_itself_and_is_unknown(self, bench: BatchBench, call: str) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        arguments = ([name],) if call == "jobs_recorded_on" else ()
        bench.hang_next(call)
        self._ends_in_time(bench, lambda: getattr(bench.batch, call)(*arguments))

    @needs("hang", "drain")
    def test_a_drain_that_is_never_answered_ends_by_itself_and_is_unknown(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.hang_next("drain")
        self._ends_in_time(bench, lambda: bench.batch.drain(name, DrainMode.IF_IDLE))

    @staticmethod
    def _ends_in_time(bench: BatchBench, call: Callable[[], Any]) -> None:
        began = time.monotonic()
        with pytest.raises(SourceError):
            call()
        # elastiq gives a call up after the deadline, and believes nothing that comes later
        assert time.monotonic() - began < bench.batch.call_deadline_s
