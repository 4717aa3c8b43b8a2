"""What elastiqctl simulate plays: the settings, the trace, and the runs that are asked for."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Callable, Iterable, Optional, Sequence

from elastiq.cli.observed import observed
from elastiq.cli.progress import Progress
from elastiq.paths import Paths
from elastiq.whatif.assuming import Given, suppose
from elastiq.whatif.configuration import SHIPPED, SHIPPED_WORDS, Configuration, Supposed
from elastiq.whatif.overrides import Change, OverrideError
from elastiq.whatif.placing import OPTIONS, SECTION, Way
from elastiq.whatif.runs import Crew, Outcome, Run
from elastiq.whatif.source import Part, Reached, Source

SMALL = 50_000  # bytes


def processes(args: Namespace) -> int:
    """How many runs at a time: a small trace is played sooner than a process starts."""
    if args.processes:
        return int(args.processes)
    small = args.trace and os.path.isfile(args.trace) and os.path.getsize(args.trace) < SMALL
    return 1 if small else os.cpu_count() or 1


class Work:
    """What is asked for, and how it is played."""

    def __init__(self, paths: Paths, args: Namespace, progress: Progress, crew: Crew) -> None:
        self.args, self.progress, self._crew = args, progress, crew
        self._played, self._took_s = 0, 0.0
        self.where, self.config = self._configuration(paths)
        ways = [f"{option.name}={said}" for option in OPTIONS if (said := getattr(args, option.name)) is not None]
        self.set = tuple(self.config.keys.change(text) for text in (*args.set, *ways))
        places = [(change.section, change.key) for change in self.set]
        for at, change in enumerate(self.set):
            if places[at] in places[:at]:
                raise OverrideError(f"--set {change.name}: is set twice, remove one")
        part = Part(args.begin[0] or 0.0, args.end[0], args.begin[1], args.end[1], args.days, args.split_at, True)
        self.source = Source("" if args.example else args.trace, args.format or "", (part,), args.seed)
        self._observed = observed(paths)
        self.grid = self.config.keys.grid(args.sweep) if args.sweep else []
        self.config.expect([*self.set, *(change for changes in self.grid for change in changes)])
        flavours, elsewhere = dict(args.flavour), self.config.flavours
        self._given = Given(flavours, args.price, args.boot_time, args.billed_by, args.seed, elsewhere)
        self.way = Way().changed(_of_way(self.set))

    def _configuration(self, paths: Paths) -> tuple[str, Configuration]:
        """Where it comes from, for a person."""
        if self.args.config or os.path.exists(paths.config):
            return str(paths.config), Configuration(paths.config)
        return f"{SHIPPED_WORDS}, as there is no {paths.config}", Configuration(SHIPPED)

    @cached_property
    def settings(self) -> Supposed:
        """The present ones: those of the file, with what is --set."""
        return self.config.with_changes(self.set)

    def run(
        self,
        changes: Sequence[Change] = (),
        named: Optional[dict[str, str]] = None,
        over_time: bool = False,
        source: Optional[Source] = None,
        seed: Optional[int] = None,
    ) -> Run:
        """With these changes beside those of --set. Raises `OverrideError`."""
        keys = {(change.section, change.key) for change in changes}
        kept = tuple(one for one in self.set if (one.section, one.key) not in keys)
        settings = self.config.with_changes((*kept, *changes)).settings if changes else self.settings.settings
        given = self._given if seed is None else replace(self._given, seed=seed)
        way = self.way.changed(_of_way(changes))
        given = replace(given, placement=way.placement, own_size=way.own_size)
        supposed = suppose(settings, given, self._observed)
        named = {change.name: change.printed for change in self.set} if named is None else named
        return Run(supposed, source or self.source, named, over_time)

    def play(self, runs: Sequence[Run], words: Callable[[int], str] = lambda done: "") -> list[Outcome]:
        """All of them; ``words`` says what is being done, by the number of those that are."""
        parts = [0.0] * len(runs)
        began = time.monotonic()
        self.progress.begin()

        def told(number: int, reached: Reached) -> None:
            parts[number] = reached.part
            done = sum(part >= 1.0 for part in parts)
            several = words(done) or (f"run {min(done + 1, len(runs))} of {len(runs)}  " if len(runs) > 1 else "")
            at = (
                f"day {reached.at_s / 86_400:.0f}"
                if reached.began_at is None
                else _date(reached.began_at + reached.at_s)
            )
            self.progress.show(sum(parts) / len(runs), f"{several}{reached.jobs:,} jobs  {at}")

        try:
            found = self._crew.play(runs, told)
        finally:
            self.progress.clear()
        self._played += sum(one.seen.lines.jobs for one in found)
        self._took_s += time.monotonic() - began
        return found

    def tell_speed(self) -> None:
        """For who looks on: how fast it was."""
        if self._took_s > 0.0 and self._played:
            jobs = f"{self._played:,} job{'' if self._played == 1 else 's'}"
            speed = f"{60.0 * self._played / self._took_s:,.0f} a minute"
            self.progress.say(f"played {jobs} in {self._took_s:.1f} s: {speed}")


@dataclass(frozen=True)
class Found:
    """What was played. ``present`` is the number of the run with the present settings."""

    work: Work
    outcomes: Sequence[Outcome]
    present: int

    @property
    def one(self) -> Outcome:
        return self.outcomes[self.present]


def sweep(work: Work) -> Found:
    """The grid, with the present settings as one of its rows, or before it."""
    keys = work.config.keys
    grid = work.grid
    swept = {change.name: (change.section, change.key) for change in grid[0]}
    set_to = {(change.section, change.key): change.printed for change in work.set}
    now = {name: set_to.get(place, keys.now(*place)) for name, place in swept.items()}
    present = next((at for at, changes in enumerate(grid) if all(_is_now(work, one) for one in changes)), None)
    runs = [
        work.run(changes, {change.name: change.printed for change in changes}, at == present)
        for at, changes in enumerate(grid)
    ]
    if present is None:
        runs, present = [work.run((), now, True), *runs], 0
    return Found(work, work.play(runs), present)


def _of_way(changes: Iterable[Change]) -> dict[str, str]:
    return {change.key: change.value for change in changes if change.section == SECTION}


def _is_now(work: Work, change: Change) -> bool:
    """Whether it is what --set says, else what the file does."""
    said = [one for one in work.set if (one.section, one.key) == (change.section, change.key)]
    return said[-1].value == change.value if said else work.config.keys.same(change)


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
