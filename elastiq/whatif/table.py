"""Results as rows: for a person, and as CSV."""

from __future__ import annotations

import csv
from typing import Any, Callable, Mapping, Optional, Sequence, TextIO

from elastiq.interfaces import Resources
from elastiq.traces.job import BadKind
from elastiq.whatif.source import Seen
from elastiq.whatif.terms import Result
from elastiq.wording import counted

COLUMNS = 20  # of which nothing is read: so many are named
PRESENT = "now"  # marks the settings of the file


def seconds(value: Optional[float], like: Optional[float] = None) -> str:
    """A wait, with three figures or so: 45 s, 131 s, 14.2 min, 3.4 h. In the unit of ``like``, if there is one."""
    if value is None:
        return "-"
    for unit, size, enough in (("s", 1.0, 600.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172_800.0)):
        if (value if like is None else like) < enough:
            return f"{value / size:.0f} {unit}" if size == 1.0 and value >= 10 else f"{value / size:.1f} {unit}"
    return f"{value / 86_400:.1f} d"


def _hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def money(value: Optional[float]) -> str:
    """In the currency of the prices; "-" where some are not known."""
    return "-" if value is None else f"{value:,.2f}"


# Of each figure: its name for one run, the head of its column for several, and how it is written.
FIGURES: Sequence[tuple[str, str, Callable[[Result], str]]] = (
    ("jobs done", "DONE", lambda r: f"{r.jobs_done:,}"),
    ("mean wait", "MEAN", lambda r: seconds(r.mean_wait_s)),
    ("median wait", "MEDIAN", lambda r: seconds(r.median_wait_s)),
    ("95th percentile", "P95", lambda r: seconds(r.p95_wait_s)),
    ("mean slowdown", "SLOWDOWN", lambda r: "-" if r.mean_slowdown is None else f"{r.mean_slowdown:.2f}"),
    ("machine-hours", "HOURS", lambda r: _hours(r.machine_hours)),
    ("idle", "IDLE", lambda r: _share(r.idle_machine_hours, r.machine_hours)),
    ("booting", "BOOT", lambda r: _share(r.boot_machine_hours, r.machine_hours)),
    ("peak", "PEAK", lambda r: f"{r.peak_vms:,}"),
    ("launches", "LAUNCHES", lambda r: f"{r.launches:,}"),
    ("cost", "COST", lambda r: money(r.cost)),
    ("no flavour fits", "NO FIT", lambda r: f"{r.unmatchable_jobs:,}" if r.unmatchable_jobs else "0"),
)
SPARE = "SLOWDOWN BOOT MEDIAN LAUNCHES DONE PEAK IDLE"  # on a narrow terminal these columns go first, in this order


def of_one(result: Result) -> list[str]:
    """A line for each figure."""
    words = {
        "jobs done": f"of {result.jobs:,}",
        "mean wait": "from its submission until a job starts",
        "95th percentile": "of the wait: 19 of 20 jobs wait no longer",
        "mean slowdown": "(wait + run) / run",
        "idle": "of these, without a job",
        "booting": "of these, not yet a worker",
        "peak": "machines at once",
        "no flavour fits": "job" if result.unmatchable_jobs == 1 else "jobs",
    }
    width = max(len(write(result)) for _, _, write in FIGURES)
    return [f"{name:16} {write(result):>{width}}  {words.get(name, '')}".rstrip() for name, _, write in FIGURES]


