"""What EC2-alikes answer on the wire, odd answers above all, and what EC2Cloud makes of it."""

from __future__ import annotations

import itertools
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode
from xml.sax.saxutils import escape

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from elastiq.interfaces import (
    AuthError,
    CapacityError,
    ConfigurationError,
    EndOutcome,
    InstanceState,
    LaunchError,
    SourceError,
    ThrottledError,
    TransientError,
    UnsupportedError,
)
from elastiq.plugins.cloud import ec2_answers
from elastiq.plugins.cloud.ec2_errors import Fault
from elastiq.plugins.cloud.ec2_telling import told
from tests.ec2_server import HEAD, KEYS, OWNER, EC2Server, Rule, answer, cloud_at, error, instances, intent, moto_server
from tests.integration.ec2_answers import NO_IMAGE, NONE, made, one, tags
from tests.waiting import PATIENCE_S, DeadPort, until

HTML = (("Content-Type", "text/html"),)
RUNNING = "<instanceState><code>16</code><name>running</name></instanceState>"
MADE = made(one("i-1"), one("i-2"))


@pytest.fixture
def server(bare: EC2Server) -> EC2Server:
    """As `bare`, and the cloud tells nothing of the image."""
    bare.script("DescribeImages", *[NO_IMAGE] * 3)
    return bare


@pytest.fixture(scope="module")
def moto() -> Iterator[EC2Server]:
    server = moto_server()
    yield server
    server.close()


# --------------------------------------------------------------------------- unknown is not empty

NOT_AN_ANSWER = {
    "a login page with 200": Rule("<html><body>Please log in</body></html>", headers=HTML),
    "some other XML": Rule("<X/>"),
    "no reservationSet": answer("DescribeInstances"),
    "no bytes at all": Rule(""),
    "XML that ends in the middle": Rule(instances(f"<instanceId>i-1</instanceId>{RUNNING}").body[:230]),
    "a connection lost in the middle": Rule(instances().body[:150], cut=100),
    "bytes of another encoding": Rule(f"{HEAD}<DescribeInstancesResponse>\xe9".encode("latin-1")),
    "JSON": Rule('{"Reservations": []}', headers=(("Content-Type", "application/json"),)),
    "401 in plain text": Rule("who are you?", 401, headers=(("Content-Type", "text/plain"),)),
    "an error without its envelope": Rule("<Error><Code>Busy</Code></Error>", 400),
    "an instance without an id": instances(RUNNING),
    "an empty launch time": instances(f"<instanceId>i-1</instanceId><launchTime/>{RUNNING}"),
    "an empty state code": instances("<instanceId>i-1</instanceId><instanceState><code/></instanceState>"),
    "an empty launch index": instances("<instanceId>i-1</instanceId><amiLaunchIndex/>"),
    "an empty attach time": instances(
        "<instanceId>i-1</instanceId><blockDeviceMapping><item><ebs><attachTime/></ebs></item></blockDeviceMapping>"
    ),
}


@pytest.mark.parametrize("rule", NOT_AN_ANSWER.values(), ids=NOT_AN_ANSWER.keys())
def test_what_is_not_plainly_a_listing_is_unknown(server: EC2Server, rule: Rule) -> None:
    server.script("DescribeInstances", rule, rule)  # a refusal is asked for once more without paging
    cloud = cloud_at(server.url)
    with pytest.raises(SourceError) as caught:
        cloud.instances(NONE)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    server.forget()
    server.script("DescribeInstances", instances())
    assert cloud.instances(NONE).owned == ()  # and the next good answer is taken


@pytest.mark.parametrize(
    "rule",
    [
        Rule("<html>502 Bad Gateway</html>", 502, headers=HTML),
        Rule("", 503),
        error("RequestLimitExceeded", status=503),
        Rule(drop=True),
    ],
    ids=["proxy error", "empty 503", "throttled", "connection lost"],
)
def test_a_read_that_fails_for_now_is_asked_again_and_then_unknown(server: EC2Server, rule: Rule) -> None:
    cloud = cloud_at(server.url)
    server.script("DescribeInstances", rule, instances())
    assert cloud.instances(NONE).owned == ()
    server.script("DescribeInstances", *[rule] * 3)
    with pytest.raises(SourceError):
        cloud.instances(NONE)


