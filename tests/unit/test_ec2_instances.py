"""Whose an instance is."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.interfaces import InstanceState, Owner
from elastiq.plugins.cloud.ec2_instances import described, sort_instances

OWNER = Owner("cms", "0123456789abcdef" * 2, frozenset({"10.0.0.1"}), "i-head")
OTHER = "f" * 32
NONE: frozenset[str] = frozenset()


def row(
    key: str = "i-1",
    cluster: str = "",
    head: str = "",
    token: str = "",
    address: str = "10.0.0.9",
    state: str = "running",
) -> dict[str, Any]:
    tags = [("elastiq:cluster", cluster), ("elastiq:head", head)]
    return {
        "InstanceId": key,
        "State": {"Name": state},
        "PrivateIpAddress": address,
        "ClientToken": token,
        "Tags": [{"Key": name, "Value": value} for name, value in tags if value],
    }


def whose(*rows: dict[str, Any], known: frozenset[str] = NONE) -> str:
    found = sort_instances(rows, OWNER, known)
    return f"{len(found.owned)} ours {len(found.other_heads)} others {found.foreign} foreign"


OURS, OTHERS, FOREIGN = "1 ours 0 others 0 foreign", "0 ours 1 others 0 foreign", "0 ours 0 others 1 foreign"
TOKEN = OWNER.token_prefix + "i1"


@pytest.mark.parametrize(
    ("instance", "known", "expected"),
    [
        (row(cluster="cms", head=OWNER.head), NONE, OURS),
        (row(cluster="cms", head=OTHER), NONE, OTHERS),
        (row(cluster="cms", head=OTHER), frozenset({"i-1"}), OTHERS),  # adopted there
        (row(cluster="cms", head=OTHER, token=TOKEN), NONE, OTHERS),
        (row(cluster="cms"), NONE, OTHERS),
        (row(cluster="atlas", head=OTHER), frozenset({"i-1"}), FOREIGN),
        (row(cluster="atlas", token=TOKEN), NONE, FOREIGN),
        (row(token=TOKEN), NONE, OURS),
        (row(token="elastiq-ffffffffffffffff-i1"), NONE, FOREIGN),
        (row(), frozenset({"i-1"}), OURS),
        (row(), NONE, FOREIGN),
        (row(key="i-head", cluster="cms", head=OWNER.head, token=TOKEN), frozenset({"i-head"}), FOREIGN),
        (row(cluster="cms", head=OWNER.head, address="10.0.0.1"), frozenset({"i-1"}), FOREIGN),
        (row(state="terminated"), NONE, "0 ours 0 others 0 foreign"),
        (row(cluster="cms", head=OTHER, state="terminated"), NONE, "0 ours 0 others 0 foreign"),
        (row(cluster="cms", head=OWNER.head, state="terminated"), NONE, OURS),
        (row(state="error"), NONE, FOREIGN),
    ],
)
def test_tags_decide_then_the_token_then_the_store(
    instance: dict[str, Any], known: frozenset[str], expected: str
) -> None:
    assert whose(instance, known=known) == expected


def test_an_instance_listed_twice_is_one_as_last_seen() -> None:
    first, last = row(cluster="cms", head=OWNER.head), row(cluster="cms", head=OWNER.head, state="stopping")
    (one,) = sort_instances([first, last], OWNER, NONE).owned
    assert one.state is InstanceState.STOPPING


def test_the_addresses_of_live_foreign_instances_are_told() -> None:
    rows = [row("i-1", address="10.1.0.1"), row("i-2", address="10.1.0.2", state="terminated")]
    assert sort_instances(rows, OWNER, NONE).foreign_addresses == {"10.1.0.1"}


def test_the_least_that_a_cloud_tells_is_enough() -> None:
    one = described({"InstanceId": "i-1"})
    assert (one.state, one.addresses, one.launched_at) == (InstanceState.UNKNOWN, NONE, None)
    assert one.state_detail == "no state"


def test_an_odd_state_keeps_its_word_and_its_reason() -> None:
    odd = {"InstanceId": "i-1", "State": {"Name": "shelved"}, "StateReason": {"Message": "by the\nowner"}}
    assert described(odd).state_detail == "shelved: by the owner"


@pytest.mark.parametrize("code", ["Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"])
def test_the_end_of_a_spot_instance_is_a_notice(code: str) -> None:
    reason = {"Code": code, "Message": f"{code}: Spot instance termination"}
    one = described({"InstanceId": "i-1", "State": {"Name": "shutting-down"}, "StateReason": reason})
    assert one.notice == f"shutting-down: {code}: Spot instance termination"


@pytest.mark.parametrize("reason", [None, {}, {"Code": "Client.UserInitiatedShutdown", "Message": "User initiated"}])
def test_no_other_end_is_a_notice(reason: Any) -> None:
    assert described({"InstanceId": "i-1", "State": {"Name": "shutting-down"}, "StateReason": reason}).notice == ""


def test_an_instance_has_its_image() -> None:
    assert described({"InstanceId": "i-1", "ImageId": "ami-7"}).image == "ami-7"
    assert described({"InstanceId": "i-1"}).image == ""


def test_an_address_in_the_name_counts_as_opennebula_means_it() -> None:
    assert described({"InstanceId": "i-1", "PrivateDnsName": "10.0.0.7"}).addresses == {"10.0.0.7"}
