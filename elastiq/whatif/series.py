"""What a simulated cluster did over time, in a bounded number of points whatever the length."""

from __future__ import annotations

from itertools import accumulate
from typing import Iterator, NamedTuple, Optional, Sequence

POINTS = 2000
WIDTH_S = 1.0  # of a span at the beginning; doubled whenever there are too many


class Levels(NamedTuple):
    """What is so at one moment. Machines: those that are billed."""

    waiting: float = 0.0  # jobs
    running: float = 0.0
    booting: float = 0.0  # machines that are no worker yet
    idle: float = 0.0  # workers without a job
    busy: float = 0.0
    price: float = 0.0  # of an hour of all these machines


class Point(NamedTuple):
    """A span of time, in seconds since the start: means over it, weighted by time, and the most at any moment in it.

    ``cost`` is what the machines have cost since the start, at the end of the span, with what was added because a
    machine's time is billed in whole units; None if of some machine no price is known.
    """

    begin_s: float
    end_s: float
    waiting: float
    running: float
    booting: float
    idle: float
    busy: float
    most_waiting: float
    most_running: float
    most_vms: float
    cost: Optional[float]


class Series:
    """Takes levels as they change; gives points: as short as fits into ``points``, all of one length but the last."""

    def __init__(self, points: int = POINTS) -> None:
        self._points = max(2, points)
        self._width_s = WIDTH_S
        self._spans: list[_Span] = []
        self._now_s = 0.0
        self._levels = Levels()
        self._vms = 0.0
        self.priced = True  # of every machine a price is known

    def tell(self, now_s: float, levels: Levels) -> None:
        """From now on it is so. Times do not go back."""
        self.until(now_s)
        self._levels, self._vms = levels, levels.booting + levels.idle + levels.busy

    def charge(self, now_s: float, amount: float) -> None:
        """Now so much is paid beside what time costs."""
        self.until(now_s)
        self._span().paid += amount

    def until(self, now_s: float) -> None:
        """Nothing has changed up to now."""
        while self._now_s < now_s:
            span = self._span()
            end_s = min(now_s, self._width_s * len(self._spans))
            span.take(end_s - self._now_s, self._levels, self._vms)
            self._now_s = end_s

    def points(self) -> Iterator[Point]:
        """In the order of time."""
        costs = accumulate(span.paid + span.sums[-1] / 3600.0 for span in self._spans)
        for number, (span, cost) in enumerate(zip(self._spans, costs)):
            begin_s = number * self._width_s
            end_s = min(begin_s + self._width_s, max(self._now_s, begin_s))
            means = [total / (span.length_s or 1.0) for total in span.sums[:-1]]
            yield Point._make((begin_s, end_s, *means, *span.most, cost if self.priced else None))

    def _span(self) -> _Span:
        """The one in which the present moment is."""
        spans = self._spans
        if self._now_s >= self._width_s * len(spans):
            if len(spans) >= self._points:
                self._spans = spans = [one.joined(two) for one, two in _pairs(spans)]
                self._width_s *= 2.0
                return self._span()
            spans.append(_Span())
        return spans[-1]


class _Span:
    """Sums of the levels over a span, each times the seconds for which it was so."""

    __slots__ = ("length_s", "most", "paid", "sums")

    def __init__(self) -> None:
        self.length_s = self.paid = 0.0
        self.sums = [0.0] * len(Levels._fields)
        self.most = [0.0, 0.0, 0.0]  # waiting, running, machines

    def take(self, seconds: float, levels: Levels, vms: float) -> None:
        self.length_s += seconds
        sums, most = self.sums, self.most
        for place, level in enumerate(levels):
            sums[place] += level * seconds
        if levels[0] > most[0]:
            most[0] = levels[0]
        if levels[1] > most[1]:
            most[1] = levels[1]
        if vms > most[2]:
            most[2] = vms

    def joined(self, other: Optional[_Span]) -> _Span:
        if other is not None:
            self.length_s += other.length_s
            self.paid += other.paid
            self.sums = [a + b for a, b in zip(self.sums, other.sums)]
            self.most = [max(a, b) for a, b in zip(self.most, other.most)]
        return self


def _pairs(spans: Sequence[_Span]) -> Iterator[tuple[_Span, Optional[_Span]]]:
    for place in range(0, len(spans), 2):
        yield spans[place], spans[place + 1] if place + 1 < len(spans) else None
