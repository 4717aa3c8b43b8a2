"""A machine with Debian 13, booted with systemd as its PID 1, for tests of what an administrator does.

The system is made once by mmdebstrap from the machine's own mirror (20 s, 550 MB) and kept in the rig's directory. Each
machine sees it through an overlay in memory: it starts within a second, changes nothing that another one sees, and
leaves nothing. It survives its own reboots. HTCondor is installed in it (disabled); what elastiq's package depends on
is not, but lies in apt's cache, so that ``apt-get install`` resolves and installs it without a network.

Limits: it has the host's kernel and control groups, so that MemoryMax= and IPAddressDeny= may have no effect.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Iterator, Optional, Sequence

from tests.e2e.rig import debian, places, roots
from tests.e2e.rig.process import RigError, child, poll, running, send, start

PACKAGES = ("systemd", "systemd-sysv", "dbus", "iproute2", "procps", "python3", "man-db", "bash-completion", "condor")
IN_CACHE = ("python3-boto3", "python3-pythonjsonlogger", "cloud-init", "rpm")
BOOT_S = 180

_numbers = itertools.count()

_HOOK = (
    'chroot "$1" apt-get install --yes --download-only ' + " ".join(IN_CACHE),
    'chroot "$1" systemctl disable condor.service',
    'echo head >"$1/etc/hostname"; printf "127.0.0.1 localhost head\\n" >"$1/etc/hosts"',
    'chroot "$1" useradd --create-home --shell /bin/sh jobuser',
)


def missing() -> str:
    """Why no machine can be booted here; empty if one can, as far as can be told without trying."""
    return roots.missing() or ("" if shutil.which("systemd-nspawn") else "this command is missing: systemd-nspawn")


def system() -> Path:
    """The directory with the system that all machines start from; made if it is not there. `RigError`"""
    reason = missing()
    if reason:
        raise RigError(reason)
    # apt's lists and packages stay: the machine itself has no network
    skip = "--skip=cleanup/apt/lists,cleanup/apt/cache"
    return roots.root(roots.Recipe(debian.SUITE, PACKAGES, _HOOK, (skip,), whole=True))


# With the test run ends this process, with that the namespace of all its processes, and with the last of them the mount
# namespace with everything that they wrote. (systemd-nspawn alone would leave its PID 1 behind when it is killed.)
_ALONE = (
    "setpriv", "--pdeathsig", "KILL",
    "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc",
)  # fmt: skip
# 133 is systemd-nspawn's way to say that the machine wants to be started again.
_SCRIPT = """
set -e
mount -t tmpfs -o mode=755 tmpfs "$1"
cd "$1"
mkdir changes work root
mount -t overlay -o "lowerdir=$2,upperdir=changes,workdir=work" overlay root
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn
shift 2
while :; do
    code=0
    "$@" || code=$?
    [ $code = 133 ] || exit $code