def of_several(results: Sequence[Result], present: int) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table, the changed keys first; the row of the present settings is marked."""
    keys = _keys(results)
    head = ["", *keys, *(title for _, title, _ in FIGURES)]
    rows = [
        [PRESENT if at == present else "", *(result.settings.get(key, "") for key in keys)]
        + [write(result) for _, _, write in FIGURES]
        for at, result in enumerate(results)
    ]
    for column in range(len(keys) + 1, len(head)):
        width = max(len(row[column]) for row in [head, *rows])
        for row in [head, *rows]:
            row[column] = row[column].rjust(width)
    return head, rows


def _keys(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(key for result in results for key in result.settings))


def rounded(value: Any) -> Any:
    """To the millionth: what is beyond is how computers add."""
    return round(value, 6) if isinstance(value, float) else value


def write_csv(results: Sequence[Result], out: TextIO) -> None:
    """A row for each run under the names of `--json`; settings have columns of their own. Unknown is empty."""
    keys = _keys(results)
    rows = [result.as_dict() for result in results]
    figures = [name for name in rows[0] if name != "settings"]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*keys, *figures])
    for row in rows:
        settings: Mapping[str, Any] = row.get("settings", {})
        values = [rounded(row[name]) for name in figures]
        writer.writerow([*(settings.get(key, "") for key in keys), *("" if one is None else one for one in values)])


def notes(result: Result, seen: Seen, machines: Sequence[Resources]) -> list[str]:
    """What a person should know of the trace and of the jobs that came to nothing."""
    lines, found = seen.lines, []
    found += [_of_bad(kind) for kind in lines.bad_kinds.values()]
    found += [f"{counted(number, 'job')} left out: {why}" for why, number in lines.left_out.items()]
    found += [f"{counted(number, 'line')} skipped: {what}" for what, number in lines.skipped.items()]
    for why, number in lines.noted.items():
        found.append(f"{counted(number, 'job')}{_where(lines.noted_lines.get(why, ()), number)}: {why}")
    if lines.unused:
        more = f" and {len(lines.unused) - COLUMNS} more" if len(lines.unused) > COLUMNS else ""
        found.append(f"columns of which nothing is read: {', '.join(lines.unused[:COLUMNS])}{more}")
    if lines.cancelled:
        again = f"{result.cancelled_jobs:,} of them again"
        found.append(f"{counted(lines.cancelled, 'job')} had been removed while waiting: {again}")
    if result.unmatchable_jobs:
        found.append(_misfits(result, seen, machines))
    if result.left_jobs:
        had = f"{counted(result.left_jobs, 'job')} had not started when nothing happened any more"
        found.append(f"{had}, though a flavour fits")
    if result.held_jobs:
        found.append(f"{counted(result.held_jobs, 'job')} of these waited for jobs that never ended")
    if result.killed_jobs:
        were = "was" if result.killed_jobs == 1 else "were"
        found.append(f"{counted(result.killed_jobs, 'job')} {were} killed by elastiq: that is a bug, please report it")
    return found


def _misfits(result: Result, seen: Seen, machines: Sequence[Resources]) -> str:
    fit = "fits" if result.unmatchable_jobs == 1 else "fit"
    said = f"{counted(result.unmatchable_jobs, 'job')} {fit} on no flavour and never ran"
    if seen.too_small is not None:
        smallest = counted(seen.too_small.cpus or 1.0, "core")
        none = f"the smallest asks {smallest}, not more than half of any machine: there must be a flavour for each size"
        said += f": {none}" if seen.too_large is None else f": {none};"
    if seen.too_large is None:
        return said
    remedy = "a flavour that has it"
    most = max((machine.cpus or 0.0 for machine in machines), default=0.0)
    if most and (seen.too_large.cpus or 0.0) > most:
        remedy += f", or, if they were jobs of several machines, --split-at {most:g}"
    return f"{said.rstrip(';')}{';' if seen.too_small else ':'} the largest asks {size(seen.too_large)}; try {remedy}"


def size(resources: Resources) -> str:
    """`16 cores and 32000 MB`."""
    units = (("cpus", " cores"), ("memory_mb", " MB of memory"), ("disk_mb", " MB of disk"), ("gpus", " GPUs"))
    parts = [f"{value:g}{unit}" for name, unit in units if (value := getattr(resources, name))]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:]))) or "nothing"


def _of_bad(kind: BadKind) -> str:
    what = "lines are no jobs" if kind.count > 1 else "line is no job"
    return f"{kind.count:,} {what} and left out{_where(kind.numbers, kind.count)}: {kind.example}"


def _where(numbers: Sequence[int], count: int) -> str:
    """The first lines of so many; nothing where they are not known."""
    if not numbers:
        return ""
    listed = ", ".join(map(str, numbers)) + (", ..." if count > len(numbers) else "")
    return f" (line{'s' if count > 1 else ''} {listed})"
