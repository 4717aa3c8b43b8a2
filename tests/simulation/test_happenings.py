"""Each kind of happening does what it says, seen through the two contracts; and ends."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import pytest

from elastiq.interfaces import (
    AuthError,
    CapacityError,
    ConfigurationError,
    DrainMode,
    DrainOutcome,
    EndOutcome,
    Instance,
    InstanceState,
    LaunchError,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
    WorkerState,
)
from elastiq.simulation.happenings import KINDS
from elastiq.simulation.model import JobState, Machine
from tests.simulation.stages import FOR_EVER, POOL, SETTINGS, Scene

Check = Callable[[Scene], None]
CHECKS: dict[str, Check] = {}
IF_IDLE = DrainMode.IF_IDLE
TOO_LATE_S = 130.0


def shows(check: Check) -> Check:
    """The function's name is the kind that it looks at."""
    CHECKS[check.__name__] = check
    return check


@pytest.fixture
def scene(tmp_path: Path) -> Any:
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_happening_does_what_its_kind_says(kind: str, scene: Scene) -> None:
    CHECKS[kind](scene)


def fails(call: Callable[[], object], error: type[Exception]) -> Exception:
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value).strip() and "\n" not in str(caught.value)
    return caught.value


def launch_fails(scene: Scene, error: type[LaunchError], launched_nothing: bool, made: int) -> None:
    caught = fails(lambda: scene.launch(2), error)
    assert isinstance(caught, LaunchError) and caught.launched_nothing is launched_nothing
    assert len(scene.world.machines) == made


# --------------------------------------------------------------------------- the queue


@shows
def jobs(scene: Scene) -> None:
    scene.befall("jobs", cpus=2.0, memory_mb=1000.0, lengths=[10.0, 20.0])
    scene.befall("jobs", cpus=1.0, lengths=[10.0], held=True, released_after_s=100.0)
    scene.befall("jobs", cpus=99.0, lengths=[10.0], removed_after_s=200.0)
    scene.befall("jobs", cpus=1.0, lengths=[10.0], not_eligible="needs a licence")
    scene.befall("jobs", cpus=1.0, lengths=[10.0], matches=False)

    def waiting() -> list[tuple[float, int, str]]:
        return sorted((group.request.cpus or 0, group.waiting, group.not_eligible) for group in scene.jobs().groups)

    always = [(1.0, 1, ""), (1.0, 1, "needs a licence"), (2.0, 2, "")]
    assert waiting() == sorted([*always, (99.0, 1, "")])
    scene.run(150.0)
    assert waiting() == sorted([*always, (1.0, 1, ""), (99.0, 1, "")])
    scene.run(100.0)
    assert waiting() == sorted([*always, (1.0, 1, "")])
    scene.workers_up(2)
    scene.run(200.0)
    assert waiting() == always[:2]  # what no worker ever takes


# --------------------------------------------------------------------------- workers


@shows
def worker_vanishes(scene: Scene) -> None:
    first, second = scene.workers_up(2)
    (job,) = scene.submit(length_s=100.0)
    scene.run(30.0)
    scene.befall("worker_vanishes", which=0.0, for_s=300.0)
    assert scene.names() == {second.name}
    scene.run(200.0)
    assert job.state is JobState.DONE
    scene.run(110.0)
    assert scene.names() == {first.name, second.name}


@shows
def worker_crashes(scene: Scene) -> None:
    (worker,) = scene.workers_up()
    scene.submit()
    scene.run(30.0)
    scene.befall("worker_crashes", which=0.5, back_s=60.0)
    assert scene.names() == set()
    assert scene.batch.jobs_recorded_on([worker.name]) == {worker.name: 1}
    scene.run(70.0)
    (row,) = scene.workers().workers
    assert (row.name, row.jobs, row.state) == (worker.name, 0, WorkerState.IDLE)
    assert row.started_at is not None and row.started_at > worker.started_at


@shows
def collector_restarts(scene: Scene) -> None:
    scene.workers_up(4)
    scene.befall("collector_restarts", for_s=200.0)
    view = scene.workers()
    assert (view.workers, view.source_up_s, view.missing) == ((), 0.0, ())
    scene.run(100.0)
    assert 0 < len(scene.names()) < 4
    scene.run(100.0)
    assert len(scene.names()) == 4


@shows
def stale_ads(scene: Scene) -> None:
    (worker,) = scene.workers_up()
    scene.befall("stale_ads", for_s=1000.0, stay_s=400.0)
    assert worker.machine is not None
    scene.world.interrupt(worker.machine)
    scene.run(390.0)
    assert scene.names() == {worker.name}
    assert scene.batch.drain(worker.name, IF_IDLE).outcome is DrainOutcome.REFUSED
    scene.run(20.0)
    assert scene.names() == set()


@shows
def admin_drains(scene: Scene) -> None:
    (worker,) = scene.workers_up()
    scene.befall("admin_drains", which=0.0, for_s=300.0)
    (row,) = scene.workers().workers
    assert (row.state, row.drained_by) == (WorkerState.DRAINED, "maintenance by alice")
    assert scene.batch.drain(worker.name, IF_IDLE).outcome is DrainOutcome.REFUSED
    scene.run(301.0)
    assert scene.workers().workers[0].state is WorkerState.IDLE


@shows
def admin_undrains(scene: Scene) -> None:
    (worker,) = scene.workers_up()
    scene.batch.drain(worker.name, IF_IDLE)
    scene.befall("admin_undrains")
    assert scene.workers().workers[0].state is WorkerState.IDLE


@shows
def static_worker(scene: Scene) -> None:
    scene.befall("static_worker", name="desk7", address="10.8.0.1", cpus=2.0, for_s=100.0)
    (row,) = scene.workers().workers
    assert (row.name, row.addresses, row.total.cpus) == ("desk7", frozenset({"10.8.0.1"}), 2.0)
    assert scene.instances().owned == ()
    scene.run(101.0)
    assert scene.names() == set()


# --------------------------------------------------------------------------- machines


@shows
def interruption(scene: Scene) -> None:
    scene.workers_up(3)
    (job,) = scene.submit()
    scene.run(30.0)
    scene.befall("interruption", which=0.0, count=1)
    states = [one.state for one in scene.instances().owned]
    assert states == [InstanceState.SHUTTING_DOWN, InstanceState.RUNNING, InstanceState.RUNNING]
    assert (scene.world.tally.lost, scene.world.tally.killed, job.state) == (1, 0, JobState.RUNNING)
    scene.run(30.0)
    assert scene.instances().owned[0].state is InstanceState.TERMINATED
    assert len(scene.names()) == 2


