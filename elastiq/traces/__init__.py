"""Workloads that were: the logs of batch systems, read line by line as the jobs of a simulated cluster."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Union

if TYPE_CHECKING:
    from elastiq.traces.opening import FileTrace


def open_trace(
    path: Union[str, os.PathLike[str]], format: Optional[str] = None, split_at: Optional[float] = None
) -> FileTrace:
    """The trace in a file: see `elastiq.traces.opening`, which is imported when it is needed: what writes a trace
    needs no reader."""
    from elastiq.traces import opening

    return opening.open_trace(path, format, split_at)
