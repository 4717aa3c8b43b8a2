"""Single ways of single clouds, over HTTP to the plugin alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from elastiq.interfaces import AuthError, EndOutcome, InstanceState, Intent, Owner, Pool, TransientError
from elastiq.plugins.cloud.ec2 import EC2Cloud
from tests.ec2_server import EC2Server, Rule, error
from tests.integration.ec2_dialects.behaviours import (
    EC2API,
    EUCALYPTUS,
    EVERY,
    FORGETFUL,
    NOVA,
    OPENNEBULA,
    OUTSCALE,
    UNHEARD,
    Behaviour,
)
from tests.integration.ec2_dialects.server import SECRET, FakeCloud
from tests.looks import by_subject

NONE: frozenset[str] = frozenset()
OWNER = Owner("cms", "0123456789abcdef" * 2)


class Site:
    """A cloud and the plugin that speaks to it; a second plugin is the daemon after a restart."""

    def __init__(self, server: EC2Server, way: Behaviour, *pools: str, **options: Any) -> None:
        self.fake, self.server = FakeCloud(way), server
        server.forget()
        server.behind = self.fake.app
        values = {option.name: option.default for option in EC2Cloud.OPTIONS}
        dialect = "auto" if way.dialect == "generic" else way.dialect
        values.update(api_url=server.url + way.path, image_id="ami-00000001", dialect=dialect, read_timeout_s=5.0)
        values.update({"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": SECRET, **options})
        self.pools = tuple(Pool(name, "s", ("m1.small",), options=values) for name in pools or ("ec2",))
        self.cloud = self.restarted()

    def restarted(self) -> EC2Cloud:
        return EC2Cloud.from_config(self.pools, OWNER)

    def intent(self, name: str = "i1", count: int = 1, pool: int = 0) -> Intent:
        return Intent(name, OWNER.token_prefix + name, self.pools[pool].offers()[0], count, 0.0)

    def tags(self) -> list[dict[str, str]]:
        return [one.tags for one in self.fake.of("us").values()]


@pytest.fixture(scope="module")
def server() -> Iterator[EC2Server]:
    server = EC2Server(as_asked=True)
    yield server
    server.close()


@pytest.mark.parametrize("way", [EC2API, EUCALYPTUS, OUTSCALE, FORGETFUL], ids=lambda way: str(way.dialect))
def test_tags_come_with_the_first_listing_all_of_them_in_one_call(server: EC2Server, way: Behaviour) -> None:
    site = Site(server, way, tags={"Project": "x"})
    site.cloud.instances(NONE)
    site.cloud.launch(site.intent(count=3))
    assert [one.head for one in site.cloud.instances(NONE).owned] == [""] * 3
    wanted = {
        "elastiq:cluster": "cms", "elastiq:head": OWNER.head, "elastiq:pool": "ec2", "elastiq:intent": "i1",
        "Project": "x", "Name": "cms-ec2-i1",
    }  # fmt: skip
    assert site.tags() == [wanted] * 3
    assert [(one.head, one.pool) for one in site.cloud.instances(NONE).owned] == [(OWNER.head, "ec2")] * 3
    assert len(server.asked("CreateTags")) == 1


def test_after_a_restart_what_has_no_tags_yet_gets_them_by_its_token(server: EC2Server) -> None:
    site = Site(server, EC2API)
    site.cloud.launch(site.intent("i7"))
    site.restarted().instances(NONE)
    assert site.tags()[0]["elastiq:intent"] == "i7" and site.tags()[0]["elastiq:pool"] == "ec2"


def test_of_several_pools_the_right_one_is_told_or_none(server: EC2Server) -> None:
    site = Site(server, EC2API, "a", "b")
    site.cloud.launch(site.intent("i1", pool=1))
    site.cloud.instances(NONE)
    site.cloud.launch(site.intent("i2", pool=1))
    site.restarted().instances(NONE)
    first, second = site.tags()
    assert first["elastiq:pool"] == "b"
    assert "elastiq:pool" not in second and second["elastiq:head"] == OWNER.head


def test_an_instance_that_create_tags_does_not_know_yet_is_tried_again(server: EC2Server) -> None:
    site = Site(server, EC2API)
    site.cloud.launch(site.intent())
    server.script("CreateTags", error("InvalidInstanceID.NotFound"), *[Rule("", 500)] * 3)
    for _ in range(3):
        assert len(site.cloud.instances(NONE).owned) == 1, "the listing is good all the same"
    assert site.tags()[0]["elastiq:head"] == OWNER.head and site.cloud.capabilities.tags


def test_a_cloud_that_says_yes_and_shows_no_tags_is_asked_three_times_only(server: EC2Server) -> None:
    site = Site(server, EC2API)
    site.cloud.launch(site.intent(count=2))
    server.script("CreateTags", *[Rule("<CreateTagsResponse><return>true</return></CreateTagsResponse>")] * 9)
    for _ in range(6):
        assert len(site.cloud.instances(NONE).owned) == 2
    assert len(server.asked("CreateTags")) == 3


def test_neither_foreign_nor_ended_instances_get_tags(server: EC2Server) -> None:
    site = Site(server, EUCALYPTUS)
    (ours,) = (one.id for one in site.cloud.launch(site.intent()))
    site.cloud.terminate([ours])
    site.cloud.instances(NONE)
    assert server.asked("CreateTags") == []


def test_ec2_api_is_recognised_by_a_listing_before_the_first_launch(
    server: EC2Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "elastiq")
    site = Site(server, replace(EC2API, dialect="generic"))
    site.cloud.instances(NONE)
    assert "dialect openstack-ec2api: it takes no parameter that it does not know" in caplog.text
    site.cloud.launch(site.intent())
    site.cloud.instances(NONE)
    assert site.tags()[0]["elastiq:head"] == OWNER.head
    assert [request for request in site.fake.complaints if request.startswith("RunInstances")] == []


def test_what_a_launch_is_refused_for_is_left_out_of_the_next(server: EC2Server) -> None:
    site = Site(server, UNHEARD)
    site.cloud.instances(NONE)
    for name in ("i1", "i2"):
        with pytest.raises(TransientError) as caught:
            site.cloud.launch(site.intent(name))
        assert caught.value.launched_nothing and caught.value.retry_s == 0
    (made,) = site.cloud.launch(site.intent("i3"))
    assert [one.id for one in site.cloud.instances(NONE).owned] == [made.id]
    assert not site.cloud.capabilities.tags and site.cloud.capabilities.find


def test_a_cloud_without_tags_and_tokens_is_known_for_it(server: EC2Server, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(server, NOVA)
    (made,) = site.cloud.launch(site.intent())
    for _ in range(3):
        assert [one.id for one in site.cloud.instances(frozenset({made.id})).owned] == [made.id]
    assert not site.cloud.capabilities.find
    assert caplog.text.count("only the state directory tells which instances are ours") == 1
    assert site.cloud.instances(NONE).owned == ()
    assert site.cloud.terminate([made.id])[made.id].outcome is EndOutcome.ENDING


def test_an_id_of_opennebula_is_one_in_all_its_spellings(server: EC2Server) -> None:
    site = Site(server, OPENNEBULA)
    made = [one.id for one in site.cloud.launch(site.intent(count=2))]
    assert made == ["i-9", "i-10"]
    for _ in range(3):
        listed = site.cloud.instances(NONE).owned
    assert [one.id for one in listed] == made
    assert listed[0].addresses == {"10.9.0.10", "10.8.0.9"}, "of both its interfaces"
    assert {one.outcome for one in site.cloud.terminate(made).values()} == {EndOutcome.ENDING}
    assert server.asked("TerminateInstances")[0]["InstanceId.2"] == "i-10"


def test_signatures_of_version_2_are_made_with_the_key(server: EC2Server) -> None:
    site = Site(server, OPENNEBULA)
    site.cloud.instances(NONE)
    assert server.requests[0]["SignatureVersion"] == "2" and SECRET not in str(server.requests)
    with pytest.raises(AuthError):
        Site(server, OPENNEBULA, aws_secret_access_key="another").cloud.instances(NONE)
    with pytest.raises(AuthError):
        Site(server, OPENNEBULA, dialect="generic").cloud.instances(NONE)


def test_a_version_that_eucalyptus_does_not_know_makes_states_unknown_and_the_dialects_own_does_not(
    server: EC2Server,
) -> None:
    site = Site(server, EUCALYPTUS)
    site.cloud.launch(site.intent())
    for version, state in ((None, InstanceState.PENDING), ("2016-11-15", InstanceState.UNKNOWN)):
        values = {**site.pools[0].options, "api_version": version}
        cloud = EC2Cloud.from_config((replace(site.pools[0], options=values),), OWNER)
        assert [one.state for one in cloud.instances(NONE).owned] == [state]


@pytest.mark.parametrize("name", EVERY)
def test_checks_name_the_dialect_and_launch_nothing(server: EC2Server, name: str) -> None:
    site = Site(server, EVERY[name])
    mine = site.fake.add("us", "running", token=f"{OWNER.token_prefix}i1")  # one without tags, where they come later
    site.cloud.read_only = True
    checks = by_subject(site.cloud.checks())
    endpoint = checks["endpoint and credentials"]
    assert endpoint.level == "ok" and f"(dialect {EVERY[name].dialect}: " in endpoint.text
    tried = EVERY[name].dialect in ("aws", "outscale")
    assert checks[f"pool {site.pools[0].name}: dry run of a launch"].level == ("ok" if tried else "warning")
    assert {check.level for check in checks.values() if "dry run" in check.text} <= {"ok", "warning"}
    assert [*site.fake.of("us")] == [mine] and site.fake.ended == site.fake.tagged == []
    asked = [request for request in server.requests if not request["Action"].startswith("Describe")]
    assert all(request.get("DryRun") == "true" for request in asked) and bool(asked) == tried
    site.cloud.instances(NONE)
    assert site.fake.tagged == [], "who only looks writes no tags"