@shows
def notice(scene: Scene) -> None:
    first, second = scene.workers_up(2)
    scene.befall("notice", which=0.0, count=1, ahead_s=120.0)
    assert [bool(one.notice) for one in scene.instances().owned] == [True, False]
    scene.run(119.0)
    assert scene.names() == {first.name, second.name}
    scene.run(2.0)
    assert scene.names() == {second.name}


@shows
def turned_by_hand(scene: Scene) -> None:
    first, second = stopped(scene, 2)
    scene.befall("turned_by_hand", which=0.0, how="start")
    scene.befall("turned_by_hand", which=0.0, how="terminate")
    states = [one.state for one in scene.instances().owned]
    assert states == [InstanceState.PENDING, InstanceState.SHUTTING_DOWN]
    scene.run(100.0)
    assert first.worker is not None and second.worker is None


@shows
def instance_store(scene: Scene) -> None:
    scene.befall("instance_store", for_s=10.0)
    (bad,) = scene.launch()
    scene.run(11.0)
    (good,) = scene.launch()
    scene.run(120.0)
    answers = scene.cloud.stop([bad.id, good.id])
    assert [answers[one.id].outcome for one in (bad, good)] == [EndOutcome.FAILED, EndOutcome.ENDING]
    assert (bad.state, good.state) == (InstanceState.RUNNING, InstanceState.STOPPING)


@shows
def machine_falls(scene: Scene) -> None:
    for state in ("stopped", "error", "stopping"):
        scene.workers_up()
        scene.befall("machine_falls", which=0.99, state=state)
        assert scene.instances().owned[-1].state is InstanceState(state)
    scene.run(1000.0)
    assert scene.names() == set()


@shows
def machine_impaired(scene: Scene) -> None:
    (machine,) = scene.launch()
    scene.befall("machine_impaired", which=0.0, for_s=100.0)
    assert "impaired" in scene.cloud.problems([machine.id])[machine.id]
    scene.run(101.0)
    assert scene.cloud.problems([machine.id]) == {}


@shows
def black_hole(scene: Scene) -> None:
    for how, states in (("ends", {JobState.DONE}), ("loses", {JobState.RUNNING, JobState.WAITING})):
        (worker,) = scene.workers_up()
        scene.befall("black_hole", which=0.99, for_s=300.0, how=how)
        jobs = scene.submit(3, length_s=5000.0)
        scene.run(200.0)
        assert {job.state for job in jobs} <= states
        assert worker.job_starts >= 3 * (how == "loses") + 3
        scene.run(200.0)
        assert worker.machine is not None and not worker.machine.hole
        scene.world.interrupt(worker.machine)


@shows
def foreign_machines(scene: Scene) -> None:
    scene.befall("foreign_machines", whom="nobody", count=2, joins=True, for_s=300.0)
    scene.befall("foreign_machines", whom="another head", count=1, for_s=300.0)
    scene.befall("foreign_machines", whom="another cluster", count=1, for_s=300.0)
    scene.befall("foreign_machines", whom="head node", count=1, for_s=300.0)
    view = scene.instances()
    assert (len(view.owned), len(view.other_heads), view.foreign) == (0, 1, 3)
    assert scene.owner.instance_id in scene.world.machines
    scene.run(150.0)
    assert {row.addresses <= view.foreign_addresses for row in scene.workers().workers} == {True}
    assert len(scene.names()) == 2
    scene.run(200.0)
    assert scene.instances().foreign == 0 and scene.names() == set()


def born(scene: Scene, kind: str, **args: Any) -> tuple[Any, Any]:
    """A worker from a machine of the window, and one from after it; None for none."""
    scene.befall(kind, for_s=100.0, **args)
    (during,) = scene.launch()
    scene.run(101.0)
    (after,) = scene.launch()
    scene.run(2000.0)
    return during, after


@shows
def never_boots(scene: Scene) -> None:
    during, after = born(scene, "never_boots")
    assert (during.state, during.worker) == (InstanceState.PENDING, None) and after.worker is not None


@shows
def never_joins(scene: Scene) -> None:
    during, after = born(scene, "never_joins")
    assert (during.state, during.worker) == (InstanceState.RUNNING, None) and after.worker is not None


@shows
def publishes_id(scene: Scene) -> None:
    during, after = born(scene, "publishes_id")
    assert {row.instance_id for row in scene.workers().workers} == {during.id, None} and after.worker is not None


@shows
def no_instance_id(scene: Scene) -> None:
    scene.world.image.publishes_id = True
    _during, after = born(scene, "no_instance_id")
    assert {row.instance_id for row in scene.workers().workers} == {None, after.id}


@shows
def odd_names(scene: Scene) -> None:
    during, after = born(scene, "odd_names")
    assert during.address.replace(".", "-") not in during.worker.name
    assert after.address.replace(".", "-") in after.worker.name


@shows
def more_addresses(scene: Scene) -> None:
    during, after = born(scene, "more_addresses")
    rows = {row.name: row.addresses for row in scene.workers().workers}
    assert len(rows[during.worker.name]) == 3 and during.address in rows[during.worker.name]
    assert rows[after.worker.name] == {after.address}
    assert scene.owned()[during.id].addresses == {during.address}


@shows
def slow_boots(scene: Scene) -> None:
    during, after = born(scene, "slow_boots", times=10.0)
    assert during.worker.started_at - during.launched_at == pytest.approx(900.0)
    assert after.worker.started_at - after.launched_at == pytest.approx(90.0)


@shows
def boots_to_error(scene: Scene) -> None:
    during, after = born(scene, "boots_to_error")
    assert scene.owned()[during.id].state is InstanceState.ERROR
    assert scene.cloud.problems([during.id, after.id]).keys() == {during.id}


@shows
def born_holes(scene: Scene) -> None:
    scene.befall("born_holes", for_s=300.0, how="ends")
    (job,) = scene.submit(length_s=5000.0)
    scene.launch()
    scene.run(150.0)
    assert job.state is JobState.DONE
    scene.run(200.0)
    (job,) = scene.submit(length_s=5000.0)
    scene.run(100.0)
    assert job.state is JobState.RUNNING


