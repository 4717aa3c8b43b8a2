"""elastiqctl start, stop and restart where elastiq is a service of systemd, with the words and exit codes of
`elastiq.cli.process`."""

from __future__ import annotations

import errno
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Mapping, Optional

from elastiq.cli import journal, process
from elastiq.cli.asking import FAILED, UNKNOWN, tell
from elastiq.cli.running import holders
from elastiq.paths import Paths

UNIT = "elastiq.service"
BOOTED = Path("/run/systemd/system")  # is there where PID 1 is systemd: sd_booted(3)
SHOW_S = 30.0
ACT_S = 200.0  # systemd's own limits of a start and an end are shorter
NO_PERMISSION = 4  # of systemctl, as the Linux Standard Base has it
OF_SYSTEMD = 200  # exit codes from here on say that systemd could not even run it: systemd.exec(5)
PROPERTIES = (
    "LoadState", "UnitFileState", "ActiveState", "SubState", "Result", "MainPID", "ExecMainCode", "ExecMainStatus",
    "ExecStart", "User", "NeedDaemonReload", "InvocationID",
)  # fmt: skip
_PLACES = ("config", "logdir", "statedir", "rundir")
_RUNS = ("active", "reloading", "refreshing")


@dataclass(frozen=True)
class Service:
    """The service that is installed; ``paths`` are those of its unit, drop-ins included."""

    paths: Paths
    in_journal: bool
    """The unit names no directory for the log: it is in the journal."""

    # ------------------------------------------------------------------ commands

    def start(self, paths: Paths) -> int:
        """Start it and wait until it answers. 0 also if it runs already; else why not, and its exit code."""
        now = show()
        if now["ActiveState"] in _RUNS:
            print(f"elastiq runs already (pid {now['MainPID']})")
            return 0
        if (pid := self.by_hand(now)) is not None:
            print(f"elastiq runs already{process.named(pid)}, not as the service: `elastiqctl restart` makes it that")
            return 0
        return self._act("start", now)

    def stop(self, paths: Paths) -> int:
        """End it and wait for the end; 0 also if it does not run."""
        now = show()
        by_hand = self.by_hand(now)
        if _is_up(now):
            done = _systemctl("stop", UNIT)
            if done.returncode:
                return _refused("stop", done)
            end = show()
            if end["ActiveState"] not in ("inactive", "failed"):
                tell(f"the service is {end['ActiveState']} all the same: somebody else has started it")
                return FAILED
            print(f"elastiq stopped{_pid(now)}" + (", killed" if end["Result"] == "timeout" else ""))
        elif by_hand is None:
            print("elastiq is not running")
        return 0 if by_hand is None else process.stop(self.paths)

    def restart(self, paths: Paths) -> int:
        """End it and start it again; one that was started by hand becomes the service."""
        now = show()
        if (pid := self.by_hand(now)) is not None:
            return self._hand_over(pid, now)
        if not _is_up(now):
            print("elastiq is not running")
        return self._act("restart", now)

    # ------------------------------------------------------------------ what it is like

    def by_hand(self, now: Optional[Mapping[str, str]] = None) -> Optional[int]:
        """The pid of an elastiq that has the service's directories and is not the service; None if there is none, or
        that is not ours to see."""
        main = int((now or show())["MainPID"])
        try:
            others = [pid for pid in holders(self.paths).values() if pid != main]
        except PermissionError:
            return None
        return next((pid for pid in others if not is_of_unit(pid)), None)

    def pid(self) -> Optional[int]:
        """The pid of what runs, the service or one that was started by hand; None if nothing does."""
        now = show()
        return int(now["MainPID"]) or self.by_hand(now)

    @staticmethod
    def why_down() -> str:
        """Of a service that is not running, why; empty if it was simply stopped, or runs."""
        now = show()
        if now["SubState"] == "auto-restart":
            return f"the service failed ({_how(now)}), and systemd will start it again{_last_words(now)}"
        if now["ActiveState"] == "failed":
            return f"the service failed ({_how(now)}), and stays down until it is started{_last_words(now)}"
        return f"the service is {now['ActiveState']}" if now["ActiveState"] == "activating" else ""

    # ------------------------------------------------------------------ how

    def _act(self, verb: str, before: Mapping[str, str]) -> int:
        began = time.time()
        done = _systemctl(verb, UNIT)
        now = show()
        stopped = f"elastiq stopped{_pid(before)}"
        if done.returncode == 0 and now["ActiveState"] in _RUNS:
            if verb == "restart" and _is_up(before):
                print(stopped)
            print(f"elastiq started{_pid(now)}")
            if before["NeedDaemonReload"] == "yes":
                tell("warning: the unit has changed since systemd read it: run `systemctl daemon-reload`, and restart")
            if now["UnitFileState"] == "disabled":
                tell("warning: it will not start at the next boot: run `systemctl enable elastiq`")
            return 0
        skipped = done.returncode == 0 and now["Result"] in ("success", "exec-condition")
        if done.returncode == NO_PERMISSION or (now["Result"] == "success" and not skipped):
            return _refused(verb, done)
        if verb == "restart" and _is_up(before):
            print(stopped)
        how = "its ExecCondition= does not hold" if skipped else _how(now)
        tell(f"elastiq did not start ({how}); the end of its log:")
        for line in journal.lines_since(UNIT, began):
            print(f"  {line}", file=sys.stderr)
        if now["SubState"] == "auto-restart":
            tell("systemd goes on trying to start it: `elastiqctl stop` ends that")
        code = int(now["ExecMainStatus"]) if now["ExecMainCode"] == "1" else 0
        return code if 0 < code < OF_SYSTEMD else FAILED

    def _hand_over(self, pid: int, now: Mapping[str, str]) -> int:
        """Make the service of a process that was started by hand."""
        uid, account = _uid(pid), _account(now["User"] or "root")
        if _is_up(now):  # it fails and is started again, since the other one is in its way
            done = _systemctl("stop", UNIT)
            if done.returncode:
                return _refused("stop", done)
        if code := process.stop(self.paths):
            return code
        other = account is not None and uid not in (None, account.pw_uid)
        if account and other and os.geteuid() == 0:
            for directory in (self.paths.statedir, self.paths.logdir):
                _give(directory, uid or 0, account)
        code = self._act("start", show())
        if account and other:
            text = f"ran as uid {uid}, the service is {account.pw_name}'s, which is another head node to the cloud"
            tell(f"warning: what was stopped {text}: `elastiqctl adopt` takes over its machines")
        return code


