"""A daemon records its queue, and `elastiqctl record` makes a trace of it while it runs and after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq.recording import FOLDER, HEADER
from elastiq.traces.opening import open_trace
from tests.daemon_lines import ROOT
from tests.integration.at_work import AtWork
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def site(tmp_path: Path) -> Iterator[AtWork]:
    site = AtWork(tmp_path)
    yield site
    site.close()


def headers(site: AtWork) -> int:
    """How often a daemon began; whole looks only."""
    texts = [file.read_text() for file in (site.folder / "s" / FOLDER).glob("*.txt")]
    return sum(text.count(HEADER) for text in texts if text.splitlines()[-1][:1].isdigit())


def record(site: AtWork, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "elastiq", "record", "--statedir", str(site.folder / "s"), *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def told(site: AtWork) -> dict[str, Any]:
    done = record(site, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_a_daemon_saw_is_a_trace_whether_it_runs_was_killed_or_was_stopped(site: AtWork, tmp_path: Path) -> None:
    site.write(keys="launch = no")
    assert record(site).returncode == 1
    site.pool.submit(3, RequestMemory=1000)
    site.start()
    until(lambda: headers(site) == 1, "a first look")
    assert (told(site)["jobs"], told(site)["left_waiting"]) == (0, 3)
    site.kill()
    for job in site.pool.load()["jobs"][:2]:
        job["host"], job["ad"]["JobStatus"] = "slot1_1@w1", 2
    site.pool.save()
    site.start()
    until(lambda: headers(site) == 2, "a look after the kill")
    assert site.stop() == 0
    found = told(site)
    assert {key: found[key] for key in ("jobs", "cut", "left_waiting", "gaps", "damaged_lines")} == {
        "jobs": 2,
        "cut": 2,
        "left_waiting": 1,
        "gaps": [],
        "damaged_lines": 0,
    }
    done = record(site, "--output", str(tmp_path / "queue.csv"))
    assert done.stdout == "" and done.stderr.startswith("elastiqctl: 2 jobs, ")
    jobs = list(open_trace(tmp_path / "queue.csv"))
    assert [(job.request.cpus, job.request.memory_mb) for job in jobs] == [(1.0, 1000.0)] * 2
