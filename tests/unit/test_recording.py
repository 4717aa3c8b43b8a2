"""What of the queue is written down, when, and what becomes of a disk that takes nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Optional

import pytest

from elastiq import recording
from elastiq.interfaces import JobGroup, Jobs, Resources
from elastiq.observer import Observer
from elastiq.recording import ALIVE_S, GROUPS_AT_MOST, HEADER, PAUSE_S, Recording
from tests.unit.fakes import UNREACHABLE, Surroundings
from tests.unit.values import group

MIDNIGHT = 1_700_006_400  # of 2023-11-15, UTC
AT = 1_700_000_000  # when the virtual clock begins


class Desk(Surroundings):
    """A recording, and looks of which the next comes 15 s later."""

    def __init__(self, folder: Path, **changed: Any) -> None:
        super().__init__(**changed)
        self.folder = folder
        self.begin()

    def begin(self) -> None:
        """As a start of the daemon does."""
        self.recording = Recording(self.core, self.folder)
        self.core.saw_queue = self.recording.take

    def look(self, *groups: JobGroup, missing: tuple[str, ...] = (), after_s: float = 15.0) -> None:
        self.recording.take(Jobs(groups, missing))
        self.clock.wait(after_s)

    def lines(self) -> list[str]:
        return [line for file in sorted(self.folder.iterdir()) for line in file.read_text().splitlines()]

    def looks(self) -> list[str]:
        """Without their times."""
        return [line.partition(" ")[2] for line in self.lines() if line[:1].isdigit()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "queue")


def g(key: str, waiting: int, running: Optional[int] = 0, **changed: Any) -> JobGroup:
    return group(key, waiting, running=running, **changed)


def test_a_group_is_named_once_and_then_what_changes_of_it_is_written(desk: Desk) -> None:
    request = Resources(cpus=2, memory_mb=1500.5, gpus=0)
    for waiting, running in ((5, 0), (3, 2), (3, 2), (0, 4)):
        desk.look(g("a", waiting, running, request=request, nodes=3), g("b", 1, 1))
    assert desk.lines() == [
        *("", HEADER, '= 0 ["a", 2, 1500.5, null, 0, 3]', '= 1 ["b", 1, 1000, null, null, 1]'),
        *(f"{AT} 0:5:0 1:1:1", f"{AT + 15} 0:3:2", f"{AT + 45} 0:0:4"),
    ]


def test_a_group_that_is_gone_has_no_jobs_and_keeps_its_number_for_its_return(desk: Desk) -> None:
    for looked in ((g("a", 2),), (), (), (g("b", 1),), (g("a", 1), g("b", 1))):
        desk.look(*looked)
    assert desk.looks() == ["0:2:0", "0:0:0", "1:1:0", "0:1:0"]
    assert sum(line.startswith("= ") for line in desk.lines()) == 2


def test_an_empty_queue_is_a_look_too(desk: Desk) -> None:
    desk.look()
    assert desk.lines() == ["", HEADER, f"{AT}"]


def test_what_cannot_run_and_what_is_not_said_are_no_numbers(desk: Desk) -> None:
    desk.look(g("a", 4, 1, not_eligible="waits for another"), g("b", 2, None), g("c", 0, 0))
    assert desk.looks() == ["0:-:1 1:2:-"]


def test_while_nothing_changes_a_line_in_five_minutes_says_that_it_was_looked(desk: Desk) -> None:
    for _ in range(60 * 60 // 15):
        desk.look(g("a", 2, 1))
    assert desk.looks() == ["0:2:1", *[""] * (int(3600 / ALIVE_S) - 1)]


def test_nothing_is_touched_by_a_look_that_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.look(g("a", 2, 1))

    def no(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("open", "os.stat", "os.statvfs"):
        monkeypatch.setattr(f"builtins.{name}" if name == "open" else name, no)
    desk.look(g("a", 2, 1))


def test_a_partial_look_leaves_no_line(desk: Desk) -> None:
    desk.look(g("a", 2))
    desk.look(g("a", 1), missing=("schedd2",))
    desk.look(g("a", 1))
    assert desk.lines()[-2:] == [f"{AT} 0:2:0", f"{AT + 30} 0:1:0"]


def test_a_queue_that_is_not_known_leaves_no_line_and_never_an_empty_queue(desk: Desk) -> None:
    observer = Observer(desk.core, lambda: None)
    desk.batch.script.answers["jobs"] = Jobs((g("a", 2),))
    for fails in (False, True, True, False):
        observer.read_jobs()
        (read,) = desk.executor.reads("queue")
        read.fail(UNREACHABLE) if fails else read.finish()
        desk.clock.wait(ALIVE_S)
    assert [line for line in desk.lines() if line[:1].isdigit()] == [f"{AT} 0:2:0", f"{AT + 3 * ALIVE_S:.0f}"]


def test_it_is_written_at_most_every_ten_seconds(desk: Desk) -> None:
    for number in range(1, 41):
        desk.look(g("a", number), after_s=1.0)
    assert desk.looks() == ["0:1:0", "0:11:0", "0:21:0", "0:31:0"]


def test_the_larger_a_days_file_the_more_seldom_it_is_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "STEP", 2_000)
    desk.clock.wait(MIDNIGHT - AT)
    for number in range(1, 86_400 // 10):
        desk.look(g("a", number), after_s=10.0)
    (file,) = desk.folder.iterdir()
    assert 10_000 < file.stat().st_size < 14_000 and len(desk.looks()) > 86_400 / (PAUSE_S * 128)


def test_however_large_a_days_file_the_next_day_begins_with_a_look(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "STEP", 1)
    for number in range(1, 2 * 86_400 // 600):
        desk.look(g("a", number), after_s=600.0)
    assert [line for line in desk.lines() if line[:1].isdigit()][1].startswith(f"{AT + 6600} "), "the first at midnight"
    assert MIDNIGHT - AT == 6400 and len(list(desk.folder.iterdir())) == 3


def test_each_day_has_a_file_that_can_be_read_alone(desk: Desk) -> None:
    desk.clock.wait(MIDNIGHT - AT - 20)
    for _ in range(3):
        desk.look(g("a", 2, 1), g("b", 0, 1))
    first, second = ((desk.folder / f"2023-11-{day}.txt").read_text() for day in (14, 15))
    assert first.replace(f"{MIDNIGHT - 20}", "AT") == second.replace(f"{MIDNIGHT + 10}", "AT")


def test_files_beyond_the_days_are_removed_and_others_are_left(desk: Desk) -> None:
    desk.settings = desk.core.settings = desk.core.settings.__class__("test", record_days=2)
    desk.folder.mkdir()
    (desk.folder / "mine").write_text("")
    for _ in range(6):
        desk.look(g("a", 1), after_s=86_400.0)
    assert sorted(file.name for file in desk.folder.iterdir()) == [
        *(f"2023-11-{day}.txt" for day in (17, 18, 19)), "mine",
    ]  # fmt: skip


def test_with_no_days_nothing_is_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "queue", record_days=0)
    desk.look(g("a", 1))
    assert not desk.folder.exists() and desk.core.notices == {}


def test_a_start_begins_anew_in_the_same_file(desk: Desk) -> None:
    desk.look(g("a", 2), g("b", 1))
    desk.begin()
    desk.look(g("b", 1))
    assert desk.lines()[-4:] == ["", HEADER, '= 0 ["b", 1, 1000, null, null, 1]', f"{AT + 15} 0:1:0"]
    assert len(list(desk.folder.iterdir())) == 1


def test_more_shapes_than_are_remembered_begin_anew(desk: Desk) -> None:
    for number in range(0, 3 * GROUPS_AT_MOST, GROUPS_AT_MOST // 2):
        desk.look(*(g(f"k{number + more}", 1) for more in range(GROUPS_AT_MOST // 2)))
    assert desk.lines().count(HEADER) == 2
    numbers = [int(line.split()[1]) for line in desk.lines() if line.startswith("= ")]
    assert max(numbers) < 2 * GROUPS_AT_MOST


# --------------------------------------------------------------------------- a disk that takes nothing


def fails(error: int) -> Any:
    def write(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    return write


def test_a_disk_that_is_full_is_a_notice_and_when_it_has_room_all_is_said_anew(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.look(g("a", 2))
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", fails(errno.ENOSPC))
        desk.look(g("a", 3))
    assert desk.core.notices["record"] == (
        f"{desk.folder}: No space left on device: the queue is not recorded, all else goes on"
    )
    assert not desk.core.faults and not desk.core.store_broken
    desk.look(g("a", 3), after_s=ALIVE_S)
    assert desk.looks() == ["0:2:0"], "it is not tried with every look"
    desk.look(g("a", 3))
    assert desk.lines()[-4:-1] == ["", HEADER, '= 0 ["a", 1, 1000, null, null, 1]']
    assert "record" not in desk.core.notices


def test_the_last_room_of_a_disk_is_left_to_the_store(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "ROOM", 1 << 62)
    desk.look(g("a", 1))
    assert "MB are free: the queue is not recorded" in desk.core.notices["record"]
    assert list(desk.folder.iterdir()) == []


def test_a_place_that_is_no_directory_is_a_notice(desk: Desk) -> None:
    desk.folder.write_text("")
    desk.look(g("a", 1))
    assert "File exists" in desk.core.notices["record"]


def test_a_fault_in_it_does_not_make_the_queue_unknown(desk: Desk) -> None:
    def breaks(_: Jobs) -> None:
        raise ZeroDivisionError

    desk.core.saw_queue = breaks
    observer = Observer(desk.core, lambda: None)
    observer.read_jobs()
    desk.executor.reads("queue")[0].finish()
    assert observer.jobs.known(desk.now()) is not None
    assert [fault.partition(" at ")[0] for fault in desk.core.faults] == ["record: ZeroDivisionError"]


def test_no_look_is_written_as_later_than_it_was(desk: Desk) -> None:
    """Else who asks for all up to now, within the same second, hears that nothing was recorded."""
    desk.clock.wait(0.75)
    at = desk.core.wall()
    desk.look(g("a", 1))
    (line,) = [line for line in desk.lines() if line[:1].isdigit()]
    assert at - 1 < float(line.split()[0]) <= at
