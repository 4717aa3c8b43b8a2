"""docs/elastiqctl.md and --help: every command, every option, and how programs use it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from elastiq.cli.parser import VERBS, parser_of_all
from elastiq.commanding import carry_out
from elastiq.protocol import Refused
from tests.unit.test_daemon import Rig

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "elastiqctl.md").read_text("utf-8")
GENERAL = PAGE.partition("\n## See what")[0]
SECTIONS = {
    name: text
    for heading, text in re.findall(r"^### (.*)\n((?:(?!^##).*\n)*)", PAGE, re.M)
    for name in heading.split(", ")
}
# Pages of their own, or its own --help.
ELSEWHERE = {"check": "check.md", "metrics": "metrics.md", "simulate": "simulate.md", "demo": ""}
SOCKET = ("history", "pause", "resume", "scale", "drain", "undrain", "terminate", "drain-pool", "undrain-pool", "adopt")


def parsers() -> dict[str, argparse.ArgumentParser]:
    (verbs,) = (one for one in parser_of_all()._actions if isinstance(one, argparse._SubParsersAction))
    return dict(verbs.choices)


def test_every_command_has_its_section_and_no_other_does() -> None:
    assert list(SECTIONS) and set(SECTIONS) == set(VERBS)


@pytest.mark.parametrize("name", sorted(set(VERBS) - set(ELSEWHERE)))
def test_every_option_is_documented(name: str) -> None:
    told = SECTIONS[name] + GENERAL
    for action in parsers()[name]._actions:
        if action.option_strings and "--help" not in action.option_strings:
            assert any(option in told for option in action.option_strings), action.option_strings


def test_every_option_of_simulate_is_on_its_page() -> None:
    page = (DOCS / ELSEWHERE["simulate"]).read_text("utf-8") + GENERAL
    options = [option for action in parsers()["simulate"]._actions for option in action.option_strings]
    assert [option for option in options if option not in page and "help" not in option and option != "-h"] == []


@pytest.mark.parametrize("name", sorted(set(VERBS) - {"demo"}))
def test_help_has_examples_and_json_and_fits_into_a_terminal_of_120(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = parsers()[name].format_help()
    assert re.search(rf"^examples:\n  (sudo )?elastiqctl .*{name}", text, re.M) and "--json" in text
    assert max(map(len, text.splitlines())) <= 120
    assert name in parser_of_all().format_help()


@pytest.mark.parametrize("name", sorted(set(VERBS) - {"demo"}))
def test_what_json_prints_is_documented(name: str) -> None:
    assert "--json" in SECTIONS[name] or "--json" in (DOCS / ELSEWHERE[name]).read_text("utf-8")


@pytest.mark.parametrize("verb", SOCKET)
def test_the_verbs_of_the_socket_are_known_and_in_the_protocol(verb: str) -> None:
    assert f"| `{verb}` |" in (DOCS / "control-protocol.md").read_text("utf-8")
    try:
        carry_out(Rig().daemon, verb, {})
    except Refused as refused:
        assert refused.code != "unknown-verb"


def test_links_lead_to_pages_that_are_there() -> None:
    for target in re.findall(r"\]\(([\w-]+\.md)", PAGE):
        assert (DOCS / target).exists(), target
