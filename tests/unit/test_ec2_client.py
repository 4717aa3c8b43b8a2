"""The small client: only the nine operations, and as good as botocore's own for those."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

import botocore.loaders
import botocore.utils
import pytest

from elastiq.plugins.cloud import ec2_client, ec2_regions
from elastiq.plugins.cloud.ec2_client import OPERATIONS, EC2Client, SlimFiles, slim_model
from elastiq.plugins.cloud.ec2_errors import Fault
from elastiq.plugins.cloud.ec2_telling import told

OPTIONS: dict[str, Any] = {
    "api_url": "http://127.0.0.1:9",
    "connect_timeout_s": 3.0,
    "read_timeout_s": 7.0,
    "aws_access_key_id": "AKIATEST",
    "aws_secret_access_key": "verysecret",
}


@pytest.fixture(scope="module")
def stock() -> dict[str, Any]:
    model: dict[str, Any] = botocore.loaders.Loader().load_service_model("ec2", "service-2")
    return model


def shapes(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("shape"), str):
            yield value["shape"]
        for item in value.values():
            yield from shapes(item)


def test_what_is_kept_is_botocores_own_and_complete(stock: dict[str, Any]) -> None:
    slim = slim_model(json.dumps(stock).encode())
    assert slim["metadata"] == stock["metadata"]
    assert slim["operations"] == {name: stock["operations"][name] for name in OPERATIONS}
    assert slim["shapes"] == {name: stock["shapes"][name] for name in slim["shapes"]}
    for user in (slim["operations"], *slim["shapes"].values()):
        assert set(shapes(user)) <= set(slim["shapes"])
    assert len(slim["shapes"]) < len(stock["shapes"]) / 10


def test_the_layout_of_the_file_does_not_matter(stock: dict[str, Any]) -> None:
    assert slim_model(json.dumps(stock, indent=2).encode()) == slim_model(
        json.dumps(stock, separators=(",", ":")).encode()
    )


@pytest.mark.parametrize("text", ["{}", '{"metadata": {}, "operations": {"RunInstances": {}}, "shapes": {}}'])
def test_a_model_of_another_form_is_an_error_and_no_half_a_client(text: str) -> None:
    with pytest.raises(ValueError, match="unknown form"):
        slim_model(text.encode())


def test_a_part_of_any_length_is_read_whole_and_a_broken_one_is_an_error() -> None:
    operations = {"RunInstances": {"name": "RunInstances", "output": {"shape": "Long"}}}
    for length in (10, 20_000, 200_000):
        shapes = {"Long": {"type": "string", "enum": ["\u00fc" * length]}, "Other": {"type": "string"}}
        model = {"metadata": {"apiVersion": "1"}, "operations": operations, "shapes": shapes}
        text = json.dumps(model, ensure_ascii=False)
        assert slim_model(text.encode(), ("RunInstances",))["shapes"] == {"Long": shapes["Long"]}
    with pytest.raises(ValueError, match="unknown form: Long"):
        slim_model(text.replace('"enum"', "enum").encode(), ("RunInstances",))


def test_other_files_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_text('{"a": 1}')
    with gzip.open(tmp_path / "packed.json.gz", "wt") as file:
        file.write('{"b": 2}')
    files, stock = SlimFiles(), botocore.loaders.JSONFileLoader()
    assert files.load_file(str(tmp_path / "plain")) == {"a": 1}
    assert files.load_file(str(tmp_path / "packed")) == stock.load_file(str(tmp_path / "packed"))
    assert files.load_file(str(tmp_path / "none")) is None
    assert files.exists(str(tmp_path / "packed")) is stock.exists(str(tmp_path / "packed"))  # botocore 1.23 cannot
    assert not files.exists(str(tmp_path / "none"))


@pytest.mark.parametrize(("knows", "region"), [(True, "eu-north-1"), (False, None)])
def test_the_region_of_the_instance_is_asked_for_where_botocore_can(
    monkeypatch: pytest.MonkeyPatch, knows: bool, region: Optional[str]
) -> None:
    """Ubuntu 22.04's botocore has no such class; without a region it says itself that there is none."""

    class Fetcher:
        def __init__(self, **_: Any) -> None:
            pass

        def retrieve_region(self) -> str:
            return "eu-north-1"

    class Session:
        def get_config_variable(self, name: str) -> None:
            assert name == "region"

    monkeypatch.delattr(botocore.utils, "InstanceMetadataRegionFetcher", raising=False)
    if knows:
        monkeypatch.setattr(botocore.utils, "InstanceMetadataRegionFetcher", Fetcher, raising=False)
    assert ec2_regions.region_of({}, Session()) == region
    assert ec2_regions.region_of({"region": "us-east-2"}, Session()) == "us-east-2"
    assert ec2_regions.region_of({"api_url": "https://ec2.eu-west-3.example.org"}, Session()) == "eu-west-3"


