"""Interruption warnings from a queue: whom they are given to, and what a queue that is wrong does to a listing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from elastiq.plugins.cloud.ec2 import EC2Cloud
from tests.ec2_server import OWNER, EC2Server, Rule, cloud_at, instances
from tests.sqs_queue import SQSQueue, event

NONE: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[EC2Server, SQSQueue]]:
    ec2, queue = EC2Server(), SQSQueue()
    yield ec2, queue
    ec2.close()
    queue.close()


class Site:
    """A cloud with a queue, and two instances of ours."""

    def __init__(self, ec2: EC2Server, queue: SQSQueue) -> None:
        self.ec2, self.queue = ec2, queue
        self.cloud: EC2Cloud = cloud_at(ec2.url, dialect="aws", interruption_queue=queue.url)

    def notices(self) -> dict[str, str]:
        rows = [
            f"<instanceId>{name}</instanceId><instanceState><name>running</name></instanceState>"
            f"<clientToken>{OWNER.token_prefix}{name}</clientToken>"
            for name in ("i-1", "i-2")
        ]
        self.ec2.script("DescribeInstances", instances(*rows))
        return {one.id: one.notice for one in self.cloud.instances(NONE).owned}


@pytest.fixture
def site(servers: tuple[EC2Server, SQSQueue]) -> Site:
    for server in servers:
        server.forget()
    return Site(*servers)


SAID = "spot interruption: terminate announced 2026-11-30T12:00:00Z"


def test_a_warning_is_a_notice_of_its_instance_and_stays_one(site: Site) -> None:
    site.queue.put(event("i-1"))
    assert site.notices() == {"i-1": SAID, "i-2": ""}
    assert site.queue.messages == {}
    assert site.notices() == {"i-1": SAID, "i-2": ""}


def test_a_warning_comes_before_its_instance_is_listed_or_after(site: Site) -> None:
    site.ec2.script("DescribeInstances", instances())
    site.queue.put(event("i-2"))
    assert site.cloud.instances(NONE).owned == ()
    assert site.notices() == {"i-1": "", "i-2": SAID}


@pytest.mark.parametrize(
    "other",
    [event("i-1", "EC2 Instance Rebalance Recommendation"), event("i-1", "EC2 Instance State-change Notification")],
    ids=["rebalance", "state"],
)
def test_other_events_of_ec2_are_deleted_and_no_notice(site: Site, other: dict[str, Any]) -> None:
    site.queue.put(other)
    assert site.notices() == {"i-1": "", "i-2": ""}
    assert site.queue.messages == {}


def test_a_warning_of_somebody_elses_instance_is_deleted(site: Site) -> None:
    site.queue.put(event("i-99"))
    assert site.notices() == {"i-1": "", "i-2": ""}
    assert site.queue.messages == {}


@pytest.mark.parametrize(
    "body",
    ["no JSON", "[]", {"source": "aws.s3", "detail": {}}, {"source": "aws.ec2", "detail": "x"}, {"job": 1}],
    ids=lambda body: json.dumps(body)[:12],
)
def test_what_is_no_event_of_ec2s_is_left_and_named_once(
    site: Site, caplog: pytest.LogCaptureFixture, body: Any
) -> None:
    site.queue.put(event("i-1"))
    site.queue.put(body)
    for _ in range(2):
        assert site.notices() == {"i-1": SAID, "i-2": ""}
    assert len(site.queue.messages) == 1
    assert caplog.messages == [f"{site.queue.url} holds messages that are no events of EC2's: they are left there"]


def test_many_warnings_are_read_at_once(site: Site) -> None:
    for number in range(25):
        site.queue.put(event(f"i-{number + 100}"))
    site.queue.put(event("i-2"))
    assert site.notices()["i-2"] == SAID
    assert site.queue.messages == {}
    assert [len(asked["Entries"]) for asked in site.queue.asked("DeleteMessageBatch")] == [10, 10, 6]


def test_a_flood_of_warnings_holds_up_no_listing(site: Site) -> None:
    for number in range(250):
        site.queue.put(event(f"i-{number + 100}"))
    site.notices()
    assert len(site.queue.messages) == 150


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ((403, '{"__type": "com.amazon.coral.service#AccessDeniedException", "message": "no"}'), "AccessDenied"),
        ((400, '{"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "gone"}'), "gone"),
        ((500, ""), "ReceiveMessage"),
        ((200, "<html>Please log in</html>"), "ReceiveMessage"),
    ],
    ids=["refused", "no queue", "error", "page"],
)
def test_a_queue_that_fails_spoils_no_listing_and_is_told_once(
    site: Site, caplog: pytest.LogCaptureFixture, answer: tuple[int, str], word: str
) -> None:
    site.queue.answer = answer
    assert [site.notices() for _ in range(2)] == [{"i-1": "", "i-2": ""}] * 2
    (warning,) = caplog.messages
    assert warning.startswith("no interruption notices from the queue: ReceiveMessage at site: ")
    assert word in warning and "\n" not in warning
    site.queue.answer = None
    site.queue.put(event("i-1"))
    assert site.notices()["i-1"] == SAID
    site.queue.answer = answer
    site.notices()
    assert len(caplog.messages) == 2  # it worked in between


def test_a_queue_that_nobody_serves_is_told_without_a_secret(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/1/q"
        site.cloud = cloud_at(site.ec2.url, dialect="aws", interruption_queue=url)
        assert site.notices() == {"i-1": "", "i-2": ""}
    assert "EndpointConnectionError" in caplog.text and "verysecretkey" not in caplog.text


def test_the_queue_is_read_after_a_good_listing_only(site: Site) -> None:
    site.ec2.script("DescribeInstances", *[Rule(drop=True)] * 3)
    with pytest.raises(Exception, match="DescribeInstances"):
        site.cloud.instances(NONE)
    assert site.queue.requests == []


def test_without_a_queue_nothing_is_asked(site: Site) -> None:
    site.cloud = cloud_at(site.ec2.url, dialect="aws")
    assert site.notices() == {"i-1": "", "i-2": ""}
    assert site.queue.requests == []


def test_a_check_reads_and_takes_nothing(site: Site) -> None:
    site.queue.put(event("i-1"))
    (found,) = site.cloud.checks()["interruption queue"]()
    assert (found.level, found.text) == ("ok", "can be read; what is in it was left there")
    site.queue.answer = (403, '{"__type": "AccessDeniedException"}')
    (found,) = site.cloud.checks()["interruption queue"]()
    assert found.level == "error" and "AccessDenied" in found.text and "docs/spot.md" in found.remedy
    site.queue.answer = None
    site.cloud.read_only = True
    assert site.notices()["i-1"] == "" and len(site.queue.messages) == 1, "who only looks takes no message away"
    site.cloud.read_only = False
    assert site.notices()["i-1"] == SAID
