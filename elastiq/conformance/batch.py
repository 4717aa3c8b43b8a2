"""What every `BatchSystem` must do. A plugin's test file subclasses `BatchConformance`:

    class TestSlurm(BatchConformance):
        cannot = {"job-starts": "slurmctld does not count them"}

        @pytest.fixture
        def bench(self, tmp_path): ...yield a BatchBench...

Each test is of one ability at most, but for those that every system has. ``cannot`` may name:

    running        `JobGroup.running` is said
    memory         jobs ask for memory, and workers state it
    users, names   jobs have owners; jobs have names
    hold, depend   jobs are held; jobs wait for other jobs
    blocked        jobs wait for something else that is no machine, or are in a state that nobody knows
    arrays         one entry of the queue stands for many jobs
    array-limit    ...of which so many at once may run
    nodes          a job takes several machines at once
    held-running   a job with a hold runs
    queues         a worker is in several partitions, queues or the like
    strange        a worker is in a state that is neither idle nor busy, or that nobody knows
    job-starts     `Worker.job_starts` is said
    drain          `drain` and `undrain`
    drained-by     `Worker.drained_by` is said
    lost-jobs      the queue records jobs on a worker that vanished
    jobs-on        `jobs_on`
    find-job       `find_job`
    register       `register` and `unregister`
    forget         `forget`
    forget-in-service   ...which tells a worker in service from one that ended
    match          `match`
    blank          an answer of no bytes is no answer
    cut            an answer may end in the middle
    hang           a call may never be answered
    parts          the queue may answer in part (several schedds)
"""

from __future__ import annotations

from contextlib import suppress

from elastiq.conformance import assert_found_something, found, needs
from elastiq.conformance.bench import BatchBench as BatchBench
from elastiq.conformance.drains import Drains
from elastiq.conformance.ends import Ends
from elastiq.conformance.jobs import Queue
from elastiq.conformance.scale import Scale
from elastiq.conformance.workers import Pool
from elastiq.interfaces import BatchSystem, JobGroup, Machine, Resources, SourceError

METHODS = {"find-job": "find_job", "jobs-on": "jobs_on", "register": "register", "forget": "forget", "match": "match"}


class BatchConformance(Queue, Pool, Drains, Ends, Scale):
    """The contract of `BatchSystem` as tests."""

    def test_what_the_plugin_has_is_tested(self, bench: BatchBench) -> None:
        plugin = type(bench.batch)
        own = {name for name in METHODS.values() if getattr(plugin, name) is not getattr(BatchSystem, name)}
        if not bench.batch.keeps_records:  # then nobody asks it to register anything
            own.discard("register")
        assert {ability for ability, name in METHODS.items() if name in own} == METHODS.keys() - self.cannot.keys()
        assert bench.batch.can_drain == ("drain" not in self.cannot)
        assert bench.batch.can_match == ("match" not in self.cannot)

    # ---- what fits

    def test_a_job_that_asks_more_than_a_machine_has_does_not_fit_and_says_why(self, bench: BatchBench) -> None:
        big = JobGroup(key="big", request=Resources(cpus=64), waiting=1)
        small = JobGroup(key="small", request=Resources(cpus=1), waiting=1)
        fits, why = bench.batch.fits(big, Resources(cpus=4))
        assert not fits and "64" in why
        assert bench.batch.fits(small, Resources(cpus=4)) == (True, "")

    @needs("match")
    def test_each_pair_of_jobs_and_machines_gets_an_answer(self, bench: BatchBench) -> None:
        bench.submit(count=2, cpus=1)
        bench.submit(count=1, cpus=64)
        small, big = sorted(bench.batch.jobs().groups, key=lambda group: group.request.cpus or 0)
        machines = [
            Machine("pool", "flavour", Resources(cpus=4), worker_ad=bench.worker_ad),
            Machine("pool", "large", Resources(cpus=64), worker_ad=bench.worker_ad),
        ]
        said = bench.batch.match([small, big], machines)
        assert {pair: bool(why) for pair, why in said.items()} == {
            (group.key, machine): (group, machine) == (big, machines[0])
            for group in (small, big)
            for machine in machines
        }
        assert "64" in said[big.key, machines[0]]

    @needs("match")
    def test_machines_are_matched_by_what_a_worker_like_them_showed_of_itself(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1", cpus=4)
        shown = bench.batch.portrait(name)
        assert bench.batch.portrait(name) == shown
        bench.submit(count=2, cpus=1)
        bench.submit(count=1, cpus=64)
        small, big = sorted(bench.batch.jobs().groups, key=lambda group: group.request.cpus or 0)
        machine = Machine("pool", "flavour", Resources(cpus=4), shown, bench.worker_ad)
        said = bench.batch.match([small, big], [machine])
        assert (said[small.key, machine], bool(said[big.key, machine])) == ("", True)

    @needs("match")
    def test_a_portrait_that_makes_no_sense_is_unknown_or_none(self, bench: BatchBench) -> None:
        """It may be an earlier version's."""
        bench.submit()
        (group,) = bench.batch.jobs().groups
        for text in ("{", "[]", "null", "<html>"):
            machine = Machine("pool", "flavour", Resources(cpus=4), text, bench.worker_ad)
            with suppress(SourceError):
                assert dict(bench.batch.match([group], [machine])) == {(group.key, machine): ""}, text

    @needs("match")
    def test_a_worker_that_is_not_there_has_no_portrait(self, bench: BatchBench) -> None:
        with suppress(SourceError):
            assert bench.batch.portrait("nobody.example.org") == ""

    # ---- checks

    def test_checks_are_findings_with_a_level_and_change_nothing(self, bench: BatchBench) -> None:
        name = bench.add_worker("w1", "10.0.0.1")
        bench.submit(2)
        before = bench.worker(name)
        assert_found_something(bench.batch.checks())
        assert bench.worker(name) == before and before.takes_jobs

    def test_checks_of_a_system_that_cannot_be_read_are_not_ok(self, bench: BatchBench) -> None:
        bench.fail_next("workers")
        assert {check.level for check in found(bench.batch.checks())} - {"ok", "warning"}
