"""Plugins are found by name, and only the named one is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elastiq import names, plugin_loader
from elastiq.inifile import ConfigError
from elastiq.interfaces import BatchSystem

THIRD_PARTY = """\
from elastiq.interfaces import BatchSystem, Cloud

class Flux(BatchSystem):
    section = "flux"

class Nimbus(Cloud):
    kind = "nimbus"
"""
ENTRY_POINTS = """\
[elastiq.batch]
flux = third_party_of_test:Flux
broken = third_party_of_test:Missing
wrong = third_party_of_test:Nimbus
needy = no_such_module_of_test:Needy

[elastiq.cloud]
nimbus = third_party_of_test:Nimbus
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with plugins of its own."""
    (tmp_path / "third_party_of_test.py").write_text(THIRD_PARTY)
    info = tmp_path / "third_party_of_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-of-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))


def complaint(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        plugin_loader.batch_class(name)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("name", "meant"),
    [("sge", "gridengine"), ("UGE", "gridengine"), ("redis", "celery"), ("condor", "htcondor"), ("moab", "torque")],
)
def test_a_batch_systems_other_name_leads_to_its_plugin(name: str, meant: str) -> None:
    assert complaint(name) == f"there is no plugin `{name}` for elastiq.batch, did you mean `{meant}`?"


def test_every_other_name_is_of_a_plugin_that_there_is_and_is_none_itself() -> None:
    built_in = plugin_loader.BUILT_IN[plugin_loader.BATCH_GROUP]
    assert set(names.OTHER_NAMES.values()) <= built_in.keys() and not names.OTHER_NAMES.keys() & built_in.keys()


def test_no_name_at_all_is_told_with_those_that_there_are() -> None:
    assert complaint("").startswith("names no plugin for elastiq.batch, known are: celery, command, gridengine, ")


def test_the_built_in_plugins_are_found_with_the_keys_that_are_declared_for_them() -> None:
    from elastiq.plugins.batch import htcondor_options
    from elastiq.plugins.cloud import ec2_options

    batch, cloud = plugin_loader.batch_class("htcondor"), plugin_loader.cloud_class("ec2")
    assert (batch.section, batch.OPTIONS) == ("htcondor", htcondor_options.OPTIONS)
    assert (cloud.kind, cloud.OPTIONS) == ("ec2", ec2_options.OPTIONS)
    values = {"api_url": "https://cloud.example.org", "subnet_id": ("a", "b")}
    assert cloud.site_of(values) == ec2_options.site_of(values) == "cloud.example.org"
    assert cloud.networks_of(values) == ("a", "b")


@pytest.mark.parametrize("name", sorted(plugin_loader.BUILT_IN[plugin_loader.BATCH_GROUP]))
def test_a_plugin_that_has_to_be_told_of_machines_says_so(name: str) -> None:
    plugin = plugin_loader.batch_class(name)
    hooks = ("prepare", "register", "unregister")
    own = [hook for hook in hooks if getattr(plugin, hook) is not getattr(BatchSystem, hook)]
    assert plugin.keeps_records == bool(own), own


@pytest.mark.usefixtures("third_party")
def test_a_third_partys_plugin_is_found_by_its_entry_point() -> None:
    assert plugin_loader.batch_class("flux").section == "flux"
    assert plugin_loader.cloud_class("nimbus").kind == "nimbus"
    known = {group: sorted(names.known(group, built_in)) for group, built_in in plugin_loader.BUILT_IN.items()}
    assert {"flux", "htcondor"} <= set(known["elastiq.batch"])
    assert known["elastiq.cloud"] == ["ec2", "nimbus"]


@pytest.mark.usefixtures("third_party")
def test_of_two_installed_plugins_of_one_name_the_one_that_python_finds_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "first" / "another-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[elastiq.batch]\nflux = another_of_test:Flux\n")
    (tmp_path / "first" / "another_of_test.py").write_text(THIRD_PARTY)
    monkeypatch.syspath_prepend(str(tmp_path / "first"))
    assert plugin_loader.batch_class("flux").__module__ == "another_of_test"


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("htcondoor", "did you mean `htcondor`?"),
        ("zz", "known are: broken, "),
        ("broken", "is no BatchSystem"),
        ("wrong", "is no BatchSystem"),
        ("needy", "no_such_module_of_test"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_told(name: str, said: str) -> None:
    assert said in complaint(name)


def test_configuration_and_declarations_import_neither_plugins_nor_their_libraries() -> None:
    code = (
        "import sys, elastiq.config, elastiq.logs\n"
        "heavy = {'boto3', 'botocore', 'htcondor', 'pythonjsonlogger', 'elastiq.plugins'}\n"
        "heavy |= {'difflib', 'importlib.metadata'}  # for errors and third parties only\n"
        "print(sorted(heavy.intersection(sys.modules)))\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
