"""What the packages are made of: manual pages that tell of everything, versions, changelogs, the configuration.

The packages themselves are built and installed in tests/e2e/test_packages.py.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Callable

import pytest

from elastiq import config, service
from elastiq.cli.parser import VERBS, parser_of_all
from elastiq.inifile import ConfigError

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / "packaging/files/elastiq.conf"
EPOCH = 1_767_323_045  # 2026-01-02 03:04:05 UTC

Load = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def load() -> Load:
    """Import a module of packaging/make, which are no package and have everyday names."""

    def found(name: str) -> ModuleType:
        places = [str(ROOT / "packaging/make"), str(ROOT / "packaging")]
        sys.path[:0] = places
        try:
            return importlib.import_module(name)
        finally:
            sys.path[:] = [path for path in sys.path if path not in places]

    return found


@pytest.fixture(scope="module")
def pages(load: Load) -> dict[str, list[str]]:
    """What each manual page has an entry for."""
    manual = load("manual")
    return {name: list(manual.described(page)) for name, page in manual.pages("2026-01-02").items()}


def shown_options(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions if action.help != argparse.SUPPRESS for name in action.option_strings}


def words(entries: list[str]) -> set[str]:
    return {word.strip("[],") for entry in entries for word in entry.split()}


# --------------------------------------------------------------------------- manual pages


def test_the_daemons_page_has_every_option_signal_and_exit_code(pages: dict[str, list[str]]) -> None:
    told = words(pages["elastiq.8"])
    codes = set(re.findall(r"(?<!\S)(\d+) ", service.EPILOG.partition("exit codes:")[2]))

    assert shown_options(service._parser()) <= told
    assert {"TERM", "INT", "HUP"} <= told
    assert len(codes) > 4 and codes <= told


def test_the_control_page_has_every_command_with_its_options(pages: dict[str, list[str]]) -> None:
    told = words(pages["elastiqctl.8"])
    options = shown_options(parser_of_all())
    for verb in VERBS.values():
        parser = argparse.ArgumentParser()
        verb.arguments(parser)
        options |= shown_options(parser)

    assert set(VERBS) <= {entry.split()[0] for entry in pages["elastiqctl.8"]}
    assert options <= told


def test_the_configurations_page_has_every_key(pages: dict[str, list[str]], load: Load) -> None:
    declared = [key for keys in load("reference").declared().values() for key in keys]

    assert sorted(entry.split()[0] for entry in pages["elastiq.conf.5"]) == sorted(declared)


@pytest.mark.parametrize(
    ("said", "roff"),
    [
        (".SH is no heading", r"\&.SH is no heading"),
        ("a\n'br no break", "a\n\\(aqbr no break"),
        (r"C:\new", r"C:\enew"),
        ("--json", r"\-\-json"),
        ("say `stop` now", r"say \fBstop\fP now"),
        ("one ` alone", r"one \(ga alone"),
    ],
)
def test_no_word_of_the_code_is_a_request_to_roff(load: Load, said: str, roff: str) -> None:
    assert load("manual").text(said) == roff


# --------------------------------------------------------------------------- versions and changelogs


@pytest.mark.parametrize(
    ("version", "packaged"),
    [("2.1.0", "2.1.0"), ("2.1.0rc1", "2.1.0~rc1"), ("2.1.0.dev0", "2.1.0~dev0+20260102.030405.g0123456")],
)
def test_a_version_is_written_as_packages_order_it(load: Load, version: str, packaged: str) -> None:
    assert load("version").packaged(version, EPOCH, "0123456789abcdef") == packaged


def test_a_version_that_packages_could_not_order_is_refused(load: Load) -> None:
    with pytest.raises(ValueError, match=r"2\.1\.0-beta"):
        load("version").packaged("2.1.0-beta", EPOCH, "")


CHANGES = """\
# Changelog

## [Unreleased]

### Added

- A thing that is
  told in two lines.

## [2.0.0] - 2025-12-24

Words about it.

### Fixed

