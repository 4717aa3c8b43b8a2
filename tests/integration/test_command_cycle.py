"""A whole cycle of a batch system behind executables: the directory queue of docs/batch, with real workers and jobs.

The daemon runs in a process of its own at moto's cloud over HTTP. Each instance becomes a worker process, which takes
jobs from the directory; when the instance ends, the process and its jobs are killed.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.daemon_lines import ROOT
from tests.integration.at_work import AtWork
from tests.waiting import until

QUEUE = ROOT / "docs" / "batch" / "directory-queue" / "directory-queue"
KEYS = ("jobs", "workers", "drain", "undrain", "recorded", "find_job", "remove")
MAX_VMS = 3


class DirectoryQueue:
    """The queue in ``folder``; ``program`` is what elastiq calls. Its workers live as long as their instances."""

    def __init__(self, folder: Path, daemon: AtWork) -> None:
        self.folder, self.daemon = folder, daemon
        self.program, self.trace = folder / "my-queue", folder / "trace"
        folder.mkdir()
        shutil.copy(QUEUE, folder)
        self.program.write_text(
            f"#!/bin/sh\nexport DIRECTORY_QUEUE={folder} DIRECTORY_QUEUE_BEAT_S=0.25\n"
            f'exec {sys.executable} -I -S {folder}/directory-queue "$@"\n'
        )
        self.program.chmod(0o755)
        self.run("init")
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._moto, daemon.server.behind = daemon.server.behind, self._answer
        self._machines = threading.Thread(target=self._follow)
        self._machines.start()

    def close(self) -> None:
        self._over.set()
        self._machines.join()
        with self._lock:  # the cloud's answers end workers too
            for process in self.workers.values():
                self.kill(process)

    def _follow(self) -> None:
        while not self._over.wait(0.05):
            with self._lock:
                for machine in self.daemon.machines():
                    if machine.state == "running" and machine.id not in self.workers:
                        argv = ["worker", "--address", machine.private_ip, "--instance-id", machine.id]
                        argv += ["--cpus", "1", "--memory-mb", "4000", f"W-{machine.id[-4:]}"]
                        self.workers[machine.id] = subprocess.Popen([self.program, *argv], start_new_session=True)

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Of the cloud: an instance that it calls terminated runs nothing any more."""
        assert self._moto is not None
        with self._lock:
            answer = self._moto(environ, start)
            for machine in self.daemon.machines():
                if machine.state == "terminated" and machine.id in self.workers:
                    self.kill(self.workers[machine.id])
        return answer

    @staticmethod
    def kill(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run(self, *argv: str) -> str:
        return subprocess.run([self.program, *argv], check=True, capture_output=True, text=True, timeout=30).stdout

    def submit(self, count: int, *options: str, seconds: float = 0.3) -> None:
        script = f"echo begin $JOB >>{self.trace}; sleep {seconds}; echo end $JOB >>{self.trace}"
        self.run("submit", f"--times={count}", *options, "sh", "-c", script)

    def events(self) -> Counter[str]:
        """How often each job began and ended."""
        return Counter(self.trace.read_text().splitlines() if self.trace.exists() else ())

    def ran_once(self, *jobs: int) -> bool:
        return self.events() == {f"{event} {job:07}": 1 for event in ("begin", "end") for job in jobs}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[AtWork]:
    daemon = AtWork(tmp_path)
    yield daemon
    daemon.close()


@pytest.fixture
def queue(daemon: AtWork, tmp_path: Path) -> Iterator[DirectoryQueue]:
    queue = DirectoryQueue(tmp_path / "queue", daemon)
    yield queue
    queue.close()


def configure(daemon: AtWork, *keys: str) -> None:
    """With paths that are relative to the file."""
    section = "\n".join(f"{key} = queue/my-queue" for key in keys)
    daemon.write(f"[command]\n{section}\n", "batch_plugin = command\nlost_after_s = 1")
    text = daemon.config.read_text().replace("max_vms = 1", f"max_vms = {MAX_VMS}")
    daemon.config.write_text(text)


def ended(daemon: AtWork) -> bool:
    return all(machine.state == "terminated" for machine in daemon.machines())


def test_machines_come_for_jobs_in_a_directory_and_go_when_they_have_run_and_no_job_is_lost(
    daemon: AtWork, queue: DirectoryQueue
) -> None:
    configure(daemon, *KEYS)
    queue.submit(1, "--memory-mb", "5000")  # no machine has as much
    queue.submit(9)
    daemon.start()
    until(lambda: queue.ran_once(*range(2, 11)))
    until(lambda: "-> draining" in daemon.text)
    queue.submit(4)  # while machines are being drained and ended
    until(lambda: queue.ran_once(*range(2, 15)))
    until(lambda: ended(daemon))
    assert 1 <= len(daemon.server.asked("RunInstances")) and len(daemon.machines()) <= 2 * MAX_VMS
    until(lambda: not [*queue.folder.glob("workers/*.json"), *queue.folder.glob("drained/*")])  # `remove` sees to that
    assert "nothing for 1 job of 1 cpu, 5000 MB: nothing offered can run it" in daemon.text
    assert [group["waiting"] for group in daemon.status()["queue"]["groups"]] == [1]
    assert "this is a bug" not in daemon.text and "Traceback" not in daemon.text


def test_a_machine_that_dies_with_its_job_is_ended_when_nothing_is_recorded_there(
    daemon: AtWork, queue: DirectoryQueue
) -> None:
    configure(daemon, *KEYS)
    queue.submit(1, seconds=60)
    daemon.start()
    until(lambda: queue.trace.exists() and "-> busy" in daemon.text)
    (machine,) = daemon.machines()
    queue.kill(queue.workers[machine.id])
    until(lambda: "-> lost" in daemon.text)
    until(lambda: "recorded" in daemon.text)
    assert not ended(daemon)
    worker = json.loads(queue.run("jobs"))["jobs"][0]["workers"][0]
    queue.run("requeue", worker)
    until(lambda: machine.state == "terminated")
    until(lambda: queue.events() == {"begin 0000001": 2})  # on another machine


def test_two_executables_are_enough_for_a_whole_cycle(daemon: AtWork, queue: DirectoryQueue) -> None:
    configure(daemon, "jobs", "workers")
    queue.submit(3)
    daemon.start()
    until(lambda: queue.ran_once(1, 2, 3))
    until(lambda: ended(daemon))
    assert "drain: is not set: a job that starts right before its machine is ended is lost with it" in daemon.text
    assert "Traceback" not in daemon.text


def test_a_queue_that_was_not_made_yet_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {**os.environ, "DIRECTORY_QUEUE": str(tmp_path)}
    tried = subprocess.run([sys.executable, QUEUE, "jobs"], env=environment, capture_output=True, text=True)
    assert tried.returncode == 1 and tried.stderr.endswith("(has `directory-queue init` been run?)\n")
    monkeypatch.delenv("DIRECTORY_QUEUE", raising=False)
    place = runpy.run_path(str(QUEUE))["place"]
    monkeypatch.setitem(place.__globals__, "NAMED_IN", tmp_path / "none")
    with pytest.raises(SystemExit):
        place()
    assert f"there is no {tmp_path}/none: write the queue's directory into it, then run init" in capsys.readouterr().err
