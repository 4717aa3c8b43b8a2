"""%ipv4%, %ipv6% and %fqdn% in user data."""

from __future__ import annotations

import base64
import gzip
import socket
from pathlib import Path
from typing import Any

import pytest

from elastiq import userdata
from tests.unit.config_files import load, problems, with_ec2


def user_data(tmp_path: Path, data: bytes, head: str = "") -> bytes:
    text = base64.b64encode(data).decode()
    found = load(tmp_path, with_ec2(f"user_data_b64 = {text}\n", head)).settings.pools[0].options["user_data"]
    assert isinstance(found, bytes)
    return found


def test_placeholders_become_what_the_file_says(tmp_path: Path) -> None:
    head = "[substitute]\nipv4 = 192.0.2.7\nipv6 = 2001:db8::7\nfqdn = head.example.org\n"
    data = b"\xff\x00a=%ipv4% b=%ipv6% c=%fqdn% d=%fqdn% e=%other% f=%%ipv4%% 100%\n"
    assert user_data(tmp_path, data, head) == (
        b"\xff\x00a=192.0.2.7 b=2001:db8::7 c=head.example.org d=head.example.org e=%other% f=%192.0.2.7% 100%\n"
    )


def test_binary_user_data_survives_whole(tmp_path: Path) -> None:
    data = gzip.compress(bytes(range(256)) * 8)
    assert user_data(tmp_path, data) == data
    (tmp_path / "data").write_bytes(data)
    pool = load(tmp_path, with_ec2("user_data_file = data\n")).settings.pools[0]
    assert pool.options["user_data"] == data


def test_base64_may_go_over_several_indented_lines(tmp_path: Path) -> None:
    text = base64.encodebytes(b"x" * 200).decode().replace("\n", "\n   ")
    pool = load(tmp_path, with_ec2(f"user_data_b64 = {text}\n")).settings.pools[0]
    assert pool.options["user_data"] == b"x" * 200


def test_a_file_is_sought_beside_the_configuration_and_substituted_too(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data").write_bytes(b"<%fqdn%>")
    text = with_ec2("user_data_file = sub/data\n", "[substitute]\nfqdn = h.example.org\n")
    assert load(tmp_path, text).settings.pools[0].options["user_data"] == b"<h.example.org>"


def test_the_limit_holds_after_the_substitution(tmp_path: Path) -> None:
    head = f"[substitute]\nfqdn = {'h' * 60}\n"
    at_limit = b"%fqdn%" + b"x" * (16_384 - 60)
    assert len(user_data(tmp_path, at_limit, head)) == 16_384
    text = base64.b64encode(at_limit + b"x").decode()
    (problem,) = problems(tmp_path, with_ec2(f"user_data_b64 = {text}\n", head))
    assert "has 16385 bytes" in problem


def test_nothing_is_looked_up_without_a_placeholder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> None:
        raise AssertionError("looked up")

    monkeypatch.setattr(userdata, "own_address", forbidden)
    monkeypatch.setattr(userdata, "fqdn", forbidden)
    assert user_data(tmp_path, b"%ipv5% %fqdn ipv4%") == b"%ipv5% %fqdn ipv4%"


@pytest.mark.parametrize("name", ["ipv4", "ipv6", "fqdn"])
def test_a_placeholder_without_a_value_is_a_problem_that_names_the_key_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(userdata, "own_address", lambda _: None)
    monkeypatch.setattr(userdata, "fqdn", lambda: None)
    text = base64.b64encode(f"x %{name}%".encode()).decode()
    (problem,) = problems(tmp_path, with_ec2(f"user_data_b64 = {text}\n"))
    assert problem.startswith("5: [ec2] user_data_b64: ") and f"set [substitute] {name}" in problem


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ipv4 = 2001:db8::1", "is not an IPv4 address"),
        ("ipv4 = head", "is not an IPv4 address"),
        ("ipv6 = 192.0.2.1", "is not an IPv6 address"),
    ],
)
def test_an_address_of_the_wrong_kind_is_a_problem(tmp_path: Path, line: str, said: str) -> None:
    (problem,) = problems(tmp_path, with_ec2("", f"[substitute]\n{line}\n"))
    assert said in problem


class FakeSocket:
    """A socket that knows one route, and fails the test if anything is sent."""

    local: str | OSError = "192.0.2.99"

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> FakeSocket:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, address: Any) -> None:
        if isinstance(self.local, OSError):
            raise self.local

    def getsockname(self) -> tuple[Any, ...]:
        return (self.local, 1)


@pytest.mark.parametrize(
    ("local", "all_addresses", "found"),
    [
        ("192.0.2.99", {"192.0.2.99", "198.51.100.1"}, "192.0.2.99"),
        ("127.0.0.1", {"198.51.100.1", "2001:db8::5"}, "198.51.100.1"),
        (OSError("no route"), {"198.51.100.1", "2001:db8::5"}, "198.51.100.1"),
        (OSError("no route"), {"198.51.100.1", "198.51.100.2"}, None),
        (OSError("no route"), set(), None),
    ],
)
def test_the_address_is_that_of_the_default_route_or_the_only_one(
    monkeypatch: pytest.MonkeyPatch, local: str | OSError, all_addresses: set[str], found: str | None
) -> None:
    monkeypatch.setattr(FakeSocket, "local", local)
    monkeypatch.setattr(socket, "socket", FakeSocket)
    monkeypatch.setattr(userdata, "own_addresses", lambda: frozenset(all_addresses))
    assert userdata.own_address("ipv4") == found


def test_a_link_local_ipv6_address_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSocket, "local", "fe80::1%eth0")
    monkeypatch.setattr(socket, "socket", FakeSocket)
    monkeypatch.setattr(userdata, "own_addresses", lambda: frozenset({"192.0.2.1"}))
    assert userdata.own_address("ipv6") is None


@pytest.mark.parametrize(
    ("host", "hosts", "resolv", "found"),
    [
        ("head.example.org", "", "", "head.example.org"),
        ("head", "127.0.0.1 localhost\n10.0.0.1 head.example.org head # x\n", "search other.org\n", "head.example.org"),
        ("head", "127.0.1.1 head.localdomain head\n", "search example.org b.org\n", "head.example.org"),
        ("head", "127.0.1.1 head\n", "domain a.org\nsearch b.org.\n", "head.b.org"),
        ("head", "10.0.0.2 ahead.example.org ahead\n", "nameserver 10.0.0.1\n", None),
        ("head", "", "search .\n", None),
    ],
)
def test_the_full_name_comes_from_files_and_never_from_dns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, hosts: str, resolv: str, found: str | None
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text(hosts)
    (tmp_path / "etc/resolv.conf").write_text(resolv)
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert userdata.fqdn(tmp_path) == found


def test_a_machine_without_these_files_has_no_full_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "head")
    assert userdata.fqdn(tmp_path) is None
