"""Logs of real clusters, where ELASTIQ_TRACES names a folder of them: their terms keep them out of here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elastiq.interfaces import Resources
from elastiq.traces import open_trace

FOLDER = Path(os.environ.get("ELASTIQ_TRACES", ""))
pytestmark = pytest.mark.skipif("ELASTIQ_TRACES" not in os.environ, reason="ELASTIQ_TRACES names no folder of traces")


def test_a_log_of_the_archive_is_read_whole() -> None:
    trace = open_trace(FOLDER / "hpc2n-2002-head.swf")
    jobs = list(trace)
    assert (len(jobs), trace.lines.cancelled, trace.lines.bad, trace.lines.left_out) == (3170, 25, 0, {})
    assert (trace.format, trace.began_at, trace.header["MaxProcs"]) == ("swf", 1027839845.0, "240")
    assert max(job.request.cpus or 0 for job in jobs) <= 128


@pytest.mark.parametrize("name", ["dag-1000genome-22ch.csv", "dag-seismology-1100p.csv"])
def test_workflows_are_read_with_their_parents(name: str) -> None:
    trace = open_trace(FOLDER / name)
    jobs = list(trace)
    names = {job.name for job in jobs}
    assert len(names) == len(jobs) == (FOLDER / name).read_text().count("\n") - 1
    assert {parent for job in jobs for parent in job.after} < names
    assert {job.request for job in jobs} == {Resources(cpus=1)}
    assert {job.at_s for job in jobs} == {0.0}
    assert (trace.lines.bad, trace.lines.unused) == (0, ("category", "avg_cpu_pct"))