@shows
def addresses_recycled(scene: Scene) -> None:
    scene.befall("addresses_recycled", for_s=1000.0)
    (old,) = scene.launch()
    scene.world.terminate(old)
    scene.run(60.0)
    young, other = scene.launch(2)
    assert young.address == old.address != other.address
    assert scene.owned()[old.id].state is InstanceState.TERMINATED


@shows
def flavour_limit(scene: Scene) -> None:
    scene.befall("flavour_limit", for_s=100.0, flavour="medium", limit=1)
    assert len(scene.launch(3)) == 1
    fails(scene.launch, CapacityError)
    assert len(scene.launch(3, flavour="large")) == 3
    scene.run(101.0)
    assert len(scene.launch(3)) == 3


@shows
def account_limit(scene: Scene) -> None:
    scene.befall("account_limit", for_s=100.0, limit=1)
    scene.launch()
    launch_fails(scene, QuotaError, True, made=1)
    scene.run(101.0)
    scene.launch(2)


@shows
def ended_linger(scene: Scene) -> None:
    scene.befall("ended_linger", for_s=100.0, linger_s=0.0)
    one, two = scene.launch(2)
    scene.world.terminate(one)
    scene.run(30.0)
    assert list(scene.owned()) == [two.id]
    scene.run(100.0)
    scene.world.terminate(two)
    scene.run(30.0)
    assert scene.owned()[two.id].state is InstanceState.TERMINATED


@shows
def cloud_clock(scene: Scene) -> None:
    scene.befall("cloud_clock", skew_s=-200.0)
    scene.launch()
    (one,) = scene.instances().owned
    assert one.launched_at == pytest.approx(scene.clock.time() - 200.0)


# --------------------------------------------------------------------------- the batch system's answers


@shows
def batch_fails(scene: Scene) -> None:
    scene.befall("batch_fails", for_s=100.0)
    for call in (scene.jobs, scene.workers, lambda: scene.batch.jobs_recorded_on(["w"])):
        fails(call, SourceError)
    scene.run(101.0)
    assert scene.jobs().groups == ()


@shows
def batch_hangs(scene: Scene) -> None:
    scene.befall("batch_hangs", for_s=1000.0, calls=["jobs"])
    assert scene.answered(lambda: fails(scene.jobs, SourceError)) >= 1000.0
    assert scene.answered(scene.workers) == 0.0


@shows
def batch_late(scene: Scene) -> None:
    scene.befall("batch_late", for_s=100.0, late_s=60.0)
    delays = [scene.answered(scene.workers) for _ in range(5)]
    assert all(0 < delay < 60.0 for delay in delays) and len(set(delays)) == 5


@shows
def batch_partial(scene: Scene) -> None:
    scene.workers_up(6)
    scene.submit(2)
    scene.befall("batch_partial", for_s=100.0)
    assert 0 < len(scene.names()) < 6
    assert scene.workers().missing and not scene.jobs().complete
    scene.run(101.0)
    assert len(scene.names()) == 6 and scene.jobs().complete


@shows
def batch_empty(scene: Scene) -> None:
    scene.workers_up(1)
    scene.submit(2)
    scene.befall("batch_empty", for_s=100.0)
    view = scene.workers()
    assert (view.workers, view.missing) == ((), ()) and (view.source_up_s or 0.0) > 3600.0
    assert scene.jobs().groups == () and scene.jobs().complete


@shows
def workers_missing(scene: Scene) -> None:
    scene.workers_up(6)
    scene.befall("workers_missing", for_s=100.0)
    names = scene.names()
    assert 0 < len(names) < 6 and scene.workers().missing == ()
    assert scene.names() == names


def drain_of_one(scene: Scene, kind: str, **args: Any) -> Any:
    """A worker that is idle, within the window."""
    (worker,) = scene.workers_up()
    scene.befall(kind, for_s=100.0, **args)
    return worker


@shows
def drain_refused(scene: Scene) -> None:
    worker = drain_of_one(scene, "drain_refused")
    assert scene.batch.drain(worker.name, IF_IDLE).outcome is DrainOutcome.REFUSED
    assert worker.drained_by is None


@shows
def drain_fails(scene: Scene) -> None:
    worker = drain_of_one(scene, "drain_fails")
    fails(lambda: scene.batch.drain(worker.name, IF_IDLE), SourceError)
    assert worker.drained_by is None


@shows
def drain_hangs(scene: Scene) -> None:
    worker = drain_of_one(scene, "drain_hangs")
    delay_s = scene.answered(lambda: fails(lambda: scene.batch.drain(worker.name, IF_IDLE), SourceError))
    assert delay_s >= TOO_LATE_S and worker.drained_by is None


@shows
def drain_not_done(scene: Scene) -> None:
    worker = drain_of_one(scene, "drain_not_done")
    assert scene.batch.drain(worker.name, IF_IDLE).outcome is DrainOutcome.DRAINED
    assert scene.workers().workers[0].state is WorkerState.IDLE


@shows
def drain_unheard(scene: Scene) -> None:
    worker = drain_of_one(scene, "drain_unheard")
    fails(lambda: scene.batch.drain(worker.name, IF_IDLE), SourceError)
    assert scene.workers().workers[0].state is WorkerState.DRAINED


@shows
def drain_answered_too_late(scene: Scene) -> None:
    worker = drain_of_one(scene, "drain_answered_too_late")
    assert scene.answered(lambda: scene.batch.drain(worker.name, IF_IDLE)) >= TOO_LATE_S
    assert scene.workers().workers[0].state is WorkerState.DRAINED


@shows
def drain_late(scene: Scene) -> None:
    worker = drain_of_one(scene, "drain_late", late_s=50.0)
    fails(lambda: scene.batch.drain(worker.name, IF_IDLE), SourceError)
    assert worker.drained_by is None
    scene.run(51.0)
    assert worker.drained_by is not None


@shows
def undrain_fails(scene: Scene) -> None:
    worker = drain_of_one(scene, "undrain_fails")
    scene.batch.drain(worker.name, IF_IDLE)
    fails(lambda: scene.batch.undrain(worker.name), SourceError)
    assert worker.drained_by is not None


