"""The checker objects: each forbidden act, done by hand, is seen. (Whole mutants of the daemon: tests/mutants.)"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Callable, Iterator

import pytest

from elastiq.interfaces import DrainMode, Intent, Offer, Pool, Resources, Terms
from elastiq.settings import Settings
from elastiq.simulation.batch import SimulatedBatch
from elastiq.simulation.cloud import SimulatedCloud
from elastiq.simulation.crew import work_off
from elastiq.simulation.model import Machine
from elastiq.simulation.scenario import Happening, Scenario
from elastiq.simulation.shrink import minimise
from elastiq.simulation.trial import Trial, run

MEDIUM = Resources(cpus=4, memory_mb=8192)
JOBS = Happening(10.0, "jobs", {"cpus": 1.0, "memory_mb": 1000.0, "lengths": [3000.0] * 8}, "jobs")


def scenario(*happenings: Happening, hours: float = 1.0, **changed: object) -> Scenario:
    pool = Pool("ec2", "aws", ("medium",), capacity=MEDIUM)
    keys = {"waiting_jobs_time_s": 0.0, "idle_for_time_s": 600.0, "max_vms": 4, **changed}
    return Scenario(1, Settings("sim", (pool,), **keys), {"medium": MEDIUM}, happenings, hours * 3600.0)  # type: ignore[arg-type]


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Trial]:
    """Two machines that run eight jobs, and a third by somebody else."""
    trial = Trial(scenario(JOBS), str(tmp_path), stop_at_first=False)
    trial.stage.begin()
    trial.stage.run(600.0)
    assert [len(machine.worker.jobs) for machine in ours(trial) if machine.worker] == [4, 4]
    assert trial.checker.violations == []
    trial.stage.world.launch(lambda new, address: Machine(new, address, "medium", trial.stage.world.wall))
    yield trial
    trial.stage.close()


def ours(trial: Trial) -> list[Machine]:
    return list(trial.checker.book.ours.values())


def cloud(trial: Trial) -> SimulatedCloud:
    return SimulatedCloud(trial.stage.world, trial.stage.owner, "aws")


def batch(trial: Trial) -> SimulatedBatch:
    return SimulatedBatch(trial.stage.world, trial.stage.owner)


def intent(count: int, name: str = "byhand") -> Intent:
    return Intent(name, f"elastiq-{name}", Offer("ec2", "medium"), count, 0.0)


def launch_twice(trial: Trial) -> None:
    cloud(trial).launch(intent(1))
    cloud(trial).launch(intent(1))


def end_a_busy_one(trial: Trial) -> None:
    cloud(trial).terminate([ours(trial)[0].id])


def others(trial: Trial) -> list[str]:
    return [name for name in trial.stage.world.machines if name not in trial.checker.book.ours]


def end_one_of_others(trial: Trial) -> None:
    cloud(trial).terminate(others(trial))


def drain_a_busy_one(trial: Trial) -> None:
    batch(trial).drain(next(iter(trial.stage.world.workers)), DrainMode.IF_IDLE)


def return_what_an_admin_drained(trial: Trial) -> None:
    worker = next(iter(trial.stage.world.workers.values()))
    trial.stage.world.drain(worker, "maintenance")
    batch(trial).undrain(worker.name)


@pytest.mark.parametrize(
    ("act", "invariant", "said"),
    [
        (lambda trial: cloud(trial).launch(intent(3)), "I1", "max_vms 4"),
        (end_a_busy_one, "I2", "with 4 jobs"),
        (lambda trial: cloud(trial).stop([ours(trial)[0].id]), "I2", "with 4 jobs"),
        (end_one_of_others, "I3", "which is not ours"),
        (lambda trial: cloud(trial).stop(others(trial)), "I3", "stop of"),
        (lambda trial: cloud(trial).start(others(trial)), "I3", "start of"),
        (lambda trial: cloud(trial).terminate(["i-head"]), "I3", "the head node"),
        (return_what_an_admin_drained, "I3", "drained by somebody else"),
        (launch_twice, "I5", "sent again"),
        (lambda trial: cloud(trial).launch(intent(1)), "I5", "no journal"),
        (lambda trial: cloud(trial).launch(intent(2)), "I6", "storm"),
        (end_a_busy_one, "I6", "without a cause"),
        (lambda trial: cloud(trial).stop([ours(trial)[0].id]), "I6", "whose worker the last look showed not at all"),
        (drain_a_busy_one, "I6", "seen idle for 0 s only"),
        (lambda trial: cloud(trial).launch(intent(1)), "I12", "no reason in the history"),
    ],
)
def test_a_forbidden_act_is_seen(busy: Trial, act: Callable[[Trial], object], invariant: str, said: str) -> None:
    act(busy)
    assert any(one.invariant == invariant and said in one.what for one in busy.checker.violations)


@pytest.fixture
def rested(tmp_path: Path) -> Iterator[Trial]:
    """Two machines that ran jobs and were stopped."""
    short = scenario(replace(JOBS, args={**JOBS.args, "lengths": [100.0] * 8}), hours=2.0)
    pools = tuple(replace(pool, terms=Terms(idle_action="stop")) for pool in short.settings.pools)
    trial = Trial(replace(short, settings=replace(short.settings, pools=pools)), str(tmp_path), stop_at_first=False)
    trial.stage.begin()
    trial.stage.run(2400.0)
    assert [machine.state.value for machine in ours(trial)] == ["stopped", "stopped"]
    assert trial.checker.violations == []
    yield trial
    trial.stage.close()


@pytest.mark.parametrize(
    ("act", "invariant", "said"),
    [
        (lambda trial: cloud(trial).launch(intent(1)), "I6", "is stopped and could be started"),
        (lambda trial: cloud(trial).launch(intent(3)), "I1", "with 2 there: max_vms 4"),
        (lambda trial: cloud(trial).start([ours(trial)[0].id]), "I5", "no state file knows of it"),
        (end_a_busy_one, "I6", "it is stopped, and could be started again"),
    ],
)
def test_a_forbidden_act_on_what_is_stopped_is_seen(
    rested: Trial, act: Callable[[Trial], object], invariant: str, said: str
) -> None:
    act(rested)
    assert any(one.invariant == invariant and said in one.what for one in rested.checker.violations)


def test_a_stopped_machine_is_started_for_the_next_job_and_stopped_again(rested: Trial) -> None:
    rested.stage.world.submit(Resources(cpus=1, memory_mb=1000), 100.0)
    rested.stage.run(2400.0)
    tally = rested.stage.world.tally
    assert (tally.launches, tally.starts, tally.stops, tally.done, tally.killed) == (2, 1, 3, 9, 0)
    assert rested.checker.violations == []


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max_launches_per_hour": 3}, "4 machines asked for within an hour: max_launches_per_hour 3"),
        ({"max_cost_per_hour": 1.2}, "2 an hour after this launch: max_cost_per_hour 1.2"),
        ({"max_cost_per_day": 1.5}, "2.00 in the next hour with this launch: max_cost_per_day 1.5"),
    ],
)
def test_a_launch_beyond_a_hard_stop_is_seen(tmp_path: Path, limit: dict[str, float], said: str) -> None:
    capped = scenario(JOBS, **limit)
    pools = tuple(replace(pool, prices={"*": 0.5}) for pool in capped.settings.pools)
    trial = Trial(replace(capped, settings=replace(capped.settings, pools=pools)), str(tmp_path), stop_at_first=False)
    trial.stage.begin()
    trial.stage.run(600.0)
    assert (len(ours(trial)), trial.checker.violations) == (2, [])
    cloud(trial).launch(intent(2))
    trial.stage.close()
    assert any(one.invariant == "I1" and said in one.what for one in trial.checker.violations), trial.checker.violations


def test_a_quiet_life_breaks_nothing_and_counts_what_it_did() -> None:
    report = run(scenario(JOBS))
    assert report.violations == ()
    assert (report.jobs, report.launches, report.lives, report.kills) == (8, 2, 1, 0)
    assert report.calls["terminate"] == 2
    assert report.faults == {"jobs": 1}


def test_a_machine_that_never_ends_breaks_liveness(monkeypatch: pytest.MonkeyPatch) -> None:
    from elastiq.simulation.world import World

    monkeypatch.setattr(World, "terminate", lambda self, machine: None)
    report = run(scenario(JOBS))
    assert [one.invariant for one in report.violations] == ["I7"]


# --------------------------------------------------------------------------- the tools


def test_shrinking_finds_the_two_that_it_takes() -> None:
    tried: list[list[int]] = []

    def fails(keep: object) -> bool:
        tried.append(list(keep))  # type: ignore[call-overload]
        return {7, 31} <= set(tried[-1])

    assert minimise(range(40), fails) == [7, 31]
    assert len(tried) < 100


def odd_work(task: int) -> int:
    if task == 3:
        os._exit(9)
    if task == 5:
        time.sleep(600.0)
    return task * 10


def test_a_process_that_dies_or_hangs_names_its_task_and_costs_no_other() -> None:
    results = {one.task: one for one in work_off(odd_work, range(8), 2, limit_s=6.0)}
    assert {task: one.result for task, one in results.items() if not one.failure} == {
        task: task * 10 for task in range(8) if task not in (3, 5)
    }
    assert "exit code 9" in results[3].failure
    assert "longer than 6 s" in results[5].failure
