"""The daemon under test: the real program, started as an administrator would, but with short periods."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from elastiq import client
from elastiq.protocol import Refused
from tests.e2e.rig import places, user
from tests.e2e.rig.ec2_image import IMAGE

Overrides = Mapping[str, Mapping[str, object]]

SERVICE = ("-m", "elastiq.service")

Sections = dict[str, dict[str, object]]

# Whatever the batch system is and wherever the cloud.
COMMON: Sections = {
    "elastiq": {
        "cluster_name": "e2e",
        "check_queue_every_s": 1,
        "check_vms_every_s": 1,
        "check_vms_in_error_every_s": 5,
        "estimated_vm_deploy_time_s": 60,
        "waiting_jobs_time_s": 0,
        "idle_for_time_s": 5,
        "drain_timeout_s": 20,
        "lost_after_s": 10,
        "batch_settle_s": 3,
        "unused_room_s": 10,
        "intent_settle_s": 6,
        "log_level": "debug",
    },
    "quota": {"min_vms": 0, "max_vms": 5},
    "ec2": {
        "region": places.REGION,
        "aws_access_key_id": "AKIAEXAMPLE",
        "aws_secret_access_key": "not-a-secret",
        "image_id": IMAGE,
        "flavour": "c5.xlarge",
        "cpus": 4,
        "memory_mb": 8192,
    },
}
# In the rig's pool.
DEFAULTS: Sections = {**COMMON, "ec2": {"api_url": places.EC2_URL, **COMMON["ec2"]}, "htcondor": {}}


@dataclass(frozen=True)
class Surroundings:
    """Where a daemon runs: its configuration as far as a test does not say otherwise, its whole environment by its
    home, and the command line that runs a program with one."""

    sections: Sections
    environment: Callable[[Path], dict[str, str]]
    command: Callable[[Sequence[object], Mapping[str, str]], list[str]]


IN_POOL = Surroundings(DEFAULTS, user.environment, user.as_daemon)


class Daemon:
    """One daemon with a state of its own, which survives `stop` and `kill` but not the test."""

    def __init__(
        self, name: str, overrides: Overrides, program: Sequence[str] = SERVICE, taps: Optional[Path] = None,
        surroundings: Surroundings = IN_POOL,
    ) -> None:  # fmt: skip
        self.home = places.base() / "daemons" / name
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        self._program, self._taps, self._surroundings = program, taps, surroundings
        self._process: Optional[subprocess.Popen[bytes]] = None
        self.configuration = self.home / "elastiq.conf"
        self.configuration.write_text(_ini(surroundings.sections, overrides))
        self.configuration.chmod(0o600)
        for path in (self.home, self.configuration):
            os.chown(path, places.DAEMON_UID, places.DAEMON_UID)

    def start(self) -> None:
        """Start it; returns at once."""
        arguments = ["--config", self.configuration, "--statedir", self.home / "state", "--rundir", self.home / "run"]
        variables = self._surroundings.environment(self.home)
        if self._taps is not None:
            variables["PATH"] = f"{self._taps}:{variables['PATH']}"
        with (self.home / "log").open("ab") as sink:
            self._process = subprocess.Popen(
                self._surroundings.command([sys.executable, *self._program, *arguments], variables),
                stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd="/",
            )  # fmt: skip

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash does; the commands that it was running end too, as with systemd."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def stop(self) -> int:
        """Tell it to end, and wait for it; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def close(self) -> None:
        """After the test."""
        if self.running:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError("the daemon did not end within a minute of SIGTERM") from None

    def status(self) -> dict[str, Any]:
        """What `elastiqctl status --json` shows; empty while the daemon does not answer."""
        try:
            answer: dict[str, Any] = client.ask(self.home / "run/elastiq.sock", "status", timeout_s=60)["status"]
        except (client.NotRunning, client.NoAnswer, Refused):
            return {}
        return answer

    def nodes(self, *states: str) -> list[dict[str, Any]]:
        """The nodes in the status; only those in ``states`` if given."""
        return [node for node in self.status().get("nodes", ()) if not states or node["state"] in states]

    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace") if (self.home / "log").exists() else ""

    def evidence(self) -> str:
        """For a person who looks at a test that failed."""
        return f"--- status\n{json.dumps(self.status(), indent=1)}\n--- log\n{self.log()[-20000:]}"


def _ini(*layers: Overrides) -> str:
    sections: Sections = {}
    for layer in layers:
        for name, values in layer.items():
            sections.setdefault(name, {}).update(values)
    lines: list[str] = []
    for name, section in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in section.items() if value is not None), ""]
    return "\n".join(lines)
