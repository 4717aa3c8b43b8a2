"""The pool's head (collector, negotiator, schedd), its tokens, and commands to it."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
from pathlib import Path
from typing import Any, Sequence

from tests.e2e.rig import condor_config, network, places, user
from tests.e2e.rig.process import RigError, end, poll, run, running, start

_LOCAL = f"{places.POOL_INSIDE}/head"
_SUBDIRECTORIES = ("log", "spool", "execute", "lock", "run")


def head_directory() -> Path:
    return places.pool() / "head"


def pid_file() -> Path:
    return places.base() / "head.pid"


def make_local(directory: Path, configuration: str) -> None:
    """The directories and the configuration of one machine's HTCondor, as in its package."""
    for name in _SUBDIRECTORIES:
        (directory / name).mkdir(parents=True, exist_ok=True)
        os.chown(directory / name, places.CONDOR_UID, places.CONDOR_UID)
    for name in ("passwords.d", "tokens.d"):
        (directory / name).mkdir(mode=0o700, exist_ok=True)
    (directory / "condor_config").write_text(configuration)


def master(namespace: str, local: str) -> list[str]:
    """The command line of a condor_master with the configuration in ``local`` (a path inside the root)."""
    program = ["env", "-i", "PATH=/usr/sbin:/usr/bin", f"CONDOR_CONFIG={local}/condor_config"]
    return network.in_root(namespace, [*program, "/usr/sbin/condor_master", "-f"])


def start_head() -> None:
    """Start central manager and schedd with an empty queue, unless they run; wait until both answer."""
    if running(pid_file()) is None:
        shutil.rmtree(places.pool(), ignore_errors=True)
        head = head_directory()
        make_local(head, condor_config.head(_LOCAL))
        secret = head / "passwords.d/POOL"
        secret.write_bytes(base64.b64encode(secrets.token_bytes(48)))
        secret.chmod(0o600)
        start(master(places.HUB, _LOCAL), places.base() / "head.log", pid_file())
    if not poll(_answers, 90):
        raise RigError(f"HTCondor's head does not answer; see {head_directory()}/log and {places.base()}/head.log")
    _make_tokens()


def stop_head() -> None:
    """A fast shutdown, as HTCondor's own unit does it."""
    end(pid_file(), signal.SIGQUIT)


def _answers() -> bool:
    rows = as_root(["condor_status", "-any", "-autoformat", "MyType"], check=False)
    return {"Collector", "Negotiator", "Scheduler"} <= set(rows.split())


def as_root(argv: Sequence[object], check: bool = True, uid: int = 0) -> str:
    """Run one of HTCondor's commands inside the root with the head's own configuration."""
    environment = ["env", f"CONDOR_CONFIG={_LOCAL}/condor_config", "HOME=/home/jobuser" if uid else "HOME=/root"]
    return run(network.in_root(places.HUB, [*environment, *argv], uid), check=check)


def worker_token() -> Path:
    """The token that user data would carry to a worker."""
    return places.base() / "worker.token"


def daemon_token() -> Path:
    """The token that lets the daemon drain, with the rights that docs/htcondor.md names."""
    return places.daemon_tokens() / "elastiq"


def _make_tokens() -> None:
    rights = _rights("ADVERTISE_STARTD", "ADVERTISE_MASTER", "READ")
    token = as_root(["condor_token_create", "-identity", condor_config.POOL_IDENTITY, *rights])
    _write_private(worker_token(), token, 0)
    rights = _rights("READ", "ADMINISTRATOR", "ADVERTISE_STARTD")
    token = as_root(["condor_token_create", "-identity", condor_config.DAEMON_IDENTITY, *rights])
    places.daemon_tokens().mkdir(exist_ok=True)
    places.daemon_tokens().chmod(0o700)
    os.chown(places.daemon_tokens(), places.DAEMON_UID, places.DAEMON_UID)
    _write_private(daemon_token(), token, places.DAEMON_UID)
    places.client_config().write_text(condor_config.client(places.root(), places.pool() / "head/spool"))


def _rights(*names: str) -> list[str]:
    return [word for name in names for word in ("-authz", name)]


def _write_private(path: Path, text: str, owner: int) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)  # one of before may have another mode, and HTCondor then ignores it
    path.write_text(text)
    os.chown(path, owner, owner)


def collector_pid() -> int:
    """The collector's process; `RigError` if there is none."""
    for pid in network.processes(places.HUB):
        name = Path(f"/proc/{pid}/comm")
        parent = Path(f"/proc/{pid}/status").read_text().partition("PPid:")[2].split()[0]
        # one that answers a query is a child of the collector, not of the master
        if (
            name.read_text().strip() == "condor_collecto"
            and Path(f"/proc/{parent}/comm").read_text() != name.read_text()
        ):
            return pid
    raise RigError("the collector does not run")


def switch_collector(on: bool) -> None:
    """Let the master end the collector, or start it again."""
    _switch("collector", on)
    if on and not poll(lambda: "Collector" in as_root(["condor_status", "-any", "-autoformat", "MyType"], False), 90):
        raise RigError("the collector does not answer after its start")


def restart_schedd() -> None:
    """Let the master end the schedd, which compacts its log, and start it again."""
    before = queue_log().stat().st_ino
    _switch("schedd", False)
    if not poll(lambda: queue_log().stat().st_ino != before, 90):
        raise RigError("the schedd did not compact its log at its end")
    _switch("schedd", True)
    if not poll(lambda: as_root(["condor_q", "-totals"], False), 90):
        raise RigError("the schedd does not answer after its start")


def queue_log() -> Path:
    return head_directory() / "spool/job_queue.log"


def _switch(daemon: str, on: bool) -> None:
    as_root(["condor_on" if on else "condor_off", "-daemon", daemon, "-addr", _master_address()])


def _master_address() -> str:
    return (head_directory() / "log/.master_address").read_text().splitlines()[0]


def machines(names: str) -> list[dict[str, Any]]:
    """These attributes of all slots, read from the collector as any user may."""
    return _ads(run(user.as_daemon(["condor_status", "-attributes", names, "-json"])))


def queue(names: str, constraint: str = "true") -> list[dict[str, Any]]:
    """These attributes of the jobs in the queue, from the schedd itself: it needs no collector."""
    return _ads(as_root(["condor_q", "-allusers", "-attributes", names, "-constraint", constraint, "-json"]))


def history(names: str) -> list[dict[str, Any]]:
    """These attributes of the jobs that left the queue."""
    return _ads(as_root(["condor_history", "-attributes", names, "-json"]))


def _ads(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text)) if text.strip() else []


def submit(count: int, seconds: float, lines: Sequence[str] = ()) -> int:
    """Submit sleep jobs as the rig's job user; returns their cluster id. ``lines`` go before `queue`."""
    description = "\n".join(
        [
            "executable = /bin/sleep",
            f"arguments = {seconds:g}",
            "transfer_executable = false",
            "should_transfer_files = IF_NEEDED",
            "request_cpus = 1",
            "request_memory = 64",
            "request_disk = 1M",
            *lines,
            f"queue {count}",
        ]
    )
    path = places.root() / f"tmp/{secrets.token_hex(8)}.sub"
    path.write_text(description + "\n")
    try:
        said = as_root(["condor_submit", "-terse", f"/tmp/{path.name}"], uid=places.JOB_UID)
    finally:
        path.unlink()
    return int(said.split(".")[0])  # "7.0 - 7.4"
