"""What could be launched for whom, and what it would cost: the case that `elastiq.choosing` decides.

Pure. Wants, choices and limits are known by their positions in the lists that the caller gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Collection, Iterable, Mapping, Optional, Sequence

from elastiq.packing import SLOTS, Need, Vector, jobs_held, without

_EPSILON = 1e-9
# Of the highest price: what decides between equal costs. Every machine costs a trifle, so that the fewest are
# taken, and one further down the list a trifle of that, so that it is the first ones.
_TRIFLE, _LATER = 1e-6, 1e-8

Content = Mapping[int, int]  # slots of each want, by its position


@dataclass(frozen=True)
class Want:
    """Jobs of one shape that wait. Each takes ``asked`` on ``nodes`` slots at once, on one machine or several;
    ``offers`` are the positions of the choices that would run them, None for all that are large enough.
    ``one_only``: one job is tried, on behalf of all."""

    key: str
    asked: Need
    jobs: int
    nodes: int = 1
    offers: Optional[Collection[int]] = None
    one_only: bool = False


@dataclass(frozen=True)
class Choice:
    """A kind of machine: the room on an empty one, its price an hour, how many may be launched at most, and
    how much each takes of the limits that it shares with others: pairs of a limit's position and an amount."""

    room: Vector
    price: float
    most: float = math.inf
    uses: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class KeepTime:
    """For how long a machine is expected to be kept, as a multiple of what it is kept for one job.

    A machine is paid until its last job ends. Of k jobs with independent lengths that is late: the expected
    longest of k exponential lengths is H(k) = 1 + 1/2 + ... + 1/k times their mean, of k equal lengths once
    their mean; between them about 1 + c (H(k) - 1) with c the coefficient of variation. Boot and idle time are
    paid with it and do not grow with k, so ``spread`` is c x length / (length + boot and idle time). Jobs of
    different groups have different means too: ``mixing`` is added for each group more on one machine.

    So where the price per core is flat each job gets a machine of its own size, and a larger one is taken
    where it is cheaper by more than what it is kept longer.
    """

    spread: float = 0.5
    mixing: float = 0.1

    def factor(self, jobs: int, groups: int) -> float:
        return 1 + self.spread * (harmonic(jobs) - 1) + self.mixing * (groups - 1)


def harmonic(k: int) -> float:
    """1 + 1/2 + ... + 1/k; 1 for k < 1."""
    while len(_HARMONIC) <= min(k, 1000):
        _HARMONIC.append(_HARMONIC[-1] + 1 / len(_HARMONIC))
    return _HARMONIC[max(k, 1)] if k <= 1000 else _HARMONIC[1000] + math.log(k / 1000)


_HARMONIC = [0.0, 1.0]


@dataclass
class Batch:
    """Machines of one choice with equal content."""

    choice: int
    count: int
    content: dict[int, int]
    room: Vector  # what is left on each


