"""The table of dialects, and which of them a site speaks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from elastiq.interfaces import Owner, Pool
from elastiq.plugins.cloud.ec2 import EC2Cloud
from elastiq.plugins.cloud.ec2_alikes import AlikeCloud, spoken
from elastiq.plugins.cloud.ec2_dialects import TABLE, dialect_of
from elastiq.plugins.cloud.ec2_options import OPTIONS
from elastiq.plugins.cloud.ec2_request import SHUTDOWN, TAGS, VOLUME_TAGS, VOLUMES
from tests.unit.config_files import load, with_ec2

CLOUDS = Path(__file__).resolve().parents[2] / "docs" / "clouds.md"
NAMES = ["aws", "eucalyptus", "generic", "openstack-ec2api", "opennebula", "outscale"]
VALUES = {
    "endpoints": ".*",
    "path": "(/.*)?",
    "signature": "v2|v4",
    "api_version": r"(\d{4}-\d\d-\d\d)?",
    "tags": "launch|after|either|none",
    "tokens": "shown|unknown",
    "without": "(({0})(, ({0}))*)?".format("|".join((TAGS, VOLUME_TAGS, SHUTDOWN, VOLUMES))),
    "pages": "yes|no",
    "status": "yes|no",
    "types": "ec2|eucalyptus|no",
    "stop": "yes|no",
    "spot": "yes|no",
    "dry_run": "yes|no",
    "ids": "(numbers)?",
}


def options(**given: Any) -> dict[str, Any]:
    return {**{option.name: option.default for option in OPTIONS}, **given}


def test_the_table_has_all_dialects_and_a_known_value_for_every_key() -> None:
    assert sorted(TABLE.sections()) == sorted(NAMES)
    for name in NAMES:
        assert set(TABLE[name]) == set(VALUES)
        for key, form in VALUES.items():
            assert re.fullmatch(form, TABLE[name][key]), f"[{name}] {key}"
        re.compile(TABLE[name]["endpoints"])


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (None, "aws"),
        ("https://ec2.eu-west-1.amazonaws.com", "aws"),
        ("https://ec2.cn-north-1.amazonaws.com.cn/", "aws"),
        ("https://ec2.eu-west-1.api.aws", "aws"),
        ("https://fcu.eu-west-2.outscale.com", "outscale"),
        ("https://FCU.cloudgouv-eu-west-1.outscale.com/", "outscale"),
        ("http://cloud.example.org:8773/services/Eucalyptus", "eucalyptus"),
        ("http://cloud.example.org:8773/services/compute/", "eucalyptus"),
        ("http://cloud.example.org:8773/services/Cloud", "generic"),
        ("https://amazonaws.com.example.org/", "generic"),
        ("https://example.org/amazonaws.com/", "generic"),
        ("https://example.org/.outscale.com/", "generic"),
        ("http://10.0.0.1:4567/", "generic"),
        ("http://127.0.0.1:5000", "generic"),
    ],
)
def test_an_endpoint_tells_its_dialect_only_if_it_can_be_no_other(url: str | None, name: str) -> None:
    found, why = dialect_of(options(api_url=url))
    assert (found.name, why.partition(":")[0]) == (name, f"dialect {name}")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_set_counts_whatever_the_endpoint_says(name: str) -> None:
    found, why = dialect_of(options(api_url="https://ec2.eu-west-1.amazonaws.com", dialect=name))
    assert (found.name, why) == (name, f"dialect {name}: set by `dialect`")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://cloud.example.org:8773", "http://cloud.example.org:8773/services/compute"),
        ("http://cloud.example.org:8773/", "http://cloud.example.org:8773/services/compute"),
        ("http://cloud.example.org:8773/services/Eucalyptus", "http://cloud.example.org:8773/services/Eucalyptus"),
    ],
)
def test_the_dialects_path_is_for_an_api_url_without_one(url: str, expected: str) -> None:
    assert spoken(options(api_url=url), TABLE["eucalyptus"])["api_url"] == expected
    assert spoken(options(api_url=url), TABLE["generic"])["api_url"] == url


def test_an_api_version_that_is_set_is_stronger_than_the_dialects() -> None:
    table = TABLE["eucalyptus"]
    assert spoken(options(), table)["api_version"] == "2013-02-01"
    assert spoken(options(api_version="2012-12-01"), table)["api_version"] == "2012-12-01"
    assert spoken(options(), TABLE["outscale"])["api_version"] is None


@pytest.mark.parametrize("name", NAMES)
def test_a_site_begins_with_what_the_table_says(name: str) -> None:
    values = options(dialect=name, api_url="http://127.0.0.1:9")
    cloud = EC2Cloud.from_config((Pool("p", "s", ("f",), options=values),), Owner("c", "h" * 32))
    assert isinstance(cloud, AlikeCloud) is (name != "aws")
    assert cloud.capabilities.tags is (TABLE[name]["tags"] != "none")
    assert cloud.capabilities.instance_problems is (TABLE[name]["status"] == "yes")
    assert cloud.capabilities.stop is (TABLE[name]["stop"] == "yes")
    assert EC2Cloud.about(values) == f"dialect {name}: set by `dialect`"


def test_the_dialect_and_why_are_logged_once_for_a_site(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "elastiq")
    pools = (Pool("p", "here", ("f",), options=options()), Pool("q", "here", ("f",), options=options()))
    EC2Cloud.from_config(pools, Owner("c", "h" * 32))
    assert caplog.messages == ["here: dialect aws: its endpoint's"]


def test_the_administrators_table_says_what_the_daemons_table_says() -> None:
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in CLOUDS.read_text("utf-8").splitlines()]
    told = {row[0]: row[1:] for row in rows if row and row[0] in NAMES}
    words = {
        "tags": {"launch": "at launch", "after": "after launch", "either": "found out", "none": "no"},
        "tokens": {"shown": "yes", "unknown": "found out"},
    }
    for name in NAMES:
        table = TABLE[name]
        volumes = "no" if VOLUMES in table["without"] else "yes"
        shutdown = "no" if SHUTDOWN in table["without"] else "yes"
        assert told[name] == [
            words["tags"][table["tags"]], words["tokens"][table["tokens"]], volumes, shutdown, table["pages"],
            table["status"], table["signature"], "no" if table["types"] == "no" else "yes", table["stop"],
            table["spot"], table["dry_run"],
        ], name  # fmt: skip


@pytest.mark.parametrize(
    ("url", "dialect", "own"),
    [
        ("https://ec2.eu-west-1.amazonaws.com", "eucalyptus", "aws"),
        ("https://ec2.eu-west-1.amazonaws.com", "aws", ""),
        ("https://ec2.eu-west-1.amazonaws.com", "auto", ""),
        ("https://ec2.eu-west-1.amazonaws.com", "generic", ""),  # it claims nothing
        ("", "outscale", "aws"),
        ("https://fcu.eu-west-2.outscale.com", "aws", "outscale"),
        ("http://cloud.example.org:8773/services/compute", "opennebula", "eucalyptus"),
        ("http://127.0.0.1:5000", "aws", ""),  # a cloud that is compatible
        ("https://cloud.example.org/", "openstack-ec2api", ""),
    ],
)
def test_a_dialect_that_is_surely_not_its_endpoints_is_warned_of(
    tmp_path: Path, url: str, dialect: str, own: str
) -> None:
    loaded = load(tmp_path, with_ec2(f"api_url = {url}\ndialect = {dialect}\n[ec2:more]\nmax_vms = 2\n"))
    endpoint = f"but api_url is an endpoint of {own}: correct one, or leave `dialect` out"
    warnings = [f"{tmp_path / 'elastiq.conf'}:6: [ec2] dialect: is {dialect}, {endpoint}"] if own else []
    assert [warning for warning in loaded.warnings if "dialect" in warning] == warnings
