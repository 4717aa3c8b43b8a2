"""Tasks over processes: no process outlives the one that began it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_process_outlives_a_parent_that_was_killed() -> None:
    script = """
import os, sys
from elastiq.simulation.crew import work_off
for finished in work_off(lambda task: os.getpid(), iter(int, 1), 3, 60.0):
    print(finished.result, flush=True)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids: set[int] = set()
    while len(pids) < 3:
        pids.add(int(parent.stdout.readline()))
    parent.kill()
    parent.wait(timeout=90)
    parent.stdout.close()
    end = time.monotonic() + 90.0
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < end, f"still there: {pids}"
        time.sleep(0.05)
