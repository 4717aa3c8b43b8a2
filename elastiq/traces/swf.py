"""The Standard Workload Format of the Parallel Workloads Archive.

A line has 18 numbers, -1 for what is not known; lines that begin with ``;`` are the header. See
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html for what they mean.
"""

from __future__ import annotations

import math
from typing import Iterator, Sequence

from elastiq.traces.job import BadLine
from elastiq.traces.rows import Format, LeftOut, Reading, Row, Skip
from elastiq.traces.units import number

FIELDS = 18
KB_PER_MB = 1024.0
CANCELLED = 5
# Of a job that was checkpointed: its whole has a line of its own (status 0 or 1).
PARTIAL = (2, 3, 4)

# Places in a line; the format's definition counts from 1.
_JOB, _SUBMIT, _WAIT, _RUN, _ALLOCATED, _MEMORY = 0, 1, 2, 3, 4, 6
_REQUESTED, _REQUESTED_S, _REQUESTED_MEMORY, _STATUS, _PRECEDING, _THINK = 7, 8, 9, 10, 16, 17


def read(reading: Reading) -> Iterator[Row]:
    """What was allocated and used stands for what was not asked for."""
    header = reading.header

    def parse(line: str) -> Sequence[Row]:
        parts = line.split()
        if not parts:
            return ()
        if parts[0][0] == ";":
            name, colon, value = line.strip().lstrip("; ").partition(":")
            if colon and name.strip() and value.strip() and len(header) < 100:
                header.setdefault(name.strip(), value.strip())
            return ()
        return _job(parts)

    return reading.rows(parse)


def _job(parts: Sequence[str]) -> Sequence[Row]:
    # Some logs leave the last fields out; what is needed are the first ones.
    if not _STATUS < len(parts) <= FIELDS:
        raise BadLine(f"{len(parts)} fields, not {FIELDS}")
    numbers = _numbers(parts)
    submit_s, run_s = numbers[_SUBMIT], numbers[_RUN]
    if submit_s < 0:
        raise BadLine("no time of submission")
    if numbers[_STATUS] in PARTIAL:
        raise Skip("parts of jobs that were checkpointed")
    removed_after_s = None
    # Not all logs give such a job its status: what never ran was given up.
    if run_s < 0 and (numbers[_STATUS] == CANCELLED or numbers[_REQUESTED_S] > 0):
        removed_after_s = max(0.0, numbers[_WAIT])
        run_s = numbers[_REQUESTED_S] if numbers[_REQUESTED_S] > 0 else removed_after_s
    processors = numbers[_REQUESTED] if numbers[_REQUESTED] > 0 else numbers[_ALLOCATED]
    if run_s < 0:
        raise LeftOut("without a run time")
    if processors <= 0:
        raise LeftOut("without a number of processors")
    memory = numbers[_REQUESTED_MEMORY] if numbers[_REQUESTED_MEMORY] > 0 else numbers[_MEMORY]
    memory_mb = processors * memory / KB_PER_MB if memory > 0 else None  # it is said for one processor
    after: tuple[str, ...] = ()
    think_s = 0.0
    if len(parts) > _PRECEDING and numbers[_PRECEDING] > 0:
        after = (parts[_PRECEDING],)
        think_s = max(0.0, numbers[_THINK]) if len(parts) > _THINK else 0.0
    return (Row(submit_s, run_s, processors, memory_mb, None, None, 1, parts[_JOB], removed_after_s, after, think_s),)


def _numbers(parts: Sequence[str]) -> list[float]:
    try:
        found = list(map(float, parts))
    except ValueError:
        return list(map(number, parts))  # which says what is none
    return found if math.isfinite(sum(found)) else list(map(number, parts))


def _looks_like(head: Sequence[str]) -> bool:
    said = [line.split() for line in head if line.strip()]
    lines = [parts for parts in said if parts[0][0] != ";"]
    if said and not lines:  # a long header
        return True
    return 2 * sum(_numeric(parts) for parts in lines) > len(lines)


def _numeric(parts: Sequence[str]) -> bool:
    if not _STATUS < len(parts) <= FIELDS:
        return False
    try:
        return all(float(part) >= -1e15 for part in parts)
    except ValueError:
        return False


FORMAT = Format("swf", "log in the Standard Workload Format", _looks_like, read)