def test_throttling_and_wrong_keys_keep_their_kind_in_reads(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    server.script("DescribeInstances", *[error("RequestLimitExceeded", status=503)] * 3)
    with pytest.raises(ThrottledError):
        cloud.instances(NONE)
    server.script("DescribeInstances", error("AuthFailure", "AWS was not able to validate", 401))
    with pytest.raises(AuthError):
        cloud.instances(NONE)
    assert len(server.asked("DescribeInstances")) == 4


def test_a_read_without_an_answer_ends_at_its_time_out(server: EC2Server) -> None:
    server.script("DescribeInstances", *[Rule(delay_s=1.5)] * 3)
    with pytest.raises(SourceError, match="ReadTimeoutError"):
        cloud_at(server.url, read_timeout_s=0.3).instances(NONE)


OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n"


def flood(head: bytes, piece: bytes) -> Rule:
    return Rule(pieces=lambda: itertools.chain([head], itertools.repeat(piece)))


def drip(head: bytes, piece: bytes) -> Rule:
    def pieces() -> Iterator[bytes]:
        yield head
        for _ in range(6000):  # ten minutes
            time.sleep(0.1)
            yield piece

    return Rule(pieces=pieces)


LONG = b"x" * 65536
FLOODS = {
    "a body without an end": flood(OK + b"\r\n", LONG),
    "a body of a length that nobody can hold": flood(OK + b"Content-Length: 999999999999\r\n\r\n", LONG),
    "chunks without an end": flood(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + LONG + b"\r\n"),
    "an error without an end": flood(b"HTTP/1.1 500 X\r\n\r\n", LONG),
    "a head without an end": flood(OK, b"A: b\r\n" * 1000),
    "a line without an end": flood(OK + b"A: ", LONG),
    "HTTP 100 without an end": flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
}


@pytest.mark.parametrize("rule", FLOODS.values(), ids=FLOODS.keys())
def test_an_answer_without_an_end_is_unknown_and_takes_little_memory(
    server: EC2Server, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ec2_answers, "LARGEST", 1 << 20)
    server.script("DescribeInstances", *[rule] * 3, instances())
    server.script("RunInstances", rule)
    cloud = cloud_at(server.url)
    cloud._client._clients()  # what it takes to make them is not the answer's
    tracemalloc.start()
    try:
        with pytest.raises(SourceError):
            cloud.instances(NONE)
        with pytest.raises(TransientError) as caught:
            cloud.launch(intent())
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert not caught.value.launched_nothing
    assert len(server.asked("DescribeInstances")) <= 3
    server.forget()
    server.script("DescribeInstances", instances())
    assert cloud.instances(NONE).owned == ()


def test_a_person_is_told_how_long_the_answer_was(server: EC2Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ec2_answers, "LARGEST", 1 << 20)
    server.script("DescribeInstances", *[FLOODS["a body without an end"]] * 3)
    with pytest.raises(SourceError, match="the answer is longer than 1 MB"):
        cloud_at(server.url).instances(NONE)


@pytest.mark.parametrize(
    "rule",
    [
        drip(OK + b"\r\n", b"<a>"),
        drip(OK + b"Content-Length: 5000\r\n\r\n", b"<a>"),
        drip(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\n<a>\r\n"),
        drip(OK + b"A: ", b"b"),
        drip(b"", b"H"),
    ],
    ids=["body", "body of a length", "chunks", "head", "status line"],
)
def test_an_answer_that_drips_ends_at_the_time_out(server: EC2Server, rule: Rule) -> None:
    server.script("RunInstances", rule)
    cloud = cloud_at(server.url, read_timeout_s=0.7)
    began = time.monotonic()
    with pytest.raises(TransientError, match="ReadTimeoutError") as caught:
        cloud.launch(intent())
    assert 0.7 <= time.monotonic() - began < PATIENCE_S, "not at the end of the answer"
    assert not caught.value.launched_nothing


def test_a_slow_answer_that_ends_in_time_is_read_and_its_connection_used_again(server: EC2Server) -> None:
    body = instances("<instanceId>i-1</instanceId>").body.encode()
    length = b"Content-Length: %d\r\n\r\n" % len(body)

    def pieces() -> Iterator[bytes]:
        for piece in (OK, length, body[:9], body[9:]):
            time.sleep(0.1)
            yield piece

    server.script("DescribeInstances", Rule(pieces=pieces), instances())
    cloud = cloud_at(server.url, read_timeout_s=PATIENCE_S)
    assert len(cloud.instances(frozenset({"i-1"})).owned) == 1
    assert cloud.instances(NONE).owned == ()


def test_a_kept_connection_gives_each_answer_its_own_time() -> None:
    """Over a server that keeps connections, as clouds do."""
    body = instances().body.encode()
    peers = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # closed at the end
                while True:
                    peer, _ = listener.accept()
                    peers.append(peer)
                    while peer.recv(65536):
                        time.sleep(0.8)  # all five take longer than the time of one
                        peer.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)

        threading.Thread(target=serve, daemon=True).start()
        cloud = cloud_at(f"http://127.0.0.1:{listener.getsockname()[1]}", read_timeout_s=3.5)
        for _ in range(5):
            assert cloud.instances(NONE).owned == ()
    assert len(peers) == 1
    peers[0].close()


@pytest.mark.parametrize("status", [302, 400, 403, 404, 500, 502, 503])
@pytest.mark.parametrize("body", ["", "<html>no</html>", "<!DOCTYPE html><p>no", "no", '{"error": "no"}', "<X/>"])
def test_an_error_that_is_not_ec2s_is_told_by_its_http_status(server: EC2Server, status: int, body: str) -> None:
    server.script("DescribeInstanceStatus", *[Rule(body, status, headers=HTML)] * 3)
    with pytest.raises(Fault) as caught:
        cloud_at(server.url)._client.call("describe_instance_status")
    assert (caught.value.code, caught.value.status) == (str(status), status)
    assert f"{status} (HTTP {status})" in told(caught.value, "here")
    assert len(server.requests) == (3 if status >= 500 else 1)


# --------------------------------------------------------------------------- pages


def test_all_pages_are_read(server: EC2Server) -> None:
    server.script(
        "DescribeInstances",
        instances("<instanceId>i-1</instanceId>", token="two"),
        instances(token="three"),
        instances("<instanceId>i-3</instanceId>", "<instanceId>i-1</instanceId>"),
    )
    listed = cloud_at(server.url).instances(frozenset({"i-1", "i-3"}))
    assert sorted(one.id for one in listed.owned) == ["i-1", "i-3"]
    assert [request.get("NextToken") for request in server.requests] == [None, "two", "three"]


def test_a_missing_page_makes_the_whole_listing_unknown(server: EC2Server) -> None:
    server.script("DescribeInstances", instances("<instanceId>i-1</instanceId>", token="two"))
    server.script("DescribeInstances", *[Rule("", 500)] * 3)
    with pytest.raises(SourceError):
        cloud_at(server.url).instances(NONE)


def test_an_empty_token_is_the_last_page(server: EC2Server) -> None:
    body = instances("<instanceId>i-1</instanceId>").body.replace("</DescribeI", "<nextToken/></DescribeI")
    server.script("DescribeInstances", Rule(body))
    assert len(cloud_at(server.url).instances(frozenset({"i-1"})).owned) == 1


def test_a_cloud_that_refuses_pages_is_asked_plainly_from_then_on(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    refusal = error("InvalidParameterCombination", "The parameter MaxResults is not recognised")
    server.script("DescribeInstances", refusal, instances(), instances())
    cloud.instances(NONE)
    cloud.instances(NONE)
    assert ["MaxResults" in request for request in server.requests] == [True, False, False]


def test_a_refusal_that_is_not_about_pages_does_not_end_paging(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    server.script("DescribeInstances", error("Busy"), error("Busy"), instances())
    with pytest.raises(SourceError):
        cloud.instances(NONE)
    cloud.instances(NONE)
    assert ["MaxResults" in request for request in server.requests] == [True, False, True]


def test_a_cloud_that_turns_in_a_circle_is_asked_plainly(server: EC2Server) -> None:
    page = instances("<instanceId>i-1</instanceId>", token="same")
    server.script("DescribeInstances", page, page, instances("<instanceId>i-1</instanceId>"))
    assert len(cloud_at(server.url).instances(frozenset({"i-1"})).owned) == 1


def test_a_wider_circle_ends_too(server: EC2Server) -> None:
    pages = [instances(token=token) for token in ("two", "three", "two")]
    server.script("DescribeInstances", *pages, instances("<instanceId>i-1</instanceId>"))
    assert len(cloud_at(server.url).instances(frozenset({"i-1"})).owned) == 1


def test_a_circle_without_an_end_is_unknown(server: EC2Server) -> None:
    server.script("DescribeInstances", *[instances(token="same")] * 4)
    with pytest.raises(SourceError, match="RepeatedNextToken"):
        cloud_at(server.url).instances(NONE)
    assert len(server.requests) == 4


# --------------------------------------------------------------------------- states, owners


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("<instanceState><code>0</code><name>error</name></instanceState>", InstanceState.ERROR),
        ("<instanceState><code>272</code><name>running</name></instanceState>", InstanceState.RUNNING),
        ("<instanceState><code>16</code><name>migrate</name></instanceState>", InstanceState.UNKNOWN),
        ("<instanceState><code>0</code><name>shelved_offloaded</name></instanceState>", InstanceState.UNKNOWN),
        ("<instanceState><code>48</code><name>terminated</name></instanceState>", InstanceState.TERMINATED),
        ("<instanceState><code>16</code></instanceState>", InstanceState.UNKNOWN),
        ("<stateCode>16</stateCode><stateName>running</stateName>", InstanceState.UNKNOWN),
        ("", InstanceState.UNKNOWN),
    ],
)
def test_states_go_by_name_and_an_unknown_one_is_neither_usable_nor_gone(
    server: EC2Server, state: str, means: InstanceState
) -> None:
    server.script("DescribeInstances", instances(f"<instanceId>i-1</instanceId><privateIpAddress/>{state}{tags()}"))
    (one,) = cloud_at(server.url).instances(NONE).owned
    assert one.state is means
    assert one.addresses == NONE
    assert (one.pool, one.intent, one.head) == ("ec2", "i1", OWNER.head)


def test_all_private_addresses_of_all_interfaces_are_told(server: EC2Server) -> None:
    interfaces = (
        "<networkInterfaceSet>"
        "<item><privateIpAddress>10.0.0.7</privateIpAddress><privateIpAddressesSet>"
        "<item><privateIpAddress>10.0.0.7</privateIpAddress></item>"
        "<item><privateIpAddress>10.0.0.8</privateIpAddress></item></privateIpAddressesSet>"
        "<ipv6AddressesSet><item><ipv6Address>2001:DB8::0007</ipv6Address></item></ipv6AddressesSet></item>"
        "<item><privateIpAddress>10.9.0.7</privateIpAddress></item></networkInterfaceSet>"
    )
    item = f"<instanceId>i-1</instanceId><privateDnsName>ip-10-0-0-7</privateDnsName>{interfaces}{tags()}"
    server.script("DescribeInstances", instances(item))
    (one,) = cloud_at(server.url).instances(NONE).owned
    assert one.addresses == {"10.0.0.7", "10.0.0.8", "10.9.0.7", "2001:db8::7"}


@pytest.mark.parametrize(
    "moment", ["2026-03-01T12:00:00.000Z", "2026-03-01T14:00:00+02:00", "2026-03-01T12:00:00", "1772366400"]
)
def test_launch_times_of_any_spelling_are_epoch_seconds(
    server: EC2Server, moment: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    request.addfinalizer(time.tzset)  # after the old zone is back
    time.tzset()
    server.script("DescribeInstances", instances(f"<instanceId>i-1</instanceId><launchTime>{moment}</launchTime>"))
    (one,) = cloud_at(server.url).instances(frozenset({"i-1"})).owned
    assert one.launched_at == 1772366400.0


# --------------------------------------------------------------------------- launch


def test_a_launch_says_all_that_makes_it_ours_and_ends_with_its_machine(server: EC2Server) -> None:
    server.script("RunInstances", MADE)
    made = cloud_at(server.url, user_data=b"#!/bin/sh\n").launch(intent(2))
    (sent,) = server.asked("RunInstances")
    assert [one.id for one in made] == ["i-1", "i-2"]
    assert {(one.pool, one.intent, one.token, one.head) for one in made} == {("ec2", "i1", intent().token, OWNER.head)}
    assert (sent["MinCount"], sent["MaxCount"], sent["ClientToken"]) == ("1", "2", intent().token)
    assert sent["InstanceInitiatedShutdownBehavior"] == "terminate"
    for number, kind in (("1", "instance"), ("2", "volume")):
        prefix = f"TagSpecification.{number}."
        assert sent[prefix + "ResourceType"] == kind
        keys = {sent[key]: sent[key[:-3] + "Value"] for key in sent if key.startswith(prefix) and key.endswith("Key")}
        assert keys == {
            "Name": "cms-ec2-i1",
            "elastiq:cluster": "cms",
            "elastiq:head": OWNER.head,
            "elastiq:pool": "ec2",
            "elastiq:intent": "i1",
        }


@pytest.mark.parametrize(
    ("rule", "kind", "nothing"),
    [
        (error("InsufficientInstanceCapacity", "no room", 500), CapacityError, True),
        (error("Server.InsufficientInstanceCapacity", "no room", 500), CapacityError, True),
        (error("RequestLimitExceeded", "slow down", 503), ThrottledError, True),
        (error("InternalError", "oops", 500), TransientError, False),
        (error("Unavailable", "overloaded", 503), TransientError, False),
        (error("UnknownError", "nova: An unknown error has occurred", 400), TransientError, False),
        (error("IdempotentParameterMismatch"), TransientError, False),
        (error("SomethingNew", "never heard of", 400), TransientError, True),
        (Rule("<html>502</html>", 502, headers=HTML), TransientError, False),
        (Rule("<html>504</html>", 504, headers=HTML), TransientError, False),
        (Rule("<html>log in</html>", headers=HTML), TransientError, False),
        (Rule("<html/>", 302, headers=(("Location", "https://127.0.0.1:9/"),)), ConfigurationError, True),
        (Rule(""), TransientError, False),
        (Rule(drop=True), TransientError, False),
        (Rule(delay_s=1.0), TransientError, False),
        (answer("RunInstances"), TransientError, False),
        (answer("RunInstances", "<instancesSet/>"), TransientError, False),
        (
            answer("RunInstances", "<instancesSet><item><imageId>a</imageId></item></instancesSet>"),
            TransientError,
            False,
        ),
    ],
)
def test_a_failed_launch_is_sorted_and_never_asked_twice(
    server: EC2Server, rule: Rule, kind: type[LaunchError], nothing: bool
) -> None:
    server.script("RunInstances", rule, MADE)
    with pytest.raises(LaunchError) as caught:
        cloud_at(server.url, read_timeout_s=0.5 if rule.delay_s else PATIENCE_S).launch(intent())
    assert (type(caught.value), caught.value.launched_nothing) == (kind, nothing)
    assert len(server.asked("RunInstances")) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}", "http://no-such-host.invalid:{port}"])
def test_an_endpoint_that_cannot_be_reached_surely_launched_nothing(url: str) -> None:
    nobody = DeadPort()
    cloud = cloud_at(url.format(port=nobody.number))
    with pytest.raises(TransientError) as caught:
        cloud.launch(intent())
    assert caught.value.launched_nothing
    with pytest.raises(SourceError):
        cloud.instances(NONE)


def test_a_launch_whose_answer_came_too_late_is_found_by_its_token(moto: EC2Server) -> None:
    cloud, hasty = cloud_at(moto.url, read_timeout_s=PATIENCE_S), cloud_at(moto.url, read_timeout_s=1.5)
    cloud.instances(NONE)
    late = intent(2, "late")
    moto.script("DescribeImages", NO_IMAGE)
    moto.script("RunInstances", Rule(effect=True, delay_s=2.5))
    with pytest.raises(TransientError) as caught:
        hasty.launch(late)
    assert not caught.value.launched_nothing
    until(lambda: len(cloud.find(late)) == 2)  # moto makes them one after the other
    assert cloud.find(intent(2, "other")) == ()


def test_an_ambiguous_network_is_told_as_it_is(server: EC2Server) -> None:
    message = "Multiple possible networks found, use a Network ID to be more specific."
    server.script("RunInstances", error("NetworkAmbiguous", message), error("Conflict", message, 409))
    cloud = cloud_at(server.url)
    for code in ("NetworkAmbiguous", "Conflict"):
        with pytest.raises(ConfigurationError) as caught:
            cloud.launch(intent())
        assert f"{code}: {message[:-1]}" in str(caught.value)
        assert "set subnet_id or network_interfaces" in str(caught.value)
        assert "quota" not in str(caught.value)


def test_neither_secrets_nor_user_data_come_back_in_an_error(server: EC2Server) -> None:
    data = b"#!/bin/sh\necho TOKEN=abcdefgh > /etc/x; echo this is long enough to be taken for an encoded word\n"
    encoded = "IyEvYmluL3NoCmVjaG8gVE9LRU49YWJjZGVmZ2ggPiAvZXRjL3g7IGVjaG8g"
    words = f"bad {KEYS['aws_secret_access_key']} in {encoded} and {data.decode()} as sent"
    server.script("RunInstances", error("InvalidParameterValue", words))
    with pytest.raises(ConfigurationError) as caught:
        cloud_at(server.url, user_data=data).launch(intent())
    text = str(caught.value) + repr(caught.value) + str(caught.value.__cause__)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    for secret in (KEYS["aws_secret_access_key"], encoded, "abcdefgh"):
        assert secret not in text


@pytest.mark.parametrize("part", ["code", "message"])
def test_a_cloud_that_answers_with_the_request_gives_no_secret_away_and_loses_no_extra(
    server: EC2Server, part: str
) -> None:
    cloud = cloud_at(server.url, user_data=b"#!/bin/sh\nPASS=PLANTEDRED\n", aws_session_token="tok+en/1")
    server.script("RunInstances", MADE)
    cloud.launch(intent())
    body = urlencode(server.asked("RunInstances")[0])
    assert "UserData=IyEvYmluL3NoClBBU1M9UExBTlRFRFJFRAo" in body
    server.script("RunInstances", error(escape(body), "no") if part == "code" else error("InvalidParameterValue", body))
    with pytest.raises(LaunchError) as caught:
        cloud.launch(intent(name="i2"))
    text = str(caught.value)
    assert "IyEv" not in text and "BBU1M9" not in text and "image_id" not in text and "from now on" not in text
    assert cloud.capabilities.tags
    server.script("RunInstances", MADE)
    cloud.launch(intent(name="i3"))
    assert server.asked("RunInstances")[-1]["TagSpecification.2.ResourceType"] == "volume"


def test_a_wrong_parameter_of_ours_is_told_without_its_value() -> None:
    with pytest.raises(ConfigurationError) as caught:
        cloud_at("http://127.0.0.1:9", user_data=b"#!/bin/sh s3cr3t", image_id=None, key_name=["no"]).launch(intent())
    assert "ParamValidationError" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


# ---- extras that a cloud refuses


def test_a_cloud_that_refuses_tags_is_asked_without_them_next_time(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    server.script("RunInstances", error("UnknownParameter", "The parameter TagSpecification is not recognized"), MADE)
    with pytest.raises(TransientError, match="without tags from now on") as caught:
        cloud.launch(intent())
    assert caught.value.launched_nothing
    assert len(cloud.launch(intent(name="i2"))) == 2
    first, second = server.asked("RunInstances")
    assert "TagSpecification.1.ResourceType" in first
    assert not any(key.startswith("TagSpecification") for key in second)
    assert first["ClientToken"] != second["ClientToken"]
    item = f"<instanceId>i-1</instanceId><clientToken>{intent().token}</clientToken>{RUNNING}"
    server.script("DescribeInstances", instances(item))
    server.script("CreateTags", error("InvalidAction", "The action CreateTags is not valid for this web service"))
    assert len(cloud.instances(NONE).owned) == 1
    assert not cloud.capabilities.tags and cloud.capabilities.find  # the token is shown
    with pytest.raises(UnsupportedError):
        cloud.adopt(["i-1"])


def test_without_tags_the_token_says_what_is_ours(server: EC2Server) -> None:
    item = f"<instanceId>i-1</instanceId><clientToken>{intent().token}</clientToken>{RUNNING}"
    server.script("DescribeInstances", instances(item), instances(item))
    cloud = cloud_at(server.url)
    assert [one.id for one in cloud.instances(NONE).owned] == ["i-1"]
    assert [one.id for one in cloud.find(intent())] == ["i-1"]


def test_launches_that_are_refused_at_the_same_time_are_all_tried_again(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    refusal = error("UnknownParameter", "TagSpecification is not recognized", delay_s=0.3)
    server.script("DescribeImages", *[NO_IMAGE] * 3)
    server.script("RunInstances", *[refusal] * 3)
    kinds = []

    def launch(name: str) -> None:
        with pytest.raises(LaunchError) as caught:
            cloud.launch(intent(name=name))
        kinds.append(type(caught.value))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(launch, ("a", "b", "c")))
    assert kinds == [TransientError] * 3


def test_only_the_refused_extra_is_left_out(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    server.script(
        "RunInstances",
        error("InvalidParameterValue", "'volume' is not a valid taggable resource type for this operation."),
        error("Unsupported", "InstanceInitiatedShutdownBehavior is not supported"),
        MADE,
    )
    for number in range(2):
        with pytest.raises(TransientError):
            cloud.launch(intent(name=f"i{number}"))
    cloud.launch(intent(name="i9"))
    last = server.asked("RunInstances")[-1]
    assert cloud.capabilities.tags
    assert last["TagSpecification.1.ResourceType"] == "instance"
    assert "TagSpecification.2.ResourceType" not in last
    assert "InstanceInitiatedShutdownBehavior" not in last


def test_refusals_come_to_an_end(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    refusal = error("UnknownParameter", "An unknown parameter was supplied")
    server.script("RunInstances", *[refusal] * 3)
    kinds = []
    for number in range(3):
        with pytest.raises(LaunchError) as caught:
            cloud.launch(intent(name=f"i{number}"))
        kinds.append(type(caught.value))
    assert kinds == [TransientError, ConfigurationError, ConfigurationError]


def test_a_wrong_tag_of_the_users_does_not_cost_ours(server: EC2Server) -> None:
    cloud = cloud_at(server.url, tags={"a": "b"})
    server.script("RunInstances", error("InvalidParameterValue", "Value ( a ) for parameter key is invalid."))
    with pytest.raises(ConfigurationError):
        cloud.launch(intent())
    assert cloud.capabilities.tags


def test_what_the_configuration_asks_for_is_never_left_out(server: EC2Server) -> None:
    cloud = cloud_at(server.url, imds_v2="required")
    server.script("RunInstances", error("UnknownParameter", "The parameter MetadataOptions is not recognized"))
    with pytest.raises(ConfigurationError, match="check imds_v2"):
        cloud.launch(intent())


# ---- the image


def image(*devices: tuple[str, str, int]) -> Rule:
    items = "".join(
        f"<item><deviceName>{name}</deviceName><ebs><volumeSize>{size}</volumeSize>"
        f"<deleteOnTermination>{ends}</deleteOnTermination></ebs></item>"
        for name, ends, size in devices
    )
    return answer(
        "DescribeImages",
        "<imagesSet><item><imageId>ami-12c6146b</imageId><imageState>available</imageState>"
        "<rootDeviceName>/dev/xvda</rootDeviceName>"
        f"<blockDeviceMapping>{items}</blockDeviceMapping></item></imagesSet>",
    )


def volumes(sent: dict[str, str]) -> dict[str, tuple[str, str]]:
    found = {}
    for key, name in sent.items():
        if key.startswith("BlockDeviceMapping") and key.endswith("DeviceName"):
            ebs = key.replace("DeviceName", "Ebs.")
            found[name] = (sent.get(ebs + "VolumeSize", ""), sent.get(ebs + "DeleteOnTermination", ""))
    return found


def test_volumes_that_would_outlive_their_instance_end_with_it(bare: EC2Server) -> None:
    bare.script("DescribeImages", image(("/dev/xvda", "true", 8), ("/dev/sdb", "false", 100)))
    bare.script("RunInstances", MADE, MADE)
    cloud = cloud_at(bare.url)
    cloud.launch(intent())
    cloud.launch(intent(name="i2"))
    assert [volumes(sent) for sent in bare.asked("RunInstances")] == [{"/dev/sdb": ("100", "true")}] * 2
    assert len(bare.asked("DescribeImages")) == 1


def test_the_root_disk_gets_its_size_by_the_images_device_name(bare: EC2Server) -> None:
    bare.script("DescribeImages", image(("/dev/xvda", "true", 8)))
    bare.script("RunInstances", MADE)
    cloud_at(bare.url, root_disk_gb=50).launch(intent())
    assert volumes(bare.asked("RunInstances")[0]) == {"/dev/xvda": ("50", "true")}


@pytest.mark.parametrize("rule", [error("UnauthorizedOperation", "no", 403), error("InvalidAction", "what?"), NO_IMAGE])
def test_a_launch_does_not_fail_because_the_image_is_not_told(bare: EC2Server, rule: Rule) -> None:
    bare.script("DescribeImages", rule)
    bare.script("RunInstances", MADE)
    cloud = cloud_at(bare.url)
    assert cloud.launch(intent())


@pytest.mark.parametrize("rule", [Rule("<html/>", headers=HTML), Rule(""), NO_IMAGE, error("InvalidAMIID.NotFound")])
def test_nonsense_about_the_image_is_not_believed_for_good(bare: EC2Server, rule: Rule) -> None:
    cloud = cloud_at(bare.url, root_disk_gb=50)
    bare.script("DescribeImages", rule, image(("/dev/xvda", "true", 8)))
    bare.script("RunInstances", MADE, MADE)
    cloud.launch(intent())
    cloud.launch(intent(name="i2"))
    assert [volumes(sent) for sent in bare.asked("RunInstances")] == [{}, {"/dev/xvda": ("50", "true")}]


def test_an_image_that_is_not_told_for_now_launches_nothing_yet(bare: EC2Server) -> None:
    bare.script("DescribeImages", *[Rule("", 500)] * 3)
    cloud = cloud_at(bare.url)
    with pytest.raises(TransientError) as caught:
        cloud.launch(intent())
    assert caught.value.launched_nothing
    assert bare.asked("RunInstances") == []


# --------------------------------------------------------------------------- terminate

ENDED = "<instancesSet>%s</instancesSet>"
ENDING = "<currentState><code>32</code><name>shutting-down</name></currentState>"
ITEM = f"<item><instanceId>%s</instanceId>{ENDING}</item>"


def outcomes(server: EC2Server, *ids: str) -> list[EndOutcome]:
    answers = cloud_at(server.url).terminate(ids)
    assert list(answers) == list(dict.fromkeys(ids))
    return [found.outcome for found in answers.values()]


def test_a_named_instance_ends_and_one_that_is_not_named_is_asked_again(server: EC2Server) -> None:
    server.script("TerminateInstances", answer("TerminateInstances", ENDED % (ITEM % "i-1")))
    assert outcomes(server, "i-1", "i-2", "i-1") == [EndOutcome.ENDING, EndOutcome.FAILED]


@pytest.mark.parametrize(
    ("inner", "outcome"),
    [
        ("<return>true</return>", EndOutcome.ENDING),  # old nova
        (f"<return>false</return>{ENDED % ''}", EndOutcome.FAILED),  # Eucalyptus
        (ENDED % "", EndOutcome.FAILED),
        ("", EndOutcome.FAILED),
    ],
)
def test_an_answer_that_names_nobody_counts_only_if_it_says_true(
    server: EC2Server, inner: str, outcome: EndOutcome
) -> None:
    server.script("TerminateInstances", answer("TerminateInstances", inner))
    assert outcomes(server, "i-1", "i-2") == [outcome, outcome]


def test_a_login_page_ends_nothing(server: EC2Server) -> None:
    server.script("TerminateInstances", Rule("<html/>", headers=HTML))
    assert outcomes(server, "i-1") == [EndOutcome.FAILED]


@pytest.mark.parametrize("code", ["InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InstanceNotFound"])
def test_one_bad_id_does_not_spoil_the_others(server: EC2Server, code: str) -> None:
    server.script(
        "TerminateInstances",
        error(code, "The instance ID 'i-2' does not exist"),
        answer("TerminateInstances", ENDED % (ITEM % "i-1")),
        error(code, "The instance ID 'i-2' does not exist"),
        error("OperationNotPermitted", "The instance 'i-3' may not be terminated. disableApiTermination is set"),
        error("UnauthorizedOperation", "not this one", 403),
    )
    cloud = cloud_at(server.url)
    answers = cloud.terminate(["i-1", "i-2", "i-3", "i-4"])
    assert [answers[one].outcome for one in ("i-1", "i-2", "i-3", "i-4")] == [
        EndOutcome.ENDING,
        EndOutcome.NOT_FOUND,
        EndOutcome.FAILED,
        EndOutcome.FAILED,
    ]
    assert "disableApiTermination" in answers["i-3"].detail


def test_a_fault_of_the_way_is_no_reason_to_ask_singly(server: EC2Server) -> None:
    server.script("TerminateInstances", *[Rule("", 503)] * 3)
    with pytest.raises(SourceError):
        cloud_at(server.url).terminate(["i-1", "i-2"])
    assert len(server.requests) == 3
    server.script("TerminateInstances", error("AuthFailure", status=401))
    with pytest.raises(AuthError):
        cloud_at(server.url).terminate(["i-1", "i-2"])
    assert len(server.requests) == 4


# --------------------------------------------------------------------------- problems, adopt, checks


def statuses(*items: str) -> Rule:
    listed = "".join(f"<item>{item}</item>" for item in items)
    return answer("DescribeInstanceStatus", f"<instanceStatusSet>{listed}</instanceStatusSet>")


def test_impaired_and_retiring_instances_are_problems(server: EC2Server) -> None:
    ok = "<systemStatus><status>ok</status></systemStatus><instanceStatus><status>ok</status></instanceStatus>"
    server.script(
        "DescribeInstanceStatus",
        statuses(
            f"<instanceId>i-1</instanceId>{ok}",
            "<instanceId>i-2</instanceId><systemStatus><status>impaired</status><details><item>"
            "<name>reachability</name><status>failed</status></item></details></systemStatus>",
            f"<instanceId>i-3</instanceId>{ok}<eventsSet><item><code>instance-retirement</code>"
            "<description>The host is degraded</description></item></eventsSet>",
            f"<instanceId>i-4</instanceId>{ok}<eventsSet><item><code>instance-retirement</code>"
            "<description>[Completed] The host is degraded</description></item></eventsSet>",
            "<instanceId>i-foreign</instanceId><systemStatus><status>impaired</status></systemStatus>",
        ),
    )
    assert cloud_at(server.url).problems(["i-1", "i-2", "i-3", "i-4", "i-5"]) == {
        "i-2": "system status impaired (reachability)",
        "i-3": "instance-retirement scheduled: The host is degraded",
    }


@pytest.mark.parametrize("code", ["InvalidAction", "UnauthorizedOperation", "UnsupportedOperation"])
def test_a_cloud_without_instance_status_is_not_asked_again(server: EC2Server, code: str) -> None:
    cloud = cloud_at(server.url)
    server.script("DescribeInstanceStatus", error(code, "no"), error(code, "no"))
    assert cloud.problems(["i-1"]) == {}
    asked = len(server.requests)
    assert cloud.problems(["i-1"]) == {}
    assert len(server.requests) == asked
    assert not cloud.capabilities.instance_problems


def test_an_unknown_status_is_unknown(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    server.script("DescribeInstanceStatus", Rule("<html/>", headers=HTML))
    with pytest.raises(SourceError):
        cloud.problems(["i-1"])
    assert cloud.capabilities.instance_problems
    assert cloud.problems([]) == {}


def test_adopting_writes_our_tags(server: EC2Server) -> None:
    server.script("CreateTags", answer("CreateTags", "<return>true</return>"))
    cloud_at(server.url).adopt(["i-1", "i-2"])
    (sent,) = server.requests
    assert (sent["ResourceId.1"], sent["ResourceId.2"]) == ("i-1", "i-2")
    assert {sent["Tag.1.Key"]: sent["Tag.1.Value"], sent["Tag.2.Key"]: sent["Tag.2.Value"]} == {
        "elastiq:cluster": OWNER.cluster,
        "elastiq:head": OWNER.head,
    }
    server.script("CreateTags", error("InvalidID", "no such thing"))
    with pytest.raises(SourceError):
        cloud_at(server.url).adopt(["i-1"])


# --------------------------------------------------------------------------- the way there


def test_an_old_api_version_is_sent_and_signed(server: EC2Server) -> None:
    server.script("DescribeInstances", instances())
    cloud_at(server.url, api_version="2013-02-01", region="nova").instances(NONE)
    (sent,), (headers,) = server.requests, server.headers
    assert sent["Version"] == "2013-02-01"
    assert "/nova/ec2/aws4_request" in headers["AUTHORIZATION"]
    body = "&".join(f"{key}={value}" for key, value in sent.items())
    request = botocore.awsrequest.AWSRequest("POST", server.url + "/", data=body)
    request.headers["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
    request.context["timestamp"] = headers["X_AMZ_DATE"]
    request.headers["X-Amz-Date"] = headers["X_AMZ_DATE"]
    credentials = botocore.credentials.Credentials(*KEYS.values())
    signer = botocore.auth.SigV4Auth(credentials, "ec2", "nova")
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    assert headers["AUTHORIZATION"].endswith(f"Signature={signature}")


def test_without_a_region_the_endpoints_name_or_a_placeholder_is_signed(
    server: EC2Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    server.script("DescribeInstances", instances())
    cloud_at(server.url).instances(NONE)
    assert "/us-east-1/ec2/" in server.headers[0]["AUTHORIZATION"]


def test_without_keys_botos_chain_is_asked(server: EC2Server, monkeypatch: pytest.MonkeyPatch) -> None:
    none: dict[str, Any] = {"aws_access_key_id": None, "aws_secret_access_key": None}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    server.script("DescribeInstances", instances())
    cloud_at(server.url, **none).instances(NONE)
    assert "Credential=AKIAENV/" in server.headers[0]["AUTHORIZATION"]
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "BOTO_CONFIG"):
        monkeypatch.setenv(name, "/nonexistent")
    with pytest.raises(AuthError, match="NoCredentialsError"):
        cloud_at(server.url, **none).instances(NONE)
    with pytest.raises(AuthError) as caught:
        cloud_at(server.url, **none).launch(intent())
    assert caught.value.launched_nothing


def test_requests_go_through_the_proxy(server: EC2Server) -> None:
    server.script("DescribeInstances", instances())
    cloud_at("http://ec2.cloud.invalid:8773/services/Cloud", proxy=server.url).instances(NONE)
    assert server.headers[0]["HOST"].startswith("ec2.cloud.invalid")


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_certificate_is_checked_unless_told_otherwise(tmp_path: object) -> None:
    from werkzeug.serving import make_ssl_devcert

    certificate, key = make_ssl_devcert(f"{tmp_path}/cert", host="localhost")
    server = EC2Server(tls=(certificate, key))
    url = server.url.replace("127.0.0.1", "localhost")
    server.script("DescribeInstances", instances(), instances())
    try:
        with pytest.raises(SourceError, match="ca_bundle"):
            cloud_at(url).instances(NONE)
        with pytest.raises(ConfigurationError):
            cloud_at(url).launch(intent())
        cloud_at(url, ca_bundle=certificate).instances(NONE)
        cloud_at(url, verify_ssl=False).instances(NONE)
    finally:
        server.close()
    assert len(server.requests) == 2


def test_without_a_region_and_an_endpoint_a_person_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigurationError, match="set region or api_url") as caught:
        cloud_at("", api_url=None, launch_template="x", image_id=None).launch(intent())
    assert caught.value.launched_nothing


def test_expired_credentials_do_not_make_the_image_unknown_for_good(bare: EC2Server) -> None:
    cloud = cloud_at(bare.url, root_disk_gb=50)
    bare.script("DescribeImages", error("RequestExpired"), image(("/dev/xvda", "true", 8)))
    bare.script("RunInstances", MADE)
    with pytest.raises(AuthError):
        cloud.launch(intent())
    cloud.launch(intent(name="i2"))
    assert volumes(bare.asked("RunInstances")[0]) == {"/dev/xvda": ("50", "true")}