@shows
def undrain_unheard(scene: Scene) -> None:
    worker = drain_of_one(scene, "undrain_unheard")
    scene.batch.drain(worker.name, IF_IDLE)
    fails(lambda: scene.batch.undrain(worker.name), SourceError)
    assert worker.drained_by is None


def asks(scene: Scene, kind: str, **args: Any) -> Machine:
    """A machine that runs, and is not registered, while such a happening lasts."""
    scene.world.registers = True
    (machine,) = scene.launch()
    scene.run(120.0)
    assert machine.asks and scene.names() == set()
    scene.befall(kind, for_s=100.0, **args)
    return machine


def told(machine: Machine) -> Instance:
    return Instance(machine.id, InstanceState.RUNNING, frozenset({machine.address}))


@shows
def records_fail(scene: Scene) -> None:
    machine = asks(scene, "records_fail")
    fails(lambda: scene.batch.register(told(machine)), SourceError)
    assert scene.names() == set()
    scene.run(101.0)
    scene.batch.register(told(machine))
    assert len(scene.names()) == 1
    scene.befall("records_fail", for_s=100.0, calls=["unregister"])
    scene.batch.register(told(machine))
    fails(lambda: scene.batch.unregister(told(machine)), SourceError)
    assert scene.world.registered == {machine.address: machine.id}


@shows
def records_unheard(scene: Scene) -> None:
    machine = asks(scene, "records_unheard")
    fails(lambda: scene.batch.register(told(machine)), SourceError)
    assert len(scene.names()) == 1
    fails(lambda: scene.batch.unregister(told(machine)), SourceError)
    assert scene.world.registered == {}


@shows
def records_hang(scene: Scene) -> None:
    machine = asks(scene, "records_hang")
    delay_s = scene.answered(lambda: fails(lambda: scene.batch.register(told(machine)), SourceError))
    assert delay_s >= TOO_LATE_S and scene.names() == set()


@shows
def records_answered_too_late(scene: Scene) -> None:
    machine = asks(scene, "records_answered_too_late")
    assert scene.answered(lambda: scene.batch.register(told(machine))) >= TOO_LATE_S
    assert len(scene.names()) == 1


@shows
def records_late(scene: Scene) -> None:
    machine = asks(scene, "records_late", late_s=50.0)
    assert 0 < scene.answered(lambda: scene.batch.register(told(machine))) < 50.0
    assert 0 < scene.answered(lambda: scene.batch.unregister(told(machine))) < 50.0
    assert 0 < scene.answered(lambda: scene.batch.forget("nobody")) < 50.0


@shows
def slips_in(scene: Scene) -> None:
    worker = drain_of_one(scene, "slips_in", length_s=50.0)
    assert scene.batch.drain(worker.name, IF_IDLE).outcome is DrainOutcome.BUSY
    scene.run(101.0)
    assert scene.batch.drain(worker.name, IF_IDLE).outcome is DrainOutcome.DRAINED
    scene.befall("slips_in", for_s=100.0, length_s=50.0)
    scene.cloud.terminate([worker.machine.id])  # drained: nothing can start
    assert scene.acts[-1].jobs == ()
    (other,) = scene.workers_up()
    scene.befall("slips_in", for_s=100.0, length_s=50.0)
    scene.cloud.terminate([other.machine.id])
    assert len(scene.acts[-1].jobs) == scene.world.tally.killed == 1


@shows
def starts_between(scene: Scene) -> None:
    drain_of_one(scene, "starts_between", length_s=50.0)
    assert scene.workers().workers[0].state is WorkerState.IDLE
    assert scene.workers().workers[0].state is WorkerState.BUSY


# --------------------------------------------------------------------------- the cloud's answers


def every_call_fails(scene: Scene, kind: str, read: type[Exception], launch: type[LaunchError], nothing: bool) -> None:
    (machine,) = scene.launch()
    scene.befall(kind, for_s=100.0)
    launch_fails(scene, launch, nothing, made=1)
    calls: tuple[Callable[[], object], ...] = (
        scene.instances,
        lambda: scene.cloud.find(scene.intent()),
        lambda: scene.cloud.terminate([machine.id]),
        lambda: scene.cloud.problems([machine.id]),
        lambda: scene.cloud.adopt([machine.id]),
    )
    for call in calls:
        fails(call, read)
    assert machine.state is InstanceState.PENDING
    scene.run(101.0)
    assert set(scene.owned()) == {machine.id}


@shows
def cloud_throttles(scene: Scene) -> None:
    every_call_fails(scene, "cloud_throttles", ThrottledError, ThrottledError, True)


@shows
def credentials_expired(scene: Scene) -> None:
    every_call_fails(scene, "credentials_expired", AuthError, AuthError, True)


@shows
def cloud_down(scene: Scene) -> None:
    every_call_fails(scene, "cloud_down", SourceError, TransientError, False)


@shows
def cloud_hangs(scene: Scene) -> None:
    scene.befall("cloud_hangs", for_s=1000.0)
    assert scene.answered(lambda: fails(scene.instances, SourceError)) >= 1000.0
    launch_fails(scene, TransientError, False, made=0)


@shows
def cloud_late(scene: Scene) -> None:
    scene.befall("cloud_late", for_s=100.0, late_s=60.0)
    assert 0 < scene.answered(scene.launch) < 60.0


@shows
def cloud_nonsense(scene: Scene) -> None:
    scene.befall("cloud_nonsense", for_s=100.0)
    launch_fails(scene, TransientError, False, made=2)
    fails(scene.instances, SourceError)
    ids = list(scene.world.machines)
    fails(lambda: scene.cloud.terminate(ids), SourceError)
    assert {machine.state for machine in scene.world.machines.values()} == {InstanceState.SHUTTING_DOWN}


@shows
def launch_lost(scene: Scene) -> None:
    scene.befall("launch_lost", for_s=100.0)
    launch_fails(scene, TransientError, False, made=2)
    assert len(scene.owned()) == 2


@shows
def launch_answered_too_late(scene: Scene) -> None:
    scene.befall("launch_answered_too_late", for_s=100.0)
    assert scene.answered(scene.launch) >= TOO_LATE_S
    assert len(scene.owned()) == 1


@shows
def launch_not_made(scene: Scene) -> None:
    scene.befall("launch_not_made", for_s=100.0)
    launch_fails(scene, TransientError, False, made=0)


