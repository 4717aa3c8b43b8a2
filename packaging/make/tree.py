"""What the packages install: every file with its place, mode and kind, in the form that nfpm reads.

A file that says `#!` first can be run, others cannot, whatever the umask was where the sources came from.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import completion
import manual
import reference

HOME = "/usr/share/elastiq"
DOC = "/usr/share/doc/elastiq"
UNITS = "/usr/lib/systemd/system"
FORMATS = ("deb", "rpm")
PROGRAMS = {
    "/usr/bin/elastiq": "elastiq.service",
    "/usr/bin/elastiqctl": "elastiq.cli",
    "/usr/libexec/elastiq/package": "elastiq.cli.packaged",  # for the maintainer scripts
}


class Tree:
    """The contents of one package; each file is written below ``work``, with the time ``epoch``."""

    def __init__(self, source: Path, work: Path, kind: str, epoch: int) -> None:
        self.source, self.kind, self._epoch = source, kind, epoch
        self._files = work / kind
        self.contents: list[dict[str, Any]] = []

    def add(
        self, place: str, content: bytes | str, type: str = "", mode: Optional[int] = None, group: str = "root"
    ) -> None:
        """Install a file. ``type`` is nfpm's: config|noreplace, doc, license."""
        data = content.encode() if isinstance(content, str) else content
        data = re.sub(rb"\A#!/usr/bin/env ", b"#!/usr/bin/", data)  # not the first in somebody's PATH
        path = self._files / place.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (self._epoch, self._epoch))
        if mode is None:
            mode = 0o755 if data.startswith(b"#!") else 0o644
        if type == "doc" and self.kind == "deb":
            type = ""  # a mark of RPM's
        info: dict[str, Any] = {"mode": mode, "owner": "root", "group": group}
        entry: dict[str, Any] = {"src": str(path), "dst": place, "file_info": info}
        self.contents.append({**entry, "type": type} if type else entry)

    def copy(self, name: str, place: str, **more: Any) -> None:
        self.add(place, (self.source / name).read_bytes(), **more)

    def copy_all(self, directory: Path, place: str, **more: Any) -> None:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                self.add(f"{place}/{path.relative_to(directory)}", path.read_bytes(), **more)

    def own(self, place: str) -> None:
        """The directories from ``place`` down belong to the package, and go with it."""
        found = {place}
        for entry in self.contents:
            parents = [str(parent) for parent in Path(entry["dst"]).parents]
            found.update(parent for parent in parents if parent == place or parent.startswith(f"{place}/"))
        info = {"mode": 0o755, "owner": "root", "group": "root"}
        self.contents += [{"dst": one, "type": "dir", "file_info": info} for one in sorted(found)]


