"""Whole lives of machines in virtual time, judged by what is true in the simulated world."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Optional

import pytest

from elastiq.interfaces import DrainAnswer, DrainOutcome, InstanceState, Pool, Resources, SourceError, TransientError
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.faults import NEVER, Call, Faults, PlannedFaults, T
from elastiq.simulation.model import Machine, SimWorker
from elastiq.status import snapshot

ONE_CPU = Resources(cpus=1, memory_mb=1000)
FLAVOURS = {
    "medium": Resources(cpus=4, memory_mb=8192),
    "large": Resources(cpus=16, memory_mb=65536),
}
IDLE_S = 600.0
HOUR_S = 3600.0


def settings(**changed: Any) -> Settings:
    pool = Pool("ec2", "aws", ("medium",), capacity=FLAVOURS["medium"])
    base = Settings("test", (pool,), waiting_jobs_time_s=0.0, idle_for_time_s=IDLE_S, min_vms=0, max_vms=4)
    return replace(base, **changed)


class Life(Cluster):
    """A cluster with the books of the tests: what must hold is looked at whenever something changes."""

    def __init__(
        self, seed: int = 1, faults: Optional[Faults] = None, store_path: str = ":memory:", **changed: Any
    ) -> None:
        super().__init__(
            settings(**changed), FLAVOURS, random.Random(seed), faults=faults, store_path=store_path
        )
        self.broken: list[str] = []
        self.world.on_change = self._watch

    def _watch(self) -> None:
        limit, tally = self.settings.max_vms, self.world.tally
        if limit is not None and tally.present > limit:
            self.broken.append(f"{self.clock.elapsed_s:.1f}: {tally.present} machines, max_vms {limit}")
        if tally.killed:
            self.broken.append(f"{self.clock.elapsed_s:.1f}: {tally.killed} jobs killed")

    def begin(self) -> None:
        """Start the daemon, and let it look around."""
        self.start_daemon()
        self.run(30.0)

    def submit(self, count: int, length_s: float = 300.0, cpus: float = 1) -> None:
        for _ in range(count):
            self.world.submit(Resources(cpus=cpus, memory_mb=1000), length_s)

    def present(self) -> list[Machine]:
        return [machine for machine in self.world.machines.values() if not machine.ended]

    def workers(self) -> list[SimWorker]:
        return [worker for worker in self.world.workers.values() if worker.alive]

    def all_done(self) -> bool:
        return not self.world.jobs

    def empty(self) -> bool:
        return not self.present()

    def finish(self, within_s: float = 4 * HOUR_S) -> None:
        """All jobs get done, all machines end, and nothing forbidden happened on the way."""
        assert self.run_until(self.all_done, within_s, 10.0), self.story()
        assert self.run_until(self.empty, IDLE_S + HOUR_S, 10.0), self.story()
        assert self.broken == []
        self.no_bug()

    def no_bug(self) -> None:
        assert self.daemon is not None
        assert self.daemon.core.faults == {}
        assert self.daemon.core.counters.get("illegal_transitions", 0) == 0

    def story(self) -> str:
        return str(snapshot(self.daemon)) if self.daemon else "no daemon"


# --------------------------------------------------------------------------- up and down


def test_waiting_jobs_get_machines_and_idle_machines_end() -> None:
    life = Life()
    life.begin()
    life.submit(12)
    life.finish()
    tally = life.world.tally
    assert (tally.done, tally.launches, tally.terminations, tally.peak) == (12, 3, 3, 3)


@pytest.mark.parametrize("seed", range(12))
def test_jobs_that_start_between_two_reads_are_not_launched_for_twice(seed: int) -> None:
    """The workers were read after the queue: full of jobs that, there, still wait."""
    life = Life(seed)
    life.begin()
    life.submit(12)
    life.finish()
    assert life.world.tally.launches == 3


def test_a_drained_machine_ends_without_waiting_for_the_next_period() -> None:
    life = Life(check_vms_every_s=900.0)
    life.begin()
    life.submit(4, length_s=100.0)
    assert life.run_until(lambda: any(w.drained_by for w in life.workers()), 4 * HOUR_S, 0.1)
    assert life.run_until(lambda: life.world.tally.terminations == 1, 5.0, 0.1)


def test_a_machine_is_launched_within_one_period_of_the_queue() -> None:
    life = Life()
    life.begin()
    life.submit(1)
    assert life.run_until(lambda: life.world.tally.launches == 1, 15.0 + 3.0)


def test_jobs_wait_their_time_before_anything_is_launched_for_them() -> None:
    life = Life(waiting_jobs_time_s=120.0)
    life.begin()
    life.submit(4)
    life.run(115.0)
    assert life.world.tally.launches == 0
    assert life.run_until(lambda: life.world.tally.launches == 1, 60.0)


def test_an_idle_machine_stays_for_idle_for_time_s_and_is_used_again_until_then() -> None:
    life = Life()
    life.begin()
    life.submit(1, length_s=100.0)
    assert life.run_until(life.all_done, HOUR_S)
    life.run(IDLE_S - 30.0)
    assert life.world.tally.terminations == 0
    life.submit(1, length_s=100.0)
    life.finish()
    assert life.world.tally.launches == 1


def test_a_running_job_keeps_its_machine_however_long_it_runs() -> None:
    life = Life()
    life.begin()
    life.submit(1, length_s=24 * HOUR_S)
    life.run(23 * HOUR_S)
    assert life.world.tally.terminations == 0
    life.finish(within_s=2 * HOUR_S)


def test_min_vms_come_up_from_an_empty_pool_and_stay() -> None:
    life = Life(min_vms=2)
    life.begin()
    assert life.run_until(lambda: len(life.workers()) == 2, 300.0)
    life.submit(16)
    assert life.run_until(life.all_done, HOUR_S)
    assert life.world.tally.peak == 4
    least = 4
    for _ in range(360):
        life.run(20.0)
        least = min(least, len(life.workers()))
    assert (least, len(life.present())) == (2, 2)
    assert life.broken == []


def test_max_vms_holds_whatever_the_demand() -> None:
    life = Life(max_vms=2)
    life.begin()
    life.submit(40)
    life.finish()
    assert life.world.tally.peak == 2
    assert life.world.tally.done == 40


def test_a_pool_is_never_larger_than_its_own_max_vms() -> None:
    first = Pool("first", "aws", ("medium",), capacity=FLAVOURS["medium"], max_vms=1)
    second = Pool("second", "aws", ("medium",), capacity=FLAVOURS["medium"])
    life = Life(pools=(first, second))
    life.begin()
    life.submit(16)
    assert life.run_until(lambda: life.world.tally.launches == 4, 120.0)
    assert sorted(machine.pool for machine in life.present()) == ["first", "second", "second", "second"]
    life.finish()


def test_a_job_that_fits_no_machine_launches_nothing_and_is_explained() -> None:
    life = Life()
    life.begin()
    life.submit(1, cpus=64)
    life.submit(4)
    assert life.run_until(lambda: life.world.tally.done == 4, HOUR_S)
    life.run(2 * HOUR_S)
    assert life.world.tally.launches == 1
    assert life.empty()
    assert life.daemon is not None
    assert snapshot(life.daemon)["queue"]["unmatchable_jobs"] == 1


def test_machines_of_others_are_never_touched() -> None:
    life = Life()
    others = [
        life.world.launch(
            lambda new_id, address, head=head, cluster=cluster: Machine(  # type: ignore[misc]
                new_id, address, "medium", life.world.wall, cluster=cluster, head=head
            )
        )
        for cluster, head in (("", ""), ("another", "someone"), ("test", "another head"))
    ]
    life.world.tally.present = life.world.tally.peak = 0
    life.begin()
    life.submit(12)
    assert life.run_until(life.all_done, HOUR_S)
    life.run(4 * HOUR_S)
    assert [machine.state for machine in others] == [InstanceState.RUNNING] * 3
    assert life.present() == others


# --------------------------------------------------------------------------- machines that fail


def test_an_image_that_never_joins_is_ended_and_tried_one_at_a_time() -> None:
    life = Life(estimated_vm_deploy_time_s=300.0)
    life.world.image.joins = False
    life.begin()
    life.submit(16)
    life.run(6 * HOUR_S)
    # The first four, then one at a time, each for its deploy time: far from four every five minutes.
    assert 4 < life.world.tally.launches <= 4 + 6 * HOUR_S / 300.0
    assert len(life.present()) <= 2  # one that ends, one that boots
    life.world.image.joins = True
    life.finish()


def test_a_worker_that_dies_idle_is_replaced_and_its_machine_ends() -> None:
    life = Life(min_vms=3, lost_after_s=300.0)
    life.begin()
    assert life.run_until(lambda: len(life.workers()) == 3, 300.0)
    life.run(60.0)
    worker = life.workers()[0]
    machine = worker.machine
    assert machine is not None
    life.world.crash(worker)
    life.run(290.0)
    assert life.world.tally.terminations == 0
    assert life.run_until(lambda: machine.ended, 300.0), life.story()
    assert life.run_until(lambda: len(life.workers()) == 3, HOUR_S)
    life.run(HOUR_S)
    assert (len(life.present()), life.broken) == (3, [])


def test_when_most_workers_vanish_at_once_it_is_the_view_that_is_doubted() -> None:
    life = Life(min_vms=2, lost_after_s=60.0, batch_settle_s=1200.0)
    life.begin()
    assert life.run_until(lambda: len(life.workers()) == 2, 300.0)
    life.run(60.0)
    workers = life.workers()
    for worker in workers:
        worker.listed = False
    life.run(1100.0)
    for worker in workers:
        worker.listed = True
    life.run(HOUR_S)
    assert (life.world.tally.launches, life.world.tally.terminations) == (2, 0)


def test_a_dead_machine_is_kept_while_the_queue_records_jobs_on_it() -> None:
    life = Life(lost_after_s=300.0)
    life.begin()
    life.submit(1, length_s=900.0)
    assert life.run_until(lambda: life.world.running() == 1, HOUR_S)
    life.run(60.0)
    (machine,) = life.present()
    life.world.crash(life.workers()[0])
    life.run(life.world.lease_s - 10.0)
    assert life.world.tally.terminations == 0
    life.finish()
    assert machine.ended
    assert life.world.tally.done == 1


def test_a_worker_that_is_cut_off_keeps_its_machine_and_its_job() -> None:
    life = Life(lost_after_s=300.0)
    life.begin()
    life.submit(1, length_s=2 * HOUR_S)
    assert life.run_until(lambda: life.world.running() == 1, HOUR_S)
    life.run(60.0)
    life.workers()[0].listed = False
    life.run(HOUR_S)
    assert len(life.present()) == 1
    life.workers()[0].listed = True
    life.finish()
    assert life.world.tally.done == 1


def test_a_machine_that_the_cloud_loses_while_it_boots_is_replaced() -> None:
    life = Life()
    life.begin()
    life.submit(1)
    assert life.run_until(lambda: life.world.tally.launches == 1, 60.0)
    life.present()[0].state = InstanceState.TERMINATED
    life.finish()
    assert life.world.tally.launches == 2


# --------------------------------------------------------------------------- races of the scale-down


class OnDrain(Faults):
    """Does something in the moment in which a drain arrives at the batch system."""

    def __init__(self, act: Callable[[str, bool], Optional[DrainAnswer]]) -> None:
        self.act = act
        self.drains = 0

    def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
        if call.name != "drain":
            return work()
        self.drains += 1
        answer: Any = self.act(call.args[0], self.drains == 1)
        return work() if answer is None else answer


def drain_race(act: Callable[[Life, SimWorker, bool], Optional[DrainAnswer]]) -> tuple[Life, OnDrain]:
    """A life in which something happens to an idle machine in the moment of its drain."""
    faults = OnDrain(lambda worker, first: act(life, life.world.workers[worker], first))
    life = Life(faults=faults)
    life.begin()
    life.submit(1, length_s=100.0)
    assert life.run_until(lambda: faults.drains > 0, HOUR_S)
    return life, faults


@pytest.mark.parametrize("length_s", [1.0, 60.0, 5000.0])
def test_a_job_that_starts_before_the_drain_takes_effect_is_not_lost(length_s: float) -> None:
    def start_first(life: Life, worker: SimWorker, first: bool) -> Optional[DrainAnswer]:
        if first:
            life.world.start(life.world.submit(ONE_CPU, length_s), worker)
        return None

    life, faults = drain_race(start_first)
    life.finish()
    assert life.world.tally.done == 2
    assert faults.drains >= 2


@pytest.mark.parametrize("length_s", [60.0, 5000.0])
def test_a_drain_that_says_done_and_is_not_ends_nothing_that_runs(length_s: float) -> None:
    """The look after the drain is what saves this job."""

    def pretend(life: Life, worker: SimWorker, first: bool) -> Optional[DrainAnswer]:
        if not first:
            return None
        life.world.start(life.world.submit(ONE_CPU, length_s), worker)
        return DrainAnswer(DrainOutcome.DRAINED)

    life, _ = drain_race(pretend)
    life.finish()
    assert life.world.tally.done == 2


def test_a_refused_drain_ends_nothing() -> None:
    def refuse(life: Life, worker: SimWorker, first: bool) -> Optional[DrainAnswer]:
        return DrainAnswer(DrainOutcome.REFUSED, "not allowed")

    life, faults = drain_race(refuse)
    life.run(6 * HOUR_S)
    assert life.world.tally.terminations == 0
    assert 2 <= faults.drains < 200
    life.no_bug()


def test_a_drain_whose_answer_never_comes_is_looked_at_and_followed() -> None:
    faults = PlannedFaults()
    faults.once("drain", delay_s=NEVER)
    life = Life(faults=faults)
    life.begin()
    life.submit(4)
    life.finish()


def test_a_drain_that_fails_without_effect_is_tried_again() -> None:
    faults = PlannedFaults()
    faults.once("drain", error=SourceError("the batch system cannot be reached"))
    life = Life(faults=faults)
    life.begin()
    life.submit(4)
    life.finish()


def test_where_nothing_can_be_drained_only_a_look_begun_after_the_decision_counts() -> None:
    """The queue comes back while a read of the workers is on its way that still saw them idle."""

    class LateLook(Faults):
        queue_down = late = False

        def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
            if call.name == "jobs" and self.queue_down:
                raise SourceError("down")
            answer = work()
            if call.name == "workers" and self.late:
                self.late = self.queue_down = False
                delay_answer(40.0)
                life.world.start(life.world.submit(ONE_CPU, 5000.0), life.workers()[0])
            return answer

    faults = LateLook()
    life = Life(faults=faults)
    life.begin()
    assert life.daemon is not None
    life.daemon.core.batch.can_drain = False
    life.submit(1, length_s=100.0)
    assert life.run_until(life.all_done, HOUR_S)
    faults.queue_down = True
    life.run(IDLE_S + 200.0)
    assert life.world.tally.terminations == 0
    faults.late = True
    life.run(200.0)
    assert not faults.late
    life.finish()
    assert life.world.tally.done == 2


def test_somebody_elses_drain_is_neither_followed_by_an_end_nor_undone() -> None:
    life = Life()
    life.begin()
    life.submit(1, length_s=100.0)
    assert life.run_until(life.all_done, HOUR_S)
    (worker,) = life.workers()
    life.world.drain(worker, "maintenance by alice")
    life.run(4 * HOUR_S)
    assert (len(life.present()), worker.drained_by) == (1, "maintenance by alice")


# --------------------------------------------------------------------------- launches that go wrong


def test_a_launch_whose_answer_is_lost_is_found_and_not_repeated() -> None:
    def lose(_answer: object) -> object:
        raise TransientError("connection reset")

    faults = PlannedFaults()
    faults.once("launch", after=lose)
    life = Life(faults=faults)
    life.begin()
    life.submit(8)
    life.finish()
    assert life.world.tally.launches == 2


def test_a_launch_that_hangs_is_found_and_not_repeated() -> None:
    faults = PlannedFaults()
    faults.once("launch", delay_s=NEVER)
    life = Life(faults=faults)
    life.begin()
    life.submit(8)
    life.finish()
    assert life.world.tally.launches == 2


def test_a_launch_of_unknown_outcome_that_made_nothing_is_given_up_and_asked_for_anew() -> None:
    faults = PlannedFaults()
    faults.once("launch", error=TransientError("gateway time-out"))
    life = Life(faults=faults, intent_settle_s=600.0)
    life.begin()
    life.submit(16)
    life.run(590.0)
    assert life.world.tally.launches == 0  # it may yet have launched: it counts, in full
    life.finish()


def test_partial_fulfilment_runs_all_jobs_on_what_there_is() -> None:
    life = Life()
    life.world.limits["medium"] = 2
    life.begin()
    life.submit(32)
    life.finish()
    assert life.world.tally.peak == 2


def test_no_capacity_for_one_flavour_falls_over_to_the_next_in_the_same_cycle() -> None:
    pool = Pool("ec2", "aws", ("medium", "large"))
    life = Life(pools=(pool,))
    life.world.limits["medium"] = 0
    life.begin()
    life.submit(4)
    assert life.run_until(lambda: life.world.tally.launches > 0, 20.0)
    assert {machine.flavour for machine in life.present()} == {"large"}
    life.finish()


def test_a_refused_launch_is_asked_for_again_later_and_not_in_a_storm() -> None:
    life = Life()
    life.world.limits["medium"] = 0
    life.begin()
    calls = 0

    class Counting(Faults):
        def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
            nonlocal calls
            calls += call.name == "launch"
            return work()

    life.world.faults = Counting()
    life.submit(4)
    life.run(2 * HOUR_S)
    assert 5 <= calls <= 40
    life.world.limits.clear()
    life.finish()


# --------------------------------------------------------------------------- restarts and clocks


@pytest.mark.parametrize("at_s", [0.3, 14.0, 16.2, 16.6, 17.5, 60.0, 200.0, 420.0, 900.0, 1100.0, 1200.0])
def test_a_killed_daemon_resumes_from_its_store(tmp_path: Path, at_s: float) -> None:
    life = Life(seed=3, store_path=str(tmp_path / "state.sqlite"))
    life.start_daemon()
    life.submit(12)
    life.run(at_s)
    life.kill_daemon()
    life.run(120.0)
    life.start_daemon()
    life.finish()
    assert (life.world.tally.done, life.world.tally.launches) == (12, 3)


@pytest.mark.parametrize("lost", [True, False], ids=["the request was lost", "it launched"])
@pytest.mark.parametrize("kill_after_s", [0.0, 5.0])
def test_a_daemon_killed_around_its_launch_launches_nothing_twice_and_never_waits_for_ever(
    tmp_path: Path, lost: bool, kill_after_s: float
) -> None:
    class KilledInLaunch(Faults):
        killed = False

        def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
            if call.name != "launch" or self.killed:
                return work()
            self.killed = True
            life.events.after(kill_after_s, life.events.stop)
            if lost:
                raise TransientError("connection reset")
            return work()

    faults = KilledInLaunch()
    life = Life(faults=faults, store_path=str(tmp_path / "state.sqlite"))
    life.start_daemon()
    life.submit(16)
    life.events.run()
    assert faults.killed
    life.kill_daemon()
    life.run(10.0)
    life.start_daemon()
    life.finish()
    assert (life.world.tally.done, life.world.tally.launches) == (16, 4)


def test_a_daemon_killed_every_minute_launches_nothing_twice_and_forgets_nothing(tmp_path: Path) -> None:
    life = Life(seed=5, store_path=str(tmp_path / "state.sqlite"))
    life.start_daemon()
    life.submit(16, length_s=900.0)
    for number in range(60):
        life.run(57.0 + number / 7)
        life.kill_daemon()
        life.start_daemon()
    life.finish()
    assert (life.world.tally.done, life.world.tally.launches) == (16, 4)


def test_a_daemon_that_lost_its_store_takes_its_machines_over_by_their_tags() -> None:
    life = Life()  # a store in memory dies with its daemon
    life.start_daemon()
    life.submit(12, length_s=1000.0)
    life.run(400.0)
    assert life.world.running() == 12
    life.kill_daemon()
    life.start_daemon()
    life.finish()
    assert (life.world.tally.done, life.world.tally.launches) == (12, 3)


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_step_of_the_wall_clock_changes_nothing(step_s: float) -> None:
    def course(step_s: float) -> list[tuple[float, int, int, int]]:
        life = Life(seed=9)
        seen = []

        def watch() -> None:
            tally = life.world.tally
            seen.append((life.clock.monotonic(), tally.launches, tally.terminations, tally.done))

        life.world.on_change = watch
        life.begin()
        life.submit(12)
        for _ in range(40):
            life.clock.step_wall(step_s)
            life.run(60.0)
            life.clock.step_wall(-step_s)
            life.run(7.0)
        assert life.empty() and life.world.tally.done == 12
        return seen

    assert course(step_s) == course(0.0)


# --------------------------------------------------------------------------- sources that fail


def test_a_collector_that_was_restarted_and_knows_nobody_ends_nothing_and_launches_nothing() -> None:
    life = Life(min_vms=1)
    life.begin()
    life.submit(16, length_s=5000.0)
    assert life.run_until(lambda: life.world.running() == 16, HOUR_S)
    launches = life.world.tally.launches
    workers = life.workers()
    for worker in workers:
        worker.listed = False
    life.world.collector_since = life.world.now
    life.run(400.0)
    for worker in workers:
        worker.listed = True
    life.run(1000.0)
    assert (life.world.tally.launches, life.world.tally.terminations) == (launches, 0)
    assert life.broken == []


@pytest.mark.parametrize("name", ["jobs", "workers", "instances"])
def test_a_source_that_fails_for_hours_ends_nothing_and_all_goes_on_when_it_is_back(name: str) -> None:
    class Down(Faults):
        down = False

        def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
            if self.down and call.name == name:
                raise SourceError("down")
            return work()

    faults = Down()
    life = Life(faults=faults)
    life.begin()
    life.submit(4, length_s=400.0)
    assert life.run_until(lambda: life.world.running() == 4, HOUR_S)
    life.run(60.0)
    faults.down = True
    life.run(5 * HOUR_S)
    assert life.world.tally.terminations == 0
    faults.down = False
    life.submit(4)
    life.finish()


@pytest.mark.parametrize("name", ["jobs", "workers"])
def test_an_answer_in_part_ends_nothing(name: str) -> None:
    class InPart(Faults):
        in_part = False

        def apply(self, call: Call, work: Callable[[], T], delay_answer: Callable[[float], None]) -> T:
            answer: Any = work()
            if self.in_part and call.name == name:
                answer = replace(answer, missing=("another",))
            return answer  # type: ignore[no-any-return]

    faults = InPart()
    life = Life(faults=faults)
    life.begin()
    life.submit(4)
    assert life.run_until(lambda: life.world.running() == 4, HOUR_S)
    faults.in_part = True
    life.run(5 * HOUR_S)
    assert (life.world.tally.done, life.world.tally.terminations) == (4, 0)
    faults.in_part = False
    life.finish()
