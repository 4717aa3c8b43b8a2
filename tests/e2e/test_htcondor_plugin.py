"""The HTCondor plugin on a real pool, as the daemon's unprivileged user with its token."""

from __future__ import annotations

import base64
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq.interfaces import DrainOutcome, Resources, SourceError, Worker, WorkerState
from tests.e2e.cluster import RUNNING, Cluster, stays, wait_for
from tests.e2e.rig import htcondor, places, user, worker
from tests.e2e.rig.condor_config import DAEMON_IDENTITY, WorkerOptions

ADDRESS = "172.31.210.1"
MACHINE = "ip-172-31-210-1.ec2.internal"
HEAD = "0123456789abcdef0123"
WEEKS = 31_536_000

# The answer, or the error, of one expression over the plugin; with the size of what the commands printed.
_SCRIPT = f"""
import base64, pickle, sys
from elastiq.interfaces import DrainMode, Owner, SourceError
from elastiq.plugins.batch import htcondor
from tests.looks import levels
batch = htcondor.HTCondor.from_config({{o.name: o.default for o in htcondor.OPTIONS}}, Owner("e2e", "{HEAD}"))
real_run, printed = htcondor.run, []
def run(*args, **more):
    result = real_run(*args, **more)
    printed.append(len(result.stdout))
    return result
htcondor.run = run
try:
    answer = eval(sys.argv[1])
except SourceError as error:
    answer = error
print(base64.b64encode(pickle.dumps((answer, sum(printed)))).decode())
"""


def ask(expression: str, **variables: str) -> tuple[Any, int]:
    environment = {**user.environment(Path("/nonexistent")), **variables}
    argv = user.as_daemon([sys.executable, "-c", _SCRIPT, expression], environment)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer, size = pickle.loads(base64.b64decode(done.stdout))
    return answer, int(size)


def plugin(expression: str, **variables: str) -> Any:
    answer, _ = ask(expression, **variables)
    if isinstance(answer, SourceError):
        raise answer
    return answer


def drain(mode: str = "IF_IDLE", **variables: str) -> Any:
    return plugin(f"batch.drain({MACHINE!r}, DrainMode.{mode})", **variables)


def seen() -> Worker:
    (found,) = [one for one in plugin("batch.workers()").workers if one.name == MACHINE]
    assert isinstance(found, Worker)
    return found


