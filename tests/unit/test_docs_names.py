"""The documentation names commands, keys and files that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elastiq.cli.parser import VERBS
from elastiq.extras import options_of
from elastiq.interfaces import Owner
from elastiq.keys import CORE, POOL
from elastiq.plugin_loader import BATCH_GROUP, BUILT_IN, batch_class, cloud_class
from elastiq.plugins.cloud.ec2_instances import sort_instances
from elastiq.timetable import OPTIONS as OF_SCHEDULES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
PAGES_OF_KEYS = (
    "getting-started",
    "head-node",
    "worker-image",
    "decisions",
    "operations",
    "troubleshooting",
    "security",
)
# Names with an underscore that are no keys: of HTCondor, EC2, systemd, files.
OTHERS = re.compile(r"condor_\w+|drain_node|write_files|\w+\.\w+")


def keys() -> set[str]:
    cloud = cloud_class("ec2")
    batches = [batch_class(name).OPTIONS for name in BUILT_IN[BATCH_GROUP]]
    extras = [options_of(name) for name in ("hooks", "metrics", "web") if (ROOT / "elastiq" / f"{name}.py").exists()]
    tables = (*CORE.values(), POOL, *batches, cloud.OPTIONS, OF_SCHEDULES, *extras)
    return {option.name for table in tables for option in table}


def names(page: Path) -> set[str]:
    """What is written as code, and looks like a key."""
    text = page.read_text("utf-8")
    spans = re.findall(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?: = [^`]*)?`", text)
    lines = re.findall(r"(?m)^ {4,}([a-z][a-z0-9]*(?:_[a-z0-9]+)+) = ", text)
    return {name for name in (*spans, *lines) if not OTHERS.fullmatch(name)}


@pytest.mark.parametrize("page", [ROOT / "docs" / f"{name}.md" for name in PAGES_OF_KEYS], ids=lambda page: page.stem)
def test_a_page_names_no_key_that_there_is_not(page: Path) -> None:
    assert names(page) - keys() == set()


def test_the_migration_leads_to_keys_that_there_are() -> None:
    text = (ROOT / "docs" / "migration.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| (.+?) \| (.*?) \|$", text)
    new = {name for _, right in rows for name in re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", right)}
    assert len(new) > 20
    assert new - keys() == set()


def test_the_migration_tells_of_every_key_of_elastiq_1() -> None:
    from tests.unit.test_config import OLD_FILE

    old = set(re.findall(r"(?m)^#?([a-z0-9_]+) =", OLD_FILE))
    text = (ROOT / "docs" / "migration.md").read_text("utf-8").partition("## From ROCED")[0]
    assert {name for name in old if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_elastiqctl_that_a_page_names_is_one(page: Path) -> None:
    text = page.read_text("utf-8")
    named = set(re.findall(r"(?:`|^    (?:sudo )?)elastiqctl(?: --config \S+)* ([a-z][a-z-]*)", text, re.MULTILINE))
    assert named - set(VERBS) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_of_ours_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    named = re.findall(r"(?<![\w/.-])((?:packaging|systemd|tests|benchmarks|docs|plugins|elastiq)/[\w./-]+\w)", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_machine_that_is_given_to_a_cluster_by_the_tag_of_the_migration_can_be_adopted() -> None:
    text = (ROOT / "docs" / "migration.md").read_text("utf-8")
    (key,) = re.findall(r"create-tags .*--tags Key=([\w:]+),Value=NAME", text)
    row = {"InstanceId": "i-1", "State": {"Name": "running"}, "Tags": [{"Key": key, "Value": "physics"}]}
    found = sort_instances([row], Owner("physics", "0123456789abcdef0123"), frozenset())
    assert [instance.id for instance in found.other_heads] == ["i-1"]


def test_what_pip_users_are_told_is_what_the_readme_is_tested_for() -> None:
    text = (ROOT / "docs" / "installation.md").read_text("utf-8")
    found = re.search(r"(?m)^    python3 -m venv.*\n(?:    .*\n)+", text)
    assert found and re.sub(r"(?m)^    ", "", found.group()) in (ROOT / "README.md").read_text("utf-8")
