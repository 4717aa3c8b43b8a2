"""Plain tables: CSV, TSV or ``;`` between the columns, with a header of obvious names in any order.

Needed is how long a job ran (``run_s``, ``runtime``, ``duration``, or ``start`` and ``end``). Without a column for
the submission a job comes when it started, and without any time all come at once; without one for cpus each has one.
A cell that is empty says nothing. Lines that begin with ``#`` are no rows. A column of which nothing is read, as
``avg_cpu_pct`` (what a job used is not what it asks for), is named in ``Lines.unused``. `elastiq.traces.write` writes
such tables.
"""

from __future__ import annotations

import csv
import math
import re
from typing import Callable, Iterator, NamedTuple, Optional, Sequence

from elastiq.traces.job import BadLine
from elastiq.traces.rows import Format, LeftOut, Reading, Row
from elastiq.traces.units import Times, duration_s, number, size_mb

# Without case, underscores, and their unit; of several in a header the first of the list is taken.
NAMES = {
    "submit": ("submit", "submitted", "submission", "submittime", "submissiontime", "submittedat", "at", "arrival",
               "arrivaltime", "queued", "queuetime", "created", "qdate", "timestamp"),
    "run": ("run", "runtime", "duration", "elapsed", "walltime", "wallclock", "wallclocktime", "length"),
    "start": ("start", "started", "starttime", "startedat", "begin"),
    "end": ("end", "ended", "endtime", "endedat", "finished", "finishtime", "completed"),
    "cpus": ("cpus", "cores", "ncpus", "ncores", "processors", "slots", "requestcpus", "reqcpus", "vcpus", "cpu"),
    "memory": ("memory", "mem", "ram", "requestmemory", "reqmem"),
    "disk": ("disk", "requestdisk", "scratch"),
    "gpus": ("gpus", "ngpus", "requestgpus", "gpu"),
    "name": ("id", "jobid", "taskid", "task", "job", "name", "jobname"),
    "after": ("after", "parents", "parenttasks", "parentjobs", "dependson", "dependencies", "parent"),
    "think": ("think", "thinktime"),
    "removed": ("removedafter", "cancelledafter"),
    "count": ("count", "copies"),
}  # fmt: skip
FIELDS = {name: field for field, names in NAMES.items() for name in names}
_SECONDS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 0.001, "min": 60.0, "minutes": 60.0,
            "h": 3600.0, "hours": 3600.0}  # fmt: skip
_MB = {"b": 2.0**-20, "bytes": 2.0**-20, "kb": 2.0**-10, "kib": 2.0**-10, "mb": 1.0, "mib": 1.0, "gb": 1024.0,
       "gib": 1024.0, "tb": 1024.0**2}  # fmt: skip
UNITS = dict.fromkeys(("submit", "run", "start", "end", "think", "removed"), _SECONDS)
UNITS.update({"memory": _MB, "disk": _MB})
LONGEST_NAME = 40  # of a column that a person is shown
_LIST = re.compile(r"[\s;]+")


class Column(NamedTuple):
    """What a column means, and what a plain number in it is to be multiplied with."""

    field: str
    unit: float = 1.0


def read(reading: Reading) -> Iterator[Row]:
    """The header is the first line that is one."""
    table: Optional[_Table] = None

    def parse(line: str) -> Sequence[Row]:
        nonlocal table
        text = line.rstrip("\r\n")
        if not text.strip() or text.startswith("#"):
            return ()
        if table is None:
            table = _Table.of(text)
            if table is None:
                raise BadLine("no header: no column says how long a job ran (run_s)")
            reading.tally.unused = table.unused
            return ()
        return table.rows(text)

    for row in reading.rows(parse):
        if table is not None and table.note:
            reading.tally.note(table.note)
        yield row


def columns(names: Sequence[str]) -> list[Optional[Column]]:
    """What each column of a header means, if anything."""
    meant = [_meant(name) for name in names]
    best = {field: min(rank for one, rank, _ in filter(None, meant) if one == field) for field in NAMES
            if any(each and each[0] == field for each in meant)}  # fmt: skip
    found: list[Optional[Column]] = []
    for each in meant:
        taken = each is not None and best.get(each[0]) == each[1]
        found.append(Column(each[0], each[2]) if each is not None and taken else None)
        if each is not None and taken:
            del best[each[0]]
    return found


