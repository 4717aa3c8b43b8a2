"""Tasks over processes: none is lost with its process, and no process outlives the one that began it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from elastiq.simulation.crew import work_off

ROOT = Path(__file__).resolve().parents[2]


def odd(task: int) -> int:
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if task == 5:
        time.sleep(60)
    return task * task


def test_a_process_that_dies_or_hangs_costs_its_own_task_only() -> None:
    found = {finished.task: finished for finished in work_off(odd, range(8), 2, 1.5)}
    assert {task: one.result for task, one in found.items()} == {
        task: None if task in (3, 5) else task * task for task in range(8)
    }
    assert found[3].failure == "its process died (exit code -9)"
    assert found[5].failure == "took longer than 1.5 s"


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
    parent.wait(timeout=30)
    parent.stdout.close()
    end = time.monotonic() + 30.0
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < end, f"still there: {pids}"
        time.sleep(0.05)
