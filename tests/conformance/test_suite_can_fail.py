"""The suite of batch systems can fail: each way to break the contract that is planted in a good plugin is found."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Callable, Iterator, Mapping, Sequence

import pytest

from elastiq.conformance import batch
from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.interfaces import (
    Check,
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    Instance,
    JobGroup,
    Jobs,
    Looks,
    Resources,
    SourceError,
    Worker,
    Workers,
    WorkerState,
)
from elastiq.simulation.batch import SimulatedBatch
from elastiq.simulation.model import JobState
from tests.conformance.test_simulated import OWNER, SimulatedBatchBench, TestRegisteringSimulatedBatch

CANNOT = TestRegisteringSimulatedBatch.cannot
del TestRegisteringSimulatedBatch  # it is collected where it is defined
PLANTED: dict[str, type[SimulatedBatch]] = {}


def plant(kind: type[SimulatedBatch]) -> type[SimulatedBatch]:
    PLANTED[kind.__name__] = kind
    return kind


class Good(SimulatedBatch):
    pass


# --------------------------------------------------------------------------- the queue


def changed(jobs: Jobs, change: Callable[[JobGroup], JobGroup]) -> Jobs:
    return replace(jobs, groups=tuple(map(change, jobs.groups)))


@plant
class TakesUnknownForEmpty(SimulatedBatch):
    def jobs(self) -> Jobs:
        try:
            return super().jobs()
        except SourceError:
            return Jobs(())


@plant
class CountsHeldJobs(SimulatedBatch):
    def jobs(self) -> Jobs:
        held = [job for job in self._world.jobs.values() if job.state is JobState.HELD]
        groups = tuple(JobGroup(f"held {job.number}", job.request, 1) for job in held)
        jobs = super().jobs()
        return replace(jobs, groups=jobs.groups + groups)


@plant
class CountsRunningJobsAsWaiting(SimulatedBatch):
    def jobs(self) -> Jobs:
        return changed(super().jobs(), lambda one: replace(one, waiting=one.waiting + (one.running or 0), running=0))


@plant
class WatchesAndSeesNoJobCome(SimulatedBatch):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.watch(lambda: None)

    def changed(self) -> bool:
        return False


@plant
class WatchesAndCannotTell(WatchesAndSeesNoJobCome):
    def changed(self) -> bool:
        return True


@plant
class HasOneGroupForEachJob(SimulatedBatch):
    def jobs(self) -> Jobs:
        jobs = super().jobs()
        groups = [replace(one, key=f"{one.key} {n}", waiting=1) for one in jobs.groups for n in range(one.waiting)]
        return replace(jobs, groups=tuple(groups))


@plant
class HasOtherKeysAfterARestart(SimulatedBatch):
    def jobs(self) -> Jobs:
        return changed(super().jobs(), lambda one: replace(one, key=f"{one.key} {id(self)}"))


@plant
class LeavesMemoryOut(SimulatedBatch):
    def jobs(self) -> Jobs:
        return changed(super().jobs(), lambda one: replace(one, request=replace(one.request, memory_mb=None)))


@plant
class HidesWhatIsMissing(SimulatedBatch):
    def jobs(self) -> Jobs:
        return replace(super().jobs(), missing=())


@plant
class ComparesEachJobWithEach(SimulatedBatch):
    def jobs(self) -> Jobs:
        waiting = [number for jobs in self._world.waiting_by_shape().values() for number in jobs]
        for _ in (*waiting, *waiting):  # so much that it is most of the time also with few
            sum(waiting)
        return super().jobs()


# --------------------------------------------------------------------------- the workers


def seen(workers: Workers, change: Callable[[Worker], Worker]) -> Workers:
    return replace(workers, workers=tuple(map(change, workers.workers)))


@plant
class TakesAPartlyFreeWorkerForIdle(SimulatedBatch):
    def workers(self) -> Workers:
        def look(one: Worker) -> Worker:
            free = one.state is WorkerState.BUSY and one.free.cpus
            return replace(one, state=WorkerState.IDLE, jobs=0) if free else one

        return seen(super().workers(), look)


@plant
class SaysNamesAsTheyAreSpelt(SimulatedBatch):
    def workers(self) -> Workers:
        return seen(super().workers(), lambda one: replace(one, name=one.name.upper()))


@plant
class ListsAWorkerOnceForEachJob(SimulatedBatch):
    def workers(self) -> Workers:
        workers = super().workers()
        return replace(workers, workers=tuple(one for one in workers.workers for _ in range(max(1, one.jobs))))


@plant
class KeepsLostWorkersListed(SimulatedBatch):
    def workers(self) -> Workers:
        self._seen: dict[str, Worker] = getattr(self, "_seen", {})
        self._seen.update((job.worker.name, self._made(job.worker)) for job in self._running() if job.worker)
        there = super().workers()
        return replace(there, workers=tuple({**self._seen, **{one.name: one for one in there.workers}}.values()))

    def _running(self) -> Iterator[Any]:
        return (job for jobs in self._world.running_by_shape().values() for job in jobs.values())

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        self.workers()
        return super().drain(worker, mode)


@plant
class TakesUnknownForGone(SimulatedBatch):
    def workers(self) -> Workers:
        try:
            return super().workers()
        except SourceError:
            return Workers(())


@plant
class DoesNotCountStarts(SimulatedBatch):
    def workers(self) -> Workers:
        return seen(super().workers(), lambda one: replace(one, job_starts=one.jobs and 1))


# --------------------------------------------------------------------------- drains


@plant
class DrainsBusyWorkers(SimulatedBatch):
    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        return super().drain(worker, DrainMode.PEACEFUL)


@plant
class LooksBeforeItDrainsOnly(SimulatedBatch):
    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        there = self._world.workers.get(worker)
        if there is not None and there.jobs and mode is DrainMode.IF_IDLE:
            return DrainAnswer(DrainOutcome.BUSY, "a job runs there")
        answer = super().drain(worker, mode)
        if answer.outcome is DrainOutcome.BUSY and there is not None:
            self._world.drain(there, self._drain_reason)
            return DrainAnswer(DrainOutcome.DRAINED)
        return answer


@plant
class TakesAFailedDrainForRefused(SimulatedBatch):
    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        try:
            return super().drain(worker, mode)
        except SourceError as error:
            return DrainAnswer(DrainOutcome.REFUSED, str(error))


@plant
class DrainsNobodyAndSaysSo(SimulatedBatch):
    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        return DrainAnswer(DrainOutcome.DRAINED)


@plant
class TakesOverDrainsOfOthers(SimulatedBatch):
    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        there = self._world.workers.get(worker)
        if there is not None and there.drained_by is not None:
            self._world.drain(there, self._drain_reason)
        return super().drain(worker, mode)


@plant
class DrainsAllByAPattern(SimulatedBatch):
    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        names = list(self._world.workers) if worker == "*" else [worker]
        return [super(DrainsAllByAPattern, self).drain(name, mode) for name in names][-1]


@plant
class LeavesNoNameAtADrain(SimulatedBatch):
    def workers(self) -> Workers:
        return seen(super().workers(), lambda one: replace(one, drained_by=None))


@plant
class UndrainsOnlyWhatItDrainedInThisLife(SimulatedBatch):
    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        self._mine: set[str] = {*getattr(self, "_mine", ()), worker}
        return super().drain(worker, mode)

    def undrain(self, worker: str) -> None:
        if worker in getattr(self, "_mine", ()):
            super().undrain(worker)


@plant
class HasTroubleWithUndrainingWhatWasNotDrained(SimulatedBatch):
    def undrain(self, worker: str) -> None:
        if self._world.workers[worker].drained_by is None:
            raise SourceError("not drained")
        super().undrain(worker)


@plant
class SwallowsAFailedUndrain(SimulatedBatch):
    def undrain(self, worker: str) -> None:
        try:
            super().undrain(worker)
        except SourceError:
            pass


# --------------------------------------------------------------------------- ends


@plant
class RecordsJobsOfListedWorkersOnly(SimulatedBatch):
    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        found = super().jobs_recorded_on(workers)
        return {name: count if name in self._world.workers else 0 for name, count in found.items()}


@plant
class TakesUnknownForNoJobs(SimulatedBatch):
    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        try:
            return super().jobs_recorded_on(workers)
        except SourceError:
            return dict.fromkeys(workers, 0)


@plant
class RecordsJobsByTheBeginOfAName(SimulatedBatch):
    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        found = super().jobs_recorded_on([*workers, *self._world.workers])
        return {name: sum(n for one, n in found.items() if one.startswith(name)) for name in workers}


@plant
class ForgetsWhoIsInService(SimulatedBatch):
    def forget(self, worker: str) -> None:
        super().forget(worker)
        self._world.workers.pop(worker, None)


@plant
class ForgetsNobody(SimulatedBatch):
    def forget(self, worker: str) -> None:
        self.checks()


@plant
class SwallowsAFailedForgetting(SimulatedBatch):
    def forget(self, worker: str) -> None:
        try:
            super().forget(worker)
        except SourceError:
            pass


@plant
class RegistersNobody(SimulatedBatch):
    def register(self, instance: Instance) -> None:
        self.checks()


@plant
class RegistersWithoutItsAddress(SimulatedBatch):
    def register(self, instance: Instance) -> None:
        super().register(replace(instance, addresses=frozenset()))


@plant
class RefusesToRegisterAgain(SimulatedBatch):
    def register(self, instance: Instance) -> None:
        if instance.id in self._world.registered.values():
            raise SourceError("it is there already")
        super().register(instance)


@plant
class UnregistersTheAddressWhoeverHasIt(SimulatedBatch):
    def unregister(self, instance: Instance) -> None:
        super().unregister(instance)
        for address in instance.addresses:
            owner = self._world.registered.pop(address, "")
            for worker in list(self._world.workers.values()):
                if owner and worker.address == address:
                    self._world.crash(worker)


@plant
class KeepsRegistrationsInMemory(SimulatedBatch):
    def register(self, instance: Instance) -> None:
        self._mine: set[str] = {*getattr(self, "_mine", ()), instance.id}
        super().register(instance)

    def unregister(self, instance: Instance) -> None:
        if instance.id in getattr(self, "_mine", ()):
            super().unregister(instance)


@plant
class SwallowsAFailedRegistration(SimulatedBatch):
    def register(self, instance: Instance) -> None:
        try:
            super().register(instance)
        except SourceError:
            pass


# --------------------------------------------------------------------------- the rest


@plant
class FitsEverything(SimulatedBatch):
    def fits(self, group: JobGroup, machine: Resources) -> tuple[bool, str]:
        return True, ""


@plant
class ChecksNothing(SimulatedBatch):
    def checks(self) -> Looks:
        return {}


@plant
class IsAlwaysWell(SimulatedBatch):
    def checks(self) -> Looks:
        return {"all": lambda: [Check("all", "ok", "is well")]}


@plant
class KeepsRecordsAndDoesNotSaySo(SimulatedBatch):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.keeps_records = False


# --------------------------------------------------------------------------- the suite, run by hand


class Suite(BatchConformance):
    """Not collected: its bench is made below."""

    cannot = CANNOT


class PlantedBench(SimulatedBatchBench):
    def __init__(self, plugin: type[SimulatedBatch]) -> None:
        self.plugin = plugin
        super().__init__(registers=True)

    def restart(self) -> None:
        self.batch = self.plugin(self.world, OWNER)


def cases() -> Iterator[tuple[str, Callable[[BatchBench], Any]]]:
    suite = Suite()
    for name in sorted(dir(suite)):
        test = getattr(suite, name)
        if not name.startswith("test_") or test is None:
            continue
        marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        if not marks:
            yield name, test
        for argument, values in (mark.args for mark in marks):
            for value in values:
                yield f"{name}[{value}]", partial(test, **{argument: value})


def failures(plugin: type[SimulatedBatch], stop: bool = True) -> list[str]:
    """Which tests this plugin fails; the first only if ``stop``."""
    found = []
    for name, test in cases():
        try:
            test(PlantedBench(plugin))
        except (AssertionError, SourceError, KeyError, ValueError, StopIteration, pytest.fail.Exception):
            found.append(name)
            if stop:
                break
    return found


def test_a_good_plugin_passes() -> None:
    assert failures(Good, stop=False) == []


@pytest.mark.parametrize("plugin", PLANTED.values(), ids=PLANTED)
def test_a_plugin_that_breaks_the_contract_is_found(plugin: type[SimulatedBatch]) -> None:
    assert failures(plugin)


def test_every_ability_has_a_test_and_every_test_of_one_can_be_left_out() -> None:
    named = (batch.__doc__ or "").replace(",", " ")
    needed = {one for name in dir(BatchConformance) for one in getattr(getattr(BatchConformance, name), "needs", ())}
    assert [ability for ability in sorted(needed) if f" {ability} " not in named] == []


@pytest.mark.parametrize(
    ("cannot", "said"),
    [
        (frozenset({"arrays"}), "is a mapping"),
        ({"arrays": ""}, "is a mapping"),
        ({"array": "one file is one job"}, "no test of Lacking needs array, but array-limit, arrays, "),
    ],
)
def test_what_a_system_cannot_do_is_an_ability_with_a_reason(cannot: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        type("Lacking", (BatchConformance,), {"cannot": cannot})
