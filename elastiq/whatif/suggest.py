"""Search for settings that cost less for the same wait, or wait less for the same cost.

Coordinate descent: of one key after another all values are tried, the best one stays, and the next round begins with
what the last one found, until a round finds nothing or the runs are used up. Then each change is taken back if it is
not worth its while. What is found on a part of the trace is played on all of it before it is proposed, and with
another seed, too: what is not better there is not proposed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterable, Mapping, Optional, Sequence

from elastiq.whatif.overrides import Change
from elastiq.whatif.terms import Result

WORTH = 0.01  # an improvement of less than this part is none: another seed might take it back
SPARED = 0.003  # a change that brings less than this part of what it improves is left out
WAITS = ("p95", "mean", "median")

Changes = tuple[Change, ...]


# How results are found: of each set of changes, in their order. None where these values do not go together.
Played = Callable[[Sequence[Changes]], list[Optional[Result]]]


@dataclass(frozen=True)
class Goal:
    """``bound`` holds for what is not to be improved: seconds of waiting if ``cheaper``, else cost."""

    cheaper: bool
    bound: float
    wait_as: str = "p95"
    by_cost: bool = True  # else by machine-hours, where no prices are known

    def wait(self, result: Result) -> float:
        """Seconds; none is none."""
        found: Optional[float] = getattr(result, f"{self.wait_as}_wait_s")
        return found or 0.0

    def cost(self, result: Result) -> float:
        return (result.cost or 0.0) if self.by_cost else result.machine_hours

    def value(self, result: Result) -> float:
        """What is to be small."""
        return self.cost(result) if self.cheaper else self.wait(result)

    def bounded(self, result: Result) -> float:
        """What is to stay below the bound."""
        return self.wait(result) if self.cheaper else self.cost(result)

    def rank(self, result: Result, least: Result) -> tuple[float, float, float]:
        """The smaller, the better; first by how much is lost that the present settings do."""
        lost = max(0, least.jobs_done - result.jobs_done) + max(0, result.left_jobs - least.left_jobs)
        lost += max(0, result.unmatchable_jobs - least.unmatchable_jobs)
        above = max(0.0, self.bounded(result) - self.bound)
        return (lost + above, self.value(result), self.bounded(result))

    def allows(self, result: Result, least: Result) -> bool:
        """Whether it is within the bound, and does all that the present settings do."""
        return self.rank(result, least)[0] <= 0.0

    def improves(self, result: Result, present: Result, part: float = WORTH) -> bool:
        """Whether it may be proposed: it keeps the bound, and is better by so much; or the present settings do not
        keep the bound."""
        if not self.allows(result, present):
            return False
        return not self.allows(present, present) or self.value(result) < self.value(present) * (1.0 - part)

    @property
    def words(self) -> str:
        """What is searched for, for a person."""
        cost = "cost" if self.by_cost else "machine-hours"
        if self.cheaper:
            return f"{self.wait_as} wait at most {self.bound:.0f} s, least {cost}"
        return f"{cost} at most {self.bound:.2f}, least {self.wait_as} wait"


@dataclass(frozen=True)
class Proposal:
    """``changes`` is empty where nothing better was found. ``result`` and ``present`` are of the whole trace."""

    goal: Goal
    changes: Changes
    result: Result
    present: Result


@dataclass
class Search:
    """``axes`` are the values of each key that may be tried. ``play`` plays what is searched on, perhaps a part of the
    trace; ``verify`` are the ways to play the whole, the first of which gives the figures that are shown."""

    axes: Sequence[Sequence[Change]]
    play: Played
    verify: Sequence[Played]
    runs: int = 60
    found: dict[Changes, Optional[Result]] = field(default_factory=dict)
    spent: int = 0

    def proposals(self, goals: Callable[[Result], Iterable[Goal]]) -> list[Proposal]:
        """One for each goal that is made of the whole trace's present result."""
        wholes = [one for one in (verify([()])[0] for verify in self.verify) if one is not None]
        least = self._played([()])[0]
        assert least is not None and len(wholes) == len(self.verify)
        made = []
        for goal in goals(wholes[0]):
            # On a part of the trace the bound is what the present settings reach there, as far above as on the whole.
            factor = goal.bound / goal.bounded(wholes[0]) if goal.bounded(wholes[0]) else 1.0
            part = Goal(goal.cheaper, goal.bounded(least) * factor, goal.wait_as, goal.by_cost)
            part = goal if least == wholes[0] else part
            made.append(self._verified(goal, self._descend(part, least), wholes))
        return made

    def _played(self, asked: Sequence[Changes]) -> list[Optional[Result]]:
        """What is new of it is played, as far as the runs last."""
        keys = [_key(changes) for changes in asked]
        new = list(dict.fromkeys(key for key in keys if key not in self.found))[: max(0, self.runs - self.spent)]
        if new:
            self.spent += len(new)
            self.found.update(zip(new, self.play(new)))
        return [self.found.get(key) for key in keys]

    def _descend(self, goal: Goal, least: Result) -> list[Changes]:
        """The best sets of changes, best first."""
        best: Changes = self._best(goal, least)[0]  # also of what another goal has found
        while True:
            before = best
            for axis in self.axes:
                self._played([_with(best, change) for change in axis])
                best = self._best(goal, least)[0]
            if best == before or self.spent >= self.runs:
                break
        simple = self._simpler(goal, least, best)
        return [simple, *(one for one in self._best(goal, least) if one != simple)]

    def _simpler(self, goal: Goal, least: Result, best: Changes) -> Changes:
        """Without the changes that bring next to nothing."""
        for change in best:
            fewer = tuple(one for one in best if one != change)
            (result,), now = self._played([fewer]), self.found[_key(best)]
            gain = goal.value(least) - goal.value(now) if now is not None else 0.0
            if result is None or not goal.allows(result, least):
                continue
            if now is None or goal.value(result) <= goal.value(now) + SPARED * max(gain, 0.0):
                best = fewer
        return best

    def _best(self, goal: Goal, least: Result) -> list[Changes]:
        known = [(goal.rank(result, least), key) for key, result in self.found.items() if result is not None]
        return [key for _, key in sorted(known, key=lambda one: (one[0], len(one[1])))]

    def _verified(self, goal: Goal, candidates: Sequence[Changes], presents: Sequence[Result]) -> Proposal:
        """The first of the candidates that is better on the whole trace, whatever way it is played."""
        for changes in [one for one in candidates if one][:4]:
            results: list[Result] = []
            for verify, present in zip(self.verify, presents):
                result = verify([changes])[0]
                if result is None or not _holds(goal, result, present, first=not results, bound_of=presents[0]):
                    break
                results.append(result)
            else:
                return Proposal(goal, changes, results[0], presents[0])
        return Proposal(goal, (), presents[0], presents[0])


