"""Stopping and starting: what EC2 refuses, and what becomes of the others."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.interfaces import (
    CapacityError,
    EndOutcome,
    LaunchError,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
    UnsupportedError,
)
from tests.ec2_server import EC2Server, Rule, answer, cloud_at, error


@pytest.fixture(scope="module")
def shared() -> Any:
    server = EC2Server()
    yield server
    server.close()


@pytest.fixture
def server(shared: EC2Server) -> EC2Server:
    shared.forget()
    return shared


SPOT = error(
    "UnsupportedOperation",
    "You can't stop the Spot Instance 'i-2' because it is associated with a one-time Spot Instance request.",
)
NONE_LEFT = error("InsufficientInstanceCapacity", "We currently do not have sufficient m5.large capacity", 500)


def named(action: str, *ids: str) -> Rule:
    items = "".join(f"<item><instanceId>{one}</instanceId></item>" for one in ids)
    return answer(action, f"<instancesSet>{items}</instancesSet>")


def outcomes(answers: Any) -> dict[str, EndOutcome]:
    return {key: one.outcome for key, one in answers.items()}


def test_a_spot_instance_cannot_be_stopped_and_the_others_are(server: EC2Server) -> None:
    server.script("StopInstances", SPOT, named("StopInstances", "i-1"), SPOT)
    answers = cloud_at(server.url, dialect="aws").stop(["i-1", "i-2"])
    assert outcomes(answers) == {"i-1": EndOutcome.ENDING, "i-2": EndOutcome.FAILED}
    assert "You can't stop the Spot Instance" in answers["i-2"].detail


def test_a_stop_that_nobody_answers_is_an_error_and_not_asked_for_each(server: EC2Server) -> None:
    server.script("StopInstances", *[Rule(drop=True)] * 3)
    with pytest.raises(SourceError):
        cloud_at(server.url, dialect="aws").stop(["i-1", "i-2"])
    assert len(server.asked("StopInstances")) == 3


def test_of_several_those_are_started_that_there_is_room_for(server: EC2Server) -> None:
    server.script("StartInstances", NONE_LEFT, named("StartInstances", "i-1"), NONE_LEFT)
    answers = cloud_at(server.url, dialect="aws").start(["i-1", "i-2"])
    assert outcomes(answers) == {"i-1": EndOutcome.ENDING, "i-2": EndOutcome.FAILED}
    assert "InsufficientInstanceCapacity" in answers["i-2"].detail


@pytest.mark.parametrize("ids", [["i-1"], ["i-1", "i-2"]], ids=["one", "two"])
@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (NONE_LEFT, CapacityError),
        (error("VcpuLimitExceeded", "more vCPUs than your limit of 64"), QuotaError),
        (error("IncorrectInstanceState", "The instance 'i-1' is not in a state from which it can be started."), None),
    ],
    ids=["capacity", "quota", "state"],
)
def test_where_none_can_be_started_the_kind_of_error_is_said(
    server: EC2Server, ids: list[str], refusal: Rule, kind: type[LaunchError] | None
) -> None:
    server.script("StartInstances", *[refusal] * 3)
    with pytest.raises(LaunchError) as caught:
        cloud_at(server.url, dialect="aws").start(ids)
    assert type(caught.value) is (kind or TransientError)
    assert caught.value.launched_nothing
    assert len(server.asked("StartInstances")) == (1 if len(ids) == 1 else 3)  # each sent once


@pytest.mark.parametrize("rule", [Rule(drop=True), error("RequestLimitExceeded", "slower", 503)], ids=["lost", "slow"])
def test_a_start_that_failed_for_no_reason_of_its_own_is_not_split(server: EC2Server, rule: Rule) -> None:
    server.script("StartInstances", rule)
    with pytest.raises((TransientError, ThrottledError)):
        cloud_at(server.url, dialect="aws").start(["i-1", "i-2"])
    assert len(server.asked("StartInstances")) == 1


def test_an_instance_that_is_gone_is_not_found_by_a_start(server: EC2Server) -> None:
    gone = error("InvalidInstanceID.NotFound", "The instance ID 'i-1' does not exist")
    server.script("StartInstances", gone, gone, named("StartInstances", "i-2"))
    answers = cloud_at(server.url, dialect="aws").start(["i-1", "i-2"])
    assert outcomes(answers) == {"i-1": EndOutcome.NOT_FOUND, "i-2": EndOutcome.ENDING}


def test_openstack_names_nobody_and_says_that_it_is_done(server: EC2Server) -> None:
    server.script("StopInstances", answer("StopInstances", "<return>true</return>"))
    server.script("StartInstances", answer("StartInstances", "<return>true</return>"))
    cloud = cloud_at(server.url, dialect="openstack-ec2api")
    assert outcomes(cloud.stop(["i-1"])) == outcomes(cloud.start(["i-1"])) == {"i-1": EndOutcome.ENDING}


def test_a_login_page_stops_nothing(server: EC2Server) -> None:
    server.script("StopInstances", Rule("<html/>"))
    assert outcomes(cloud_at(server.url, dialect="aws").stop(["i-1"])) == {"i-1": EndOutcome.FAILED}


def test_what_cannot_stop_says_so_and_is_not_asked(server: EC2Server) -> None:
    cloud = cloud_at(server.url, dialect="opennebula")
    for act in (cloud.stop, cloud.start):
        with pytest.raises(UnsupportedError):
            act(["i-1"])
    assert server.requests == []
