"""Read a text as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

from elastiq.traces.job import Lines, TraceJob
from elastiq.traces.opening import FileTrace, open_trace


def opened(tmp_path: Path, text: str, format: Optional[str] = None, **options: Any) -> FileTrace:
    """The trace in a file of this text, opened by what it holds unless a format is named."""
    path = tmp_path / "jobs"
    path.write_text(text)
    return open_trace(path, format, **options)


def read(tmp_path: Path, text: str, format: Optional[str] = None, **options: Any) -> tuple[list[TraceJob], Lines]:
    """Its jobs, and what became of its lines."""
    trace = opened(tmp_path, text, format, **options)
    return list(trace), trace.lines
