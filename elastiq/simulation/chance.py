"""Chance that comes from a seed alone: the same in every version of Python, and for every order of asking."""

from __future__ import annotations

import hashlib
import random
from typing import Sequence, TypeVar

from elastiq.simulation.clock import VirtualClock

T = TypeVar("T")


def chance(*key: object) -> float:
    """A number from 0 to below 1, always the same for the same key (texts and numbers)."""
    digest = hashlib.blake2b("\0".join(map(str, key)).encode(), digest_size=7).digest()
    return (int.from_bytes(digest, "big") >> 3) / float(1 << 53)


class Dice(random.Random):
    """A stream of its own for a key. Only what is defined here may be used of it."""

    def __new__(cls, *key: object) -> Dice:
        return super().__new__(cls)  # until Python 3.10 it takes one argument at most

    def __init__(self, *key: object) -> None:
        super().__init__(0)
        self._key = key
        self._throws = 0

    def random(self) -> float:
        self._throws += 1
        return chance(*self._key, self._throws)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def whole(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + int(self.random() * (high - low + 1))

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[int(self.random() * len(choices))]

    def happens(self, probability: float) -> bool:
        return self.random() < probability


class TimedDice(Dice):
    """What is thrown depends on the simulated time and on how often it was thrown at that time, not on what
    was thrown before: when an event is left out, those that do not follow from it stay as they were."""

    def __init__(self, clock: VirtualClock, *key: object) -> None:
        super().__init__(*key)
        self._clock = clock
        self._at = -1.0

    def random(self) -> float:
        now = self._clock.elapsed_s
        if now != self._at:
            self._at, self._throws = now, 0
        self._throws += 1
        return chance(*self._key, now, self._throws)
