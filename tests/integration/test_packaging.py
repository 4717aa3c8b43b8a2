"""The packages: built as a distribution or pip would, installed into an empty environment, run there.

Only the package index that pip is configured for is used, and only for setuptools and pytest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Iterator

import pytest

from elastiq import __version__
from elastiq.plugin_loader import BUILT_IN

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "elastiq plugins packaging systemd docs setup.py pyproject.toml MANIFEST.in LICENSE elastiq.conf.example"
    " README.md CHANGELOG.md CONTRIBUTING.md"
).split()
# What Debian 12 builds with; it does not run on Python 3.12, where Debian 13's is taken.
DISTRIBUTION_SETUPTOOLS = "66.1.1" if sys.version_info < (3, 12) else "78.1.1"

pytestmark = pytest.mark.timeout(300)


def run(*command: object, cwd: Path) -> str:
    """Run a command that has to succeed, without what would let it find the clone; its standard output."""
    unseen = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={key: value for key, value in os.environ.items() if key not in unseen},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Environment:
    """An empty virtual environment, filled with the pip of the one that runs the tests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        run(sys.executable, "-m", "venv", "--without-pip", path, cwd=path.parent)

    def pip_install(self, *arguments: object) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self.path / "bin" / "python"]
        run(*pip, "install", "--quiet", *arguments, cwd=self.path)

    def run(self, program: str, *arguments: object) -> str:
        return run(self.path / "bin" / program, *arguments, cwd=self.path)


def copy_sources(to: Path) -> Path:
    """The clone, without what was built or cached in it: building writes into the tree."""
    junk = shutil.ignore_patterns("__pycache__", "*.egg-info")
    to.mkdir()
    for source in (ROOT / part for part in SOURCES):
        if source.is_dir():
            shutil.copytree(source, to / source.name, symlinks=True, ignore=junk)
        else:
            shutil.copy(source, to)
    return to


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source package, and the wheel that was made from that."""
    base = tmp_path_factory.mktemp("build")
    run(sys.executable, "-m", "build", "--outdir", base / "dist", copy_sources(base / "tree"), cwd=base)
    return base / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel in an environment that holds nothing else: no boto3, no bindings, no pip."""
    environment = Environment(tmp_path_factory.mktemp("installed") / "venv")
    environment.pip_install("--no-deps", "--no-index", wheel)
    return environment


def modules_below(folder: Path, package: str) -> Iterator[str]:
    for path in folder.rglob("*.py"):
        yield f"{package}/{path.relative_to(folder)}"


