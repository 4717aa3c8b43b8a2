"""One worker: a namespace with the instance's address and a startd that joins the pool."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from tests.e2e.rig import condor_config, htcondor, network, places
from tests.e2e.rig.process import poll, running, send, start


def _directory(address: str) -> Path:
    return places.pool() / places.worker_namespace(address)


def _pid_file(address: str) -> Path:
    return places.base() / f"{places.worker_namespace(address)}.pid"


def boot(address: str, options: condor_config.WorkerOptions) -> None:
    """Start a worker; it joins the pool by itself about 1.5 s later."""
    name = network.make_worker(address)
    local = f"{places.POOL_INSIDE}/{name}"
    directory = _directory(address)
    htcondor.make_local(directory, condor_config.worker(local, address, options))
    shutil.copy(htcondor.worker_token(), directory / "tokens.d/pool")
    start(htcondor.master(name, local), directory / "log/stdout", _pid_file(address))


def halt(address: str, silently: bool = False) -> None:
    """End a worker. ``silently``: as when a host dies; else as an orderly shutdown, which tells the pool."""
    pid = running(_pid_file(address))
    if pid is not None and not silently:
        send(pid, signal.SIGQUIT)
        poll(lambda: running(_pid_file(address)) is None, 5)
    network.remove(places.worker_namespace(address))
    _pid_file(address).unlink(missing_ok=True)
    shutil.rmtree(_directory(address), ignore_errors=True)


def addresses() -> list[str]:
    names = [name for name in network.namespaces() if name != places.HUB]
    return [name[len(places.NAMESPACE_PREFIX) :].replace("-", ".") for name in names]


def announce(address: str, text: str) -> None:
    """Tell a worker that its machine is about to be taken away. It listens if its user data has `NOTICE_LINES`."""
    path = _directory(address) / "notice"
    path.with_suffix(".new").write_text(f'Notice = "{text}"\n- update:true\n')
    path.with_suffix(".new").rename(path)
