"""As whom the checks are made: as the user of the service, because that is who has to read, write and ask.

Root becomes that user for good, in its own process: what root may do says nothing about the service.
"""

from __future__ import annotations

import atexit
import grp
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Iterable, Mapping, Optional

from elastiq.cli.copied import STATE
from elastiq.cli.systemd import UNIT
from elastiq.interfaces import Check
from elastiq.paths import Paths

SUBJECT = "user"
AS_ROOT = "run it as root, which becomes that user: sudo elastiqctl check"
SHOW_S = 30.0
GIVEN = Path("/run/credentials") / UNIT
STORES = ("/etc/credstore", "/run/credstore", "/usr/local/lib/credstore", "/usr/lib/credstore")  # systemd.exec(5)
SERVICE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"  # systemd.exec(5), $PATH
_KEEP = ("PATH", "LANG", "LC_ALL", "TERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "PYTHONPATH")


def become(paths: Paths, named: Optional[str], is_service: bool) -> Check:
    """Be the one as whom the daemon runs, or will: ``named`` if given, the service's user, or the owner of the state.
    Says who it is. Raises `LookupError` for a user who does not exist, or cannot run this elastiq."""
    unit = _unit() if is_service else {}
    me = pwd.getpwuid(os.geteuid()).pw_name if _known(os.geteuid()) else str(os.geteuid())
    try:
        wanted = named or unit.get("User") or ("root" if is_service else owner(paths.statedir))
    except PermissionError:
        text = f"looked at as {me}, who has no permission to see whose {paths.statedir} is: as whom elastiq runs"
        return Check(SUBJECT, "warning", text, AS_ROOT)
    if wanted in (None, me):
        return Check(SUBJECT, "ok", f"looked at as {me}, as whom elastiq runs")
    try:
        user = pwd.getpwnam(wanted)
    except KeyError:
        raise LookupError(f"there is no user {wanted}, as whom elastiq is to run: make one, or name another") from None
    if os.geteuid() != 0:
        text = f"looked at as {me}, while elastiq runs as {wanted}: what holds for one need not hold for the other"
        return Check(SUBJECT, "warning", text, AS_ROOT)
    if not _can_run_this(user):
        text = f"{wanted}, as whom elastiq is to run, cannot read this elastiq or its Python ({sys.executable})"
        raise LookupError(f"{text}: install it where everybody can")
    more = _environment(unit.get("Environment", ""))
    if is_service:
        more.setdefault("PATH", SERVICE_PATH)  # what is on root's need not be on its own
        if given := _credentials(user):
            more["CREDENTIALS_DIRECTORY"] = given
    _drop_to(user, unit.get("Group", ""), unit.get("SupplementaryGroups", ""))
    _begin_anew(user, more)
    return Check(SUBJECT, "ok", f"looked at as {wanted}, as whom elastiq runs")


def doubted(check: Check) -> Check:
    """What somebody finds who is not elastiq's user: an error may be his alone, and to mend it for him might take from
    elastiq what it has."""
    return replace(check, level="unknown", remedy=AS_ROOT) if check.level == "error" else check


def of_start(paths: Paths) -> Optional[pwd.struct_passwd]:
    """As whom root starts elastiq where it is no service: as the owner of the state, who alone is the head node that
    the state is of; None if that is root, or nobody yet. Raises `LookupError` if he cannot run this elastiq."""
    name = owner(paths.statedir) if os.geteuid() == 0 else None
    if name in (None, "root"):
        return None
    user = pwd.getpwnam(str(name))
    if not _can_run_this(user):
        raise LookupError(
            f"{paths.statedir} is of {name}, who cannot read this elastiq or its Python ({sys.executable})"
        )
    return user


def begin_as(user: pwd.struct_passwd, directories: Iterable[Path]) -> None:
    """Be that user for good, with these directories, which only root may be able to make."""
    for directory in directories:
        _make(directory, user)
    _drop_to(user, "", "")
    _begin_anew(user, {})


def _make(directory: Path, user: pwd.struct_passwd) -> None:
    """Make it for the user; one that is there stays whose it is."""
    try:
        directory.mkdir(mode=0o750, parents=True)
    except FileExistsError:
        return
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid == os.geteuid():  # else somebody has put another one there meanwhile
            os.fchown(fd, user.pw_uid, user.pw_gid)
    finally:
        os.close(fd)


def _begin_anew(user: pwd.struct_passwd, more: Mapping[str, str]) -> None:
    """That user's environment, and nothing of root's but what says how to speak to a person, and where programs are."""
    kept = {name: os.environ[name] for name in _KEEP if name in os.environ}
    os.environ.clear()
    os.environ.update({**kept, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, **more})


def _can_run_this(user: pwd.struct_passwd) -> bool:
    """Whether that user, too, can import what is imported here; asked of a process, since root cannot come back."""
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    try:
        done = subprocess.run(
            [sys.executable, "-c", "import elastiq.cli.check"], env={"PYTHONPATH": os.pathsep.join(sys.path)}, cwd="/",
            user=user.pw_uid, group=user.pw_gid, extra_groups=groups, capture_output=True, timeout=SHOW_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def owner(statedir: Path) -> Optional[str]:
    """Whose the state is: its file's owner, else the directory's; None where there is none, or it is nobody's that has
    a name. Raises PermissionError."""
    for place in (statedir / STATE, statedir):
        try:
            uid = place.stat().st_uid
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:
            if place == statedir:
                raise
            continue
        return pwd.getpwuid(uid).pw_name if _known(uid) else None
    return None


def _drop_to(user: pwd.struct_passwd, group: str, more: str) -> None:
    """Be that user, with the groups of the unit: Group= goes before his own, SupplementaryGroups= adds."""
    gid = _gid(group) or user.pw_gid
    further = [found for name in more.split() if (found := _gid(name)) is not None]
    os.setgroups(sorted({*os.getgrouplist(user.pw_name, gid), *further}))
    os.setgid(gid)
    os.setuid(user.pw_uid)


def _gid(group: str) -> Optional[int]:
    try:
        return int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def _unit() -> Mapping[str, str]:
    """Whose the unit is, and what it sets."""
    shown = _systemctl("show", UNIT, "--property=User,Group,SupplementaryGroups,Environment")
    return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)


def _systemctl(*words: str) -> str:
    argv = ("systemctl", "--no-pager", *words)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=SHOW_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _environment(text: str) -> dict[str, str]:
    """What the unit sets, as `systemctl show` quotes it."""
    words = (word.partition("=") for word in shlex.split(text))
    return {name: value for name, _, value in words if re.fullmatch(r"[A-Za-z_]\w*", name)}


def loaded(unit: str) -> dict[str, str]:
    """The credentials that a unit loads, by their names, out of its text with all drop-ins: `systemctl show` does not
    print them in every version. An empty line takes back those before."""
    found: dict[str, str] = {}
    for line in unit.splitlines():
        key, equals, value = (word.strip() for word in line.partition("="))
        if key == "LoadCredential" and equals:
            name, _, path = value.partition(":")
            found = {**found, name: path or name} if name else {}
    return found


def _credentials(user: pwd.struct_passwd) -> str:
    """Where the service finds its credentials; for one that does not run, the same in a directory of our own, in
    memory, until we end. Empty if there are none."""
    if GIVEN.is_dir():
        return str(GIVEN)
    names = loaded(_systemctl("cat", UNIT))
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
