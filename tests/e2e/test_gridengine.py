"""elastiq with a real Grid Engine, of Debian 12 and of Debian 13: its hosts come and go with the jobs."""

from __future__ import annotations

import time
from typing import Any, Iterator

import pytest

from elastiq.errors import SourceError
from elastiq.interfaces import DrainMode, DrainOutcome, Instance, InstanceState, Owner, WorkerState
from elastiq.plugins.batch.gridengine import GridEngine
from tests.e2e.cluster import stays, wait_for
from tests.e2e.conftest import FAILED, StartDaemon, cannot, daemons
from tests.e2e.gridengine_cluster import GridEngineCluster
from tests.e2e.rig import gridengine as rig
from tests.e2e.rig.process import RigError
from tests.e2e.tap import Tap
from tests.looks import found

# What may differ between versions is tried with each; they are built from the same source.
everywhere = pytest.mark.parametrize("engine", rig.SUITES, indirect=True, scope="module")
once = pytest.mark.parametrize("engine", rig.SUITES[-1:], indirect=True, scope="module")


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[rig.GridEngine]:
    try:
        made = rig.GridEngine.start(request.param)
    except RigError as error:
        cannot(f"no Grid Engine of {request.param} can be run", error)
    yield made
    made.stop()


@pytest.fixture
def cluster(engine: rig.GridEngine, request: pytest.FixtureRequest) -> Iterator[GridEngineCluster]:
    """No job, no instance, no host but the head, whose queue has no slot there."""
    engine.reset()
    made = GridEngineCluster(engine)
    yield made
    if request.node.stash.get(FAILED, False):
        print(made.evidence())


@pytest.fixture
def daemon(cluster: GridEngineCluster, request: pytest.FixtureRequest) -> Iterator[StartDaemon]:
    yield from daemons(request, cluster.surroundings())


@pytest.fixture
def tap(cluster: GridEngineCluster) -> Iterator[Tap]:
    tap = Tap(cluster.engine.tools.parent / "taps", cluster.engine.tools)
    yield tap
    tap.close()


@everywhere
def test_jobs_get_machines_which_end_when_there_is_no_job_any_more(
    cluster: GridEngineCluster, daemon: StartDaemon
) -> None:
    for _ in range(6):
        cluster.submit(3)
    cluster.submit(3, "-pe", "smp", "4")
    daemon()
    wait_for(lambda: cluster.over() == 7, 40, "all jobs are over")
    cluster.assert_no_job_lost(7)
    assert cluster.launched() == 3, "room for 10 slots, 4 of them on one host"
    cluster.wait_until_gone(40)
    assert len(cluster.ended_ids()) == 3


@once
def test_an_array_gets_as_many_machines_as_may_run_at_once(cluster: GridEngineCluster, daemon: StartDaemon) -> None:
    cluster.submit(2, "-pe", "smp", "4", "-t", "1-6", "-tc", "2")
    daemon()
    wait_for(lambda: cluster.over() == 6, 60, "all tasks are over")
    cluster.assert_no_job_lost(6)
    assert cluster.launched() == 2


@once
def test_a_parallel_job_runs_across_the_machines_that_were_launched_for_it(
    cluster: GridEngineCluster, daemon: StartDaemon
) -> None:
    cluster.submit(4, "-pe", "mpi", "10")
    daemon()
    wait_for(lambda: cluster.queue("r"), 40, "the job runs")
    assert len(cluster.ec2.alive()) == 3
    wait_for(lambda: cluster.over() == 1, 20, "the job is over")
    cluster.assert_no_job_lost(1)
    assert cluster.launched() == 3


@once
def test_jobs_that_wait_for_something_else_get_no_machine(cluster: GridEngineCluster, daemon: StartDaemon) -> None:
    held = cluster.submit(1, "-h")
    cluster.submit(1, "-hold_jid", held)
    cluster.submit(1, "-a", "203001010000")
    elastiq = daemon()
    wait_for(lambda: elastiq.status().get("sources"), 10, "a status")
    stays(lambda: not cluster.launched(), 5, "nothing is launched")
    cluster.engine.ask("qrls", held)
    wait_for(lambda: cluster.over() == 2, 40, "what was held, and what waited for it, ran")
    cluster.assert_no_job_lost(2)
    assert cluster.launched() == 1


@once
def test_a_job_that_slips_in_while_its_host_is_drained_is_not_lost(
    cluster: GridEngineCluster, daemon: StartDaemon, tap: Tap
) -> None:
    cluster.submit(1)
    slipped: list[str] = []

    def before(argv: list[str]) -> None:
        if argv[0] == "-d" and not slipped:
            slipped.append(cluster.submit(6))
            wait_for(lambda: [row for row in cluster.queue("r") if row.job == slipped[0]], 20, "it runs")

    tap.on("qmod", before=before)
    daemon(taps=tap)
    wait_for(lambda: slipped and cluster.over() == 2, 60, "the job that slipped in is over")
    cluster.assert_no_job_lost(2)
    assert cluster.launched() == 1
    cluster.wait_until_gone(40)


