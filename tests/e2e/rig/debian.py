"""HTCondor's packages of Debian 13, unpacked into a root of their own.

Debian 12 has no HTCondor, and its libc is too old for Debian 13's; so the daemons run in a chroot
of the unpacked packages, and the tools run on the host through that root's own loader. Nothing is
installed on the host: apt works on private directories with the host's own mirror and settings.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from tests.e2e.rig import places
from tests.e2e.rig.process import RigError, run

SUITE = "trixie"
PACKAGES = ("condor", "libc-bin", "coreutils", "bash", "dash", "procps", "util-linux", "mount")
KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp")
COMPLETE = ".complete"

PASSWD = f"""\
root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
condor:x:{places.CONDOR_UID}:{places.CONDOR_UID}:condor:/var/lib/condor:/bin/false
jobuser:x:{places.JOB_UID}:{places.JOB_UID}:jobuser:/home/jobuser:/bin/sh
"""
GROUP = f"""\
root:x:0:
nogroup:x:65534:
condor:x:{places.CONDOR_UID}:
jobuser:x:{places.JOB_UID}:
"""


def unpack() -> None:
    """Download and unpack, unless that was done before. About 55 MB to load, 270 MB on disk."""
    root = places.root()
    if (root / COMPLETE).exists():
        return
    if root.exists():
        shutil.rmtree(root)
    for name in ("bin", "sbin", "lib", "lib64"):  # /usr is merged
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in _download():
        run(["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink', "sh", package, root])
    _prepare(root)
    (root / COMPLETE).touch()


def _download() -> list[Path]:
    apt = places.base() / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").write_text("")  # an empty system: apt then loads every dependency
    (apt / "sources.list").write_text(f"deb [signed-by={keyring()}] {mirror()} {SUITE} main\n")
    (apt / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{apt}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State "{apt}";\nDir::State::status "{apt}/status";\nDir::Cache "{apt}/cache";\n'
        'APT::Sandbox::User "root";\nAPT::Install-Recommends "false";\nAcquire::Languages "none";\n'
    )
    environment = {**os.environ, "APT_CONFIG": str(apt / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], timeout_s=300, environment=environment)
    run(["apt-get", "install", "-qq", "--yes", "--download-only", *PACKAGES], timeout_s=600, environment=environment)
    return sorted((apt / "cache/archives").glob("*.deb"))


def mirror() -> str:
    """The Debian mirror that this machine's apt already uses, whatever the form of its sources."""
    rows = run(["apt-get", "indextargets", "--format", "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)"]).splitlines()
    for row in rows:
        made_by, _, rest = row.partition("|")
        uri, _, release = rest.partition("|")
        # "/debian" tells the archive itself from security updates and from other vendors
        if made_by == "Packages" and uri.rstrip("/").endswith("/debian") and "-security" not in release:
            return uri
    raise RigError("apt has no Debian mirror in its sources: HTCondor's packages cannot be had")


def keyring() -> Path:
    for name in KEYRINGS:
        path = Path("/usr/share/keyrings") / name
        if path.exists():
            return path
    raise RigError("no Debian archive keyring here: install debian-archive-keyring")


def _prepare(root: Path) -> None:
    for name in ("root", "proc", "dev", "sys", "run/condor", "etc", "home", "pool"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    shell = root / "usr/bin/sh"
    if not shell.exists():
        shell.symlink_to("dash")
    (root / "etc/passwd").write_text(PASSWD)
    (root / "etc/group").write_text(GROUP)
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    home = root / "home/jobuser"
    home.mkdir()
    os.chown(home, places.JOB_UID, places.JOB_UID)
    run(["chroot", root, "/sbin/ldconfig"])


def wrap_tools() -> None:
    """Write a wrapper for each of HTCondor's commands into `places.tools`, usable by any user of the host."""
    root = places.root()
    loaders = sorted((root / "usr").glob("lib*/ld-linux*.so.*"))
    if not loaders:
        raise RigError(f"no dynamic loader in {root}: the root is incomplete; purge the rig")
    libraries = ":".join(str(root / part) for part in (f"usr/lib/{platform.machine()}-linux-gnu", "usr/lib"))
    places.tools().mkdir(exist_ok=True)
    for directory in ("usr/bin", "usr/sbin"):
        for program in (root / directory).glob("condor_*"):
            wrapper = places.tools() / program.name
            wrapper.write_text(
                f'#!/bin/sh\nexport CONDOR_CONFIG="${{CONDOR_CONFIG:-{places.client_config()}}}"\n'
                f'exec {loaders[0]} --library-path {libraries} {program} "$@"\n'
            )
            wrapper.chmod(0o755)
