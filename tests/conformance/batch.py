"""What every `BatchSystem` must do. A plugin's test file subclasses `BatchConformance`:

    class TestHTCondor(BatchConformance):
        @pytest.fixture
        def bench(self, tmp_path): ...yield a BatchBench...

The bench sets up situations; the suite looks at them through the contract only. ``cannot`` may hold:
"running" (JobGroup.running), "drain", "drained-by" (Worker.drained_by), "memory" (jobs and workers state
it), "job-starts" (Worker.job_starts), "parts" (an answer in part: several schedds).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Optional

import pytest

from elastiq.interfaces import (
    BatchSystem,
    DrainMode,
    DrainOutcome,
    JobGroup,
    Machine,
    Resources,
    SourceError,
    UnsupportedError,
    Worker,
    WorkerState,
)
from tests.conformance import Conformance, assert_found_something, needs
from tests.looks import found


class BatchBench(ABC):
    """A batch system in a state that the test chooses. It starts empty: no job, no worker."""

    batch: BatchSystem

    @abstractmethod
    def submit(self, count: int = 1, cpus: float = 1, memory_mb: Optional[float] = None) -> None:
        """Let that many jobs of this shape wait."""

    @abstractmethod
    def hold(self, count: int = 1, cpus: float = 1) -> None:
        """Let that many jobs be in the queue that must not count as waiting (held)."""

    @abstractmethod
    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        """Let an idle worker join; returns its name as the batch system says it."""

    @abstractmethod
    def start_job(self, worker: str, cpus: float = 1) -> None:
        """Let a job run on this worker, and the queue know it."""

    @abstractmethod
    def lose_worker(self, worker: str) -> None:
        """Take the worker away from the list of workers; the queue still has its jobs as running."""

    @abstractmethod
    def fail_next(self, call: str) -> None:
        """Let the next call of this method ("jobs", "workers", "drain", "undrain", "jobs_recorded_on")
        fail as a system fails that cannot be reached."""

    @abstractmethod
    def garble_next(self, call: str) -> None:
        """Let the next "jobs" or "workers" be answered with something that is no answer, but with success."""

    @abstractmethod
    def refuse_next_drain(self) -> None:
        """Let the next drain be refused (not allowed)."""

    def lose_part(self) -> str:
        """Let one part of the queue not answer from now on; returns its name ("parts")."""
        raise NotImplementedError

    # ---- conveniences of the suite

    def worker(self, name: str) -> Worker:
        """The one worker of that name."""
        found = [worker for worker in self.batch.workers().workers if worker.name == name]
        assert len(found) == 1, f"{name}: {found}"
        return found[0]

    def waiting(self) -> dict[Optional[float], int]:
        """Waiting jobs by requested cpus, of the groups that a worker could run."""
        counts: dict[Optional[float], int] = {}
        for group in self.batch.jobs().groups:
            if not group.not_eligible and group.waiting:
                counts[group.request.cpus] = counts.get(group.request.cpus, 0) + group.waiting
        return counts


class BatchConformance(Conformance):
    """The contract of `BatchSystem` as tests."""

    # ---- jobs

    def test_an_empty_queue_is_an_answer_and_complete(self, bench: BatchBench) -> None:
        jobs = bench.batch.jobs()
        assert sum(group.waiting for group in jobs.groups) == 0
        assert jobs.complete

    def test_waiting_jobs_are_counted_by_shape(self, bench: BatchBench) -> None:
        bench.submit(count=3, cpus=1)
        bench.submit(count=2, cpus=4)
        assert bench.waiting() == {1: 3, 4: 2}

    def test_jobs_of_one_shape_are_one_group_however_many(self, bench: BatchBench) -> None:
        bench.submit(count=40, cpus=2)
        bench.submit(count=60, cpus=2)
        groups = [group for group in bench.batch.jobs().groups if group.waiting]
        assert [group.waiting for group in groups] == [100]

    def test_a_group_has_the_same_key_in_every_read(self, bench: BatchBench) -> None:
        bench.submit(count=1, cpus=2)
        first = {group.request.cpus: group.key for group in bench.batch.jobs().groups}
        bench.submit(count=1, cpus=8)
        bench.submit(count=5, cpus=2)
        second = {group.request.cpus: group.key for group in bench.batch.jobs().groups}
        assert second[2] == first[2]
        assert second[8] != second[2]

    @needs("memory")
    def test_memory_is_part_of_the_shape(self, bench: BatchBench) -> None:
        bench.submit(count=2, cpus=1, memory_mb=1000)
        bench.submit(count=3, cpus=1, memory_mb=30000)
        shapes = {group.request.memory_mb: group.waiting for group in bench.batch.jobs().groups}
        assert shapes == {1000: 2, 30000: 3}

    def test_running_jobs_do_not_wait(self, bench: BatchBench) -> None:
        worker = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(worker, cpus=1)
        bench.submit(count=4, cpus=1)
        assert bench.waiting() == {1: 4}

    @needs("running")
    def test_running_jobs_are_counted_where_the_system_says_them(self, bench: BatchBench) -> None:
        worker = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(worker, cpus=1)
        bench.start_job(worker, cpus=1)
        bench.submit(count=4, cpus=1)
        groups = bench.batch.jobs().groups
        assert sum(group.running or 0 for group in groups) == 2
        assert sum(group.waiting for group in groups) == 4

    def test_held_jobs_are_no_demand(self, bench: BatchBench) -> None:
        bench.hold(count=7, cpus=1)
        bench.submit(count=1, cpus=1)
        assert bench.waiting() == {1: 1}

    def test_a_queue_that_cannot_be_read_is_unknown_not_empty(self, bench: BatchBench) -> None:
        bench.submit(count=3)
        bench.fail_next("jobs")
        with pytest.raises(SourceError) as caught:
            bench.batch.jobs()
        assert str(caught.value).strip() and "\n" not in str(caught.value)
        assert bench.waiting() == {1: 3}  # and the next good read is good

    def test_nonsense_for_the_queue_is_unknown_not_empty(self, bench: BatchBench) -> None:
        bench.submit(count=3)
        bench.garble_next("jobs")
        with pytest.raises(SourceError):
            bench.batch.jobs()

    @needs("parts")
    def test_a_queue_that_answers_in_part_says_which_part_is_missing(self, bench: BatchBench) -> None:
        part = bench.lose_part()
        jobs = bench.batch.jobs()
        assert not jobs.complete
        assert any(part in missing for missing in jobs.missing)

    # ---- workers

    def test_an_empty_pool_is_an_answer(self, bench: BatchBench) -> None:
        answer = bench.batch.workers()
        assert answer.workers == ()
        assert answer.missing == ()

    def test_a_worker_is_one_row_with_name_address_and_size(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1", cpus=8, memory_mb=16384)
        bench.add_worker("w2", "10.0.0.2")
        assert len(bench.batch.workers().workers) == 2
        worker = bench.worker(name)
        assert worker.name == worker.name.lower()
        assert "10.0.0.1" in worker.addresses
        assert worker.total.cpus == 8

    @needs("memory")
    def test_a_worker_states_its_memory(self, bench: BatchBench) -> None:
        worker = bench.worker(bench.add_worker("w1", "10.0.0.1", cpus=8, memory_mb=16384))
        assert worker.total.memory_mb == 16384

    def test_a_worker_without_a_job_is_idle_and_all_free(self, bench: BatchBench) -> None:
        worker = bench.worker(bench.add_worker("w1", "10.0.0.1", cpus=4))
        assert (worker.state, worker.jobs, worker.free.cpus) == (WorkerState.IDLE, 0, 4)

    def test_a_worker_with_a_job_in_one_of_its_slots_is_busy(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1", cpus=4)
        bench.start_job(name, cpus=1)
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.free.cpus) == (WorkerState.BUSY, 1, 3)

    def test_a_full_worker_has_no_free_room(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1", cpus=2)
        bench.start_job(name, cpus=1)
        bench.start_job(name, cpus=1)
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.free.cpus) == (WorkerState.BUSY, 2, 0)

    @needs("job-starts")
    def test_job_starts_grow_with_each_start_where_they_are_said(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        before = bench.worker(name).job_starts
        bench.start_job(name)
        after = bench.worker(name).job_starts
        assert before is not None and after is not None and after > before

    def test_workers_that_cannot_be_read_are_unknown_not_gone(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.fail_next("workers")
        with pytest.raises(SourceError) as caught:
            bench.batch.workers()
        assert str(caught.value).strip() and "\n" not in str(caught.value)
        assert bench.worker(name).state is WorkerState.IDLE

    def test_nonsense_for_the_workers_is_unknown_not_gone(self, bench: BatchBench) -> None:
        bench.add_worker("w1", "10.0.0.1")
        bench.garble_next("workers")
        with pytest.raises(SourceError):
            bench.batch.workers()

    def test_a_lost_worker_is_not_listed(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.add_worker("w2", "10.0.0.2")
        bench.lose_worker(name)
        assert [worker.name for worker in bench.batch.workers().workers if worker.name == name] == []
        assert len(bench.batch.workers().workers) == 1

    # ---- drain

    @needs("drain")
    def test_an_idle_worker_is_drained_if_idle(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        assert bench.batch.drain(name, DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
        assert bench.worker(name).state is WorkerState.DRAINED

    @needs("drained-by")
    def test_a_drain_of_ours_carries_our_name(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.batch.drain(name, DrainMode.IF_IDLE)
        drained_by = bench.worker(name).drained_by
        assert drained_by and "elastiq" in drained_by

    @needs("drain")
    def test_a_busy_worker_is_not_drained_if_idle_and_nothing_changes(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        answer = bench.batch.drain(name, DrainMode.IF_IDLE)
        assert answer.outcome is DrainOutcome.BUSY
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.drained_by) == (WorkerState.BUSY, 1, None)

    @needs("drain")
    def test_a_peaceful_drain_lets_the_running_job_end_by_itself(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        assert bench.batch.drain(name, DrainMode.PEACEFUL).outcome is DrainOutcome.DRAINED
        worker = bench.worker(name)
        assert (worker.state, worker.jobs) == (WorkerState.DRAINING, 1)

    @needs("drain")
    def test_an_undrained_worker_takes_jobs_again(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.batch.drain(name, DrainMode.IF_IDLE)
        bench.batch.undrain(name)
        worker = bench.worker(name)
        assert (worker.state, worker.drained_by) == (WorkerState.IDLE, None)

    @needs("drain")
    def test_undraining_what_was_not_drained_is_no_error(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.batch.undrain(name)
        assert bench.worker(name).state is WorkerState.IDLE

    @needs("drain")
    def test_a_refused_drain_says_so_and_changes_nothing(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.refuse_next_drain()
        answer = bench.batch.drain(name, DrainMode.IF_IDLE)
        assert answer.outcome is DrainOutcome.REFUSED
        assert answer.detail
        assert bench.worker(name).state is WorkerState.IDLE

    @needs("drain")
    def test_a_drain_of_unknown_outcome_is_an_error_not_an_outcome(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.fail_next("drain")
        with pytest.raises(SourceError):
            bench.batch.drain(name, DrainMode.IF_IDLE)

    @needs("drain")
    def test_a_drain_of_a_worker_that_does_not_exist_is_never_in_effect(self, bench: BatchBench) -> None:
        bench.add_worker("w1", "10.0.0.1")
        try:
            outcome = bench.batch.drain("nobody.example.org", DrainMode.IF_IDLE).outcome
        except SourceError:
            return
        assert outcome is DrainOutcome.REFUSED

    # ---- recorded jobs, forgetting, fitting

    def test_the_queue_says_how_many_jobs_it_records_on_each_worker(self, bench: BatchBench) -> None:
        one, two = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.start_job(one)
        bench.start_job(one)
        recorded = bench.batch.jobs_recorded_on([one, two])
        assert dict(recorded) == {one: 2, two: 0}

    def test_the_queue_names_the_jobs_of_a_worker_or_says_that_it_cannot(self, bench: BatchBench) -> None:
        one, two = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.start_job(one)
        bench.start_job(one)
        try:
            names = bench.batch.jobs_on(one)
        except UnsupportedError:
            return
        assert len(set(names)) == 2 and all(names) and bench.batch.jobs_on(two) == ()

    def test_jobs_of_a_lost_worker_stay_recorded(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        bench.lose_worker(name)
        assert dict(bench.batch.jobs_recorded_on([name])) == {name: 1}

    def test_recorded_jobs_that_cannot_be_read_are_unknown_not_none(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        bench.fail_next("jobs_recorded_on")
        with pytest.raises(SourceError):
            bench.batch.jobs_recorded_on([name])

    def test_a_job_that_asks_more_than_a_machine_has_does_not_fit_and_says_why(self, bench: BatchBench) -> None:
        big = JobGroup(key="big", request=Resources(cpus=64), waiting=1)
        small = JobGroup(key="small", request=Resources(cpus=1), waiting=1)
        fits, why = bench.batch.fits(big, Resources(cpus=4))
        assert not fits and "64" in why
        assert bench.batch.fits(small, Resources(cpus=4)) == (True, "")

    def test_each_pair_of_jobs_and_machines_gets_an_answer_where_it_can_match(self, bench: BatchBench) -> None:
        bench.submit(count=2, cpus=1)
        bench.submit(count=1, cpus=64)
        small, big = sorted(bench.batch.jobs().groups, key=lambda group: group.request.cpus or 0)
        machines = [Machine("pool", "flavour", Resources(cpus=4)), Machine("pool", "large", Resources(cpus=64))]
        if not bench.batch.can_match:
            with pytest.raises(UnsupportedError):
                bench.batch.match([small, big], machines)
            return
        said = bench.batch.match([small, big], machines)
        assert {pair: bool(why) for pair, why in said.items()} == {
            (group.key, machine): (group, machine) == (big, machines[0])
            for group in (small, big)
            for machine in machines
        }
        assert "64" in said[big.key, machines[0]]

    def test_checks_are_findings_with_a_level_and_change_nothing(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.submit(2)
        before = bench.worker(name)
        assert_found_something(bench.batch.checks())
        assert bench.worker(name) == before and before.takes_jobs

    def test_checks_of_a_system_that_cannot_be_read_are_not_ok(self, bench: BatchBench) -> None:
        bench.fail_next("workers")
        assert {check.level for check in found(bench.batch.checks())} - {"ok", "warning"}
