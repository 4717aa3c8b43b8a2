#!/usr/bin/env python3
"""The real daemon, for minutes of real time, against a site where something fails every few seconds.

    python3 benchmarks/soak.py --minutes 10 --machines 500

`python -m elastiq.service` at periods of 1 s, moto's EC2 over HTTP behind a gate with faults, and HTCondor's
commands over a file that follows the machines. Demand goes up and down between nothing and all machines;
every minute (or a quarter of a shorter run) the daemon is killed with SIGKILL and started again. In the end
no job is left, and every machine has to be ended. It prints figures, and fails on any violation:

- an intent with more instances than were asked for, a ClientToken that was sent twice, a quota exceeded;
- a machine that is not ours touched, one with a job ended, one of ours left running;
- descriptors, threads or memory of the daemon that grow; a bug told in the log; an exit code.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks._soak_site import Site  # noqa: E402
from benchmarks.memory import machine  # noqa: E402

SEED = 1
SETTLE_S = 240.0  # within which all must be over once there is no demand
DESCRIPTORS, THREADS, RSS_MB = 64, 48, 120  # at most, in any life of the daemon
BUGS = ("this is a bug", "illegal transition", "Traceback")

CONFIG = """\
[elastiq]
cluster_name = {cluster}
sleep_s = 1
check_queue_every_s = 1
check_vms_every_s = 1
check_vms_in_error_every_s = 1
waiting_jobs_time_s = 2
idle_for_time_s = 4
estimated_vm_deploy_time_s = 30
batch_settle_s = 3
drain_timeout_s = 15
lost_after_s = 15
intent_settle_s = 15
unused_room_s = 60
[quota]
max_vms = {most}
[ec2]
api_url = {url}
region = us-east-1
aws_access_key_id = A
aws_secret_access_key = S
image_id = ami-12c6146b
flavour = m5.xlarge
cpus = 4
memory_mb = 8000
dialect = aws
connect_timeout_s = 5
read_timeout_s = 20
[htcondor]
command_timeout_s = 10
"""


@dataclass
class Sample:
    life: int
    rss_mb: float
    descriptors: int
    threads: int


class Daemon:
    """One life after another of the real daemon."""

    def __init__(self, folder: Path, site: Site, most: int) -> None:
        self.lives, self.samples, self.killed = 0, list[Sample](), False
        self.log = folder / "log"
        self.log.touch()
        self._site = site
        config = folder / "elastiq.conf"
        config.touch(mode=0o600)
        config.write_text(CONFIG.format(cluster=site.cluster, most=most, url=site.gate.url))
        places = ("--config", f"{config}", "--statedir", f"{folder / 'state'}", "--rundir", f"{folder / 'run'}")
        self._argv = [sys.executable, "-m", "elastiq.service", *places]
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        given = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        path = f"{self._site.pool.bin}:{os.environ['PATH']}"
        with open(self.log, "ab") as sink:
            self._process = subprocess.Popen(
                self._argv, env={**given, "PATH": path, "PYTHONPATH": str(ROOT)}, stdout=sink, stderr=sink
            )
        self.lives, self.killed = self.lives + 1, False

    def kill(self) -> None:
        """With SIGKILL, from any thread."""
        assert self._process is not None
        self.killed = True
        self._process.kill()
        self._process.wait()

    def end(self) -> int:
        """As systemd would; the exit code."""
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            return -1

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def sample(self) -> None:
        assert self._process is not None
        place = Path(f"/proc/{self._process.pid}")
        try:
            text = (place / "status").read_text()
            found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            rss, threads = int(found["VmRSS"].split()[0]) / 1000, int(found["Threads"])
            self.samples.append(Sample(self.lives, rss, len(os.listdir(place / "fd")), threads))
        except (OSError, KeyError):
            pass  # it was just killed, or begins: the next second tells

    def growth(self) -> list[str]:
        """What grew, or is too much."""
        found = []
        limits = (("descriptors", DESCRIPTORS, 6), ("threads", THREADS, 6), ("rss_mb", RSS_MB, 20))
        for name, most, slack in limits:
            values = [float(getattr(sample, name)) for sample in self.samples] or [0.0]
            if max(values) > most:
                found.append(f"{name}: {max(values):.0f}, at most {most} are in order")
            for life in range(1, self.lives + 1):
                mine = [float(getattr(sample, name)) for sample in self.samples if sample.life == life]
                third = len(mine) // 3
                if third >= 5 and min(mine[-third:]) > max(mine[third:-third]) + slack:
                    found.append(f"{name} grew in life {life}: {mine[third]:.0f} -> {mine[-1]:.0f}")
        return found


def demand(at_s: float, cycle_s: float, most: int) -> int:
    """Jobs wanted at a time: up, down to a few, to nothing, half up, and so on."""
    share = at_s / cycle_s % 1.0
    for until, part in ((0.3, 1.0), (0.45, 0.1), (0.6, 0.0), (0.8, 0.6)):
        if share < until:
            return round(part * most)
    return 0


def soak(site: Site, daemon: Daemon, seconds: float, most: int) -> list[str]:
    """Let it happen; returns what went wrong."""
    began = time.monotonic()
    every_s, cycle_s = min(60.0, seconds / 4), min(100.0, max(45.0, seconds / 2))
    next_kill, next_fault = began + every_s, began + 5.0
    daemon.start()
    while (now := time.monotonic()) < began + seconds:
        site.wanted = demand(now - began, cycle_s, most)
        if not daemon.runs():
            if not daemon.killed:
                return [f"the daemon ended by itself in life {daemon.lives}"]
            daemon.start()
        daemon.sample()
        if now >= next_fault:
            site.fault()
            next_fault = now + site.rng.uniform(1.0, 4.0)
        if now >= next_kill:  # now, or in the middle of the next launch or end
            site.at_effect = daemon.kill
            if site.rng.random() < 0.5:
                daemon.kill()
            next_kill = now + every_s
        time.sleep(1.0)
    site.wanted, site.at_effect = 0, None
    site.stop_faults()
    if not daemon.runs():
        daemon.start()
    settled = time.monotonic() + SETTLE_S
    while site.ours_alive() and time.monotonic() < settled and daemon.runs():
        daemon.sample()
        time.sleep(1.0)
    left = site.ours_alive()
    code = daemon.end()
    wrong = [f"{left} machines of ours still run {SETTLE_S:.0f} s after the last job"] if left else []
    return wrong + ([f"the daemon's exit code is {code}"] if code else [])


def main() -> int:
    parser = argparse.ArgumentParser(description="The real daemon under faults, for minutes of real time.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--machines", type=int, default=40)
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    print(f"{machine()}; Python {sys.version.split()[0]}; {args.minutes:g} min, {args.machines} machines at most")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="elastiq-soak.") as name:
        site = Site(Path(name) / "pool", f"soak-{os.getpid()}", args.machines, args.seed)
        site.open()
        daemon = Daemon(Path(name), site, args.machines)
        try:
            wrong = soak(site, daemon, args.minutes * 60.0, args.machines)
        finally:
            if daemon.runs():
                daemon.kill()
            site.close()
        wrong += site.judged() + daemon.growth()
        log = daemon.log.read_text(errors="replace")
        wrong += sorted({line[:300] for line in log.splitlines() if any(bug in line for bug in BUGS)})
        calls = site.pool.folder / "calls"
        commands = len(calls.read_text().splitlines()) if calls.exists() else 0
        if wrong:
            kept = Path(tempfile.gettempdir()) / f"elastiq-soak-{os.getpid()}.log"
            kept.write_text(log)
            print(f"the daemon's log is kept: {kept}")
    report(site, daemon, commands, time.monotonic() - began)
    for text in wrong:
        print(f"VIOLATION: {text}")
    print(f"{len(wrong)} violations")
    return 1 if wrong else 0


def report(site: Site, daemon: Daemon, commands: int, took_s: float) -> None:
    """The figures."""
    launched = sum(site.by_intent.values())
    print(f"{took_s:.0f} s; {daemon.lives - 1} times killed; {site.done} jobs done")
    print(f"{launched} machines launched, {site.ended} ended ({site.crashed} by themselves), {site.peak} at once")
    calls = {action: len(site.gate.asked(action)) for action in sorted({one["Action"] for one in site.gate.requests})}
    print(f"calls: {', '.join(f'{action} {count}' for action, count in calls.items())}; {commands} commands")
    print(f"{sum(site.faults.values())} faults:")
    for name, count in sorted(site.faults.items()):
        print(f"  {count:4d} {name}")
    print("life  descriptors  threads  resident MB (lowest and highest)")
    for life in range(1, daemon.lives + 1):
        mine = [sample for sample in daemon.samples if sample.life == life]
        if mine:
            spans = [
                f"{min(values):.0f}..{max(values):.0f}"
                for values in zip(*((s.descriptors, s.threads, s.rss_mb) for s in mine))
            ]
            print(f"{life:4d}  {spans[0]:>11}  {spans[1]:>7}  {spans[2]:>11}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
