"""Opening a trace: what a file is, is seen from what it holds; what cannot be read is said on one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastiq.interfaces import Resources
from elastiq.traces.job import TraceError
from elastiq.traces.opening import FORMATS, open_trace
from elastiq.traces.order import Sorted
from elastiq.traces.rows import Row
from tests.unit.traces import opened, read

TABLE = "submit,run_s,cpus\n" + "".join(f"{number},60,{1 + number % 4}\n" for number in range(1000))


# --------------------------------------------------------------------------- what a file is


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, lambda data: gzip.compress(data) * 2])
@pytest.mark.parametrize("name", ["log.swf", "log.gz", "jobs"])
def test_a_packed_trace_is_read_whatever_its_name(tmp_path: Path, pack: Callable[[bytes], bytes], name: str) -> None:
    (tmp_path / name).write_bytes(pack(TABLE.encode()))
    trace = open_trace(tmp_path / name)
    assert trace.format == "csv"
    assert len(list(trace)) == 1000 + trace.lines.jobs - 1000 >= 1000


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_trace_that_was_cut_is_said_so(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    chance = random.Random(1)
    text = "submit,run_s\n" + "".join(f"{number},{chance.random()}\n" for number in range(5_000))
    path = tmp_path / "jobs.gz"
    path.write_bytes(pack(text.encode())[:-2000])
    with pytest.raises(TraceError, match=r"^[^\n]*jobs\.gz: is damaged: [^\n]+$"):
        list(open_trace(path))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_trace_with_a_changed_byte_is_said_so(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = bytearray(pack(TABLE.encode()))
    data[len(data) // 2] ^= 0xFF
    path = tmp_path / "jobs"
    path.write_bytes(bytes(data))
    with pytest.raises(TraceError, match="jobs: is damaged: "):
        list(open_trace(path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_trace_may_be_in_the_encodings_that_tools_write(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "jobs").write_bytes(TABLE.replace("\n", "\r\n").encode(encoding))
    assert len(list(open_trace(tmp_path / "jobs"))) == 1000


def test_what_is_no_text_stays_visible(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_bytes(b"id,run_s\n\xff\xfe\xe9,1\n")
    (job,) = open_trace(tmp_path / "jobs")
    assert job.name == "\\xff\\xfe\\xe9"


SAID: list[tuple[str, Callable[[Path], Any], str]] = [
    ("missing", lambda path: None, "No such file or directory"),
    ("directory", lambda path: path.mkdir(), "Is a directory"),
    ("empty", lambda path: path.write_text(""), "is empty"),
    ("blank", lambda path: path.write_text(" \n\n  \n"), "is empty"),
    ("program", lambda path: path.write_bytes(b"\x7fELF\x02\x01\x01\x00" + bytes(5000)), "is a binary file"),
    ("notes", lambda path: path.write_text("hello\nworld\n"), "is no log of jobs that elastiq knows"),
    ("zstd", lambda path: path.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 99), "is packed: zstdcat "),
    ("zip", lambda path: path.write_bytes(b"PK\x03\x04" + b"x" * 99), "is packed: unzip -p "),
    ("dangling", lambda path: path.symlink_to(path.parent / "nowhere"), "No such file or directory"),
    ("empty gzip", lambda path: path.write_bytes(gzip.compress(b"")), "is empty"),
]


@pytest.mark.parametrize(("name", "make", "message"), SAID, ids=[name for name, _, _ in SAID])
@pytest.mark.parametrize("format", [None, "swf"])
def test_what_cannot_be_read_is_said_on_one_line(
    tmp_path: Path, name: str, make: Callable[[Path], Any], message: str, format: Any
) -> None:
    path = tmp_path / name
    make(path)
    with pytest.raises(TraceError) as told:
        list(open_trace(path, format))
    text = str(told.value)
    assert text.startswith(f"{path}: ")
    assert message in text or (format is not None and "is no log in the Standard Workload Format" in text)
    assert "\n" not in text


def test_a_name_that_cannot_be_printed_is_said_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"^'[^\n]*a\\nb': No such file or directory$"):
        open_trace(tmp_path / "a\nb")


def test_a_line_longer_than_any_memory_costs_no_more_than_itself(tmp_path: Path) -> None:
    jobs, lines = read(tmp_path, "run_s\n1\n" + "x" * 9_000_000 + "\n2\n")
    assert [job.run_s for job in jobs] == [1.0, 2.0]
    assert lines.bad_lines == [3]


@pytest.mark.skipif(os.geteuid() == 0, reason="needs an ordinary user, root may read everything")
def test_a_file_that_may_not_be_read_is_said_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text(TABLE)
    (tmp_path / "jobs").chmod(0)
    with pytest.raises(TraceError, match=r"jobs: Permission denied$"):
        open_trace(tmp_path / "jobs")


def test_a_wrong_format_is_said_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"is no history of HTCondor: line 1: .* \(it looks like csv\)$"):
        read(tmp_path, TABLE, "condor")
    with pytest.raises(TraceError, match="nothing is no format of traces: condor, csv, gridengine, sacct, swf, torque"):
        read(tmp_path, TABLE, "nothing")


# --------------------------------------------------------------------------- from where


def test_standard_input_is_read_as_often_as_one_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(TABLE.encode()))))
    trace = open_trace("-")
    assert list(trace) == list(trace)
    assert trace.lines.jobs == 1000
    first, second = iter(trace), iter(trace)
    assert next(first) == next(second)


def test_a_problem_of_standard_input_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"hello\n")))
    with pytest.raises(TraceError, match=r"^standard input: is no log of jobs"):
        open_trace("-")


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(TABLE), daemon=True)
    writer.start()
    trace = open_trace(pipe)
    writer.join(30)
    assert len(list(trace)) == len(list(trace)) == 1000


# --------------------------------------------------------------------------- order, parts, progress


def test_a_trace_is_read_as_often_as_one_likes(tmp_path: Path) -> None:
    trace = opened(tmp_path, TABLE + "broken\n")
    assert list(trace) == list(trace)
    assert (trace.lines.jobs, trace.lines.bad) == (1000, 1)


def test_how_much_was_given_grows_to_the_whole(tmp_path: Path) -> None:
    trace = opened(tmp_path, TABLE)
    assert trace.read_part() == 0.0
    for _pass in range(2):
        parts = [trace.read_part() for _job in trace]
        assert parts == sorted(parts)
        assert (parts[0], parts[-1]) == (0.001, 1.0)


def test_a_file_that_changed_between_two_passes_is_put_in_order_again(tmp_path: Path) -> None:
    trace = opened(tmp_path, "submit,run_s\n1,1\n2,2\n")
    assert [job.run_s for job in trace] == [1.0, 2.0]
    (tmp_path / "jobs").write_text("submit,run_s\n5,5\n4,4\n6,6\n")
    assert [job.run_s for job in trace] == [4.0, 5.0, 6.0]


def rows(times: list[float]) -> list[Row]:
    return [Row(at_s, float(number), 1.0, None, after=("x",)) for number, at_s in enumerate(times)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 50).map(float), max_size=60), st.integers(1, 9))
def test_rows_are_put_in_order_however_many_lots_they_take(times: list[float], lot: int) -> None:
    given_rows = rows(times)
    found = Sorted(iter(given_rows), "jobs", lot)
    assert (found.total, found.was_so) == (len(times), times == sorted(times))
    assert list(found) == sorted(given_rows, key=lambda row: row.submit_s)  # equal ones as they came


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stream = iter(Sorted(iter(rows([3.0, 1.0, 2.0] * 100)), "jobs", 10))
    assert next(stream).submit_s == 1.0
    assert list(tmp_path.iterdir()) == []


def test_no_room_for_the_order_is_said_with_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(TraceError, match=r"^jobs: its jobs cannot be put in order in .*nowhere: No such file .*TMPDIR"):
        Sorted(iter(rows([3.0, 1.0, 2.0] * 100)), "jobs", 10)


def test_parts_of_a_split_job_share_all_of_it(tmp_path: Path) -> None:
    text = "id,run_s,cpus,memory_mb,disk_mb,gpus\na,60,10,1000,500,3\nb,60,4,,,\n"
    jobs, lines = read(tmp_path, text, split_at=4)
    assert [job.name for job in jobs] == ["a", "a", "a", "b"]
    assert [job.request.cpus for job in jobs] == [4, 4, 2, 4]
    assert [job.request.gpus for job in jobs] == [1, 1, 1, None]
    assert sum(job.request.memory_mb or 0 for job in jobs) == pytest.approx(1000)
    assert sum(job.request.disk_mb or 0 for job in jobs) == pytest.approx(500)
    assert lines.jobs == 4
    with pytest.raises(TraceError, match="more than 0 cpus"):
        read(tmp_path, text, split_at=0)


def test_jobs_of_one_shape_share_it(tmp_path: Path) -> None:
    jobs, _lines = read(tmp_path, TABLE)
    assert len({id(job.request) for job in jobs}) == 4
    assert {job.request for job in jobs} == {Resources(cpus=number) for number in (1, 2, 3, 4)}


MEASURE = """
import resource, sys
from elastiq.traces import open_trace, order
order.LOT = 2000
print(sum(1 for job in open_trace(sys.argv[1])), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    """What a job leaves behind would show as 50,000 times it: a TraceJob alone takes 300 bytes."""
    used = []
    for jobs in (10_000, 60_000):
        path = tmp_path / f"{jobs}.csv"
        with open(path, "w") as file:
            file.write("id,submit,run_s,cpus\n")
            file.writelines(f"{number},{(number * 7919) % jobs},60,4\n" for number in range(jobs))
        done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
        given_jobs, kilobytes = map(int, done.stdout.split())
        assert given_jobs == jobs
        used.append(kilobytes)
    assert used[1] - used[0] < 4_000


# --------------------------------------------------------------------------- garbage

LIKELY = st.sampled_from([
    "1 2 3 4 5 6 7 8 9 10 11", "JobID|Submit|Elapsed|State", "1|2024-01-01T00:00:00|1:00|COMPLETED", "{", "}", "[",
    '"QDate": 5,', "QDate = 5", "*** Offset = 0", '{"job_number": 1, "submission_time": 1e400, "failed": []}', "]",
    "a:b:c:d:e:1:g:h:1:2:3:0:0:1" + ":0" * 20 + ":1:0:0:0:0::0:NONE:0", "12/31/2024 23:59:60;E;1.s;ctime=1 start=1",
    '04/01/2024 00:00:00;E;1.s;ctime=1 start=2 end=9 Resource_List.nodes=0:ppn=4 Resource_List.mem=1z x="', "A = A + A",
    "9" * 400 + ",1", "run_s,at_s", "nan,1", "1,inf", "RequestMemory = max(1, RequestMemory)", "JobStatus = 4",
    "RequestCpus = ((((1)))) / 0", '"1,2', "1|Unknown|0:0:0:0|RUNNING",
])  # fmt: skip
GARBAGE = st.lists(st.one_of(LIKELY, st.text(max_size=40)), max_size=12).map("\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.sampled_from([None, *FORMATS]), GARBAGE)
def test_garbage_raises_nothing_but_that_it_is_no_trace(tmp_path: Path, format: Any, text: str) -> None:
    path = tmp_path / "jobs"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        trace = open_trace(path, format)
        jobs = list(trace)
    except TraceError as exc:
        assert "\n" not in str(exc)
        return
    lines = trace.lines
    assert len(jobs) == lines.jobs > 0
    assert all(left.at_s <= right.at_s for left, right in zip(jobs, jobs[1:]))
    assert len(lines.bad_lines) == min(lines.bad, 5)


# --------------------------------------------------------------------------- what has no end


class Endless(io.RawIOBase):
    """Gives the same bytes for ever; too many of them fail the test."""

    def __init__(self, data: bytes) -> None:
        self.data, self.given = data, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.given += len(buffer)
        assert self.given < 1_000_000, "it reads on and on"
        buffer[:] = (self.data * (len(buffer) // len(self.data) + 1))[: len(buffer)]
        return len(buffer)


@pytest.mark.parametrize("data", [b"\0", b"\0\xff\x01", b"hello\n"])
def test_what_has_no_end_and_is_no_trace_is_refused_by_its_beginning(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(Endless(data))))
    with pytest.raises(TraceError, match=r"^standard input: is (a binary file|no log of jobs)"):
        open_trace("-")


def test_a_device_is_refused_at_once() -> None:
    for device in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(TraceError, match=rf"^{device}: is a binary file and no trace$"):
            open_trace(device)
    with pytest.raises(TraceError, match=r"^/dev/null: is empty$"):
        open_trace("/dev/null")


BINARY = {
    "zeros": bytes(1 << 17),
    "an image": bytes(1 << 15) + b"CD001" + b" " * 500 + bytes(1 << 17),
    "noise": random.Random(1).getrandbits(8 << 17).to_bytes(1 << 17, "big"),
}


@pytest.mark.parametrize("format", [None, *FORMATS])
@pytest.mark.parametrize("what", BINARY)
def test_what_is_binary_is_refused_by_its_beginning_whatever_format_is_named(
    what: str, format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").write_bytes(BINARY[what])
    with pytest.raises(TraceError, match=r"disk: is a binary file and no trace$"):
        open_trace(tmp_path / "disk", format)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(Endless(BINARY[what]))))
    with pytest.raises(TraceError, match=r"^standard input: is a binary file and no trace$"):
        open_trace("-", format)


def test_a_log_with_the_zeros_of_a_power_cut_is_read(tmp_path: Path) -> None:
    for format in (None, "csv"):
        jobs, lines = read(tmp_path, TABLE + "\0" * 4096 + "\n" + TABLE[18:], format)
        assert (len(jobs), lines.bad, lines.bad_lines) == (2000, 1, [1002])


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: data, lambda data: data.decode().encode("utf-16")])
def test_what_comes_through_a_pipe_is_read_to_its_end(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """It is longer than what a format is recognised by."""
    table = "submit,run_s\n" + "".join(f"{number},60\n" for number in range(30_000))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(pack(table.encode())), daemon=True)
    writer.start()
    trace = open_trace(pipe)
    writer.join(30)
    assert sum(1 for _ in trace) == sum(1 for _ in trace) == 30_000
