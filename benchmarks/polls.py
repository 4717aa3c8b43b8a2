#!/usr/bin/env python3
"""A poll of 10,000 pending jobs by each batch system's plugin: how long it takes, and the daemon's memory in it.

    python3 benchmarks/polls.py [NAME ...]

Each plugin reads, in a process of its own that has all of the daemon imported, what the fake of its system in the tests
prints of 10,000 jobs: of one shape, of many, and as one array where the system has arrays. Commands are run once and
then replayed from files, so that what is measured is elastiq's part: to run a command, to read it, to group the jobs. A
real system's own time comes on top.

    ms, cpu ms   the quickest of several polls; the processor time of the daemon in one
    kB           what the commands printed
    MB, +, left  the highest resident memory (VmHWM) of the process while it polls; how much that is above what it was
                 before; what is left of it after (VmRSS)
    helper       the highest of a helper process of the plugin's, where there is one (MB)

Ratios (x) are to the first line, which is HTCondor's where no other is asked for.

It fails where a plugin fails or counts other than 10,000 jobs; times decide nothing.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.memory import machine  # noqa: E402
from elastiq.plugin_loader import BATCH_GROUP, BUILT_IN, batch_class  # noqa: E402

JOBS = 10_000
POLLS = 3
LIMIT_S = 120.0


@dataclass
class Setup:
    """A fake of a system: its conformance bench, the plugin's keys, and the folder of its commands, to be replayed."""

    bench: Any
    values: Mapping[str, Any]
    commands: Optional[Path] = None
    close: Callable[[], None] = lambda: None


# --------------------------------------------------------------------------- the systems


def htcondor(folder: Path) -> Setup:
    from tests.conformance.test_batch_htcondor import HTCondorBench

    bench = HTCondorBench(folder / "pool", "commands")
    return Setup(bench, _defaults("htcondor"), _replayed(bench.pool.bin))


def command(folder: Path) -> Setup:
    from tests.conformance.test_batch_command import CommandBench

    bench = CommandBench(folder / "queue")
    tools = folder / "bin"
    tools.mkdir()
    (tools / "queue").symlink_to(bench.queue.program)
    commands = _replayed(tools)
    program = str(commands / "queue")
    return Setup(bench, {**_defaults("command"), "jobs": program, "workers": program}, commands)


def slurm(folder: Path, query_method: str = "auto") -> Setup:
    from tests.conformance.test_batch_slurm import SlurmBench

    bench = SlurmBench(folder / "slurm", "24.11.5", query_method)
    commands = _replayed(bench.slurm.bin)
    return Setup(bench, {**_defaults("slurm"), "query_method": query_method, "command_folder": str(commands)}, commands)


def gridengine(folder: Path) -> Setup:
    from tests.conformance.test_batch_gridengine import GridEngineBench
    from tests.integration.fake_gridengine import FakeCluster

    bench = GridEngineBench(FakeCluster(folder / "cluster"))
    return Setup(bench, bench.values, _replayed(bench.cluster.bin))


def torque(folder: Path) -> Setup:
    from elastiq.plugins.batch.torque import Torque
    from tests.conformance.test_batch_pbs import PBSBench

    bench = PBSBench(folder / "server", Torque)
    return Setup(bench, bench.values, _replayed(bench.server.bin))


def pbs(folder: Path) -> Setup:
    from elastiq.plugins.batch.pbs import PBS
    from tests.conformance.test_batch_pbs import PBSBench

    bench = PBSBench(folder / "server", PBS)
    return Setup(bench, bench.values, _replayed(bench.server.bin))


def celery(folder: Path) -> Setup:
    """Its broker runs in this process, over a socket. A poll waits ``reply_timeout_s`` for the workers' answers."""
    from elastiq.plugins.batch.celery_helper import Helper
    from tests.conformance.test_batch_celery import CeleryBench

    bench = CeleryBench(Helper(_defaults("celery")))
    waits = {"reply_timeout_s": _defaults("celery")["reply_timeout_s"]}
    return Setup(bench, {**bench.values, **waits}, close=bench.broker.close)


# By what is printed, which begins with the plugin's name.
SYSTEMS: Mapping[str, Callable[[Path], Setup]] = {
    **{made.__name__: made for made in (htcondor, command, gridengine, torque, pbs, celery)},
    "slurm": slurm,
    "slurm json": partial(slurm, query_method="json"),
}


def _defaults(name: str) -> dict[str, Any]:
    return {option.name: option.default for option in batch_class(name).OPTIONS}


def _plugin(system: str) -> str:
    return system.partition(" ")[0]


def _replayed(tools: Path) -> Path:
    """A folder with the same commands: the first call of each is run and recorded, what follows is read from files."""
    folder = tools.with_name("replayed")
    folder.mkdir()
    for tool in sorted(tools.iterdir()):
        path, record = folder / tool.name, folder / f".{tool.name}"
        path.write_text(
            f"#!/bin/sh\nkey={record}-$(printf '%s\\n' \"$@\" | cksum | tr ' ' -)\n"
            f'[ -e $key.code ] || {{ "{tool}" "$@" >$key.out 2>$key.err; echo $? >$key.code; }}\n'
            "cat $key.err >&2; cat $key.out; read code <$key.code; exit $code\n"
        )
        path.chmod(0o755)
    return folder


