"""The figure that benchmarks/memory.py prints is reached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"


def test_python_and_our_client_stay_below_the_goal() -> None:
    done = subprocess.run([sys.executable, str(BENCHMARK)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reached" in done.stdout
