"""What Linux knows of this process (proc(5)), by the names of Prometheus' client libraries. From any thread."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from elastiq.metrics.families import Values

_PROC = Path("/proc")


def values() -> Values:
    """Empty where /proc is not to be had."""
    found: dict[str, float] = {}
    with suppress(OSError, ValueError, IndexError, StopIteration):
        fields = (_PROC / "self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        found["process_cpu_seconds_total"] = (int(fields[11]) + int(fields[12])) * tick_s
        found["process_resident_memory_bytes"] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        found["process_open_fds"] = len(os.listdir(_PROC / "self/fd")) - 1
        booted = next(line for line in (_PROC / "stat").open() if line.startswith("btime "))
        found["process_start_time_seconds"] = int(booted.split()[1]) + int(fields[19]) * tick_s
    return {name: {(): value} for name, value in found.items()}
