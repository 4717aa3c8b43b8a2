"""What may be left empty, but most likely should not: region and flavour."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastiq.plugins.cloud import ec2_rare_values
from elastiq.plugins.cloud.ec2_rare_values import no_flavour, no_region
from tests.unit.config_files import load, with_ec2

FLAVOUR, REGION = "flavour = c5.xlarge\n", "region = eu-west-1\n"
AWS = ("AWS_DEFAULT_REGION", "AWS_DEFAULT_PROFILE", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")


@pytest.fixture(autouse=True)
def nothing_else_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AWS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ec2_rare_values, "INSTANCE", {})
    monkeypatch.setattr(ec2_rare_values, "no_region", no_region)
    monkeypatch.setattr(ec2_rare_values, "no_flavour", no_flavour)


def told(home: Path, lines: str) -> list[str]:
    return [line.split(":", 2)[2].strip() for line in load(home, with_ec2(lines)).warnings]


@pytest.mark.parametrize("lines", [FLAVOUR, f"{FLAVOUR}region =\napi_url =\n", f"{FLAVOUR}profile = cms\n"])
def test_aws_without_a_region_is_warned_of(tmp_path: Path, lines: str) -> None:
    (one,) = told(tmp_path, lines)
    assert one.startswith("[ec2] region: is not set, nor api_url") and "~/.aws/config" in one


@pytest.mark.parametrize("line", [REGION, "api_url = https://cloud.example.org/\n"])
def test_a_region_or_an_endpoint_is_enough(tmp_path: Path, line: str) -> None:
    assert told(tmp_path, FLAVOUR + line) == []


def test_where_botocore_finds_a_region_elsewhere_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = tmp_path / ".aws"
    aws.mkdir()
    (aws / "config").write_text("[default]\noutput = json\n[profile cms]\nregion = eu-west-1\n")
    assert len(told(tmp_path, FLAVOUR)) == 1, "another profile's"
    assert told(tmp_path, f"{FLAVOUR}profile = cms\n") == []
    monkeypatch.setenv("AWS_PROFILE", "cms")
    assert told(tmp_path, FLAVOUR) == []
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert told(tmp_path, FLAVOUR) == []
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    (aws / "config").write_text("neither this nor that\n")
    assert told(tmp_path, FLAVOUR) == [], "that the file is wrong is botocore's to say"


def test_an_instance_of_aws_has_a_region_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = tmp_path / "board_asset_tag"
    monkeypatch.setattr(ec2_rare_values, "INSTANCE", {str(tag): "i-"})
    tag.write_text("Not Specified\n")
    assert len(told(tmp_path, FLAVOUR)) == 1
    tag.write_text("i-0123456789abcdef0\n")
    assert told(tmp_path, FLAVOUR) == []


@pytest.mark.parametrize("endpoint", ["", "api_url = https://ec2.eu-west-1.amazonaws.com\n"])
def test_aws_without_a_flavour_is_warned_of(tmp_path: Path, endpoint: str) -> None:
    for empty in ("", "flavour =\n"):
        (one,) = told(tmp_path, REGION + endpoint + empty)
        assert one.startswith("[ec2] image_id: ") and "set flavour" in one


@pytest.mark.parametrize("line", ["launch_template = workers\n", "api_url = https://cloud.example.org/\n"])
def test_a_template_or_another_cloud_may_have_a_flavour_of_its_own(tmp_path: Path, line: str) -> None:
    assert told(tmp_path, REGION + line) == []
