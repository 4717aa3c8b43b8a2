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
from elastiq.whatif.table import seconds
from elastiq.whatif.terms import Result

WORTH = 0.01  # an improvement of less than this part is none: another seed might take it back
CANDIDATES = 3  # for each goal, that are played on the whole trace before it is said that nothing is better
SPARED = 0.003  # a change that brings less than this part of what it improves is left out
MUCH_LONGER = 0.1  # of the mean wait, which is then said
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
            return f"{self.wait_as} wait at most {seconds(self.bound)}, least {cost}"
        return f"{cost} at most {self.bound:.2f}, least {self.wait_as} wait"


@dataclass(frozen=True)
class Proposal:
    """``changes`` is empty where nothing better was found. ``result`` and ``present`` are of the whole trace."""

    goal: Goal
    changes: Changes
    result: Result
    present: Result

    @property
    def longer(self) -> float:
        """By which part the mean wait becomes longer, if that is much; else 0."""
        before, after = self.present.mean_wait_s or 0.0, self.result.mean_wait_s or 0.0
        part = (after - before) / max(before, 1.0)  # below a second nobody waits
        return part if part > MUCH_LONGER else 0.0


# The same on the whole trace, of each set a result for each seed.
Verified = Callable[[Sequence[Changes]], list[list[Optional[Result]]]]


@dataclass
class Search:
    """``axes`` are the values of each key that may be tried. ``play`` plays what is searched on, perhaps a part of the
    trace, ``runs`` times at most; ``verify`` plays the whole, of which ``present`` is the result with the present
    settings and the first seed."""

    axes: Sequence[Sequence[Change]]
    play: Played
    verify: Verified
    present: Result
    runs: int = 60
    found: dict[Changes, Optional[Result]] = field(default_factory=dict)
    spent: int = 0
    _limit: int = 1

    def proposals(self, goals: Sequence[Goal]) -> list[Proposal]:
        """One for each goal, whose bounds are of the whole trace."""
        least = self._played([()])[0]
        assert least is not None  # the present settings can be played
        for number, goal in enumerate(goals, 1):
            self._limit = self.runs * number // len(goals)  # what one goal does not use is the next one's
            self._candidates(goal, least)
        left = {goal: self._candidates(goal, least) for goal in goals}  # also among what the others have found
        made: dict[Goal, Proposal] = {}
        while any(candidates for goal, candidates in left.items() if goal not in made):
            tried = {goal: candidates.pop(0) for goal, candidates in left.items() if goal not in made and candidates}
            presents, *verified = self.verify([(), *tried.values()])
            for (goal, changes), results in zip(tried.items(), verified):
                if _all_hold(goal, results, presents):
                    assert results[0] is not None
                    made[goal] = Proposal(goal, changes, results[0], self.present)
        return [made.get(goal) or Proposal(goal, (), self.present, self.present) for goal in goals]

    def _candidates(self, goal: Goal, least: Result) -> list[Changes]:
        """What is worth being played on the whole trace, best first."""
        # On a part of the trace the bound is what the present settings reach there, as far above as on the whole.
        of_whole = goal.bounded(self.present)
        bound = goal.bounded(least) * goal.bound / of_whole if of_whole and least != self.present else goal.bound
        here = Goal(goal.cheaper, bound, goal.wait_as, goal.by_cost)
        better = [one for one in self._descend(here, least) if one and self._is_better(here, one, least)]
        return better[:CANDIDATES]

    def _is_better(self, goal: Goal, changes: Changes, least: Result) -> bool:
        result = self.found[changes]
        return result is not None and goal.improves(result, least)

    def _played(self, asked: Sequence[Changes]) -> list[Optional[Result]]:
        """What is new of it is played, as far as the runs last."""
        keys = [_key(changes) for changes in asked]
        new = list(dict.fromkeys(key for key in keys if key not in self.found))[: max(0, self._limit - self.spent)]
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
            if best == before or self.spent >= self._limit:
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


def _all_hold(goal: Goal, results: Sequence[Optional[Result]], presents: Sequence[Optional[Result]]) -> bool:
    """Whether it is better than the present settings with every seed. With another one, what these reach is another
    bound, too, if they keep the bound at all."""
    first = presents[0]
    for number, (result, present) in enumerate(zip(results, presents)):
        if result is None or present is None or first is None:
            return False
        bound = goal.bound
        if number and goal.bounded(first) <= goal.bound:
            bound = max(bound, goal.bounded(present))
        its = Goal(goal.cheaper, bound, goal.wait_as, goal.by_cost)
        if not its.improves(result, present, 0.0 if number else WORTH):
            return False
    return True


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
