"""A queue that changes is looked at before its time, and no more often than the schedd can bear."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from elastiq.interfaces import JobGroup, Jobs, Resources, SourceError
from elastiq.reload import take_over
from tests.unit.fakes import FakeBatch
from tests.unit.test_daemon import Rig

PERIOD_S = 15.0
IN_A_ROW = 8  # so many looks are in the first period of a queue that changes all the time
JOB = JobGroup("one cpu", Resources(cpus=1.0), waiting=1)


class WatchingBatch(FakeBatch):
    """`changed` says what the script has."""

    watches = True

    def changed(self) -> bool:
        return bool(self.script.ask("changed"))


def watching(**changed: Any) -> Rig:
    """A daemon that has read everything, with nothing in flight; its next poll is a period away."""
    rig = Rig(check_queue_every_s=PERIOD_S, check_vms_every_s=1e5, check_vms_in_error_every_s=1e5, **changed)
    rig.answer()
    rig.core.batch = rig.batch = WatchingBatch()
    rig.batch.script.answers["changed"] = False
    rig.daemon.watch()
    rig.answer()
    assert rig.batch.script.calls("changed") and not rig.executor.pending
    return rig


def signal(rig: Rig) -> None:
    """As when the process gets a SIGURG; what it leads to at once has happened."""
    rig.daemon.wake()
    rig.run()  # takes what was posted
    rig.run()


def wake(rig: Rig, changed: bool = True) -> None:
    """The batch system signals, is asked, and says so."""
    rig.batch.script.answers["changed"] = changed
    signal(rig)
    rig.answer("queue changes")


def looks_in(rig: Rig, seconds: float, every_s: float, busy: bool) -> list[float]:
    """When the queue was read, from now; of a busy queue a change is told of after every step."""
    times: list[float] = []
    for step in count(1):
        if step * every_s > seconds:
            return times
        rig.run(every_s)
        if rig.executor.reads("queue"):
            times.append(step * every_s)
            rig.answer("queue")
        if busy:
            wake(rig)
    raise AssertionError


def test_a_change_is_looked_at_at_once_and_the_next_poll_comes_a_period_later() -> None:
    rig = watching()
    rig.run(PERIOD_S / 3)
    wake(rig)
    rig.read("queue").finish()
    assert looks_in(rig, 2 * PERIOD_S, 0.5, busy=False) == [PERIOD_S, 2 * PERIOD_S]


def test_a_job_that_is_told_of_has_its_machine_long_before_the_next_poll() -> None:
    rig = watching(waiting_jobs_time_s=0.0)
    rig.run(1.0)
    rig.batch.script.answers["jobs"] = Jobs((JOB,))
    wake(rig)
    rig.answer("queue")
    assert [act.node for act in rig.executor.acts("cloud")] == ["launch launch1"]


def test_a_signal_without_a_change_makes_no_look() -> None:
    rig = watching()
    wake(rig, changed=False)
    assert not rig.executor.reads("queue")
    assert looks_in(rig, PERIOD_S, 0.5, busy=False) == [PERIOD_S]


@pytest.mark.parametrize("before", [0, 1], ids=["the first change", "the second in a row"])
def test_a_change_during_a_read_is_looked_at_after_it(before: int) -> None:
    rig = watching()
    rig.run(PERIOD_S - 1.0)
    for _ in range(before):
        wake(rig)
        rig.read("queue").finish()
    rig.run(PERIOD_S if before else 1.0)
    early = rig.read("queue")
    rig.run(0.5)
    wake(rig)
    rig.run(0.5)
    assert rig.executor.reads("queue") == [early], "one read at a time"
    early.finish()
    rig.run()
    rig.read("queue").finish()
    rig.run()
    assert not rig.executor.reads("queue"), "the second began after the change"


def test_a_signal_while_the_batch_system_is_asked_is_asked_about_afterwards() -> None:
    rig = watching()
    rig.batch.script.answers["changed"] = False
    signal(rig)
    asked = rig.read("queue changes")
    signal(rig)
    asked.finish()
    rig.run()
    rig.batch.script.answers["changed"] = True
    rig.answer("queue changes")
    assert rig.executor.reads("queue")


def test_a_burst_is_looked_at_as_it_comes_and_then_less_and_less_often() -> None:
    looks = looks_in(watching(), PERIOD_S, 0.01, busy=True)
    wake_at_once = [0.01, *looks]
    gaps = [after - before for before, after in zip(wake_at_once, wake_at_once[1:])]
    assert looks[0] <= 0.02
    assert IN_A_ROW - 1 <= len(looks) <= IN_A_ROW
    assert all(after > before for before, after in zip(gaps, gaps[1:]))


def test_a_busy_queue_is_read_hardly_more_often_than_a_calm_one() -> None:
    hour_s = 3600.0
    calm = len(looks_in(watching(), hour_s, 0.5, busy=False))
    busy = looks_in(watching(), hour_s, 0.5, busy=True)
    assert calm == hour_s / PERIOD_S
    assert calm <= len(busy) <= calm + IN_A_ROW
    gaps = [after - before for before, after in zip(busy, busy[1:])]
    assert max(gaps) <= PERIOD_S + 1.0, "and never less often"


def test_after_a_calm_time_a_change_is_looked_at_at_once_again() -> None:
    rig = watching()
    looks_in(rig, 20 * PERIOD_S, 0.5, busy=True)
    assert len(looks_in(rig, PERIOD_S, 0.5, busy=True)) <= 2
    looks_in(rig, (IN_A_ROW + 1) * PERIOD_S, 0.5, busy=False)
    assert len(looks_in(rig, PERIOD_S, 0.5, busy=True)) >= IN_A_ROW / 2


def test_a_queue_that_cannot_be_watched_is_polled_and_that_is_told_once(caplog: Any) -> None:
    caplog.set_level("INFO")
    rig = watching()
    rig.batch.script.answers["changed"] = SourceError("/spool/job_queue.log: Permission denied")
    for _ in range(3):
        signal(rig)
        rig.answer("queue changes")
    assert [line for line in caplog.messages if "Permission denied" in line] == [
        "the queue is only polled: /spool/job_queue.log: Permission denied"
    ]
    assert looks_in(rig, PERIOD_S, 0.5, busy=False) == [PERIOD_S]


def test_a_batch_system_that_cannot_tell_is_looked_at_when_somebody_signals_and_as_seldom() -> None:
    rig = watching()
    rig.core.batch = rig.batch = FakeBatch()
    for _ in range(3 * IN_A_ROW):
        rig.run(0.1)
        signal(rig)
        rig.answer("queue")
    assert 1 < len(rig.batch.script.calls("jobs")) <= IN_A_ROW


def test_after_a_reload_the_new_plugin_begins_to_watch() -> None:
    rig = watching()
    new = WatchingBatch()
    new.script.answers["changed"] = False
    take_over(rig.daemon, rig.settings, new, {"aws": rig.cloud})
    rig.answer()
    assert new.script.calls("changed")