@once
def test_a_host_that_dies_silently_is_replaced_and_its_instance_ended(
    cluster: GridEngineCluster, daemon: StartDaemon
) -> None:
    job = cluster.submit(12)
    daemon()
    (row,) = wait_for(lambda: cluster.queue("r"), 40, "the job runs")
    (instance,) = cluster.ec2.alive()
    cluster.host(row.host).kill()
    wait_for(lambda: instance["id"] in cluster.ended_ids(), 60, "the instance of the dead host is ended")
    wait_for(lambda: [one for one in cluster.queue("Rr") + cluster.queue("r") if one.host != row.host], 60, "it runs")
    wait_for(lambda: [one for one in cluster.engine.accounts() if one["failed"] == "0"], 60, "the job is over")
    assert {one["job"] for one in cluster.engine.accounts()} == {job}
    cluster.wait_until_gone(40)
    assert cluster.launched() == 2


@once
def test_the_master_may_be_killed_and_come_back_and_nothing_is_ended_or_launched_meanwhile(
    cluster: GridEngineCluster, daemon: StartDaemon
) -> None:
    cluster.engine.configure(reschedule_unknown="00:05:00")  # else it starts them anew: it has not heard from the hosts
    for _ in range(2):
        cluster.submit(14, "-pe", "smp", "4")
    daemon()
    wait_for(lambda: len(cluster.queue("r")) == 2, 40, "both jobs run")
    cluster.engine.kill_qmaster()
    stays(lambda: not cluster.ended_ids() and cluster.launched() == 2, 5, "the instances are left alone")
    cluster.engine.start_qmaster()
    wait_for(lambda: cluster.over() == 2, 40, "both jobs are over")
    cluster.assert_no_job_lost(2)
    assert cluster.launched() == 2
    cluster.wait_until_gone(40)


@once
def test_a_daemon_that_is_killed_with_a_drain_pending_takes_its_own_drain_up_and_leaves_a_persons_alone(
    cluster: GridEngineCluster, daemon: StartDaemon
) -> None:
    for _ in range(2):
        cluster.submit(4, "-pe", "smp", "4")
    cluster.ec2.fault("TerminateInstances", hold="before")
    elastiq = daemon()
    wait_for(lambda: len(cluster.queue("r")) == 2, 40, "two hosts with a job on each")
    one, two = sorted(cluster.in_service())
    cluster.engine.ask("qmod", "-d", f"all.q@{one}")
    wait_for(lambda: "d" in cluster.states()[two]["all.q"], 60, "elastiq has disabled the other")
    elastiq.kill()
    marks = [group for group in cluster.engine.ask("qconf", "-shgrpl").split() if group.startswith("@elastiq.")]
    assert [cluster.members(group) for group in marks] == [[two]]
    cluster.ec2.release(discard=True)
    for _ in range(2):
        cluster.submit(3, "-pe", "smp", "4")
    time.sleep(1)
    elastiq.start()
    wait_for(lambda: cluster.over() == 4, 60, "the new jobs ran: on the host that elastiq had disabled")
    cluster.assert_no_job_lost(4)
    assert "d" in cluster.states()[one]["all.q"], "what a person has disabled stays so"


@once
def test_a_daemon_that_is_killed_at_any_time_launches_nothing_twice_and_ends_what_it_launched(
    cluster: GridEngineCluster, daemon: StartDaemon
) -> None:
    cluster.ec2.behave(boot_s=3)
    cluster.submit(4, "-pe", "mpi", "8")
    elastiq = daemon()
    wait_for(lambda: cluster.ec2.alive(), 20, "a launch")
    elastiq.kill()
    elastiq.start()
    wait_for(lambda: cluster.queue("r"), 40, "the job runs")
    elastiq.kill()
    time.sleep(1)
    elastiq.start()
    wait_for(lambda: cluster.over() == 1, 20, "the job is over")
    cluster.assert_no_job_lost(1)
    assert cluster.launched() == 2
    cluster.wait_until_gone(60)


# --------------------------------------------------------------------------- the plugin alone


@pytest.fixture
def batch(cluster: GridEngineCluster, monkeypatch: pytest.MonkeyPatch) -> GridEngine:
    monkeypatch.setenv("PATH", str(cluster.engine.tools), prepend=":")
    values: dict[str, Any] = {option.name: option.default for option in GridEngine.OPTIONS}
    values.update(cluster.surroundings().sections["gridengine"])
    return GridEngine.from_config(values, Owner("e2e", "0123456789abcdef0123"))


