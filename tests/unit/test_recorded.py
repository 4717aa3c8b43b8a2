"""The jobs that are made of counts, and what is not known of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Optional

import pytest

from elastiq.interfaces import JobGroup, Jobs, Resources
from elastiq.recording import HEADER, Recording
from elastiq.traces.job import TraceError
from elastiq.whatif.recorded import GAP_S, Looks, Recorded, Seen
from tests.unit.fakes import Surroundings
from tests.unit.values import ONE, group

AT = 1_700_000_000
DEFINED = '= 0 ["a", 2, 1500, null, null, 1]'
TWO = Resources(cpus=2, memory_mb=1500)
Made = tuple[float, float, Optional[float]]


def written(folder: Path, *lines: str, day: str = "2023-11-14") -> Looks:
    folder.mkdir(exist_ok=True)
    (folder / f"{day}.txt").write_text("\n".join(("", HEADER, *lines, "")))
    return Looks(folder)


def of_counts(folder: Path, *counts: str, since: float = 0.0, until: float = 1e12) -> tuple[list[Made], Seen]:
    """Of one group, with a look each minute; an empty text: none."""
    looks = (f"{AT + 60 * number} 0:{count}" for number, count in enumerate(counts) if count)
    found = Recorded(written(folder, DEFINED, *looks), since, until)
    return [(job.at_s, job.run_s, job.removed_after_s) for job in found], found.seen


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "queue"


# --------------------------------------------------------------------------- starts and ends


def test_a_job_arrives_starts_and_ends(folder: Path) -> None:
    jobs, seen = of_counts(folder, "0:0", "1:0", "1:0", "0:1", "0:1", "0:0")
    assert jobs == [(0.0, 120.0, None)]
    assert (seen.jobs, seen.core_s, seen.cut, seen.began, seen.ended) == (1, 240.0, 0, AT, AT + 300)
    (job,) = Recorded(Looks(folder))
    assert job.request == TWO and Recorded(Looks(folder)).began_at == AT + 60


def test_a_job_that_starts_at_once_is_seen_to_run_only(folder: Path) -> None:
    assert of_counts(folder, "0:0", "0:1", "0:0")[0] == [(0.0, 60.0, None)]


def test_fewer_wait_while_as_many_run_one_has_ended_and_the_next_begun(folder: Path) -> None:
    jobs, _ = of_counts(folder, "0:0", "3:1", "2:1", "1:1", "0:1", "0:0")
    assert jobs == [(0.0, 60.0, None)] * 4


@pytest.mark.parametrize("seed", range(20))
def test_the_time_that_all_ran_is_what_was_seen_whoever_ends_first(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    counts = [(0, 0), *((rng.randrange(6), rng.randrange(6)) for _ in range(50)), (0, 0)]
    jobs, seen = of_counts(folder, *(f"{waiting}:{running}" for waiting, running in counts))
    moments = [run for _, run, _ in jobs if run == 1.0]
    ran = sum(run for _, run, removed in jobs if removed is None) - sum(moments)
    assert ran == 60.0 * sum(running for _, running in counts)
    assert (seen.jobs, seen.cut, seen.left_waiting) == (len(jobs), 0, 0)
    assert [at for at, _, _ in jobs] == sorted(at for at, _, _ in jobs)
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in zip(counts, counts[1:])]
    assert len(jobs) == sum(waits + max(0, runs, -waits) for waits, runs in steps), "no more than the counts need"


def test_which_of_those_that_run_ends_is_drawn_and_the_same_each_time(folder: Path) -> None:
    counts = [f"0:{number}" for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 6, 4, 2, 0)]
    lengths = {tuple(run for _, run, _ in of_counts(folder, *counts)[0]) for _ in range(3)}
    assert len(lengths) == 1 and len({*lengths.pop()}) > 4


def test_a_job_that_came_and_went_between_two_looks_ran_for_a_moment(folder: Path) -> None:
    jobs, seen = of_counts(folder, "0:0", "4:1", "0:1", "0:0")
    assert sorted(run for _, run, _ in jobs) == [1.0, 1.0, 1.0, 60.0, 60.0]
    assert seen.removed == 0


def test_a_job_that_lost_its_machine_waits_again(folder: Path) -> None:
    jobs, _ = of_counts(folder, "0:0", "0:1", "1:0", "0:1", "0:0")
    assert jobs == [(0.0, 60.0, None), (60.0, 60.0, None)]


# --------------------------------------------------------------------------- removed, held, not eligible


def test_waiting_jobs_that_leave_while_none_runs_were_removed_the_latest_first(folder: Path) -> None:
    jobs, seen = of_counts(folder, "0:0", "1:0", "3:0", "1:0", "0:1", "0:1", "0:0")
    assert jobs == [(0.0, 120.0, None), *[(60.0, 120.0, 60.0)] * 2], "had they waited on, they ran as the other did"
    assert (seen.jobs, seen.removed, seen.core_s) == (3, 2, 240.0)


def test_more_than_can_have_run_one_after_another_were_removed(folder: Path) -> None:
    jobs, seen = of_counts(folder, "0:0", "500:10", "0:10", "0:0")
    assert (seen.jobs, seen.removed) == (510, 500 - 4 * 10)
    assert sum(removed is None for _, _, removed in jobs) == 50


def test_jobs_that_are_not_eligible_arrive_when_they_are(folder: Path) -> None:
    jobs, seen = of_counts(folder, "0:0", "3:0", "-:1", "-:1", "2:0", "0:2", "0:0")
    assert jobs == [(0.0, 120.0, None), (180.0, 60.0, None), (180.0, 60.0, None)]
    assert (seen.jobs, seen.removed, seen.left_waiting) == (3, 0, 0)


def test_jobs_of_which_it_is_not_said_whether_they_run_are_counted_and_left_out(folder: Path) -> None:
    jobs, seen = of_counts(folder, "0:-", "3:-", "1:-", "2:-")
    assert (jobs, seen.jobs, seen.not_told) == ([], 0, 4)


def test_a_job_of_several_machines_is_so_many_jobs_of_one_name(folder: Path) -> None:
    looks = written(folder, '= 0 ["a", 2, null, null, 1, 3]', f"{AT} 0:0:1", f"{AT + 60} 0:0:0")
    found = Recorded(looks)
    assert [(job.request, job.run_s) for job in found] == [(Resources(cpus=2, gpus=1), 60.0)] * 3
    assert len({job.name for job in found}) == 1 and all(job.name for job in found)
    assert (found.seen.jobs, found.seen.core_s) == (1, 360.0)


# --------------------------------------------------------------------------- the ends, and gaps


def test_what_ran_at_the_first_or_the_last_look_is_cut_off_and_what_waits_at_the_last_is_left_out(folder: Path) -> None:
    jobs, seen = of_counts(folder, "0:2", "1:1", "1:2", "2:2")
    assert sum(run for _, run, _ in jobs) == 300.0 and len(jobs) == 3
    assert (seen.cut, seen.left_waiting) == (3, 2)


def test_a_gap_is_no_empty_queue_and_its_length_is_no_run_time(folder: Path) -> None:
    minutes = int(GAP_S / 60) + 1
    jobs, seen = of_counts(folder, "0:0", "3:2", *[""] * minutes, "1:2", "0:2", "0:0")
    end = 60.0 * (minutes + 1)
    assert seen.gaps == [(AT + 60, AT + 60 + end)]
    assert [at for at, _, _ in jobs] == [0.0, 0.0, end, end, end]
    assert sum(run for _, run, _ in jobs) <= 2 * 60.0 + 3 * 60.0 + 2 * 1.0
    assert (seen.left_waiting, seen.cut, seen.removed) == (3, 4, 0)
    assert seen.seen_s == 60.0 * (len(("0:0", "3:2", "1:2", "0:2", "0:0")) - 2)


def test_a_short_time_without_a_look_is_none(folder: Path) -> None:
    jobs, seen = of_counts(folder, "0:0", "0:2", *[""] * (int(GAP_S / 60) - 1), "0:2", "0:0")
    assert (len(jobs), seen.gaps, seen.cut) == (2, [], 0)


def test_a_start_of_the_daemon_is_no_end_of_the_jobs(folder: Path) -> None:
    again = (HEADER, '= 0 ["b", 1, null, null, null, 1]', DEFINED.replace("= 0", "= 1"))
    lines = (DEFINED, '= 1 ["c", 1, null, null, null, 1]', f"{AT} 0:0:0", f"{AT + 60} 0:0:1 1:0:1")
    found = Recorded(written(folder, *lines, "", *again, f"{AT + 120} 1:0:1 0:0:1", f"{AT + 180} 0:0:0 1:0:0"))
    made = sorted((job.request.cpus, job.at_s, job.run_s) for job in found)
    assert made == [(1, 0.0, 60.0), (1, 60.0, 60.0), (2, 0.0, 120.0)]
    assert found.seen.cut == 0


def test_the_next_day_goes_on_in_its_own_file(folder: Path) -> None:
    written(folder, DEFINED, f"{AT} 0:0:0", f"{AT + 60} 0:1:1")
    looks = written(folder, DEFINED, f"{AT + 120} 0:0:2", f"{AT + 180} 0:0:0", day="2023-11-15")
    assert sorted((job.at_s, job.run_s) for job in Recorded(looks)) == [(0.0, 60.0), (0.0, 120.0)]


def test_only_the_time_that_is_asked_for_is_looked_at(folder: Path) -> None:
    counts = ("0:0", "0:1", "0:1", "3:2", "1:2", "0:2", "0:0")
    jobs, seen = of_counts(folder, *counts, since=AT + 150.0, until=AT + 300.0)
    assert (seen.began, seen.ended) == (AT + 150.0, AT + 300)
    started_last = 1.0
    assert sum(run for _, run, _ in jobs) == 30.0 * 1 + 60.0 * 2 + 60.0 * 2 + started_last
    with pytest.raises(TraceError, match="nothing was recorded in that time"):
        of_counts(folder, *counts, since=AT + 4000.0)


def test_a_clock_that_was_set_back_is_a_gap_if_it_was_far_and_else_stands_still(folder: Path) -> None:
    lines = (DEFINED, f"{AT} 0:0:0", f"{AT + 60} 0:0:1", f"{AT + 50} 0:0:1", f"{AT + 90} 0:0:0")
    (job,) = Recorded(written(folder, *lines))
    assert job.run_s == 30.0
    lines = (DEFINED, f"{AT} 0:0:0", f"{AT + 60} 0:0:1", f"{AT - 7200} 0:0:1", f"{AT - 7140} 0:0:0")
    found = Recorded(written(folder, *lines))
    assert [(job.at_s, job.run_s) for job in found] == [(0.0, 60.0), (7260.0, 1.0)]
    assert found.seen.cut == 2


# --------------------------------------------------------------------------- what is no record


def test_nothing_recorded_is_said(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(TraceError, match=f"{folder}: nothing is recorded yet"):
            Recorded(Looks(folder))
        folder.mkdir(exist_ok=True)


@pytest.mark.parametrize("cut", range(1, len(f"{AT + 60} 0:12:345")))
def test_a_line_that_was_cut_off_is_never_taken_for_a_whole_one(folder: Path, cut: int) -> None:
    """By a kill or a disk that was full; whether or not a daemon went on after it."""
    whole = f"\n{HEADER}\n{DEFINED}\n{AT} 0:1:0\n"
    folder.mkdir()
    file = folder / "2023-11-14.txt"
    file.write_text(whole + f"{AT + 60} 0:12:345"[:-cut])
    assert Recorded(Looks(folder)).seen.ended == AT
    file.write_text(file.read_text() + f"\n{HEADER}\n{DEFINED}\n{AT + 120} 0:2:0\n")
    looks = Looks(folder)
    found = Recorded(looks)
    assert (found.seen.ended, found.seen.left_waiting, found.seen.jobs) == (AT + 120, 2, 0)
    assert looks.damaged == 0


@pytest.mark.parametrize(
    "line",
    [
        *("nonsense", f"{AT + 30} 0:1", f"{AT + 30} 7:1:1", f"{AT + 30} 0:x:1", "= 1 {", '= 1 ["a", 1]', "= x []"),
        *('= 1 ["a", "many", null, null, null, 1]', '= 1 ["a", -1, null, null, null, 1]', "\0\0\0\0", "ä 0:1:1"),
    ],
)
def test_a_damaged_line_is_counted_and_left_out(folder: Path, line: str) -> None:
    looks = written(folder, DEFINED, f"{AT} 0:1:0", line.encode("ascii", "replace").decode(), f"{AT + 60} 0:0:1")
    found = Recorded(looks)
    assert (looks.damaged, found.seen.jobs, found.seen.ended) == (1, 1, AT + 60)


def test_what_a_newer_elastiq_wrote_is_left_out_and_named_and_what_this_one_wrote_after_it_is_read(
    folder: Path,
) -> None:
    """A downgrade, then an upgrade: of the file of the day both have written parts."""
    lines = (f"{AT} 0:0:0", f"{AT + 60} 0:1:0", "", "elastiq queue 2", "{something: else}", f"{AT + 90} 0:9:9")
    looks = written(folder, DEFINED, *lines, "", HEADER, DEFINED, f"{AT + 120} 0:0:1", f"{AT + 180} 0:0:0")
    found = Recorded(looks)
    assert [(job.at_s, job.run_s) for job in found] == [(0.0, 60.0)]
    assert (looks.newer, looks.damaged) == (["2023-11-14.txt"], 0)


def test_a_file_of_another_kind_is_no_record(folder: Path) -> None:
    written(folder, DEFINED, f"{AT} 0:1:0")
    (folder / "2023-11-15.txt").write_text(f"mine\n{AT} 0:2:2\n")
    (folder / "notes").write_text(f"\n{HEADER}\n")
    assert Recorded(Looks(folder)).seen.left_waiting == 1


# --------------------------------------------------------------------------- both halves


def test_what_is_recorded_is_read_back(folder: Path) -> None:
    """Across a look that failed to be written, groups that come and go, and a restart."""
    rig = Surroundings()
    recording = Recording(rig.core, folder)

    def look(*groups: JobGroup) -> None:
        recording.take(Jobs(groups))
        rig.clock.wait(60.0)

    look(group("a", 3, running=0), group("b", 0, running=1, nodes=2))
    look(group("a", 1, running=2))
    recording = Recording(rig.core, folder)
    look(group("a", 0, running=2))
    look(group("b", 1, running=0, nodes=2))
    look(group("b", 0, running=1, nodes=2))
    look()
    found = Recorded(Looks(folder))
    assert (found.seen.jobs, found.seen.cut) == (5, 1)
    assert found.seen.core_s == 60.0 * (2 + 2 + 2 + 2)
    assert {job.request for job in found} == {ONE} and len(list(found)) == 3 + 2 * 2
