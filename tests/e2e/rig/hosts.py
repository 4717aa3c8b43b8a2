"""Hosts: each a Debian root with hostname, network, processes and mounts of its own, beside a head host on one network.

A host is a process tree in namespaces. Nothing of it has a name on the machine: the network namespaces have none, the
links live inside the head's, the files in memory. With the test run's main thread ends the head, with the head all that
are beside it, however it came about.

    with hosts.Host(root, "head", "172.31.0.1") as head:
        head.start_program(["/usr/sbin/slurmctld", "-D"], user="slurm")
        head.run("sinfo")
        with hosts.Host(root, "w1", "172.31.1.1", beside=head) as worker: ...
        worker.kill()  # as a machine that vanishes
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
from typing import Iterable, Mapping, Optional, Sequence

from tests.e2e.rig import places
from tests.e2e.rig.process import RigError, child, poll, run, running, send, start

PREFIX_LENGTH = 16
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_S = 20

_numbers = itertools.count()

_NAMESPACES = (
    "unshare", "--mount", "--propagation", "private", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child",
)  # fmt: skip
# Its last command is the host's first process: it reaps what is left to it, until it is killed.
_SCRIPT = """
set -e
directory=$1 root=$2 name=$3
mount -t tmpfs -o mode=755 tmpfs "$directory"
cd "$directory"
mkdir changes work root
mount -t overlay -o "lowerdir=$root,upperdir=changes,workdir=work" overlay root
cd root
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mkdir run/lock
chmod 1777 run/lock
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for node in null zero full random urandom tty; do
    : >"dev/$node"
    mount --bind "/dev/$node" "dev/$node"
