"""EC2Cloud against the contract of `Cloud`, over real HTTP to moto behind a gate (`tests.ec2_server`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.ec2.models.instances import StateReason

from elastiq.conformance.cloud import CloudBench, CloudConformance
from elastiq.interfaces import (
    AuthError,
    CapacityError,
    ConfigurationError,
    LaunchError,
    Owner,
    Pool,
    QuotaError,
    ThrottledError,
)
from elastiq.plugins.cloud import ec2_options
from elastiq.plugins.cloud.ec2 import EC2Cloud
from tests.ec2_server import EC2Server, Rule, error, moto_reservations, moto_server

REFUSALS = {
    CapacityError: error("InsufficientInstanceCapacity", "no m5.large left", 500),
    QuotaError: error("VcpuLimitExceeded", "more vCPUs than your limit of 64"),
    ThrottledError: error("RequestLimitExceeded", "Request limit exceeded.", 503),
    ConfigurationError: error("InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist"),
    AuthError: error("UnauthorizedOperation", "You are not authorized to perform this operation.", 403),
}
KEYS = {"aws_access_key_id": "AKIATEST", "aws_secret_access_key": "secret"}
IMAGE = "ami-12c6146b"  # one that moto knows
ACTIONS = {
    "instances": "DescribeInstances",
    "find": "DescribeInstances",
    "terminate": "TerminateInstances",
    "launch": "RunInstances",
    "stop": "StopInstances",
    "flavours": "DescribeInstanceTypes",
}


class MotoBench(CloudBench):
    def __init__(self, server: EC2Server, backdoor: Any) -> None:
        self.server, self.backdoor = server, backdoor
        for reservations in moto_reservations():
            reservations.clear()
        self.head_node = self._add({})
        self.owner = Owner("cms", "0123456789abcdef" * 2, instance_id=self.head_node)
        self._tag(self.head_node, self.owner.head)
        options = {option.name: option.default for option in ec2_options.OPTIONS}
        options.update(api_url=server.url, image_id=IMAGE, read_timeout_s=20.0, **KEYS)
        pool = Pool("ec2", EC2Cloud.site_of(options), ("m5.large",), options=options, markets=("", "spot"))
        self.offers = pool.offers()
        self.cloud = EC2Cloud.from_config((pool,), self.owner)

    def _add(self, extra: dict[str, Any]) -> str:
        made = self.backdoor.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1, **extra)
        return str(made["Instances"][0]["InstanceId"])

    def _tag(self, instance_id: str, head: str) -> None:
        tags = {"elastiq:cluster": self.owner.cluster, "elastiq:head": head}
        self.backdoor.create_tags(
            Resources=[instance_id], Tags=[{"Key": key, "Value": value} for key, value in tags.items()]
        )

    def add_foreign(self) -> str:
        return self._add({})

    def add_other_head(self) -> str:
        instance_id = self._add({})
        self._tag(instance_id, "f" * 32)
        return instance_id

    def add_head_node(self) -> str:
        return self.head_node

    def run(self, instance_id: str) -> None:
        """moto lets them run by itself."""

    def vanish(self, instance_id: str) -> None:
        for reservations in moto_reservations():
            for reservation in reservations.values():
                reservation.instances[:] = [one for one in reservation.instances if one.id != instance_id]

    def rest(self, instance_id: str) -> None:
        """moto stops at once."""

    def refuse_next_start(self, error: type[LaunchError]) -> None:
        self.server.script("StartInstances", REFUSALS[error])

    def take_back(self, instance_id: str) -> None:
        self._moto(instance_id).state_reason = StateReason(
            "Spot instance termination", "Server.SpotInstanceTermination"
        )

    def is_spot(self, instance_id: str) -> bool:
        return bool(self._moto(instance_id).lifecycle == "spot")

    def _moto(self, instance_id: str) -> Any:
        found = (
            one for region in moto_reservations() for reservation in region.values() for one in reservation.instances
        )
        return next(one for one in found if one.id == instance_id)

    def refuse_next_launch(self, error: type[LaunchError]) -> None:
        self.server.script("RunInstances", REFUSALS[error])

    def lose_next_launch_answer(self) -> None:
        self.server.script("RunInstances", Rule(effect=True, drop=True))

    def fail_next(self, call: str) -> None:
        # three in a row: what may be repeated is asked again by botocore
        self.server.script(ACTIONS[call], *[Rule(drop=True)] * 3)

    def garble_next(self, call: str) -> None:
        page = "<html><body>Please log in</body></html>"
        self.server.script(ACTIONS[call], Rule(page, headers=(("Content-Type", "text/html"),)))

    def limit_next_launch(self, count: int) -> None:
        self.server.script("RunInstances", Rule(passes=True, limit=count))


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[EC2Server, Any]]:
    server = moto_server()
    yield server, boto3.client("ec2", region_name="us-east-1", endpoint_url=server.url, **KEYS)  # type: ignore[call-overload]
    server.close()


class TestEC2(CloudConformance):
    cannot = {"tokens": "moto ignores them; test_ec2_http looks at what is sent"}

    @pytest.fixture
    def bench(self, site: tuple[EC2Server, Any]) -> MotoBench:
        return MotoBench(*site)
