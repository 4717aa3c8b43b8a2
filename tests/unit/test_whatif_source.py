"""What of a trace is played, and what is seen of it meanwhile."""

from __future__ import annotations

from typing import Iterator, Optional

import pytest

from elastiq.interfaces import Resources
from elastiq.traces.job import BadLine, Lines, TraceError, TraceJob
from elastiq.whatif.slices import typical
from elastiq.whatif.source import DAY_S, Part, PartOf, Reached, Seen, Source, Watched

MACHINE = Resources(cpus=8.0, memory_mb=32_000.0)


def job(at_s: float, cpus: Optional[float] = 1.0, run_s: float = 60.0, **more: float) -> TraceJob:
    return TraceJob(at_s, Resources(cpus, **more), run_s, f"job{at_s:g}")


class Jobs:
    format = "list"

    def __init__(self, *jobs: TraceJob, began_at: Optional[float] = None) -> None:
        self.jobs, self.lines, self.began_at = jobs, Lines(), began_at

    def __iter__(self) -> Iterator[TraceJob]:
        self.lines = Lines()
        for one in self.jobs:
            self.lines.jobs += 1
            yield one
        self.lines.is_bad(7, BadLine("no job"))

    def read_part(self) -> float:
        return self.lines.jobs / len(self.jobs)


HOURS = Jobs(*(job(3600.0 * hour) for hour in range(100)), began_at=1_000_000.0)


@pytest.mark.parametrize(
    ("part", "first", "jobs"),
    [
        (Part(), 0, 100),
        (Part(from_s=DAY_S), 24, 76),
        (Part(until_s=DAY_S), 0, 24),
        (Part(from_s=DAY_S, days=1), 24, 24),
        (Part(from_at=1_000_000.0 + DAY_S, until_at=1_000_000.0 + 2 * DAY_S), 24, 24),
        (Part(from_at=0.0, days=0.5), 0, 12),
    ],
)
def test_a_part_begins_at_its_own_time_0(part: Part, first: int, jobs: int) -> None:
    trace = PartOf(HOURS, part)
    given = list(trace)
    assert [one.name for one in given[:1]] == [f"job{3600 * first}"]
    assert len(given) == trace.lines.jobs == jobs
    assert given[0].at_s == 0.0
    assert trace.began_at == 1_000_000.0 + 3600.0 * first


def test_dates_of_a_trace_that_has_none_are_refused() -> None:
    with pytest.raises(TraceError, match="has no dates"):
        list(PartOf(Jobs(job(0.0)), Part(from_at=1.0)))


def test_a_part_tells_how_far_it_is() -> None:
    trace, told = PartOf(HOURS, Part(until_s=DAY_S)), []
    for _ in trace:
        told.append(trace.read_part())
    assert told == sorted(told) and told[0] < 0.05 and told[-1] > 0.9


def test_a_large_job_becomes_parts_of_one_name_with_their_shares() -> None:
    trace = PartOf(Jobs(job(0.0, 20.0, memory_mb=40_000.0), job(1.0, None)), Part(split_at=8.0))
    given = list(trace)
    assert [(one.request.cpus, one.request.memory_mb) for one in given] == [
        (8.0, 16_000.0), (8.0, 16_000.0), (4.0, 8_000.0), (None, None),
    ]  # fmt: skip
    assert {one.name for one in given[:3]} == {"job0"} and trace.lines.jobs == 4


def test_what_was_read_is_told_and_remembered() -> None:
    told: list[Reached] = []
    trace = Watched(Jobs(job(0.0), job(60.0, 16.0), job(DAY_S, 9.0), began_at=5.0), [MACHINE], told.append)
    assert len(list(trace)) == 3
    seen = trace.seen
    assert (seen.misfits, seen.too_large, seen.began_at) == (2, Resources(cpus=16.0), 5.0)
    assert seen.work == {0: 60 + 16 * 60, 1: 9 * 60}
    assert (seen.lines.bad, seen.lines.bad_lines) == (1, [7])
    assert (told[-1].part, told[-1].jobs) == (1.0, 3)


def test_what_a_machine_is_too_large_for_is_told_apart_from_what_it_is_too_small_for() -> None:
    jobs = [job(0.0, cpus) for cpus in (1.0, 2.0, 4.0, 5.0, 8.0, 16.0)]
    trace = Watched(Jobs(*jobs), [Resources(cpus=8.0)], lambda reached: None, own_size=True)
    assert len(list(trace)) == 6
    assert (trace.seen.misfits, trace.seen.too_small, trace.seen.too_large) == (4, jobs[0].request, jobs[5].request)


def test_the_run_times_of_jobs_that_ran_have_a_mean() -> None:
    removed = job(3.0)._replace(run_s=0.0, removed_after_s=5.0)
    trace = Watched(Jobs(job(0.0)._replace(run_s=10.0), removed, job(5.0)._replace(run_s=35.0)), [MACHINE], print)
    assert trace.seen.mean_run_s is None and len(list(trace)) == 3
    assert trace.seen.mean_run_s == 22.5


def test_the_example_is_the_same_for_a_seed() -> None:
    assert list(Source("", seed=2).open()) == list(Source("", seed=2).open()) != list(Source("").open())


# ----------------------------------------------------------------------------- a part for a search


def seen_of(*work: int) -> Seen:
    seen = Seen(last_s=len(work) * DAY_S - 1.0)
    seen.work.update(dict(enumerate(work)))
    return seen


def test_the_days_that_are_most_like_the_mean_stand_for_the_whole() -> None:
    part = typical(seen_of(0, 0, 100, 90, 40, 60, 0, 0, 300, 10), 0.2)
    assert part == Part(from_s=3 * DAY_S, days=2.0)


@pytest.mark.parametrize("share", [1.0, 3.0])
def test_what_can_be_played_whole_is(share: float) -> None:
    assert typical(seen_of(*[10] * 30), share) is None


def test_a_short_trace_is_played_whole() -> None:
    assert typical(seen_of(10, 20), 0.1) is None
