"""An intent as the parameters of RunInstances."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.interfaces import Intent, Offer, Owner, Pool
from elastiq.plugins.cloud.ec2_errors import Fault
from elastiq.plugins.cloud.ec2_extras import refused_extras
from elastiq.plugins.cloud.ec2_options import OPTIONS
from elastiq.plugins.cloud.ec2_request import SHUTDOWN, TAGS, VOLUME_TAGS, VOLUMES, run_parameters
from elastiq.plugins.cloud.ec2_telling import secrets_of

OWNER = Owner("cms", "h" * 32)
NONE: frozenset[str] = frozenset()


def parameters(
    refused: frozenset[str] = NONE,
    image: dict[str, Any] | None = None,
    flavour: str = "m5.large",
    network: str = "",
    market: str = "",
    **options: Any,
) -> dict[str, Any]:
    values = {**{option.name: option.default for option in OPTIONS}, "image_id": "ami-1", **options}
    pool = Pool("ec2", "site", (flavour,), options=values)
    intent = Intent("i7", OWNER.token_prefix + "i7", Offer("ec2", flavour, network, market), 3, 0.0)
    return run_parameters(pool, intent, OWNER, refused, image or {})


def test_the_least_is_asked_for_in_any_case() -> None:
    found = parameters()
    assert (found["MinCount"], found["MaxCount"], found["ImageId"]) == (1, 3, "ami-1")
    assert set(found) == {
        "MinCount", "MaxCount", "ImageId", "InstanceType", "ClientToken", "TagSpecifications",
        "InstanceInitiatedShutdownBehavior",
    }  # fmt: skip
    assert len(found["ClientToken"]) <= 64


def test_what_is_not_set_is_left_to_the_cloud() -> None:
    found = parameters(flavour="", image_id=None, launch_template="workers:7")
    assert found["LaunchTemplate"] == {"LaunchTemplateName": "workers", "Version": "7"}
    for absent in ("ImageId", "InstanceType", "KeyName", "SubnetId", "SecurityGroupIds", "UserData"):
        assert absent not in found


def test_what_is_set_is_sent() -> None:
    found = parameters(
        network="subnet-2",
        key_name="k",
        user_data=b"#!/bin/sh",
        security_group_ids=("sg-1", "default"),
        iam_instance_profile="arn:aws:iam::1:instance-profile/w",
        imds_v2="required",
        tags={"Project": "x"},
    )
    assert found["SubnetId"] == "subnet-2"
    assert (found["KeyName"], found["UserData"]) == ("k", b"#!/bin/sh")
    assert (found["SecurityGroupIds"], found["SecurityGroups"]) == (["sg-1"], ["default"])
    assert found["IamInstanceProfile"] == {"Arn": "arn:aws:iam::1:instance-profile/w"}
    assert found["MetadataOptions"] == {"HttpTokens": "required"}
    assert {"Key": "Project", "Value": "x"} in found["TagSpecifications"][0]["Tags"]
    assert parameters(iam_instance_profile="w")["IamInstanceProfile"] == {"Name": "w"}


def test_a_spot_machine_is_asked_for_once_and_ended_when_it_is_interrupted() -> None:
    once = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    assert parameters(market="spot")["InstanceMarketOptions"] == {"MarketType": "spot", "SpotOptions": once}
    capped = parameters(market="spot", spot_max_price=0.05)["InstanceMarketOptions"]
    assert capped == {"MarketType": "spot", "SpotOptions": {**once, "MaxPrice": "0.05"}}


@pytest.mark.parametrize("market", ["", "on-demand"])
def test_any_other_machine_is_asked_for_without_a_market(market: str) -> None:
    assert "InstanceMarketOptions" not in parameters(market=market, spot_max_price=0.05)


def test_interfaces_carry_their_groups_themselves() -> None:
    found = parameters(network_interfaces=("net-a", "net-b:sg-8+sg-9"), security_group_ids=("sg-1",))
    assert found["NetworkInterfaces"] == [
        {"DeviceIndex": 0, "SubnetId": "net-a", "Groups": ["sg-1"], "DeleteOnTermination": True},
        {"DeviceIndex": 1, "SubnetId": "net-b", "Groups": ["sg-8", "sg-9"], "DeleteOnTermination": True},
    ]
    assert not {"SubnetId", "SecurityGroupIds", "SecurityGroups"} & set(found)
    assert "Groups" not in parameters(network_interfaces=("net-a",))["NetworkInterfaces"][0]


def test_an_empty_name_template_gives_no_name() -> None:
    keys = [tag["Key"] for tag in parameters(name_template="")["TagSpecifications"][0]["Tags"]]
    assert sorted(keys) == ["elastiq:cluster", "elastiq:head", "elastiq:intent", "elastiq:pool"]


def mapping(name: str, ends: bool, size: int = 8) -> dict[str, Any]:
    return {"DeviceName": name, "Ebs": {"DeleteOnTermination": ends, "VolumeSize": size}}


@pytest.mark.parametrize(
    ("root_gb", "mappings", "refused", "expected"),
    [
        (None, [mapping("/dev/a", True)], NONE, None),
        (None, [mapping("/dev/a", False)], NONE, [mapping("/dev/a", True)]),
        (None, [mapping("/dev/a", False)], frozenset({VOLUMES}), None),
        (50, [mapping("/dev/a", True)], NONE, [mapping("/dev/a", True, 50)]),
        (50, [], NONE, [mapping("/dev/a", True, 50)]),
        (50, [mapping("/dev/a", False)], frozenset({VOLUMES}), [{"DeviceName": "/dev/a", "Ebs": {"VolumeSize": 50}}]),
        (None, [{"DeviceName": "/dev/sdb", "VirtualName": "ephemeral0"}], NONE, None),
    ],
)
def test_volumes_differ_from_the_images_only_where_they_must(
    root_gb: int | None, mappings: list[dict[str, Any]], refused: frozenset[str], expected: Any
) -> None:
    image = {"RootDeviceName": "/dev/a", "BlockDeviceMappings": mappings}
    assert parameters(refused, image, root_disk_gb=root_gb).get("BlockDeviceMappings") == expected


def test_refused_extras_are_left_out() -> None:
    found = parameters(frozenset({TAGS, SHUTDOWN}))
    assert not {"TagSpecifications", "InstanceInitiatedShutdownBehavior"} & set(found)
    (only,) = parameters(frozenset({VOLUME_TAGS}))["TagSpecifications"]
    assert only["ResourceType"] == "instance"


@pytest.mark.parametrize(
    ("code", "message", "extras"),
    [
        ("UnknownParameter", "The parameter TagSpecification.1.ResourceType is not recognized", {TAGS}),
        ("InvalidParameterValue", "'volume' is not a valid taggable resource type", {VOLUME_TAGS}),
        ("Unsupported", "instanceInitiatedShutdownBehavior is not supported", {SHUTDOWN}),
        ("UnknownParameter", "ClientToken", set()),
        ("UnknownParameter", "An unknown parameter was supplied", {TAGS, VOLUME_TAGS, SHUTDOWN}),
        ("UnknownParameter", "The parameter KeyName is not recognized", set()),
        ("InvalidParameterValue", "Value (x) for parameter imageId is invalid", set()),
        ("InsufficientInstanceCapacity", "no ClientToken helps", set()),
        ("UnauthorizedOperation", "not authorized to TagSpecification", set()),
        ("UnknownError", "ClientToken", set()),
        ("InvalidParameterValue", "ImageId=a&MinCount=1&TagSpecification.2.ResourceType=volume", set()),
        ("InvalidParameterValue", '{"MinCount": 1, "InstanceInitiatedShutdownBehavior": "terminate"}', set()),
    ],
)
def test_a_refusal_names_the_extra_that_it_is_about(code: str, message: str, extras: set[str]) -> None:
    fault = Fault("run_instances", code, message, 400)
    assert refused_extras(fault, parameters()) == extras


def test_a_server_error_is_never_taken_for_a_refusal() -> None:
    fault = Fault("run_instances", "UnknownParameter", "TagSpecification", 500)
    assert refused_extras(fault, parameters()) == NONE


def test_an_extra_that_was_not_sent_is_not_what_was_refused() -> None:
    fault = Fault("run_instances", "UnknownParameter", "TagSpecification", 400)
    refused = frozenset({TAGS})
    assert refused_extras(fault, parameters(refused)) == NONE


def test_secrets_are_all_that_could_be_quoted_back() -> None:
    found = secrets_of(
        {
            "aws_secret_access_key": "key",
            "aws_session_token": "token",
            "user_data": b"\xffdata",
            "proxy": "http://user:pass@proxy:3128",
        }
    )
    assert {"key", "token", "/2RhdGE=", "pass"} <= set(found)


def test_a_size_of_the_users_is_no_extra() -> None:
    image = {"RootDeviceName": "/dev/a"}
    fault = Fault("run_instances", "UnknownParameter", "BlockDeviceMapping", 400)
    assert refused_extras(fault, parameters(NONE, image, root_disk_gb=50)) == {VOLUMES}
    assert refused_extras(fault, parameters(frozenset({VOLUMES}), image, root_disk_gb=50)) == NONE
