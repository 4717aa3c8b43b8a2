"""Requests to EC2 are told as they are sent, and nothing of what they say."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.plugins.cloud.ec2 import EC2Cloud
from elastiq.plugins.cloud.ec2_client import EC2Client
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_watch import ODD, WatchedClient
from tests.ec2_server import cloud_at


class Client(EC2Client):
    def __init__(self, answer: Any) -> None:
        super().__init__({"region": "x"})
        self.answer = answer

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return dict(self.answer)


def told(answer: Any, operation: str = "describe_instances") -> list[tuple[str, str, int]]:
    heard: list[tuple[str, str, int]] = []
    watched = WatchedClient(Client(answer), lambda *one: heard.append(one))
    assert watched.options == {"region": "x"}
    if isinstance(answer, Fault):
        with pytest.raises(Fault):
            watched.call(operation)
    else:
        assert watched.call(operation) == answer
    return heard


def test_a_request_is_told_by_the_cloud_s_name() -> None:
    assert told({"Reservations": []}) == [("DescribeInstances", "", 1)]


def test_repetitions_count() -> None:
    assert told({"ResponseMetadata": {"RetryAttempts": 2}}) == [("DescribeInstances", "", 3)]


def test_an_error_is_told_by_its_code() -> None:
    fault = Fault("run_instances", "InsufficientInstanceCapacity", "no more", 500)
    assert told(fault, "run_instances") == [("RunInstances", "InsufficientInstanceCapacity", 1)]


@pytest.mark.parametrize("code", ["", "<html>", "a b", 'x"y'])
def test_what_is_no_code_is_not_passed_on(code: str) -> None:
    assert told(Fault("run_instances", code, "", 502)) == [("DescribeInstances", ODD, 1)]


def test_what_was_not_sent_is_not_told() -> None:
    assert told(Fault("run_instances", "NoCredentialsError", "", sent=False)) == []


def test_a_cloud_tells_of_all_its_requests() -> None:
    heard: list[tuple[str, str, int]] = []
    cloud: EC2Cloud = cloud_at("http://127.0.0.1:9/", max_attempts=1)
    cloud._client = Client({"Reservations": [], "InstanceStatuses": [], "InstanceTypes": []})
    cloud.watch(lambda *one: heard.append(one))
    cloud.instances(frozenset())
    cloud.problems(["i-1"])
    cloud.flavours(["m5.large"])
    assert [name for name, _, _ in heard] == ["DescribeInstances", "DescribeInstanceStatus", "DescribeInstanceTypes"]
