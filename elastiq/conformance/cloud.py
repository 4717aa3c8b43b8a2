"""What every `Cloud` must do. A plugin's test file subclasses `CloudConformance`:

    class TestEC2(CloudConformance):
        @pytest.fixture
        def bench(self): ...yield a CloudBench...

The bench sets up situations; the suite looks at them through the contract only. ``cannot`` may hold:
"tags", "adopt", "find" (`Cloud.find`), "limit" (fewer instances than asked), "tokens" (the same
ClientToken makes nothing new), "flavours" (a catalogue of them), "stop", "notice" (that the cloud takes a
machine back), "market" (the last offer buys a spot machine), "image".
"""

from __future__ import annotations

import pytest

from elastiq.conformance import Conformance, assert_found_something, found, needs
from elastiq.conformance.cloud_bench import CloudBench as CloudBench
from elastiq.interfaces import (
    AuthError,
    CapacityError,
    ConfigurationError,
    EndOutcome,
    InstanceState,
    LaunchError,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
    UnsupportedError,
)


class CloudConformance(Conformance):
    """The contract of `Cloud` as tests."""

    # ---- instances

    def test_a_site_without_our_instances_is_an_answer(self, bench: CloudBench) -> None:
        assert bench.owned() == {}

    def test_somebody_elses_instance_is_counted_and_never_ours(self, bench: CloudBench) -> None:
        before = bench.cloud.instances(frozenset()).foreign
        foreign = bench.add_foreign()
        listed = bench.cloud.instances(frozenset())
        assert foreign not in {instance.id for instance in listed.owned + listed.other_heads}
        assert listed.foreign == before + 1
        assert listed.foreign_addresses

    @needs("tags")
    def test_another_heads_instance_is_named_and_not_ours(self, bench: CloudBench) -> None:
        other = bench.add_other_head()
        listed = bench.cloud.instances(frozenset())
        assert other not in {instance.id for instance in listed.owned}
        found = [instance for instance in listed.other_heads if instance.id == other]
        assert len(found) == 1
        assert found[0].head and found[0].head != bench.owner.head

    def test_the_head_node_is_never_ours_whatever_its_tags_and_the_store_say(self, bench: CloudBench) -> None:
        head = bench.add_head_node()
        listed = bench.cloud.instances(frozenset({head}))
        assert head not in {instance.id for instance in listed.owned + listed.other_heads}

    def test_a_site_that_cannot_be_read_is_unknown_not_empty(self, bench: CloudBench) -> None:
        (ours,) = bench.launch()
        bench.fail_next("instances")
        with pytest.raises(SourceError) as caught:
            bench.cloud.instances(frozenset())
        assert str(caught.value).strip() and "\n" not in str(caught.value)
        assert set(bench.owned()) == {ours}  # and the next good read is good

    def test_nonsense_with_success_is_unknown_not_empty(self, bench: CloudBench) -> None:
        bench.launch()
        bench.garble_next("instances")
        with pytest.raises(SourceError):
            bench.cloud.instances(frozenset())

    # ---- launch

    def test_a_launch_makes_as_many_as_asked_and_they_are_ours(self, bench: CloudBench) -> None:
        intent = bench.intent(3)
        launched = bench.cloud.launch(intent)
        assert len({instance.id for instance in launched}) == 3
        assert set(bench.owned()) == {instance.id for instance in launched}

    @needs("tags")
    def test_an_instance_carries_its_intent_its_pool_and_its_head(self, bench: CloudBench) -> None:
        intent = bench.intent()
        bench.cloud.launch(intent)
        (instance,) = bench.owned().values()
        assert (instance.intent, instance.pool) == (intent.id, intent.offer.pool)
        assert instance.head == bench.owner.head

    def test_a_running_instance_has_an_address_and_a_launch_time(self, bench: CloudBench) -> None:
        (ours,) = bench.launch()
        instance = bench.owned()[ours]
        assert instance.state is InstanceState.RUNNING
        assert instance.addresses
        assert instance.launched_at is not None
        assert instance.flavour == bench.offers[0].flavour or not bench.offers[0].flavour

    @needs("limit")
    def test_partial_fulfilment_is_a_success_with_fewer(self, bench: CloudBench) -> None:
        bench.limit_next_launch(2)
        launched = bench.cloud.launch(bench.intent(5))
        assert len(launched) == 2
        assert len(bench.owned()) == 2

    @pytest.mark.parametrize("kind", [CapacityError, QuotaError, ThrottledError, ConfigurationError, AuthError])
    def test_a_refusal_is_told_by_its_kind_and_launched_nothing(
        self, bench: CloudBench, kind: type[LaunchError]
    ) -> None:
        bench.refuse_next_launch(kind)
        with pytest.raises(LaunchError) as caught:
            bench.cloud.launch(bench.intent())
        assert type(caught.value) is kind
        assert caught.value.launched_nothing
        assert str(caught.value).strip() and "\n" not in str(caught.value)
        assert bench.owned() == {}

    def test_a_launch_whose_answer_is_lost_may_have_launched(self, bench: CloudBench) -> None:
        intent = bench.intent(2)
        bench.lose_next_launch_answer()
        with pytest.raises(LaunchError) as caught:
            bench.cloud.launch(intent)
        assert not caught.value.launched_nothing
        assert len(bench.owned()) == 2  # and it was asked for once only

    @needs("find")
    def test_what_a_launch_without_an_answer_made_is_found(self, bench: CloudBench) -> None:
        intent = bench.intent(2)
        bench.lose_next_launch_answer()
        with pytest.raises(LaunchError):
            bench.cloud.launch(intent)
        assert {instance.id for instance in bench.cloud.find(intent)} == set(bench.owned())
        assert len(bench.owned()) == 2

    def test_nonsense_for_a_launch_may_have_launched(self, bench: CloudBench) -> None:
        bench.garble_next("launch")
        with pytest.raises(LaunchError) as caught:
            bench.cloud.launch(bench.intent())
        assert type(caught.value) is TransientError
        assert not caught.value.launched_nothing

    @needs("tokens")
    def test_the_same_intent_asked_twice_makes_nothing_new(self, bench: CloudBench) -> None:
        intent = bench.intent(2)
        first = {instance.id for instance in bench.cloud.launch(intent)}
        second = {instance.id for instance in bench.cloud.launch(intent)}
        assert second == first == set(bench.owned())

    # ---- find

    @needs("find")
    def test_find_returns_what_this_intent_made_and_nothing_else(self, bench: CloudBench) -> None:
        intent = bench.intent(2)
        bench.launch()
        launched = {instance.id for instance in bench.cloud.launch(intent)}
        assert {instance.id for instance in bench.cloud.find(intent)} == launched

    @needs("find")
    def test_find_of_an_intent_that_made_nothing_is_empty(self, bench: CloudBench) -> None:
        bench.launch()
        assert tuple(bench.cloud.find(bench.intent())) == ()

    @needs("find")
    def test_a_find_that_cannot_be_answered_is_unknown_not_empty(self, bench: CloudBench) -> None:
        bench.fail_next("find")
        with pytest.raises(SourceError):
            bench.cloud.find(bench.intent())

    # ---- terminate

    def test_terminated_instances_end_and_the_others_stay(self, bench: CloudBench) -> None:
        one, two, three = bench.launch(3)
        answers = bench.cloud.terminate([one, three])
        assert {key: answer.outcome for key, answer in answers.items()} == {
            one: EndOutcome.ENDING,
            three: EndOutcome.ENDING,
        }
        assert set(bench.owned()) == {two}

    def test_terminating_twice_is_no_error(self, bench: CloudBench) -> None:
        (ours,) = bench.launch()
        bench.cloud.terminate([ours])
        again = bench.cloud.terminate([ours])[ours].outcome
        assert again in (EndOutcome.ENDING, EndOutcome.NOT_FOUND)

    def test_an_unknown_id_is_not_found_and_does_not_spoil_the_others(self, bench: CloudBench) -> None:
        one, two = bench.launch(2)
        bench.vanish(one)
        answers = bench.cloud.terminate([one, two])
        assert answers[one].outcome is EndOutcome.NOT_FOUND
        assert answers[two].outcome is EndOutcome.ENDING
        assert bench.owned() == {}

    def test_terminating_nothing_asks_nothing(self, bench: CloudBench) -> None:
        assert dict(bench.cloud.terminate([])) == {}

    def test_a_termination_that_is_not_answered_is_not_done(self, bench: CloudBench) -> None:
        (ours,) = bench.launch()
        bench.fail_next("terminate")
        try:
            outcome = bench.cloud.terminate([ours])[ours].outcome
        except SourceError:
            return
        assert outcome is EndOutcome.FAILED

    # ---- stop and start

    def test_who_cannot_stop_says_so(self, bench: CloudBench) -> None:
        for act in (bench.cloud.stop, bench.cloud.start):
            if bench.cloud.capabilities.stop:
                assert dict(act([])) == {}
            else:
                with pytest.raises(UnsupportedError):
                    act(["i-1"])

    @needs("stop")
    def test_a_stopped_instance_keeps_its_id_and_starts_again(self, bench: CloudBench) -> None:
        one, two = bench.launch(2)
        assert bench.cloud.stop([one])[one].outcome is EndOutcome.ENDING
        bench.rest(one)
        states = {key: instance.state for key, instance in bench.owned().items()}
        assert states == {one: InstanceState.STOPPED, two: InstanceState.RUNNING}
        assert bench.cloud.start([one])[one].outcome is EndOutcome.ENDING
        bench.run(one)
        assert bench.owned()[one].state is InstanceState.RUNNING

    @needs("stop")
    def test_an_unknown_id_spoils_neither_a_stop_nor_a_start(self, bench: CloudBench) -> None:
        one, two = bench.launch(2)
        bench.vanish(one)
        for act in (bench.cloud.stop, bench.cloud.start):
            answers = {key: answer.outcome for key, answer in act([one, two]).items()}
            assert answers == {one: EndOutcome.NOT_FOUND, two: EndOutcome.ENDING}
            bench.rest(two)

    @needs("stop")
    def test_a_stop_that_is_not_answered_is_not_done(self, bench: CloudBench) -> None:
        (ours,) = bench.launch()
        bench.fail_next("stop")
        try:
            outcome = bench.cloud.stop([ours])[ours].outcome
        except SourceError:
            return
        assert outcome is EndOutcome.FAILED

    @needs("stop")
    @pytest.mark.parametrize("kind", [CapacityError, AuthError])
    def test_a_refused_start_is_told_by_its_kind(self, bench: CloudBench, kind: type[LaunchError]) -> None:
        (ours,) = bench.launch()
        bench.cloud.stop([ours])
        bench.rest(ours)
        bench.refuse_next_start(kind)
        with pytest.raises(LaunchError) as caught:
            bench.cloud.start([ours])
        assert type(caught.value) is kind
        assert bench.owned()[ours].state is InstanceState.STOPPED

    # ---- flavours

    @needs("flavours")
    def test_the_catalogue_tells_of_a_flavour_and_leaves_out_a_strange_one(self, bench: CloudBench) -> None:
        known = bench.offers[0].flavour
        found = bench.cloud.flavours([known, "no-such-flavour", "", known])
        assert set(found) == {known}
        assert found[known].cpus and found[known].memory_mb

    @needs("flavours")
    def test_a_catalogue_that_cannot_be_read_is_unknown_not_empty(self, bench: CloudBench) -> None:
        known = bench.offers[0].flavour
        bench.fail_next("flavours")
        with pytest.raises(SourceError):
            bench.cloud.flavours([known])
        assert set(bench.cloud.flavours([known])) == {known}

    def test_of_no_flavour_the_catalogue_tells_nothing(self, bench: CloudBench) -> None:
        assert dict(bench.cloud.flavours([])) == {}

    # ---- spot, images

    @needs("market")
    def test_a_spot_machine_is_bought_as_one_and_any_other_is_not(self, bench: CloudBench) -> None:
        assert (bench.offers[0].market, bench.offers[-1].market) == ("", "spot")
        (plain,) = bench.cloud.launch(bench.intent())
        (spot,) = bench.cloud.launch(bench.intent(offer=-1))
        assert [bench.is_spot(one.id) for one in (plain, spot)] == [False, True]

    @needs("notice")
    def test_a_machine_that_is_taken_back_has_a_notice(self, bench: CloudBench) -> None:
        one, two = bench.launch(2)
        bench.take_back(one)
        notices = {instance.id: instance.notice for instance in bench.cloud.instances(frozenset()).owned}
        assert notices[one] and "\n" not in notices[one]
        assert notices[two] == ""

    @needs("image")
    def test_an_instance_tells_its_image(self, bench: CloudBench) -> None:
        (ours,) = bench.launch()
        assert bench.owned()[ours].image

    # ---- problems, adopt, checks

    def test_healthy_instances_have_no_problem(self, bench: CloudBench) -> None:
        ids = bench.launch(2)
        assert dict(bench.cloud.problems(ids)) == {}

    @needs("adopt")
    def test_adopted_instances_are_ours(self, bench: CloudBench) -> None:
        other = bench.add_other_head()
        bench.cloud.adopt([other])
        assert other in bench.owned()

    def test_checks_are_findings_with_a_level_and_change_nothing(self, bench: CloudBench) -> None:
        bench.launch()
        bench.cloud.read_only = True
        before = bench.owned()
        assert_found_something(bench.cloud.checks())
        assert bench.owned() == before

    def test_checks_of_a_site_that_cannot_be_read_are_not_ok(self, bench: CloudBench) -> None:
        bench.fail_next("instances")
        assert {check.level for check in found(bench.cloud.checks())} - {"ok", "warning"}
