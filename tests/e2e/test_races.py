"""A job that starts in the very moment of scale-down is not lost.

Twenty machines are idle, and each time the daemon is about to end one, a job starts there first: the tap on
HTCondor's command starts it and waits until it runs before the command goes on. Afterwards the job
has ended, the machine is idle, and it is tried again: a hundred times.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Optional

import pytest

from tests.e2e.cluster import RUNNING, Cluster, wait_for
from tests.e2e.conftest import StartDaemon
from tests.e2e.daemon import SERVICE, Daemon
from tests.e2e.tap import Tap

MACHINES = 20
RUNS = 100
HASTY = ("-m", "tests.e2e.variants.no_second_look")


class Injector:
    """Starts jobs on machines that are about to be ended, up to ``runs`` of them."""

    def __init__(self, cluster: Cluster, tap: Tap, runs: int, job_s: float = 3) -> None:
        self.cluster, self.tap, self.runs, self.job_s = cluster, tap, runs, job_s
        self.injected = 0
        self._lock = threading.Lock()

    def inject(self, machine: str) -> bool:
        """Let a job start there, if one of the runs is left; return when it runs."""
        with self._lock:
            if self.injected >= self.runs:
                return False
            self.injected += 1
        self.cluster.run_on(machine, self.job_s)
        return True

    def before_drain(self, strip_check: bool = False) -> None:
        """(a): between the last idle read and the drain."""

        def before(argv: list[str]) -> Optional[list[str]]:
            if "-cancel" in argv:
                return None
            self.inject(machine_of(argv))
            return without_check(argv) if strip_check else None

        self.tap.on("condor_drain", before=before)

    def after_drain(self) -> None:
        """(b): between the drain and the end, since somebody undoes the drain."""

        def after(argv: list[str], code: int, _: str) -> None:
            if "-cancel" not in argv and code == 0 and self.injected < self.runs:
                self.cluster.undrain(machine_of(argv))
                self._inject_seen(machine_of(argv))

        self.tap.on("condor_drain", after=after)

    def after_decisive_read(self, elastiq: Daemon, idle_s: float) -> None:
        """(c), without a drain: the answer that makes the daemon end a machine says idle, but before the
        daemon has it, a job runs there. A later read can show that, and nothing else."""
        begun = [0.0, 0.0]  # the last two reads of the workers

        def before(argv: list[str]) -> None:
            if "-any" in argv:
                begun[:] = [begun[1], time.monotonic()]

        def after(argv: list[str], code: int, _: str) -> None:
            if "-any" not in argv:
                return
            idle = {name for name, states in self.cluster.machines().items() if states == {"Unclaimed"}}
            # by the time between the two, if this one says idle too, the idleness that the daemon knows of grows
            nodes = [node for node in elastiq.nodes("idle") if node["idle_s"] + begun[1] - begun[0] >= idle_s]
            with ThreadPoolExecutor(MACHINES) as pool:
                list(pool.map(self._inject_seen, idle & {node["worker"] for node in nodes}))

        self.tap.on("condor_status", before, after)

    def _inject_seen(self, machine: str) -> None:
        """What a startd does reaches the collector a second later, and only there can the daemon see it."""
        if not self.inject(machine):
            return

        def seen() -> bool:
            states = self.cluster.machines().get(machine, set())
            return "Claimed" in states or not self.cluster.jobs(RUNNING)

        wait_for(seen, 20, "the collector knows", 0.3)


def machine_of(argv: list[str]) -> str:
    """The machine that condor_drain is to drain, by the name of one of its slots."""
    return argv[-1].rpartition("@")[2]


def without_check(argv: list[str]) -> list[str]:
    """The same drain, but also of a machine that is not idle any more."""
    at = argv.index("-check")
    return argv[:at] + argv[at + 2 :]


def launch(
    cluster: Cluster, daemon: StartDaemon, tap: Tap, machines: int = MACHINES,
    program: tuple[str, ...] = SERVICE, idle_s: float = 0.9, drain: bool = True,
) -> Daemon:  # fmt: skip
    """So many machines, each with a job of its own at first. No more can come for what is injected."""
    elastiq = daemon(
        program, tap, quota={"max_vms": machines},
        elastiq={"idle_for_time_s": idle_s}, htcondor={"drain": "yes" if drain else "no"},
    )  # fmt: skip
    cluster.submit(machines, 2, "request_cpus = 4")
    return elastiq


def assert_all_ran(cluster: Cluster, injector: Injector, deadline_s: float, elastiq: Daemon, counter: str) -> None:
    """All runs were made and noticed, every job ended at its first start, and the machines are gone."""
    wait_for(lambda: injector.injected == injector.runs, deadline_s, f"{injector.runs} jobs were started")
    wait_for(cluster.all_jobs_ran, 60, "all jobs left the queue")
    cluster.assert_no_job_lost()
    # How many depends on how busy the machine is; that they matter is what the last test shows.
    assert elastiq.status()["counters"].get(counter), "some of them were in the daemon's way"
    wait_for(lambda: not cluster.ec2.alive(), 60, "the idle machines are ended")


@pytest.mark.timeout(800, func_only=True)
def test_a_hundred_jobs_that_start_between_the_last_idle_read_and_the_drain_are_not_lost(
    cluster: Cluster, daemon: StartDaemon, tap: Tap
) -> None:
    injector = Injector(cluster, tap, RUNS)
    injector.before_drain()
    elastiq = launch(cluster, daemon, tap)
    assert_all_ran(cluster, injector, 300, elastiq, "drains_busy")


@pytest.mark.timeout(800, func_only=True)
def test_a_hundred_jobs_that_start_between_the_drain_and_the_end_are_not_lost(
    cluster: Cluster, daemon: StartDaemon, tap: Tap
) -> None:
    injector = Injector(cluster, tap, RUNS)
    injector.after_drain()
    elastiq = launch(cluster, daemon, tap)
    assert_all_ran(cluster, injector, 300, elastiq, "drains_slipped_in")


def test_without_a_drain_jobs_that_start_before_the_last_look_are_not_lost(
    cluster: Cluster, daemon: StartDaemon, tap: Tap
) -> None:
    injector = Injector(cluster, tap, 10, job_s=4)
    elastiq = launch(cluster, daemon, tap, machines=5, idle_s=2.5, drain=False)
    injector.after_decisive_read(elastiq, 2.5)
    assert_all_ran(cluster, injector, 120, elastiq, "drains_slipped_in")


def test_jobs_that_come_when_the_machine_is_drained_already_run_on_another(
    cluster: Cluster, daemon: StartDaemon, tap: Tap
) -> None:
    left = 1

    def after(argv: list[str], code: int, _: str) -> None:
        nonlocal left
        if code == 0 and left:
            left -= 1
            cluster.submit(1, 1)

    tap.on("condor_drain", after=after)
    launch(cluster, daemon, tap, machines=1)
    wait_for(lambda: not left and cluster.all_jobs_ran(), 120, "all jobs ran")
    cluster.assert_no_job_lost()


@pytest.mark.parametrize("safeguard", ["check", "second look", "second look, no drain"])
def test_a_daemon_without_its_safeguard_loses_jobs_in_these_tests(
    cluster: Cluster, daemon: StartDaemon, tap: Tap, safeguard: str
) -> None:
    """The tests above prove something only if they fail for a daemon that has the fault."""
    injector = Injector(cluster, tap, 2, job_s=10)
    if safeguard == "check":
        injector.before_drain(strip_check=True)
        launch(cluster, daemon, tap, machines=2)
    elif safeguard == "second look":
        injector.after_drain()
        launch(cluster, daemon, tap, machines=2, program=HASTY)
    else:
        elastiq = launch(cluster, daemon, tap, machines=2, program=HASTY, idle_s=2.5, drain=False)
        injector.after_decisive_read(elastiq, 2.5)
    wait_for(cluster.lost_jobs, 60, "a job is lost")
