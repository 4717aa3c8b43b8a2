"""What is said of a group of jobs, a node and a pool: a table of situations and their sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Optional

import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from elastiq.demand import Standing, Trial, Trials, WaitingHistory
from elastiq.explain import Explainer
from elastiq.health import Block, Health
from elastiq.idling import AUTO
from elastiq.interfaces import JobGroup, Jobs, Resources, Terms, WorkerState
from elastiq.nodes import Node, State
from elastiq.planner import plan
from elastiq.situation import NOT_ASKED, Allowance, Situation
from elastiq.strangers import Stranger
from tests.unit.values import (
    FOUR,
    NOW,
    WALL,
    a_node,
    a_pool,
    a_registry,
    a_worker,
    an_instance,
    group,
    situation,
    some_settings,
)

BIG = Resources(cpus=1, memory_mb=65536)
FOUR_CPUS = Resources(cpus=4)
LONG_IDLE: dict[str, Any] = {"idle_s": 700.0}  # idle_for_time_s is 600 here


def at(wall: float) -> str:
    """Seconds from now, so that a table can be read."""
    return f"[{wall - WALL:+.0f} s]"


def of_group(s: Situation) -> str:
    planned = plan(s)
    (verdict,) = planned.verdicts
    return Explainer(s, planned, at).group(verdict)


def of_node(s: Situation, number: int = 1) -> str:
    return Explainer(s, plan(s), at).node(next(node for node in s.registry if node.number == number))


# --------------------------------------------------------------------------- groups


def held_back(scope: str, reason: str) -> Health:
    health = Health()
    health.blocks[scope] = Block(NOW + 300.0, 60.0, reason)
    return health


def young(*groups: JobGroup, before_s: float) -> WaitingHistory:
    """Jobs that came so long ago."""
    history = WaitingHistory(40.0)
    history.observe(NOW - before_s, Jobs(groups))
    history.observe(NOW, Jobs(groups))
    return history


def grown(before: JobGroup, now: JobGroup) -> WaitingHistory:
    history = young(before, before_s=100)
    history.observe(NOW, Jobs((now,)))
    return history


PATIENT = some_settings(waiting_jobs_time_s=40.0)
TWO_SIZES = some_settings(
    pools=(a_pool("small", capacity=Resources(2, 4096, gpus=0)), a_pool("large", capacity=Resources(8, 32768, gpus=0)))
)
UNSERVED = Trials(records={"g": Trial("g", Standing.UNSERVED, reason="none of it started", refused_by=("ec2",))})

GROUPS: dict[str, tuple[Callable[[], Situation], str]] = {
    "not eligible": (
        lambda: situation(group(not_eligible="asks a licence that is used up")),
        "not eligible: asks a licence that is used up",
    ),
    "free room": (lambda: situation(group(waiting=3), nodes=[a_node(number=3)]), "free room on w3 (i-3)"),
    "free room on a worker that is no node": (lambda: _with_stranger(situation(group(waiting=3))), "free room on w9"),
    "room on more machines than can be named": (
        lambda: situation(group(waiting=20), nodes=[a_node(number=n) for n in range(1, 6)]),
        "free room on w1 (i-1), w2 (i-2), w3 (i-3) and 2 more",
    ),
    "a booting machine, by the configured time": (
        lambda: situation(group(), nodes=[a_node(State.BOOTING, 12)]),
        "booting i-12 will serve it by [+600 s]",
    ),
    "a booting machine, by the boots that were seen": (
        lambda: situation(
            group(waiting=2),
            nodes=[a_node(State.BOOTING, 12), *(a_node(State.BUSY, n, joined_at=WALL + 90 + n) for n in (1, 2, 3))],
        ),
        "booting i-12 will serve them at about [+92 s]",
    ),
    "a machine that is late": (
        lambda: situation(group(), nodes=[a_node(State.PENDING, 12, created_at=WALL - 700)]),
        "pending i-12 will serve it once joined, which was due at [-100 s]",
    ),
    "a launch": (lambda: situation(group(waiting=6)), "launching 2 of ec2/medium"),
    "room on a machine that is launched for the minimum": (
        lambda: situation(group(), settings=some_settings(min_vms=1)),
        "room on machines that are launched for another reason",
    ),
    "a launch that is only logged": (
        lambda: situation(group(), off={"launch": "dry run"}),
        "dry run: would launch 1 of ec2/medium",
    ),
    "waits too briefly": (
        lambda: situation(group(), settings=PATIENT, history=young(group(), before_s=10)),
        "waits too briefly, until [+30 s] (waiting_jobs_time_s 40)",
    ),
    "some of them wait too briefly": (
        lambda: situation(
            group(waiting=5), settings=PATIENT, nodes=[a_node()], history=young(group(waiting=5), before_s=10)
        ),
        "4 of them: free room on w1 (i-1); 1 of them: waits too briefly, until [+30 s] (waiting_jobs_time_s 40)",
    ),
    "it grew a moment ago": (
        lambda: situation(group(waiting=9), settings=PATIENT, history=grown(group(waiting=5), group(waiting=9))),
        "5 of them: launching 2 of ec2/medium; "
        "4 of them: waits too briefly, until at the latest [+40 s] (waiting_jobs_time_s 40)",
    ),
    "they ask for a pool that is not there": (
        lambda: situation(group(pools=("nopool",)), settings=TWO_SIZES),
        "there is no pool nopool, which they ask for; there are small, large",
    ),
    "nothing fits": (
        lambda: situation(group(request=BIG), settings=TWO_SIZES),
        "nothing fits: asks 64 GB, the largest flavour has 32 GB",
    ),
    "nothing fits by a hair": (
        lambda: situation(group(request=Resources(cpus=9, gpus=1)), settings=TWO_SIZES),
        "nothing fits: asks 9 cpus, the largest flavour has 8 cpus and asks 1 gpu, the largest flavour has 0 gpus",
    ),
    "nothing fits in two ways": (
        lambda: situation(group(request=replace(BIG, gpus=2)), settings=TWO_SIZES),
        "nothing fits: asks 64 GB, the largest flavour has 32 GB and asks 2 gpus, the largest flavour has 0 gpus",
    ),
    "an offer is held back": (
        lambda: situation(group(), health=held_back("offer ec2/medium", "no capacity")),
        "offer ec2/medium is held back until [+300 s]: no capacity",
    ),
    "a site is held back": (
        lambda: situation(group(), health=held_back("site aws", "the key was refused")),
        "site aws is held back until [+300 s]: the key was refused",
    ),
    "the quota": (
        lambda: situation(group(waiting=6), settings=some_settings(max_vms=1)),
        "4 of them: launching 1 of ec2/medium; 2 of them: max_vms 1 is reached (1 counted)",
    ),
    "the cost cap": (
        lambda: situation(
            group(),
            settings=some_settings(pools=(a_pool(prices={"*": 2.0}),)),
            allowances=(Allowance("max_cost_per_hour 3", 1.0, 2.0, "an hour", priced=True),),
        ),
        "max_cost_per_hour 3 would be passed (2 an hour)",
    ),
    "a machine came and ran none of it": (lambda: situation(group(), trials=UNSERVED), "none of it started"),
    "nothing may be launched now": (
        lambda: situation(group(), no_launch="the workers could not be read: no answer"),
        "the workers could not be read: no answer",
    ),
}


def _with_stranger(s: Situation) -> Situation:
    s.registry.strangers["w9"] = Stranger(a_worker("w9"), 9, "a static worker")
    return s


@pytest.mark.parametrize("name", GROUPS)
def test_of_a_group_it_is_said_what_becomes_of_its_jobs(name: str) -> None:
    make, text = GROUPS[name]
    assert of_group(make()) == text


# --------------------------------------------------------------------------- nodes


def drained_by(reason: str) -> Node:
    worker = a_worker("w1", WorkerState.DRAINED, drained_by=reason)
    return a_node(State.BUSY, seen=worker, jobs=0, reason=f"drained by someone else ({reason}): left alone")


def taken(state: State) -> Node:
    node = a_node(state)
    node.instance = an_instance("i-1", notice="spot interruption")
    return node


OLD = some_settings(pools=(a_pool(terms=Terms(max_vm_lifetime_s=8000.0)),))
FLOOR = some_settings(min_vms=1)
POOL_FLOOR = some_settings(pools=(a_pool(min_vms=1),))
SPARES = some_settings(pools=(a_pool(terms=Terms(min_idle_vms=1)),))
BY_HAND = "elastiqctl drain: disk fails"
DRAINING: dict[str, Any] = {"since": WALL - 20.0, "reason": "idle for 700 s"}

NODES: dict[str, tuple[Callable[[], Situation], str]] = {
    "asked for": (
        lambda: situation(nodes=[a_node(State.REQUESTED)]),
        "asked for at [+0 s], the cloud does not show it yet",
    ),
    "booting": (
        lambda: situation(nodes=[a_node(State.BOOTING, boot_s=100.0)]),
        "booting: joins until [+500 s] or is ended",
    ),
    "booting for jobs": (
        lambda: situation(group(waiting=2), nodes=[a_node(State.BOOTING)]),
        "booting: joins until [+600 s] or is ended, for 2 waiting jobs of 1 cpu, 1000 MB",
    ),
    "booting as a spare": (
        lambda: situation(
            nodes=[a_node(State.BOOTING, reason="launched as i-1: min_idle_vms 1 of pool ec2")], settings=SPARES
        ),
        "booting: joins until [+600 s] or is ended, launched for min_idle_vms 1 of pool ec2",
    ),
    "booting for jobs that have gone": (
        lambda: situation(nodes=[a_node(State.BOOTING, reason="launched as i-1: 1 job", groups={"g": 1})]),
        "booting: joins until [+600 s] or is ended",
    ),
    "booting while the view is not settled": (
        lambda: situation(nodes=[a_node(State.BOOTING)], no_end="the workers were not read yet"),
        "booting: joins until [+600 s] or is ended; that time stands still: the workers were not read yet",
    ),
    "never joined": (
        lambda: situation(nodes=[a_node(State.BOOTING, boot_s=601.0)]),
        "is ended: did not join within estimated_vm_deploy_time_s 600",
    ),
    "busy": (lambda: situation(nodes=[a_node(State.BUSY, reason="runs 4 jobs")]), "busy: runs 4 jobs"),
    "drained by someone else": (
        lambda: situation(nodes=[drained_by("maintenance")]),
        "kept: drained by someone else (maintenance): left alone",
    ),
    "idle, its time is not up": (
        lambda: situation(nodes=[a_node(idle_s=300.0)]),
        "idle for 300 s of idle_for_time_s 600: may go at [+300 s]",
    ),
    "idle, its time is not up, and it will stay": (
        lambda: situation(nodes=[a_node(idle_s=300.0)], settings=FLOOR),
        "idle for 300 s of idle_for_time_s 600, then kept: min_vms 1",
    ),
    "idle, its time is not up, a spare": (
        lambda: situation(nodes=[a_node(idle_s=300.0)], settings=SPARES),
        "idle for 300 s of idle_for_time_s 600, then kept: min_idle_vms 1 of pool ec2",
    ),
    "idle, its time is not up, one more than the spares": (
        lambda: situation(nodes=[a_node(idle_s=300.0), a_node(number=2)], settings=SPARES),
        "idle for 300 s of idle_for_time_s 600: may go at [+300 s]",
    ),
    "idle, in a pool with a time of its own": (
        lambda: situation(
            nodes=[a_node(idle_s=300.0)], settings=some_settings(pools=(a_pool(terms=Terms(idle_for_time_s=900.0)),))
        ),
        "idle for 300 s of idle_for_time_s 900: may go at [+600 s]",
    ),
    "idle, its time is elastiq's own choice": (
        lambda: situation(nodes=[a_node(idle_s=100.0)], settings=some_settings(idle_for_time_s=AUTO)),
        "idle for 100 s of 300 s (auto: half of estimated_vm_deploy_time_s 600, none was seen to boot yet):"
        " may go at [+200 s]",
    ),
    "goes": (lambda: situation(nodes=[a_node(**LONG_IDLE)]), "goes: idle for 700 s"),
    "would go": (
        lambda: situation(nodes=[a_node(**LONG_IDLE)], off={"terminate": "dry run"}),
        "dry run: would go: idle for 700 s",
    ),
    "its pool is configured no more": (
        lambda: situation(nodes=[a_node(pool="old")]),
        "goes: pool old is no longer configured",
    ),
    "reserved": (
        lambda: situation(group(request=FOUR_CPUS), nodes=[a_node(**LONG_IDLE)]),
        "kept: reserved for 1 waiting job of 4 cpus",
    ),
    "reserved for several groups": (
        lambda: situation(group("a"), group("b", request=Resources(cpus=2)), nodes=[a_node(**LONG_IDLE)]),
        "kept: reserved for 1 waiting job of 2 cpus and 1 waiting job of 1 cpu, 1000 MB",
    ),
    "launched for jobs that have not started": (
        lambda: situation(
            group(),
            nodes=[a_node(groups={"g": 1}, room_s=500.0, **LONG_IDLE)],
            trials=Trials(records={"g": Trial("g", Standing.TRYING, covered=1, refused_by=("ec2/small",))}),
        ),
        "kept: launched for waiting jobs of which none has started yet",
    ),
    "the minimum": (lambda: situation(nodes=[a_node(**LONG_IDLE)], settings=FLOOR), "kept: min_vms 1"),
    "the minimum of its pool": (
        lambda: situation(nodes=[a_node(**LONG_IDLE)], settings=POOL_FLOOR),
        "kept: min_vms 1 of pool ec2",
    ),
    "a hot spare": (
        lambda: situation(nodes=[a_node(**LONG_IDLE)], settings=SPARES),
        "kept: min_idle_vms 1 of pool ec2",
    ),
    "a pause after an end": (
        lambda: situation(nodes=[a_node(**LONG_IDLE)], no_drain="cooldown_after_end_s 60 goes on for 5 s"),
        "kept: cooldown_after_end_s 60 goes on for 5 s",
    ),
    "its pool is being drained": (
        lambda: situation(nodes=[a_node()], drained=frozenset({"ec2"}), settings=POOL_FLOOR),
        "goes: pool ec2 is being drained",
    ),
    "its pool is being drained, and the cluster has a minimum": (
        lambda: situation(nodes=[a_node()], drained=frozenset({"ec2"}), settings=FLOOR),
        "is to go (pool ec2 is being drained), kept for now: min_vms 1",
    ),
    "its pool is being drained, and it has jobs": (
        lambda: situation(nodes=[a_node(State.BUSY, reason="runs 4 jobs")], drained=frozenset({"ec2"})),
        "busy: runs 4 jobs; goes once they have ended: pool ec2 is being drained",
    ),
    "its pool is being drained, and it boots": (
        lambda: situation(nodes=[a_node(State.BOOTING)], drained=frozenset({"ec2"})),
        "booting: joins until [+600 s] or is ended; goes then: pool ec2 is being drained",
    ),
    "the cloud is about to take it": (
        lambda: situation(nodes=[taken(State.IDLE)]),
        "goes: the cloud is about to take it away: spot interruption",
    ),
    "the cloud is about to take it from its jobs": (
        lambda: situation(nodes=[taken(State.BUSY)]),
        "goes once its jobs have ended: the cloud is about to take it away: spot interruption",
    ),
    "too old": (
        lambda: situation(nodes=[a_node(created_at=WALL - 9000)], settings=OLD),
        "goes: older than max_vm_lifetime_s 8000",
    ),
    "nothing is ended": (
        lambda: situation(nodes=[a_node(**LONG_IDLE)], no_end="the queue was not read yet"),
        "kept: nothing is ended now, the queue was not read yet",
    ),
    "its site is not known": (
        lambda: situation(nodes=[a_node(**LONG_IDLE)], sites=frozenset()),
        "kept: the instances of site aws are not known now",
    ),
    "its drain was refused": (
        lambda: situation(nodes=[a_node(retry_at=NOW + 30, reason="drain refused: we may not", **LONG_IDLE)]),
        "kept: drain refused: we may not: again at [+30 s]",
    ),
    "a drain is asked for": (
        lambda: situation(nodes=[a_node(State.DRAINING, acting=True, **DRAINING)]),
        "draining since [-20 s] (idle for 700 s), waits for the batch system's answer",
    ),
    "a drain waits for a read": (
        lambda: situation(nodes=[a_node(State.DRAINING, act_ended=NOW, **DRAINING)], workers_began=NOW - 1),
        "draining since [-20 s] (idle for 700 s), waits for a read of the workers",
    ),
    "a drain that does not show": (
        lambda: situation(nodes=[a_node(State.DRAINING, act_ended=NOW - 10, **DRAINING)]),
        "draining since [-20 s] (idle for 700 s), ended once a read shows it out of service, returned at [+290 s]",
    ),
    "busy, and drained by a person": (
        lambda: situation(nodes=[a_node(State.BUSY, ordered=BY_HAND)]),
        "goes once its jobs have ended: elastiqctl drain: disk fails",
    ),
    "a minimum, and drained by a person": (
        lambda: situation(nodes=[a_node(ordered=BY_HAND)], settings=FLOOR),
        "goes: elastiqctl drain: disk fails",
    ),
    "booting, and drained by a person": (
        lambda: situation(nodes=[a_node(State.BOOTING, ordered=BY_HAND)]),
        "booting: joins until [+600 s] or is ended; goes then: elastiqctl drain: disk fails",
    ),
    "busy where nothing can be drained, and drained by a person": (
        lambda: situation(nodes=[a_node(State.BUSY, ordered=BY_HAND, reason="runs 4 jobs")], can_drain=False),
        "busy: runs 4 jobs; goes once they have ended: elastiqctl drain: disk fails",
    ),
    "terminating": (
        lambda: situation(nodes=[a_node(State.TERMINATING, **DRAINING)]),
        "its end was asked for at [-20 s] (idle for 700 s): counts until the cloud confirms it",
    ),
    "lost": (
        lambda: situation(nodes=[a_node(State.LOST, lost_s=300.0)]),
        "lost: its worker has been missing for 300 s of lost_after_s 900, "
        "ended at [+600 s] if no job is recorded there",
    ),
    "lost for good": (
        lambda: situation(nodes=[a_node(State.LOST, lost_s=900.0)]),
        "is ended: its worker has been missing for 900 s, if no job is recorded there",
    ),
    "failed": (
        lambda: situation(nodes=[a_node(State.FAILED, reason="the cloud says impaired")], no_end="not settled"),
        "failed: the cloud says impaired; ended once it is known that it runs nothing (not settled)",
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_of_a_node_it_is_said_why_it_is_kept_or_goes(name: str) -> None:
    make, text = NODES[name]
    assert of_node(make()) == text


def test_every_state_of_a_node_has_a_sentence() -> None:
    for state in set(State) - {State.GONE}:
        assert of_node(situation(nodes=[a_node(state, reason="r", since=WALL)]))


def test_a_node_that_is_kept_for_the_minimum_lets_another_go() -> None:
    s = situation(nodes=[a_node(number=1, idle_s=800.0), a_node(number=2, **LONG_IDLE)], settings=FLOOR)
    assert [of_node(s, number) for number in (1, 2)] == ["goes: idle for 800 s", "kept: min_vms 1"]


# --------------------------------------------------------------------------- workers and pools


def test_a_worker_that_is_no_node_is_said_to_be_left_alone() -> None:
    s = _with_stranger(situation())
    assert Explainer(s, plan(s), at).worker("w9") == "no machine of elastiq's, never ended: a static worker"


def lines_of(s: Situation) -> list[str]:
    return Explainer(s, plan(s), at).pool(s.settings.pools[0])


def test_of_a_pool_its_limits_sizes_prices_and_terms_are_said() -> None:
    pool = a_pool(
        flavours=("medium", "odd"), min_vms=1, max_vms=5, capacity=Resources(), markets=("spot", "on-demand"),
        prices={"medium/spot": 0.25, "medium": 0.75}, terms=Terms(idle_for_time_s=900.0, priority=2.0),
    )  # fmt: skip
    registry = a_registry(a_node(), a_node(State.BOOTING, 2))
    registry.learned[("ec2", "medium")] = FOUR
    assert lines_of(situation(settings=some_settings(pools=(pool,)), registry=registry)) == [
        "2 machines (1 joined, 1 to come); at most 5, min_vms 1",
        "flavour medium: 4 cpus, 7.812 GB; 0.25 an hour (spot), 0.75 an hour (on-demand)",
        "flavour odd: its size is not known until one has joined; no price (spot), no price (on-demand)",
        "its own terms: idle_for_time_s 900, priority 2",
    ]


def test_of_a_pool_it_is_said_what_holds_it_back() -> None:
    health = held_back("site aws", "the key was refused")
    health.blocks["offer other/medium"] = Block(NOW + 300.0, 60.0, "another pool's")
    health.blocks["pool ec2"] = Block(NOW - 1, 60.0, "that is over")
    health.failed_boots["ec2"] = 3
    assert lines_of(situation(health=health, sites=frozenset(), drained=frozenset({"ec2"})))[2:] == [
        "it is being drained: nothing is launched there, and what is idle there ends",
        "the instances of site aws are not known now: nothing is launched or ended there",
        "site aws is held back until [+300 s]: the key was refused",
        "the last 3 machines of pool ec2 never joined: one at a time until one does",
    ]


def test_of_a_pool_nothing_is_said_of_jobs_that_are_being_asked_about() -> None:
    def fits(asked: JobGroup, *_: object) -> tuple[bool, str]:
        return False, {"a": NOT_ASKED, "b": "its START refuses them"}[asked.key]

    groups = [group("a", waiting=3), group("b"), group("c", pools=("other",))]
    assert lines_of(situation(*groups, fits=fits))[2:] == [
        "it cannot run 1 waiting job of 1 cpu, 1000 MB and 1 waiting job of 1 cpu, 1000 MB"
    ]


def test_of_a_pool_it_is_said_which_of_the_waiting_jobs_it_runs() -> None:
    groups = [group("a", waiting=3), group("b", request=BIG), group("c", not_eligible="held")]
    assert lines_of(situation(*groups))[2:] == [
        "of the waiting jobs it can run 3 waiting jobs of 1 cpu, 1000 MB",
        "it cannot run 1 waiting job of 1 cpu, 65536 MB",
    ]


# --------------------------------------------------------------------------- what is said is what is done

POOLS = (
    a_pool("a", min_vms=1, max_vms=3),
    a_pool("b", terms=Terms(min_idle_vms=2)),
    a_pool("c", terms=Terms(idle_for_time_s=60.0)),
)
SERVING = st.sampled_from([State.IDLE, State.IDLE, State.IDLE, State.BUSY, State.BOOTING, State.DRAINING, State.LOST])
OTHER = st.sampled_from(["", "", "", "waits", "taken"])
NODE = st.tuples(SERVING, st.sampled_from("abcd"), st.sampled_from([0.0, 100.0, 700.0, 900.0]), OTHER)
ASKED = st.tuples(st.sampled_from([1, 2, 4, 16]), st.integers(1, 9))


@settings_of_hypothesis(max_examples=250, deadline=None)
@given(
    st.lists(NODE, max_size=7),
    st.lists(ASKED, max_size=3),
    st.integers(0, 4),
    st.sampled_from([1, 5, None]),
    st.sampled_from(["", "cooldown_after_end_s"]),
    st.sets(st.sampled_from("abc"), max_size=2),
)
def test_a_node_is_said_to_go_when_it_goes_and_else_what_keeps_it(
    nodes: list[tuple[State, str, float, str]],
    asked: list[tuple[int, int]],
    min_vms: int,
    max_vms: Optional[int],
    no_drain: str,
    drained: set[str],
) -> None:
    made = [
        a_node(
            state, number, pool=pool, idle_s=idle_s, reason="a reason", retry_at=NOW + 9 if other == "waits" else 0.0,
            instance=an_instance(f"i-{number}", notice="an interruption" if other == "taken" else ""),
        )
        for number, (state, pool, idle_s, other) in enumerate(nodes, 1)
    ]  # fmt: skip
    groups = [group(f"{n}", waiting, Resources(cpus=cpus)) for n, (cpus, waiting) in enumerate(asked)]
    settings = some_settings(pools=POOLS, min_vms=min_vms, max_vms=max_vms)
    s = situation(*groups, nodes=made, settings=settings, no_drain=no_drain, drained=frozenset(drained))
    planned = plan(s)
    explainer, going = Explainer(s, planned, at), {step.node.id for step in planned.drains}
    for node in made:
        text = explainer.node(node)
        assert text.startswith("goes") == (node.id in going), text
        assert not text.endswith(("may go now", "the next plan drains it")), "the planner had a reason to keep it"
    for verdict in planned.verdicts:
        assert not explainer.group(verdict).endswith("the next plan decides"), "it was planned, and has a reason"
