#!/usr/bin/env python3
"""The whole daemon at work: resident memory, and how much of our code it has imported.

    python3 benchmarks/daemon.py

The real service runs with an EC2 API over HTTP (moto's server) and HTCondor's commands as scripts that
answer with 20 workers and 10,000 waiting jobs, until it has launched machines and read all several times.
Figures are MB of resident memory (VmRSS) and lines of code of the modules in `sys.modules`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.memory import machine  # noqa: E402
from tests.daemon_lines import lines_of_code  # noqa: E402

GOAL_MB = 45
GOAL_LINES = 5000
CYCLES_S = 12

CONFIG = """\
[elastiq]
cluster_name = benchmark
check_queue_every_s = 1
check_vms_every_s = 1
waiting_jobs_time_s = 0
batch_settle_s = 1
[quota]
max_vms = 4
[ec2]
api_url = http://127.0.0.1:{port}/
region = us-east-1
aws_access_key_id = A
aws_secret_access_key = S
image_id = ami-12345678
flavour = c5.xlarge
dialect = aws
"""

# The daemon in the main thread; a second one reads the figures and ends it as systemd would.
PROGRAM = """
import json, os, signal, sys, threading, time
from elastiq import service
from elastiq.plugins.batch import htcondor
htcondor.has_bindings = lambda: False  # as on a head node without them
def look():
    time.sleep(float(sys.argv.pop(1)))
    with open("/proc/self/status") as status:
        rss = next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmRSS:"))
    ours = [m for name, m in list(sys.modules.items()) if name.partition(".")[0] == "elastiq"]
    files = [m.__file__ for m in ours if m.__file__]
    print(json.dumps({"rss": rss, "files": files, "threads": threading.active_count() - 1}), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=look, daemon=True).start()
time.sleep(0.1)
sys.exit(service.main(sys.argv[1:]))
"""


def fake_condor(folder: Path) -> None:
    """HTCondor's commands: 10,000 idle jobs of 20 shapes, 20 busy workers."""
    jobs = [
        {"JobCount": 500, "JobIds": "1.0 ... 1.499", "JobStatus": 1, "JobUniverse": 5, "RequestCpus": n + 1}
        for n in range(20)
    ]
    slots = [
        {
            "MyType": "Machine",
            "Name": f"slot1@w{n}",
            "Machine": f"w{n}",
            "State": "Claimed",
            "Activity": "Busy",
            "Cpus": 4,
            "Memory": 8000,
            "MyAddress": f"<10.9.0.{n}:9618>",
        }
        for n in range(20)
    ]
    pool = [{"MyType": "Collector", "Name": "c", "StatsLifetime": 100000}, *slots]
    for name, text in (("jobs", jobs), ("slots", slots), ("pool", pool)):
        (folder / name).write_text(json.dumps(text))
    scripts = {
        "condor_q": f"cat {folder}/jobs",
        "condor_status": f'case "$*" in *ollector*) x=pool;; *chedd*) exit;; *) x=slots;; esac\ncat {folder}/$x',
        "condor_drain": "exit 1",
        "condor_config_val": "exit 1",
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


@contextmanager
def moto() -> Iterator[str]:
    """The port of moto's server, a process of its own."""
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    server = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    line = ""
    while "http://127.0.0.1:" not in line:
        line = server.stderr.readline()
        assert line, "moto's server did not start"
    # What it says of each request has to go somewhere.
    threading.Thread(target=server.stderr.read, daemon=True).start()
    try:
        yield line.rsplit(":", 1)[1].split()[0].strip("/")
    finally:
        server.kill()
        server.wait()


def command(folder: Path, config: str, program: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """What runs a daemon in ``folder``, where the commands of HTCondor are, and its environment."""
    file = folder / "elastiq.conf"
    file.touch(mode=0o600)
    file.write_text(config)
    places = ["--config", str(file), "--statedir", str(folder / "state"), "--rundir", str(folder / "run")]
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return [sys.executable, "-c", program, *arguments, *places], environment


def measured(folder: Path) -> dict[str, object]:
    """Run the daemon against moto's server; what it says of itself."""
    with moto() as port:
        argv, environment = command(folder, CONFIG.format(port=port), PROGRAM, str(CYCLES_S))
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=CYCLES_S + 60)
    assert done.returncode == 0, done.stderr
    assert re.search(r" i-\w+ \(", done.stderr), done.stderr  # a machine, by the answer or by a listing
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fake_condor(folder)
        figures = measured(folder)
    files = {Path(str(file)) for file in figures["files"]}  # type: ignore[attr-defined]
    lines = sum(lines_of_code(file.read_text(encoding="utf-8")) for file in files)
    rss = float(str(figures["rss"]))
    print(f"{machine()}; Python {sys.version.split()[0]}; {time.monotonic() - began:.0f} s")
    print(f"{rss:6.1f} MB  {rss / GOAL_MB:4.2f} of the goal {GOAL_MB} MB: resident, after many reads")
    print(f"{lines:6d} lines  {lines / GOAL_LINES:4.2f} of the goal {GOAL_LINES}: ours, in {len(files)} modules")
    print(f"{figures['threads']:>6} threads")
    return 0 if rss <= GOAL_MB else 1  # of the lines tests/daemon_lines.py decides, which knows who asks for a module


if __name__ == "__main__":
    sys.exit(main())
