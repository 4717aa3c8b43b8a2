"""A trace as the arrivals of a world; see `elastiq.traces`."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, Optional, Union

from elastiq.simulation.workload import Arrival
from elastiq.traces import open_trace
from elastiq.traces.job import TraceError

__all__ = ["Trace", "TraceError"]


class Trace:
    """A log in the Standard Workload Format; a job of more than ``split_at`` processors becomes several. Iterate over
    it as often as you like: the counts say what became of its lines."""

    def __init__(self, path: Union[str, Path], split_at: Optional[int] = None) -> None:
        self._trace = open_trace(path, "swf", split_at)

    @property
    def jobs(self) -> int:
        """That were given."""
        return self._trace.lines.jobs

    @property
    def unknown(self) -> int:
        """Too little is known of them: left out."""
        return sum(self._trace.lines.left_out.values())

    @property
    def bad(self) -> int:
        """No jobs at all: left out."""
        return self._trace.lines.bad

    def __iter__(self) -> Iterator[Arrival]:
        for job in self._trace:
            yield Arrival(job.at_s, job.request, job.run_s, job.removed_after_s)
