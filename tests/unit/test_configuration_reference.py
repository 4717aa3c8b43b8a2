"""packaging/reference.py tells of every key that the daemon reads, with its default and its meaning."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from elastiq import values

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reference() -> Any:
    spec = importlib.util.spec_from_file_location("elastiq_reference", ROOT / "packaging" / "reference.py")
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_has_every_key_that_is_declared_once(reference: Any) -> None:
    told = {section.name: [key.name for key in section.keys] for section in reference.sections()}
    assert {name: sorted(keys) for name, keys in told.items()} == {
        name: sorted(options) for name, options in reference.declared().items()
    }


def test_every_key_has_a_meaning_or_its_section_names_or_shows_it(reference: Any) -> None:
    for section in reference.sections():
        shown = " ".join(section.about) + section.example
        without = [key.name for key in section.keys if not key.meaning and key.name not in shown]
        assert without == [], section.name


def test_a_default_reads_back_as_what_the_code_has(reference: Any) -> None:
    for section in reference.sections():
        for key in section.keys:
            option = reference.declared()[section.name][key.name]
            if section.name != "schedule:NAME":
                assert values.parse(option, key.default, Path()) == option.default, f"[{section.name}] {key.name}"


def test_a_key_that_shares_the_comment_of_the_one_above_has_it_too(reference: Any) -> None:
    ec2 = {key.name: key for section in reference.sections() if section.name == "ec2" for key in section.keys}
    assert ec2["aws_secret_access_key"].meaning == ec2["aws_access_key_id"].meaning != ""
    assert "Secret: never shown." in ec2["aws_secret_access_key"].notes
    assert ec2["region"].meaning.startswith("Where: the region.")


def test_the_tables_are_whole(reference: Any) -> None:
    """No word of a comment breaks a row."""
    rows = [line for line in reference.markdown().splitlines() if line.startswith("| <a")]
    assert len(rows) == sum(map(len, reference.declared().values()))
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    anchors = re.findall(r'id="([^"]+)"', "\n".join(rows))
    assert len(anchors) == len({*anchors})


def test_the_page_of_the_documentation_gets_the_tables(reference: Any) -> None:
    page = reference.on_page_markdown(f"# Keys\n\n{reference.KEYS}\n", page=None)
    assert page == f"# Keys\n\n{reference.markdown()}\n"
    assert reference.on_page_markdown("another page", page=None) == "another page"
