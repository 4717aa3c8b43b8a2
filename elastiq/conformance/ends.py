"""What is recorded on a machine that ends, how machines are made known, and how they are forgotten."""

from __future__ import annotations

import pytest

from elastiq.conformance import Conformance, needs
from elastiq.conformance.bench import BatchBench
from elastiq.conformance.drains import NOBODY
from elastiq.interfaces import DrainMode, Instance, InstanceState, SourceError, WorkerState


def instance(number: int, address: str) -> Instance:
    return Instance(f"i-{number:08x}", InstanceState.RUNNING, frozenset({address}), pool="ec2", flavour="m5.large")


class Ends(Conformance):
    """Before the first job of a machine, and after its last."""

    # ---- recorded jobs

    def test_the_queue_says_how_many_jobs_it_records_on_each_worker(self, bench: BatchBench) -> None:
        one, two = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.start_job(one)
        bench.start_job(one)
        bench.submit()
        recorded = bench.batch.jobs_recorded_on([one, two])
        assert dict(recorded) == {one: 2, two: 0}
        assert dict(bench.batch.jobs_recorded_on([])) == {}

    def test_a_worker_whose_name_begins_as_anothers_has_not_his_jobs(self, bench: BatchBench) -> None:
        names = [bench.add_worker(name, f"10.0.0.{number}") for number, name in enumerate(("w1", "w11", "w1.a"), 1)]
        bench.start_job(names[1])
        assert dict(bench.batch.jobs_recorded_on(names)) == dict(zip(names, (0, 1, 0)))

    @needs("lost-jobs")
    def test_jobs_of_a_lost_worker_stay_recorded(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        bench.lose_worker(name)
        assert dict(bench.batch.jobs_recorded_on([name])) == {name: 1}
        bench.restart()
        assert dict(bench.batch.jobs_recorded_on([name])) == {name: 1}

    def test_recorded_jobs_that_cannot_be_read_are_unknown_not_none(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        bench.fail_next("jobs_recorded_on")
        with pytest.raises(SourceError):
            bench.batch.jobs_recorded_on([name])

    def test_nonsense_for_the_recorded_jobs_is_unknown_not_none(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        bench.garble_next("jobs_recorded_on")
        with pytest.raises(SourceError):
            bench.batch.jobs_recorded_on([name])

    @needs("blank")
    def test_an_empty_success_for_the_recorded_jobs_is_unknown_not_none(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        bench.blank_next("jobs_recorded_on")
        with pytest.raises(SourceError):
            bench.batch.jobs_recorded_on([name])

    @needs("jobs-on")
    def test_the_queue_names_the_jobs_of_a_worker(self, bench: BatchBench) -> None:
        one, two = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.start_job(one)
        bench.start_job(one)
        names = bench.batch.jobs_on(one)
        assert len(set(names)) == 2 and all(names) and bench.batch.jobs_on(two) == ()

    @needs("jobs-on", "lost-jobs")
    def test_the_queue_names_the_jobs_of_a_lost_worker(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        names = bench.batch.jobs_on(name)
        bench.lose_worker(name)
        assert bench.batch.jobs_on(name) == names and len(names) == 1

    # ---- what the system holds of a worker that ended

    @needs("forget")
    def test_an_ended_worker_is_forgotten(self, bench: BatchBench) -> None:
        name, other = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.end_worker(name)
        assert bench.holds(name)
        bench.batch.forget(name)
        assert not bench.holds(name)
        assert bench.names() == [other]
        bench.batch.forget(name)  # and again

    @needs("forget", "drain")
    def test_a_worker_that_was_drained_before_its_end_is_forgotten_and_comes_again(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.batch.drain(name, DrainMode.IF_IDLE)
        bench.end_worker(name)
        assert bench.holds(name)
        bench.restart()
        bench.batch.forget(name)
        assert not bench.holds(name)
        again = bench.add_worker("w1", "10.0.0.1")
        assert (again, bench.worker(again).state) == (name, WorkerState.IDLE)

    @needs("forget-in-service")
    def test_a_worker_in_service_is_not_forgotten(self, bench: BatchBench) -> None:
        idle, busy = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.start_job(busy)
        before = bench.batch.workers().workers
        for name in (idle, busy):
            try:
                bench.batch.forget(name)
            except SourceError:
                pass  # it may say that it is still there
        assert bench.batch.workers().workers == before

    @needs("forget")
    def test_a_name_that_is_no_workers_makes_nobody_forgotten(self, bench: BatchBench) -> None:
        bench.add_worker("w2", "10.0.0.2")
        ended = bench.add_worker("w1", "10.0.0.1")
        bench.end_worker(ended)
        assert bench.holds(ended)
        before = bench.batch.workers().workers
        for name in NOBODY:
            try:
                bench.batch.forget(name)
            except SourceError:
                pass
            assert bench.holds(ended), repr(name)
        assert bench.batch.workers().workers == before

    @needs("forget")
    def test_a_forgetting_that_fails_is_an_error_and_can_be_asked_again(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.end_worker(name)
        assert bench.holds(name)
        bench.fail_next("forget")
        with pytest.raises(SourceError):
            bench.batch.forget(name)
        bench.batch.forget(name)
        assert not bench.holds(name)

    # ---- machines that are made known

    @needs("register")
    def test_a_registered_machine_is_expected_and_no_worker_yet(self, bench: BatchBench) -> None:
        new = instance(1, "10.0.0.7")
        bench.batch.register(new)
        assert bench.knows(new)
        assert bench.batch.workers().workers == ()

    @needs("register")
    def test_a_registered_machine_joins_as_an_idle_worker(self, bench: BatchBench) -> None:
        new = instance(1, "10.0.0.7")
        bench.batch.register(new)
        worker = bench.worker(bench.join(new))
        assert worker.state is WorkerState.IDLE and "10.0.0.7" in worker.addresses

    @needs("register")
    def test_registering_twice_is_registering_once(self, bench: BatchBench) -> None:
        new = instance(1, "10.0.0.7")
        bench.batch.register(new)
        bench.restart()
        bench.batch.register(new)
        name = bench.join(new)
        bench.start_job(name)
        bench.batch.register(new)  # it is in service by now
        worker = bench.worker(name)
        assert (worker.state, worker.jobs) == (WorkerState.BUSY, 1)
        assert dict(bench.batch.jobs_recorded_on([name])) == {name: 1}
        assert bench.names() == [name]

    @needs("register")
    def test_a_machine_with_a_new_address_joins_at_that(self, bench: BatchBench) -> None:
        bench.batch.register(instance(1, "10.0.0.7"))
        moved = instance(1, "10.0.0.8")
        bench.batch.register(moved)
        worker = bench.worker(bench.join(moved))
        assert worker.state is WorkerState.IDLE and "10.0.0.8" in worker.addresses

    @needs("register")
    def test_registering_one_machine_leaves_the_others_alone(self, bench: BatchBench) -> None:
        idle, busy = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.start_job(busy)
        before = bench.batch.workers().workers
        new = instance(1, "10.0.0.7")
        bench.batch.register(new)
        bench.batch.unregister(new)
        assert bench.batch.workers().workers == before
        assert dict(bench.batch.jobs_recorded_on([idle, busy])) == {idle: 0, busy: 1}

    @needs("register")
    def test_a_machine_that_ended_before_it_joined_is_unregistered(self, bench: BatchBench) -> None:
        new = instance(1, "10.0.0.7")
        bench.batch.register(new)
        bench.restart()
        bench.batch.unregister(new)
        assert not bench.knows(new)
        bench.batch.unregister(new)  # and again

    @needs("register")
    def test_a_machine_that_was_never_registered_can_be_unregistered(self, bench: BatchBench) -> None:
        other = instance(2, "10.0.0.8")
        bench.batch.register(other)
        bench.batch.unregister(instance(1, "10.0.0.7"))
        assert bench.knows(other)

    @needs("register", "forget")
    def test_a_machine_that_ended_after_it_had_joined_is_unregistered(self, bench: BatchBench) -> None:
        new = instance(1, "10.0.0.7")
        bench.batch.register(new)
        name = bench.join(new)
        bench.end_worker(name)
        bench.batch.forget(name)
        bench.batch.unregister(new)
        assert not bench.knows(new) and bench.batch.workers().workers == ()

    @needs("register")
    def test_an_address_that_another_machine_has_by_now_stays_registered(self, bench: BatchBench) -> None:
        old, new = instance(1, "10.0.0.7"), instance(2, "10.0.0.7")
        bench.batch.register(old)
        name = bench.join(old)
        bench.lose_worker(name)
        bench.batch.register(new)
        joined = bench.join(new)
        bench.batch.unregister(old)
        assert bench.worker(joined).state is WorkerState.IDLE
        assert bench.names() == [joined]

    @needs("register")
    @pytest.mark.parametrize("call", ["register", "unregister"])
    def test_a_registration_that_fails_is_an_error_and_can_be_asked_again(self, bench: BatchBench, call: str) -> None:
        new = instance(1, "10.0.0.7")
        if call == "unregister":
            bench.batch.register(new)
        bench.fail_next(call)
        with pytest.raises(SourceError):
            getattr(bench.batch, call)(new)
        getattr(bench.batch, call)(new)
        assert bench.knows(new) == (call == "register")
