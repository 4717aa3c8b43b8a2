"""Waiting jobs under few words, whatever the plan's sentences say of them."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable

import pytest

from elastiq.cooldown import held_back
from elastiq.demand import Standing, Trial, Trials, WaitingHistory
from elastiq.health import BOOTS_BEFORE_BREAK, Health
from elastiq.interfaces import CapacityError, Jobs, Offer, QuotaError, Resources
from elastiq.metrics.reasons import OTHER, REASONS, SAID, jobs_waiting
from elastiq.nodes import State
from elastiq.planner import plan
from elastiq.refusals import boot_failed, refused
from elastiq.situation import ASKING, Situation
from tests.unit.values import FOUR, NOW, a_node, a_pool, group, situation, some_settings


def counted(s: Situation, off: bool = False) -> dict[tuple[str, ...], int]:
    made = plan(s)
    standing = {v.group.key: s.trials.standing(v.group.key) for v in made.verdicts}
    return dict(jobs_waiting(s.registry, made, standing, off))


def health(change: Callable[[Health], Any]) -> Health:
    made = Health()
    change(made)
    return made


def trials(standing: Standing, **changed: Any) -> Trials:
    made = Trials()
    made.records["g"] = Trial("g", standing, **changed)
    return made


def not_read() -> str:
    from elastiq.observations import Observation

    return Observation[Jobs]("the workers", 100.0).why_unknown(NOW)


OFFER = Offer("ec2", "medium")
FULL = some_settings(max_vms=0)
SLOW = some_settings(waiting_jobs_time_s=60.0)
YOUNG = WaitingHistory(60.0)
YOUNG.observe(NOW, Jobs((group(waiting=8),)))
REFUSED = health(lambda h: refused(h, OFFER, "aws", QuotaError("x"), NOW))
EMPTY = health(lambda h: refused(h, OFFER, "aws", CapacityError("x"), NOW))
BROKEN = health(lambda h: [boot_failed(h, "ec2", NOW - 10_000.0) for _ in range(BOOTS_BEFORE_BREAK)])


@pytest.mark.parametrize(
    ("reason", "s"),
    [
        ("limit", situation(group(waiting=8), settings=FULL)),
        ("limit", situation(group(waiting=8), settings=some_settings(pools=(a_pool(max_vms=0),)))),
        ("young", situation(group(waiting=8), settings=SLOW, history=YOUNG)),
        ("young", situation(group(waiting=8), settings=some_settings(waiting_jobs_threshold=9))),
        ("held_back", situation(group(waiting=8), health=REFUSED)),
        ("held_back", situation(group(waiting=8), health=EMPTY)),
        ("breaker", situation(group(waiting=8), nodes=[a_node(State.BOOTING, groups={"h": 1})], health=BROKEN,
                              trials=trials(Standing.UNTRIED))),
        ("unmatchable", situation(group(waiting=8, request=Resources(cpus=64)))),
        ("not_eligible", situation(group(waiting=8, not_eligible="held"))),
        ("unserved", situation(group(waiting=8), trials=trials(Standing.UNSERVED, refused_by=("ec2",)))),
        ("trying", situation(group(waiting=8), trials=trials(Standing.TRYING, covered=8))),
        ("drained", situation(group(waiting=8), drained=frozenset({"ec2"}))),
        ("asking", situation(group(waiting=8), fits=lambda *_: (False, min(ASKING)))),
        ("unknown", situation(group(waiting=8), sites=frozenset())),
        ("unknown", situation(group(waiting=8), no_launch=not_read())),
        ("store", situation(group(waiting=8), no_launch="the store cannot be written: disk full")),
        ("cooldown", situation(group(waiting=8), no_launch=held_back(
            some_settings(cooldown_after_launch_s=99.0), {"launch": NOW - 1.0}, NOW)[0])),
    ],
)  # fmt: skip
def test_why_nothing_serves_them(reason: str, s: Situation) -> None:
    found = counted(s)
    rest = {why: jobs for (pool, why), jobs in found.items() if why not in ("room", "coming", "launching")}
    assert rest.keys() == {reason}
    assert sum(found.values()) == 8


def test_every_reason_is_tried_here() -> None:
    """But for those that serve, that a person wants no launch, and what the table has no word for."""
    marks = test_why_nothing_serves_them.pytestmark  # type: ignore[attr-defined]
    tried = {case[0] for case in marks[0].args[1]}
    assert tried | {"room", "coming", "launching", "off", OTHER} == {*REASONS} and tried >= {*SAID}


def test_what_serves_them_is_told_by_pool() -> None:
    two = some_settings(pools=(a_pool("one", flavours=("medium",)), a_pool("two")))
    nodes = [a_node(State.IDLE, 1, pool="one"), a_node(State.BOOTING, 2, pool="two")]
    found = counted(situation(group(waiting=10), nodes=nodes, settings=two))
    assert found == {("one", "room"): 4, ("two", "coming"): 4, ("one", "launching"): 2}


def test_where_a_person_wants_no_launch_nothing_is_being_launched() -> None:
    assert counted(situation(group(waiting=8)), off=True) == {("ec2", "off"): 8}


@pytest.mark.parametrize("waiting", [1, 3, 4, 5, 17, 100])
def test_every_waiting_job_is_counted_once(waiting: int) -> None:
    nodes = [a_node(State.IDLE, 1), a_node(State.BOOTING, 2), a_node(State.BUSY, 3)]
    s = situation(group("g", waiting), group("h", 2, FOUR), nodes=nodes, settings=some_settings(max_vms=7))
    assert sum(counted(s).values()) == waiting + 2
    assert not Counter(counted(s)).keys() - {(pool, why) for pool in ("", "ec2") for why in REASONS}