@shows
def launch_hangs(scene: Scene) -> None:
    scene.befall("launch_hangs", for_s=100.0)
    assert scene.answered(lambda: fails(scene.launch, TransientError)) >= TOO_LATE_S
    assert scene.owned() == {}


@shows
def launch_late(scene: Scene) -> None:
    scene.befall("launch_late", for_s=100.0, late_s=60.0)
    launch_fails(scene, TransientError, False, made=0)
    scene.run(61.0)
    assert len(scene.owned()) == 2


@shows
def no_capacity(scene: Scene) -> None:
    scene.befall("no_capacity", for_s=100.0, flavour="medium", network="a")
    launch_fails(scene, CapacityError, True, made=0)
    assert len(scene.launch(flavour="large")) == len(scene.launch(network="b")) == 1
    scene.run(101.0)
    assert len(scene.launch()) == 1


@shows
def quota_reached(scene: Scene) -> None:
    scene.befall("quota_reached", for_s=100.0)
    launch_fails(scene, QuotaError, True, made=0)
    assert scene.owned() == {}


@shows
def launch_misconfigured(scene: Scene) -> None:
    scene.befall("launch_misconfigured", for_s=100.0)
    launch_fails(scene, ConfigurationError, True, made=0)


@shows
def launch_partial(scene: Scene) -> None:
    scene.befall("launch_partial", for_s=100.0, most=2)
    assert len(scene.launch(5)) == 2
    assert (scene.acts[-1].asked, len(scene.acts[-1].targets)) == (5, 2)
    scene.run(101.0)
    assert len(scene.launch(5)) == 5


@shows
def tags_refused(scene: Scene) -> None:
    scene.befall("tags_refused", for_s=100.0)
    launch_fails(scene, TransientError, True, made=0)
    intent = scene.intent()
    (told,) = scene.cloud.launch(intent)
    assert (told.intent, told.pool) == (intent.id, "ec2")  # the plugin knows what it asked for
    (row,) = scene.instances().owned  # by the token
    assert (row.head, row.pool, row.intent, row.token) == ("", "", "", intent.token)
    assert scene.cloud.find(intent)
    assert scene.world.machines[row.id].made_for == ("sim", scene.owner.head, intent.id)


@shows
def tokens_ignored(scene: Scene) -> None:
    scene.befall("tokens_ignored", for_s=100.0)
    intent = scene.intent()
    scene.cloud.launch(intent)
    (row,) = scene.instances().owned  # by the tags
    assert (row.token, row.intent, row.head) == ("", intent.id, scene.owner.head)
    scene.befall("tags_refused", for_s=100.0)
    fails(scene.launch, TransientError)
    (machine,) = scene.launch()
    assert machine.id not in scene.owned()
    assert machine.id in {one.id for one in scene.instances({machine.id}).owned}


@shows
def slow_to_show(scene: Scene) -> None:
    scene.befall("slow_to_show", for_s=100.0, lag_s=200.0)
    intent = scene.intent()
    (told,) = scene.cloud.launch(intent)
    assert scene.owned() == {} and scene.cloud.find(intent) == ()
    assert scene.cloud.terminate([told.id])[told.id].outcome is EndOutcome.NOT_FOUND
    scene.run(200.0)
    assert set(scene.owned()) == {one.id for one in scene.cloud.find(intent)} == {told.id}


@shows
def address_late(scene: Scene) -> None:
    scene.befall("address_late", for_s=100.0, lag_s=200.0)
    (machine,) = scene.launch()
    assert scene.owned()[machine.id].addresses == frozenset()
    scene.run(200.0)
    assert scene.owned()[machine.id].addresses == {machine.address}


@shows
def answers_doubled(scene: Scene) -> None:
    scene.befall("answers_doubled", for_s=100.0)
    assert len(scene.cloud.launch(scene.intent(2))) == 4
    assert len(scene.world.machines) == 2
    assert sorted(one.id for one in scene.instances().owned) == sorted([*scene.world.machines] * 2)


@shows
def pages_shift(scene: Scene) -> None:
    scene.launch(3)
    scene.befall("pages_shift", for_s=100.0)
    assert [len(scene.owned()) for _ in range(6)] == [3, 3, 2, 3, 3, 2]


@shows
def odd_states(scene: Scene) -> None:
    (machine,) = scene.launch()
    scene.befall("odd_states", for_s=100.0, part=1.0)
    row = scene.owned()[machine.id]
    assert (row.state, row.state_detail) == (InstanceState.UNKNOWN, "shelved_offloaded")
    scene.run(101.0)
    assert scene.owned()[machine.id].state is InstanceState.RUNNING


@shows
def listing_lags(scene: Scene) -> None:
    scene.befall("listing_lags", for_s=1000.0, lag_s=100.0)
    assert scene.owned() == {}
    (machine,) = scene.launch()
    seen = []
    for _ in range(5):
        scene.run(40.0)
        seen.append(len(scene.owned()))
    assert seen == [0, 0, 0, 1, 1]
    assert machine.state is InstanceState.RUNNING


@shows
def terminate_refused(scene: Scene) -> None:
    (machine,) = scene.launch()
    scene.befall("terminate_refused", for_s=100.0)
    assert scene.cloud.terminate([machine.id])[machine.id].outcome is EndOutcome.FAILED
    assert not machine.ending


@shows
def terminate_not_done(scene: Scene) -> None:
    (machine,) = scene.launch()
    scene.befall("terminate_not_done", for_s=100.0)
    assert scene.cloud.terminate([machine.id])[machine.id].outcome is EndOutcome.ENDING
    assert not machine.ending


@shows
def terminate_unheard(scene: Scene) -> None:
    (machine,) = scene.launch()
    scene.befall("terminate_unheard", for_s=100.0)
    fails(lambda: scene.cloud.terminate([machine.id]), SourceError)
    assert machine.ending


@shows
def terminate_first_only(scene: Scene) -> None:
    first, second = scene.launch(2)
    scene.befall("terminate_first_only", for_s=100.0)
    answers = scene.cloud.terminate([first.id, second.id])
    assert [answers[one.id].outcome for one in (first, second)] == [EndOutcome.ENDING, EndOutcome.FAILED]
    assert (first.ending, second.ending) == (True, False)


@shows
def terminate_late(scene: Scene) -> None:
    (machine,) = scene.launch()
    scene.befall("terminate_late", for_s=100.0, late_s=60.0)
    fails(lambda: scene.cloud.terminate([machine.id]), SourceError)
    assert not machine.ending
    scene.run(61.0)
    assert machine.ending