def _meant(name: str) -> Optional[tuple[str, int, float]]:
    """The field, the place of its name among those that mean it, and the unit."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    stem, _, unit = plain.rpartition("_")
    for text, factor in ((plain, 1.0), (stem, UNITS.get(FIELDS.get(stem.replace("_", ""), ""), {}).get(unit))):
        field = FIELDS.get(text.replace("_", ""))
        if field is not None and factor is not None:
            return field, NAMES[field].index(text.replace("_", "")), factor
    return None


def _is_header(found: Sequence[Optional[Column]]) -> bool:
    fields = {column.field for column in found if column}
    return "run" in fields or {"start", "end"} <= fields


class _Table:
    """Rows under a header."""

    def __init__(self, separator: str, found: Sequence[Optional[Column]], names: Sequence[str]) -> None:
        self._separator = separator
        self._width = len(names)
        self.unused = tuple(
            _shown(name.strip()) for name, column in zip(names, found) if column is None and name.strip()
        )
        self._columns = {column.field: (at, column.unit) for at, column in enumerate(found) if column}
        self._times = Times()

    @classmethod
    def of(cls, line: str) -> Optional[_Table]:
        """The separator is the one that makes a header of the line."""
        for separator in (",", "\t", ";", "|"):
            names = _cells(line, separator)
            found = columns(names)
            if len(names) > 1 and _is_header(found):
                return cls(separator, found, names)
        found = columns([line])
        return cls(",", found, [line]) if _is_header(found) else None

    def rows(self, line: str) -> Sequence[Row]:
        cells = _cells(line, self._separator)
        if len(cells) != self._width:
            raise BadLine(f"{len(cells)} columns, the header has {self._width}")
        name, after = self._text(cells, "name"), self._text(cells, "after")
        run_s = self._run_s(cells)
        submit_s = self._submit_s(cells, run_s)
        cpus = self._number(cells, "cpus", number) if "cpus" in self._columns else 1.0
        count = self._number(cells, "count", number)
        if count is not None and count != int(count):
            raise BadLine("a count that is no whole number")
        return (
            Row(
                submit_s,
                run_s,
                cpus,
                self._number(cells, "memory", size_mb),
                self._number(cells, "disk", size_mb),
                self._number(cells, "gpus", number),
                1 if count is None else int(count),
                name,
                self._number(cells, "removed", duration_s),
                tuple(parent for parent in _LIST.split(after) if parent) if after else (),
                self._number(cells, "think", duration_s) or 0.0,
            ),
        )

    def _submit_s(self, cells: Sequence[str], run_s: float) -> float:
        """Else when it started: it may have waited before, nobody knows how long. Without any time, 0."""
        for field, before_s in (("submit", 0.0), ("start", 0.0), ("end", run_s)):
            if field in self._columns:
                found = self._number(cells, field, self._times.read)
                if found is None:
                    raise BadLine("no time of submission" if field == "submit" else f"no time of {field}")
                return found - before_s
        return 0.0

    @property
    def note(self) -> str:
        """What is to be noted of each of its jobs."""
        if "submit" in self._columns:
            return ""
        if self._columns.keys() & {"start", "end"}:
            return "comes when it started: no column says when it was submitted"
        return "comes at once with all others: no column says when it was submitted"

    def _run_s(self, cells: Sequence[str]) -> float:
        run_s = self._number(cells, "run", duration_s)
        if run_s is not None:
            return run_s
        start_s, end_s = (self._number(cells, field, self._times.read) for field in ("start", "end"))
        if start_s is None or end_s is None:
            raise LeftOut("without a run time")
        return end_s - start_s

    def _text(self, cells: Sequence[str], field: str) -> str:
        column = self._columns.get(field)
        return "" if column is None else cells[column[0]].strip()

    def _number(self, cells: Sequence[str], field: str, meant: Callable[[str], float]) -> Optional[float]:
        """A plain number has the column's unit, anything else its own."""
        column = self._columns.get(field)
        if column is None:
            return None
        text, unit = cells[column[0]], column[1]
        try:
            found = float(text) * unit
        except ValueError:
            return meant(text) if text.strip() else None
        if not math.isfinite(found):
            raise BadLine("no number", text)
        return found


def _shown(name: str) -> str:
    return name if name.isprintable() and len(name) <= LONGEST_NAME else repr(name[:LONGEST_NAME])


def _cells(line: str, separator: str) -> list[str]:
    """A cell with a line break would swallow what comes after one that lost its quote: a line is a row."""
    if '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True))
    except (csv.Error, StopIteration) as exc:
        raise BadLine("a quoted cell that does not end, or goes on after its end") from exc


def _looks_like(head: Sequence[str]) -> bool:
    for line in head:
        if line.strip() and not line.startswith("#"):
            try:
                return _Table.of(line) is not None
            except ValueError:
                return False
    return False


FORMAT = Format("csv", "table of jobs", _looks_like, read)
