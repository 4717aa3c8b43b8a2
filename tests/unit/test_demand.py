"""How long jobs have waited, and what became of launching for them."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiq.demand import RECORDS_AT_MOST, Standing, Trials, WaitingHistory
from elastiq.interfaces import JobGroup, Jobs
from elastiq.untried import never_came, uncover
from tests.unit.values import ONE, group

LIMIT_S = 300.0


def history(window_s: float, *reads: tuple[float, int]) -> WaitingHistory:
    """Reads of one group: when, and how many waited."""
    made = WaitingHistory(window_s)
    for began, waiting in reads:
        made.observe(began, Jobs((group(waiting=waiting),)))
    return made


# --------------------------------------------------------------------------- waiting


def test_as_many_have_waited_as_were_there_in_every_read_of_the_time() -> None:
    assert history(40.0, (100, 5), (115, 2), (130, 9), (140, 9)).waited("g") == 2


@pytest.mark.parametrize(("last", "waited"), [(139.9, 0), (140.0, 5), (155.0, 5)])
def test_nobody_has_waited_before_the_time_is_over(last: float, waited: int) -> None:
    assert history(40.0, (100, 5), (last, 5)).waited("g") == waited


def test_the_read_before_the_window_says_what_was_there_at_its_start() -> None:
    reads = (100, 7), (115, 7), (130, 7), (145, 7), (160, 7)
    assert history(40.0, *reads).waited("g") == 7
    assert history(40.0, (100, 1), *((began + 20, count) for began, count in reads)).waited("g") == 7


def test_a_low_count_is_forgotten_once_it_is_older_than_the_window() -> None:
    reads = [(100.0 + 15 * number, 1 if number < 2 else 6) for number in range(6)]
    assert history(40.0, *reads[:4]).waited("g") == 1
    assert history(40.0, *reads).waited("g") == 6


def test_with_no_time_to_wait_the_last_read_counts() -> None:
    assert history(0.0, (100, 5)).waited("g") == 5
    assert history(0.0, (100, 1), (115, 5)).waited("g") == 5
    assert history(0.0, (100, 5), (115, 1)).waited("g") == 1


@given(
    st.lists(st.tuples(st.sampled_from((1.0, 14.0, 15.0, 40.0)), st.sampled_from((1, 1, 1, 2, 3))), min_size=1),
    st.sampled_from((0.0, 15.0, 40.0, 100.0)),
    st.sampled_from((0.0, 60.0)),
)
def test_a_number_that_stays_says_as_much_as_all_its_reads(
    steps: list[tuple[float, int]], window_s: float, keep_s: float
) -> None:
    made, reads, began = WaitingHistory(window_s), list[tuple[float, int]](), 100.0
    made.keep_s = keep_s
    for step_s, count in steps:
        began += step_s
        reads.append((began, count))
        made.observe(began, Jobs((group(waiting=count),)))
        for asked_s in {window_s, keep_s or window_s}:
            at_start = [count for seen, count in reads if seen <= began - asked_s][-1:]
            since = [count for seen, count in reads if seen > began - asked_s]
            assert made.waited("g", asked_s) == (min(at_start + since) if at_start else 0)


def test_the_reads_of_a_number_that_stays_are_not_kept() -> None:
    made = history(600.0, *((100.0 + 15 * number, 5) for number in range(1000)))
    assert made.waited("g") == 5
    assert sum(map(len, made._counts.values())) <= 3


def test_a_group_that_vanished_and_came_back_begins_to_wait_anew() -> None:
    made = history(40.0, (100, 5), (140, 5))
    made.observe(150, Jobs(()))
    made.observe(160, Jobs((group(waiting=5),)))
    assert (made.waited("g"), made.waiting_s("g", 165)) == (0, 5.0)


@pytest.mark.parametrize(
    "gone", [group(waiting=0), group(waiting=5, not_eligible="held")], ids=["none waits", "not eligible"]
)
def test_a_group_of_which_none_is_eligible_is_as_good_as_gone(gone: JobGroup) -> None:
    made = history(40.0, (100, 5), (140, 5))
    made.observe(150, Jobs((gone,)))
    assert (made.waited("g"), made.waiting_s("g", 150)) == (0, 0.0)


def test_a_partial_read_says_nothing_of_what_it_lacks() -> None:
    made = history(40.0, (100, 5), (140, 5))
    made.observe(150, Jobs((group("other", waiting=3),), missing=("schedd2",)))
    assert (made.waited("g"), made.waiting_s("g", 160)) == (5, 60.0)
    made.observe(160, Jobs((group(waiting=4),), missing=("schedd2",)))
    assert made.waited("g") == 4


def test_the_parts_of_a_group_that_came_from_several_schedds_are_one() -> None:
    made = WaitingHistory(0.0)
    made.observe(100, Jobs((group(waiting=2), group(waiting=3))))
    assert made.waited("g") == 5


def test_groups_do_not_mix() -> None:
    made = WaitingHistory(40.0)
    made.observe(100, Jobs((group("a", waiting=2),)))
    made.observe(120, Jobs((group("a", waiting=2), group("b", waiting=9))))
    made.observe(140, Jobs((group("a", waiting=2), group("b", waiting=9))))
    assert (made.waited("a"), made.waited("b"), made.waited("c")) == (2, 0, 0)
    assert (made.waiting_s("a", 140), made.waiting_s("b", 140), made.waiting_s("c", 140)) == (40.0, 20.0, 0.0)


@given(
    window_s=st.integers(0, 60),
    steps=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6)), min_size=1, max_size=12),
)
def test_waiting_is_the_least_count_over_the_window(window_s: int, steps: list[tuple[int, int]]) -> None:
    """Against the definition, with all reads kept."""
    made, began, reads = WaitingHistory(window_s), 0, []
    for pause, waiting in steps:
        began += pause
        made.observe(began, Jobs((group(waiting=waiting),)))
        reads.append((began, waiting))
    start = began - window_s
    older = [read for read in reads if read[0] <= start]
    window = older[-1:] + [read for read in reads if read[0] > start]
    assert made.waited("g") == (min(count for _, count in window) if older else 0)


# --------------------------------------------------------------------------- trials


def trying(waiting: int = 4, running: Optional[int] = 0, jobs: int = 4) -> Trials:
    trials = Trials()
    trials.launched(JobGroup("g", ONE, waiting, running=running), jobs)
    return trials


def observe(
    trials: Trials, waiting: int, running: Optional[int] = 0, ran: bool = False, missing: tuple[str, ...] = ()
) -> None:
    jobs = Jobs((JobGroup("g", ONE, waiting, running=running),), missing)
    trials.observe_jobs(jobs, frozenset({"g"} if ran else ()))


def stands_free(trials: Trials, seconds: float, pools: tuple[str, ...] = ("ec2",)) -> None:
    trials.observe_room({"g": ("w1", frozenset(pools))}, seconds, LIMIT_S)


def test_a_group_is_untried_until_it_was_launched_for() -> None:
    assert Trials().standing("g") is Standing.UNTRIED
    assert trying().standing("g") is Standing.TRYING


def test_a_group_of_which_more_run_than_before_is_served() -> None:
    trials = trying(running=3)
    observe(trials, waiting=4, running=3)
    assert trials.standing("g") is Standing.TRYING
    observe(trials, waiting=3, running=4)
    assert trials.standing("g") is Standing.SERVED


def test_one_that_starts_while_others_end_is_seen_too() -> None:
    trials = trying(running=3)
    observe(trials, waiting=4, running=1)
    observe(trials, waiting=4, running=2)
    assert trials.standing("g") is Standing.SERVED


def test_jobs_that_came_and_went_between_two_reads_are_seen_by_what_their_machine_ran() -> None:
    trials = trying(waiting=4, running=None)
    observe(trials, waiting=3, running=None, ran=False)
    assert trials.standing("g") is Standing.TRYING, "they may have been removed"
    observe(trials, waiting=3, running=None, ran=True)
    assert trials.standing("g") is Standing.SERVED


def test_a_group_whose_machines_had_room_that_it_did_not_use_is_unserved_and_says_why() -> None:
    trials = trying()
    stands_free(trials, LIMIT_S - 1)
    assert trials.standing("g") is Standing.TRYING
    stands_free(trials, 1)
    assert trials.standing("g") is Standing.UNSERVED
    assert "w1 had room for 300 s" in trials.records["g"].reason
    assert trials.records["g"].refused_by == ("ec2",)


def test_room_has_to_stand_free_without_a_break() -> None:
    trials = trying()
    stands_free(trials, LIMIT_S - 1)
    trials.observe_room({}, 45.0, LIMIT_S)
    stands_free(trials, LIMIT_S - 1)
    assert trials.standing("g") is Standing.TRYING


def test_a_pool_is_refused_only_if_its_own_machines_had_room() -> None:
    trials = trying()
    stands_free(trials, LIMIT_S, pools=())
    assert trials.standing("g") is Standing.TRYING
    stands_free(trials, 45.0, pools=("a",))
    assert (trials.standing("g"), trials.records["g"].refused_by) == (Standing.UNSERVED, ("a",))
    trials.launched(group(), 1)
    stands_free(trials, LIMIT_S, pools=("a",))
    assert trials.standing("g") is Standing.TRYING, "that is known; the other pool is still to be seen"
    stands_free(trials, LIMIT_S, pools=("a", "b"))
    assert (trials.standing("g"), trials.records["g"].refused_by) == (Standing.UNSERVED, ("a", "b"))


def test_a_served_or_untried_group_is_not_found_out() -> None:
    trials = trying()
    observe(trials, waiting=3, running=1)
    stands_free(trials, 10 * LIMIT_S)
    assert trials.standing("g") is Standing.SERVED
    trials = Trials()
    stands_free(trials, 10 * LIMIT_S)
    assert trials.standing("g") is Standing.UNTRIED


def test_an_unserved_group_that_runs_after_all_is_served() -> None:
    trials = trying()
    stands_free(trials, LIMIT_S)
    observe(trials, waiting=3, running=1)
    assert (trials.standing("g"), trials.records["g"].refused_by) == (Standing.SERVED, ())


@pytest.mark.parametrize(("missing", "kept"), [((), False), (("schedd2",), True)])
def test_a_group_that_left_is_forgotten_but_only_by_a_complete_read(missing: tuple[str, ...], kept: bool) -> None:
    trials = trying()
    trials.changed = False
    trials.observe_jobs(Jobs((), missing), frozenset())
    assert ("g" in trials.records, trials.changed) == (kept, not kept)


def test_an_unserved_group_that_left_and_came_back_is_still_unserved() -> None:
    trials = trying()
    stands_free(trials, LIMIT_S)
    trials.observe_jobs(Jobs(()), frozenset())
    observe(trials, waiting=4)
    assert trials.standing("g") is Standing.UNSERVED


def test_another_configuration_is_another_trial() -> None:
    trials = trying()
    stands_free(trials, LIMIT_S)
    trials.fingerprint = "another image"
    assert trials.standing("g") is Standing.UNTRIED
    trials.launched(group(), 1)
    assert (trials.standing("g"), trials.records["g"].covered) == (Standing.TRYING, 1)
    trials.fingerprint = ""
    assert trials.standing("g") is Standing.UNTRIED


def test_machines_that_did_not_come_cover_nothing() -> None:
    trials = trying(waiting=12, jobs=12)
    trials.changed = False
    uncover(trials, "g", 4)
    assert (trials.records["g"].covered, trials.standing("g"), trials.changed) == (8, Standing.TRYING, True)
    trials.changed = False
    never_came(trials, "g")
    assert trials.changed
    assert trials.standing("g") is Standing.UNTRIED
    never_came(trials, "g")
    uncover(trials, "g", 4)
    assert trials.standing("g") is Standing.UNTRIED


def test_what_is_known_of_a_group_outlives_the_machines_it_is_known_from() -> None:
    trials = trying()
    stands_free(trials, LIMIT_S)
    never_came(trials, "g")
    assert trials.standing("g") is Standing.UNSERVED


def test_a_trial_that_goes_on_covers_more_and_a_new_one_begins_anew() -> None:
    trials = trying(jobs=4)
    trials.launched(group(waiting=8), 4)
    assert trials.records["g"].covered == 8
    observe(trials, waiting=7, running=1)
    trials.launched(JobGroup("g", ONE, 7, running=1), 4)
    assert (trials.records["g"].covered, trials.standing("g")) == (4, Standing.TRYING)


def test_records_are_bounded() -> None:
    trials = Trials()
    for number in range(RECORDS_AT_MOST + 10):
        trials.launched(group(f"g{number}"), 1)
    assert len(trials.records) == RECORDS_AT_MOST
    assert "g0" not in trials.records


def test_what_changed_has_to_be_stored() -> None:
    trials = trying()
    trials.changed = False
    stands_free(trials, LIMIT_S)
    assert trials.changed
    trials.changed = False
    observe(trials, waiting=3, running=1)
    assert trials.changed
