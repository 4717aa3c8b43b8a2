"""How every batch system must drain. See `elastiq.conformance.batch`."""

from __future__ import annotations

import pytest

from elastiq.conformance import Conformance, needs
from elastiq.conformance.bench import BatchBench
from elastiq.interfaces import DrainMode, DrainOutcome, SourceError, WorkerState

# What a system's own command may take for all of its workers, for several of them, for an option or for a file.
NOBODY = (
    "",
    "all",
    "ALL",
    "*",
    "w*",
    "w?",
    ".*",
    "w[1-2]",
    "w1,w2",
    "w1 w2",
    "w1\nw2",
    "-a",
    "@allhosts",
    "../w1",
    "w",
)


class Drains(Conformance):
    """Who takes no new job, and by whose wish."""

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
        bench.restart()
        assert bench.worker(name).drained_by == drained_by

    @needs("drained-by")
    def test_what_somebody_else_drained_stays_his(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.drain_by_hand(name)
        before = bench.worker(name)
        assert before.state is WorkerState.DRAINED and "elastiq" not in (before.drained_by or "")
        bench.batch.drain(name, DrainMode.IF_IDLE)
        assert bench.worker(name) == before

    @needs("drain")
    def test_a_busy_worker_is_not_drained_if_idle_and_nothing_changes(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        answer = bench.batch.drain(name, DrainMode.IF_IDLE)
        assert answer.outcome is DrainOutcome.BUSY
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.drained_by) == (WorkerState.BUSY, 1, None)

    @needs("drain")
    def test_a_worker_that_is_busy_in_any_form_is_not_drained_if_idle(self, bench: BatchBench) -> None:
        for number, (form, make_busy) in enumerate(bench.busy_forms().items(), 1):
            name = bench.add_worker(f"w{number}", f"10.0.0.{number}")
            make_busy(name)
            try:
                outcome = bench.batch.drain(name, DrainMode.IF_IDLE).outcome
            except SourceError:
                outcome = None
            assert outcome is not DrainOutcome.DRAINED, form
            worker = bench.worker(name)
            assert worker.runs_something and not worker.is_drained and worker.drained_by is None, f"{form}: {worker}"

    @needs("drain")
    def test_a_job_that_starts_during_the_drain_has_its_worker(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job_in_next_drain(name)
        assert bench.batch.drain(name, DrainMode.IF_IDLE).outcome is DrainOutcome.BUSY
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.drained_by) == (WorkerState.BUSY, 1, None)

    @needs("drain")
    def test_a_peaceful_drain_lets_the_running_job_end_by_itself(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        assert bench.batch.drain(name, DrainMode.PEACEFUL).outcome is DrainOutcome.DRAINED
        worker = bench.worker(name)
        assert (worker.state, worker.jobs) == (WorkerState.DRAINING, 1)
        bench.end_job(name)
        worker = bench.worker(name)
        assert (worker.state, worker.jobs) == (WorkerState.DRAINED, 0)

    @needs("drain")
    def test_an_idle_worker_is_drained_peacefully_too(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        assert bench.batch.drain(name, DrainMode.PEACEFUL).outcome is DrainOutcome.DRAINED
        assert bench.worker(name).state is WorkerState.DRAINED

    @needs("drain")
    def test_an_undrained_worker_takes_jobs_again(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.batch.drain(name, DrainMode.IF_IDLE)
        bench.restart()
        bench.batch.undrain(name)
        worker = bench.worker(name)
        assert (worker.state, worker.drained_by) == (WorkerState.IDLE, None)
        assert bench.batch.drain(name, DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED

    @needs("drain")
    def test_a_drain_is_undone_while_jobs_still_run(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.start_job(name)
        bench.batch.drain(name, DrainMode.PEACEFUL)
        bench.batch.undrain(name)
        worker = bench.worker(name)
        assert (worker.state, worker.jobs, worker.drained_by) == (WorkerState.BUSY, 1, None)

    @needs("drain")
    def test_undraining_what_was_not_drained_is_no_error(self, bench: BatchBench) -> None:
        idle, busy = bench.add_worker("w1", "10.0.0.1"), bench.add_worker("w2", "10.0.0.2")
        bench.start_job(busy)
        bench.batch.undrain(idle)
        bench.batch.undrain(busy)
        assert bench.worker(idle).state is WorkerState.IDLE
        assert (bench.worker(busy).state, bench.worker(busy).jobs) == (WorkerState.BUSY, 1)

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
    def test_an_undrain_that_fails_is_an_error_and_can_be_asked_again(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.batch.drain(name, DrainMode.IF_IDLE)
        bench.fail_next("undrain")
        with pytest.raises(SourceError):
            bench.batch.undrain(name)
        bench.batch.undrain(name)
        assert bench.worker(name).state is WorkerState.IDLE

    @needs("drain")
    def test_a_drain_of_a_worker_that_does_not_exist_is_never_in_effect(self, bench: BatchBench) -> None:
        bench.add_worker("w1", "10.0.0.1")
        try:
            outcome = bench.batch.drain("nobody.example.org", DrainMode.IF_IDLE).outcome
        except SourceError:
            return
        assert outcome is DrainOutcome.REFUSED

    @needs("drain")
    @pytest.mark.parametrize("mode", DrainMode)
    def test_a_name_that_is_no_workers_drains_nobody(self, bench: BatchBench, mode: DrainMode) -> None:
        bench.add_worker("w1", "10.0.0.1")
        bench.add_worker("w2", "10.0.0.2")
        before = bench.batch.workers().workers
        for name in NOBODY:
            try:
                outcome = bench.batch.drain(name, mode).outcome
            except SourceError:
                outcome = DrainOutcome.REFUSED
            assert outcome is DrainOutcome.REFUSED, repr(name)
        assert bench.batch.workers().workers == before
