"""Open a log of jobs, whatever batch system wrote it.

``open_trace("sacct.txt")`` recognises the format by what the file holds, never by its name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Iterator, Optional, Union

from elastiq.interfaces import Resources
from elastiq.traces import condor, gridengine, plain, sacct, swf, torque
from elastiq.traces.job import Lines, TraceError, TraceJob
from elastiq.traces.order import Sorted
from elastiq.traces.parents import resolved
from elastiq.traces.rows import EPOCH, Format, Reading, Row
from elastiq.traces.source import Source

# What says most clearly what it is comes first.
FORMATS = {
    each.name: each
    for each in (condor.FORMAT, torque.FORMAT, gridengine.FORMAT, sacct.FORMAT, swf.FORMAT, plain.FORMAT)
}
SHAPES_KEPT = 4096
# A time that is wrong, as a 0 among times of today, must not let a simulation play 50 years of nothing.
WEEK_S = 7 * 86_400.0
GAP_S, LEFT_S = 366 * 86_400.0, 4 * WEEK_S
GAP = "comes more than a year after the one before (is a time wrong?): of the time between, four weeks are left"


def open_trace(
    path: Union[str, os.PathLike[str]], format: Optional[str] = None, split_at: Optional[float] = None
) -> FileTrace:
    """The trace in a file; ``-`` is standard input. Zipped files (gzip, bz2, xz) are read as they are.

    ``format`` is one of `FORMATS`; None: by the first lines. A job of more than ``split_at`` cpus is cut into parts
    that have so many at most, its memory and disk in proportion; None: it stays whole, and perhaps fits nowhere.
    Raises `TraceError`: no such file, no permission, empty, binary, of no known format.
    """
    if format is not None and format not in FORMATS:
        raise TraceError(f"{format} is no format of traces: {', '.join(sorted(FORMATS))}")
    if split_at is not None and not split_at > 0:
        raise TraceError("jobs can be cut only into parts of more than 0 cpus")
    source = Source(os.fspath(path))
    if format is None:
        format = recognise(source.head())
    known = format is not None and (FORMATS[format].looks_like(source.head()) or not source.is_garbage)
    if source.is_binary and not known:
        raise TraceError(f"{source.name}: is a binary file and no trace")
    if format is None:
        raise TraceError(
            f"{source.name}: is no log of jobs that elastiq knows ({', '.join(sorted(FORMATS))}); if it is one of "
            "these, name it with --format"
        )
    source.complete()
    return FileTrace(source, FORMATS[format], split_at)


def recognise(head: list[str]) -> Optional[str]:
    """The format of a file that begins with these lines, None if none is known."""
    return next((each.name for each in FORMATS.values() if each.looks_like(head)), None)


@dataclass(frozen=True)
class _Seen:
    """What one pass tells the next."""

    identity: tuple[int, ...]
    total: int
    waits: bool


class FileTrace:
    """A `Trace` in a file."""

    def __init__(self, source: Source, format: Format, split_at: Optional[float]) -> None:
        self.format = format.name
        self.lines = Lines()
        self.began_at: Optional[float] = None
        self.header: dict[str, str] = {}  # what the file says of itself, after the first job was given
        self._source, self._format, self._split_at = source, format, split_at
        self._shapes: dict[tuple[Optional[float], ...], Resources] = {}
        self._in_order: Optional[_Seen] = None
        self._given, self._total = 0, 0

    def __iter__(self) -> Iterator[TraceJob]:
        """The jobs by ``at_s``. The file is read to its end before the first is given, unless an earlier pass found
        its lines in order already."""
        self.lines, self._given, self._total = Lines(), 0, 0
        reading = Reading(self._source, self.lines, self._split_at)
        self.header = reading.header
        first: Optional[float] = None
        at_s = left_out_s = 0.0
        for row in self._ordered(reading):
            if first is None:
                first = row.submit_s
                self.began_at = _wall_time(first, self.header)
            self._given += 1
            comes_s = (round(row.submit_s - first, 6) if first > EPOCH else row.submit_s - first) - left_out_s
            if comes_s - at_s > GAP_S:
                weeks = (comes_s - at_s - LEFT_S) // WEEK_S  # whole ones, for schedules
                left_out_s, comes_s = left_out_s + weeks * WEEK_S, comes_s - weeks * WEEK_S
                self.lines.note(GAP, row.line)
            at_s = max(at_s, comes_s)  # the file may have changed while it was read: never backwards
            yield from self._jobs(row, at_s)
        if first is None:
            raise TraceError(f"{self._source.name}: {self._nothing()}")

    def read_part(self) -> float:
        """How much was given, 0 to 1; 0 while the jobs are put in order."""
        return self._given / self._total if self._total else 0.0

    def _ordered(self, reading: Reading) -> Iterator[Row]:
        rows = self._format.read(reading)
        identity = self._source.identity()
        if self._in_order is not None and self._in_order.identity == identity:
            self._total = self._in_order.total
            yield from resolved(rows, self.lines) if self._in_order.waits else rows
            return
        found = Sorted(rows, self._source.name)
        self._total = found.total
        self._in_order = _Seen(identity, found.total, reading.waits) if found.was_so else None
        yield from resolved(found, self.lines) if reading.waits else found

    def _jobs(self, row: Row, at_s: float) -> Iterator[TraceJob]:
        _, run_s, cpus, memory_mb, disk_mb, gpus, parts, name, removed_after_s, after, think_s, _line = row
        requests = [self._shape(cpus, memory_mb, disk_mb, gpus)]
        if self._split_at is not None and cpus is not None and cpus > self._split_at:
            requests = [self._shape(*part) for part in _parts(self._split_at, cpus, memory_mb, disk_mb, gpus)]
        for _ in range(parts):
            for request in requests:
                self.lines.jobs += 1
                if removed_after_s is not None:
                    self.lines.cancelled += 1
                yield TraceJob(at_s, request, run_s, name, removed_after_s, after, think_s)

    def _shape(self, *sizes: Optional[float]) -> Resources:
        """The same object for the same sizes: there are few, and a million jobs."""
        found = self._shapes.get(sizes)
        if found is None:
            if len(self._shapes) >= SHAPES_KEPT:
                self._shapes.clear()
            found = self._shapes[sizes] = Resources(*sizes)
        return found

    def _nothing(self) -> str:
        """Why there is no job."""
        found = {**self.lines.left_out, **self.lines.skipped}
        if found:
            return "no job in it can be played: " + ", ".join(f"{number} {why}" for why, number in found.items())
        what = f"is no {self._format.title}: "
        if self._source.is_binary:
            return f"{what}it is a binary file"
        if not self.lines.bad:
            return f"{what}no line of it is a job"
        looks = recognise(self._source.head())
        hint = f" (it looks like {looks})" if looks and looks != self.format else ""
        return f"{what}line {self.lines.bad_lines[0]}: {self.lines.bad_why}{hint}"


def _wall_time(first: float, header: dict[str, str]) -> Optional[float]:
    if first > EPOCH:
        return first
    try:
        return float(header["UnixStartTime"]) + first  # of the Standard Workload Format
    except (KeyError, ValueError):
        return None


def _parts(
    most: float, cpus: float, memory_mb: Optional[float], disk_mb: Optional[float], gpus: Optional[float]
) -> Iterator[tuple[Optional[float], ...]]:
    """Full ones and a rest. GPUs stay whole ones: they go where the cpus are."""
    left, given = cpus, 0.0
    while left > 0:
        part = min(most, left)
        left -= part
        share = part / cpus
        upto = None if gpus is None else float(round(gpus * (cpus - left) / cpus))
        of_gpus = None if upto is None else upto - given
        given = upto or 0.0
        yield (part, memory_mb and memory_mb * share, disk_mb and disk_mb * share, of_gpus)
