"""A daemon in a process of its own, at moto's cloud and fake commands of HTCondor's, with one pool of one machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

from tests.daemon_lines import ROOT
from tests.ec2_server import EC2Server, moto_reservations
from tests.integration.fake_htcondor import FakePool
from tests.waiting import PATIENCE_S, until

CONFIG = """
[elastiq]
cluster_name = at-work-{number}
check_queue_every_s = 0.2
check_vms_every_s = 0.2
waiting_jobs_time_s = 0
batch_settle_s = 0
idle_for_time_s = 0.5
{keys}
[quota]
max_vms = 1
[ec2]
api_url = {url}
region = us-east-1
aws_access_key_id = AKIATEST
aws_secret_access_key = verysecretkey
image_id = ami-12c6146b
flavour = m5.small
cpus = 1
memory_mb = 4000
dialect = aws
{sections}
"""


class AtWork:
    """``config`` and ``log`` are its files; `write` comes before `start`."""

    def __init__(self, folder: Path) -> None:
        from moto.moto_server.werkzeug_app import create_backend_app

        for reservations in moto_reservations():
            reservations.clear()
        self.folder, self.server = folder, EC2Server(create_backend_app("ec2"))
        self.pool = FakePool(folder / "pool")
        self.config, self.log = folder / "elastiq.conf", folder / "log"
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.config.touch(mode=0o600)
        self._environment = {
            **os.environ,
            "PATH": f"{self.pool.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "AWS_CONFIG_FILE": "/nonexistent",
            "SECRET_OF_THE_DAEMON": "hidden",
        }
        self._places = ("--config", str(self.config), "--statedir", str(folder / "s"), "--rundir", str(folder / "r"))

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self.server.close()
        print(self.text)

    def write(self, sections: str = "", keys: str = "") -> None:
        """The configuration, with further keys of [elastiq] and further sections."""
        self.config.write_text(
            CONFIG.format(number=os.getpid(), url=self.server.url, sections=sections, keys=keys), "utf-8"
        )

    def start(self) -> None:
        argv = [sys.executable, "-m", "elastiq.service", *self._places]
        with open(self.log, "a") as sink:
            self.process = subprocess.Popen(argv, env=self._environment, stdout=sink, stderr=sink)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """With SIGTERM; its exit code, which is 0 if it could end in the time that it has for that."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def reload(self) -> None:
        """And wait until it is done."""
        assert self.process is not None
        done = self.text.count("configuration reloaded")
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.text.count("configuration reloaded") == done + 1)

    @property
    def text(self) -> str:
        """The log so far."""
        return self.log.read_text() if self.log.exists() else ""

    def status(self) -> dict[str, Any]:
        """As `elastiqctl status --json` prints it, once there is one."""
        argv = [sys.executable, "-m", "elastiq", *self._places, "status", "--json"]
        said = ""

        def is_there() -> bool:
            nonlocal said
            done = subprocess.run(argv, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_S)
            said = done.stdout
            return done.returncode == 0

        until(is_there)
        status: dict[str, Any] = json.loads(said)
        return status

    def machines(self) -> list[Any]:
        """Those that moto made."""
        return [one for region in moto_reservations() for made in region.values() for one in made.instances]

    def join(self) -> None:
        """The one machine becomes a worker, and no job waits any more."""
        until(self.machines)
        (machine,) = self.machines()
        until(lambda: machine.id in self.text)  # "launched as", or "booting" where a listing was quicker
        self.pool.load()["jobs"].clear()
        self.pool.save()
        self.pool.add_worker("w1", machine.private_ip, cpus=1, memory_mb=4000)
