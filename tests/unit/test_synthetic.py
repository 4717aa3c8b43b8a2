"""The generator of workloads: the same from the same seed, and as its published model says."""

from __future__ import annotations

import math
import random
from statistics import fmean as mean
from statistics import variance

import pytest

from elastiq.whatif.synthetic import DAY_S, LublinFeitelson, exponential, gamma, gamma_below, log_uniform, parts

JOBS = 4000


@pytest.fixture(scope="module")
def model() -> LublinFeitelson:
    return LublinFeitelson(seed=3, jobs=JOBS)


def test_a_stream_is_the_same_each_time_and_another_from_another_seed(model: LublinFeitelson) -> None:
    first = list(model)
    assert first == list(model) and len(first) == JOBS == model.lines.jobs
    assert first != list(LublinFeitelson(seed=4, jobs=JOBS))
    assert first[0].at_s == 0.0 and [job.at_s for job in first] == sorted(job.at_s for job in first)
    assert model.read_part() == 1.0


def test_sizes_are_as_often_serial_and_powers_of_two_as_the_model_says(model: LublinFeitelson) -> None:
    cores = [int(job.request.cpus or 0) for job in model]
    assert max(cores) <= 128 and min(cores) == 1
    assert cores.count(1) / JOBS == pytest.approx(model.serial, abs=0.02)
    powers = sum(1 for size in cores if size & (size - 1) == 0)
    # Of those that are not to be powers of two, some are by rounding.
    assert model.serial + model.power_of_two < powers / JOBS < model.serial + model.power_of_two + 0.12


def test_larger_jobs_run_longer_and_none_longer_than_the_model_lets_them(model: LublinFeitelson) -> None:
    jobs = list(model)
    small = [math.log(job.run_s) for job in jobs if (job.request.cpus or 0) <= 2]
    large = [math.log(job.run_s) for job in jobs if (job.request.cpus or 0) >= 64]
    assert mean(large) > mean(small) + 1.0
    assert max(job.run_s for job in jobs) <= math.exp(model.longest_log_s)


def test_most_jobs_come_by_day(model: LublinFeitelson) -> None:
    hours = [int(job.at_s % DAY_S // 3600) for job in model]
    assert sum(hours.count(hour) for hour in range(9, 15)) > 4 * sum(hours.count(hour) for hour in range(6))


def test_gaps_are_stretched_and_large_jobs_become_parts() -> None:
    close = list(LublinFeitelson(seed=5, jobs=500))
    far = list(LublinFeitelson(seed=5, jobs=500, stretch=3.0, part_cpus=8))
    assert 2.0 < far[-1].at_s / close[-1].at_s < 4.0
    assert max(job.request.cpus or 0 for job in far) == 8
    assert sum(job.request.cpus or 0 for job in far) == sum(job.request.cpus or 0 for job in close)
    assert list(parts(20, 8)) == [8, 8, 4] and list(parts(8, 8)) == [8]


def test_the_variates_have_the_moments_of_their_distributions() -> None:
    chance = random.Random(1)
    drawn = [gamma(chance, 4.2, 0.94) for _ in range(20_000)]
    assert mean(drawn) == pytest.approx(4.2 * 0.94, rel=0.02)
    assert variance(drawn) == pytest.approx(4.2 * 0.94**2, rel=0.05)
    assert sum(x < 3.0 for x in drawn) / len(drawn) == pytest.approx(gamma_below(3.0, 4.2, 0.94), abs=0.01)
    assert gamma_below(2.0, 1.0, 2.0) == pytest.approx(1 - math.exp(-1.0))
    assert mean(exponential(chance, 5.0) for _ in range(20_000)) == pytest.approx(5.0, rel=0.04)
    assert mean(math.log(log_uniform(chance, 1.0, math.e)) for _ in range(20_000)) == pytest.approx(0.5, abs=0.01)