# --------------------------------------------------------------------------- the queues


def one_shape(bench: Any) -> None:
    bench.submit(JOBS)


def many_shapes(bench: Any) -> None:
    for cpus in (1, 2, 3, 4, 8):
        bench.submit(JOBS // 5, cpus=cpus)


def an_array(bench: Any) -> None:
    bench.submit_array(JOBS)


def queues(bench: Any) -> Iterator[tuple[str, Callable[[Any], None]]]:
    yield "one shape", one_shape
    yield "5 shapes", many_shapes
    if type(bench).submit_array is not _no_array():
        yield "an array", an_array


def _no_array() -> Any:
    from elastiq.conformance.bench import BatchBench

    return BatchBench.submit_array


# --------------------------------------------------------------------------- one measurement

PROGRAM = """
import json, pickle, sys, time
from pathlib import Path
from elastiq import daemon, service
from elastiq.interfaces import Owner
from elastiq.plugin_loader import batch_class
def said(word, process="self"):
    return next(int(line.split()[1]) / 1000 for line in open(f"/proc/{process}/status") if line.startswith(word))
name, polls = sys.argv[1], int(sys.argv[2])
batch = batch_class(name).from_config(pickle.load(sys.stdin.buffer), Owner("c", "0123456789abcdef0123"))
before = said("VmRSS")
taken = []
for _ in range(polls + 1):  # the first one records, and imports
    began, began_cpu = time.perf_counter(), time.process_time()
    jobs = batch.jobs()
    taken.append((time.perf_counter() - began, time.process_time() - began_cpu))
helpers = Path("/proc/self/task").glob("*/children")
helper = sum(said("VmHWM", child) for children in helpers for child in children.read_text().split())
count = [sum(group.waiting for group in jobs.groups), len(jobs.groups), list(jobs.missing)]
ms = [round(1000 * min(column), 1) for column in zip(*taken[1:])]
print(json.dumps({"count": count, "ms": ms, "mb": [before, said("VmHWM"), said("VmRSS"), helper]}))
"""


HEAD = f"{'':22} {'ms':>7} {'x':>6} {'cpu ms':>7} {'kB':>6} {'MB':>5} {'x':>5} {'+':>5} {'left':>5} helper groups"


@dataclass
class Row:
    """What was measured of one plugin with one queue; memory in MB: before, highest, after, of a helper."""

    name: str
    ms: float
    cpu_ms: float
    printed_kb: float
    mb: tuple[float, float, float, float]
    groups: int

    def beside(self, first: Row) -> str:
        before, peak, after, helper = self.mb
        times = f"{self.ms:7.1f} {self.ms / first.ms:6.2f} {self.cpu_ms:7.1f} {self.printed_kb:6.0f}"
        memory = f"{peak:5.1f} {peak / first.mb[1]:5.2f} {peak - before:5.1f} {after - before:5.1f} {helper:6.1f}"
        return f"{self.name:22} {times} {memory} {self.groups:6}"


def measured(system: str, queue: str, setup: Setup) -> Row:
    """Raises `AssertionError` with what the plugin said, if it failed or did not count all jobs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if setup.commands:
        environment["PATH"] = f"{setup.commands}:{os.environ['PATH']}"
    argv = [sys.executable, "-c", PROGRAM, _plugin(system), str(POLLS)]
    values = pickle.dumps(dict(setup.values))
    done = subprocess.run(argv, env=environment, input=values, capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    told = json.loads(done.stdout)
    waiting, groups, missing = told["count"]
    assert waiting == JOBS and not missing, f"counted {waiting} jobs, not {JOBS}; missing: {missing}"
    recorded = setup.commands.glob(".*.out") if setup.commands else ()
    printed = sum(path.stat().st_size for path in recorded) / 1000
    ms, cpu_ms = told["ms"]
    return Row(f"{system:11}{queue}", ms, cpu_ms, printed, told["mb"], groups)


def rows(system: str) -> Iterator[Row]:
    number = 0
    while True:
        with tempfile.TemporaryDirectory() as name:
            setup = SYSTEMS[system](Path(name))
            try:
                wanted = list(queues(setup.bench))
                if number >= len(wanted):
                    return
                queue, fill = wanted[number]
                fill(setup.bench)
                yield measured(system, queue, setup)
            finally:
                setup.close()
        number += 1


def main(names: list[str]) -> int:
    unknown = {*BUILT_IN[BATCH_GROUP]} - {*map(_plugin, SYSTEMS)}
    assert not unknown, f"no queue is made for {', '.join(unknown)}"
    wanted = names or [system for system in SYSTEMS if _plugin(system) in BUILT_IN[BATCH_GROUP]]
    print(f"{machine()}; Python {sys.version.split()[0]}; {JOBS:,} pending jobs")
    print(HEAD)
    first: Optional[Row] = None
    failed = []
    for system in wanted:
        try:
            for row in rows(system):
                first = first or row
                print(row.beside(first), flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(f"{system}: FAILED: {error!r}", flush=True)
            failed.append(system)
    return 1 if failed else 0


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