@everywhere
def test_the_queue_is_read_as_it_is(cluster: GridEngineCluster, batch: GridEngine) -> None:
    cluster.submit(60, "-t", "1-100", "-tc", "7", "-l", "h_vmem=1G")
    cluster.submit(60, "-t", "2-20:2")
    cluster.submit(60, "-pe", "smp", "2-4", "-l", "mf=1G,h_rt=1:0:0")
    cluster.submit(60, "-pe", "mpi", "6")
    cluster.submit(60, "-N", "a&b<c>'\"", "-q", "*.q,all.q", "-l", "a=lx*")
    cluster.submit(60, "-h")
    groups = {
        (group.request.cpus, group.request.memory_mb, group.nodes, group.ad): group for group in batch.jobs().groups
    }
    odd = ("arch == lx*", "queues = *.q, all.q")
    assert {shape: group.waiting for shape, group in groups.items()} == {
        (1, 1024, 1, ()): 7,
        (1, None, 1, ()): 10,
        (2, 1024, 1, ("pe = smp",)): 1,
        (1, None, 6, ("pe = mpi",)): 1,
        (1, None, 1, odd): 1,
    }
    for group in groups.values():
        key, words = batch.find_job(group.sample_job)
        assert key == group.key and "waits" in words
    assert batch.workers().workers == ()


@everywhere
def test_a_host_is_registered_drained_undrained_and_removed(cluster: GridEngineCluster, batch: GridEngine) -> None:
    made = cluster.ec2.make(worker=True)
    (address,) = [one["address"] for one in cluster.ec2.instances()]
    instance = Instance(made, InstanceState.RUNNING, frozenset({address}), pool="ec2", flavour="c5.xlarge")
    for _ in range(2):
        batch.register(instance)
    (worker,) = wait_for(lambda: batch.workers().workers, 40, "the host joins")
    assert (worker.state, worker.addresses, worker.total.cpus) == (WorkerState.IDLE, {address}, 4)
    assert "queues = all.q" in batch.portrait(worker.name)
    up_s = batch.workers().source_up_s
    assert up_s is not None and 0 <= up_s < 600

    assert batch.drain(worker.name, DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    (drained,) = batch.workers().workers
    assert drained.state is WorkerState.DRAINED and drained.drained_by == "elastiq 0123456789abcdef"
    assert batch.portrait(worker.name) == ""
    batch.undrain(worker.name)
    job = cluster.submit(300)
    wait_for(lambda: cluster.queue("r"), 40, "the job runs")
    (busy,) = batch.workers().workers
    assert (busy.state, busy.jobs, busy.free.cpus, busy.drained_by) == (WorkerState.BUSY, 1, 3, None)
    assert batch.jobs_on(worker.name) == (f"{job} (jobuser)",)
    assert batch.drain(worker.name, DrainMode.IF_IDLE).outcome is DrainOutcome.BUSY
    assert batch.drain(worker.name, DrainMode.PEACEFUL).outcome is DrainOutcome.DRAINED
    assert batch.workers().workers[0].state is WorkerState.DRAINING
    with pytest.raises(SourceError, match=job):
        batch.unregister(instance)
    assert dict(batch.jobs_recorded_on([worker.name])) == {worker.name: 1}
    cluster.engine.ask("qdel", "-f", job)
    wait_for(lambda: not cluster.queue(), 20, "the job is gone")
    batch.unregister(instance)
    assert cluster.known() == set() and batch.workers().workers == ()


@once
def test_who_is_no_manager_may_read_and_is_refused_the_rest(cluster: GridEngineCluster, batch: GridEngine) -> None:
    cluster.engine.ask("qconf", "-dm", "elastiq")
    made = cluster.ec2.make(worker=True)
    (address,) = [one["address"] for one in cluster.ec2.instances()]
    name = "ip-" + address.replace(".", "-")
    for words in (("-ah", name), ("-aattr", "hostgroup", "hostlist", name, "@allhosts")):
        cluster.engine.ask("qconf", *words)
    wait_for(lambda: batch.workers().workers, 40, "the host joins")
    answer = batch.drain(name, DrainMode.IF_IDLE)
    assert answer.outcome is DrainOutcome.REFUSED and "must be manager" in answer.detail
    assert batch.workers().workers[0].state is WorkerState.IDLE
    with pytest.raises(SourceError, match="must be manager"):
        batch.register(Instance(made, InstanceState.RUNNING, frozenset({address})))


@once
def test_the_checks_know_a_real_cluster(cluster: GridEngineCluster, batch: GridEngine) -> None:
    levels = {check.subject: check.level for check in found(batch.checks())}
    assert levels.pop("rights") in ("ok", "warning")  # the machine that runs the tests is no host of the cluster
    here = levels.pop("commands")  # the commands are found; sge_root lies in the hosts' own system
    assert set(levels.values()) == {"ok"} and here == "error", levels
    cluster.engine.kill_qmaster()
    levels = {check.subject: check.level for check in found(batch.checks())}
    assert levels.pop("commands") == here and not set(levels.values()) & {"ok", "warning"}, levels
    cluster.engine.start_qmaster()
