#!/usr/bin/env python3
"""What elastiq takes of a head node, beside TARDIS and a bare EC2 client, all in one run.

    python3 benchmarks/peers.py [--tardis PYTHON | --without-tardis] [--window 60] [--repeat 3]

    resident MB     VmRSS of the process: of elastiq's daemon after its launches and many reads of 10,000 jobs and 20
                    workers, of TARDIS's once it has a drone, of a client after one request
    first action s  from the start of the process to the answer to the first launch; of TARDIS to its first decision:
                    its factory then waits 30 s until it asks for a machine
    its cpu s       the processor time that the process took for that, which other work on the machine does not change
    idle % of core  processor time while nothing happens. elastiq keeps 100 idle machines, at its default periods
                    made 40 times shorter and so counted (benchmarks/footprint.py); TARDIS keeps one drone, in real time

elastiq is the real service, with an EC2 API over HTTP (moto's server) and HTCondor's commands as scripts: it reads all
of that before it acts. TARDIS has the site and the batch system that it brings as fakes, within its process, and reads
nothing. Ratios are to elastiq; the best of the repeats counts. For --tardis see benchmarks/burst.py.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import footprint, memory  # noqa: E402
from benchmarks._tardis_home import tardis_python  # noqa: E402
from benchmarks.daemon import CONFIG, fake_condor, moto  # noqa: E402

LOOK_S = 0.005
COBALD = """\
pipeline:
  - !LinearController
    low_utilisation: 0.90
    high_allocation: 0.90
    rate: 1
  - !Limiter
    minimum: 1
  - !TardisPoolFactory
    configuration: '{folder}/tardis.yml'
"""
TARDIS = """\
BatchSystem:
  adapter: FakeBatchSystem
  allocation: 0.0
  utilisation: 0.0
  machine_status: Available
Sites:
  - name: fake
    adapter: FakeSite
    quota: 8
fake:
  api_response_delay: !PeriodicValue {period: 1, amplitude: 0, offset: 0.05}
  resource_boot_time: !PeriodicValue {period: 1, amplitude: 0, offset: 1}
  MachineTypes: [m8]
  MachineMetaData:
    m8: {Cores: 8, Memory: 16, Disk: 100}
  MachineTypeConfiguration:
    m8: {}
"""
STOCK, TRIMMED = "python + boto3's stock client", "python + elastiq's client"


class Figures(NamedTuple):
    """None: it has none."""

    megabytes: float
    first_s: Optional[float] = None
    first_cpu_s: Optional[float] = None
    idle_percent: Optional[float] = None


def best(found: list[Figures]) -> Figures:
    """Of some runs."""
    columns = [[value for value in column if value is not None] for column in zip(*found)]
    return Figures(*(min(column) if column else None for column in columns))  # type: ignore[arg-type]


def when(log: Path, pattern: str, limit_s: float = 60.0) -> float:
    """The time at which the log first says this, as near as it is looked at."""
    deadline = time.monotonic() + limit_s
    while not re.search(pattern, log.read_text(errors="replace")):
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {pattern}\n{log.read_text()[-2000:]}"
        time.sleep(LOOK_S)
    return time.monotonic()


def elastiq(folder: Path, port: str, number: int) -> Figures:
    """Its daemon, from nothing to a launch and through many reads."""
    fake_condor(folder)
    asked = folder / "asked"
    (folder / "condor_q").write_text(f"#!/bin/sh\necho >>{asked}\nexec cat {folder}/jobs\n")
    config = CONFIG.format(port=port).replace("= benchmark", f"= peers-{number}")
    (folder / "log").touch()
    began = time.monotonic()
    with footprint.running(folder, config, 1.0) as pid:
        first = when(folder / "log", r" i-\w+ \(") - began, footprint.seconds_of(pid)[0]
        footprint.wait_for(lambda: asked.stat().st_size >= footprint.READS, "many reads")
        return Figures(footprint.resident(pid), *first)


def tardis(folder: Path, python: str, window_s: float) -> Figures:
    """Its daemon with its fake site: until it decides, and if there is a window until it asks for a machine, and on."""
    (folder / "cobald.yml").write_text(COBALD.format(folder=folder))
    (folder / "tardis.yml").write_text(TARDIS)
    log = folder / "log"
    began = time.monotonic()
    with cobald(folder, python, log) as pid:
        first = when(log, "demand = ") - began, footprint.seconds_of(pid)[0]
        if not window_s:
            return Figures(math.inf, *first)
        when(log, "in RequestState")
        megabytes, before = footprint.resident(pid), footprint.seconds_of(pid)[0]
        time.sleep(window_s)
        busy_s = footprint.seconds_of(pid)[0] - before
    return Figures(megabytes, *first, 100.0 * busy_s / window_s)


@contextlib.contextmanager
def cobald(folder: Path, python: str, log: Path) -> Iterator[int]:
    argv = [python, "-m", "cobald.daemon", str(folder / "cobald.yml")]
    with log.open("w") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, cwd=folder, env=dict(os.environ))
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait(30)


def show(name: str, found: Figures, ours: Figures) -> str:
    def cell(value: Optional[float], mine: Optional[float], digits: int, wide: int) -> str:
        if value is None or not mine:
            return " " * (wide + 8)
        return f"{value:{wide}.{digits}f} {value / mine:5.2f} x"

    return (
        f"{cell(found.megabytes, ours.megabytes, 1, 7)}  {cell(found.first_s, ours.first_s, 2, 8)}"
        f"  {cell(found.first_cpu_s, ours.first_cpu_s, 2, 6)}  {cell(found.idle_percent, ours.idle_percent, 2, 8)}"
        f"   {name}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="What elastiq takes of a head node, beside its peers.")
    parser.add_argument("--tardis", metavar="PYTHON", help="a Python that has cobald-tardis")
    parser.add_argument("--without-tardis", action="store_true")
    parser.add_argument("--window", type=float, default=60.0, metavar="S", help="real seconds of TARDIS at rest")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    print(f"{memory.machine()}; Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as name, tardis_python(args.tardis, args.without_tardis) as (python, why):
        folders = (Path(name, str(number)) for number in range(1000))

        def folder() -> Path:
            made = next(folders)
            made.mkdir()
            return made

        with moto() as port:
            runs = [elastiq(folder(), port, number) for number in range(args.repeat)]
        idle, _of_commands, with_machines, _reads = footprint.percent(folder(), footprint.FASTER)
        ours = best(runs)._replace(idle_percent=idle)
        table = {"elastiq, HTCondor and EC2": ours, "elastiq with 100 machines": Figures(with_machines)}
        if python is not None:
            windows = [args.window] + [0.0] * (args.repeat - 1)
            table[f"TARDIS {why}, its fake site"] = best([tardis(folder(), python, window) for window in windows])
        table["a bare boto3 client of EC2"] = Figures(memory.measured(memory.PROGRAMS[STOCK]))
        table["the same with its model trimmed to what elastiq calls"] = Figures(
            memory.measured(memory.PROGRAMS[TRIMMED])
        )
        table["Python alone"] = Figures(memory.measured(memory.PROGRAMS["python"]))
    if python is None:
        print(f"TARDIS is left out: {why}")
    print("    resident MB      first action s       its cpu s    idle % of a core")
    for what, found in table.items():
        print(show(what, found, ours))
    return 0 if ours.megabytes <= footprint.GOAL_MB else 1


if __name__ == "__main__":
    sys.exit(main())