@dataclass
class Case:
    """Wants in the order of importance, choices in the order of preference, and what the limits leave."""

    wants: Sequence[Want]
    choices: Sequence[Choice]
    limits: Sequence[float]
    keep: KeepTime = KeepTime()
    slots: list[int] = field(init=False)  # that each want would fill, of those that fit anywhere
    fits: list[dict[int, int]] = field(init=False)  # of each want: how many slots an empty machine has for it

    def __post_init__(self) -> None:
        self.rooms = [_known(choice.room) for choice in self.choices]
        scale = max((choice.price for choice in self.choices), default=0.0) or 1.0
        later = _LATER / max(1, len(self.choices))
        self.trifles = [scale * (_TRIFLE + later * position) for position in range(len(self.choices))]
        self.prices = [choice.price for choice in self.choices]
        self.left = list(self.limits)
        self.uses: list[tuple[tuple[int, float], ...]] = []
        for choice in self.choices:
            uses = [(limit, each) for limit, each in choice.uses if each > 0]
            if choice.most < math.inf:
                uses.append((len(self.left), 1.0))
                self.left.append(choice.most)
            self.uses.append(tuple(uses))
        self._fit()
        most = max((min(max(fits.values()), slots) for fits, slots in zip(self.fits, self.slots) if slots), default=0)
        self.factors = [self.keep.factor(jobs, 1) for jobs in range(most + 1)]  # of machines with one group

    def _fit(self) -> None:
        kinds: dict[Vector, list[int]] = {}
        for position, room in enumerate(self.rooms):
            kinds.setdefault(room, []).append(position)
        self.fits = []
        for want in self.wants:
            cpus = want.asked[0] * (1 - 1e-6)
            each: dict[int, int] = {}
            for room, positions in kinds.items():
                if room[0] is not None and room[0] < cpus:
                    continue
                held = jobs_held(room, want.asked)
                if held:
                    each.update((at, held) for at in positions)
            allowed = set(each if want.offers is None else want.offers)
            self.fits.append({at: each[at] for at in sorted(each) if at in allowed})
        self.slots = [
            0 if not fits else want.nodes * min(want.jobs, 1 if want.one_only else want.jobs)
            for want, fits in zip(self.wants, self.fits)
        ]

    @cached_property
    def distinct(self) -> list[int]:
        """The choices but for those that differ from another one only in being dearer, or later: another network
        of the same pool, for instance."""
        users: list[list[int]] = [[] for _ in self.choices]
        for want, fits in enumerate(self.fits):
            for choice in fits:
                users[choice].append(want)
        first: dict[object, int] = {}
        for choice in sorted(range(len(self.choices)), key=lambda one: (self.prices[one], one)):
            first.setdefault((self.rooms[choice], self.uses[choice], tuple(users[choice])), choice)
        return sorted(first.values())

    def lives(self, want: int, slots: int) -> int:
        """How many lengths end independently on a machine with so many slots of a want."""
        return -(-slots // self.wants[want].nodes)

    def cost(self, choice: int, content: Content, refilled: bool) -> float:
        """The expected cost of a machine. ``refilled``: jobs wait for every bit of it that gets free."""
        if refilled:
            return self.choices[choice].price + self.trifles[choice]
        lives = sum(self.lives(want, slots) for want, slots in content.items())
        return self.choices[choice].price * self.keep.factor(lives, len(content)) + self.trifles[choice]

    def room_after(self, choice: int, content: Iterable[tuple[int, int]]) -> Optional[Vector]:
        """What is left of an empty machine with that on it; None if it does not hold it."""
        room = self.rooms[choice]
        for want, slots in content:
            asked = self.wants[want].asked
            if choice not in self.fits[want] or jobs_held(room, asked) < slots:
                return None
            room = without(room, asked, slots)
        return room

    def allowed(self, choice: int, wanted: int, left: Sequence[float]) -> int:
        """How many of the wanted machines what is left of the limits allows."""
        for limit, each in self.uses[choice]:
            if left[limit] + _EPSILON < wanted * each:
                wanted = max(0, int(left[limit] / each + _EPSILON))
        return wanted

    def take(self, choice: int, count: int, left: list[float]) -> None:
        """Count machines in; a negative count gives them back."""
        for limit, each in self.uses[choice]:
            left[limit] -= count * each

    def by_size(self, choice: Optional[int] = None, dominant: bool = True) -> list[int]:
        """The wants by the dominant share of a machine that a slot takes, decreasing: of a choice, or of all
        together the largest of each dimension. Equal ones by the sum of their shares, or the sum first."""
        rooms = self.rooms if choice is None else [self.rooms[choice]]
        largest = [max((room[at] or 0.0 for room in rooms), default=0.0) for at in range(SLOTS)]

        def size(want: int) -> tuple[float, float]:
            shares = [asked / there for asked, there in zip(self.wants[want].asked, largest) if there]
            most, whole = -max(shares, default=0.0), -sum(shares)
            return (most, whole) if dominant else (whole, most)

        return sorted(range(len(self.wants)), key=size)


def _known(room: Vector) -> Vector:
    """A machine of which nothing is known holds one job."""
    cpus, memory, disk, gpus, slots = room
    return (cpus, memory, disk, gpus, 1.0 if cpus is None and slots is None else slots)
