"""A head node of a test: the real daemon in a process of its own, fake HTCondor commands, a cloud's server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Optional

from elastiq import client
from elastiq.protocol import Refused
from tests.ec2_server import EC2Server
from tests.integration.ec2_dialects.behaviours import Behaviour
from tests.integration.ec2_dialects.server import SECRET, FakeCloud, Machine
from tests.integration.fake_htcondor import FakePool
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
CONFIG = """
[elastiq]
cluster_name = dialects-{number}
check_queue_every_s = 0.2
check_vms_every_s = 0.2
check_vms_in_error_every_s = 0.5
waiting_jobs_time_s = 0
idle_for_time_s = 0
batch_settle_s = 0
intent_settle_s = 1
[quota]
max_vms = 5
[ec2]
{site}
aws_access_key_id = AKIAEXAMPLE
aws_secret_access_key = {secret}
image_id = ami-00000001
flavour = m1.small
cpus = 1
memory_mb = 8000
"""


class Head:
    """``auto`` leaves the dialect out of the configuration."""

    def __init__(self, folder: Path, behaviour: Behaviour) -> None:
        self.folder = folder
        self.pool = FakePool(folder / "pool")
        self.cloud = FakeCloud(behaviour)
        self.server = EC2Server(self.cloud.app, as_asked=True)
        self._daemon: Optional[subprocess.Popen[bytes]] = None
        # Eucalyptus' path is its dialect's own
        site = f"api_url = {self.server.url}{behaviour.path if behaviour.dialect != 'eucalyptus' else ''}"
        if behaviour.dialect != "generic":
            site += f"\ndialect = {behaviour.dialect}"
        self.config = folder / "elastiq.conf"
        self.config.touch(mode=0o600)
        self.config.write_text(CONFIG.format(site=site, secret=SECRET, number=os.getpid()))

    def close(self) -> None:
        if self._daemon is not None:
            self.kill()
        self.server.close()

    def start(self) -> None:
        environment = {**os.environ, "PATH": f"{self.pool.bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        environment.update(PYTHONDONTWRITEBYTECODE="1", AWS_CONFIG_FILE="/nonexistent")
        places = ("--config", self.config, "--statedir", self.folder / "state", "--rundir", self.folder / "run")
        with open(self.folder / "log", "ab") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "elastiq.service", *map(str, places)], env=environment, cwd="/", stderr=log
            )

    def kill(self) -> None:
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGKILL)
        self._daemon.wait(PATIENCE_S)

    def stop(self) -> int:
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGTERM)
        return self._daemon.wait(PATIENCE_S)

    # ---- what can be seen

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def nodes(self) -> dict[str, str]:
        """The state of each node by its instance's id, or by the launch's name if it has none yet."""
        try:
            status: dict[str, Any] = client.ask(self.folder / "run/elastiq.sock", "status", timeout_s=5)["status"]
        except (client.NotRunning, client.NoAnswer, Refused):
            return {}
        return {node["id"]: node["state"] for node in status["nodes"]}

    def ours(self) -> dict[str, Machine]:
        return self.cloud.of("us")

    def launches(self) -> list[dict[str, str]]:
        return self.server.asked("RunInstances")

    def wait_for(self, condition: Callable[[], Any], what: str, within_s: float = PATIENCE_S) -> Any:
        until = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < until, f"not within {within_s:g} s: {what}\n{self.evidence()}"
            time.sleep(0.02)
        return found

    def evidence(self) -> str:
        calls = [{k: v for k, v in one.items() if k not in ("Signature",)} for one in self.server.requests]
        brief = [one for one in calls if not one["Action"].startswith("Describe")]
        return f"{self.log()[-6000:]}\n{brief}\n{self.cloud.machines}\n{self.nodes()}\n{self.cloud.complaints}"

    # ---- what happens in the cluster

    def jobs_wait(self, count: int) -> None:
        self.pool.submit(count)

    def machines_join(self) -> None:
        """Every running machine of ours becomes a worker, and the jobs are over."""
        for key, machine in self.ours().items():
            self.pool.add_worker(f"w-{key}", machine.address, cpus=1, memory_mb=8000)
        self.pool.load()["jobs"].clear()
        self.pool.save()
