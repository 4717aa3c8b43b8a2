"""The contract of `Cloud` over HTTP to a server of each dialect of EC2's language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from elastiq.conformance.cloud import CloudBench, CloudConformance
from elastiq.interfaces import Instance, LaunchError, Owner, Pool
from elastiq.plugins.cloud import ec2_options
from elastiq.plugins.cloud.ec2 import EC2Cloud
from tests.conformance.test_cloud_ec2 import ACTIONS, REFUSALS
from tests.ec2_server import EC2Server, Rule
from tests.integration.ec2_dialects import behaviours
from tests.integration.ec2_dialects.behaviours import Behaviour
from tests.integration.ec2_dialects.server import SECRET, FakeCloud


class DialectBench(CloudBench):
    def __init__(self, way: Behaviour, server: EC2Server) -> None:
        self.fake = FakeCloud(way)
        self.fake.machines.clear()  # the suite starts with nobody's
        self.server = server
        server.forget()
        server.behind = self.fake.app
        self.head_node = self.fake.add("them", "running")
        self.owner = Owner("cms", "0123456789abcdef" * 2, instance_id=self.head_node)
        self._tag(self.head_node, self.owner.head)
        options = {option.name: option.default for option in ec2_options.OPTIONS}
        dialect = way.dialect if way.dialect != "generic" else "auto"
        options.update(api_url=self.server.url + way.path, image_id="ami-00000001", dialect=dialect)
        options.update(aws_access_key_id="AKIAEXAMPLE", aws_secret_access_key=SECRET, read_timeout_s=20.0)
        markets = ("", "spot") if way.spot else ("",)
        pool = Pool("ec2", EC2Cloud.site_of(options), ("m5.large",), options=options, markets=markets)
        self.offers = pool.offers()
        self.cloud = EC2Cloud.from_config((pool,), self.owner)

    def owned(self, known: frozenset[str] = frozenset()) -> dict[str, Instance]:
        """Where CreateTags gives the tags, it does so at the first listing, and the next one shows them."""
        if "launch" not in self.fake.way.tags:
            super().owned(known)
        return super().owned(known)

    def _tag(self, instance_id: str, head: str) -> None:
        tags = {"elastiq:cluster": self.owner.cluster, "elastiq:head": head}
        self.fake.machines[instance_id].tags.update(tags)

    def add_foreign(self) -> str:
        return self.fake.add("them", "running")

    def add_other_head(self) -> str:
        instance_id = self.fake.add("them", "running")
        self._tag(instance_id, "f" * 32)
        return instance_id

    def add_head_node(self) -> str:
        return self.head_node

    def run(self, instance_id: str) -> None:
        self.fake.machines[instance_id].state = "running"

    def vanish(self, instance_id: str) -> None:
        del self.fake.machines[instance_id]

    def rest(self, instance_id: str) -> None:
        self.fake.machines[instance_id].state = "stopped"

    def refuse_next_start(self, error: type[LaunchError]) -> None:
        self.server.script("StartInstances", REFUSALS[error])

    def take_back(self, instance_id: str) -> None:
        self.fake.machines[instance_id].state = "shutting-down"
        self.fake.machines[instance_id].reason = "Server.SpotInstanceTermination"

    def is_spot(self, instance_id: str) -> bool:
        return self.fake.machines[instance_id].spot

    def refuse_next_launch(self, error: type[LaunchError]) -> None:
        self.server.script("RunInstances", REFUSALS[error])

    def lose_next_launch_answer(self) -> None:
        self.server.script("RunInstances", Rule(effect=True, drop=True))

    def fail_next(self, call: str) -> None:
        self.server.script(ACTIONS[call], *[Rule(drop=True)] * 3)

    def garble_next(self, call: str) -> None:
        page = "<html><body>Please log in</body></html>"
        self.server.script(ACTIONS[call], Rule(page, headers=(("Content-Type", "text/html"),)))

    def limit_next_launch(self, count: int) -> None:
        self.fake.room = count


@pytest.fixture(scope="module")
def server() -> Iterator[EC2Server]:
    server = EC2Server(as_asked=True)
    yield server
    server.close()


class Dialect(CloudConformance):
    """The bench of all of them. They are not collected from here: the name is no test's."""

    way: Behaviour

    @pytest.fixture
    def bench(self, server: EC2Server) -> DialectBench:
        return DialectBench(self.way, server)


class TestAWS(Dialect):
    way = behaviours.AWS


NO_SPOT = {"market": "it sells no spot machines", "notice": "it sells no spot machines"}
NO_TOKENS = {"tokens": "it ignores ClientToken"}
NO_CATALOGUE = {"flavours": "it has no DescribeInstanceTypes"}


class TestEucalyptus(Dialect):
    way, cannot = behaviours.EUCALYPTUS, {**NO_SPOT, **NO_TOKENS}


class TestOpenStack(Dialect):
    way, cannot = behaviours.EC2API, {**NO_SPOT, **NO_CATALOGUE}


class TestOpenNebula(Dialect):
    way = behaviours.OPENNEBULA
    cannot = {
        **NO_SPOT,
        **NO_TOKENS,
        **NO_CATALOGUE,
        "tags": "econe has no CreateTags",
        "adopt": "econe has no CreateTags",
        "stop": "econe has no StopInstances",
    }


class TestOutscale(Dialect):
    way, cannot = behaviours.OUTSCALE, {**NO_SPOT, **NO_CATALOGUE}


class TestGeneric(Dialect):
    way, cannot = replace(behaviours.FORGETFUL, ended="all"), NO_SPOT
