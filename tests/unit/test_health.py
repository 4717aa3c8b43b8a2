"""Where launching is held back after failures, and for how long."""

from __future__ import annotations

import pytest

from elastiq.health import BOOTS_BEFORE_BREAK, Health
from elastiq.interfaces import (
    AuthError,
    CapacityError,
    ConfigurationError,
    Offer,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
)
from elastiq.refusals import LONGEST_S, boot_failed, refused, short
from tests.unit.values import NOW

HERE = Offer("ec2", "medium", "net-1")
OTHER_NETWORK = Offer("ec2", "medium", "net-2")
OTHER_POOL = Offer("b", "medium", "net-1")
PLACES = {"offer": (HERE,), "pool": (HERE, OTHER_NETWORK), "site": (HERE, OTHER_NETWORK, OTHER_POOL)}


@pytest.mark.parametrize(
    ("error", "scope", "first_s"),
    [
        (CapacityError("x"), "offer", 60.0),
        (QuotaError("x"), "pool", 60.0),
        (ThrottledError("x"), "site", 5.0),
        (ConfigurationError("x"), "pool", 60.0),
        (AuthError("x"), "site", 60.0),
        (TransientError("x"), "offer", 10.0),
        (SourceError("x"), "offer", 10.0),
        (ValueError("x"), "offer", 10.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_holds_back_what_it_concerns_and_nothing_else(error: Exception, scope: str, first_s: float) -> None:
    health = Health()
    refused(health, HERE, "aws", error, NOW)
    for offer in PLACES["site"]:
        blocked = offer in PLACES[scope]
        assert bool(health.blocked(offer, "aws", NOW + first_s - 1)) is blocked
        assert not health.blocked(offer, "aws", NOW + first_s)
    assert not health.blocked(OTHER_POOL, "another site", NOW)


def test_blocks_grow_exponentially_and_are_capped() -> None:
    health = Health()
    waits, now = [], NOW
    for _ in range(7):
        refused(health, HERE, "aws", CapacityError("x"), now)
        waits.append(health.blocks["offer ec2/medium/net-1"].wait_s)
        now += waits[-1]
        assert health.blocked(HERE, "aws", now) == "", "the next launch is the probe"
    assert waits == [60.0, 120.0, 240.0, 480.0, LONGEST_S, LONGEST_S, LONGEST_S]


def test_a_launch_that_succeeds_ends_all_that_held_it_back() -> None:
    health = Health()
    for error in (CapacityError("x"), QuotaError("x"), AuthError("x")):
        refused(health, HERE, "aws", error, NOW)
    refused(health, OTHER_NETWORK, "aws", CapacityError("x"), NOW)
    health.launched(HERE, "aws")
    assert health.blocked(HERE, "aws", NOW) == ""
    assert health.blocked(OTHER_NETWORK, "aws", NOW) != ""
    refused(health, HERE, "aws", CapacityError("x"), NOW)
    assert health.blocks["offer ec2/medium/net-1"].wait_s == 60.0


def test_the_reason_says_what_is_held_back_for_how_long_and_why() -> None:
    health = Health()
    refused(health, HERE, "aws", QuotaError("VcpuLimitExceeded"), NOW)
    assert health.blocked(HERE, "aws", NOW + 20) == "pool ec2 is held back for another 40 s: VcpuLimitExceeded"


def test_a_launch_that_is_asked_for_differently_next_time_holds_nothing_back_and_spoils_no_later_pause() -> None:
    health = Health()
    refused(health, HERE, "aws", TransientError("tags refused", launched_nothing=True, retry_s=0.0), NOW)
    assert health.blocked(HERE, "aws", NOW) == ""
    refused(health, HERE, "aws", TransientError("HTTP 500"), NOW)
    assert health.blocked(HERE, "aws", NOW + 9)
    assert health.blocked(HERE, "aws", NOW + 10) == ""
    refused(health, HERE, "aws", TransientError("shutdown refused", launched_nothing=True, retry_s=0.0), NOW + 10)
    assert health.blocked(HERE, "aws", NOW + 29), "after a failure, the pause goes on growing"


def test_fewer_than_asked_holds_the_offer_back_for_a_minute() -> None:
    health = Health()
    short(health, HERE, got=2, asked=5, now=NOW)
    assert health.blocked(HERE, "aws", NOW + 59).endswith("gave 2 of 5 instances")
    assert health.blocked(HERE, "aws", NOW + 60) == ""
    assert health.blocked(OTHER_NETWORK, "aws", NOW) == ""


def test_the_breaker_opens_after_some_boots_in_a_row_and_closes_with_the_first_that_joins() -> None:
    health = Health()
    for _ in range(BOOTS_BEFORE_BREAK - 1):
        boot_failed(health, "ec2", NOW)
    assert health.breaker("ec2") is None
    health.boot_joined("ec2")
    for _ in range(BOOTS_BEFORE_BREAK):
        assert health.breaker("ec2") is None
        boot_failed(health, "ec2", NOW)
    assert health.breaker("ec2") == "the last 3 machines of pool ec2 never joined: one at a time until one does"
    assert health.breaker("b") is None
    health.boot_joined("ec2")
    assert health.breaker("ec2") is None
    health.boot_joined("ec2")
