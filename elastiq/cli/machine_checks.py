"""What `elastiqctl check` looks at on this machine: directories, what runs, the service, the clock."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import socket
import stat
import time
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Callable, Iterator, Optional

from elastiq import __version__, client
from elastiq.cli import once, systemd
from elastiq.cli.running import holders
from elastiq.headid import HEAD_ID_FILE
from elastiq.identity import IdentityError
from elastiq.interfaces import Check, Looks, SourceError
from elastiq.metrics import how_to_install
from elastiq.paths import Paths
from elastiq.protocol import Refused
from elastiq.settings import Settings

LEAST_FREE = 100 << 20  # bytes; the state is small, the logs are rotated at 10 MB
WITHOUT_SPACE = {
    "state directory": "nothing is launched",
    "run directory": "elastiq cannot start",
    "log directory": "records of the log are lost; nothing else stops",
}
SECTION_PORTS = ("metrics", "web")
CONNECT_S = 5.0
JSON_LOGGER = "install python3-pythonjsonlogger (EL: python3-json-logger; with pip: python-json-logger)"
_TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised
_TIMEX_SIZE = 512  # bytes, more than any struct timex has
ENABLE = "systemctl enable elastiq"


def looks(
    paths: Paths,
    settings: Optional[Settings],
    service: Optional[systemd.Service],
    has_secret: bool = False,
    by_root: bool = False,
) -> Looks:
    """The checks of the machine; without ``settings``, where the configuration is wrong, those that need none.
    ``has_secret`` if the configuration itself holds one, ``by_root`` if root is to start it."""
    maker = "systemd makes it" if service else "root's `elastiqctl start` makes it" if by_root else ""
    found: dict[str, Callable[[], Iterator[Check]]] = {
        "state directory": partial(_directory, "state directory", paths.statedir, maker),
        "run directory": partial(_directory, "run directory", paths.rundir, maker),
        "log directory": partial(_directory, "log directory", paths.logdir, maker),
        "what runs": partial(_running, paths, settings),
        "service": partial(_service, service),
        "clock": _clock,
    }
    if service is not None and service.in_journal:
        del found["log directory"]
    if settings is not None:
        found["configuration file"] = partial(_mode, "configuration file", paths.config, has_secret)
        found["head node's identity"] = partial(_identity, paths, settings)
        if settings.schedules:
            found["time zones"] = partial(_zones, settings)
        if "metrics" in settings.extras or settings.log_format == "json":
            found["optional parts"] = partial(_optional, settings)
        for section in SECTION_PORTS:
            if settings.extras.get(section, {}).get("listen"):
                found[f"[{section}] listen"] = partial(_port, paths, settings, section)
    return found


# --------------------------------------------------------------------------- files


def _directory(subject: str, directory: Path, maker: str) -> Iterator[Check]:
    """Whether the daemon can write there, without writing."""
    if not directory.exists():
        parent = next(one for one in directory.parents if one.exists())
        if maker or os.access(parent, os.W_OK | os.X_OK):
            text = f"{directory}: not there yet, {maker or f'made in {parent} at the first start'}"
            yield Check(subject, "ok", text)
        else:
            text = f"{directory} is not there, and cannot be made in {parent}"
            yield Check(subject, "error", text, f"make it, and give it to {_me()}")
        return
    if not directory.is_dir():
        yield Check(subject, "error", f"{directory} is no directory", "move it away")
        return
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        yield Check(subject, "error", f"{directory}: its file system is read-only", "remount it, read and write")
        return
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        its_own = directory.stat().st_uid == os.geteuid()
        remedy = f"chmod u+rwx {directory}" if its_own else f"chown -R {_me()}: {directory}"
        yield Check(subject, "error", f"{_me()} cannot write in {directory}", remedy)
        return
    ours = [one for one in directory.iterdir() if one.name.startswith("elastiq") or one.name == HEAD_ID_FILE]
    closed = sorted(one.name for one in ours if one.is_file() and not os.access(one, os.W_OK))
    if closed:
        text = f"{_me()} cannot write {', '.join(closed[:3])} in {directory}: did another user run elastiq there?"
        yield Check(subject, "error", text, f"chown -R {_me()}: {directory}")
        return
    yield _space(subject, directory)


def _space(subject: str, directory: Path) -> Check:
    disk = os.statvfs(directory)
    free, inodes = disk.f_bavail * disk.f_frsize, disk.f_favail if disk.f_files else 1
    text = f"{directory}: can be written, {free / (1 << 20):,.0f} MB free"
    if free < 1 << 20 or not inodes:
        remedy = f"free some space, or {WITHOUT_SPACE[subject]}"
        return Check(subject, "error", f"{directory}: the disk is full", remedy)
    if free < LEAST_FREE:
        return Check(subject, "warning", text, "free some space")
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o002:
        return Check(subject, "warning", f"{directory}: everybody may write there", f"chmod o-w {directory}")
    return Check(subject, "ok", text)


def _mode(subject: str, path: Path, has_secret: bool) -> Iterator[Check]:
    """Whether others can change it: who may, decides what elastiq runs, and as whom it speaks to the cloud. Or can read
    it, where it holds a secret."""
    its = path.stat()
    mode = stat.S_IMODE(its.st_mode)
    if mode & 0o022:
        yield Check(subject, "warning", f"{path}: others may write it (mode {mode:04o})", f"chmod go-w {path}")
    elif its.st_uid not in (0, os.geteuid()):
        text = f"{path} belongs to {_name(its.st_uid)}, who decides what elastiq does"
        yield Check(subject, "warning", text, f"chown root: {path}")
    elif has_secret and mode & stat.S_IROTH:
        text = f"{path}: all users may read the secret in it (mode {mode:04o})"
        yield Check(subject, "warning", text, f"chmod o= {path}")
    else:
        yield Check(subject, "ok", f"{path}: mode {mode:04o}, of {_name(its.st_uid)}")


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _me() -> str:
    return _name(os.geteuid())


# --------------------------------------------------------------------------- what runs


def _running(paths: Paths, settings: Optional[Settings]) -> Iterator[Check]:
    subject = "what runs"
    try:
        held = holders(paths)
    except OSError as error:
        raise SourceError(f"{error.filename}: {error.strerror}") from None
    pids = sorted({*held.values()})
    if len(pids) > 1:
        which = ", ".join(f"{path} (pid {pid})" for path, pid in held.items())
        yield Check(subject, "error", f"two daemons hold these: {which}", "stop one of them")
        return
    if not pids:
        yield _elsewhere(subject, paths, settings)
        return
    try:
        version = client.ask(paths.socket, "status")["status"]["version"]
    except (client.NotRunning, client.NoAnswer, Refused, PermissionError, KeyError) as error:
        yield Check(subject, "warning", f"elastiq runs (pid {pids[0]}), but does not answer: {error}", "elastiqctl log")
        return
    if version != __version__:
        text = f"elastiq {version} runs (pid {pids[0]}), and {__version__} is installed"
        yield Check(subject, "warning", text, "elastiqctl restart")
    else:
        yield Check(subject, "ok", f"elastiq {version} (pid {pids[0]})")


def _elsewhere(subject: str, paths: Paths, settings: Optional[Settings]) -> Check:
    """Of one with other directories: the name that each daemon of this user and cluster claims (`elastiq.paths`)."""
    with contextlib.suppress(OSError, IdentityError):
        mark = once.owner_of(settings, paths.statedir).mark if settings else ""
        names = {line.split()[-1] for line in Path("/proc/net/unix").read_text("ascii", "replace").splitlines()}
        if mark and f"@elastiq-{mark}" in names:
            text = "another elastiq of this user and cluster runs with other directories"
            return Check(subject, "error", text, "stop it, or name its --statedir and --rundir")
    return Check(subject, "ok", "no elastiq runs yet")


def _service(service: Optional[systemd.Service]) -> Iterator[Check]:
    subject = "service"
    if service is None:
        text = "this machine does not run systemd"
        if systemd.BOOTED.is_dir():
            text = "elastiq is not installed as a service"
            if shutil.which("systemctl") and systemd.show()["LoadState"] != "not-found":
                text = "not looked at, since it has another configuration or other directories than these"
        yield Check(subject, "ok", f"{text}: `elastiqctl start` runs it in the background, until the machine stops")
        return
    now = systemd.show()
    state, enabled = now["ActiveState"], now["UnitFileState"]
    if now["LoadState"] != "loaded":
        text = f"its unit is {now['LoadState']}"
        yield Check(subject, "error", text, "systemctl unmask elastiq" if now["LoadState"] == "masked" else "mend it")
    elif why := service.why_down():
        yield Check(subject, "error", why, "elastiqctl log")
    elif now["NeedDaemonReload"] == "yes":
        text = "the unit has changed since systemd read it"
        yield Check(subject, "warning", text, "systemctl daemon-reload, then elastiqctl restart")
    elif enabled not in ("enabled", "enabled-runtime", "static", "generated", "linked", "alias"):
        yield Check(subject, "warning", f"{state}, and {enabled}: it does not start at the next boot", ENABLE)
    else:
        yield Check(subject, "ok", f"{state}, {enabled}")


# --------------------------------------------------------------------------- time


def _clock() -> Iterator[Check]:
    """What the kernel says (adjtimex(2)), whoever keeps the clock: chrony, ntpd, systemd-timesyncd."""
    buffer = ctypes.create_string_buffer(_TIMEX_SIZE)  # its first field, modes, is 0: nothing is set
    state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    if state < 0:
        raise SourceError(f"the kernel does not tell: {os.strerror(ctypes.get_errno())}")
    if state == _TIME_ERROR:
        text = f"{now}; the kernel knows of nobody who keeps it right"
        yield Check("clock", "warning", text, "install chrony, or timedatectl set-ntp true")
    else:
        yield Check("clock", "ok", f"{now}, kept by a time service")


def _zones(settings: Settings) -> Iterator[Check]:
    """What time the schedules take it to be."""
    now = time.time()
    zones = {one.timezone: one.zone for one in settings.schedules}
    said = (f"{datetime.fromtimestamp(now, zone):%a %H:%M} in {name}" for name, zone in sorted(zones.items()))
    yield Check("time zones", "ok", f"it is {', '.join(said)}")


# --------------------------------------------------------------------------- who we are, and what is optional


def _identity(paths: Paths, settings: Settings) -> Iterator[Check]:
    subject = "head node's identity"
    try:
        owner = once.owner_of(settings, paths.statedir)
    except IdentityError as error:
        level = "ok" if str(error) == once.NO_ID else "error"
        yield Check(subject, level, str(error), "" if level == "ok" else "see docs/reliability.md")
        return
    here = f"instance {owner.instance_id}" if owner.instance_id else "no instance that says its id"
    addresses = ", ".join(sorted(owner.addresses)) or "none but loopback"
    yield Check(subject, "ok", f"head {owner.mark} of cluster {owner.cluster}, {here}, addresses {addresses}")


def _optional(settings: Settings) -> Iterator[Check]:
    """What a section needs that elastiq itself does not."""
    subject = "optional parts"
    wanted = {"pythonjsonlogger": "log_format = json"} if settings.log_format == "json" else {}
    if "metrics" in settings.extras:
        wanted["prometheus_client"] = "[metrics]"
    absent = {module: what for module, what in wanted.items() if importlib.util.find_spec(module) is None}
    for module, what in absent.items():
        text = f"{what} needs {module.replace('_', '-')}, which this Python does not have"
        remedy = how_to_install() if module == "prometheus_client" else JSON_LOGGER
        yield Check(subject, "error", text, f"{remedy}, or remove {what}")
    if not absent:
        yield Check(subject, "ok", f"all that {' and '.join(wanted.values())} need{'s' if len(wanted) == 1 else ''}")


def _port(paths: Paths, settings: Settings, section: str) -> Iterator[Check]:
    """Whether the address can be listened on; of an elastiq that runs, it is its own."""
    from elastiq.web.server import address_of

    subject = f"[{section}] listen"
    host, port = address_of(settings.extras[section]["listen"])
    if holders(paths):
        yield _served(paths, subject, section, host, port)
        return
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
            yield Check(subject, "ok", f"{host}:{port} is free")
        except OSError as error:
            yield Check(subject, "error", f"{host}:{port}: {error.strerror}", "name another address or port")


def _served(paths: Paths, subject: str, section: str, host: str, port: int) -> Check:
    """Of the elastiq that runs: what it says of the section itself, and whether anything listens."""
    try:
        notices = client.ask(paths.socket, "status")["status"]["notices"]
    except (client.NotRunning, client.NoAnswer, Refused, PermissionError, KeyError) as error:
        return Check(subject, "unknown", f"{host}:{port}: the elastiq that runs does not tell: {error}", "see above")
    if said := [text for text in notices if text.startswith(f"{section}: ")]:
        return Check(subject, "error", said[0], "mend that; after a change of the section: elastiqctl reload")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.settimeout(CONNECT_S)
        if trial.connect_ex((host, port)) == 0:
            return Check(subject, "ok", f"{host}:{port}, of the elastiq that runs")
    text = f"{host}:{port}: elastiq runs, and nothing answers there: it has not read this configuration yet"
    return Check(subject, "warning", text, "elastiqctl reload")
