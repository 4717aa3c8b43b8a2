"""How long idle machines are kept where `idle_for_time_s` is `auto`, and what that is learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import pytest

from elastiq.explain.idle import limit
from elastiq.idling import AUTO, BOOTS, LONGEST_S, PAUSES, TO_BELIEVE, Uses
from elastiq.interfaces import Terms, WorkerState
from elastiq.nodes import Registry, State
from elastiq.planner import plan
from elastiq.reconcile import take_workers
from elastiq.settings import Settings
from tests.unit.fakes import Surroundings
from tests.unit.plans import drained
from tests.unit.values import WALL, a_node, a_pool, a_registry, a_worker, situation, some_settings, view

BUSY = a_worker("w1", WorkerState.BUSY)
IDLE = a_worker("w1")


def auto(**changed: Any) -> Settings:
    return some_settings(**{"idle_for_time_s": AUTO, **changed})


def seen(boots: Sequence[float] = (), pauses: Sequence[float] = ()) -> Uses:
    uses = Uses()
    for pause_s in pauses:
        uses.used_again("ec2", pause_s)
    for boot_s in boots:
        uses.booted("ec2", boot_s)
    return uses


def kept_s(boots: Sequence[float] = (), pauses: Sequence[float] = (), **changed: Any) -> float:
    return seen(boots, pauses).idle_for_s(auto(**changed), "ec2")


# --------------------------------------------------------------------------- how long


def test_it_is_half_the_time_that_machines_took_to_boot() -> None:
    assert kept_s([150.0]) == 75.0
    assert kept_s([100.0, 150.0, 590.0]) == 75.0  # the median: one that was slow says little


def test_before_any_has_booted_it_is_half_the_time_that_they_may_take() -> None:
    assert kept_s() == 300.0
    assert kept_s(estimated_vm_deploy_time_s=120.0) == 60.0


def test_who_prefers_short_waits_keeps_them_for_longer_and_who_prefers_low_cost_for_less() -> None:
    assert [kept_s([400.0], prefer=prefer) for prefer in ("cost", "balanced", "wait")] == [30.0, 200.0, 400.0]
    pauses = [350.0, 1500.0] * TO_BELIEVE  # every other one can be waited for
    assert [kept_s([400.0], pauses, prefer=prefer) for prefer in ("cost", "balanced", "wait")] == [30.0, 30.0, 400.0]


def test_another_preference_holds_from_then_on() -> None:
    uses = seen([400.0])
    assert [uses.idle_for_s(auto(prefer=prefer), "ec2") for prefer in ("wait", "cost", "wait")] == [400.0, 30.0, 400.0]


def test_a_number_is_a_number_whatever_was_seen() -> None:
    assert kept_s([150.0], idle_for_time_s=3600.0) == 3600.0
    assert kept_s([150.0], idle_for_time_s=0.0) == 0.0


def test_a_pool_may_have_it_alone_or_not_at_all() -> None:
    one, other = a_pool("ec2", terms=Terms(idle_for_time_s=AUTO)), a_pool("other")
    settings = some_settings(pools=(one, other), idle_for_time_s=600.0)
    assert [seen([150.0]).idle_for_s(settings, name) for name in ("ec2", "other")] == [75.0, 600.0]
    settings = auto(pools=(a_pool("ec2", terms=Terms(idle_for_time_s=60.0)), other))
    assert [seen([150.0]).idle_for_s(settings, name) for name in ("ec2", "other")] == [60.0, 300.0]


@pytest.mark.parametrize(
    ("boots", "pauses", "changed", "expected_s"),
    [
        ([20.0], [], {}, 30.0),  # two reads of the queue
        ([20.0], [], {"check_queue_every_s": 60.0}, 120.0),
        ([9000.0], [], {"estimated_vm_deploy_time_s": 10_000.0}, LONGEST_S),
        ([300.0], [], {"check_queue_every_s": 600.0}, 600.0),  # never longer than a boot may take
        ([60.0], [], {"estimated_vm_deploy_time_s": 20.0}, 20.0),
    ],
)
def test_it_has_limits(boots: list[float], pauses: list[float], changed: dict[str, float], expected_s: float) -> None:
    assert kept_s(boots, pauses, **changed) == expected_s


def test_pauses_that_are_all_shorter_or_all_longer_say_little_or_all() -> None:
    short, long = [10.0] * TO_BELIEVE, [2000.0] * TO_BELIEVE
    assert kept_s([400.0], short) == 200.0  # no machine waited in vain
    assert kept_s([400.0], long) == 30.0  # the least: none is worth it
    assert kept_s([400.0], [*short[1:]]) == 200.0  # too few to believe


def test_pauses_that_are_shorter_than_a_boot_are_waited_for() -> None:
    assert kept_s([400.0], [350.0] * TO_BELIEVE) == 400.0
    # As often as not in vain: 350 s each time, or 350 s and 750 s in turn.
    assert kept_s([400.0], [350.0, LONGEST_S] * TO_BELIEVE) == 30.0


def test_only_the_last_ones_count() -> None:
    uses = seen([100.0] * BOOTS, [10.0] * PAUSES)
    for _ in range(PAUSES):
        uses.used_again("ec2", 2000.0)
    for _ in range(BOOTS):
        uses.booted("ec2", 400.0)
    assert uses.seen["ec2"] == [[400.0] * BOOTS, [2000.0] * PAUSES]
    assert uses.idle_for_s(auto(), "ec2") == 30.0


# --------------------------------------------------------------------------- what is seen


def look(registry: Registry, *workers: Any, observed_s: float) -> None:
    take_workers(registry, view(*workers), True, observed_s, WALL, dict, "mark")


def test_a_boot_is_timed_from_the_first_look_to_the_one_that_finds_the_worker() -> None:
    registry = a_registry(a_node(State.BOOTING))
    for observed_s in (10.0, 40.0, 40.0):
        look(registry, observed_s=observed_s)
    look(registry, IDLE, observed_s=10.0)
    look(registry, IDLE, observed_s=10.0)
    assert registry.uses.seen == {"ec2": [[90.0], []]}


def test_a_boot_of_which_nobody_saw_the_beginning_is_not_timed() -> None:
    registry = a_registry(a_node(State.BOOTING, boot_s=300.0))
    look(registry, IDLE, observed_s=10.0)
    assert registry.uses.seen == {}


def test_a_pause_is_what_lies_between_two_uses_of_a_machine() -> None:
    registry = a_registry(a_node(State.IDLE))
    look(registry, IDLE, observed_s=30.0)
    look(registry, BUSY, observed_s=30.0)  # it was never used before: that was no pause
    look(registry, IDLE, observed_s=30.0)
    look(registry, IDLE, observed_s=45.0)
    look(registry, BUSY, observed_s=45.0)
    registry.uses.booted("ec2", 100.0)
    assert registry.uses.seen == {"ec2": [[100.0], [45.0]]}


def test_a_machine_that_is_launched_after_one_like_it_has_ended_ends_its_pause() -> None:
    rig = Surroundings()
    registry = rig.core.registry
    small = registry.add(a_node(State.IDLE, 1, idle_s=60.0))
    registry.add(a_node(State.IDLE, 2, idle_s=0.0, flavour="large"))
    for node in list(registry):
        registry.move(node, State.DRAINING, "idle", WALL)
    rig.core.persist()
    again = registry.add(a_node(State.REQUESTED, 3, created_at=WALL + 500.0))
    more = registry.add(a_node(State.REQUESTED, 4, created_at=WALL + 500.0))
    for node in (again, more):
        registry.move(node, State.PENDING, "launched", WALL + 501.0)
    rig.core.persist()
    registry.uses.booted("ec2", 100.0)
    assert registry.uses.seen == {"ec2": [[100.0], [560.0]]}
    assert small.state is State.DRAINING


def test_what_was_seen_outlives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    first = Surroundings(path)
    first.core.registry.uses = seen([150.0], [20.0, 30.0])
    first.core.persist()
    first.store.close()
    again = Surroundings(path)
    again.core.restore()
    assert again.core.registry.uses.seen == {"ec2": [[150.0], [20.0, 30.0]]}
    assert again.core.registry.uses.idle_for_s(auto(), "ec2") == 75.0


# --------------------------------------------------------------------------- what comes of it


def test_a_machine_goes_once_it_was_idle_for_that_long_and_says_so() -> None:
    registry = a_registry(*(a_node(State.IDLE, n, idle_s=idle_s) for n, idle_s in ((1, 74.0), (2, 75.0))))
    registry.uses = seen([150.0])
    made = plan(situation(registry=registry, settings=auto()))
    assert drained(made) == ["i-2"]
    assert [step.reason for step in made.drains] == ["idle for 75 s of 75 s (auto)"]


@pytest.mark.parametrize(
    ("uses", "words"),
    [
        (seen(), "300 s (auto: half of estimated_vm_deploy_time_s 600, none was seen to boot yet)"),
        (seen([150.0]), "75 s (auto: half of the 150 s that machines take to boot)"),
        (seen([20.0]), "30 s (auto: the least, as half of the 20 s that machines take to boot is less)"),
        (
            seen([150.0], [80.0] * 40),
            "112 s (auto: what would have cost least in their last 40 pauses, by the 150 s that machines take to boot)",
        ),
    ],
)
def test_the_reason_can_be_read(uses: Uses, words: str) -> None:
    registry = a_registry()
    registry.uses = uses
    assert limit(situation(registry=registry, settings=auto()), "ec2") == words


def test_what_is_kept_of_the_past_is_bounded_also_where_nothing_boots_and_where_nothing_is_launched_again() -> None:
    uses = Uses()
    for number in range(3 * PAUSES):
        uses.used_again("ec2", float(number))
        uses.ends(a_node(State.DRAINING, number), WALL + number)
    lists = [*uses._new.values(), *uses._ended.values()]
    assert len(lists) == 2 and all(len(one) <= PAUSES for one in lists)
    uses.booted("ec2", 100.0)
    assert len(uses.seen["ec2"][1]) == PAUSES
