"""User data from the configuration to the cloud, over HTTP: every byte as it was meant."""

from __future__ import annotations

import base64
import gzip
import socket
from collections.abc import Callable
from email.mime.application import MIMEApplication
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

import pytest

from elastiq import config
from elastiq.interfaces import ConfigurationError
from elastiq.plugins.cloud.ec2 import EC2Cloud
from tests.ec2_server import OWNER, EC2Server, answer, error, intent
from tests.integration.ec2_answers import MADE, NO_IMAGE

Way = Callable[[Path, bytes], str]
SCRIPT = b"#!/bin/sh\nset -e\necho \"100 % of $HOME\" > '/etc/motd' & date +%Y-%m-%d\n"


def _mime() -> bytes:
    whole = MIMEMultipart(boundary="=-=-=")
    whole.attach(MIMEText("#cloud-config\nfqdn: w\u00f6rker.example.org\n", "cloud-config", "utf-8"))
    whole.attach(MIMEApplication(gzip.compress(SCRIPT, mtime=0), "gzip"))
    return whole.as_bytes()


DATA = {
    "a script": SCRIPT,
    "without a line end": b"#!/bin/sh\nexit",
    "lines of Windows": b"<powershell>\r\nWrite-Output 1\r\n</powershell>\r\n",
    "UTF-8": "#cloud-config\n# für alle: Ω ≠ 日本 🚀\n".encode(),
    "UTF-8 with its mark": b"\xef\xbb\xbf#!/bin/sh\n",
    "Latin-1": "# für alle\n".encode("latin-1"),
    "UTF-16": "#cloud-config\n".encode("utf-16"),
    "gzip": gzip.compress(SCRIPT * 20, mtime=0),
    "MIME in several parts": _mime(),
    "every byte": bytes(range(256)),
    "zeros": bytes(64),
    "base64 that is meant as it is": base64.b64encode(SCRIPT),
    "what URLs give a meaning": b"a=b&c=d+e f%20%2B%25;?#/\\\x00\x7f",
    "as much as EC2 takes": b"#!/bin/sh\n".ljust(16_384, b"#"),
}


@pytest.fixture
def server(bare: EC2Server) -> EC2Server:
    bare.script("DescribeImages", NO_IMAGE)
    bare.script("RunInstances", MADE)
    return bare


def configured(folder: Path, url: str, lines: str, more: str = "") -> EC2Cloud:
    file = folder / "elastiq.conf"
    keys = "aws_access_key_id = AKIATEST\naws_secret_access_key = verysecretkey\n"
    pool = f"[ec2]\napi_url = {url}\nimage_id = ami-1\n{keys}{lines}\n"
    file.write_bytes(f"[elastiq]\ncluster_name = cms\n{more}{pool}".encode())
    file.chmod(0o600)
    return EC2Cloud.from_config(config.load(file).settings.pools, OWNER)


def in_file(folder: Path, data: bytes) -> str:
    (folder / "data").write_bytes(data)
    (folder / "data").chmod(0o600)
    return "user_data_file = data"


def in_base64(_: Path, data: bytes) -> str:
    return f"user_data_b64 = {base64.b64encode(data).decode()}"


def arrived(server: EC2Server) -> bytes:
    """What the instance will read: EC2 takes off one coat of base64."""
    (sent,) = server.asked("RunInstances")
    return base64.b64decode(sent["UserData"], validate=True)


@pytest.mark.parametrize("way", [in_file, in_base64])
@pytest.mark.parametrize("data", DATA.values(), ids=DATA.keys())
def test_every_byte_arrives_as_it_was_meant(server: EC2Server, tmp_path: Path, data: bytes, way: Way) -> None:
    configured(tmp_path, server.url, way(tmp_path, data)).launch(intent())
    assert arrived(server) == data


def test_none_is_sent_where_none_is_given(server: EC2Server, tmp_path: Path) -> None:
    configured(tmp_path, server.url, "").launch(intent())
    assert "UserData" not in server.asked("RunInstances")[0]


@pytest.mark.parametrize("way", [in_file, in_base64])
def test_the_head_nodes_names_are_put_in_and_all_else_is_left(server: EC2Server, tmp_path: Path, way: Way) -> None:
    data = b"\xff\xfeCONDOR_HOST=%fqdn%\nIP=%ipv4%,[%ipv6%] %other% %IPV4% %% 100%\n\x00"
    more = "[substitute]\nipv4 = 192.0.2.7\nipv6 = 2001:db8::7\nfqdn = head.example.org\n"
    configured(tmp_path, server.url, way(tmp_path, data), more).launch(intent())
    wanted = b"\xff\xfeCONDOR_HOST=head.example.org\nIP=192.0.2.7,[2001:db8::7] %other% %IPV4% %% 100%\n\x00"
    assert arrived(server) == wanted


def test_without_a_substitution_the_name_is_this_machines_own(
    server: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "head.example.org")
    configured(tmp_path, server.url, in_file(tmp_path, b"<%fqdn%>")).launch(intent())
    assert arrived(server) == b"<head.example.org>"


@pytest.mark.parametrize(("way", "key"), [(in_file, "user_data_file"), (in_base64, "user_data_b64")])
def test_more_than_ec2_takes_is_refused_by_the_configuration_in_one_line(tmp_path: Path, way: Way, key: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        configured(tmp_path, "http://127.0.0.1:9", way(tmp_path, b"x" * 16_385))
    (problem,) = caught.value.problems
    place = f"{tmp_path / 'elastiq.conf'}:8: [ec2] {key}: "
    assert problem.startswith(place) and "\n" not in problem and "xxx" not in problem
    assert "has 16385 bytes" in problem and "the limit is 16384; fetch the rest at boot" in problem


@pytest.mark.parametrize("text", ["not base64 at all!", "YWJj=ZGVm", "YWJjZ"])
def test_base64_that_is_none_is_a_problem_of_the_configuration(tmp_path: Path, text: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        configured(tmp_path, "http://127.0.0.1:9", f"user_data_b64 = {text}")
    (problem,) = caught.value.problems
    assert problem.startswith(f"{tmp_path / 'elastiq.conf'}:8: [ec2] user_data_b64: ") and text not in problem


def test_a_cloud_that_quotes_the_user_data_gives_none_of_it_away(server: EC2Server, tmp_path: Path) -> None:
    data = "#!/bin/sh\nPASS='PLANTED-grün-word'\n".encode()
    server.forget()
    server.script("DescribeImages", answer("DescribeImages", "<imagesSet/>"))
    quoted = f"Invalid user data {base64.b64encode(data).decode()}: {data.decode()}"
    server.script("RunInstances", error("InvalidUserData.Malformed", quoted))
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, server.url, in_file(tmp_path, data)).launch(intent())
    text = str(caught.value)
    assert text.startswith("RunInstances at ") and "InvalidUserData.Malformed" in text
    for part in ("PLANTED", "grün", base64.b64encode(data).decode()[:16]):
        assert part not in text