# --------------------------------------------------------------------------- stops and starts


def stopped(scene: Scene, count: int = 1) -> list[Machine]:
    """Machines that joined, and were stopped."""
    machines = scene.launch(count)
    scene.run(120.0)
    scene.cloud.stop([machine.id for machine in machines])
    scene.run(30.0)
    assert {machine.state for machine in machines} == {InstanceState.STOPPED}
    assert not any(machine.worker for machine in machines)
    return machines


def stop_is_answered(scene: Scene, kind: str, outcome: EndOutcome) -> None:
    (worker,) = scene.workers_up()
    machine = worker.machine
    assert machine is not None
    scene.befall(kind, for_s=100.0)
    assert scene.cloud.stop([machine.id])[machine.id].outcome is outcome
    assert not machine.stopped
    scene.run(101.0)
    scene.cloud.stop([machine.id])
    assert machine.stopped


@shows
def stop_refused(scene: Scene) -> None:
    stop_is_answered(scene, "stop_refused", EndOutcome.FAILED)


@shows
def stop_not_done(scene: Scene) -> None:
    stop_is_answered(scene, "stop_not_done", EndOutcome.ENDING)


@shows
def stop_unheard(scene: Scene) -> None:
    (worker,) = scene.workers_up()
    machine = worker.machine
    assert machine is not None
    scene.befall("stop_unheard", for_s=100.0)
    fails(lambda: scene.cloud.stop([machine.id]), SourceError)
    assert machine.state is InstanceState.STOPPING


@shows
def stop_late(scene: Scene) -> None:
    (worker,) = scene.workers_up()
    machine = worker.machine
    assert machine is not None
    scene.befall("stop_late", for_s=100.0, late_s=60.0)
    fails(lambda: scene.cloud.stop([machine.id]), SourceError)
    assert machine.state is InstanceState.RUNNING
    scene.run(61.0)
    assert machine.stopped


def start_fails(scene: Scene, kind: str, error: type[LaunchError], state: InstanceState) -> None:
    (machine,) = stopped(scene)
    scene.befall(kind, for_s=100.0)
    fails(lambda: scene.cloud.start([machine.id]), error)
    assert machine.state is state


@shows
def start_lost(scene: Scene) -> None:
    start_fails(scene, "start_lost", TransientError, InstanceState.PENDING)


@shows
def start_not_made(scene: Scene) -> None:
    start_fails(scene, "start_not_made", TransientError, InstanceState.STOPPED)


@shows
def start_no_capacity(scene: Scene) -> None:
    start_fails(scene, "start_no_capacity", CapacityError, InstanceState.STOPPED)


@shows
def start_refused(scene: Scene) -> None:
    (machine,) = stopped(scene)
    scene.befall("start_refused", for_s=100.0)
    assert scene.cloud.start([machine.id])[machine.id].outcome is EndOutcome.FAILED
    assert machine.state is InstanceState.STOPPED


@shows
def starts_dead(scene: Scene) -> None:
    dead, well = stopped(scene, 2)
    scene.befall("starts_dead", for_s=100.0)
    scene.cloud.start([dead.id])
    scene.run(101.0)
    scene.cloud.start([well.id])
    scene.run(120.0)
    assert (dead.state, well.state) == (InstanceState.RUNNING, InstanceState.RUNNING)
    assert dead.worker is None and well.worker is not None


def test_a_stopped_machine_takes_no_room_of_the_clouds_and_needs_it_to_start(scene: Scene) -> None:
    (machine,) = stopped(scene)
    scene.befall("flavour_limit", flavour="medium", limit=1, for_s=1000.0)
    assert len(scene.launch()) == 1
    fails(lambda: scene.cloud.start([machine.id]), CapacityError)
    assert machine.state is InstanceState.STOPPED


def test_of_several_starts_those_for_which_there_is_room_are_done(scene: Scene) -> None:
    first, second = stopped(scene, 2)
    scene.befall("flavour_limit", flavour="medium", limit=1, for_s=1000.0)
    answers = scene.cloud.start([first.id, second.id])
    assert [answers[one.id].outcome for one in (first, second)] == [EndOutcome.ENDING, EndOutcome.FAILED]


def test_a_stop_with_a_job_kills_it(scene: Scene) -> None:
    (worker,) = scene.workers_up()
    (job,) = scene.submit()
    scene.run(30.0)
    assert worker.machine is not None and job.state is JobState.RUNNING
    scene.cloud.stop([worker.machine.id])
    assert (scene.world.tally.killed, scene.acts[-1].what, scene.acts[-1].jobs) == (1, "stop", (job.number,))


# --------------------------------------------------------------------------- the daemon and its head node


def lives(scene: Scene) -> None:
    """The daemon starts, and looks around."""
    scene.begin()
    scene.run(30.0)
    assert scene.daemon is not None


@shows
def kill(scene: Scene) -> None:
    lives(scene)
    scene.befall("kill", at="launch begins", number=1, for_s=1000.0, down_s=100.0)
    scene.submit(4)
    assert scene.run_until(lambda: scene.daemon is None, 60.0, 0.05)
    assert scene.run_until(lambda: len(scene.world.machines) == 1, 5.0, 0.05)  # what was sent takes effect
    scene.run(99.0)
    assert (scene.daemon, scene.kills, scene.lives) == (None, 1, 1)
    scene.run(200.0)
    assert scene.daemon is not None and scene.lives == 2
    assert scene.run_until(lambda: scene.world.running() == 4, 600.0)
    assert scene.world.tally.launches == 1
    scene.befall("kill", at="store write done", number=1, for_s=1000.0, down_s=100.0)
    scene.befall("kill", at="never", number=1, for_s=50.0, down_s=100.0)
    scene.run(51.0)
    assert (scene.daemon, scene.kills) == (None, 2)


@shows
def restart(scene: Scene) -> None:
    lives(scene)
    scene.befall("restart", down_s=60.0)
    assert scene.daemon is None
    scene.run(61.0)
    assert scene.daemon is not None and (scene.kills, scene.lives) == (0, 2)


