"""What a simulation found: for a person, and as JSON, CSV or a page."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Iterator

from elastiq.cli.playing import Found, Work
from elastiq.cli.table import Screen
from elastiq.whatif import table
from elastiq.whatif.report import write_report
from elastiq.whatif.runs import Outcome
from elastiq.whatif.source import Seen
from elastiq.whatif.terms import Result


def show(found: Found) -> int:
    """Print and write what is asked for; returns the exit code."""
    args = found.work.args
    results = [one.result for one in found.outcomes]
    if args.report:
        write_report(
            Path(args.report),
            results,
            found.one.points,
            title=name(found.work),
            began_at=found.one.seen.began_at,
            assumed=assumed(found.work),
            noticed=noticed(found.work, found.one),
            present=found.present,
        )
    if args.csv not in (None, "-"):
        with open(args.csv, "w", encoding="utf-8", newline="") as file:
            table.write_csv(results, file)
    if args.csv == "-":
        table.write_csv(results, sys.stdout)
    elif args.json:
        objects = [as_object(found.work, one, at == found.present) for at, one in enumerate(found.outcomes)]
        print(json.dumps(objects if args.sweep else objects[0], indent=2))
    else:
        print("\n".join(_text(found)))
        written = [f"written: {file}" for file in (args.report, args.csv) if file]
        print(*written, sep="\n", end="\n" if written else "")
    return 0


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
        "bad_line_numbers": list(lines.bad_lines),
        "bad_lines_because": lines.bad_why,
        "left_out_because": dict(lines.left_out),
        "assumed": assumed(work),
        "notes": noticed(work, outcome),
    }


def figures(result: Result) -> dict[str, Any]:
    """To the millionth: what is beyond is how computers add."""
    found = result.as_dict().items()
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in found}


def name(work: Work) -> str:
    """Of the workload, for a person."""
    if work.args.example:
        from elastiq.whatif.example import WORDS

        return WORDS
    return Path(work.args.trace).name


def assumed(work: Work) -> list[str]:
    """What was taken for granted, as sentences."""
    notes = [f"settings: {work.where}", *work.run().supposed.notes, *work.settings.notes]
    return list(dict.fromkeys(notes))


def noticed(work: Work, outcome: Outcome) -> list[str]:
    """What a person should know of the trace."""
    return table.notes(outcome.result, outcome.seen, work.run().supposed.machines)


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
    yield from notes(screen, found.work, found.one)


def head(screen: Screen, work: Work, outcome: Outcome) -> str:
    """What was played."""
    seen = outcome.seen
    kind = "" if work.args.example or not seen.format else f" ({seen.format})"
    return screen.line(f"{name(work)}{kind}: {_span(seen)}, played in simulation", "head")


def notes(screen: Screen, work: Work, outcome: Outcome) -> list[str]:
    """What to know, then what was assumed."""
    lines = [screen.line(f"! {line}", "warn") for line in noticed(work, outcome)]
    return lines + [screen.line(f"- {line}") for line in assumed(work)]


def _span(seen: Seen) -> str:
    """`5,000 jobs of 7 days from 2026-11-02 on`."""
    days = f"{seen.lines.jobs:,} jobs of {seen.last_s / 86_400:,.1f} days"
    if seen.began_at is None:
        return days
    return f"{days} from {time.strftime('%Y-%m-%d', time.localtime(seen.began_at))} on"
