"""As whom the checks are made: as the user of the service, because that is who has to read, write and ask.

Root becomes that user for good, in its own process: what root may do says nothing about the service.
"""

from __future__ import annotations

import atexit
import os
import pwd
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Mapping, Optional

from elastiq.cli.systemd import UNIT
from elastiq.interfaces import Check
from elastiq.paths import Paths

SUBJECT = "user"
SHOW_S = 30.0
GIVEN = Path("/run/credentials") / UNIT
STORES = ("/etc/credstore", "/run/credstore", "/usr/local/lib/credstore", "/usr/lib/credstore")  # systemd.exec(5)
_KEEP = ("PATH", "LANG", "LC_ALL", "TERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "PYTHONPATH")


def become(paths: Paths, named: Optional[str], is_service: bool) -> Check:
    """Be the one as whom the daemon runs, or will: ``named`` if given, the service's user, or the owner of the state.
    Says who it is. Raises `LookupError` for a user who does not exist."""
    unit = _unit() if is_service else {}
    wanted = named or unit.get("User") or ("root" if is_service else _owner(paths.statedir))
    me = pwd.getpwuid(os.geteuid()).pw_name if _known(os.geteuid()) else str(os.geteuid())
    if wanted in (None, me):
        return Check(SUBJECT, "ok", f"looked at as {me}, as whom elastiq runs")
    try:
        user = pwd.getpwnam(wanted)
    except KeyError:
        raise LookupError(f"there is no user {wanted}, as whom elastiq is to run: make one, or name another") from None
    if os.geteuid() != 0:
        text = f"looked at as {me}, while elastiq runs as {wanted}: what holds for one need not hold for the other"
        return Check(SUBJECT, "warning", text, "run it as root, which becomes that user: sudo elastiqctl check")
    kept = {name: os.environ[name] for name in _KEEP if name in os.environ}
    given = _credentials(unit.get("LoadCredential", ""), user)
    _drop_to(user)
    os.environ.clear()
    os.environ.update(kept)
    os.environ.update(HOME=user.pw_dir, USER=wanted, LOGNAME=wanted, **_environment(unit.get("Environment", "")))
    if given:
        os.environ["CREDENTIALS_DIRECTORY"] = given
    return Check(SUBJECT, "ok", f"looked at as {wanted}, as whom elastiq runs")


def _known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _owner(directory: Path) -> Optional[str]:
    """Whose the state is; None where there is none, or it is nobody's that has a name."""
    try:
        uid = directory.stat().st_uid
    except OSError:
        return None
    return pwd.getpwuid(uid).pw_name if _known(uid) else None


def _drop_to(user: pwd.struct_passwd) -> None:
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _unit() -> Mapping[str, str]:
    words = ("systemctl", "show", UNIT, "--property=User,Environment,LoadCredential")
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=SHOW_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        found[key] = f"{found[key]}\n{value}" if key in found else value
    return found


def _environment(text: str) -> dict[str, str]:
    """What the unit sets, as `systemctl show` quotes it."""
    words = (word.partition("=") for word in shlex.split(text))
    return {name: value for name, _, value in words if re.fullmatch(r"[A-Za-z_]\w*", name)}


def _credentials(loaded: str, user: pwd.struct_passwd) -> str:
    """Where the service finds its credentials; for one that does not run, the same in a directory of our own, in
    memory, until we end. Empty if there are none."""
    if GIVEN.is_dir():
        return str(GIVEN)
    lines = [line.partition(":") for line in loaded.split("\n") if line.strip()]
    names = {name: path or name for name, _, path in lines}
    places = {name: next((one for one in _places(path) if one.is_file()), None) for name, path in names.items()}
    if not any(places.values()):
        return ""
    folder = Path(tempfile.mkdtemp(prefix="elastiq-check-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, place in places.items():
        if place is not None:
            copy = folder / Path(name).name
            copy.touch(mode=0o400)
            copy.write_bytes(place.read_bytes())
            os.chown(copy, user.pw_uid, user.pw_gid)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return str(folder)


def _places(path: str) -> list[Path]:
    return [Path(path)] if path.startswith("/") else [Path(store) / path for store in STORES]