def test_the_wheel_holds_every_module_once(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")]
    core = {name for name in modules_below(ROOT / "elastiq", "elastiq") if "/plugins/" not in name}
    assert sorted(names) == sorted(core | set(modules_below(ROOT / "plugins", "elastiq/plugins")))


def test_the_wheel_holds_example_unit_licence_and_tables(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "elastiq/plugins/cloud/ec2_codes.ini",
        "elastiq/plugins/batch/command_jobs.schema.json",
        "elastiq/plugins/batch/command_workers.schema.json",
        "elastiq/web/files/index.html",
        "elastiq/web/files/page.js",
        "elastiq/web/files/style.css",
        "/data/share/elastiq/elastiq.conf.example",
        "/data/share/elastiq/systemd/elastiq.service",
        "/data/share/elastiq/worker-lease/elastiq-lease",
        "/data/share/elastiq/worker-notice/elastiq-notice",
        "/data/share/elastiq/hooks/hosts-file",
        "/data/share/elastiq/hooks/chat-webhook",
        "/data/share/elastiq/worker-image/user-data.yaml",
        "/data/share/elastiq/iam/elastiq-policy.json",
        "/data/share/elastiq/grafana/elastiq.json",
        "/data/share/elastiq/prometheus/alerts.yml",
        "/LICENSE",
    ):
        assert [name for name in names if name.endswith(wanted)], wanted


def test_the_metadata_name_the_version_the_licence_and_the_oldest_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(path).decode().splitlines()
    assert f"Version: {__version__}" in lines
    assert "License: Apache-2.0" in lines or "License-Expression: Apache-2.0" in lines
    assert "Requires-Python: >=3.9" in lines
    required = [line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert sorted(required) == ["Requires-Dist: boto3", "Requires-Dist: python-json-logger"]


def test_the_source_package_has_files_where_the_clone_has_a_link(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        links = [member.name for member in archive if member.issym() or member.islnk()]
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert links == []
    assert {"elastiq/plugins/__init__.py", "elastiq.conf.example", "LICENSE", "CHANGELOG.md"} <= names


@pytest.mark.parametrize("program", ["elastiq", "elastiqctl"])
def test_the_installed_commands_know_their_version(installed: Environment, program: str) -> None:
    assert __version__ in installed.run(program, "--version")


def test_the_simulated_cluster_runs_with_neither_boto3_nor_the_bindings(installed: Environment) -> None:
    absent = (
        "import importlib.util as u; print([m for m in ('boto3', 'htcondor', 'htcondor2') if u.find_spec(m)])"
    )
    assert installed.run("python", "-c", absent).strip() == "[]"
    summary = json.loads(installed.run("elastiqctl", "demo", "--json", "--seed", "1"))
    assert summary["seed"] == 1
    assert summary["jobs_done"] == summary["jobs_submitted"] > 0
    assert summary["launches"] > 0


def test_the_plugins_are_announced_as_a_third_partys_would_be(installed: Environment) -> None:
    ask = (
        "from importlib.metadata import distribution\n"
        "for e in distribution('elastiq').entry_points:\n"
        "    if e.group.startswith('elastiq.'): print(e.group, e.name, e.value)"
    )
    announced = installed.run("python", "-c", ask).splitlines()
    built_in = [
        f"{group} {name} {value}" for group, found in BUILT_IN.items() for name, value in found.items()
    ]
    assert sorted(announced) == sorted(built_in)


def test_a_third_partys_plugin_runs_the_suites_as_the_documentation_says(wheel: Path, tmp_path: Path) -> None:
    """The example of docs/plugins.md, by the commands there, with nothing of the clone but a copy of it."""
    page = (ROOT / "docs/plugins.md").read_text("utf-8")
    assert {"    pip install ./example-plugin", "    pip install pytest", "    pytest ./example-plugin"} < {
        *page.splitlines()
    }
    example = shutil.copytree(ROOT / "docs/example-plugin", tmp_path / "example-plugin")
    environment = Environment(tmp_path / "venv")
    environment.pip_install("--no-deps", "--no-index", wheel)
    environment.pip_install("--no-deps", example)
    environment.pip_install("pytest")
    where = environment.run("python", "-c", "import elastiq.conformance as c; print(c.__file__)").strip()
    assert Path(where).is_relative_to(tmp_path)
    said = environment.run("pytest", "-q", "-p", "no:cacheprovider", example)
    passed = re.search(r"\n(\d+) passed in ", said)
    assert passed and int(passed[1]) > 80 and "skipped" not in said, said


def test_an_editable_install_imports_the_plugins_from_the_clone(tmp_path: Path) -> None:
    tree = copy_sources(tmp_path / "tree")
    environment = Environment(tmp_path / "venv")
    environment.pip_install("--no-deps", "--editable", tree)
    where = environment.run("python", "-c", "import elastiq.plugins as p; print(p.__file__)").strip()
    assert Path(where).resolve() == tree / "plugins" / "__init__.py"
    assert __version__ in environment.run("elastiqctl", "--version")


def test_it_builds_with_a_distributions_setuptools(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.pip_install(f"setuptools=={DISTRIBUTION_SETUPTOOLS}", "wheel", "build")
    tree = copy_sources(tmp_path / "tree")
    environment.run("python", "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, tree)
    (older,) = tmp_path.glob("*.whl")

    def contents(path: Path) -> set[str]:
        return {name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name}

    assert contents(older) == contents(wheel)
