"""What was read, and whether it can be believed."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.observations import Observation, SettleJudge
from tests.unit.values import NOW, a_worker, view

SETTLE_S = 600.0


def observed() -> Observation[str]:
    return Observation[str]("the queue", stale_after_s=100.0)


def test_what_was_not_read_yet_is_unknown_and_not_empty() -> None:
    seen = observed()
    assert (seen.known(NOW), seen.why_unknown(NOW)) == (None, "the queue was not read yet")


def test_a_good_read_is_known_until_it_is_too_old_to_act_upon() -> None:
    seen = observed()
    seen.succeeded(NOW, "4 jobs")
    assert (seen.known(NOW + 100), seen.why_unknown(NOW + 100)) == ("4 jobs", "")
    assert (seen.known(NOW + 101), seen.why_unknown(NOW + 101)) == (None, "the queue was last read 101 s ago")


def test_a_failed_read_makes_it_unknown_whatever_was_read_before() -> None:
    seen = observed()
    seen.succeeded(NOW, "4 jobs")
    seen.failed("connection refused")
    seen.failed("no answer")
    assert (seen.known(NOW), seen.failures) == (None, 2)
    assert seen.why_unknown(NOW) == "the queue could not be read: no answer"
    assert seen.value == "4 jobs", "for people"
    seen.succeeded(NOW + 1, "none")
    assert (seen.known(NOW + 1), seen.failures, seen.error) == ("none", 0, "")


def test_an_empty_answer_is_known() -> None:
    seen = Observation[tuple[str, ...]]("the queue", stale_after_s=100.0)
    seen.succeeded(NOW, ())
    assert seen.known(NOW) == ()
    assert seen.why_unknown(NOW) == ""


# --------------------------------------------------------------------------- settled


def names(*numbers: int) -> frozenset[str]:
    return frozenset(f"w{number}" for number in numbers)


def why(judge: SettleJudge, *numbers: int, at: float = NOW, expected: Any = (), **changed: Any) -> str:
    workers = [a_worker(f"w{number}") for number in numbers]
    return judge.why_unsettled(view(*workers, **changed), names(*expected), at)


def test_a_complete_view_of_a_source_that_has_been_up_is_settled() -> None:
    assert why(SettleJudge(SETTLE_S), 1, 2, expected=(1, 2)) == ""
    assert why(SettleJudge(SETTLE_S)) == "", "an empty pool is one too"


def test_a_part_that_did_not_answer_unsettles() -> None:
    assert why(SettleJudge(SETTLE_S), 1, missing=("pool2", "pool3")) == "the answer is incomplete: pool2, pool3"


@pytest.mark.parametrize(("up_s", "settled"), [(0.0, False), (599.0, False), (600.0, True), (None, True)])
def test_a_collector_that_was_just_restarted_knows_nobody_yet(up_s: Any, settled: bool) -> None:
    reason = why(SettleJudge(SETTLE_S), source_up_s=up_s)
    assert (reason == "") is settled
    if not settled:
        assert reason == f"the batch system has been up for only {up_s:.0f} s of batch_settle_s 600"


@pytest.mark.parametrize(
    ("there", "settled"), [((1, 2, 3, 4), True), ((1, 2, 3), True), ((1, 2), True), ((1,), False), ((), False)]
)
def test_when_more_than_half_vanish_at_once_the_view_is_not_believed(there: tuple[int, ...], settled: bool) -> None:
    reason = why(SettleJudge(SETTLE_S), *there, expected=(1, 2, 3, 4))
    assert (reason == "") is settled
    if not settled:
        gone = 4 - len(there)
        assert reason == f"{gone} of 4 workers vanished 0 s ago: believed after batch_settle_s 600"


def test_the_only_worker_that_vanishes_is_more_than_half() -> None:
    assert why(SettleJudge(SETTLE_S), expected=(1,)) != ""


def test_workers_that_stay_away_for_batch_settle_s_are_believed_to_be_gone() -> None:
    judge = SettleJudge(SETTLE_S)
    assert why(judge, expected=(1, 2)) != ""
    assert "vanished 599 s ago" in why(judge, at=NOW + 599, expected=(1, 2))
    assert why(judge, at=NOW + 600, expected=(1, 2)) == ""


def test_workers_that_came_back_in_the_meantime_begin_the_wait_anew() -> None:
    judge = SettleJudge(SETTLE_S)
    assert why(judge, expected=(1, 2)) != ""
    assert why(judge, 1, 2, at=NOW + 300, expected=(1, 2)) == ""
    assert "vanished 0 s ago" in why(judge, at=NOW + 700, expected=(1, 2))


def test_workers_that_nobody_expected_settle_nothing_and_unsettle_nothing() -> None:
    assert why(SettleJudge(SETTLE_S), 7, 8, 9, expected=(1, 2)) != ""
    assert why(SettleJudge(SETTLE_S), 1, 7, 8, 9, expected=(1,)) == ""
