"""The packages of this tree, built by `packaging/build` as an ordinary user does, and of a higher version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import booted
from tests.e2e.rig import places

BUILDER = 65534  # nobody: it needs no right
HIGHER = "9.0.0"
NEWS = "What is new in the installed configuration."
_SOMEBODY = {"NAME": "somebody", "EMAIL": "somebody@example.org", "DATE": "2026-01-02T03:04:05Z"}
_GIT = {
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _SOMEBODY.items()},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}
_JUNK = (".git", ".venv*", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis", ".rig", "build", "dist", "site")


@dataclass(frozen=True)
class Packages:
    """The two packages of one version."""

    deb: Path
    rpm: Path


class Workshop:
    """A repository with this tree, and clones of it in which packages are built."""

    def __init__(self, base: Path) -> None:
        self.base, self.origin = base, base / "origin"
        base.chmod(0o755)
        (base / "home").mkdir()
        os.chown(base / "home", BUILDER, BUILDER)
        self._copy_tree()
        self._git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def _copy_tree(self) -> None:
        """What is in the tree now, be that a repository, as on a developer's machine, or a copy of one, as in CI."""
        junk = shutil.ignore_patterns(*_JUNK)

        def ignored(directory: str, names: list[str]) -> set[str]:
            found = junk(directory, names)
            return found - {"build"} if Path(directory) == places.REPOSITORY / "packaging" else found

        shutil.copytree(places.REPOSITORY, self.origin, symlinks=True, ignore=ignored)

    def commit(self) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", "x")

    def next_release(self, version: str) -> None:
        """Commit, to the branch `next`, a tree with another version, which installs another configuration."""
        self._git("checkout", "--quiet", "-b", "next")
        file = self.origin / "elastiq/__init__.py"
        file.write_text(re.sub(r'(__version__ = )"[^"]+"', rf'\1"{version}"', file.read_text()))
        with (self.origin / "packaging/files/elastiq.conf").open("a") as installed:
            installed.write(f"# {NEWS}\n")
        self.commit()
        self._git("checkout", "--quiet", "main")

    def _git(self, *words: str) -> None:
        command = ["git", "-c", "safe.directory=*", "-C", str(self.origin), *words]
        subprocess.run(command, check=True, env={**os.environ, **_GIT}, capture_output=True)

    def clone(self, name: str, umask: int) -> Path:
        """A clone of the builder's own, made and worked in with this umask."""
        place = self.base / name
        subprocess.run(
            ["git", "-c", "safe.directory=*", "clone", "--quiet", "--no-hardlinks", str(self.origin), str(place)],
            check=True, umask=umask, env={**os.environ, **_GIT}, capture_output=True,
        )  # fmt: skip
        for path in (place, *place.rglob("*")):
            os.chown(path, BUILDER, BUILDER, follow_symlinks=False)
        return place

    def build(self, clone: Path, out: str, umask: int = 0o022, **variables: str) -> Packages:
        """Build in a clone; AssertionError with what it said if that fails."""
        to = self.base / out
        to.mkdir()
        os.chown(to, BUILDER, BUILDER)
        environment = {**os.environ, "HOME": str(self.base / "home"), **variables}
        words = ["setpriv", f"--reuid={BUILDER}", f"--regid={BUILDER}", "--clear-groups"]
        done = subprocess.run(
            [*words, "/usr/bin/python3", str(clone / "packaging/build"), "--out", str(to)],
            cwd="/", env=environment, umask=umask, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (deb,), (rpm,) = to.glob("*.deb"), to.glob("*.rpm")
        assert done.stdout.splitlines() == sorted([str(deb), str(rpm)])
        return Packages(deb, rpm)


def put(machine: booted.Machine, package: Path) -> str:
    """Copy a package to the machine; returns its place there."""
    machine.put(f"/srv/{package.name}", package.read_bytes())
    return f"/srv/{package.name}"


def install(machine: booted.Machine, deb: Path) -> str:
    """Install or upgrade as an administrator or a script does, nobody there to answer; returns what it said."""
    done = machine.ask("apt-get", "install", "--yes", "--reinstall", put(machine, deb), timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
