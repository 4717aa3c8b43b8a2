"""elastiqctl simulate --suggest: search for better settings, and say what to write into elastiq.conf."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any, Iterator, Optional, Sequence

from elastiq.cli import simulated
from elastiq.cli.of_simulating import RUNS
from elastiq.cli.playing import Work, processes
from elastiq.cli.table import Screen
from elastiq.whatif.axes import axes
from elastiq.whatif.overrides import OverrideError
from elastiq.whatif.placing import DOCS, OLDEST_FIRST, OldestFirst, oldest_first
from elastiq.whatif.runs import Outcome, Run
from elastiq.whatif.slices import typical
from elastiq.whatif.source import Source
from elastiq.whatif.suggest import Changes, Goal, Played, Proposal, Search, goals, lines
from elastiq.whatif.table import money, seconds
from elastiq.whatif.terms import Result

LONGEST_S = 60.0  # a search of the whole trace that would take longer is one of a part of it
ANOTHER_SEED = 1_000_003


def suggest(work: Work) -> int:
    """The command with --suggest."""
    args = work.args
    began = time.monotonic()
    present = work.play([work.run()], lambda done: "the present settings  ")[0]
    took_s = time.monotonic() - began
    runs = RUNS if args.runs is None else args.runs
    supposed = work.run().supposed
    part = typical(present.seen, LONGEST_S * processes(args) / max(1e-6, took_s * runs))
    source = work.source if part is None else work.source.part(part)
    seeds = (args.seed, args.seed + ANOTHER_SEED)
    known: Known = {((), args.seed): present.result}
    search = Search(
        axes(work.config.keys, supposed, present.result, args.quota_up_to, present.seen.mean_run_s),
        _played(work, source, runs, known if part is None else {}),
        lambda asked: _verified(work, asked, seeds, known),
        present.result,
        runs,
    )
    found = search.proposals(goals(present.result, args.max_wait, args.max_cost, args.wait_as or "p95"))
    placed = _placed(work, present.result)
    work.tell_speed()
    if args.json:
        print(json.dumps({**_object(work, present, found, search), "htcondor": _of_placed(placed)}, indent=2))
    else:
        searched = "" if part is None else f" of a typical part of {part.days or 0:.1f} days"
        print("\n".join(_text(work, present, found, placed, f"{search.spent} simulations{searched}")))
    return 0


def _placed(work: Work, present: Result) -> Optional[OldestFirst]:
    """The present settings with the oldest machine first, once, if HTCondor can place jobs so and does not by now."""
    if work.settings.settings.batch_plugin != "htcondor" or work.way.placement == "oldest":
        return None
    run = work.run([work.config.keys.change("placement=oldest")])
    return oldest_first(present, work.play([run], lambda done: "the oldest machine first  ")[0].result)


Known = dict[tuple[Changes, int], Result]


def _played(work: Work, source: Source, most: int, known: Known) -> Played:
    """Plays sets of changes in a search of at most so many runs."""
    spent = 0

    def play(asked: Sequence[Changes]) -> list[Optional[Result]]:
        nonlocal spent
        seed = work.args.seed
        words = f"search: {spent} of at most {most} done  "
        _play(work, source, [(changes, seed) for changes in asked], known, words)
        spent += len(asked)
        return [known.get((changes, seed)) for changes in asked]

    return play


def _verified(work: Work, asked: Sequence[Changes], seeds: Sequence[int], known: Known) -> list[list[Optional[Result]]]:
    """On the whole trace, with every seed."""
    _play(work, work.source, [(changes, seed) for changes in asked for seed in seeds], known, "checking  ")
    return [[known.get((changes, seed)) for seed in seeds] for changes in asked]


def _play(work: Work, source: Source, asked: Sequence[tuple[Changes, int]], known: Known, words: str) -> None:
    """What is not known yet; there is no result of what does not go together."""
    runs: dict[tuple[Changes, int], Run] = {}
    for changes, seed in asked:
        if (changes, seed) not in known and (changes, seed) not in runs:
            with suppress(OverrideError):
                runs[changes, seed] = work.run(changes, {}, source=source, seed=seed)
    for key, outcome in zip(runs, work.play(list(runs.values()), lambda done: words)):
        known[key] = outcome.result


# ----------------------------------------------------------------------------- what is printed


def _text(
    work: Work, present: Outcome, found: Sequence[Proposal], placed: Optional[OldestFirst], searched: str
) -> Iterator[str]:
    screen = Screen()
    yield simulated.head(screen, work, present)
    yield screen.line(f"present settings: {_figures(present.result)}")
    for proposal in found:
        yield ""
        yield screen.line(proposal.goal.words, "head")
        yield from _proposal(screen, work, proposal)
    if placed is not None:
        yield ""
        yield screen.line("the present settings, and in HTCondor the oldest machine first", "head")
        yield screen.paint(OLDEST_FIRST, "good")
        yield screen.line(_of_oldest_first(placed))
    yield ""
    yield screen.line(f"- found by {searched}; played on the whole trace, and with another seed, before it is said")
    yield from simulated.notes(screen, work, present)


def _proposal(screen: Screen, work: Work, proposal: Proposal) -> Iterator[str]:
    if not proposal.changes:
        keeps = proposal.goal.allows(proposal.present, proposal.present)
        yield screen.line("nothing better was found" + ("" if keeps else ", and the present settings do not keep this"))
        return
    yield from (screen.paint(line, "dim" if line.startswith("#") else "good") for line in _lines(work, proposal))
    yield screen.line(_expected(proposal.present, proposal.result, proposal.goal))
    yield from (screen.line(f"! {line}", "warn") for line in _warnings(proposal))


def _lines(work: Work, proposal: Proposal) -> list[str]:
    keys, set_to = work.config.keys, {(one.section, one.key): one.value for one in work.set}
    places = [(change.section, change.key) for change in proposal.changes]
    return lines(proposal.changes, {place: set_to.get(place) or keys.now(*place) for place in places})


def _warnings(proposal: Proposal) -> list[str]:
    if not proposal.longer:
        return []
    before, after = proposal.present.mean_wait_s, proposal.result.mean_wait_s
    bound = ", or set a bound for it with --wait-as mean" if proposal.goal.wait_as != "mean" else ""
    words = f"{seconds(before, after)} -> {seconds(after)}"
    return [f"the mean wait becomes {100 * proposal.longer:.0f} % longer ({words}): see that this is acceptable{bound}"]


def _of_oldest_first(placed: OldestFirst) -> str:
    goal = Goal(False, 0.0)
    return f"{_expected(placed.present, placed.result, goal)}; to be set on the central manager, see {DOCS}"


def _of_placed(placed: Optional[OldestFirst]) -> Optional[dict[str, Any]]:
    """For programs."""
    if placed is None:
        return None
    note = _of_oldest_first(placed)
    return {"lines": [OLDEST_FIRST], "notes": [note], "result": {**simulated.figures(placed.result), "settings": {}}}


def _expected(before: Result, after: Result, goal: Goal) -> str:
    def wait(name: str) -> str:
        its = [getattr(result, f"{name}_wait_s") for result in (before, after)]
        of_bound = goal.bound if goal.cheaper else None
        like = of_bound if of_bound is not None else max((value for value in its if value is not None), default=None)
        return _change(f"{name} wait", its[0], its[1], lambda value: seconds(value, like))

    parts = [
        _change("cost", before.cost, after.cost, money),
        _change("machine-hours", before.machine_hours, after.machine_hours, lambda value: f"{value:,.1f}"),
        *(wait(name) for name in dict.fromkeys(("mean", "p95", goal.wait_as))),
    ]
    return "expected: " + "; ".join(filter(None, parts))


def _change(name: str, before: Optional[float], after: Optional[float], words: Any) -> str:
    """`cost 12.40 -> 9.30 (-25 %)`; nothing where it is not known."""
    if before is None or after is None:
        return ""
    part = f" ({round(100 * (after - before) / before):+d} %)" if before else ""
    return f"{name} {words(before)} -> {words(after)}{part}"


def _figures(result: Result) -> str:
    cost = "" if result.cost is None else f"cost {money(result.cost)}, "
    waits = f"mean wait {seconds(result.mean_wait_s)}, p95 {seconds(result.p95_wait_s)}"
    return f"{cost}{result.machine_hours:,.1f} machine-hours, {waits}"


def _object(work: Work, present: Outcome, found: Sequence[Proposal], search: Search) -> dict[str, Any]:
    """For programs; docs/simulate.md has the keys."""
    return {
        "present": simulated.as_object(work, present, True),
        "runs": search.spent,
        "suggestions": [
            {
                "goal": "least cost" if one.goal.cheaper else "least wait",
                "wait_as": one.goal.wait_as,
                "cost_as": "cost" if one.goal.by_cost else "machine_hours",
                "max_wait_s" if one.goal.cheaper else "max_cost": one.goal.bound,
                "found": bool(one.changes),
                "settings": {f"[{change.section}]{change.key}": change.value for change in one.changes},
                "lines": _lines(work, one) if one.changes else [],
                "notes": _warnings(one) if one.changes else [],
                "result": {**simulated.figures(one.result), "settings": {}} if one.changes else None,
            }
            for one in found
        ],
    }