def _holds(goal: Goal, result: Result, present: Result, first: bool, bound_of: Result) -> bool:
    """Whether it is better than the present settings played the same way. With another seed, what these reach is
    another bound, too."""
    if first or goal.bounded(bound_of) > goal.bound:
        return goal.improves(result, present)
    bound = max(goal.bound, goal.bounded(present))
    return Goal(goal.cheaper, bound, goal.wait_as, goal.by_cost).improves(result, present, 0.0)


def _with(changes: Changes, change: Change) -> Changes:
    """With this one in the place of another one of the same key."""
    return _key((*(one for one in changes if (one.section, one.key) != (change.section, change.key)), change))


def _key(changes: Iterable[Change]) -> Changes:
    return tuple(sorted(changes, key=lambda one: (one.section, one.key)))


def goals(present: Result, max_wait_s: Optional[float], max_cost: Optional[float], wait_as: str = "p95") -> list[Goal]:
    """What is searched for: within what is asked for, else within what the present settings reach."""
    by_cost = present.cost is not None
    now = Goal(True, 0.0, wait_as, by_cost)
    neither = max_wait_s is None and max_cost is None
    made = []
    if neither or max_wait_s is not None:
        made.append(Goal(True, now.wait(present) if max_wait_s is None else max_wait_s, wait_as, by_cost))
    if neither or max_cost is not None:
        made.append(Goal(False, now.cost(present) if max_cost is None else max_cost, wait_as, by_cost))
    return made


def lines(changes: Changes, present: Mapping[tuple[str, str], Optional[str]]) -> list[str]:
    """To be pasted into elastiq.conf: each key in its section, with what stands there now."""
    found: list[str] = []
    for section in dict.fromkeys(change.section for change in changes):
        found.append(f"[{section}]")
        for change in changes:
            if change.section == section:
                was = present.get((section, change.key))
                found += [f"# was {was}" if was else "# was not set", f"{change.key} = {change.value}"]
    return found
