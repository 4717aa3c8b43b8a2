"""A queue of HTCondor's that is seen to change: real files, the kernel's signals, fake commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from elastiq import command
from elastiq.interfaces import SourceError
from elastiq.plugins.batch.htcondor_watch import QueueWatch, queue_log
from tests.daemon_lines import ROOT
from tests.integration.at_work import AtWork
from tests.integration.fake_htcondor import FakePool
from tests.waiting import PATIENCE_S, until


class Spool:
    """A schedd's directory, and how often the process was told that something in it changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.log = folder / "job_queue.log"
        self.log.touch(mode=0o200)  # for others to write, not for elastiq to read
        self.told = 0

    def hear(self, *_: object) -> None:
        self.told += 1

    def write(self, name: str = "job_queue.log") -> None:
        with open(self.folder / name, "a") as file:
            file.write("105\n")

    def compact(self) -> None:
        """As the schedd does it at its start and once a day."""
        new = self.folder / "job_queue.log.tmp"
        new.write_text("107 2 CreationTimestamp 1\n")
        new.replace(self.log)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    before = signal.signal(signal.SIGURG, spool.hear)
    yield spool
    signal.signal(signal.SIGURG, before)


def watching(spool: Spool) -> QueueWatch:
    """One that is up to date: the queue was just read."""
    watch = QueueWatch(str(spool.log))
    assert watch.news(), "the queue was not read since it is watched"
    assert watch.news(reading=True)
    return watch


def test_a_change_is_told_of_and_nothing_else_until_the_queue_was_read(spool: Spool) -> None:
    watch = watching(spool)
    assert not watch.news()
    spool.write()
    until(lambda: spool.told == 1)
    assert watch.news()
    for _ in range(100):
        spool.write()
    assert spool.told == 1, "a busy schedd does not keep elastiq busy"
    watch.news(reading=True)
    assert not watch.news()
    spool.write()
    until(lambda: spool.told == 2)
    assert watch.news()


def test_what_others_write_there_is_no_change_and_hides_none(spool: Spool) -> None:
    watch = watching(spool)
    spool.write("Accountantnew.log")
    until(lambda: spool.told == 1)
    assert not watch.news()
    spool.write()
    until(lambda: spool.told == 2)
    assert watch.news()


def test_a_compacted_log_is_a_change_and_is_watched_on(spool: Spool) -> None:
    watch = watching(spool)
    spool.compact()
    until(lambda: spool.told)
    assert watch.news()
    watch.news(reading=True)
    told = spool.told
    spool.write()
    until(lambda: spool.told > told)
    assert watch.news()


def test_a_change_between_two_reads_is_not_lost_when_the_second_begins_right_then(spool: Spool) -> None:
    watch = watching(spool)
    spool.write()
    watch.news(reading=True)
    assert not watch.news(), "the read that began after it sees it"


def test_a_log_that_is_not_there_is_an_error_and_seen_as_soon_as_it_is(spool: Spool) -> None:
    spool.log.unlink()
    watch = QueueWatch(str(spool.log))
    with pytest.raises(SourceError, match=r"job_queue\.log: No such file or directory$"):
        watch.news(reading=True)
    spool.write()
    until(lambda: spool.told)
    assert watch.news()


def test_a_directory_that_is_replaced_is_watched_from_the_next_read_on(spool: Spool) -> None:
    watch = watching(spool)
    spool.folder.rename(spool.folder.with_name("old"))
    with pytest.raises(SourceError, match=r"spool: No such file or directory$"):
        watch.news()
    spool.folder.mkdir()
    spool.write()
    watch.news(reading=True)
    told = spool.told
    spool.write()
    until(lambda: spool.told > told)
    assert watch.news()


@pytest.mark.skipif(os.geteuid() == 0, reason="needs an ordinary user, root may read everything")
def test_a_directory_that_others_may_not_read_is_an_error(spool: Spool) -> None:
    spool.folder.chmod(0o311)  # as 0711 for others
    with pytest.raises(SourceError, match=r"spool: Permission denied$"):
        QueueWatch(str(spool.log)).news()