def found(args: Namespace) -> Optional[Service]:
    """The service, if one is installed and meant: none of the options names another place than its unit. A user with a
    configuration of his own means his own daemon. Raises OSError where systemd does not answer."""
    if not BOOTED.is_dir() or shutil.which("systemctl") is None:
        return None
    given = {name: os.path.abspath(value) for name in _PLACES if (value := getattr(args, name))}
    if os.geteuid() != 0 and not given and Paths.of().config.exists():
        return None
    now = show()
    if now["LoadState"] == "not-found":
        return None
    words = _words(now["ExecStart"])
    usual = Paths(*map(Path, ("/etc/elastiq.conf", "/var/log/elastiq", "/var/lib/elastiq", "/run/elastiq")))
    said = {name: Path(value) for name in _PLACES if (value := words.get(f"--{name}"))}
    paths = replace(usual, **said)
    if any(str(getattr(paths, name)) != value for name, value in given.items()):
        return None
    return Service(paths, "logdir" not in said and "logdir" not in given)


def show() -> dict[str, str]:
    """`PROPERTIES` of the unit as systemd has them now. Raises OSError where it does not answer."""
    done = _systemctl("show", UNIT, f"--property={','.join(PROPERTIES)}", limit_s=SHOW_S)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.returncode or "ActiveState" not in found:
        raise OSError(errno.EIO, _first_line(done.stderr) or "it does not answer", "systemctl")
    return {**dict.fromkeys(PROPERTIES, ""), **found}


