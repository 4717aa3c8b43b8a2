"""The whole rig: up, reset, down."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator

from tests.e2e.rig import debian, htcondor, network, places
from tests.e2e.rig.client import Ec2
from tests.e2e.rig.process import RigError, end, poll, running, start

_NEEDED = ("apt-get", "dpkg-deb", "tar", "chroot", "unshare", "nsenter", "ip", "setpriv")


def missing() -> str:
    """Why the rig cannot run here; empty if it can, as far as can be told without trying."""
    if os.geteuid() != 0:
        return "it needs root (network namespaces, chroot)"
    absent = [name for name in _NEEDED if shutil.which(name) is None]
    if absent:
        return f"these commands are missing: {', '.join(absent)}"
    try:
        import moto.server  # noqa: F401
    except ImportError as error:
        return f"moto's server is missing ({error}): pip install 'moto[ec2,server]'"
    blocked = [
        path for path in (places.base(), *places.base().parents) if path.exists() and not path.stat().st_mode & 1
    ]
    return f"an unprivileged user cannot reach {blocked[-1]}: set {places.DIRECTORY_VARIABLE}" if blocked else ""


def is_up() -> bool:
    """Whether the rig runs."""
    return running(htcondor.pid_file()) is not None and serves(places.FIRST)


def serves(endpoint: places.Endpoint) -> bool:
    """Whether this endpoint runs."""
    return running(_ec2_pid_file(endpoint)) is not None


class CannotRun(RigError):
    """The rig cannot run on this machine."""


# Not in the rig's directory: namespaces and addresses are the same wherever that is.
_LOCK = Path("/run/lock/elastiq-e2e")
_OWNER = Path("/run/elastiq-e2e")  # holds the directory of the rig that is up


@contextlib.contextmanager
def alone(wait: bool = True) -> Iterator[None]:
    """Keep other test runs off the rig; wait until none uses it, or raise `RigError`."""
    if os.geteuid() != 0:
        raise CannotRun(missing())
    with _LOCK.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise RigError("a test run uses the rig now") from None
        yield


def is_anothers() -> bool:
    """Whether the rig that is up, if one is, has another directory than this one."""
    try:
        return _OWNER.read_text() != str(places.base())
    except FileNotFoundError:
        return False


def up() -> None:
    """Build what is missing and start what does not run; raises `RigError`. 12 s the first time, then 3 s."""
    reason = missing()
    if reason:
        raise CannotRun(reason)
    places.base().mkdir(parents=True, exist_ok=True)
    places.base().chmod(0o755)
    try:
        debian.unpack()
    except RigError as error:
        raise CannotRun(f"HTCondor's packages cannot be had: {error}") from None
    debian.wrap_tools()
    if not is_up():
        down()  # what a rig that was killed has left
    _OWNER.write_text(str(places.base()))
    network.make_hub()
    htcondor.start_head()
    start_ec2(places.FIRST)


def reset() -> None:
    """No jobs, no instances, no workers, no faults: the state that every test begins with."""
    if htcondor.queue("ClusterId"):
        htcondor.as_root(["condor_rm", "-all"], check=False)
        htcondor.as_root(["condor_rm", "-forcex", "-all"], check=False)
    for endpoint in filter(serves, places.ENDPOINTS):
        Ec2(endpoint).reset()
    if htcondor.machines("Name"):
        _forget_workers()
    if not poll(_is_clean, 90, 0.1):
        raise RigError("jobs or workers are left after a reset: see `rig.sh status`")


def _forget_workers() -> None:
    """Tell the collector that the machines are gone; one that died silently would stay for a minute."""
    path = places.root() / "tmp/invalidate"
    for kind in ("Machine", "DaemonMaster"):
        path.write_text(f'MyType = "Query"\nTargetType = "{kind}"\nRequirements = true\n')
        command = "INVALIDATE_STARTD_ADS" if kind == "Machine" else "INVALIDATE_MASTER_ADS"
        htcondor.as_root(["condor_advertise", command, "/tmp/invalidate"], check=False)


def _is_clean() -> bool:
    jobs = htcondor.queue("ClusterId")
    return not jobs and not htcondor.machines("Name")


def down() -> None:
    """End every process and namespace of the rig, however it was left."""
    for endpoint in places.ENDPOINTS:
        end(_ec2_pid_file(endpoint))
        places.ec2_socket(endpoint).unlink(missing_ok=True)
    names = network.namespaces()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(network.remove, [name for name in names if name != places.HUB]))
    htcondor.stop_head()
    network.remove(places.HUB)
    for path in places.base().glob(f"{places.NAMESPACE_PREFIX}*.pid"):
        path.unlink()
    _OWNER.unlink(missing_ok=True)
    # The machines that `tests.e2e.booted` makes and boots may be of a run beside this one.
    left = network.namespaces() + _mounts(("debian-", "elastiq-"))
    if left:
        raise RigError(f"left behind: {', '.join(left)}")


def purge() -> None:
    """Delete the rig's directory; it must be down."""
    if _mounts():
        raise RigError(f"still mounted, not deleted: {', '.join(_mounts())}")
    shutil.rmtree(places.base(), ignore_errors=True)


def _mounts(of_others: tuple[str, ...] = ()) -> list[str]:
    """What is mounted in the rig's directory, but for what begins with one of these names."""
    below = str(places.base()) + "/"
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [point for point in points if point.startswith(below) and not point[len(below) :].startswith(of_others)]


def _ec2_pid_file(endpoint: places.Endpoint) -> Path:
    return places.base() / f"{endpoint.name}.pid"


def start_ec2(endpoint: places.Endpoint) -> None:
    """Start an endpoint unless it runs, and wait until it answers; `RigError` if it never does."""
    log = places.base() / f"{endpoint.name}.log"
    if not serves(endpoint):
        argv = network.within(places.HUB, [sys.executable, "-m", "tests.e2e.rig.ec2_server", endpoint.name])
        environment = {
            **os.environ,
            "PYTHONPATH": str(places.REPOSITORY),
            places.DIRECTORY_VARIABLE: str(places.base()),
        }
        places.ec2_socket(endpoint).unlink(missing_ok=True)
        start(argv, log, _ec2_pid_file(endpoint), environment)
    if not poll(lambda: _answers(endpoint), 90):
        raise RigError(f"the EC2 server does not start: see {log}")


def _answers(endpoint: places.Endpoint) -> bool:
    try:
        Ec2(endpoint).log()
    except RigError:  # its socket is there a moment before it listens
        return False
    return True
