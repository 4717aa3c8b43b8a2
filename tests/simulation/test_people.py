"""What people command holds the invariants whatever comes between its steps: the daemon is killed at each of them,
and jobs start there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

import pytest

from elastiq import by_force, scaling
from elastiq.settings import Settings
from elastiq.simulation import trial
from elastiq.simulation.scenario import Happening
from tests.simulation.stages import SETTINGS, scenario

# When the machine that all this is about has joined, and runs what came at the start.
JOINED_S = 400.0
STEPS = (
    ("store write begins", 1),
    ("store write begins", 2),
    ("jobs_on done", 1),
    ("drain begins", 1),
    ("drain done", 1),
    ("undrain begins", 1),
    ("terminate begins", 1),
)


def played(*befall: tuple[float, str, dict[str, Any]], **changed: Any) -> trial.Report:
    jobs = (0.0, "jobs", {"cpus": 1.0, "lengths": [900.0, 1100.0]})
    happenings = [Happening(at_s, kind, args, f"people.{n}") for n, (at_s, kind, args) in enumerate((jobs, *befall))]
    settings = replace(SETTINGS, batch_settle_s=60.0, drain_timeout_s=60.0)
    made = scenario(*happenings, calm_at_s=4000.0, **{"settings": settings, "lease_s": 600.0, **changed})
    return trial.run(made)


COMMANDS: dict[str, list[tuple[float, str, dict[str, Any]]]] = {
    "a drain": [(JOINED_S, "drained_by_hand", {"which": 0.0})],
    "a drain that is taken back": [
        (JOINED_S, "drained_by_hand", {"which": 0.0}),
        (JOINED_S + 70.0, "undrained_by_hand", {"which": 0.0}),
    ],
    "an end": [(1300.0, "ended_by_hand", {"which": 0.0})],
    "an end of a machine that boots": [(100.0, "ended_by_hand", {"which": 0.0})],
    "an end by force": [(JOINED_S, "ended_by_force", {"which": 0.0, "think_s": 10.0})],
    "an end by force of whatever runs": [(JOINED_S, "ended_by_force", {"which": 0.0, "think_s": 60.0, "any": True})],
    "a pause": [(50.0, "paused", {"acts": ["launch", "terminate"], "for_s": 900.0})],
    "a size that is held": [(JOINED_S, "scaled", {"share": 0.7, "for_s": 900.0})],
}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_that_is_killed_at_any_step_breaks_nothing(command: str) -> None:
    befall, killed = COMMANDS[command], 0
    steps = [one for one in STEPS if "store" in one[0] or befall[0][1] not in ("paused", "scaled")]
    for step, number in steps:  # the first of their kind after it was given
        kill = {"at": step, "number": number, "for_s": 600.0, "down_s": 45.0}
        report = played((befall[0][0], "kill", kill), *befall)
        assert report.violations == (), (step, number, report.trace)
        killed += report.kills
    assert killed == len(steps)


@pytest.mark.parametrize("command", sorted(COMMANDS))
@pytest.mark.parametrize("between", ["slips_in", "starts_between"])
def test_jobs_that_start_between_its_steps_are_not_killed_unnamed(command: str, between: str) -> None:
    befall = COMMANDS[command]
    window = {"for_s": 600.0, "length_s": 300.0}
    report = played((befall[0][0] - 1.0, between, window), *befall)
    assert report.violations == (), report.trace


@pytest.mark.parametrize(
    "fault", ["drain_refused", "drain_unheard", "drain_hangs", "drain_not_done", "terminate_unheard"]
)
def test_an_end_by_force_ends_in_spite_of_faults(fault: str) -> None:
    forced = COMMANDS["an end by force"]
    report = played((JOINED_S, fault, {"for_s": 900.0, "times": 1}), *forced)
    assert report.violations == (), report.trace
    assert report.calls["terminate"] >= 1


def invariants(report: trial.Report) -> set[str]:
    return {one.invariant for one in report.violations}


def test_the_checker_sees_when_a_job_dies_that_nobody_was_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = by_force._Forced.begin

    def any_job(self: by_force._Forced) -> Any:
        self._allowed = None
        return begin(self)

    late = (JOINED_S + 30.0, "jobs", {"cpus": 1.0, "lengths": [900.0]})
    forced = (JOINED_S, "ended_by_force", {"which": 0.0, "think_s": 110.0})
    assert played(late, forced).violations == ()
    monkeypatch.setattr(by_force._Forced, "begin", any_job)
    assert invariants(played(late, forced)) == {"I2"}


def test_the_checker_sees_when_an_end_without_force_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_force, "_gently", lambda daemon, node: by_force._Forced(daemon, node, None).begin())
    assert "I2" in invariants(played((JOINED_S, "ended_by_hand", {"which": 0.0})))


def test_the_checker_sees_a_size_above_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlimited(settings: Settings, scaled: Mapping[str, int]) -> Settings:
        return replace(settings, min_vms=9, max_vms=None)

    monkeypatch.setattr(scaling, "held", unlimited)
    assert "I1" in invariants(played((JOINED_S, "scaled", {"share": 0.7, "for_s": 900.0})))