@pytest.fixture
def machine(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A worker of four cpus; parametrize indirectly with its `WorkerOptions`."""
    worker.boot(ADDRESS, getattr(request, "param", WorkerOptions(published_id="i-0e2e")))
    try:
        wait_for(lambda: MACHINE in cluster.machines(), 20, "the worker joins")
        yield MACHINE
    finally:
        worker.halt(ADDRESS)


@pytest.fixture
def read_only(cluster: Cluster) -> Iterator[str]:
    """A directory with a token of the daemon's identity that is good for reading only."""
    directory = places.base() / "tokens-read"
    directory.mkdir(mode=0o700)
    token = directory / "elastiq"
    argv = ["condor_token_create", "-identity", DAEMON_IDENTITY, "-authz", "READ"]
    token.write_text(htcondor.as_root(argv))
    token.chmod(0o600)
    for path in (directory, token):
        os.chown(path, places.DAEMON_UID, places.DAEMON_UID)
    yield str(directory)
    shutil.rmtree(directory)


patient = pytest.mark.parametrize("machine", [WorkerOptions(retirement_s=WEEKS)], indirect=True)


def test_a_worker_is_described_by_its_ads(machine: str) -> None:
    found = seen()
    assert (found.state, found.jobs, found.instance_id) == (WorkerState.IDLE, 0, "i-0e2e")
    assert found.addresses == {ADDRESS}
    assert (found.total.cpus, found.total.memory_mb, found.free.cpus) == (4, 8192, 4)
    assert found.job_starts == 0 and found.started_at is not None


def test_four_idle_and_two_running_jobs_are_told_apart(cluster: Cluster, machine: str) -> None:
    cluster.submit(6, 120, "request_cpus = 2")
    wait_for(lambda: len(cluster.jobs(RUNNING)) == 2, 30, "two jobs run")
    (group,) = plugin("batch.jobs()").groups
    assert (group.waiting, group.running) == (4, 2)
    assert group.requirements == ""
    assert group.request == Resources(cpus=2, memory_mb=64, disk_mb=1)
    wait_for(lambda: (seen().jobs, seen().free.cpus) == (2, 0), 20, "the ads show both")
    assert seen().state is WorkerState.BUSY and seen().job_starts == 2


def test_what_is_measured_of_jobs_neither_splits_a_shape_nor_changes_its_key(cluster: Cluster, machine: str) -> None:
    default = ("request_memory =", "request_disk =", "request_cpus = 4")
    cluster.submit(1, 120, *default, "My.ImageSize = 900000", "My.DiskUsage = 40000")
    wait_for(lambda: cluster.jobs(RUNNING), 30, "a job runs")
    cluster.submit(3, 120, *default, "My.ImageSize = 1000 + 7000 * $(Process)", "My.DiskUsage = 1 + $(Process)")
    first = plugin("batch.jobs()").groups
    assert [(group.waiting, group.running, group.request) for group in first] == [(3, 1, Resources(cpus=4))]
    cluster.submit(1, 120, *default, "My.ImageSize = 5")
    assert [(group.key, group.waiting) for group in plugin("batch.jobs()").groups] == [(first[0].key, 4)]


def test_ten_thousand_idle_jobs_are_one_small_answer(cluster: Cluster) -> None:
    cluster.submit(10_000, 60)
    answer, printed = ask("batch.jobs()")
    assert [group.waiting for group in answer.groups] == [10_000]
    assert printed < 5_000, "bytes that HTCondor printed"


def test_jobs_that_no_worker_runs_are_no_demand(cluster: Cluster) -> None:
    cluster.submit(3, 60, "hold = true")
    cluster.submit(2, 60, 'My.RoutedToJobId = "77.0"')
    cluster.submit(20, 60, "max_idle = 5")
    cluster.submit(4, 60, "requirements = false")
    wait_for(lambda: len(cluster.jobs()) == 14, 20, "the factory makes its first jobs")
    groups = plugin("batch.jobs()").groups
    assert sorted((group.waiting, bool(group.not_eligible)) for group in groups) == [(4, True), (5, False)]


def test_an_idle_worker_is_drained_and_takes_no_job_until_it_is_returned(cluster: Cluster, machine: str) -> None:
    assert drain().outcome is DrainOutcome.DRAINED
    wait_for(lambda: seen().state is WorkerState.DRAINED, 10, "the ad shows the drain")
    assert HEAD[:16] in (seen().drained_by or "")
    assert drain().outcome is DrainOutcome.DRAINED, "a second time, as after a restart"
    cluster.submit(1, 1)
    stays(lambda: not cluster.jobs(RUNNING), 5, "the job waits")
    plugin(f"batch.undrain({MACHINE!r})")
    plugin(f"batch.undrain({MACHINE!r})")
    wait_for(cluster.all_jobs_ran, 30, "the job ran")
    cluster.assert_no_job_lost()


def test_one_busy_slot_of_many_refuses_the_drain_and_its_job_goes_on(cluster: Cluster, machine: str) -> None:
    cluster.run_on(MACHINE, 8)
    answer = drain()
    assert answer.outcome is DrainOutcome.BUSY, answer
    assert drain("PEACEFUL").outcome is DrainOutcome.REFUSED, "it would evict: no retirement time"
    assert dict(plugin(f"batch.jobs_recorded_on([{MACHINE!r}, 'other'])")) == {MACHINE: 1, "other": 0}
    wait_for(cluster.all_jobs_ran, 30, "the job ran")
    cluster.assert_no_job_lost()
    assert WorkerState.DRAINING not in {seen().state}


@patient
def test_a_peaceful_drain_lets_the_job_end_and_nothing_else_start(cluster: Cluster, machine: str) -> None:
    cluster.run_on(MACHINE, 8)
    # refused until the startd has worked out what the new job may still have
    wait_for(lambda: drain("PEACEFUL").outcome is DrainOutcome.DRAINED, 6, "it may be drained")
    later = cluster.submit(1, 1)
    wait_for(lambda: (seen().state, seen().jobs) == (WorkerState.DRAINING, 1), 10, "it drains with its job")
    wait_for(lambda: seen().state is WorkerState.DRAINED, 30, "the job ended")
    assert [job["ClusterId"] for job in cluster.jobs()] == [later]
    plugin(f"batch.undrain({MACHINE!r})")
    wait_for(cluster.all_jobs_ran, 30, "the other job ran")
    cluster.assert_no_job_lost()


def test_a_drain_that_somebody_else_began_is_left_alone(cluster: Cluster, machine: str) -> None:
    htcondor.as_root(["condor_drain", "-graceful", "-reason", "new kernel", MACHINE])
    wait_for(lambda: seen().drained_by == "new kernel", 10, "the ad shows the drain")
    assert drain().outcome is DrainOutcome.REFUSED
    with pytest.raises(SourceError, match="someone else"):
        plugin(f"batch.undrain({MACHINE!r})")
    assert seen().state is WorkerState.DRAINED


def test_with_a_token_that_may_only_read_it_may_not_drain_and_says_what_to_do(machine: str, read_only: str) -> None:
    answer = drain(_CONDOR_SEC_TOKEN_DIRECTORY=read_only)
    assert answer.outcome is DrainOutcome.REFUSED
    assert "docs/htcondor.md" in answer.detail
    found = plugin("levels(batch.checks())")
    assert set(found.values()) == {"ok"}
    found = plugin("levels(batch.checks())", _CONDOR_SEC_TOKEN_DIRECTORY=read_only)
    assert [subject for subject, level in found.items() if level == "error"] == ["drain"]
    assert seen().state is WorkerState.IDLE


def test_jobs_of_a_machine_that_died_stay_recorded(cluster: Cluster, machine: str) -> None:
    cluster.run_on(MACHINE, 120)
    wait_for(lambda: htcondor.queue("ProcId", "JobCurrentStartExecutingDate > 0"), 20, "the job has begun")
    worker.halt(ADDRESS, silently=True)
    assert dict(plugin(f"batch.jobs_recorded_on([{MACHINE!r}])")) == {MACHINE: 1}
    with pytest.raises(SourceError):  # unknown: nobody is there to answer
        drain()
    plugin(f"batch.forget({MACHINE!r})")
    assert plugin("batch.workers()").workers == ()


def test_a_collector_that_is_away_is_unknown_and_one_that_came_back_is_young(cluster: Cluster, machine: str) -> None:
    wait_for(lambda: plugin("batch.workers()").source_up_s, 30, "the collector says its age")
    htcondor.switch_collector(False)
    try:
        for call in ("batch.workers()", "batch.jobs()"):
            with pytest.raises(SourceError, match="condor_status failed"):
                plugin(call)
    finally:
        htcondor.switch_collector(True)
    young = plugin("batch.workers()")
    assert young.source_up_s is None or young.source_up_s < 20
    wait_for(lambda: [one.name for one in plugin("batch.workers()").workers] == [MACHINE], 30, "it is known again")
    assert plugin("batch.workers()").source_up_s < 60


def test_the_workers_read_lists_the_schedds_so_that_the_queue_is_one_command(cluster: Cluster) -> None:
    both = "(batch.jobs(), batch.workers(), printed.clear(), batch.jobs(), len(printed))[-1]"
    assert wait_for(lambda: plugin(both) == 1, 20, "the schedd's ad is in the collector's answer")
