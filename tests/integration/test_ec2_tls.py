"""Certificates of clouds: private authorities, and what a person is told when one is not trusted."""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from elastiq.interfaces import ConfigurationError, SourceError, TransientError
from elastiq.plugins.cloud import ec2_answers
from elastiq.plugins.cloud.ec2_errors import Fault
from tests.ec2_server import EC2Server, Rule, cloud_at, instances, intent
from tests.integration.certificates import Authority
from tests.waiting import PATIENCE_S

NONE: frozenset[str] = frozenset()
WHAT_TO_DO = "(check api_url, ca_bundle and the head node's clock)"


@pytest.fixture(autouse=True)
def no_bundle_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def listening(authority: Authority) -> Iterator[EC2Server]:
    server = EC2Server(tls=authority.server("127.0.0.1", "localhost"))
    yield server
    server.close()


@pytest.fixture
def server(listening: EC2Server) -> EC2Server:
    listening.forget()
    listening.script("DescribeInstances", *[instances()] * 3)
    return listening


def refusal(url: str, **options: object) -> str:
    """What both a read and a launch say, which surely did not take effect."""
    cloud = cloud_at(url, **options)
    with pytest.raises(SourceError) as read:
        cloud.instances(NONE)
    with pytest.raises(ConfigurationError) as launch:
        cloud.launch(intent())
    assert launch.value.launched_nothing
    text = str(read.value)
    assert "\n" not in text and text.startswith("DescribeInstances at site: SSLError: ") and text.endswith(WHAT_TO_DO)
    return text


def test_a_private_authority_is_not_trusted_by_default_and_the_key_to_set_is_named(server: EC2Server) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in refusal(server.url)
    assert server.requests == []


def test_a_private_authority_is_trusted_where_ca_bundle_names_it(server: EC2Server, authority: Authority) -> None:
    assert cloud_at(server.url, ca_bundle=authority.bundle).instances(NONE).owned == ()
    assert cloud_at(server.url.replace("127.0.0.1", "localhost"), ca_bundle=authority.bundle).instances(NONE)
    assert len(server.requests) == 2


def test_botos_own_variable_names_the_bundle_where_the_configuration_does_not(
    server: EC2Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", authority.bundle)
    assert cloud_at(server.url).instances(NONE).owned == ()
    assert len(server.requests) == 1


def test_a_bundle_may_hold_several_authorities(server: EC2Server, authority: Authority, tmp_path: Path) -> None:
    bundle = tmp_path / "all.pem"
    parts = (Authority(tmp_path, "Another").bundle, authority.bundle)
    bundle.write_text("\n# ours\n".join(Path(part).read_text() for part in parts))
    assert cloud_at(server.url, ca_bundle=str(bundle)).instances(NONE).owned == ()


def test_the_root_is_enough_where_the_server_sends_what_is_between(tmp_path: Path) -> None:
    root = Authority(tmp_path, "Root")
    between = Authority(tmp_path, "Between", issuer=root)
    server = EC2Server(tls=between.server("127.0.0.1"))
    server.script("DescribeInstances", instances())
    try:
        assert cloud_at(server.url, ca_bundle=root.bundle).instances(NONE).owned == ()
    finally:
        server.close()


def test_another_authority_is_not_trusted(server: EC2Server, tmp_path: Path) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in refusal(server.url, ca_bundle=Authority(tmp_path).bundle)
    assert server.requests == []


@pytest.mark.parametrize(
    ("names", "days_left", "said"),
    [
        (("ec2.example.org",), 1, r"Hostname mismatch|IP address mismatch|doesn't match"),
        (("127.0.0.1",), -1, "certificate has expired"),
    ],
)
def test_a_certificate_for_another_name_or_of_the_past_is_refused_with_its_reason(
    tmp_path: Path, names: tuple[str, ...], days_left: int, said: str
) -> None:
    own = Authority(tmp_path)
    server = EC2Server(tls=own.server(*names, days_left=days_left))
    try:
        assert re.search(said, refusal(server.url, ca_bundle=own.bundle))
        assert server.requests == []
    finally:
        server.close()


@pytest.mark.parametrize("content", [None, "", "this is no certificate\n"])
def test_a_bundle_that_is_none_is_told_as_such(server: EC2Server, tmp_path: Path, content: str | None) -> None:
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)
    assert re.search("NO_CERTIFICATE_OR_CRL_FOUND|No such file", refusal(server.url, ca_bundle=str(bundle)))
    assert server.requests == []


def test_a_bundle_that_is_mended_is_taken_up_without_a_restart(
    server: EC2Server, authority: Authority, tmp_path: Path
) -> None:
    bundle = Authority(tmp_path).bundle
    cloud = cloud_at(server.url, ca_bundle=bundle)
    with pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
        cloud.instances(NONE)
    shutil.copy(authority.bundle, bundle)
    assert cloud.instances(NONE).owned == ()


def test_https_where_the_cloud_speaks_http_is_unknown_and_not_empty() -> None:
    """OpenSSL has two words for it, of which "record layer failure" may also come later."""
    server = EC2Server()
    cloud = cloud_at(server.url.replace("http:", "https:"))
    try:
        with pytest.raises(SourceError, match=r"SSLError: .*(WRONG_VERSION_NUMBER|record layer failure)"):
            cloud.instances(NONE)
        with pytest.raises((ConfigurationError, TransientError), match="SSLError"):
            cloud.launch(intent())
        assert server.requests == []
    finally:
        server.close()


def test_http_where_the_cloud_speaks_https_is_unknown_and_not_empty(server: EC2Server) -> None:
    with pytest.raises(Fault) as caught:
        cloud_at(server.url.replace("https:", "http:"))._client.call("describe_instances")
    assert caught.value.code in ("ConnectionClosedError", "400")
    assert server.requests == []


def test_an_answer_over_tls_that_drips_or_floods_has_the_same_limits(
    server: EC2Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ec2_answers, "LARGEST", 1 << 20)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n"

    def drip() -> Iterator[bytes]:
        yield head
        for _ in range(6000):  # ten minutes
            time.sleep(0.1)
            yield b"<a>"

    cloud = cloud_at(server.url, ca_bundle=authority.bundle, read_timeout_s=2.0)
    cloud._images["ami-12c6146b"] = {}
    server.script("RunInstances", Rule(pieces=drip), Rule(pieces=lambda: chain([head], repeat(b"x" * 65536))))
    for told in ("ReadTimeoutError", "the answer is longer than 1 MB"):
        began = time.monotonic()
        with pytest.raises(TransientError, match=told) as caught:
            cloud.launch(intent())
        assert not caught.value.launched_nothing and time.monotonic() - began < PATIENCE_S
    assert len(server.requests) == 2
    assert cloud.instances(NONE).owned == ()


def test_a_server_that_hangs_in_the_handshake_leaves_the_launch_open_and_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        cloud = cloud_at(url, connect_timeout_s=0.5, read_timeout_s=0.5)
        cloud._images["ami-12c6146b"] = {}
        with pytest.raises(TransientError, match="TimeoutError") as caught:
            cloud.launch(intent())
        assert not caught.value.launched_nothing, "boto does not say how far it came"