def build_wheel(source: Path, work: Path) -> Path:
    """Let setuptools build the sources, and return the directory with what is in the wheel."""
    wheels = work / "wheel"
    wheels.mkdir()
    code = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    # From a copy: setuptools writes into the tree.
    tree = work / "tree"
    shutil.copytree(source, tree, symlinks=True)
    subprocess.run([sys.executable, "-c", code, wheels], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = wheels.glob("*.whl")
    shutil.unpack_archive(wheel, work / "unpacked", "zip")
    return work / "unpacked"


def fill(tree: Tree, wheel: Path, date: str, changelog: str) -> None:
    """Add everything that is installed. ``date`` stands in the manual pages; ``changelog`` is Debian's."""
    _modules(tree, wheel)
    _service(tree)
    _configuration(tree)
    _documentation(tree, date)
    if tree.kind == "deb":
        _of_debian(tree, changelog)
    licences = ["/usr/share/licenses/elastiq"] if tree.kind == "rpm" else []
    for owned in (HOME, DOC, "/usr/libexec/elastiq", f"{UNITS}/elastiq.service.d", *licences):
        tree.own(owned)


def _modules(tree: Tree, wheel: Path) -> None:
    """elastiq's modules with their metadata, by which plugins are found, and the programs."""
    tree.copy_all(wheel / "elastiq", f"{HOME}/elastiq")
    (information,) = wheel.glob("*.dist-info")
    for name in ("METADATA", "entry_points.txt"):  # the others are for pip, which did not install this
        tree.add(f"{HOME}/{information.name}/{name}", (information / name).read_bytes())
    tree.add(f"{HOME}/{information.name}/INSTALLER", f"{'dpkg' if tree.kind == 'deb' else 'rpm'}\n")
    (data,) = wheel.glob("*.data/data/share/elastiq")
    for path in sorted(data.rglob("*")):
        if path.is_file() and path.name != "elastiq.service":  # that is at its place
            tree.add(f"{HOME}/{path.relative_to(data)}", path.read_bytes())
    program = (tree.source / "packaging/files/program").read_text()
    for name, module in PROGRAMS.items():
        tree.add(name, program.replace("@MODULE@", module))


def _service(tree: Tree) -> None:
    tree.copy("systemd/elastiq.service", f"{UNITS}/elastiq.service")
    tree.copy("packaging/files/configured.conf", f"{UNITS}/elastiq.service.d/configured.conf")
    tree.copy("packaging/files/is-configured", "/usr/libexec/elastiq/is-configured")
    tree.copy("systemd/elastiq.sysusers", "/usr/lib/sysusers.d/elastiq.conf")
    tree.copy("systemd/elastiq.tmpfiles", "/usr/lib/tmpfiles.d/elastiq.conf")
    if tree.kind == "rpm":
        tree.copy("packaging/files/elastiq.preset", "/usr/lib/systemd/system-preset/50-elastiq.preset")


def _configuration(tree: Tree) -> None:
    name = "packaging/files/elastiq.conf"
    if tree.kind == "rpm":  # dpkg would ask at each of its changes, for everybody edits it: see deb/postinst
        tree.copy(name, "/etc/elastiq.conf", type="config|noreplace", mode=0o640, group="elastiq")
    tree.copy(name, f"{HOME}/elastiq.conf")  # what it was, for is-configured


def _documentation(tree: Tree, date: str) -> None:
    for name, page in manual.pages(date).items():
        tree.add(f"/usr/share/man/man{name[-1]}/{name}.gz", compressed(page), type="doc")
    for shell, place in {**completion.FILES, "zsh": completion.ZSH[tree.kind]}.items():
        tree.add(place, completion.script(shell))
    tree.copy("packaging/files/README.md", f"{DOC}/README.md", type="doc")
    docs = tree.source / "docs"
    for path in sorted(docs.rglob("*")):
        if path.suffix == ".md":
            text = at_its_place(reference.on_page_markdown(path.read_text("utf-8")))
            tree.add(f"{DOC}/docs/{path.relative_to(docs)}", text, type="doc")
    tree.copy_all(docs / "example-plugin", f"{DOC}/examples/plugin", type="doc", mode=0o644)
    tree.copy_all(docs / "batch" / "directory-queue", f"{DOC}/examples/directory-queue", type="doc")
    changes = (tree.source / "CHANGELOG.md").read_text("utf-8")
    if tree.kind == "deb":
        tree.add(f"{DOC}/changelog.gz", compressed(changes))
    else:
        tree.add(f"{DOC}/CHANGELOG.md", changes, type="doc")
        tree.copy("LICENSE", "/usr/share/licenses/elastiq/LICENSE", type="license")


def at_its_place(page: str) -> str:
    """A page of the documentation with the examples beside it where a package has them."""
    page = page.replace("](example-plugin/", "](../examples/plugin/")
    page = page.replace("](directory-queue/", "](../../examples/directory-queue/")
    return page.replace(" ./example-plugin", f" {DOC}/examples/plugin")


def _of_debian(tree: Tree, changelog: str) -> None:
    tree.add(f"{DOC}/changelog.Debian.gz", compressed(changelog))
    tree.copy("packaging/deb/copyright", f"{DOC}/copyright")
    tree.copy("packaging/deb/rtupdate", "/usr/share/python3/runtime.d/elastiq.rtupdate")
    tree.copy("packaging/deb/lintian-overrides", "/usr/share/lintian/overrides/elastiq")


def compressed(text: str) -> bytes:
    """As `gzip -9n` does it; gzip.compress has another header in each version of Python."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).encode())
    return buffer.getvalue()
