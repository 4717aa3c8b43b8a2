"""What every batch system must say of its workers. See `elastiq.conformance.batch`."""

from __future__ import annotations

import pytest

from elastiq.conformance import Conformance, needs
from elastiq.conformance.bench import BatchBench
from elastiq.interfaces import DrainMode, DrainOutcome, SourceError, WorkerState


class Pool(Conformance):
    """Which workers there are, and what they do."""

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

    def test_forty_workers_are_forty_rows(self, bench: BatchBench) -> None:
        names = [bench.add_worker(f"w{number}", f"10.0.1.{number}") for number in range(1, 41)]
        bench.start_job(names[7])
        workers = {worker.name: worker for worker in bench.batch.workers().workers}
        assert len(bench.batch.workers().workers) == 40 and workers.keys() == set(names)
        assert [name for name, worker in workers.items() if worker.state is not WorkerState.IDLE] == [names[7]]

    @needs("memory")
    def test_a_worker_states_its_memory(self, bench: BatchBench) -> None:
        worker = bench.worker(bench.add_worker("w1", "10.0.0.1", cpus=8, memory_mb=16384))
        assert worker.total.memory_mb == 16384

    def test_workers_with_odd_names_are_told_apart_and_found_again(self, bench: BatchBench) -> None:
        names = [bench.add_worker(host, f"10.9.0.{number}") for number, host in enumerate(bench.odd_hosts, 1)]
        workers = {worker.name: worker for worker in bench.batch.workers().workers}
        assert sorted(workers) == sorted(name.lower() for name in names) and len(names) == len(bench.odd_hosts)
        for number, name in enumerate(names, 1):
            assert f"10.9.0.{number}" in workers[name].addresses
        for name in names[::2]:
            bench.start_job(name)
        assert dict(bench.batch.jobs_recorded_on(names)) == {name: int(name in names[::2]) for name in names}

    @needs("drain")
    def test_workers_with_odd_names_are_drained_and_undrained(self, bench: BatchBench) -> None:
        names = [bench.add_worker(host, f"10.9.0.{number}") for number, host in enumerate(bench.odd_hosts, 1)]
        for name in names:
            assert bench.batch.drain(name, DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED, name
            states = {worker.name: worker.state for worker in bench.batch.workers().workers}
            assert states == {one: WorkerState.DRAINED if one == name else WorkerState.IDLE for one in names}
            bench.batch.undrain(name)
        assert {worker.state for worker in bench.batch.workers().workers} == {WorkerState.IDLE}

    @needs("queues")
    def test_a_worker_in_two_queues_is_one_row_and_no_larger(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1", cpus=4)
        bench.list_twice(name)
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.total.cpus, worker.free.cpus) == (WorkerState.IDLE, 0, 4, 4)
        bench.start_job(name, cpus=1)
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.total.cpus, worker.free.cpus) == (WorkerState.BUSY, 1, 4, 3)

    # ---- busy

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

    def test_a_worker_is_busy_in_every_form_that_the_system_can_show(self, bench: BatchBench) -> None:
        forms = bench.busy_forms()
        assert forms
        for number, (form, make_busy) in enumerate(forms.items(), 1):
            name = bench.add_worker(f"w{number}", f"10.0.0.{number}")
            make_busy(name)
            worker = bench.worker(name)
            assert worker.runs_something, f"{form}: {worker}"
            assert worker.state not in (WorkerState.IDLE, WorkerState.DRAINED), f"{form}: {worker}"

    def test_a_worker_whose_last_job_ended_is_idle_again(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1", cpus=4)
        bench.start_job(name, cpus=1)
        bench.start_job(name, cpus=1)
        bench.end_job(name)
        assert (bench.worker(name).state, bench.worker(name).jobs) == (WorkerState.BUSY, 1)
        bench.end_job(name)
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.free.cpus) == (WorkerState.IDLE, 0, 4)
        assert dict(bench.batch.jobs_recorded_on([name])) == {name: 0}

    @needs("nodes")
    def test_a_job_on_several_workers_makes_each_of_them_busy(self, bench: BatchBench) -> None:
        names = [bench.add_worker(f"w{number}", f"10.0.0.{number}") for number in (1, 2, 3)]
        bench.start_across(names[:2], cpus=3)
        workers = {worker.name: worker for worker in bench.batch.workers().workers}
        assert [workers[name].state for name in names] == [WorkerState.BUSY, WorkerState.BUSY, WorkerState.IDLE]
        assert [workers[name].free.cpus for name in names] == [1, 1, 4]
        assert dict(bench.batch.jobs_recorded_on(names)) == {names[0]: 1, names[1]: 1, names[2]: 0}

    @needs("strange")
    def test_a_worker_that_is_neither_idle_nor_busy_is_taken_for_neither(self, bench: BatchBench) -> None:
        forms = bench.strange_forms()
        assert forms
        well = bench.add_worker("well", "10.0.1.1")
        for number, (form, make_strange) in enumerate(forms.items(), 1):
            name = bench.add_worker(f"w{number}", f"10.0.0.{number}")
            make_strange(name)
            (worker,) = [worker for worker in bench.batch.workers().workers if worker.name == name]
            assert worker.state is WorkerState.OTHER and worker.detail, f"{form}: {worker}"
            assert bench.worker(well).state is WorkerState.IDLE, form

    @needs("job-starts")
    def test_job_starts_grow_with_each_start_and_never_shrink(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        said = [bench.worker(name).job_starts]
        for act in (bench.start_job, bench.end_job, bench.start_job):
            act(name)
            said.append(bench.worker(name).job_starts)
        before, started, ended, again = (-1 if starts is None else starts for starts in said)
        assert 0 <= before < started <= ended < again

    def test_a_lost_worker_is_not_listed(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        other = bench.add_worker("w2", "10.0.0.2")
        assert bench.names() == [name, other]
        bench.lose_worker(name)
        assert bench.names() == [other]

    @needs("lost-jobs")
    def test_a_lost_worker_is_not_listed_whatever_the_queue_records_there(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        other = bench.add_worker("w2", "10.0.0.2")
        bench.start_job(name)
        assert bench.worker(name).state is WorkerState.BUSY
        bench.lose_worker(name)
        assert bench.names() == [other]

    # ---- unknown is not gone

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

    @needs("blank")
    def test_an_empty_success_for_the_workers_is_unknown_not_gone(self, bench: BatchBench) -> None:
        bench.add_worker("w1", "10.0.0.1")
        bench.blank_next("workers")
        with pytest.raises(SourceError):
            bench.batch.workers()

    @needs("cut")
    def test_workers_that_were_told_to_the_middle_are_unknown(self, bench: BatchBench) -> None:
        bench.add_worker("w1", "10.0.0.1")
        bench.add_worker("w2", "10.0.0.2")
        bench.cut_next("workers")
        with pytest.raises(SourceError):
            bench.batch.workers()