- Another.
- One more, with `--an-option`.
"""


def test_the_debian_changelog_has_every_version_with_its_date(load: Load, tmp_path: Path) -> None:
    changes = load("changes")
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    entries = changes.entries(tmp_path / "CHANGELOG.md", "2.1.0", EPOCH, "A Person <a@example.org>")

    assert changes.debian(entries).split("\n") == [
        "elastiq (2.1.0-1) unstable; urgency=medium",
        "",
        "  * Added: A thing that is told in two lines.",
        "",
        " -- A Person <a@example.org>  Fri, 02 Jan 2026 03:04:05 +0000",
        "",
        "elastiq (2.0.0-1) unstable; urgency=medium",
        "",
        "  * Fixed: Another.",
        "  * Fixed: One more, with `--an-option`.",
        "",
        " -- A Person <a@example.org>  Wed, 24 Dec 2025 00:00:00 +0000",
        "",
    ]


def test_a_release_without_a_date_is_refused(load: Load, tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGES.replace(" - 2025-12-24", ""))
    with pytest.raises(ValueError, match=r"2\.0\.0 has no date"):
        load("changes").entries(tmp_path / "CHANGELOG.md", "2.1.0", EPOCH, "A Person <a@example.org>")


def test_the_projects_own_changelog_is_understood(load: Load) -> None:
    entries = load("changes").entries(ROOT / "CHANGELOG.md", "2.1.0", EPOCH, "A Person <a@example.org>")
    items = re.findall(r"^- ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)

    assert sum(len(entry["changes"]) for entry in entries) == len(items)


# --------------------------------------------------------------------------- the installed configuration


def given(text: str) -> set[str]:
    return set(re.findall(r"^([a-z_]+) =", text, flags=re.MULTILINE))


def test_the_installed_configuration_has_the_keys_of_the_example() -> None:
    assert given(INSTALLED.read_text()) == given((ROOT / "elastiq.conf.example").read_text())


def test_the_installed_configuration_cannot_be_started_and_says_why() -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(INSTALLED)
    assert [complaint for complaint in caught.value.problems if "image_id" not in complaint] == []


def test_with_its_five_keys_set_the_installed_configuration_is_complete(tmp_path: Path) -> None:
    values = {"cluster_name": "c", "region": "eu-west-1", "image_id": "ami-1", "flavour": "c5.xlarge"}
    text = INSTALLED.read_text()
    for key, value in values.items():
        text = text.replace(f"\n{key} =\n", f"\n{key} = {value}\n")
    (tmp_path / "elastiq.conf").write_text(text)

    assert config.load(tmp_path / "elastiq.conf").settings.cluster_name == "c"


# --------------------------------------------------------------------------- packaging/build


def build(clone: Path, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, str(clone / "packaging/build"), "--out", str(tmp_path / "out")]
    return subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("variables", "said"), [({}, "no git repository"), ({"SOURCE_DATE_EPOCH": "yesterday"}, "no number of seconds")]
)
def test_sources_of_no_known_time_are_not_packed(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    (tmp_path / "clone/packaging").mkdir(parents=True)
    shutil.copy(ROOT / "packaging/build", tmp_path / "clone/packaging")

    done = build(tmp_path / "clone", tmp_path, **variables)

    said = said if sys.version_info >= (3, 10) else "needs Python 3.10"
    assert done.returncode == 1
    assert done.stderr.startswith("packaging/build: ") and said in done.stderr and done.stderr.count("\n") == 1


# --------------------------------------------------------------------------- the installed documentation


@pytest.fixture(scope="module", params=["deb", "rpm"])
def installed(request: pytest.FixtureRequest, load: Load, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages that a package installs, by their places; and with no text, whatever else is there."""
    tree = load("tree")
    filled = tree.Tree(ROOT, tmp_path_factory.mktemp("work"), request.param, EPOCH)
    tree._documentation(filled, "2026-01-02")
    found = {entry["dst"]: Path(entry["src"]) for entry in filled.contents}
    return {place: path.read_text("utf-8") if place.endswith(".md") else "" for place, path in found.items()}


def test_no_link_of_the_installed_documentation_leads_nowhere(installed: dict[str, str]) -> None:
    dead = []
    for place, page in installed.items():
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page):
            if os.path.normpath(os.path.join(os.path.dirname(place), link)) not in installed:
                dead.append(f"{place}: {link}")

    assert len(installed) > 20
    assert dead == []


def test_the_installed_documentation_tells_where_a_package_has_what_is_shipped(installed: dict[str, str]) -> None:
    shipped = re.findall(r'"packaging/([a-z-]+/[\w.-]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    for name in shipped:
        for place, page in installed.items():
            if f"packaging/{name}" in page:
                assert f"/usr/share/elastiq/{name}" in page, f"{place}: {name}"

    assert len(shipped) == 9
    assert "/usr/share/doc/elastiq/examples/plugin" in installed["/usr/share/doc/elastiq/docs/plugins.md"]
    assert "](../../examples/directory-queue/" in installed["/usr/share/doc/elastiq/docs/batch/command.md"]
