"""The mean and the quantiles of any number of times, in little memory."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from typing import Iterator, Optional

EXACT = 10_000  # so many are kept as they are
RELATIVE = 0.005  # how far a quantile of more may be off; a twentieth of a second at least
_STEP = math.log1p(2 * RELATIVE)
_LEAST_S = 0.05


class Quantiles:
    """Exact up to `EXACT` values; then it counts them in classes of like size."""

    def __init__(self) -> None:
        self.count, self._sum = 0, 0.0
        self._values: Optional[array[float]] = array("d")
        self._classes: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """``value``: at least 0."""
        self.count += 1
        self._sum += value
        if self._values is not None:
            self._values.append(value)
            if len(self._values) > EXACT:
                self._classes.update(map(_class, self._values))
                self._values = None
        else:
            self._classes[_class(value)] += 1

    def mean(self) -> Optional[float]:
        """None of nothing."""
        return self._sum / self.count if self.count else None

    def at(self, share: float) -> Optional[float]:
        """The value below which that share of them lies, between two neighbours in proportion; None of nothing."""
        if not self.count:
            return None
        place = share * (self.count - 1)
        below = math.floor(place)
        low, high = self._at(below), self._at(min(below + 1, self.count - 1))
        return low + (high - low) * (place - below)

    def _at(self, place: int) -> float:
        if self._values is not None:
            return sorted(self._values)[place]
        return next(value for value, last in self._ranked() if place < last)

    def _ranked(self) -> Iterator[tuple[float, int]]:
        """The middle of each class, and how many are in it or below."""
        passed = 0
        for number in sorted(self._classes):
            passed += self._classes[number]
            yield (_LEAST_S * math.exp((number + 0.5) * _STEP) if number >= 0 else 0.0), passed


def _class(value: float) -> int:
    return -1 if value < _LEAST_S else math.floor(math.log(value / _LEAST_S) / _STEP)
