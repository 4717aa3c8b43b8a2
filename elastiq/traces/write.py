"""Jobs -> a plain CSV file that `elastiq.traces` reads back as the same jobs.

One line each, after a header. Numbers are written so that they read as the same float; what is not said stays empty.
"""

from __future__ import annotations

import csv
import re
from typing import Iterable, Optional, TextIO

from elastiq.traces.job import TraceJob

COLUMNS = (
    "submit_s", "run_s", "cpus", "memory_mb", "disk_mb", "gpus", "id", "after", "think_s", "removed_after_s",
)  # fmt: skip
_PARTS_NAMES = re.compile(r"[\s;\x00-\x1f]")  # `after` is a list, a line is a line


class Writer:
    """Writes job after job to a text file that was opened with ``newline=""``; the header first, unless the file has
    one already.

    ``began_at`` is the wall time of second 0, in seconds since 1970: with it the times in the file are wall times, to
    the microsecond. Without it they are those of the jobs, to the last bit.
    """

    def __init__(self, file: TextIO, began_at: Optional[float] = None, header: bool = True) -> None:
        self._rows = csv.writer(file, lineterminator="\n")
        self._began_at = began_at
        if header:
            self._rows.writerow(COLUMNS)

    def write(self, job: TraceJob) -> None:
        """White space, control characters and ``;`` in a name become ``_``."""
        at_s = job.at_s if self._began_at is None else round(self._began_at + job.at_s, 6)
        request = job.request
        sizes = (request.cpus, request.memory_mb, request.disk_mb, request.gpus)
        after = " ".join(_plain(name) for name in job.after)
        numbers = (_number(at_s), _number(job.run_s), *(_number(size) for size in sizes))
        removed = _number(job.removed_after_s)
        self._rows.writerow((*numbers, _plain(job.name), after, _number(job.think_s or None), removed))


def write(jobs: Iterable[TraceJob], file: TextIO, began_at: Optional[float] = None) -> int:
    """Write them all, as `Writer` does; how many they were."""
    writer, written = Writer(file, began_at), 0
    for job in jobs:
        writer.write(job)
        written += 1
    return written


def _number(value: Optional[float]) -> str:
    """Whole ones without ``.0``: a person reads them, too."""
    if value is None:
        return ""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _plain(name: str) -> str:
    return _PARTS_NAMES.sub("_", name)
