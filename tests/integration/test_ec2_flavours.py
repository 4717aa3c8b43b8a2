"""The catalogue of flavours: what it makes of an answer, and whom it asks for what."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.interfaces import Resources
from tests.ec2_server import EC2Server, answer, cloud_at, error


@pytest.fixture(scope="module")
def shared() -> Any:
    server = EC2Server()
    yield server
    server.close()


@pytest.fixture
def server(shared: EC2Server) -> EC2Server:
    shared.forget()
    return shared


ACTION = "DescribeInstanceTypes"


def item(name: str, cpus: str = "4", mib: str = "16384", more: str = "") -> str:
    return (
        f"<item><instanceType>{name}</instanceType><vCpuInfo><defaultVCpus>{cpus}</defaultVCpus></vCpuInfo>"
        f"<memoryInfo><sizeInMiB>{mib}</sizeInMiB></memoryInfo>{more}</item>"
    )


def types(*items: str, token: str = "") -> Any:
    more = f"<nextToken>{token}</nextToken>" if token else ""
    return answer(ACTION, f"<instanceTypeSet>{''.join(items)}</instanceTypeSet>{more}")


def gpus(inner: str) -> str:
    return f"<gpuInfo><gpus><item>{inner}</item></gpus></gpuInfo>"


def test_sizes_are_cores_mib_and_gpus_and_the_disk_stays_unsaid(server: EC2Server) -> None:
    disks = "<instanceStorageInfo><totalSizeInGB>125</totalSizeInGB></instanceStorageInfo>"
    part = gpus("<count>1</count><logicalGpuCount>1</logicalGpuCount><gpuPartitionSize>0.125</gpuPartitionSize>")
    rows = [item("plain", more=disks), item("two", more=gpus("<count>2</count>")), item("part", more=part)]
    server.script(ACTION, types(*rows))
    assert cloud_at(server.url, dialect="aws").flavours(["plain", "two", "part"]) == {
        "plain": Resources(4.0, 16384.0, None, 0.0),
        "two": Resources(4.0, 16384.0, None, 2.0),
        "part": Resources(4.0, 16384.0, None, 1.0),
    }


def test_a_row_without_a_size_leaves_it_unsaid(server: EC2Server) -> None:
    server.script(ACTION, types("<item><instanceType>odd</instanceType></item>"))
    assert cloud_at(server.url, dialect="aws").flavours(["odd"]) == {"odd": Resources(None, None, None, 0.0)}


def test_an_unknown_name_spoils_no_other_and_is_left_out(server: EC2Server) -> None:
    server.script(ACTION, types(item("known"), item("known-too-but-not-asked-for")))
    assert set(cloud_at(server.url, dialect="aws").flavours(["known", "none", "known", ""])) == {"known"}
    (asked,) = server.asked(ACTION)
    assert {key: value for key, value in asked.items() if key.startswith("Filter")} == {
        "Filter.1.Name": "instance-type",
        "Filter.1.Value.1": "known",
        "Filter.1.Value.2": "none",
    }
    assert not [key for key in asked if key.startswith("InstanceType")]


def test_many_names_are_asked_for_by_the_hundred_and_all_pages_count(server: EC2Server) -> None:
    names = [f"f{number:03}" for number in range(150)]
    server.script(ACTION, types(item("f000"), token="more"), types(item("f099")), types(item("f149")))
    assert set(cloud_at(server.url, dialect="aws").flavours(names)) == {"f000", "f099", "f149"}
    values = [sum(key.startswith("Filter.1.Value.") for key in asked) for asked in server.asked(ACTION)]
    assert values == [100, 100, 50]
    assert server.asked(ACTION)[1]["NextToken"] == "more"


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "AccessDenied", "InvalidAction"])
def test_who_may_not_ask_is_told_once_and_asks_no_more(
    server: EC2Server, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    server.script(ACTION, error(code, "not authorized to perform: ec2:DescribeInstanceTypes", 403))
    cloud = cloud_at(server.url, dialect="aws")
    assert [cloud.flavours(["m5.large"]), cloud.flavours(["m5.large"])] == [{}, {}]
    assert len(server.asked(ACTION)) == 1
    (warning,) = caplog.messages
    assert warning.startswith(f"the sizes of flavours are not available: {ACTION} at site: {code}: not authorized")


def test_eucalyptus_answers_in_its_own_form(server: EC2Server) -> None:
    rows = "".join(
        f"<item><name>{name}</name><cpu>2</cpu><disk>10</disk><memory>512</memory><availability/></item>"
        for name in ("m1.large", "c1.medium")
    )
    server.script(ACTION, answer(ACTION, f"<instanceTypeDetails>{rows}</instanceTypeDetails>"))
    cloud = cloud_at(f"{server.url}/services/compute", dialect="eucalyptus")
    assert cloud.flavours(["m1.large", "none"]) == {"m1.large": Resources(2.0, 512.0, None, None)}
    assert set(server.asked(ACTION)[0]) == {"Action", "Version"}


@pytest.mark.parametrize("dialect", ["openstack-ec2api", "opennebula", "outscale"])
def test_a_cloud_without_a_catalogue_is_not_asked(server: EC2Server, dialect: str) -> None:
    assert cloud_at(server.url, dialect=dialect).flavours(["m1.small"]) == {}
    assert server.requests == []