def test_a_kernel_that_tells_nothing_is_an_error(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with /proc/sys/fs/dir-notify-enable = 0."""

    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("fcntl.fcntl", refuse)
    with pytest.raises(SourceError, match=r"job_queue\.log: Invalid argument$"):
        QueueWatch(str(spool.log)).news()


def test_a_watch_that_is_given_up_leaves_nothing_open(spool: Spool) -> None:
    before = set(os.listdir("/proc/self/fd"))
    watch = watching(spool)
    assert set(os.listdir("/proc/self/fd")) != before
    del watch
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_process_that_ends_is_not_ended_by_a_change(spool: Spool) -> None:
    """It may have no handler any more."""
    program = (
        "import sys; from elastiq.plugins.batch.htcondor_watch import QueueWatch\n"
        "watch = QueueWatch(sys.argv[1]); watch.news(reading=True)\n"
        "open(sys.argv[1], 'a').write('105')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program, str(spool.log)], env=environment, timeout=PATIENCE_S)
    assert done.returncode == 0


# --------------------------------------------------------------------------- where it is


def condor_config_val(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = folder / "condor_config_val"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    command.stopping.clear()


@pytest.mark.parametrize(
    ("script", "log"),
    [
        ("echo /s/queue.log; echo /s", "/s/queue.log"),
        ("echo /s; echo 'Not defined: JOB_QUEUE_LOG' >&2; exit 1", "/s/job_queue.log"),
    ],
)
def test_the_log_is_where_the_configuration_has_it_or_in_spool(
    script: str, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    condor_config_val(tmp_path, monkeypatch, f'test "$1 $2" = "-subsystem SCHEDD" || exit 3\n{script}')
    assert queue_log(20.0) == log


@pytest.mark.parametrize("script", ["exit 1", "echo 'Not defined: SPOOL'; exit 1", "echo; echo"])
def test_without_a_configuration_of_htcondor_nothing_is_watched(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    condor_config_val(tmp_path, monkeypatch, script)
    with pytest.raises(SourceError, match="names no SPOOL"):
        queue_log(20.0)


def test_without_the_command_nothing_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    command.stopping.clear()
    with pytest.raises(SourceError, match="condor_config_val"):
        queue_log(20.0)


# --------------------------------------------------------------------------- a whole daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[AtWork]:
    daemon = AtWork(tmp_path)
    yield daemon
    daemon.close()


def start(daemon: AtWork, sections: str = "") -> None:
    """With an hour between two polls of the queue."""
    daemon.write(sections)
    daemon.config.write_text(daemon.config.read_text().replace("queue_every_s = 0.2", "queue_every_s = 3600"))
    daemon.start()


def reads(pool: FakePool) -> int:
    return len(pool.calls("condor_q"))


def test_a_job_has_its_machine_although_the_next_poll_is_an_hour_away(daemon: AtWork) -> None:
    start(daemon)
    until(lambda: reads(daemon.pool) >= 2, "the first read, and the one after the watch began")
    until(lambda: daemon.status()["queue"]["age_s"] is not None)
    daemon.pool.submit()
    until(lambda: len(daemon.machines()) == 1)
    assert daemon.stop() == 0


def test_a_daemon_that_is_not_to_watch_polls(daemon: AtWork) -> None:
    start(daemon, "[htcondor]\nwatch_queue = no")
    until(lambda: reads(daemon.pool))
    daemon.status()
    daemon.pool.submit()
    assert not daemon.pool.calls("condor_config_val")
    assert reads(daemon.pool) == 1


def test_after_a_reload_the_queue_is_watched_on(daemon: AtWork) -> None:
    start(daemon)
    until(lambda: reads(daemon.pool) >= 2)
    daemon.reload()
    until(lambda: len(daemon.pool.calls("condor_config_val")) == 2)
    before = reads(daemon.pool)
    daemon.pool.submit()
    until(lambda: reads(daemon.pool) > before)
    until(lambda: len(daemon.machines()) == 1)
