"""The search for better settings, over results that are a known function of the settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

import pytest

from elastiq.whatif.assuming import Given, Observed, suppose
from elastiq.whatif.axes import axes
from elastiq.whatif.configuration import SHIPPED, Configuration
from elastiq.whatif.overrides import Change
from elastiq.whatif.placing import oldest_first
from elastiq.whatif.suggest import Changes, Goal, Played, Proposal, Search, goals, lines
from elastiq.whatif.terms import Result
from tests.unit.test_whatif_table import RESULT

NOW = {"idle": 3600, "max_vms": 20, "wait": 40, "policy": 0}
AXES = [
    [Change("elastiq", key, str(value), key) for value in values if value != NOW[key]]
    for key, values in {"idle": (60, 300, 3600), "max_vms": (5, 10, 20), "wait": (0, 40), "policy": (0, 1)}.items()
]
Values = dict[str, int]


def result(cost: float, wait_s: float) -> Result:
    return replace(RESULT, cost=cost, p95_wait_s=wait_s, mean_wait_s=wait_s / 2, unmatchable_jobs=0)


def world(values: Values) -> Result:
    """Idle time costs and spares waiting; fewer machines cost less and let wait, from 10 on; the policy is nothing."""
    wait_s = 100.0 + values["wait"] + max(0, 10 - values["max_vms"]) * 50.0 + (10.0 if values["idle"] < 300 else 0.0)
    return result(100.0 + values["idle"] / 36.0 + values["max_vms"], wait_s)


def playing(of: Callable[[Values], Optional[Result]], asked: Optional[list[Changes]] = None) -> Played:
    def play(sets: Sequence[Changes]) -> list[Optional[Result]]:
        if asked is not None:
            asked.extend(sets)
        return [of({**NOW, **{change.key: int(change.value) for change in changes}}) for changes in sets]

    return play


Of = Callable[[Values], Optional[Result]]


def search(of: Of = world, verify: Sequence[Of] = (), runs: int = 100, asked: Optional[list[Changes]] = None) -> Search:
    """With a whole trace that is played with two seeds."""
    plays = [playing(one) for one in (verify or (of, of))]
    present = plays[0]([()])[0]
    assert present is not None
    return Search(
        AXES, playing(of, asked), lambda sets: [[play([one])[0] for play in plays] for one in sets], present, runs
    )


def searched(goal: Callable[[Result], list[Goal]], of: Of = world, verify: Sequence[Of] = ()) -> list[Proposal]:
    its = search(of, verify)
    return its.proposals(goal(its.present))


def changed(proposal: Proposal) -> dict[str, str]:
    return {change.key: change.value for change in proposal.changes}


def own(present: Result) -> list[Goal]:
    return goals(present, None, None)


def test_the_optimum_is_found_for_both_goals() -> None:
    cheaper, quicker = searched(own)
    assert changed(cheaper) == {"idle": "60", "max_vms": "10", "wait": "0"}
    assert changed(quicker) == {"wait": "0"}


def test_what_is_proposed_keeps_its_bound_and_improves() -> None:
    for proposal in searched(own):
        goal, after, before = proposal.goal, proposal.result, proposal.present
        assert goal.bounded(after) <= goal.bound and goal.value(after) < goal.value(before)


def test_a_bound_that_a_person_gives_is_kept() -> None:
    (found,) = searched(lambda present: goals(present, 390.0, None))
    assert changed(found) == {"idle": "60", "max_vms": "5", "wait": "0"}
    assert found.result.p95_wait_s is not None and found.result.p95_wait_s <= 390.0


def test_a_bound_that_the_present_settings_break_is_reached_though_it_costs_more() -> None:
    def dear(values: Values) -> Result:
        return replace(world(values), cost=100.0 + (40 - values["wait"]))

    (found,) = searched(lambda present: goals(present, 120.0, None), dear)
    assert changed(found) == {"wait": "0"} and found.result.cost > (found.present.cost or 0.0)  # type: ignore[operator]


def test_a_bound_that_nothing_keeps_gets_no_proposal() -> None:
    (found,) = searched(lambda present: goals(present, 50.0, None))
    assert found.changes == () and not found.goal.allows(found.present, found.present)


def test_nothing_is_proposed_where_nothing_is_better() -> None:
    def flat(values: Values) -> Result:
        return result(100.0 - 0.5 * (values["wait"] == 0), 100.0)

    assert [found.changes for found in searched(own, flat)] == [(), ()]


@pytest.mark.parametrize("liar", [0, 1])
def test_what_does_not_hold_on_the_whole_trace_or_with_another_seed_is_not_proposed(liar: int) -> None:
    def whole(values: Values) -> Result:
        return result(100.0 + 50.0 * (values["idle"] != NOW["idle"]), 100.0 + 50.0 * (values != NOW))

    verify = [world, world]
    verify[liar] = whole
    assert [found.changes for found in searched(own, world, verify)] == [(), ()]


def test_the_next_best_is_proposed_where_the_best_does_not_hold() -> None:
    def whole(values: Values) -> Result:
        return result(1000.0, 1000.0) if values["idle"] == 60 and values["max_vms"] == 10 else world(values)

    cheaper, _ = searched(own, world, (whole, whole))
    assert cheaper.changes and (cheaper.result.cost or 0.0) < (cheaper.present.cost or 0.0)


def test_settings_that_do_less_of_the_work_are_never_better() -> None:
    def idle(values: Values) -> Result:
        few = values["max_vms"] < 20
        return replace(world(values), jobs_done=1 if few else RESULT.jobs_done, left_jobs=1 if few else 0)

    assert all("max_vms" not in changed(found) for found in searched(own, idle))


def test_values_that_do_not_go_together_are_passed_over() -> None:
    def some(values: Values) -> Optional[Result]:
        return None if values["idle"] == 60 else world(values)

    cheaper, _ = searched(own, some)
    assert changed(cheaper)["idle"] == "300"


def test_no_more_is_played_than_allowed_and_nothing_twice() -> None:
    asked: list[Changes] = []
    its = search(runs=6, asked=asked)
    its.proposals(own(its.present))
    assert len(asked) == len(set(asked)) == its.spent == 6


def test_the_first_goal_leaves_runs_for_the_second() -> None:
    its = search(runs=8)
    _, quicker = its.proposals(own(its.present))
    assert changed(quicker)["wait"] == "0" and its.spent <= 8


def test_without_prices_machine_hours_count() -> None:
    def unpriced(values: Values) -> Result:
        return replace(world(values), cost=None, machine_hours=world(values).cost or 0.0)

    cheaper, _ = searched(own, unpriced)
    assert not cheaper.goal.by_cost and changed(cheaper)["idle"] == "60"
    assert "machine-hours" in cheaper.goal.words


@pytest.mark.parametrize(
    ("max_wait_s", "max_cost", "cheaper"),
    [(None, None, [True, False]), (60.0, None, [True]), (None, 5.0, [False]), (60.0, 5.0, [True, False])],
)
def test_goals_are_what_is_asked_for_else_both(
    max_wait_s: Optional[float], max_cost: Optional[float], cheaper: list[bool]
) -> None:
    assert [goal.cheaper for goal in goals(RESULT, max_wait_s, max_cost)] == cheaper


def test_the_lines_can_be_pasted_and_say_what_was() -> None:
    changes = (Change("elastiq", "idle_for_time_s", "60", "x"), Change("quota", "max_vms", "4", "y"))
    assert lines(changes, {("elastiq", "idle_for_time_s"): "3600", ("quota", "max_vms"): None}) == [
        "[elastiq]", "# was 3600", "idle_for_time_s = 60", "[quota]", "# was not set", "max_vms = 4",
    ]  # fmt: skip


@pytest.mark.parametrize(("after_s", "longer"), [(100.0, 0.0), (109.0, 0.0), (150.0, 0.5)])
def test_a_mean_wait_that_becomes_much_longer_is_told(after_s: float, longer: float) -> None:
    present, after = replace(RESULT, mean_wait_s=100.0), replace(RESULT, mean_wait_s=after_s)
    assert Proposal(Goal(True, 300.0), (), after, present).longer == longer


# ----------------------------------------------------------------------------- how jobs are placed


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cost": 97.9}, True),
        ({"cost": 98.1}, False),
        ({"cost": 90.0, "jobs_done": 9}, False),
        ({"cost": 90.0, "left_jobs": 1}, False),
        ({"cost": None, "machine_hours": 9.0}, True),
        ({"cost": None, "machine_hours": 9.9}, False),
        ({"cost": 99.0, "machine_hours": 9.0}, False),
    ],
)
def test_the_oldest_first_is_said_where_it_costs_less_and_does_all_that_is_done(
    changed: dict[str, Any], said: bool
) -> None:
    present = replace(RESULT, cost=100.0, machine_hours=10.0, jobs_done=10, left_jobs=0)
    assert (oldest_first(present, replace(present, **changed)) is not None) is said


# ----------------------------------------------------------------------------- what may be tried


def tried(
    up_to: Optional[int] = None, run_s: Optional[float] = None, file: Path = SHIPPED, **more: str
) -> dict[str, list[str]]:
    config = Configuration(file)
    settings = config.with_changes([config.keys.change(f"ec2.{key}={value}") for key, value in more.items()]).settings
    supposed = suppose(settings, Given(), Observed())
    found = axes(config.keys, supposed, replace(RESULT, peak_vms=16), up_to, run_s)
    return {f"{axis[0].section}.{axis[0].key}": [change.value for change in axis] for axis in found}


def test_a_quota_is_never_above_the_present_one() -> None:
    assert all(int(value) <= 20 for value in tried()["quota.max_vms"])


def test_a_quota_may_be_raised_as_far_as_a_person_allows() -> None:
    assert max(map(int, tried(up_to=30)["quota.max_vms"])) == 30


def test_idle_times_follow_the_boot_time() -> None:
    values = tried()["elastiq.idle_for_time_s"]
    assert {"30", "60", "120", "240", "3600"} <= set(values) and "auto" not in values  # that is the present one


@pytest.mark.parametrize(
    ("run_s", "values"), [(None, None), (3600.0, None), (61.0, None), (60.0, ["60"]), (22.5, ["22"]), (0.2, ["1"])]
)
def test_a_length_of_jobs_is_tried_where_several_run_in_the_time_of_a_boot(
    run_s: Optional[float], values: Optional[list[str]]
) -> None:
    assert tried(run_s=run_s).get("elastiq.job_length_s") == values


def test_a_length_that_is_set_is_also_tried_without(tmp_path: Path) -> None:
    file = tmp_path / "elastiq.conf"
    file.write_text(SHIPPED.read_text("utf-8").replace("[quota]", "job_length_s = 9\n[quota]"))
    assert tried(file=file)["elastiq.job_length_s"] == ["0"]
    assert tried(run_s=5.4, file=file)["elastiq.job_length_s"] == ["5", "0"]


def test_flavours_are_tried_alone_in_another_order_and_without_each_one() -> None:
    values = tried(flavour="a, b, c")["ec2.flavour"]
    assert {"b", "c", "c, b, a", "b, c", "a, c", "a, b"} <= set(values)


def test_one_flavour_leaves_nothing_to_choose() -> None:
    assert not {"ec2.flavour", "broker.policy"} & set(tried())
