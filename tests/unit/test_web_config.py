"""The section [web] of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastiq import web
from elastiq.web.server import PageServer
from tests.unit.config_files import MINIMAL, load, problems

LINE = MINIMAL.count("\n") + 2


def section(tmp_path: Path, lines: str) -> Any:
    return load(tmp_path, f"{MINIMAL}[web]\n{lines}\n").settings.extras["web"]


@pytest.mark.parametrize("listen", ["127.0.0.1:8642", "localhost:8642", "LocalHost:1", "[::1]:65535", "127.3.2.1:80"])
def test_an_address_of_this_machine_is_served_without_a_warning(tmp_path: Path, listen: str) -> None:
    loaded = load(tmp_path, f"{MINIMAL}[web]\nlisten = {listen}\n")
    assert loaded.settings.extras["web"] == {"listen": listen, "allow_remote": False, "hosts": ()}
    assert loaded.warnings == []


@pytest.mark.parametrize(
    "listen",
    ["8642", ":8642", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:http", "::1:8642",
     "[::1]", "head.example.org:8642", "127.0.0.1:8642/", "http://127.0.0.1:8642", "[127.0.0.1:80", "1.2.3:80"],
)  # fmt: skip
def test_what_is_no_address_and_port_is_refused_with_an_example(tmp_path: Path, listen: str) -> None:
    (problem,) = problems(tmp_path, f"{MINIMAL}[web]\nlisten = {listen}\n")
    assert problem.startswith(f"{LINE}: ") and "127.0.0.1:8642" in problem and "[web] listen" in problem


def test_a_name_is_said_to_be_no_address(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"{MINIMAL}[web]\nlisten = head.example.org:8650\n")
    assert "has the name head.example.org for an address, write for example 127.0.0.1:8642" in problem


@pytest.mark.parametrize("name", ["c/d", "http://a.example.org", "a.example.org:80", "*.example.org", "a.", "a@b"])
def test_what_can_be_no_host_is_refused(tmp_path: Path, name: str) -> None:
    (problem,) = problems(tmp_path, f"{MINIMAL}[web]\nlisten = 127.0.0.1:80\nhosts = fine, {name}\n")
    assert "[web] hosts" in problem and f"`{name}` cannot be the name of a host" in problem


@pytest.mark.parametrize("name", ["a_b.example.org", "10.0.0.1", "[2001:db8::1]", "2001:db8::1", "x", "a-1"])
def test_every_name_of_a_host_that_is_taken_is_served(tmp_path: Path, name: str) -> None:
    hosts = section(tmp_path, f"listen = 127.0.0.1:80\nhosts = {name}")["hosts"]
    server = PageServer("127.0.0.1", 0, {}, hosts)
    server.close()
    assert server.serves(f"[{name.strip('[]')}]:80" if ":" in name else f"{name}:80")


@pytest.mark.parametrize("listen", ["0.0.0.0:8642", "[::]:8642", "192.168.1.4:8642", "[2001:db8::1]:80"])
def test_an_address_that_others_reach_is_warned_of_and_says_what_it_takes(tmp_path: Path, listen: str) -> None:
    (warning,) = load(tmp_path, f"{MINIMAL}[web]\nlisten = {listen}\n").warnings
    assert "without a password" in warning and "allow_remote = yes" in warning
    (warning,) = load(tmp_path, f"{MINIMAL}[web]\nlisten = {listen}\nallow_remote = yes\n").warnings
    assert "without a password" in warning and "not served" not in warning


def test_hosts_are_names_in_any_case(tmp_path: Path) -> None:
    assert section(tmp_path, "listen = 127.0.0.1:80\nhosts = A.example.org, b")["hosts"] == ("a.example.org", "b")


@pytest.mark.parametrize("line", ["hosts = a.example.org", "allow_remote = yes"])
def test_what_is_of_no_use_without_an_address_is_said(tmp_path: Path, line: str) -> None:
    (problem,) = problems(tmp_path, f"{MINIMAL}[web]\n{line}\n")
    assert "without listen" in problem


def test_a_section_without_an_address_is_no_page(tmp_path: Path) -> None:
    assert section(tmp_path, "listen =") == {"listen": None, "allow_remote": False, "hosts": ()}


def test_every_key_is_told_in_the_example_and_in_the_documentation() -> None:
    root = Path(__file__).resolve().parents[2]
    example = (root / "elastiq.conf.example").read_text("utf-8").partition("#   [web]\n")[2].partition("\n\n")[0]
    page = (root / "docs/web.md").read_text("utf-8")
    for option in web.OPTIONS:
        assert f"#   {option.name} =" in example and f"| `{option.name}` |" in page
