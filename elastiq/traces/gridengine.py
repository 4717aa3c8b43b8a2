"""Grid Engine's accounting file: fields between colons, or a JSON object a line.

Sources: accounting(5) of Sun Grid Engine, Son of Grid Engine and Open Cluster Scheduler for the fields (there in their
order) and for the lines of JSON, the default of Open Cluster Scheduler 9; sge_status(5) for ``failed``. Times are
seconds since 1970; Univa's are milliseconds, those in JSON microseconds. A request for a consumable is of each slot
(complex(5)), so memory is multiplied with the slots; GPUs are not, since sites count them once for a job or a host.
What was used (``maxvmem``) is not what was asked for, and nothing is read of it.
"""

from __future__ import annotations

import json
import re
from typing import Iterator, Mapping, Optional, Sequence

from elastiq.traces.job import BadLine
from elastiq.traces.rows import Format, LeftOut, Reading, Row, Skip
from elastiq.traces.units import epoch_s, number, size_mb, whole

# Places in a line; accounting(5) counts from 1.
_JOB, _SUBMITTED, _STARTED, _ENDED, _FAILED = 5, 8, 9, 10, 11
_WALLCLOCK, _SLOTS, _TASK, _CATEGORY, _PE_TASK = 13, 34, 35, 39, 41
FEWEST = _CATEGORY + 1
# The job went back into the queue: its last run has a line of its own (sge_status(5): migrating, rescheduling).
AGAIN = (24, 25)
MEMORY = ("h_vmem", "s_vmem", "h_rss", "m_mem_free", "mem_free", "virtual_free", "memory", "mem")
GPUS = ("gpu", "gpus", "ngpus", "gpu_count", "cuda")
_RESOURCES = re.compile(r"(?:^|\s)-l\s+(\S+)")


def read(reading: Reading) -> Iterator[Row]:
    """``qacct`` takes no line of one character for a record."""

    def parse(line: str) -> Sequence[Row]:
        text = line.strip()
        if len(text) < 2 or text[0] == "#":
            return ()
        return _of_json(text) if text[0] == "{" else _of_fields(text)

    return reading.rows(parse)


def _of_fields(text: str) -> Sequence[Row]:
    fields = text.split(":")
    if len(fields) < FEWEST:
        raise BadLine(f"{len(fields)} fields between colons, not {FEWEST} or more")
    task = fields[_TASK]
    # A category may hold colons: what comes after it is known to be in place only if the number of fields is.
    part = fields[_PE_TASK] if len(fields) > _PE_TASK else ""
    if part not in ("", "NONE", "none") and re.fullmatch(r"\d+\.\S+", part):
        raise Skip("tasks of parallel jobs")
    times = [epoch_s(number(fields[at])) for at in (_SUBMITTED, _STARTED, _ENDED)]
    failed = whole(fields[_FAILED])
    name = fields[_JOB] if task in ("0", "", "undefined") else f"{fields[_JOB]}.{task}"
    return _row(name, times, failed, number(fields[_WALLCLOCK]), number(fields[_SLOTS]), fields[_CATEGORY])


def _of_json(text: str) -> Sequence[Row]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise BadLine("JSON that is too deep") from None
    except ValueError:
        raise BadLine("no JSON") from None
    if "job_number" not in found or "submission_time" not in found:
        raise BadLine("no record of a job")
    if found.get("pe_task_id") not in (None, "", "NONE"):
        raise Skip("tasks of parallel jobs")
    times = [epoch_s(_number(found, key)) for key in ("submission_time", "start_time", "end_time")]
    task = int(_number(found, "task_number"))
    name = f"{found['job_number']}.{task}" if task else str(found["job_number"])
    usage = found.get("usage")
    rusage = usage.get("rusage") if isinstance(usage, dict) else None
    wallclock = _number(rusage, "ru_wallclock") if isinstance(rusage, dict) else 0.0
    category = str(found.get("category") or "")
    return _row(name, times, int(_number(found, "failed")), wallclock, _number(found, "slots") or 1.0, category)


def _row(
    name: str, times: Sequence[float], failed: int, wallclock: float, slots: float, category: str
) -> Sequence[Row]:
    submit_s, start_s, end_s = times
    if failed in AGAIN:
        raise Skip("runs of jobs that were run again")
    if submit_s <= 0:
        raise BadLine("no time of submission")
    if start_s <= 0 and wallclock <= 0:
        raise LeftOut("never started")
    if slots < 1:
        raise BadLine("no number of slots")
    run_s = end_s - start_s if end_s >= start_s > 0 else wallclock
    asked = _asked(category)
    memory = [size for size in (_memory_mb(asked[key]) for key in MEMORY if key in asked) if size]
    gpus = next((float(asked[key]) for key in GPUS if asked.get(key, "").replace(".", "", 1).isdecimal()), None)
    return (Row(submit_s, run_s, slots, max(memory) * slots if memory else None, None, gpus or None, name=name),)


def _asked(category: str) -> dict[str, str]:
    """``-U users -l h_vmem=4G,h_rt=3600,gpu=1 -pe smp 4``."""
    found = _RESOURCES.findall(category)
    return dict(part.split("=", 1) for text in found for part in text.split(",") if "=" in part)


def _memory_mb(text: str) -> Optional[float]:
    """Bytes without a unit; ``k``, ``m`` and ``g`` are of 1000 in Grid Engine, ``K``, ``M`` and ``G`` of 1024
    (sge_types(1)). None where nothing or no limit is said."""
    try:
        size = size_mb(text, without=2.0**-20)
    except ValueError:
        return None
    thousands = {"k": 1, "m": 2, "g": 3, "t": 4}.get(text.strip()[-1:], 0)
    return float(size * (1000.0 / 1024.0) ** thousands)


def _number(found: Mapping[str, object], key: str) -> float:
    value = found.get(key, 0)
    return number(str(value)) if isinstance(value, (int, float, str)) else 0.0


def _looks_like(head: Sequence[str]) -> bool:
    lines = [line.strip() for line in head if len(line.strip()) > 1 and not line.startswith("#")]
    return 2 * sum(_is_record(line) for line in lines) > len(lines)


def _is_record(line: str) -> bool:
    if line[0] == "{":
        return '"job_number"' in line and '"submission_time"' in line
    fields = line.split(":")
    return len(fields) >= FEWEST and all(fields[at].isdigit() for at in (_JOB, _SUBMITTED, _SLOTS))


FORMAT = Format("gridengine", "Grid Engine accounting file", _looks_like, read)
