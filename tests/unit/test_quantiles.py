"""Waits of any number of jobs, in little memory."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from elastiq.whatif.quantiles import EXACT, RELATIVE, Quantiles


def of(values: list[float]) -> Quantiles:
    found = Quantiles()
    for value in values:
        found.add(value)
    return found


def test_of_nothing_nothing_is_known() -> None:
    assert (Quantiles().mean(), Quantiles().at(0.5)) == (None, None)


def test_few_values_are_exact() -> None:
    rng = random.Random(1)
    values = [rng.random() * 1000 for _ in range(1001)]
    found = of(values)
    assert found.mean() == pytest.approx(statistics.fmean(values))
    assert found.at(0.5) == statistics.median(values)
    assert found.at(0.95) == pytest.approx(statistics.quantiles(values, n=20, method="inclusive")[-1])
    assert (found.at(0.0), found.at(1.0)) == (min(values), max(values))
    assert of([3.0, 1.0]).at(0.5) == 2.0


def test_of_many_a_quantile_is_off_by_little_and_the_mean_by_nothing() -> None:
    rng = random.Random(2)
    values = [300.0 * (-math.log(1 - rng.random())) ** 3 for _ in range(3 * EXACT)]
    values += [0.0] * EXACT
    found = of(values)
    assert found.mean() == pytest.approx(statistics.fmean(values))
    exact = sorted(values)
    for share in (0.3, 0.5, 0.95, 0.999):
        assert found.at(share) == pytest.approx(exact[int(share * len(exact))], rel=2 * RELATIVE, abs=0.05)
    assert found.at(0.1) == 0.0
    assert len(found._classes) < 3000
