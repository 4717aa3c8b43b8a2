"""Debian systems as directories, for batch systems whose packages the machine itself does not have.

Each is made once by mmdebstrap from the machine's own mirror (20 s and 150 MB for Slurm's packages) and kept in the
rig's directory under the hash of its recipe. Nobody writes into one: `hosts.Host` shows it through an overlay.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.rig import debian, places
from tests.e2e.rig.process import RigError, run

NEEDED = ("mmdebstrap", "unshare", "nsenter", "setpriv", "ip")

_APT_SETTINGS = ('APT::Install-Recommends "false"', 'Acquire::Languages "none"')
_UNREAD = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_USERS = (("elastiq", places.DAEMON_UID), ("jobuser", places.JOB_UID))
# No name server answers there, and a resolver would wait for one.
_NO_DNS = 'sed -i "s/^hosts:.*/hosts: files/" "$1/etc/nsswitch.conf"; : >"$1/etc/resolv.conf"'
# Nothing starts by itself when it is installed: invoke-rc.d(8).
_NO_SERVICES = r'printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"'


@dataclass(frozen=True)
class Recipe:
    """What a root is made of. ``packages`` come without what they merely recommend, without documents, and start no
    service; iproute2, procps and the users elastiq and jobuser are there anyway. ``hooks`` are shell commands that run
    at the end, with the root's path as ``$1``; ``options`` are further ones of mmdebstrap. ``whole``: a system to be
    booted, exactly the packages and the hooks, with documents and services."""

    suite: str
    packages: tuple[str, ...]
    hooks: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    whole: bool = False

    @property
    def path(self) -> Path:
        digest = hashlib.sha256(repr((self, _APT_SETTINGS, _USERS, _NO_DNS)).encode()).hexdigest()
        return places.base() / f"debian-{self.suite}-{digest[:12]}"  # one of another recipe may be in use


def missing() -> str:
    """Why no root can be made and used here; empty if it can, as far as can be told without trying."""
    if os.geteuid() != 0:
        return "it needs root (mounts, namespaces)"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    return f"these commands are missing: {', '.join(absent)}" if absent else ""


def root(recipe: Recipe) -> Path:
    """The directory with this system; made if it is not there. Different ones may be made at the same time, in threads
    or processes. `RigError` if it cannot be had."""
    reason = missing()
    if reason:
        raise RigError(reason)
    places.base().mkdir(parents=True, exist_ok=True)
    path = recipe.path
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = path.with_suffix(".complete")
        if not complete.exists():
            shutil.rmtree(path, ignore_errors=True)
            _make(recipe, path)
            complete.touch()
    return path


def _make(recipe: Recipe, path: Path) -> None:
    options = ["--dpkgopt=force-unsafe-io", *(f"--aptopt={line}" for line in _APT_SETTINGS), *recipe.options]
    packages, hooks = list(recipe.packages), list(recipe.hooks)
    if not recipe.whole:
        packages += ["iproute2", "procps"]
        useradd = 'chroot "$1" useradd --create-home --shell /bin/sh --uid'
        hooks = [_NO_DNS, *(f"{useradd} {uid} {name}" for name, uid in _USERS), *hooks]
        options += [*(f"--dpkgopt=path-exclude={pattern}" for pattern in _UNREAD), f"--essential-hook={_NO_SERVICES}"]
    options += [f"--customize-hook={line}" for line in hooks]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", *options]
    source = f"deb [signed-by={debian.keyring()}] {debian.mirror()} {recipe.suite} main"
    run([*command, recipe.suite, path, source], timeout_s=600)