done
hostname "$name"
echo "$name" >etc/hostname
ip link set lo up
exec chroot . /bin/sh -c 'touch /run/started; while :; do sleep 3600 & wait; done'
"""


class Host:
    """One host. Paths are those inside; `path` says where the machine finds one."""

    def __init__(
        self, root: Path, name: str, address: str, beside: Optional[Host] = None, names: str = "", label: str = ""
    ) -> None:
        """``name``: its host name. ``beside``: the head of its network; without, it is a head. ``names``: further
        lines of its /etc/hosts. ``label``: the one of a head that another process of this test run has started."""
        self.root, self.name, self.address, self.beside, self._names = root, name, address, beside, names
        self.label: str = beside.label if beside else label or f"{os.getpid()}-{next(_numbers)}"
        self._directory = _base() / self.label / address
        self._pid_file = self._directory.parent / f"{address}.pid"
        self._log = self._directory.parent / f"{address}.log"

    # ------------------------------------------------------------- life

    def start(self) -> None:
        """Start it, with its address and without any program; `RigError` if that fails."""
        if self.beside is None:
            _remove_stale()
            before = ["setpriv", "--pdeathsig", "KILL"]
        else:
            before = ["nsenter", f"--target={self.beside.pid}", "--pid"]
        self._directory.mkdir(parents=True, exist_ok=True)
        script = ["sh", "-c", _SCRIPT, "sh", self._directory, self.root, self.name]
        start([*before, *_NAMESPACES, *script], self._log, self._pid_file)
        if not poll(self._started, START_S):
            raise RigError(f"{self.name} did not start: {self._said()}")
        self._connect()
        self.put("/etc/hosts", f"127.0.0.1 localhost\n{self.address} {self.name}\n{self._names}")

    def _started(self) -> bool:
        if running(self._pid_file) is None:
            raise RigError(f"{self.name} did not start: {self._said()}")
        pid = self._find_pid()
        return pid is not None and Path("/proc", str(pid), "root", "run", "started").exists()

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else "nothing was said"

    def _find_pid(self) -> Optional[int]:
        pid = running(self._pid_file)  # of unshare; or of nsenter, whose child that is
        for _ in range(1 if self.beside is None else 2):
            pid = pid and child(pid)
        return pid

    @property
    def pid(self) -> int:
        """The id of the host's first process, as the machine sees it."""
        pid = self._find_pid()
        if pid is None:
            raise RigError(f"{self.name} does not run: {self._said()}")
        return pid

    @property
    def running(self) -> bool:
        return self._find_pid() is not None

    def _connect(self) -> None:
        if self.beside is None:
            self._ip("link", "add", "br0", "address", "02:00:00:00:00:01", "type", "bridge")
            self._ip("address", "add", f"{self.address}/{PREFIX_LENGTH}", "dev", "br0")
            self._ip("link", "set", "br0", "up")
        else:
            peer = ["type", "veth", "peer", "name", "eth0", "netns", str(self.pid)]
            self.beside._ip("link", "add", self._link, *peer)
            self.beside._ip("link", "set", self._link, "master", "br0", "up")
            self._ip("address", "add", f"{self.address}/{PREFIX_LENGTH}", "dev", "eth0")
            self._ip("link", "set", "eth0", "up")

    @property
    def _link(self) -> str:
        """The head's end of its link: at most 15 characters."""
        return "v" + "".join(f"{int(part):02x}" for part in self.address.split("."))

    def _ip(self, *arguments: str) -> None:
        run(["nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", *arguments])

    def cut_off(self, off: bool = True) -> None:
        """Pull its network cable out, or put it in again; it runs on."""
        assert self.beside is not None
        self.beside._ip("link", "set", self._link, "down" if off else "up")

    def kill(self) -> None:
        """End it at once, as by its power switch: SIGKILL for every process of it. Nothing of it is left."""
        outer, inner = running(self._pid_file), self._find_pid()
        if inner is not None:
            send(inner, signal.SIGKILL)
        if outer is not None and not poll(lambda: running(self._pid_file) is None, 20):
            send(outer, signal.SIGKILL)
        self._pid_file.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self._directory.rmdir()
        if self.beside is None:
            shutil.rmtree(self._directory.parent, ignore_errors=True)

    def __enter__(self) -> Host:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # ------------------------------------------------------------- programs

    def within(self, argv: Sequence[object], user: str = "", environment: Mapping[str, str] = {}) -> list[str]:
        """The command line that runs ``argv`` inside, as root or ``user``, with the environment of a service."""
        home = f"HOME=/home/{user}" if user else "HOME=/root"
        inside = ["env", "-i", f"PATH={PATH}", home, "LC_ALL=C.UTF-8"]
        inside += [f"{name}={value}" for name, value in environment.items()]
        enter = ["nsenter", f"--target={self.pid}", "--all", "--root", "--wd"]
        return [*enter, *inside, *_as(user), *map(str, argv)]

    def in_its_network(self, argv: Sequence[object]) -> list[str]:
        """The command line that runs a program of the machine, with the machine's files, in the host's network."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *map(str, argv)]

    def ask(self, *argv: object, user: str = "", stdin: str = "", timeout_s: float = 60,
            environment: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a command inside and return how it ended."""
        try:
            return subprocess.run(
                self.within(argv, user, environment), input=stdin, capture_output=True, text=True, errors="replace",
                timeout=timeout_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RigError(f"{shlex.join(map(str, argv))}: not done after {timeout_s:g} s") from None

    def run(self, *argv: object, user: str = "", stdin: str = "", timeout_s: float = 60,
            environment: Mapping[str, str] = {}) -> str:  # fmt: skip
        """Run a command inside and return its standard output; `RigError` with what it said if it fails."""
        done = self.ask(*argv, user=user, stdin=stdin, timeout_s=timeout_s, environment=environment)
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-4000:]
            raise RigError(f"{self.name}: {shlex.join(map(str, argv))}: exit {done.returncode}: {said}")
        return done.stdout

    def start_program(self, argv: Sequence[object], log: str, user: str = "",
                      environment: Mapping[str, str] = {}) -> None:  # fmt: skip
        """Start one that stays in the foreground. It ends with the host; what it says goes to ``log``, inside."""
        script = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 &'
        self.run("sh", "-c", script, "sh", log, "setsid", *_as(user), *argv, environment=environment)

    # ------------------------------------------------------------- files

    def path(self, path: str) -> Path:
        """The machine's way to a path inside, as long as the host runs."""
        return Path(f"/proc/{self.pid}/root{path}")

    def put(self, path: str, content: str | bytes, mode: int = 0o644, owner: str = "root") -> None:
        """Write a file inside; its directory is made."""
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(mode)
        if owner != "root":
            self.run("chown", f"{owner}:{owner}", path)

    def read(self, path: str) -> str:
        return self.path(path).read_text(errors="replace")

    def wrap_tools(self, folder: Path, tools: Iterable[str], user: str) -> None:
        """Write a command of each name into ``folder`` that runs the tool inside, with the caller's environment: as
        ``user`` if root calls it, else as the caller, who needs `CAPABILITIES`. They are of this start of the host."""
        folder.mkdir(parents=True, exist_ok=True)
        for tool in tools:
            wrapper = folder / tool
            wrapper.write_text(_WRAPPER.format(pid=self.pid, path=PATH, user=user, tool=tool))
            wrapper.chmod(0o755)


# What a process that is not root needs to call the wrapped tools: `setpriv --ambient-caps +sys_admin,...`. The tools
# themselves have none of it.
CAPABILITIES = ("sys_admin", "sys_chroot", "sys_ptrace")
_WRAPPER = """\
#!/bin/sh
if [ "$(id -u)" = 0 ]; then
    set -- --reuid={user} --regid={user} --init-groups {tool} "$@"
else
    set -- --inh-caps=-all --ambient-caps=-all {tool} "$@"
fi
exec nsenter --target={pid} --all --root --wd env PATH={path} setpriv "$@"
"""


def _base() -> Path:
    return places.base() / "hosts"


def _as(user: str) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []


def _remove_stale() -> None:
    """What test runs that were killed have left: empty directories; their processes and mounts ended with them."""
    for directory in _base().glob("*-*"):
        if not os.path.exists(f"/proc/{directory.name.partition('-')[0]}"):
            shutil.rmtree(directory, ignore_errors=True)