def _systemctl(*words: str, limit_s: float = ACT_S) -> subprocess.CompletedProcess[str]:
    ask = () if sys.stdin is not None and sys.stdin.isatty() else ("--no-ask-password",)
    env = {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0"}
    try:
        return subprocess.run(
            ["systemctl", "--no-pager", *ask, *words], env=env, capture_output=True, text=True, errors="replace",
            timeout=limit_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OSError(errno.ETIMEDOUT, f"`{words[0]}` is not done after {limit_s:g} s", "systemctl") from None


def _words(exec_start: str) -> dict[str, str]:
    """The options of the unit's command, as `systemctl show` has it: { path=... ; argv[]=... ; ignore_errors=... }"""
    found = re.search(r"argv\[\]=(.*?) ; ignore_errors=", exec_start)
    words = [part for word in (found[1].split() if found else ()) for part in word.split("=", 1)]
    return dict(zip(words, words[1:]))


def _is_up(now: Mapping[str, str]) -> bool:
    """Whether there is something to stop: it runs, or systemd will start it again."""
    return now["ActiveState"] not in ("inactive", "failed")


def _pid(now: Mapping[str, str]) -> str:
    return f" (pid {now['MainPID']})" if now["MainPID"] != "0" else " (it had failed, and waited for its next start)"


def _how(now: Mapping[str, str]) -> str:
    """How its last process ended."""
    code, status, result = now["ExecMainCode"], int(now["ExecMainStatus"] or 0), now["Result"]
    if code == "1":  # CLD_EXITED, the others of sigaction(2) are signals
        return f"exit code {status}" if result == "exit-code" else f"{result}, exit code {status}"
    name = f"signal {signal.Signals(status).name}" if status else ""
    return name if name and result in ("signal", "core-dump") else ", ".join(filter(None, (result, name)))


def _last_words(now: Mapping[str, str]) -> str:
    """What its last process said last, that was an error, or where to look for it."""
    said = journal.last_error(UNIT, now["InvocationID"])
    return f": {said}" if said else ": see `elastiqctl log`"


def _refused(verb: str, done: subprocess.CompletedProcess[str]) -> int:
    """Say why systemd did not do it."""
    why = _first_line(done.stderr)
    if done.returncode == NO_PERMISSION:
        tell(f"no permission to {verb} the service (systemd: {why}): be root")
        return UNKNOWN
    tell(f"systemctl {verb}: {why or f'exit code {done.returncode}'}")
    return FAILED


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def is_of_unit(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether systemd counts the process to the unit: one that was started again since we asked has another pid."""
    try:
        groups = (proc / str(pid) / "cgroup").read_text("utf-8", "replace") if pid else ""
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended: nobody's any more
    return any(UNIT in line.split("/") for line in groups.splitlines())


def _account(user: str) -> Optional[pwd.struct_passwd]:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        return None  # systemd will say so


def _uid(pid: int) -> Optional[int]:
    try:
        return os.stat(f"/proc/{pid}").st_uid if pid else None
    except FileNotFoundError:
        return None


def _give(directory: Path, uid: int, user: pwd.struct_passwd) -> None:
    """Give what a user's daemon left in a directory to another user. Only regular files with one name: whoever may
    write there must not choose which files root gives away."""
    if not directory.is_dir():
        return
    for name in os.listdir(directory):
        try:
            fd = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOENT, errno.ENXIO):
                raise
            continue
        try:
            its = os.fstat(fd)
            if stat.S_ISREG(its.st_mode) and its.st_nlink == 1 and its.st_uid == uid:
                os.fchown(fd, user.pw_uid, user.pw_gid)
        finally:
            os.close(fd)
