"""What a simulation found: for a person, and as JSON, CSV or a page."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Sequence

from elastiq.cli.asking import tell
from elastiq.cli.playing import Found, Work
from elastiq.cli.table import Screen
from elastiq.whatif import table
from elastiq.whatif.placing import SECTION, words
from elastiq.whatif.report import ReportError, write_report
from elastiq.whatif.runs import Outcome
from elastiq.whatif.source import Seen
from elastiq.whatif.terms import Result

LONG_S = 600.0  # a p95 wait above is no boot's

def show(found: Found) -> int:
    """Print and write what is asked for; returns the exit code. What cannot be written keeps nothing else from being
    written; then it raises `ReportError` or OSError."""
    args = found.work.args
    results = [one.result for one in found.outcomes]
    failed: list[Exception] = []
    written = []
    for file, write in ((args.report, _write_report), (args.csv, _write_csv)):
        if file not in (None, "", "-"):
            try:
                write(found, file)
                written.append(f"written: {file}")
            except (ReportError, OSError) as error:
                failed.append(error)
    if args.csv == "-":
        table.write_csv(results, sys.stdout)
    elif args.json:
        objects = [as_object(found.work, one, at == found.present) for at, one in enumerate(found.outcomes)]
        print(json.dumps(objects if args.sweep else objects[0], indent=2))
    else:
        print("\n".join(_text(found)))
        print(*written, sep="\n", end="\n" if written else "")
    if failed:
        sys.stdout.flush()
        for first in failed[:-1]:
            tell(str(first))
        raise failed[-1]
    return 0


def _write_report(found: Found, file: str) -> None:
    write_report(
        Path(file),
        [one.result for one in found.outcomes],
        found.one.points,
        title=name(found.work),
        began_at=found.one.seen.began_at,
        assumed=assumed(found.work, found.outcomes),
        noticed=noticed(found.work, found.one),
        present=found.present,
    )


def _write_csv(found: Found, file: str) -> None:
    with open(file, "w", encoding="utf-8", newline="") as out:
        table.write_csv([one.result for one in found.outcomes], out)


def as_object(work: Work, outcome: Outcome, present: bool) -> dict[str, Any]:
    """For programs; docs/simulate.md has the keys."""
    lines = outcome.seen.lines
    return {
        **figures(outcome.result),
        "settings": dict(outcome.result.settings),
        "present": present,
        "trace": name(work),
        "format": outcome.seen.format,
        "began_at": outcome.seen.began_at,
        **work.way.changed(outcome.result.settings)._asdict(),
        "bad_line_numbers": list(lines.bad_lines),
        "bad_lines_because": lines.bad_why,
        "bad_lines_by_reason": {
            why: {"lines": kind.count, "first": kind.numbers, "example": kind.example}
            for why, kind in lines.bad_kinds.items()
        },
        "left_out_because": dict(lines.left_out),
        "assumed": assumed(work, [outcome]),
        "notes": noticed(work, outcome),
    }


def figures(result: Result) -> dict[str, Any]:
    """As in CSV."""
    return {key: table.rounded(value) for key, value in result.as_dict().items()}


def name(work: Work) -> str:
    """Of the workload, for a person."""
    if work.args.example:
        from elastiq.whatif.example import WORDS

        return WORDS
    return Path(work.args.trace).name


def assumed(work: Work, outcomes: Sequence[Outcome]) -> list[str]:
    """What was taken for granted, as sentences. Where nothing was launched, no price is missed."""
    supposed = work.run().supposed
    unknown = any(one.result.cost is None for one in outcomes)
    unpriced = [supposed.unpriced or "cost is not known: some flavour has no price"] if unknown else []
    but_for = [str(change) for change in work.set if change.section != SECTION]
    settings = f"settings: {work.where}" + (f"; but {', '.join(but_for)}" if but_for else "")
    notes = [settings, *supposed.notes, *unpriced, *work.settings.notes]
    of_way = words(work.way.placement, work.way.own_size)
    at = notes.index(of_way)
    ways = dict.fromkeys(work.way.changed(one.result.settings) for one in outcomes)
    told = [(f"with {way}, " if len(ways) > 1 else "") + words(way.placement, way.own_size) for way in ways]
    notes[at : at + 1] = told
    return list(dict.fromkeys(notes))


def noticed(work: Work, outcome: Outcome) -> list[str]:
    """What a person should know of the trace."""
    supposed, result = work.run().supposed, outcome.result
    found = table.notes(result, outcome.seen, supposed.machines)
    most = None if work.args.sweep else supposed.settings.max_vms
    if most and result.peak_vms >= most and (result.p95_wait_s or 0.0) > LONG_S:
        more = f"--sweep max_vms={most},{2 * most},{4 * most}"
        found.append(f"max_vms = {most} was reached, and jobs waited for it: {more} shows what more would bring")
    return found


def _text(found: Found) -> Iterator[str]:
    screen = Screen()
    yield head(screen, found.work, found.one)
    yield ""
    if found.work.args.sweep:
        titles, rows = table.of_several([one.result for one in found.outcomes], found.present)
        styles = ["head" if at == found.present else "" for at in range(len(rows))]
        yield from screen.table(titles, rows, styles, spare=table.SPARE, wrapped=False)
    else:
        yield from table.of_one(found.one.result)
    yield ""
    yield from notes(screen, found.work, found.one, found.outcomes)


def head(screen: Screen, work: Work, outcome: Outcome) -> str:
    """What was played."""
    seen = outcome.seen
    kind = "" if work.args.example or not seen.format else f" ({seen.format})"
    return screen.line(f"{name(work)}{kind}: {_span(seen)}, played in simulation", "head")


def notes(screen: Screen, work: Work, outcome: Outcome, outcomes: Sequence[Outcome] = ()) -> list[str]:
    """What to know, then what was assumed."""
    lines = [screen.line(f"! {line}", "warn") for line in noticed(work, outcome)]
    return lines + [screen.line(f"- {line}") for line in assumed(work, outcomes or [outcome])]


def _span(seen: Seen) -> str:
    """`5,000 jobs of 7 days from 2026-11-02 on`."""
    jobs = f"{seen.lines.jobs:,} job{'' if seen.lines.jobs == 1 else 's'}"
    days = f"{jobs} of {_length(seen.last_s)}" if seen.last_s else jobs
    if seen.began_at is None:
        return days
    return f"{days} from {time.strftime('%Y-%m-%d', time.localtime(seen.began_at))} on"


def _length(length_s: float) -> str:
    for unit, size in (("days", 86_400.0), ("hours", 3600.0)):
        if length_s >= 2 * size:
            return f"{length_s / size:,.1f} {unit}"
    return f"{length_s / 60.0:.1f} minutes"
