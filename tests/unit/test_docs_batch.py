"""docs/batch tells of every batch system, and of every key of what executables print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elastiq.plugin_loader import BATCH_GROUP, BUILT_IN, batch_class
from elastiq.plugins.batch import command
from elastiq.plugins.batch.command_schema import schema

DOCS = Path(__file__).resolve().parents[2] / "docs"
INDEX = (DOCS / "batch" / "index.md").read_text("utf-8")
COMMAND = (DOCS / "batch" / "command.md").read_text("utf-8")


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, row by row, without the rule below the head."""
    found = re.findall(r"(?m)(?:^\|.*\|\n)+", text)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()] for table in found]


def told(part: str) -> set[str]:
    """What the tables between this heading and the next explain."""
    text = COMMAND.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    return {name for table in tables(text) for row in table for name in re.findall(r"`([a-z_]+)`", row[0])}


def test_the_index_lists_every_batch_system_in_both_tables_with_a_page_of_its_own() -> None:
    systems, abilities = tables(INDEX)
    linked = {name: page for row in systems[2:] for name, page in re.findall(r"\[`(\w+)`\]\(([^)]+)\)", row[0])}
    assert linked.keys() == BUILT_IN[BATCH_GROUP].keys()
    assert [page for page in linked.values() if not (DOCS / "batch" / page).exists()] == []
    assert set(abilities[0][1:]) == {f"`{name}`" for name in linked}


def test_the_index_says_of_each_system_what_it_was_tried_with_and_of_each_ability_who_has_it() -> None:
    for table in tables(INDEX):
        for row in table[2:]:
            assert len(row) == len(table[0]) and all(row), row


@pytest.mark.parametrize(
    ("part", "name", "element"), [("The jobs", "jobs", "job"), ("The workers", "workers", "worker")]
)
def test_every_key_that_may_be_printed_is_explained_and_no_other(part: str, name: str, element: str) -> None:
    whole = schema(name)
    top = whole["properties"].keys() - {name}
    assert told(part) == top | whole["$defs"][element]["properties"].keys()


def test_every_executable_and_exit_code_is_explained() -> None:
    assert told("How they are called") >= {option.name for option in batch_class("command").OPTIONS} - {
        "command_timeout_s"
    }
    codes = re.findall(r"(?m)^\| (\d+) \|", COMMAND)
    assert codes == ["0", str(command.BUSY), str(command.REFUSED)]


def test_every_variable_that_executables_get_is_told() -> None:
    source = Path(command.__file__).read_text("utf-8")
    names = {f"ELASTIQ_{name}" for name in re.findall(r'"([A-Z]+)": ', source)} | set(
        re.findall(r"ELASTIQ_[A-Z]+", source)
    )
    assert len(names) == 5 and names <= set(re.findall(r"ELASTIQ_[A-Z]+", COMMAND))