def test_without_a_table_of_partitions_the_endpoints_are_botocores(tmp_path: Path) -> None:
    (tmp_path / "endpoints.json").write_text('{"partitions": []}')
    assert SlimFiles().load_file(str(tmp_path / "endpoints")) == {"partitions": []}


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-west-1", "https://ec2.eu-west-1.amazonaws.com"),
        ("cn-north-1", "https://ec2.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", "https://ec2.us-gov-west-1.amazonaws.com"),
    ],
)
def test_without_an_api_url_the_region_gives_the_endpoint(region: str, url: str) -> None:
    once, repeating = EC2Client({**OPTIONS, "api_url": None, "region": region})._clients()
    assert once.meta.endpoint_url == repeating.meta.endpoint_url == url
    assert once.meta.region_name == region


def test_a_launch_has_one_attempt_and_reads_botocores_standard() -> None:
    once, repeating = EC2Client(OPTIONS)._clients()
    assert once.meta.config.retries["total_max_attempts"] == 1
    assert repeating.meta.config.retries["total_max_attempts"] == 3
    for client in (once, repeating):
        assert (client.meta.config.connect_timeout, client.meta.config.read_timeout) == (3.0, 7.0)
        assert client.meta.config.retries["mode"] == "standard"


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://fcu.eu-west-2.outscale.com", "eu-west-2"),
        ("https://ec2.us-gov-east-1.amazonaws.com", "us-gov-east-1"),
        ("http://cloud.example.org:8773/services/Cloud", "us-east-1"),
        ("http://10.1.2.3:8773/", "us-east-1"),
    ],
)
def test_a_url_without_a_region_is_signed_for_the_one_in_its_name_or_a_placeholder(
    url: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    once, _ = EC2Client({**OPTIONS, "api_url": url})._clients()
    assert (once.meta.region_name, once.meta.endpoint_url) == (region, url)


def test_what_stops_a_client_from_being_made_is_a_fault_that_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(Fault) as caught:
        EC2Client({**OPTIONS, "profile": "none-such"}).call("describe_instances")
    assert (caught.value.code, caught.value.sent) == ("ProfileNotFound", False)
    text = told(caught.value, "aws")
    assert "none-such" in text and "credentials_file" in text and "~/.aws/credentials" in text, "what is to be mended"


def test_threads_that_come_together_share_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = ec2_client._make_clients

    def counted(options: Mapping[str, Any]) -> tuple[Any, Any]:
        made.append(options)
        return make(options)

    monkeypatch.setattr(ec2_client, "_make_clients", counted)
    client = EC2Client(OPTIONS)
    with ThreadPoolExecutor(8) as threads:
        found = {id(one) for one, _ in threads.map(lambda _: client._clients(), range(8))}
    assert len(found) == len(made) == 1


def test_a_client_shows_no_secret() -> None:
    assert "verysecret" not in repr(EC2Client(OPTIONS)) + str(EC2Client(OPTIONS))


def test_neither_the_plugin_nor_making_a_site_imports_botocore_or_the_checks() -> None:
    code = (
        "import sys\n"
        "from elastiq.interfaces import Owner, Pool\n"
        "from elastiq.plugins.cloud.ec2 import EC2Cloud\n"
        "values = {option.name: option.default for option in EC2Cloud.OPTIONS}\n"
        "EC2Cloud.from_config((Pool('p', 's', ('f',), options=values),), Owner('c', 'h'))\n"
        "print([name for name in sys.modules if name.startswith('boto') or name.endswith('ec2_checks')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
