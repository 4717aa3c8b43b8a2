"""Real workloads: the Standard Workload Format of the Parallel Workloads Archive, read line by line.

A line has 18 numbers, -1 for what is not known; lines that begin with ``;`` are the header. See
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html for what they mean.
"""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO, Iterator, Optional, Union

from elastiq.interfaces import Resources
from elastiq.simulation.workload import Arrival

FIELDS = 18
KB_PER_MB = 1024.0
CANCELLED = 5
_GZIP = b"\x1f\x8b"

# Places in a line; the format's definition counts from 1.
_SUBMIT, _WAIT, _RUN, _ALLOCATED, _MEMORY = 1, 2, 3, 4, 6
_REQUESTED, _REQUESTED_S, _REQUESTED_MEMORY, _STATUS = 7, 8, 9, 10


class TraceError(ValueError):
    """The file is no trace that can be read. One line, with the path."""


class Trace:
    """A file of jobs, in the order of its lines; iterate over it as often as you like, nothing is kept.

    Times are seconds since the first job. A job of more than ``split_at`` processors becomes several, since
    the jobs here run on one machine each. After the iteration, ``header`` has what the file says of itself,
    and the counts say what became of its lines.
    """

    def __init__(self, path: Union[str, Path], split_at: Optional[int] = None) -> None:
        self.path = Path(path)
        self.split_at = split_at
        self._forget()

    def _forget(self) -> None:
        self.header: dict[str, str] = {}
        self.jobs = 0
        self.cancelled = 0  # while they waited: they are yielded, to be removed again
        self.unknown = 0  # no run time or no processors are known: left out
        self.bad = 0  # no job at all: left out

    def __iter__(self) -> Iterator[Arrival]:
        self._forget()
        first: Optional[float] = None
        try:
            for line in self._lines():
                numbers = self._numbers(line)
                if numbers is None:
                    continue
                if first is None:
                    first = numbers[_SUBMIT]
                yield from self._arrivals(numbers, first)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise TraceError(f"{self.path}: is damaged: {exc}") from exc
        if first is None and self.bad:
            raise TraceError(f"{self.path}: none of its {self.bad} lines is a job in the Standard Workload Format")

    def _lines(self) -> Iterator[str]:
        """Whatever its name, a file that begins as gzip's do is one."""
        with open(self.path, "rb") as file:
            zipped = file.read(2) == _GZIP
            file.seek(0)
            opened: BinaryIO = gzip.GzipFile(fileobj=file) if zipped else file  # type: ignore[assignment]
            yield from io.TextIOWrapper(opened, "utf-8", "replace")

    def _numbers(self, line: str) -> Optional[list[float]]:
        """The numbers of a job, None for any other line."""
        text = line.strip()
        if text.startswith(";"):
            name, colon, value = text.lstrip("; ").partition(":")
            if colon and name.strip() and value.strip():
                self.header.setdefault(name.strip(), value.strip())
            return None
        if not text:
            return None
        try:
            numbers = [float(part) for part in text.split()]
        except ValueError:
            numbers = []
        # Some logs leave the last fields out; what is needed are the first ones.
        if len(numbers) <= _STATUS or len(numbers) > FIELDS or not _finite(numbers) or numbers[_SUBMIT] < 0:
            self.bad += 1
            return None
        return numbers

    def _arrivals(self, numbers: list[float], first: float) -> Iterator[Arrival]:
        processors = numbers[_REQUESTED] if numbers[_REQUESTED] > 0 else numbers[_ALLOCATED]
        run_s = numbers[_RUN]
        removed_after_s: Optional[float] = None
        # Not all logs give such a job its status: what never ran was given up.
        if run_s < 0 and (numbers[_STATUS] == CANCELLED or numbers[_REQUESTED_S] > 0):
            run_s, removed_after_s = max(0.0, numbers[_REQUESTED_S]), max(0.0, numbers[_WAIT])
        if run_s < 0 or processors <= 0:
            self.unknown += 1
            return
        self.jobs += 1
        self.cancelled += removed_after_s is not None
        memory = numbers[_REQUESTED_MEMORY] if numbers[_REQUESTED_MEMORY] > 0 else numbers[_MEMORY]
        at_s = max(0.0, numbers[_SUBMIT] - first)  # a line may be out of order
        for cpus in self._parts(processors):
            memory_mb = cpus * memory / KB_PER_MB if memory > 0 else None
            yield Arrival(at_s, Resources(cpus=cpus, memory_mb=memory_mb), run_s, removed_after_s)

    def _parts(self, processors: float) -> Iterator[float]:
        most = float(self.split_at or processors)
        while processors > most:
            yield most
            processors -= most
        yield processors


def _finite(numbers: list[float]) -> bool:
    return all(abs(number) < 1e15 for number in numbers)  # false for nan, too
