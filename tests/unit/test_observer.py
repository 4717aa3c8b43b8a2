"""What the daemon makes of its sources: what may be believed, launched and ended now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elastiq.interfaces import Instances, InstanceState, Jobs, Resources
from elastiq.nodes import State
from elastiq.observer import Observer
from tests.unit.fakes import UNREACHABLE, FakeCloud, Surroundings
from tests.unit.values import a_node, a_pool, a_worker, an_instance, group, state_of


class Rig(Surroundings):
    def __init__(self, *nodes: Any, **changed: Any) -> None:
        super().__init__(**changed)
        self.other = FakeCloud()
        self.core.clouds = {site: self.cloud if site == "aws" else self.other for site in self.settings.sites}
        self.replans = 0
        self.observer = Observer(self.core, self._replan)
        for node in nodes:
            self.core.registry.add(node)

    def _replan(self) -> None:
        self.replans += 1

    def read(self, *sources: str) -> None:
        """Ask all sources; those named answer, and the others hang."""
        self.observer.read_jobs()
        self.observer.read_workers()
        self.observer.read_instances()
        self.answer(*sources)

    def answer(self, *sources: str) -> None:
        for pending in list(self.executor.pending):
            if pending.source in sources:
                pending.finish()


ALL = ("queue", "workers", "cloud aws", "cloud other")
TWO_SITES = (a_pool(), a_pool("b", site="other"))


# --------------------------------------------------------------------------- known and settled


@pytest.mark.parametrize("lacking", ["workers", "cloud aws"])
def test_the_sources_are_settled_only_when_workers_and_a_site_are_known(lacking: str) -> None:
    rig = Rig()
    rig.read(*(source for source in ALL if source != lacking))
    assert not rig.observer.settled()
    rig.answer(lacking)
    assert rig.observer.settled()
    rig.clock.wait(3600.0)
    assert not rig.observer.settled(), "that was an hour ago"


def test_a_collector_that_was_just_restarted_is_not_settled_and_nothing_may_be_ended() -> None:
    rig = Rig()
    rig.batch.set_workers(a_worker(), up_s=10.0)
    rig.read(*ALL)
    assert not rig.observer.settled()
    assert "has been up for only 10 s" in rig.observer.no_end()
    assert rig.observer.no_launch() == "", "what is positively waiting may be launched for"


def test_one_site_that_is_dark_leaves_the_other_to_be_used() -> None:
    rig = Rig(pools=TWO_SITES)
    rig.read("queue", "workers", "cloud aws")
    assert (rig.observer.sites(), rig.observer.settled()) == (frozenset({"aws"}), True)
    assert (rig.observer.no_launch(), rig.observer.no_end()) == ("", "")


@pytest.mark.parametrize(("counts", "allowed"), [("owned", True), ("all", False)])
def test_when_all_machines_count_every_site_has_to_be_known_for_a_launch(counts: str, allowed: bool) -> None:
    rig = Rig(pools=TWO_SITES, quota_counts=counts)
    rig.read("queue", "workers", "cloud aws")
    assert (rig.observer.no_launch() == "") is allowed
    rig.answer("cloud other")
    assert rig.observer.no_launch() == ""


def test_machines_of_others_and_of_other_heads_are_counted_at_all_sites() -> None:
    rig = Rig(pools=TWO_SITES)
    rig.cloud.script.answers["instances"] = Instances((), other_heads=(an_instance("i-7"),), foreign=3)
    rig.other.script.answers["instances"] = Instances((), foreign=2)
    rig.read(*ALL)
    assert rig.observer.foreign() == 6


def test_machines_of_another_head_are_named_for_a_person() -> None:
    rig = Rig()
    others = tuple(an_instance(f"i-{number}") for number in (2, 1))
    rig.cloud.script.answers["instances"] = Instances((), other_heads=others)
    rig.read(*ALL)
    assert "(2: i-1, i-2)" in rig.core.notices["other heads at aws"]


@pytest.mark.parametrize("source", ["queue", "workers"])
def test_nothing_is_launched_or_ended_while_the_queue_or_the_workers_are_unknown(source: str) -> None:
    rig = Rig()
    rig.read(*ALL)
    assert (rig.observer.no_launch(), rig.observer.no_end()) == ("", "")
    (rig.observer.read_jobs if source == "queue" else rig.observer.read_workers)()
    rig.executor.reads(source)[0].fail(UNREACHABLE)
    for why in (rig.observer.no_launch(), rig.observer.no_end()):
        assert why.endswith("could not be read: connection refused")


@pytest.mark.parametrize(
    ("number", "source", "taking"),
    [
        (0, "queue", "elastiq.demand.Trials.observe_jobs"),
        (1, "workers", "elastiq.reconcile.take_workers"),
        (2, "cloud aws", "elastiq.reconcile.take_instances"),
    ],
)
def test_what_could_not_be_taken_in_is_not_known_until_a_read_is(
    number: int, source: str, taking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig()
    rig.read(*ALL)
    with monkeypatch.context() as broken:
        broken.setattr(taking, lambda *_: 1 / 0)
        rig.clock.wait(5.0)
        rig.read(source)
    seen = rig.observer.observations()[number]
    assert (seen.known(rig.now()), rig.core.counters["handler_faults"]) == (None, 1)
    rig.executor.pending.clear()
    rig.read(source)
    assert seen.known(rig.now()) is not None


def test_a_queue_that_is_known_in_part_allows_launches_but_no_ends() -> None:
    rig = Rig()
    rig.batch.script.answers["jobs"] = Jobs((group(),), missing=("schedd2",))
    rig.read(*ALL)
    assert (rig.observer.no_launch(), rig.observer.no_end()) == ("", "no answer from schedd2")
    assert rig.core.notices["schedds"] == "no answer from schedd2"


def test_a_store_that_is_broken_allows_no_launch() -> None:
    rig = Rig()
    rig.read(*ALL)
    rig.core.store_broken = True
    assert rig.observer.no_launch().startswith("the store cannot be written")


def test_jobs_that_started_since_the_queue_was_read_are_not_launched_for_once_more() -> None:
    rig = Rig(a_node(State.IDLE))
    rig.batch.set_workers(a_worker())
    rig.cloud.set_instances(an_instance())
    rig.read(*ALL)
    rig.run(5.0)
    rig.batch.set_workers(a_worker(free=Resources(3, 7000), jobs=1))
    rig.observer.read_workers()
    rig.answer("workers")
    assert rig.observer.no_launch() == "jobs have started since the queue was read"
    assert len(rig.executor.reads("queue")) == 1, "it is read again at once"
    rig.run(0.5)
    rig.answer("queue")
    rig.run(0.5)
    rig.observer.read_jobs()
    rig.answer("queue")
    assert rig.observer.no_launch() == ""


def test_a_read_of_the_queue_that_began_while_jobs_were_seen_to_start_is_not_believed() -> None:
    rig = Rig(a_node(State.IDLE))
    rig.batch.set_workers(a_worker())
    rig.cloud.set_instances(an_instance())
    rig.read(*ALL)
    rig.run(5.0)
    rig.observer.read_workers()
    rig.run(0.5)
    rig.observer.read_jobs()
    rig.answer("queue")  # from before the job started, though its read began after that of the workers
    rig.run(0.5)
    rig.batch.set_workers(a_worker(free=Resources(3, 7000), jobs=1))
    rig.answer("workers")
    assert rig.observer.no_launch() == "jobs have started since the queue was read"
    rig.answer("queue")
    assert rig.observer.no_launch() == ""


# --------------------------------------------------------------------------- what is told of strangers


@pytest.mark.parametrize(
    ("answer", "explained"),
    [
        (Instances((), foreign=1, foreign_addresses=frozenset({"10.0.0.9"})), "an instance that is not ours"),
        (Instances((), other_heads=(an_instance("i-9"),)), "another head's"),
        (Instances(()), ""),
    ],
)
def test_a_worker_on_somebody_elses_machine_is_explained(answer: Instances, explained: str) -> None:
    rig = Rig()
    rig.cloud.script.answers["instances"] = answer
    rig.batch.set_workers(a_worker("w9", instance_id="i-9" if answer.other_heads else None))
    rig.read("queue", "cloud aws", "workers")
    rig.read("queue", "cloud aws", "workers")
    assert rig.core.registry.strangers["w9"].explained == explained


@pytest.mark.parametrize(
    "worker",
    [a_worker("w9", addresses=frozenset({"10.9.9.9"})), a_worker("w9", instance_id="i-head"), a_worker("cn.example")],
)
def test_the_head_node_and_static_workers_are_explained(worker: Any) -> None:
    rig = Rig(static_workers=("CN.example",))
    worker = replace(worker, addresses=worker.addresses or frozenset({"10.0.0.77"}))
    rig.batch.set_workers(worker)
    rig.read(*ALL)
    assert rig.core.registry.strangers[worker.name].explained != ""


@pytest.mark.parametrize(("state", "told"), [(State.BOOTING, True), (State.LOST, True), (State.IDLE, False)])
def test_a_stranger_is_told_only_while_there_is_a_machine_that_it_may_be(state: State, told: bool) -> None:
    rig = Rig(a_node(state))
    rig.batch.set_workers(*([a_worker()] if state is State.IDLE else []), a_worker("w9"))
    rig.cloud.set_instances(an_instance())
    rig.read(*ALL)
    assert ("identity" in rig.core.notices) is told


def test_without_a_stranger_there_is_nothing_to_tell() -> None:
    rig = Rig(a_node(State.BOOTING))
    rig.cloud.set_instances(an_instance())
    rig.read(*ALL)
    assert "identity" not in rig.core.notices


# --------------------------------------------------------------------------- reads


def test_a_look_again_while_a_read_is_in_flight_is_made_up_for_when_it_is_back() -> None:
    rig = Rig()
    rig.observer.read_workers()
    rig.run(1.0)
    rig.observer.look_again()
    (early,) = rig.executor.reads("workers")
    rig.run(1.0)
    early.finish()
    (late,) = rig.executor.reads("workers")
    assert late.began > early.began
    late.finish()
    assert rig.executor.reads("workers") == []


def test_every_read_that_came_back_is_planned_upon_good_or_bad() -> None:
    rig = Rig()
    rig.read(*ALL)
    assert rig.replans == 3
    rig.observer.read_jobs()
    rig.executor.reads("queue")[0].fail(UNREACHABLE)
    assert rig.replans == 4


def test_the_status_of_machines_is_asked_only_where_there_are_any_and_a_failure_changes_nothing() -> None:
    rig = Rig()
    rig.observer.read_problems()
    assert rig.executor.pending == []
    node = rig.core.registry.add(a_node(State.BOOTING))
    rig.observer.read_problems()
    rig.executor.reads("problems aws")[0].fail(UNREACHABLE)
    assert state_of(node) is State.BOOTING
    rig.cloud.script.answers["problems"] = {"i-1": "impaired"}
    rig.observer.read_problems()
    rig.answer("problems aws")
    assert (state_of(node), node.reason) == (State.FAILED, "the cloud says impaired")


def test_a_machine_that_the_listing_ends_is_forgotten_by_the_batch_system() -> None:
    rig = Rig(a_node(State.TERMINATING, worker="w1"))
    rig.cloud.set_instances(an_instance(state=InstanceState.TERMINATED))
    rig.read("cloud aws")
    rig.executor.only("batch").finish()
    assert rig.batch.script.calls("forget") == [("w1",)]


# --------------------------------------------------------------------------- a state that was lost

WHOLE = ("queue", "workers", "cloud aws")


def test_a_store_that_was_lost_allows_no_launch_until_new_machines_must_be_listed(tmp_path: Any) -> None:
    """A machine that was launched right before may be missing in listings for minutes."""
    path = tmp_path / "store"
    path.write_bytes(b"not a database, and longer than one page would be" * 200)
    rig = Rig(store_path=str(path))
    rig.core.restore()
    for seconds, allowed in ((0.0, False), (rig.settings.intent_settle_s - 1.0, False), (1.0, True)):
        rig.clock.wait(seconds)
        rig.read(*WHOLE)
        assert (rig.observer.no_launch() == "") is allowed
        assert rig.observer.no_end() == ""
        if not allowed:
            assert "the state was lost" in rig.observer.no_launch()


def test_machines_of_ours_that_a_new_store_does_not_know_show_that_it_was_lost(tmp_path: Any) -> None:
    rig = Rig(store_path=str(tmp_path / "store"))
    rig.core.restore()
    rig.read(*WHOLE)
    assert rig.observer.no_launch() == "", "an ordinary first start"
    rig.cloud.script.answers["instances"] = Instances((an_instance("i-7"),))
    rig.read(*WHOLE)
    assert "the state was lost" in rig.observer.no_launch()


def test_machines_that_have_ended_show_it_too(tmp_path: Any) -> None:
    rig = Rig(store_path=str(tmp_path / "store"), max_launches_per_hour=3)
    rig.core.restore()
    ended = an_instance("i-7", InstanceState.TERMINATED, launched_at=rig.clock.time() - 60.0)
    rig.cloud.script.answers["instances"] = Instances((ended,))
    rig.read(*WHOLE)
    assert "the state was lost" in rig.observer.no_launch()
    assert "it was lost" in rig.core.notices["state"]
    assert rig.core.ledger is not None
    (allowance,) = rig.core.ledger.allowances(rig.settings, rig.core.registry, rig.now())
    assert allowance.used == 1
    rig.clock.wait(rig.settings.intent_settle_s)
    rig.read(*WHOLE)
    assert rig.observer.no_launch() == "", "although the cloud may list what has ended for hours"


def test_a_machine_that_another_one_launched_is_no_sign_of_that(tmp_path: Any) -> None:
    """After an adoption, say: this store has been in use."""
    path = str(tmp_path / "store")
    Rig(store_path=path).core.restore()
    rig = Rig(store_path=path)
    rig.core.restore()
    rig.cloud.script.answers["instances"] = Instances((an_instance("i-7"),))
    rig.read(*WHOLE)
    assert rig.observer.no_launch() == ""
