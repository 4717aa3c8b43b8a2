"""Running programs as the unprivileged user of the daemon, in the head node's network."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Mapping, Optional, Sequence

from tests.e2e.rig import network, places


def environment(home: Path) -> dict[str, str]:
    """The whole environment of such a program: HTCondor's tools, the repository, nothing of the caller's."""
    path = [str(places.tools()), str(Path(sys.executable).parent), "/usr/bin", "/bin"]
    return {
        "PATH": ":".join(path),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "CONDOR_CONFIG": str(places.client_config()),
        "_CONDOR_SEC_TOKEN_DIRECTORY": str(places.daemon_tokens()),
        "PYTHONPATH": str(places.REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def as_daemon(argv: Sequence[object], variables: Optional[Mapping[str, str]] = None) -> list[str]:
    """The command line that runs ``argv`` as the daemon's user in the hub's network, with HTCondor's tools."""
    return network.within(places.HUB, unprivileged(argv, variables or environment(Path("/nonexistent"))))


def unprivileged(argv: Sequence[object], variables: Mapping[str, str], capabilities: Sequence[str] = ()) -> list[str]:
    """The command line that runs ``argv`` as the daemon's user, with this whole environment; its process keeps the id
    of the first one. ``capabilities`` are all that it may do beside what every user may."""
    kept = ",".join(f"+{name}" for name in capabilities)
    user = [
        "setpriv",
        f"--reuid={places.DAEMON_UID}",
        f"--regid={places.DAEMON_UID}",
        "--clear-groups",
        "--no-new-privs",
        *([f"--inh-caps={kept}", f"--ambient-caps={kept}"] if kept else []),
    ]
    inner = [*user, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *map(str, argv)]
    script = _exposing(_hidden_paths())
    if script:
        inner = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script + 'exec "$@"', "sh", *inner]
    return inner


def _hidden_paths() -> list[Path]:
    """What the program needs but the user could not reach: an interpreter below /root, for example."""
    needed = {Path(sys.base_prefix), Path(sys.prefix), Path(os.path.realpath(sys.executable)).parent.parent}
    return sorted(path for path in needed | {places.REPOSITORY} if _barrier(path) is not None)


def _barrier(path: Path) -> Optional[Path]:
    """The topmost directory on the way to ``path`` that others may not enter."""
    return next((parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), None)


def _exposing(paths: Sequence[Path]) -> str:
    """A script that replaces each barrier by an empty directory with only these paths in it."""
    if not paths:
        return ""
    stage = places.base() / "stage"
    lines = ["set -e", f"mkdir -p {shlex.quote(str(stage))}", f"mount -t tmpfs tmpfs {shlex.quote(str(stage))}"]
    for number, path in enumerate(paths):
        lines += [f"mkdir {stage}/{number}", f"mount --bind {shlex.quote(str(path))} {stage}/{number}"]
    for barrier in sorted({str(_barrier(path)) for path in paths}):
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(barrier)}")
    for number, path in enumerate(paths):
        lines += [f"mkdir -p {shlex.quote(str(path))}", f"mount --bind {stage}/{number} {shlex.quote(str(path))}"]
    return "; ".join(lines) + "; "