@shows
def disk_trouble(scene: Scene) -> None:
    lives(scene)
    scene.befall("disk_trouble", how="full", for_s=600.0)
    scene.submit(4)
    scene.run(300.0)
    core = scene.core
    assert core is not None and core.store_broken and "full" in core.notices["store"]
    assert scene.world.tally.launches == 0
    assert scene.run_until(lambda: scene.world.running() == 4, 900.0)
    scene.befall("disk_trouble", how="readonly", for_s=300.0)
    scene.befall("restart", down_s=1.0)
    scene.run(100.0)
    assert scene.daemon is None and scene.failed_starts > 1
    scene.run(300.0)
    assert scene.daemon is not None


@shows
def store_damaged(scene: Scene) -> None:
    lives(scene)
    scene.submit(4)
    assert scene.run_until(lambda: scene.world.running() == 4, 900.0)
    for how in ("garbage", "emptied", "removed", "truncated", "overwritten"):
        scene.befall("store_damaged", how=how, down_s=10.0)
        assert scene.daemon is None
        scene.run(60.0)
        core = scene.core
        assert core is not None and len(core.registry) == 1
        if how in ("garbage", "emptied"):
            assert "from the cloud's tags" in core.notices["store"]
    assert scene.world.tally.launches == 1


@shows
def reconfigured(scene: Scene) -> None:
    lives(scene)
    scene.befall("reconfigured", change={"min_vms": 9, "idle_for_time_s": 60.0, "pools": {"ec2": {"networks": ["c"]}}})
    scene.run(1.0)
    core = scene.core
    assert core is not None
    assert (core.settings.min_vms, core.settings.max_vms, core.settings.idle_for_time_s) == (5, 6, 60.0)
    assert core.settings.pools[0].networks == ("c",) and scene.lives == 1
    scene.befall("reconfigured", change={"min_vms": 0, "remove_pool": "ec2"}, down_s=30.0)
    scene.run(60.0)
    assert scene.lives == 2 and scene.core is not None
    assert scene.core.settings.min_vms == 0 and len(scene.core.settings.pools) == 1  # the last one stays


@shows
def adopted(scene: Scene) -> None:
    lives(scene)
    scene.befall("foreign_machines", whom="another head", count=2, for_s=FOR_EVER)
    scene.run(100.0)
    assert len(scene.instances().other_heads) == 2
    scene.befall("adopted")
    scene.run(10.0)
    assert len(scene.owned()) == 2
    assert [act.what for act in scene.acts] == ["adopt", "adopt"]


@shows
def log_fails(scene: Scene) -> None:
    lives(scene)
    scene.befall("log_fails", for_s=100.0)
    assert scene.core is not None
    logging.getLogger("elastiq").warning("into a full disk")
    assert scene.core.log_failures() == 1
    scene.run(101.0)
    logging.getLogger("elastiq").warning("and after")
    assert scene.core.log_failures() == 1


@shows
def clock_steps(scene: Scene) -> None:
    before = scene.clock.time()
    scene.befall("clock_steps", by_s=-3600.0)
    assert scene.clock.time() == before - 3600.0
    assert scene.world.wall == before


@shows
def head_sleeps(scene: Scene) -> None:
    lives(scene)
    for counts in (True, False):
        core, reads = scene.core, scene.operations["jobs done"]
        assert core is not None
        before, wall = core.now(), core.wall()
        scene.befall("head_sleeps", for_s=3600.0, counts=counts)
        scene.run(3599.0)
        assert scene.operations["jobs done"] <= reads + 1  # one may have been on its way
        scene.run(60.0)
        assert scene.operations["jobs done"] > reads + 1
        assert core.wall() - wall == pytest.approx(3659.0)
        assert core.now() - before == pytest.approx(3659.0 if counts else 59.0)


def test_a_daemon_that_is_killed_while_the_head_node_sleeps_starts_when_it_wakes(scene: Scene) -> None:
    lives(scene)
    scene.befall("head_sleeps", for_s=1000.0, counts=False)
    scene.befall("restart", down_s=10.0)
    scene.kill_now(10.0)
    scene.run(995.0)
    assert (scene.daemon, scene.lives) == (None, 1)
    scene.run(30.0)
    assert scene.daemon is not None and scene.lives == 2
    assert scene.head_clock.lost_s == 1000.0


def test_nothing_is_sent_after_a_kill(scene: Scene) -> None:
    """Not even what waited in the executor for its turn, while the stack is left."""
    lives(scene)
    assert scene.core is not None
    executor, sent = scene.core.executor, list[str]()
    scene.arm("last words", 1, down_s=60.0, within_s=1000.0)
    executor.act("cloud", "node", lambda: sent.append("first"), lambda outcome: scene.operation("last words"), 60.0)
    executor.act("cloud", "node", lambda: sent.append("second"), lambda outcome: None, 60.0)
    scene.run(30.0)
    assert (scene.daemon, sent) == (None, ["first"])


# --------------------------------------------------------------------------- what holds for all


def test_a_share_of_the_calls_is_struck_the_same_ones_each_time(tmp_path: Path) -> None:
    def struck(name: str) -> list[bool]:
        (tmp_path / name).mkdir()
        scene = Scene(tmp_path / name)
        scene.befall("batch_fails", for_s=100.0, share=0.4)
        found = []
        for _ in range(50):
            try:
                scene.jobs()
                found.append(False)
            except SourceError:
                found.append(True)
        return found

    first = struck("a")
    assert first == struck("b") and 10 <= sum(first) <= 30


def test_a_window_may_strike_only_so_many_times(scene: Scene) -> None:
    scene.befall("batch_fails", for_s=100.0, times=2, calls=["jobs"])
    for _ in range(2):
        fails(scene.jobs, SourceError)
        scene.workers()
    assert scene.jobs().complete
    scene.befall("never_joins", for_s=100.0, times=1)
    assert [machine.joins for machine in scene.launch(3)] == [False, True, True]


def test_several_faults_come_together(scene: Scene) -> None:
    scene.workers_up(4)
    scene.befall("batch_late", for_s=100.0, late_s=60.0)
    scene.befall("batch_partial", for_s=100.0)
    seen = []
    delay_s = scene.answered(lambda: seen.append(scene.workers()))
    assert delay_s > 0 and seen[0].missing
    assert scene.chaos.struck == {"batch_late": 1, "batch_partial": 1}


