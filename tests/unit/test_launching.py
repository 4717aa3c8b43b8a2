"""Launches: journalled first, asked for once, sought when the answer was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest

from elastiq import reconcile
from elastiq.executor import DeadlineError, UnsentError
from elastiq.interfaces import (
    AuthError,
    CapacityError,
    ConfigurationError,
    Instance,
    Intent,
    LaunchError,
    Offer,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
)
from elastiq.launching import Launching
from elastiq.nodes import State
from elastiq.preparing import Records
from elastiq.situation import Launch
from elastiq.store import StoreError
from tests.unit.fakes import MARK, UNREACHABLE, Pending, RecordingBatch, Surroundings
from tests.unit.values import a_node, a_pool, group, listing

OFFER = Offer("ec2", "medium")


class Rig(Surroundings):
    def __init__(self, store_path: str = ":memory:", find: bool = True, **changed: Any) -> None:
        super().__init__(store_path, find, **changed)
        self.replans = 0
        self.launching = Launching(self.core, self._replan)

    def _replan(self) -> None:
        self.replans += 1

    def launch(self, count: int = 2, groups: Optional[dict[str, int]] = None) -> Pending:
        """Ask for some machines; the call is in flight."""
        assert self.launching.launch(Launch(OFFER, count, "jobs wait", groups or {}))
        return self.executor.only("cloud aws")

    def states(self) -> list[str]:
        return [node.state.value for node in self.core.registry]

    def listing(self, *owned: Instance, good: bool = True) -> None:
        """A listing that began now has come back."""
        if good:
            reconcile.take_instances(self.core.registry, "aws", listing(*owned), self.now(), 0.0, 600.0)
            self.core.persist()
        self.launching.listing("aws", self.now(), good)

    def good_reads(self, seconds: float, every_s: float = 45.0) -> None:
        """Complete reads for so long: listings, and answers of `find` where it is asked."""
        passed = 0.0
        while passed < seconds:
            self.run(min(every_s, seconds - passed))
            passed += every_s
            self.listing()
            self.launching.seek()
            for read in self.executor.reads("find aws"):
                read.finish()

    def intents(self) -> list[str]:
        return [intent.id for intent in self.store.intents()]

    def asked(self) -> list[Intent]:
        return [intent for (intent,) in self.cloud.script.calls("launch")]


# --------------------------------------------------------------------------- asking


def test_a_launch_is_journalled_before_it_is_asked_for() -> None:
    rig = Rig()
    call = rig.launch(2, {"g": 7})
    assert rig.asked() == []
    assert rig.intents() == ["launch1"]
    assert [(node.id, node.state, node.intent) for node in rig.store.nodes()] == [
        ("launch1.0", State.REQUESTED, "launch1"),
        ("launch1.1", State.REQUESTED, "launch1"),
    ]
    assert sum(node.groups["g"] for node in rig.store.nodes()) == 7
    call.finish()
    (intent,) = rig.asked()
    assert (intent.offer, intent.count, intent.token) == (OFFER, 2, f"elastiq-{MARK}-launch1")
    assert len(intent.token) <= 64


def test_no_journal_no_launch() -> None:
    rig = Rig()

    def full(intent: Any, nodes: Any) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.journal = full  # type: ignore[method-assign]
    assert not rig.launching.launch(Launch(OFFER, 1, "jobs wait"))
    assert (rig.executor.pending, len(rig.core.registry)) == ([], 0)
    assert rig.core.store_broken
    assert "nothing is launched until it can be written" in rig.core.notices["store"]


def test_which_machines_a_launch_replaces_is_journalled_with_it(tmp_path: Path) -> None:
    """So that a crash right after it does not replace them once more."""
    path = str(tmp_path / "db")
    rig = Rig(path)
    for number in (1, 2):
        rig.core.registry.add(a_node(State.BUSY, number))
    rig.core.persist()
    order = Launch(OFFER, 1, "replaces i-2", replaces=("launch.2",))
    journal = rig.store.journal

    def full(intent: Any, nodes: Any) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.journal = full  # type: ignore[method-assign]
    assert not rig.launching.launch(order)
    assert [node.replaced for node in rig.core.registry] == [False, False]
    rig.store.journal = journal  # type: ignore[method-assign]
    assert rig.launching.launch(order)
    assert [node.replaced for node in rig.core.registry] == [False, True, False]
    rig.store.close()
    again = Rig(path)
    again.core.restore()
    assert {node.id: node.replaced for node in again.core.registry} == {
        "launch.1": False,
        "launch.2": True,
        "launch2.0": False,
    }


def test_a_dry_run_launches_nothing() -> None:
    rig = Rig(dry_run_boot_vms=True)
    assert not rig.launching.launch(Launch(OFFER, 1, "jobs wait"))
    assert (rig.executor.pending, rig.intents(), len(rig.core.registry)) == ([], [], 0)


def test_a_pool_that_is_not_configured_any_more_is_not_launched_from() -> None:
    rig = Rig()
    assert not rig.launching.launch(Launch(Offer("old", "medium"), 1, "jobs wait"))


def test_machines_that_were_made_are_pending_and_the_intent_is_closed() -> None:
    rig = Rig()
    made = rig.launch(2).finish()
    assert rig.states() == ["pending", "pending"]
    assert [node.instance_id for node in rig.core.registry] == [instance.id for instance in made]
    assert [node.addresses for node in rig.core.registry] == [instance.addresses for instance in made]
    assert (rig.intents(), rig.replans, rig.core.counters["launched"]) == ([], 1, 2)


class PreparingRig(Rig):
    batch_class = RecordingBatch

    def __init__(self) -> None:
        super().__init__()
        self.core.records = Records(self.core)


def test_the_batch_system_is_prepared_first_and_if_it_is_not_ready_nothing_was_launched() -> None:
    rig: Rig = PreparingRig()
    rig.launch(1).finish()
    assert [asked[0] for asked in rig.batch.script.asked] == ["prepare"]
    rig = PreparingRig()
    rig.batch.script.answers["prepare"] = SourceError("qmaster is down")
    rig.launch(1).finish()
    assert (rig.asked(), rig.states(), rig.intents()) == ([], [], [])
    assert "not ready for a launch: qmaster is down" in rig.core.notices["launching from ec2/medium"]


# --------------------------------------------------------------------------- fewer, more, none


def test_fewer_than_asked_is_a_success_and_holds_the_offer_back_for_the_rest() -> None:
    rig = Rig()
    rig.cloud.script.answers["launch"] = lambda intent: rig.cloud.make(intent, 1)
    rig.launch(3).finish()
    assert (rig.states(), rig.intents()) == (["pending"], [])
    assert "gave 1 of 3 instances" in rig.core.health.blocked(OFFER, "aws", rig.now())


def test_what_was_not_given_is_not_covered_any_more() -> None:
    rig = Rig()
    rig.cloud.script.answers["launch"] = lambda intent: rig.cloud.make(intent, 1)
    call = rig.launch(3, {"g": 12})
    rig.core.trials.launched(group(waiting=12), 12)
    call.finish()
    assert rig.core.trials.records["g"].covered == 4


def test_more_than_asked_are_left_to_the_next_listing() -> None:
    rig = Rig()
    rig.cloud.script.answers["launch"] = lambda intent: rig.cloud.make(intent, 3)
    made = rig.launch(2).finish()
    assert len(rig.core.registry) == 2
    rig.listing(*made)
    assert sorted(node.name for node in rig.core.registry) == sorted(instance.id for instance in made)


def test_a_listing_that_overtakes_the_answer_changes_nothing() -> None:
    rig = Rig()
    call = rig.launch(2)
    made = rig.cloud.make(Intent("launch1", "t", OFFER, 2, 0.0))
    rig.cloud.script.answers["launch"] = made
    rig.run(1.0)
    rig.listing(*made)
    call.finish()
    assert sorted(node.instance_id or "" for node in rig.core.registry) == [one.id for one in made]
    assert rig.intents() == []


REFUSALS = [
    (CapacityError("none left"), "offer ec2/medium", 60.0),
    (QuotaError("your limit"), "pool ec2", 60.0),
    (ThrottledError("slow down"), "site aws", 5.0),
    (ConfigurationError("no such image"), "pool ec2", 60.0),
    (AuthError("bad key"), "site aws", 60.0),
    (TransientError("503", launched_nothing=True), "offer ec2/medium", 10.0),
]


@pytest.mark.parametrize(("error", "scope", "wait_s"), REFUSALS, ids=lambda value: type(value).__name__)
def test_a_refusal_frees_the_quota_at_once_and_holds_back_what_it_concerns(
    error: LaunchError, scope: str, wait_s: float
) -> None:
    rig = Rig()
    rig.cloud.script.answers["launch"] = error
    rig.launch(2).finish()
    assert (rig.states(), rig.intents(), rig.store.nodes()) == ([], [], [])
    blocked = rig.core.health.blocked(OFFER, "aws", rig.now())
    assert blocked == f"{scope} is held back for another {wait_s:.0f} s: {error}"
    assert rig.core.notices["launching from ec2/medium"] == f"{error} ({scope} is held back)"
    assert rig.replans == 1


def test_a_launch_that_succeeds_takes_the_notice_and_the_block_back() -> None:
    rig = Rig()
    rig.cloud.script.answers["launch"] = CapacityError("none left")
    rig.launch(1).finish()
    rig.cloud.script.answers["launch"] = rig.cloud.make
    rig.launch(1).finish()
    assert rig.core.health.blocked(OFFER, "aws", rig.now()) == ""
    assert rig.core.notices == {}


def test_the_notice_of_a_refusal_goes_with_the_block_unless_it_was_refused_once_more() -> None:
    rig = Rig()
    rig.cloud.script.answers["launch"] = CapacityError("none left")
    rig.launch(1).finish()
    rig.run(59.0)
    assert "launching from ec2/medium" in rig.core.notices
    rig.launch(1).finish()  # one that had been on its way: held back for 120 s from now
    rig.run(119.0)
    assert "launching from ec2/medium" in rig.core.notices
    rig.run(2.0)
    assert rig.core.notices == {}


def test_a_group_whose_launch_was_refused_has_not_been_tried() -> None:
    rig = Rig()
    rig.cloud.script.answers["launch"] = CapacityError("none left")
    call = rig.launch(2, {"g": 8})
    rig.core.trials.launched(group(waiting=8), 8)
    call.finish()
    assert rig.core.trials.records == {}


# --------------------------------------------------------------------------- unknown outcome


UNKNOWN = [TransientError("connection reset"), DeadlineError("no answer within 125 s"), ValueError("date")]


@pytest.mark.parametrize("error", UNKNOWN, ids=lambda error: type(error).__name__)
def test_a_launch_of_unknown_outcome_counts_in_full_and_is_not_repeated(error: Exception) -> None:
    rig = Rig()
    rig.launch(2).fail(error)
    assert (rig.states(), rig.intents()) == (["requested", "requested"], ["launch1"])
    rig.good_reads(500.0)
    assert (rig.states(), rig.intents(), rig.asked()) == (["requested", "requested"], ["launch1"], [])


def test_what_a_lost_launch_had_made_is_found_and_the_intent_closed() -> None:
    rig = Rig()
    rig.launch(2).fail(TransientError("connection reset"))
    rig.cloud.script.answers["find"] = rig.cloud.make
    rig.launching.seek()
    (read,) = rig.executor.reads("find aws")
    read.finish()
    assert (rig.states(), rig.intents()) == (["pending", "pending"], [])


def test_what_is_found_in_part_leaves_the_rest_open_until_it_is_settled() -> None:
    rig = Rig(intent_settle_s=600.0)
    rig.launch(2).fail(TransientError("connection reset"))
    (made,) = rig.cloud.make(Intent("launch1", "t", OFFER, 2, 0.0), 1)
    rig.cloud.script.answers["find"] = (made,)
    rig.good_reads(590.0)
    assert (rig.states(), rig.intents()) == (["pending", "requested"], ["launch1"])
    rig.good_reads(100.0)
    assert (len(rig.core.registry), rig.intents()) == (1, [])


@pytest.mark.parametrize("find", [True, False])
def test_an_intent_is_given_up_only_after_intent_settle_s_of_complete_reads(find: bool) -> None:
    rig = Rig(find=find, intent_settle_s=600.0)
    rig.launch(1).fail(TransientError("connection reset"))
    rig.good_reads(600.0)
    assert rig.states() == ["requested"], "the first read begins the count"
    rig.good_reads(90.0)
    assert (rig.states(), rig.intents(), rig.asked()) == ([], [], [])
    assert rig.replans == 2


@pytest.mark.parametrize("find", [True, False])
def test_reads_that_fail_settle_nothing(find: bool) -> None:
    rig = Rig(find=find, intent_settle_s=600.0)
    rig.launch(1).fail(TransientError("connection reset"))
    for _ in range(50):
        rig.run(45.0)
        rig.listing(good=False)
        rig.launching.seek()
        for read in rig.executor.reads("find aws"):
            read.finish()
    assert rig.states() == ["requested"]


def test_a_time_in_which_nobody_looked_settles_nothing() -> None:
    rig = Rig(find=False, intent_settle_s=600.0)
    rig.launch(1).fail(TransientError("connection reset"))
    rig.run(1.0)
    rig.listing()
    rig.run(3600.0)  # the daemon was stopped in its tracks
    rig.listing()
    assert rig.states() == ["requested"]


def test_a_find_that_fails_gives_nothing_up() -> None:
    rig = Rig(intent_settle_s=100.0)
    rig.launch(1).fail(TransientError("connection reset"))
    for _ in range(20):
        rig.run(45.0)
        rig.listing()
        rig.launching.seek()
        for read in rig.executor.reads("find aws"):
            read.fail(UNREACHABLE)
    assert rig.states() == ["requested"]


def test_a_read_that_began_before_the_call_ended_proves_nothing() -> None:
    rig = Rig(find=False, intent_settle_s=0.0)
    call = rig.launch(1)
    began = rig.now()
    rig.run(10.0)
    call.fail(TransientError("connection reset"))
    rig.launching.listing("aws", began, True)
    assert rig.launching.open["launch1"].watch.last_good is None


def test_several_open_launches_are_sought_in_turn() -> None:
    rig = Rig()
    for _ in range(3):
        rig.launch(1).fail(TransientError("connection reset"))
    sought = []
    for _ in range(4):
        rig.launching.seek()
        (read,) = rig.executor.reads("find aws")
        read.finish()
        sought.append(rig.cloud.script.calls("find")[-1][0].id)
    assert sought == ["launch1", "launch2", "launch3", "launch1"]


# --------------------------------------------------------------------------- restart


def restarted(path: str, **changed: Any) -> Rig:
    rig = Rig(path, **changed)
    rig.core.restore()
    rig.launching.restore()
    return rig


@pytest.mark.parametrize("sent", [True, False])
def test_a_launch_is_never_sent_again_after_a_restart(tmp_path: Path, sent: bool) -> None:
    path = str(tmp_path / "db")
    first = Rig(path)
    call = first.launch(2)
    if sent:
        call.call()  # RunInstances arrives, and the daemon is killed before the answer
    first.store.close()

    again = restarted(path, intent_settle_s=600.0)
    assert (again.states(), again.executor.pending) == (["requested", "requested"], [])
    again.good_reads(600.0)
    assert (again.states(), again.intents()) == (["requested", "requested"], ["launch1"])
    again.good_reads(90.0)
    assert (again.states(), again.intents(), again.asked()) == ([], [], [])


def test_what_was_launched_right_before_the_kill_is_adopted(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    first = Rig(path)
    made = first.cloud.make(Intent("launch1", "t", OFFER, 2, 0.0))
    first.launch(2)
    first.store.close()

    again = restarted(path)
    again.run(1.0)
    again.listing(*made)
    assert sorted(node.name for node in again.core.registry) == [one.id for one in made]
    assert (again.intents(), again.asked()) == ([], [])


def test_an_intent_whose_machines_are_all_known_is_closed_at_the_start(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    first = Rig(path)
    first.launch(1)
    node = next(iter(first.core.registry))
    first.core.registry.bind(node, "i-1")
    first.core.registry.move(node, State.PENDING, "", 0.0)
    first.core.persist()
    first.store.close()  # killed between the two writes

    again = restarted(path)
    assert (again.states(), again.intents(), again.launching.open) == (["pending"], [], {})


def test_an_intent_stays_journalled_while_its_end_cannot_be_stored(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    first = Rig(path)
    call = first.launch(1)

    def full(nodes: Any, history: Any = ()) -> None:
        raise StoreError("db: database or disk is full")

    first.store.save = full  # type: ignore[method-assign]
    call.fail(CapacityError("none left"))
    assert first.states() == []
    first.store.close()

    again = restarted(path, intent_settle_s=60.0)
    assert again.states() == ["requested"]
    again.good_reads(200.0)
    assert (again.states(), again.intents()) == ([], []), "or it would count for ever"


def test_a_pool_of_another_site_is_sought_there() -> None:
    rig = Rig(pools=(a_pool(), a_pool("b", site="other")))
    assert rig.launching.launch(Launch(Offer("b", "medium"), 1, "jobs wait"))
    rig.executor.only("cloud other").fail(TransientError("reset"))
    rig.launching.listing("aws", rig.now() + 1, True)
    assert rig.launching.open["launch1"].watch.last_good is None
    rig.launching.seek()
    assert [read.source for read in rig.executor.pending] == ["find other"]


def test_a_launch_that_was_not_sent_is_over_and_may_be_asked_for_anew() -> None:
    rig = Rig()
    rig.launch(2).fail(UnsentError("not sent: others of its source have not been answered for 20 s"))
    assert (rig.states(), rig.intents(), rig.launching.open, rig.asked()) == ([], [], {}, [])
    assert rig.replans == 1
