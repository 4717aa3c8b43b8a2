"""What the packages' maintainer scripts ask for: /usr/libexec/elastiq/package before-upgrade|before-removal|after.

An upgrade stops what runs before its files change, since it imports some modules only when it needs them; but not what
could not be started again, for a daemon that stays down is worse than one of the version of before.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Optional, Sequence

from elastiq.cli import main as elastiqctl
from elastiq.cli import process, service_user, systemd
from elastiq.cli.asking import FAILED
from elastiq.cli.commands import startable
from elastiq.cli.copied import STATE, CopiedStore
from elastiq.cli.running import holder
from elastiq.nodes import State
from elastiq.paths import Paths
from elastiq.store import StoreError

STOPPED = Path("/run/elastiq.stopped")  # it ran when an upgrade began, and shall run again
INSTALLED = Path("/usr/share/elastiq/elastiq.conf")  # the configuration as it was installed
POLICY = Path("/usr/sbin/policy-rc.d")  # https://people.debian.org/~hmh/invokerc.d-policyrc.d-specification.txt
ALLOWED = (0, 104)
POLICY_S = 60.0
GOES_ON = "it goes on with the version of before, until somebody runs:"


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Do one of them; returns an exit code, and says in a line or two what a person should know."""
    acts = {"before-upgrade": before_upgrade, "before-removal": before_removal, "after": after}
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 1 or words[0] not in acts:
        print(f"usage: package {'|'.join(acts)}", file=sys.stderr)
        return 2
    try:
        service = systemd.found(Namespace(config=None, logdir=None, statedir=None, rundir=None))
        return acts[words[0]](service, service.paths if service else Paths.of())
    except OSError as error:
        tell(f"{error.filename or 'elastiq'}: {error.strerror or error}")
        return FAILED


def tell(text: str) -> None:
    print(f"elastiq: {text}", file=sys.stderr)


def before_upgrade(service: Optional[systemd.Service], paths: Paths) -> int:
    """Stop what runs and can be started again; of all else, say that it goes on."""
    now = systemd.show() if service else {}
    pid = running(service, paths)
    if pid is None:
        return 0
    if (service and service.by_hand(now) is not None) or (not service and not as_before(pid, paths)):
        tell(f"was started by hand{process.named(pid)}: {GOES_ON} elastiqctl restart")
    elif "masked" in now.get("LoadState", "") + now.get("UnitFileState", ""):
        text = f"the service is masked, and could not be started again: {GOES_ON}"
        tell(f"{text} systemctl unmask elastiq; elastiqctl restart")
    elif not policy_allows():
        tell(f"{POLICY} allows no restart: {GOES_ON} elastiqctl restart")
    elif not startable(paths, Namespace(service=service)):
        tell(f"would not start again with this configuration: {GOES_ON} elastiqctl restart")
    else:
        STOPPED.touch()
        return service.stop(paths) if service else process.stop(paths)
    return 0


def before_removal(service: Optional[systemd.Service], paths: Paths) -> int:
    """Stop what runs, however it was started, and say what it leaves behind."""
    code = 0
    if running(service, paths) is not None:
        code = service.stop(paths) if service else process.stop(paths)
    for line in left_behind(paths):
        tell(line)
    return code


def after(service: Optional[systemd.Service], paths: Paths) -> int:
    """Start again what ran before an upgrade. Nothing else is started: an installation launches nothing; but it is said
    what is to be done."""
    if STOPPED.exists():
        STOPPED.unlink()
        if elastiqctl(["start"]) != 0:
            tell("ran before this upgrade, and is down now: when that is mended, run: elastiqctl start")
    elif running(service, paths) is None:
        print(f"elastiq is not started: {_to_do(paths.config)}elastiqctl start")
    return 0


def running(service: Optional[systemd.Service], paths: Paths) -> Optional[int]:
    """The pid of what runs, or would be started again by systemd (0 while it waits for that); None if nothing does."""
    if service is None:
        return holder(paths)
    now = systemd.show()
    return service.by_hand(now) if now["ActiveState"] in ("inactive", "failed") else int(now["MainPID"])


def left_behind(paths: Paths) -> list[str]:
    """What the state tells of machines that nobody ends any more."""
    try:
        nodes = CopiedStore(paths.statedir / STATE).nodes()
    except (StoreError, OSError) as error:
        return [f"how many machines run on is not known ({error}): look at the cloud's own list"]
    there = [node for node in nodes if node.state not in (State.TERMINATING, State.GONE)]
    stopped = sum(node.state is State.STOPPED for node in there)
    asked = sum(node.state is State.REQUESTED for node in there)
    rest = len(there) - stopped - asked
    found = []
    if rest:
        runs, them = ("it runs", "it") if rest == 1 else ("they run", "them")
        found.append(f"leaves {_machines(rest)} behind: {runs} on, and nobody ends {them} now")
    if stopped:
        found.append(f"leaves {_machines(stopped)} behind that can be started again: disks cost, and nobody ends them")
    if asked:
        found.append(f"leaves the launch of {_machines(asked)} unsettled: look at the cloud's own list")
    return found


def _machines(count: int) -> str:
    return f"{count} machine" + ("" if count == 1 else "s")


def _to_do(config: Path) -> str:
    if not config.exists():
        return f"there is no {config}: install -m 640 -g elastiq {INSTALLED} {config}, set five keys, then run: "
    if INSTALLED.exists() and config.read_bytes() == INSTALLED.read_bytes():
        return f"set five keys in {config} (it says which), then run: "
    return f"it did not run before, and {config} was kept; to start it: "


def as_before(pid: int, paths: Paths) -> bool:
    """Whether root's `elastiqctl start` makes it run as the user again as whom it runs: as the owner of its state."""
    with contextlib.suppress(OSError, KeyError):
        again = service_user.owner(paths.statedir) or "root"
        return bool(pid) and os.stat(f"/proc/{pid}").st_uid == pwd.getpwnam(again).pw_uid
    return False


def policy_allows() -> bool:
    """Whether Debian's local policy lets a package restart a service."""
    if not os.access(POLICY, os.X_OK):
        return True
    done = subprocess.run([POLICY, systemd.UNIT, "restart"], capture_output=True, timeout=POLICY_S, check=False)
    return done.returncode in ALLOWED