def test_a_fault_may_befall_one_site(tmp_path: Path) -> None:
    pools = (POOL, replace(POOL, name="other", site="outscale"))
    scene = Scene(tmp_path, settings=replace(SETTINGS, pools=pools))
    there, here = scene._clouds()["outscale"], scene.cloud
    there.launch(scene.intent())
    scene.befall("cloud_down", for_s=100.0, site="outscale")
    fails(lambda: there.instances(frozenset()), SourceError)
    assert here.instances(frozenset()).owned == ()  # each site has its own machines
    scene.run(101.0)
    assert len(there.instances(frozenset()).owned) == 1


def test_a_cloud_may_be_unable_to_find_what_a_launch_made(tmp_path: Path) -> None:
    scene = Scene(tmp_path, can_find=False)
    scene.befall("launch_lost", for_s=100.0)
    lives(scene)
    scene.submit(4)
    assert scene.run_until(lambda: scene.world.running() == 4, 1000.0)
    assert (scene.world.tally.launches, scene.operations["find done"]) == (1, 0)


def test_calm_ends_every_fault_and_mends_what_does_not_mend_itself(scene: Scene) -> None:
    (worker,) = scene.workers_up()
    scene.befall("batch_fails", for_s=FOR_EVER)
    scene.befall("worker_vanishes", which=0.0, for_s=FOR_EVER)
    scene.befall("black_hole", which=0.0, for_s=FOR_EVER, how="loses")
    scene.befall("flavour_limit", for_s=FOR_EVER, flavour="medium", limit=0)
    scene.befall("disk_trouble", for_s=FOR_EVER, how="full")
    scene.calm_down()
    (job,) = scene.submit(length_s=100.0)
    scene.run(200.0)
    assert scene.names() == {worker.name}
    assert job.state is JobState.DONE
    assert len(scene.launch(2)) == 2
    assert scene.disk_trouble == {}


def test_acts_are_journalled_as_they_take_effect(scene: Scene) -> None:
    intent = scene.intent(2)
    first, second = scene.cloud.launch(intent)
    scene.run(120.0)
    (job,) = scene.submit()
    scene.run(30.0)
    name = next(w.name for w in scene.world.workers.values() if not w.jobs)
    scene.batch.drain(name, IF_IDLE)
    scene.batch.undrain(name)
    scene.cloud.terminate([first.id])
    launch, drain, undrain, end = scene.acts
    assert (launch.what, launch.targets, launch.asked) == ("launch", (first.id, second.id), 2)
    assert (launch.intent, launch.token, launch.offer) == (intent.id, intent.token, "ec2/medium/a")
    assert (drain.what, drain.targets, drain.detail) == ("drain", (name,), "if_idle")
    assert (undrain.what, undrain.head) == ("undrain", scene.owner.head)
    assert (end.what, end.targets, end.jobs, end.at_s) == ("terminate", (first.id,), (job.number,), 150.0)


def test_the_store_is_a_real_file(scene: Scene) -> None:
    lives(scene)
    assert os.path.getsize(scene.store_path) > 0
    assert scene.operations["store write begins"] == scene.operations["store write done"] > 0


# --------------------------------------------------------------------------- people


def in_service(scene: Scene, jobs: int = 4) -> Machine:
    """A machine of the daemon's, with jobs on it that last."""
    lives(scene)
    scene.run(100.0)
    scene.submit(jobs)
    assert scene.run_until(lambda: any(worker.jobs for worker in scene.world.workers.values()), 1200.0)
    scene.run(60.0)
    (machine,) = scene.world.machines.values()
    return machine


def state_in(scene: Scene) -> str:
    assert scene.core is not None
    (node,) = scene.core.registry
    return node.state.value


@shows
def paused(scene: Scene) -> None:
    lives(scene)
    scene.run(100.0)
    scene.befall("paused", acts=["launch"], for_s=900.0)
    scene.submit(1)
    scene.run(800.0)
    assert scene.world.tally.launches == 0
    scene.kill_now(200.0)  # who resumes it waits for the daemon
    scene.run(120.0)
    assert scene.daemon is None
    scene.run(600.0)
    assert scene.core is not None and scene.core.paused == {} and scene.world.tally.launches == 1


@shows
def scaled(scene: Scene) -> None:
    lives(scene)
    scene.run(100.0)
    scene.befall("scaled", share=0.5, for_s=1200.0)
    scene.run(600.0)
    assert len(scene.owned()) == 3
    scene.run(650.0)
    assert scene.core is not None and scene.core.scaled == {}


@shows
def drained_by_hand(scene: Scene) -> None:
    machine = in_service(scene)
    scene.befall("drained_by_hand", which=0.0)
    scene.run(60.0)
    assert state_in(scene) == "draining" and scene.orders.out == {machine.id}
    assert machine.worker is not None and len(machine.worker.jobs) == 4


@shows
def undrained_by_hand(scene: Scene) -> None:
    machine = in_service(scene)
    scene.befall("drained_by_hand", which=0.0)
    scene.run(60.0)
    scene.befall("undrained_by_hand", which=0.0)
    scene.run(60.0)
    assert state_in(scene) == "busy" and scene.orders.out == set()
    assert machine.worker is not None and machine.worker.drained_by is None


@shows
def ended_by_hand(scene: Scene) -> None:
    machine = in_service(scene)
    scene.befall("ended_by_hand", which=0.0)
    scene.run(60.0)
    assert state_in(scene) == "busy" and scene.orders.out == set(), "refused, for its jobs"
    for job in list(machine.worker.jobs if machine.worker else ()):
        scene.world.remove(job)
    scene.run(100.0)
    scene.befall("ended_by_hand", which=0.0)
    scene.run(100.0)
    assert machine.ended and scene.world.tally.killed == 0


@shows
def ended_by_force(scene: Scene) -> None:
    machine = in_service(scene, jobs=2)
    scene.befall("ended_by_force", which=0.0, think_s=100.0)
    scene.run(50.0)
    assert not machine.ended
    late = scene.submit(1)
    scene.run(100.0)
    assert not machine.ended and scene.orders.doomed == {}, "a job has started that was not named"
    assert late[0].worker is machine.worker
    scene.befall("ended_by_force", which=0.0, think_s=5.0)
    scene.run(60.0)
    assert machine.ended and [len(jobs or ()) for jobs in scene.orders.doomed.values()] == [3]
    scene.run(200.0)
    assert scene.world.tally.killed == 3
