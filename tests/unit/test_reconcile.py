"""Which worker is which instance, and what the reads of both sides make of a node."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Optional

import pytest

from elastiq.discrepancies import LISTINGS_BEFORE_GONE
from elastiq.interfaces import Instance, InstanceState, Resources, Worker, WorkerState
from elastiq.metrics.tally import Tally
from elastiq.nodes import AT_BOOT, Node, Registry, State
from elastiq.reconcile import CLOCK_SKEW_S, match, take_instances, take_workers
from tests.unit.values import NOW, WALL, a_node, a_registry, a_worker, an_instance, listing, view

HEAD = "abcdef0123456789"
GRACE_S = 600.0


def see(
    registry: Registry,
    *workers: Worker,
    settled: bool = True,
    observed_s: float = 0.0,
    explain: Optional[dict[str, str]] = None,
) -> None:
    take_workers(registry, view(*workers), settled, observed_s, WALL, lambda: explain or {}, HEAD)


def list_site(registry: Registry, *owned: Instance, began: float = NOW, site: str = "aws") -> list[str]:
    return take_instances(registry, site, listing(*owned), began, WALL, GRACE_S)


# --------------------------------------------------------------------------- identity


def matched(registry: Registry, *workers: Worker) -> dict[str, str]:
    return {node: worker.name for node, worker in match(registry, workers)[0].items()}


def test_an_instance_id_outweighs_every_address() -> None:
    registry = a_registry(a_node(number=1), a_node(number=2))
    worker = a_worker("w7", addresses=frozenset({"10.0.0.1"}), instance_id="i-2")
    assert matched(registry, worker) == {"launch.2": "w7"}


def test_an_instance_id_that_is_not_ours_is_no_node_whatever_its_address() -> None:
    registry = a_registry(a_node(number=1))
    worker = a_worker("w1", instance_id="i-of-another")
    assert match(registry, [worker]) == ({}, [worker])


@pytest.mark.parametrize("shared", ["10.0.0.1", "192.168.7.7", "fd00::7"])
def test_any_address_of_any_interface_identifies(shared: str) -> None:
    registry = a_registry(a_node(number=1, addresses=frozenset({"10.0.0.1", "192.168.7.7", "fd00::7"})))
    worker = a_worker("w9", addresses=frozenset({"172.17.0.1", shared}))
    assert matched(registry, worker) == {"launch.1": "w9"}


BUSY_ADS = [
    a_worker("w1", WorkerState.BUSY, jobs=1),
    a_worker("w1b", WorkerState.BUSY, jobs=0, addresses=frozenset({"10.0.0.1"})),
    a_worker("w1c", WorkerState.DRAINING, jobs=2, addresses=frozenset({"10.0.0.1"})),
]
OTHER_ADS = [a_worker("old", state, addresses=frozenset({"10.0.0.1"})) for state in WorkerState if state.name != "BUSY"]


@pytest.mark.parametrize("busy", BUSY_ADS, ids=lambda ad: f"{ad.state.value}-{ad.jobs}")
@pytest.mark.parametrize("other", OTHER_ADS, ids=lambda ad: ad.state.value)
@pytest.mark.parametrize("order", [0, 1])
def test_of_two_ads_of_one_machine_the_one_that_runs_something_wins(busy: Worker, other: Worker, order: int) -> None:
    ads = [busy, other] if order == 0 else [other, busy]
    registry = a_registry(a_node())
    see(registry, *ads)
    assert registry.nodes["launch.1"].seen is busy
    assert registry.nodes["launch.1"].state is State.BUSY
    assert registry.strangers == {}


@pytest.mark.parametrize("ended", [State.TERMINATING, State.LOST, State.FAILED])
@pytest.mark.parametrize("order", [0, 1])
def test_a_recycled_address_belongs_to_the_machine_that_has_it_now(ended: State, order: int) -> None:
    old = a_node(ended, 1, addresses=frozenset({"10.0.0.5"}))
    new = a_node(State.BOOTING, 2, addresses=frozenset({"10.0.0.5"}))
    registry = a_registry(old, new)
    if order:  # as after a restart: the store gives the rows in the order of their last writing
        restored = Registry()
        restored.restore([new, old], {})
        registry = restored
    see(registry, a_worker("w5", WorkerState.BUSY))
    assert (new.state, new.worker) == (State.BUSY, "w5")
    assert (old.state, old.seen) == (ended, None)


def test_an_ad_from_before_the_new_machine_is_still_the_old_ones() -> None:
    launched = WALL - 10
    old = a_node(State.IDLE, 1, addresses=frozenset({"10.0.0.5"}), created_at=WALL - 90_000)
    old.instance = an_instance("i-1", launched_at=WALL - 90_000)
    new = a_node(State.BOOTING, 2, addresses=frozenset({"10.0.0.5"}), created_at=launched)
    new.instance = an_instance("i-2", launched_at=launched)
    registry = a_registry(old, new)
    see(registry, a_worker("w5", WorkerState.BUSY, started_at=WALL - 80_000))
    assert (old.state, new.state) == (State.BUSY, State.BOOTING)


def test_a_machine_with_a_recycled_address_inherits_no_clock() -> None:
    old = a_node(State.IDLE, 1, idle_s=5000.0, addresses=frozenset({"10.0.0.5"}), worker="w5")
    registry = a_registry(old)
    list_site(registry, an_instance("i-1", InstanceState.TERMINATED))
    new = registry.add(a_node(State.BOOTING, 2, addresses=frozenset({"10.0.0.5"})))
    see(registry, a_worker("w5"), observed_s=45.0)
    assert (new.state, new.idle_s) == (State.IDLE, 0.0)


@pytest.mark.parametrize(("before_s", "is_stale"), [(CLOCK_SKEW_S + 1, True), (CLOCK_SKEW_S - 1, False)])
def test_an_ad_that_is_older_than_the_instance_is_another_machines(before_s: float, is_stale: bool) -> None:
    node = a_node(State.BOOTING, instance=an_instance(launched_at=WALL))
    registry = a_registry(node)
    see(registry, a_worker(started_at=WALL - before_s))
    assert (node.state is State.BOOTING) is is_stale
    assert bool(registry.strangers) is is_stale


# --------------------------------------------------------------------------- what an ad makes of a node


@pytest.mark.parametrize("state", [State.REQUESTED, State.PENDING, State.BOOTING, State.LOST, State.FAILED])
def test_a_machine_is_up_as_soon_as_its_worker_is_seen(state: State) -> None:
    node = a_node(state, instance_id="i-1", addresses=frozenset({"10.0.0.1"}), lost_s=300.0)
    registry = a_registry(node)
    see(registry, a_worker())
    assert (node.state, node.joined_at, node.lost_s) == (State.IDLE, WALL, 0.0)


def test_a_worker_that_is_not_to_be_used_is_not_idle_and_says_why() -> None:
    reasons = {}
    for number, state in enumerate((WorkerState.OTHER, WorkerState.DRAINED, WorkerState.DRAINING), 1):
        node = a_node(number=number)
        by = {"drained_by": "root: maintenance"} if "DRAIN" in state.name else {"detail": "Owner"}
        see(a_registry(node), a_worker(f"w{number}", state, **by))
        assert (node.state, node.idle_s) == (State.BUSY, 0.0)
        reasons[state] = node.reason
    assert reasons[WorkerState.OTHER] == "not to be used: Owner"
    assert "someone else (root: maintenance)" in reasons[WorkerState.DRAINED]
    assert "someone else (root: maintenance)" in reasons[WorkerState.DRAINING]


def test_a_drain_of_ours_that_nobody_wants_any_more_is_known_as_ours() -> None:
    node = a_node()
    see(a_registry(node), a_worker(state=WorkerState.DRAINED, drained_by=f"elastiq test {HEAD}99"))
    assert node.reason == "still drained by us: it will be returned"


@pytest.mark.parametrize("state", [State.DRAINING, State.TERMINATING])
@pytest.mark.parametrize("ad", [WorkerState.IDLE, WorkerState.BUSY, WorkerState.DRAINED])
def test_what_is_being_drained_or_ended_stays_so_for_the_one_who_does_it(state: State, ad: WorkerState) -> None:
    node = a_node(state)
    see(a_registry(node), a_worker(state=ad))
    assert node.state is state
    assert node.seen is not None and node.seen.state is ad


@pytest.mark.parametrize("there", [InstanceState.PENDING, InstanceState.RUNNING])
def test_a_machine_that_boots_is_still_known_to_be_there_for_what_it_was_launched_for(there: InstanceState) -> None:
    node = a_node(State.REQUESTED, reason="min_idle_vms 1 of pool ec2")
    list_site(a_registry(node), an_instance(state=there, intent="launch"))
    assert (node.state in AT_BOOT, node.reason) == (True, "min_idle_vms 1 of pool ec2")


# --------------------------------------------------------------------------- clocks


def test_idle_time_is_observed_idleness() -> None:
    node = a_node(State.BOOTING)
    registry = a_registry(node)
    see(registry, a_worker(), observed_s=45.0)
    assert node.idle_s == 0.0, "it was not known to be idle before this read"
    see(registry, a_worker(), observed_s=45.0)
    see(registry, a_worker(), observed_s=30.0)
    assert node.idle_s == 75.0
    see(registry, a_worker(), observed_s=0.0)
    assert node.idle_s == 75.0, "nothing was observed in between"


def test_a_job_ends_the_idleness_and_so_does_one_that_came_and_went_between_two_reads() -> None:
    node = a_node(idle_s=500.0, job_starts=7)
    registry = a_registry(node)
    see(registry, a_worker(job_starts=7), observed_s=45.0)
    assert node.idle_s == 545.0
    see(registry, a_worker(job_starts=8), observed_s=45.0)
    assert (node.idle_s, node.state, node.was_busy) == (0.0, State.IDLE, True)
    see(registry, a_worker(job_starts=8), observed_s=45.0)
    assert node.idle_s == 45.0
    see(registry, a_worker(state=WorkerState.BUSY, job_starts=9), observed_s=45.0)
    assert (node.idle_s, node.state, node.reason) == (0.0, State.BUSY, "runs 4 jobs")


def test_another_worker_on_the_same_instance_begins_anew() -> None:
    node = a_node(idle_s=500.0)
    see(a_registry(node), a_worker("w1x", addresses=frozenset({"10.0.0.1"})), observed_s=45.0)
    assert (node.worker, node.idle_s) == ("w1x", 0.0)


def test_an_unsettled_view_runs_no_clock_and_concludes_nothing_from_absence() -> None:
    idle = a_node(State.IDLE, 1, idle_s=500.0)
    there = a_node(State.IDLE, 2, idle_s=300.0)
    booting = a_node(State.BOOTING, 3, boot_s=100.0)
    lost = a_node(State.LOST, 4, lost_s=200.0)
    draining = a_node(State.DRAINING, 5)
    registry = a_registry(idle, there, booting, lost, draining)
    see(registry, a_worker("w2"), settled=False, observed_s=45.0)
    assert [node.state for node in registry] == [State.IDLE, State.IDLE, State.BOOTING, State.LOST, State.DRAINING]
    assert (idle.idle_s, there.idle_s, booting.boot_s, lost.lost_s) == (500.0, 300.0, 100.0, 200.0)
    assert (idle.seen, draining.seen) == (None, None), "what was not seen now cannot be called idle now"


def test_what_an_unsettled_view_shows_is_believed() -> None:
    idle, lost, booting = a_node(number=1, idle_s=500.0), a_node(State.LOST, 2), a_node(State.BOOTING, 3)
    registry = a_registry(idle, lost, booting)
    see(registry, a_worker("w1", WorkerState.BUSY), a_worker("w2"), a_worker("w3"), settled=False)
    assert [node.state for node in registry] == [State.BUSY, State.IDLE, State.IDLE]
    assert idle.idle_s == 0.0


def test_idle_time_survives_a_time_in_which_the_view_was_not_settled() -> None:
    node = a_node(idle_s=500.0)
    registry = a_registry(node)
    see(registry, settled=False)
    see(registry, a_worker(), settled=True, observed_s=0.0)
    see(registry, a_worker(), settled=True, observed_s=45.0)
    assert (node.state, node.idle_s) == (State.IDLE, 545.0)


def test_the_boot_clock_runs_while_the_cloud_has_it_and_the_pool_does_not() -> None:
    requested, pending, booting = (a_node(State.REQUESTED, 1), a_node(State.PENDING, 2), a_node(State.BOOTING, 3))
    registry = a_registry(requested, pending, booting)
    see(registry, settled=True, observed_s=30.0)
    assert [node.boot_s for node in registry] == [0.0, 0.0, 0.0], "part of that time lay before their launch"
    see(registry, settled=True, observed_s=45.0)
    assert [node.boot_s for node in (requested, pending, booting)] == [0.0, 45.0, 45.0]


def test_a_machine_that_ran_a_job_may_be_drained_as_soon_as_it_is_idle_for_long_enough_again() -> None:
    node = a_node(failures=5)
    node.retry_at = 1e9
    registry = a_registry(node)
    see(registry, a_worker(state=WorkerState.BUSY, jobs=1), settled=True)
    assert (node.failures, node.retry_at) == (0, 0.0)


@pytest.mark.parametrize("state", [State.IDLE, State.BUSY, State.DRAINING])
def test_a_worker_that_a_settled_view_lacks_is_lost_and_its_clock_begins(state: State) -> None:
    node = a_node(state, idle_s=500.0, lost_s=77.0)
    registry = a_registry(node)
    see(registry, settled=True, observed_s=45.0)
    assert (node.state, node.lost_s, node.idle_s) == (State.LOST, 0.0, 0.0)
    see(registry, settled=True, observed_s=45.0)
    see(registry, settled=False, observed_s=0.0)
    see(registry, settled=True, observed_s=45.0)
    assert (node.state, node.lost_s) == (State.LOST, 90.0)


def test_room_that_does_not_shrink_is_timed_and_any_change_begins_anew() -> None:
    node = a_node()
    registry = a_registry(node)
    see(registry, a_worker(), observed_s=45.0)
    see(registry, a_worker(), observed_s=45.0)
    assert node.room_s == 90.0
    see(registry, a_worker(free=Resources(3, 7000)), observed_s=45.0)
    assert node.room_s == 0.0


def test_the_clocks_are_stored_as_they_run_so_that_they_survive_a_restart() -> None:
    nodes = a_node(State.IDLE, 1), a_node(State.BOOTING, 2), a_node(State.LOST, 3)
    registry = a_registry(*nodes)
    registry.touched.clear()
    for _ in range(4):
        see(registry, a_worker("w1"), observed_s=45.0)
    assert set(registry.touched) == {"launch.1", "launch.2", "launch.3"}


def test_a_flavour_is_not_learned_from_a_worker_whose_slots_are_still_appearing() -> None:
    node = a_node(State.BOOTING)
    registry = a_registry(node)
    see(registry, a_worker(total=Resources(1, 2000)))
    see(registry, a_worker(total=Resources(4, 8000)))
    assert registry.learned == {}
    see(registry, a_worker(total=Resources(4, 8000)))
    assert registry.learned == {("ec2", "medium"): Resources(4, 8000)}


# --------------------------------------------------------------------------- strangers


def test_a_worker_that_matches_nothing_is_a_stranger_until_it_is_explained_or_gone() -> None:
    registry = a_registry(a_node(State.BOOTING))
    see(registry, a_worker("w9"))
    assert registry.strangers["w9"].explained == ""
    see(registry, a_worker("w9"), explain={"10.0.0.9": "an instance that is not ours"})
    assert registry.strangers["w9"].explained == "an instance that is not ours"
    see(registry)
    assert registry.strangers == {}


@pytest.mark.parametrize("key", ["w9", "10.0.0.9", "i-9"])
def test_a_stranger_is_explained_by_its_name_its_address_or_its_instance(key: str) -> None:
    registry = Registry()
    see(registry, a_worker("w9", instance_id="i-9"), explain={key: "a static worker"})
    assert registry.strangers["w9"].explained == "a static worker"


def test_a_stranger_keeps_its_number_and_one_that_came_later_has_a_higher_one() -> None:
    registry = Registry()
    see(registry, a_worker("w8"))
    node = registry.add(a_node(State.BOOTING))
    see(registry, a_worker("w8"), a_worker("w9"))
    assert registry.strangers["w8"].number < node.number < registry.strangers["w9"].number


def test_a_stranger_is_forgotten_only_by_a_settled_view() -> None:
    registry = Registry()
    see(registry, a_worker("w9"))
    see(registry, settled=False)
    assert set(registry.strangers) == {"w9"}
    see(registry)
    assert registry.strangers == {}


@pytest.mark.parametrize("settled", [True, False])
def test_a_stranger_whose_instance_became_known_is_none_any_more(settled: bool) -> None:
    registry = Registry()
    see(registry, a_worker("w9"))
    node = registry.add(a_node(State.BOOTING, 9))
    see(registry, a_worker("w9"), settled=settled)
    assert node.state is State.IDLE
    assert registry.strangers == {}


def test_the_ad_that_a_machine_leaves_behind_is_no_stranger_and_offers_no_room() -> None:
    node = a_node()
    registry = a_registry(node)
    list_site(registry, an_instance(state=InstanceState.TERMINATED))
    see(registry, a_worker())
    assert registry.strangers == {}
    see(registry)  # the collector forgot it
    see(registry, a_worker())
    assert set(registry.strangers) == {"w1"}


# --------------------------------------------------------------------------- what the cloud says


@pytest.mark.parametrize(
    ("before", "says", "after"),
    [
        (State.REQUESTED, InstanceState.PENDING, State.PENDING),
        (State.REQUESTED, InstanceState.RUNNING, State.BOOTING),
        (State.PENDING, InstanceState.RUNNING, State.BOOTING),
        (State.BOOTING, InstanceState.PENDING, State.BOOTING),
        (State.BOOTING, InstanceState.STOPPED, State.FAILED),
        (State.PENDING, InstanceState.ERROR, State.FAILED),
        (State.LOST, InstanceState.STOPPING, State.FAILED),
        (State.LOST, InstanceState.RUNNING, State.LOST),
        (State.IDLE, InstanceState.RUNNING, State.IDLE),
        (State.IDLE, InstanceState.STOPPED, State.IDLE),
        (State.BUSY, InstanceState.ERROR, State.BUSY),
        (State.BUSY, InstanceState.SHUTTING_DOWN, State.TERMINATING),
        (State.DRAINING, InstanceState.SHUTTING_DOWN, State.TERMINATING),
        (State.TERMINATING, InstanceState.RUNNING, State.TERMINATING),
        (State.TERMINATING, InstanceState.STOPPED, State.TERMINATING),
        (State.FAILED, InstanceState.RUNNING, State.FAILED),
        (State.BOOTING, InstanceState.UNKNOWN, State.BOOTING),
        (State.PENDING, InstanceState.UNKNOWN, State.PENDING),
        (State.REQUESTED, InstanceState.UNKNOWN, State.PENDING),
        (State.IDLE, InstanceState.UNKNOWN, State.IDLE),
        *((state, InstanceState.TERMINATED, State.GONE) for state in State if state is not State.GONE),
    ],
)
def test_the_clouds_word_on_a_node(before: State, says: InstanceState, after: State) -> None:
    node = a_node(before)
    registry = a_registry(node)
    list_site(registry, an_instance(state=says, intent="launch", state_detail="their word"))
    assert node.state is after
    assert all(move.legal for move in registry.moves)


def test_a_word_of_the_clouds_that_nobody_knows_is_told() -> None:
    node = a_node(State.BOOTING)
    list_site(a_registry(node), an_instance(state=InstanceState.UNKNOWN, state_detail="shelved"))
    assert node.reason == "the cloud says shelved, which is unknown here"


def test_an_intents_machine_in_a_state_that_nobody_knows_was_made_all_the_same() -> None:
    """Else the answer that comes after the listing finds it known already, and drops the node as never made."""
    nodes = [a_node(State.REQUESTED, number) for number in (1, 2)]
    registry = a_registry(*nodes)
    odd = an_instance("i-7", state=InstanceState.UNKNOWN, intent="launch")
    list_site(registry, odd)
    assert registry.requested("launch") == [nodes[1]]
    list_site(registry, odd, an_instance("i-8", intent="launch"))
    assert [node.instance_id for node in nodes] == ["i-7", "i-8"]


@pytest.mark.parametrize("says", InstanceState)
def test_a_launch_that_a_listing_tells_of_before_its_answer_is_in_the_history_as_any_other(says: InstanceState) -> None:
    node = a_node(State.REQUESTED, reason="1 waiting job")
    registry = a_registry(node)
    list_site(registry, an_instance("i-7", state=says, intent="launch"))
    first = registry.moves[0]
    assert (first.before, first.after, first.reason, first.legal) == (
        State.REQUESTED,
        State.PENDING,
        "1 waiting job",
        True,
    )
    tally = Tally()
    tally.take([(n, 0.0, move.after.value, "i-7", "ec2", move.reason) for n, move in enumerate(registry.moves, 1)])
    assert tally.counts["launches_total", "ec2"] == 1


def test_a_stopped_machine_whose_worker_still_reports_is_left_alone_until_it_does_no_more() -> None:
    node = a_node(State.BUSY)
    registry = a_registry(node)
    list_site(registry, an_instance(state=InstanceState.STOPPED))
    assert node.state is State.BUSY
    see(registry)
    list_site(registry, an_instance(state=InstanceState.STOPPED))
    assert (node.state, node.reason) == (State.FAILED, "the cloud says stopped")


def test_a_requested_machine_is_recognised_by_its_intents_tag_or_token() -> None:
    for instance in (an_instance("i-7", intent="launch"), an_instance("i-7", token="elastiq-head-launch")):
        node = a_node(State.REQUESTED)
        registry = a_registry(node)
        assert list_site(registry, instance) == []
        assert (node.instance_id, node.state, len(registry)) == ("i-7", State.BOOTING, 1)


def test_two_machines_of_one_intent_become_its_two_nodes_and_a_third_is_taken_over() -> None:
    registry = a_registry(a_node(State.REQUESTED, 1), a_node(State.REQUESTED, 2))
    list_site(registry, *(an_instance(f"i-{number}", intent="launch") for number in (4, 5, 6)))
    assert sorted(node.name for node in registry) == ["i-4", "i-5", "i-6"]
    assert registry.requested("launch") == []


def test_an_intent_of_another_site_claims_nothing() -> None:
    node = a_node(State.REQUESTED, site="other")
    registry = a_registry(node)
    list_site(registry, an_instance(intent="launch"))
    assert (node.state, len(registry)) == (State.REQUESTED, 2)


@pytest.mark.parametrize(
    ("says", "state"),
    [
        (InstanceState.PENDING, State.PENDING),
        (InstanceState.RUNNING, State.BOOTING),
        (InstanceState.UNKNOWN, State.PENDING),
        (InstanceState.STOPPED, State.FAILED),
        (InstanceState.ERROR, State.FAILED),
        (InstanceState.SHUTTING_DOWN, State.TERMINATING),
    ],
)
def test_an_instance_with_our_tags_that_nobody_knew_is_taken_over_and_told(says: InstanceState, state: State) -> None:
    registry = Registry()
    (notice,) = list_site(registry, an_instance(state=says, launched_at=WALL - 50))
    (node,) = registry
    assert (node.id, node.pool, node.flavour, node.state) == ("i-1", "ec2", "medium", state)
    assert node.created_at == WALL - 50
    assert notice.startswith("i-1 carries our tags")
    assert state.value in notice
    assert all(
        move.before not in (State.PENDING, State.BOOTING)
        for move in registry.moves
        if state in (State.FAILED, State.TERMINATING)
    ), "it is no boot of ours that failed"


def test_ended_machines_that_linger_in_the_listing_are_not_taken_over() -> None:
    registry = Registry()
    assert list_site(registry, an_instance(state=InstanceState.TERMINATED)) == []
    assert len(registry) == 0


def test_a_machine_that_ended_and_lingers_stays_gone() -> None:
    registry = a_registry(a_node(State.TERMINATING, reason="idle for 600 s"))
    for _ in range(3):
        list_site(registry, an_instance(state=InstanceState.TERMINATED))
    assert [(move.after, move.reason) for move in registry.moves] == [(State.GONE, "idle for 600 s")]


def test_addresses_that_a_fresh_instance_lacks_are_kept_once_known() -> None:
    node = a_node(State.BOOTING)
    list_site(a_registry(node), an_instance(addresses=frozenset()))
    assert node.addresses == frozenset({"10.0.0.1"})
    list_site(a_registry(node), an_instance(addresses=frozenset({"10.0.0.1", "10.1.0.1"})))
    assert node.addresses == frozenset({"10.0.0.1", "10.1.0.1"})


# --------------------------------------------------------------------------- what a listing lacks


def unlisted(node: Node, times: int, began: float = NOW) -> Registry:
    registry = a_registry(node)
    for number in range(times):
        list_site(registry, began=began + number)
    return registry


@pytest.mark.parametrize("state", [State.PENDING, State.BOOTING, State.LOST, State.FAILED, State.TERMINATING])
def test_a_machine_is_gone_after_several_complete_listings_without_it(state: State) -> None:
    node = a_node(state)
    assert len(unlisted(node, LISTINGS_BEFORE_GONE - 1)) == 1
    node = a_node(state)
    assert len(unlisted(node, LISTINGS_BEFORE_GONE)) == 0


def test_one_listing_with_it_begins_the_count_anew() -> None:
    node = a_node(State.BOOTING)
    registry = unlisted(node, LISTINGS_BEFORE_GONE - 1)
    list_site(registry, an_instance())
    list_site(registry)
    assert node.state is State.BOOTING


def test_a_machine_that_is_not_listed_just_after_its_launch_is_not_gone() -> None:
    node = a_node(State.PENDING, listed_by=NOW + GRACE_S)
    registry = unlisted(node, 10)
    assert len(registry) == 1
    for number in range(LISTINGS_BEFORE_GONE):
        list_site(registry, began=NOW + GRACE_S + number)
    assert len(registry) == 0


def test_a_listing_that_began_before_an_act_ended_proves_nothing_about_it() -> None:
    node = a_node(State.TERMINATING, act_ended=NOW + 50)
    unlisted(node, 20)
    assert node.state is State.TERMINATING


@pytest.mark.parametrize("state", [State.IDLE, State.BUSY, State.DRAINING])
def test_a_machine_whose_worker_reports_is_never_gone_for_want_of_a_line(state: State) -> None:
    node = a_node(state)
    unlisted(node, 20)
    assert node.state is state


def test_a_request_without_an_instance_is_never_gone_for_want_of_a_line() -> None:
    node = a_node(State.REQUESTED)
    unlisted(node, 20)
    assert node.state is State.REQUESTED


def test_a_listing_of_one_site_says_nothing_of_another() -> None:
    node = a_node(State.BOOTING, site="other")
    unlisted(node, 20)
    assert node.state is State.BOOTING


# --------------------------------------------------------------------------- nothing is illegal


@pytest.mark.parametrize(
    ("state", "says", "ad"),
    list(itertools.product([s for s in State if s is not State.GONE], [None, *InstanceState], [None, *WorkerState])),
)
def test_no_pair_of_answers_makes_an_illegal_move(
    state: State, says: Optional[InstanceState], ad: Optional[WorkerState]
) -> None:
    """Whatever the two sides say of a node in whatever state, in either order."""
    for cloud_first in (True, False):
        node = a_node(state)
        registry = a_registry(replace(node, seen=node.seen))
        for cloud in (cloud_first, not cloud_first):
            for _ in range(LISTINGS_BEFORE_GONE):
                if cloud:
                    list_site(registry, *([an_instance(state=says, intent="launch")] if says else []))
                else:
                    see(registry, *([a_worker(state=ad)] if ad else []), observed_s=10.0)
        assert [move for move in registry.moves if not move.legal] == []


def test_what_a_worker_runs_is_stored_when_it_changes() -> None:
    node = a_node(State.BUSY, job_starts=4)
    registry = a_registry(node)
    worker = a_worker(state=WorkerState.BUSY, jobs=4, job_starts=4)
    fewer, started = replace(worker, jobs=3), replace(worker, jobs=3, job_starts=5)
    for seen, changed in ((worker, False), (fewer, True), (started, True), (replace(started, name="w1x"), True)):
        registry.touched.clear()
        see(registry, seen)
        assert bool(registry.touched) is changed, seen


def test_a_flavour_that_was_asked_for_is_kept_and_one_that_the_cloud_chose_is_taken() -> None:
    asked, chosen = a_node(State.BOOTING, 1, flavour="medium"), a_node(State.BOOTING, 2, flavour="")
    registry = a_registry(asked, chosen)
    list_site(registry, an_instance("i-1", flavour="large"), an_instance("i-2", flavour="large"))
    assert [node.flavour for node in registry] == ["medium", "large"]


def test_a_machine_that_was_found_may_be_missing_in_the_next_listings() -> None:
    registry = Registry()
    list_site(registry, an_instance())
    for number in range(10):
        list_site(registry, began=NOW + number)
    assert len(registry) == 1


def test_a_word_that_is_unknown_does_not_replace_the_reason_of_a_machine_in_service() -> None:
    node = a_node(State.BUSY, reason="runs 4 jobs")
    list_site(a_registry(node), an_instance(state=InstanceState.UNKNOWN, state_detail="shelved"))
    assert node.reason == "runs 4 jobs"
    list_site(a_registry(node), an_instance())
    assert node.reason == "runs 4 jobs"
    booting = a_node(State.BOOTING, reason="waits")
    list_site(a_registry(booting), an_instance())
    assert booting.reason == "waits"


def test_a_list_without_a_machine_whose_worker_reports_takes_nothing_for_gone() -> None:
    working, booting = a_node(number=1), a_node(State.BOOTING, 2)
    registry = a_registry(working, booting)
    see(registry, a_worker("w1", WorkerState.BUSY))
    for number in range(5):
        told = list_site(registry, began=NOW + number)
        assert told == ["the cloud does not list i-1, but its worker reports: nothing is taken for gone"]
    assert [node.state for node in registry] == [State.BUSY, State.BOOTING]
    for number in range(5, 8):
        list_site(registry, an_instance("i-1"), began=NOW + number)
    assert booting.state is State.GONE
