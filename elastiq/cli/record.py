"""elastiqctl record: the queue as the daemon saw it, as a trace that can be replayed. Needs no running daemon.

The recorded files are only read.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from argparse import Namespace
from typing import Any

from elastiq.cli.asking import FAILED, UNKNOWN, tell
from elastiq.paths import Paths
from elastiq.recording import FOLDER
from elastiq.traces.job import TraceError
from elastiq.traces.write import write
from elastiq.whatif.recorded import Looks, Recorded

HOUR_S = 3600.0
USAGE = 2


def record(paths: Paths, args: Namespace) -> int:
    looks, since, until = Looks(paths.statedir / FOLDER), args.since or 0.0, args.until or time.time()
    if not since < until:
        tell("--since is not before --until, or lies in the future")
        return USAGE
    try:
        found = Recorded(looks, since, until)
    except TraceError as error:
        tell(f"{error}: the queue is recorded while elastiq runs, unless record_days = 0")
        return FAILED
    except PermissionError as error:
        tell(f"{error.filename}: no permission to read it: be root, or the user as whom elastiq runs")
        return UNKNOWN
    output = None if args.output == "-" else args.output
    if output:
        _save(output, found)
    elif not args.json:
        write(found, sys.stdout, found.began_at)
    if args.json:
        print(json.dumps(summary(looks, found), indent=2))
    else:
        tell(told(looks, found))
    return 0


def _save(path: str, found: Recorded) -> None:
    """Whole, or not at all."""
    beside = f"{path}.part"
    try:
        with open(beside, "w", encoding="utf-8", newline="") as file:
            write(found, file, found.began_at)
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.remove(beside)
        raise


def summary(looks: Looks, found: Recorded) -> dict[str, Any]:
    """For programs."""
    seen = found.seen
    return {
        "schema": 1,
        "since": seen.began,
        "until": seen.ended,
        "jobs": seen.jobs,
        "core_hours": round(seen.core_s / HOUR_S, 3),
        "cut": seen.cut,
        "removed": seen.removed,
        "left_waiting": seen.left_waiting,
        "not_told": seen.not_told,
        "gaps": [{"since": begin, "until": end} for begin, end in seen.gaps],
        "damaged_lines": looks.damaged,
        "newer_files": looks.newer,
    }


def told(looks: Looks, found: Recorded) -> str:
    """One line: how many jobs of which time, and what is not exact about them."""
    seen = found.seen
    since, until = (time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) for at in (seen.began, seen.ended))
    line = f"{_many(seen.jobs, 'job')}, {seen.core_s / HOUR_S:.1f} core hours, {since} to {until}"
    unseen_s = sum(end - begin for begin, end in seen.gaps)
    doubts = [
        f"{_many(len(seen.gaps), 'gap')}, {unseen_s / HOUR_S:.1f} h not seen" if seen.gaps else "",
        f"{seen.cut} cut off there or at an end" if seen.cut else "",
        f"{seen.removed} left while they waited" if seen.removed else "",
        f"{seen.left_waiting} that had not started are left out" if seen.left_waiting else "",
        f"{seen.not_told} are left out, for the batch system does not say when they run" if seen.not_told else "",
        _many(looks.damaged, "damaged line") if looks.damaged else "",
        f"left out, of a newer elastiq: {', '.join(looks.newer)}" if looks.newer else "",
        "made of counts: jobs shorter than the time between two looks are not seen; exact is the batch system's own"
        " history (docs/traces.md)",
    ]
    return "; ".join([line, *filter(None, doubts)])


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
