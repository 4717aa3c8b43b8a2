"""What every batch system must say of its queue. See `elastiq.conformance.batch`."""

from __future__ import annotations

import pytest

from elastiq.conformance import Conformance, needs
from elastiq.conformance.bench import BatchBench
from elastiq.interfaces import SourceError


class Queue(Conformance):
    """Who waits, and for what."""

    def test_an_empty_queue_is_an_answer_and_complete(self, bench: BatchBench) -> None:
        jobs = bench.batch.jobs()
        assert sum(group.waiting for group in jobs.groups) == 0
        assert jobs.complete

    def test_one_job_is_one_group(self, bench: BatchBench) -> None:
        bench.submit()
        (group,) = bench.batch.jobs().groups
        assert (group.waiting, group.request.cpus, group.nodes, group.not_eligible) == (1, 1, 1, "")

    def test_a_queue_has_changed_once_a_job_came_and_not_before_where_it_is_watched(self, bench: BatchBench) -> None:
        assert bench.batch.changed(), "it was not read yet"
        bench.batch.jobs()
        assert bench.batch.changed() is not bench.batch.watches
        bench.submit()
        assert bench.batch.changed()
        bench.batch.jobs()
        assert bench.batch.changed() is not bench.batch.watches

    def test_waiting_jobs_are_counted_by_shape(self, bench: BatchBench) -> None:
        bench.submit(count=3, cpus=1)
        bench.submit(count=2, cpus=4)
        assert bench.waiting() == {1: 3, 4: 2}

    def test_jobs_of_one_shape_are_one_group_however_many(self, bench: BatchBench) -> None:
        bench.submit(count=40, cpus=2)
        bench.submit(count=60, cpus=2)
        groups = [group for group in bench.batch.jobs().groups if group.waiting]
        assert [group.waiting for group in groups] == [100]

    def test_a_group_has_the_same_key_in_every_read_and_after_a_restart(self, bench: BatchBench) -> None:
        bench.submit(count=1, cpus=2)
        first = {group.request.cpus: group.key for group in bench.batch.jobs().groups}
        bench.submit(count=1, cpus=8)
        bench.submit(count=5, cpus=2)
        second = {group.request.cpus: group.key for group in bench.batch.jobs().groups}
        assert second[2] == first[2]
        assert second[8] != second[2]
        bench.restart()
        assert {group.request.cpus: group.key for group in bench.batch.jobs().groups} == second

    @needs("users")
    def test_jobs_of_all_users_are_counted(self, bench: BatchBench) -> None:
        bench.submit(count=2, user="alice")
        bench.submit(count=3, user="bob")
        assert bench.waiting() == {1: 5}

    @needs("names")
    def test_odd_names_of_jobs_neither_hide_nor_spoil_anything(self, bench: BatchBench) -> None:
        for name in bench.odd_names:
            bench.submit(count=1, cpus=3, name=name)
        bench.submit(count=2, cpus=1)
        assert bench.waiting() == {3: len(bench.odd_names), 1: 2}

    @needs("memory")
    def test_memory_is_part_of_the_shape(self, bench: BatchBench) -> None:
        bench.submit(count=2, cpus=1, memory_mb=1000)
        bench.submit(count=3, cpus=1, memory_mb=30000)
        shapes = {group.request.memory_mb: group.waiting for group in bench.batch.jobs().groups}
        assert shapes == {1000: 2, 30000: 3}

    @needs("nodes")
    def test_a_job_for_several_machines_is_one_job_with_its_request_on_each(self, bench: BatchBench) -> None:
        bench.submit(count=2, cpus=4, nodes=3)
        bench.submit(count=1, cpus=4)
        groups = {group.nodes: (group.waiting, group.request.cpus) for group in bench.batch.jobs().groups}
        assert groups == {3: (2, 4), 1: (1, 4)}

    @needs("arrays")
    def test_every_task_of_an_array_is_a_job(self, bench: BatchBench) -> None:
        bench.submit_array(12)
        bench.submit_array(30, cpus=4)
        assert bench.waiting() == {1: 12, 4: 30}

    @needs("arrays")
    def test_tasks_of_an_array_that_run_do_not_wait(self, bench: BatchBench) -> None:
        one, two = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.submit_array(12, on=[one, two, two])
        assert bench.waiting() == {1: 9}
        assert dict(bench.batch.jobs_recorded_on([one, two])) == {one: 1, two: 2}

    @needs("arrays", "array-limit")
    def test_of_an_array_only_as_many_tasks_wait_as_may_run_at_once(self, bench: BatchBench) -> None:
        bench.submit_array(100, limit=7)
        assert bench.waiting() == {1: 7}

    @needs("arrays", "array-limit")
    def test_tasks_that_run_are_of_the_number_that_may(self, bench: BatchBench) -> None:
        worker = bench.add_worker("w1", "10.0.0.1")
        bench.submit_array(100, limit=7, on=[worker, worker])
        bench.submit_array(50, limit=1, cpus=2, on=[worker])
        assert bench.waiting() == {1: 5}

    # ---- who does not wait for a machine

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

    def test_jobs_that_ended_are_no_jobs_any_more(self, bench: BatchBench) -> None:
        worker = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(worker)
        bench.end_job(worker)
        groups = bench.batch.jobs().groups
        assert sum(group.waiting + (group.running or 0) for group in groups) == 0

    @needs("hold")
    def test_held_jobs_are_no_demand(self, bench: BatchBench) -> None:
        bench.hold(count=7, cpus=1)
        bench.submit(count=1, cpus=1)
        assert bench.waiting() == {1: 1}

    @needs("depend")
    def test_jobs_that_wait_for_another_are_no_demand(self, bench: BatchBench) -> None:
        bench.depend(count=3, cpus=1)
        bench.submit(count=2, cpus=1)
        assert bench.waiting() == {1: 2}

    @needs("blocked")
    def test_jobs_that_wait_for_no_machine_are_no_demand_in_whatever_form(self, bench: BatchBench) -> None:
        forms = bench.blocked_forms()
        assert forms
        bench.submit(count=1, cpus=1)
        for form, block in forms.items():
            block(2)
            assert bench.waiting() == {1: 1}, form

    @needs("held-running")
    def test_a_job_that_runs_with_a_hold_runs(self, bench: BatchBench) -> None:
        worker = bench.add_worker("w1", "10.0.0.1")
        bench.hold_running(worker)
        assert bench.waiting() == {}
        assert bench.worker(worker).runs_something
        assert dict(bench.batch.jobs_recorded_on([worker])) == {worker: 1}

    # ---- unknown is not empty

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

    @needs("blank")
    def test_an_empty_success_for_the_queue_is_unknown_not_empty(self, bench: BatchBench) -> None:
        bench.submit(count=3)
        bench.blank_next("jobs")
        with pytest.raises(SourceError):
            bench.batch.jobs()

    @needs("cut")
    def test_a_queue_that_was_told_to_the_middle_is_unknown(self, bench: BatchBench) -> None:
        bench.submit(count=3, cpus=1)
        bench.submit(count=3, cpus=2)
        bench.cut_next("jobs")
        with pytest.raises(SourceError):
            bench.batch.jobs()

    @needs("parts")
    def test_a_queue_that_answers_in_part_says_which_part_is_missing(self, bench: BatchBench) -> None:
        part = bench.lose_part()
        jobs = bench.batch.jobs()
        assert not jobs.complete
        assert any(part in missing for missing in jobs.missing)

    # ---- one job

    @needs("find-job")
    def test_a_job_is_found_by_the_name_that_its_group_gives(self, bench: BatchBench) -> None:
        bench.submit(count=2, cpus=1)
        bench.submit(count=2, cpus=4)
        for group in bench.batch.jobs().groups:
            key, words = bench.batch.find_job(group.sample_job.partition(" ")[0])
            assert key == group.key
            assert words and "\n" not in words

    @needs("find-job", "blocked")
    def test_a_job_that_none_could_run_is_never_told_to_be_of_another_group(self, bench: BatchBench) -> None:
        bench.submit(count=2, cpus=1)
        for block in bench.blocked_forms().values():
            block(1)
        groups = bench.batch.jobs().groups
        for group in groups:
            if group.sample_job:
                key, words = bench.batch.find_job(group.sample_job.partition(" ")[0])
                assert key in ("", group.key) if group.not_eligible else key == group.key, words

    @needs("find-job")
    def test_a_job_that_is_not_there_is_an_error(self, bench: BatchBench) -> None:
        bench.submit()
        for job in ("987654321", "no such job", ""):
            with pytest.raises(SourceError):
                bench.batch.find_job(job)
