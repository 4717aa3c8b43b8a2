"""A simulated cluster whose machines are emptied, and whether the checker sees it done without reason."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import consolidation as benchmark
from elastiq import consolidation
from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.scenario import Happening, Scenario, generate
from elastiq.simulation.trial import Report, run

EIGHT = Resources(cpus=8, memory_mb=16384)
HOUR_S = 3600.0


def played(*happenings: Happening, long: int = 1, **changed: Any) -> Report:
    """Three machines of eight cores: on each so many long jobs, and short ones."""
    lengths = [4 * HOUR_S if number % 8 < long else 900.0 for number in range(24)]
    jobs = Happening(10.0, "jobs", {"cpus": 1.0, "memory_mb": 1000.0, "lengths": lengths}, "jobs")
    pool = Pool("ec2", "aws", ("large",), capacity=EIGHT)
    keys = {"waiting_jobs_time_s": 0.0, "idle_for_time_s": 300.0, "max_vms": 4, "consolidate": True, **changed}
    settings = Settings("sim", (pool,), **keys)
    return run(Scenario(1, settings, {"large": EIGHT}, (jobs, *happenings), 4 * HOUR_S))


def more(at_s: float, count: int, kind: str = "jobs") -> Happening:
    lengths = [600.0] * count
    return Happening(at_s, kind, {"cpus": 1.0, "memory_mb": 1000.0, "lengths": lengths}, f"more at {at_s}")


def test_long_jobs_keep_the_machines_that_they_are_on_but_the_others_are_not_joined_by_new_ones() -> None:
    report = played()
    assert report.violations == ()
    assert report.calls["drain"] == 3, "two are emptied, and the last one goes when it is idle"


def test_what_is_emptied_comes_back_for_a_burst_and_nothing_is_launched() -> None:
    report = played(more(2 * HOUR_S, 20))
    assert (report.violations, report.launches) == ((), 3)
    assert report.calls["undrain"] == 2


def test_a_burst_that_none_could_hold_gets_one_machine_more() -> None:
    report = played(more(2 * HOUR_S, 29))
    assert (report.violations, report.launches) == ((), 4)


@pytest.mark.parametrize("kind", ["kill", "restart"])
def test_a_restart_while_one_is_emptied_changes_nothing(kind: str) -> None:
    args: dict[str, Any] = (
        {"down_s": 60.0} if kind == "restart" else {"at": "", "number": 3, "for_s": 600.0, "down_s": 60.0}
    )
    report = played(Happening(2 * HOUR_S, kind, args, kind))
    assert (report.violations, report.lives, report.calls["drain"], "undrain" in report.calls) == ((), 2, 3, False)


def test_a_drain_that_is_refused_leaves_it_in_service() -> None:
    report = played(Happening(0.0, "drain_refused", {"for_s": 3 * HOUR_S}, "refused"))
    assert report.violations == ()
    assert report.calls["drain"] < 12


@pytest.mark.parametrize(
    ("name", "bent", "said"),
    [
        ("_hold", lambda *_: True, "of cpus the others have"),
        ("LIGHT", 1.0, "is taken"),
        ("_minimum", lambda *_: "", "in service: min_vms"),
    ],
)
def test_what_is_emptied_without_reason_is_seen(
    monkeypatch: pytest.MonkeyPatch, name: str, bent: Any, said: str
) -> None:
    monkeypatch.setattr(consolidation, name, bent)
    report = played(long=5 if name == "LIGHT" else 1, min_vms=3 if name == "_minimum" else 0)
    assert said in str(report.violations), report.violations


def test_some_scenarios_have_it_and_empty_machines() -> None:
    on = [seed for seed in range(60) if generate(seed).settings.consolidate]
    assert 4 <= len(on) <= 24


# --------------------------------------------------------------------------- benchmarks/consolidation.py


def test_where_jobs_are_spread_it_saves_machine_hours_and_evicts_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    mix = benchmark.daily_mix(1, seed=1)
    without, with_it = benchmark.compare("a day", partial(benchmark.fed, mix), benchmark.CPUS, True, seed=1)
    assert with_it.machine_hours < 0.95 * without.machine_hours
    assert (without.evictions, with_it.evictions, len(with_it.waits_s)) == (0, 0, len(mix))
    assert capsys.readouterr().out.startswith("a day, spread:\n")


def test_a_workflows_tasks_wait_for_their_parents(tmp_path: Path) -> None:
    path = tmp_path / "flow.csv"
    path.write_text("task,category,runtime_s,avg_cpu_pct,parent_tasks\n1,a,600,150,\n2,b,60,,\n3,c,60,20,1 2\n")
    played = benchmark.play(partial(benchmark.workflow, path, 4), 4, consolidate=True, spread=False, seed=1)
    assert (len(played.waits_s), played.launches, played.evictions) == (3, 1, 0)
    assert played.waits_s[2] < 60.0, "it was submitted when the others were done, and not before"