done
"""


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Machine:
    """One machine. Paths are those inside; `host_path` says where the host finds one."""

    def __init__(self, network: str = "") -> None:
        """``network``: the name of a network namespace (`ip netns`) to live in; else it has a loopback of its own."""
        self._name = f"elastiq-{os.getpid()}-{next(_numbers)}"
        self._network = network
        self._directory = places.base() / self._name
        self._console = places.base() / f"{self._name}.console"
        self._pid_file = places.base() / f"{self._name}.pid"

    def start(self) -> None:
        """Boot, and wait until systemd says that it is done; `RigError` if that takes longer than `BOOT_S`."""
        root = system()
        self._directory.mkdir(parents=True)
        network = f"--network-namespace-path=/run/netns/{self._network}" if self._network else "--private-network"
        nspawn = [
            "systemd-nspawn", "--quiet", f"--directory={self._directory}/root", f"--machine={self._name}",
            "--register=no", "--keep-unit", network, "--console=pipe", "--link-journal=no", "--resolv-conf=off",
            "--timezone=off", "--boot",
        ]  # fmt: skip
        start([*_ALONE, "sh", "-c", _SCRIPT, "sh", self._directory, root, *nspawn], self._console, self._pid_file)
        self._wait_until_booted(None)

    def _wait_until_booted(self, before: Optional[int]) -> None:
        def booted() -> bool:
            if running(self._pid_file) is None:
                raise RigError(f"the machine did not boot: {self.console()[-2000:]}")
            pid = self._find_pid()
            if pid is None or pid == before:
                return False
            if _name(pid) != "systemd":  # not there yet: what is asked now would be the host
                return False
            said = self._command(pid, ["systemctl", "is-system-running"], "", 10).stdout
            return said.strip() in ("running", "degraded")

        if not poll(booted, BOOT_S, 0.1):
            raise RigError(f"the machine did not boot within {BOOT_S} s: {self.console()[-2000:]}")

    def _find_pid(self) -> Optional[int]:
        pid = running(self._pid_file)  # unshare, then the script, then systemd-nspawn, then what it booted
        for _ in range(3):
            pid = pid and child(pid)
        return pid

    @property
    def pid(self) -> int:
        """The id of the machine's PID 1 as the host sees it."""
        pid = self._find_pid()
        if pid is None:
            raise RigError(f"the machine does not run: {self.console()[-2000:]}")
        return pid

    def ask(
        self, *argv: object, timeout_s: float = 60, stdin: str = "", user: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root or ``user``, and return how it ended."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        home = f"HOME={'/' if user else '/root'}"
        inside = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", home, "LANG=C.UTF-8"]
        inside += ["DEBIAN_FRONTEND=noninteractive", "SYSTEMD_PAGER=", "TERM=dumb", *as_user]
        return self._command(self.pid, [*inside, *map(str, argv)], stdin, timeout_s)

    @staticmethod
    def _command(pid: int, argv: Sequence[str], stdin: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["nsenter", f"--target={pid}", "--all", *argv],
                input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RigError(f"{shlex.join(argv)}: not done after {timeout_s:g} s") from None

    def run(self, *argv: object, timeout_s: float = 60, stdin: str = "", user: str = "") -> str:
        """Run a command inside and return its standard output; `RigError` with what it said if it fails."""
        done = self.ask(*argv, timeout_s=timeout_s, stdin=stdin, user=user)
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-4000:]
            raise RigError(f"{shlex.join(str(word) for word in argv)}: exit {done.returncode}: {said}")
        return done.stdout

    def host_path(self, path: str) -> Path:
        """The host's way to a path inside, until the next reboot."""
        return Path(f"/proc/{self.pid}/root{path}")

    def put(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file inside, of root."""
        target = self.host_path(path)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(mode)

    def read(self, path: str) -> str:
        return self.host_path(path).read_text(errors="replace")

    def exists(self, path: str) -> bool:
        """Whether anything is at the path; a symbolic link counts though it leads nowhere."""
        return os.path.lexists(self.host_path(path))

    def unit(self, unit: str, *names: str) -> dict[str, str]:
        """These properties of a unit, as `systemctl show` has them."""
        rows = self.run("systemctl", "show", unit, *(f"--property={name}" for name in names)).splitlines()
        return dict(row.split("=", 1) for row in rows)

    def journal(self, unit: str = "") -> str:
        return self.ask("journalctl", "--no-pager", "--output=short-iso", *(["--unit", unit] if unit else [])).stdout

    def reboot(self) -> None:
        """Reboot orderly, and wait until it is up again; files stay, /run and /tmp do not."""
        before = self.pid
        self.ask("systemctl", "reboot")
        self._wait_until_booted(before)

    def console(self) -> str:
        return self._console.read_text(errors="replace") if self._console.exists() else ""

    def stop(self) -> None:
        """End it at once, as by its power switch; nothing of it is left."""
        outer, inner = running(self._pid_file), self._find_pid()
        if outer is not None:
            if inner is not None:  # it does not end with systemd-nspawn
                send(inner, signal.SIGKILL)
            send(outer, signal.SIGKILL)
            # Its PID 1 ends last, when all else inside has: until then it may hold ports of a shared network.
            poll(lambda: not (inner and os.path.exists(f"/proc/{inner}/exe")) and running(self._pid_file) is None, 20)
        self._pid_file.unlink(missing_ok=True)
        self._console.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self._directory.rmdir()


@contextlib.contextmanager
def machine(network: str = "") -> Iterator[Machine]:
    """A machine for as long as the context lasts. `RigError` if none can be booted here."""
    made = Machine(network)
    try:
        made.start()
        yield made
    finally:
        made.stop()
