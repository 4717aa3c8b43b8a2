"""External commands, with real children that misbehave in every way that was seen in the field."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Iterator

import pytest

from elastiq import command
from tests.waiting import PATIENCE_S, until

PYTHON = sys.executable
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def commands_may_run() -> Iterator[None]:
    command.stopping.clear()
    yield
    command.stopping.clear()


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found.update((task / "children").read_text().split())
    return found


def pid_in(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().strip() != "", f"pid in {path}")
    return int(path.read_text())


def test_an_environment_that_is_given_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    code = "import os; print(sorted(os.environ.items()))"
    given = command.run([PYTHON, "-I", "-c", code], timeout_s=30, env={"LC_ALL": "C.UTF-8", "ELASTIQ_NODE": "i-1"})
    assert given.text.strip() == "[('ELASTIQ_NODE', 'i-1'), ('LC_ALL', 'C.UTF-8')]"
    assert "hidden" in command.run([PYTHON, "-I", "-c", code], timeout_s=30).text


def test_what_went_wrong_is_told_apart_from_the_command() -> None:
    with pytest.raises(command.CommandNotFound) as caught:
        command.run(["/nonexistent/program", "an argument"], timeout_s=10)
    assert caught.value.what == "cannot be executed: No such file or directory"


def test_output_error_and_exit_code_come_apart() -> None:
    result = command.run(["sh", "-c", "printf out; printf err >&2; exit 3"], timeout_s=10)
    assert (result.stdout, result.stderr, result.returncode) == (b"out", b"err", 3)


def test_arguments_reach_the_child_as_they_are_without_a_shell() -> None:
    tricky = ["a b", "$HOME", "`id`", "; exit 1", "", 'quote"', "*"]
    shown = command.run([PYTHON, "-c", "import sys; print(sys.argv[1:])", *tricky], timeout_s=10)
    assert shown.text.strip() == repr(tricky)


def test_input_is_given_and_else_empty() -> None:
    assert command.run(["cat"], timeout_s=10, stdin=b"x" * 1_000_000).stdout == b"x" * 1_000_000
    assert command.run(["cat"], timeout_s=10).stdout == b""


def test_input_that_nobody_reads_holds_nothing() -> None:
    assert command.run(["true"], timeout_s=10, stdin=b"x" * 1_000_000).returncode == 0


def test_a_child_that_is_ended_by_a_signal_has_a_negative_code() -> None:
    ended = command.run(["sh", "-c", "kill -TERM $$"], timeout_s=10)
    assert (ended.returncode, ended.complaint) == (-15, "signal 15 (Terminated)")
    assert command.run(["sh", "-c", "kill -40 $$"], timeout_s=10).complaint.startswith("signal 40 (")


@pytest.mark.parametrize("name", ["no-such-command-elastiq", "/no/such/file", "/etc/passwd/x", "/etc/passwd", "/"])
def test_what_cannot_be_executed_is_not_found(name: str) -> None:
    before = open_files()
    with pytest.raises(command.CommandNotFound, match="cannot be executed") as caught:
        command.run([name, "argument"], timeout_s=10)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(name)
    assert open_files() <= before


def test_a_hung_child_is_killed_at_the_deadline() -> None:
    began = time.monotonic()
    with pytest.raises(command.CommandTimeout, match=r"sleep 300: did not end within 0\.3 s, killed"):
        command.run(["sleep", "300"], timeout_s=0.3)
    assert 0.25 < time.monotonic() - began < PATIENCE_S, "not at the child's own end"


def test_a_child_that_ignores_sigterm_is_killed_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(command.CommandTimeout):
        command.run(["sh", "-c", f"trap '' TERM HUP INT; echo $$ > {pid}; while :; do sleep 1; done"], timeout_s=2)
    until(lambda: not alive(pid_in(pid)), "the child is gone")


def test_a_child_that_closed_its_pipes_still_has_a_deadline() -> None:
    with pytest.raises(command.CommandTimeout):
        command.run(["sh", "-c", "exec >&- 2>&-; exec sleep 300"], timeout_s=0.5)


def test_a_forked_sleeper_that_holds_the_pipe_does_not_hold_us(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    result = command.run(["sh", "-c", f"sleep 300 & echo $! > {pid}; echo x"], timeout_s=200)
    assert result.stdout == b"x\n" and result.returncode == 0
    assert time.monotonic() - began < PATIENCE_S, "not at the sleeper's end"
    until(lambda: not alive(pid_in(pid)), "the sleeper is gone")


def test_a_time_out_ends_the_whole_group(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(command.CommandTimeout):
        command.run(["sh", "-c", f"sleep 300 & echo $! > {pid}; sleep 300"], timeout_s=2)
    until(lambda: not alive(pid_in(pid)), "the grandchild is gone")


@pytest.mark.parametrize("child_waits", [False, True])
def test_a_grandchild_in_a_session_of_its_own_that_holds_the_pipe_is_abandoned(
    tmp_path: Path, child_waits: bool
) -> None:
    pid = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {pid}; exec sleep 300' & echo x; until [ -s {pid} ]; do sleep 0.01; done; "
    before = open_files()
    began = time.monotonic()
    try:
        if child_waits:
            with pytest.raises(command.CommandTimeout):
                command.run(["sh", "-c", script + "sleep 300"], timeout_s=2)
        else:
            assert command.run(["sh", "-c", script], timeout_s=200).stdout == b"x\n"
        assert time.monotonic() - began < PATIENCE_S, "not at the grandchild's end"
        assert alive(pid_in(pid)), "it escaped the group: this test must show that it does not hold us"
        assert open_files() <= before
    finally:
        os.kill(pid_in(pid), 9)


MEASURE = """
import resource, sys
from elastiq import command
argv = [sys.executable, "-c", sys.argv[1]]
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    command.run(argv, timeout_s=60)
    print("no error")
except command.CommandTooMuchOutput as error:
    print("too much")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024)
"""


@pytest.mark.parametrize("stream", [1, 2])
def test_two_hundred_megabytes_from_a_child_do_not_come_in_here(stream: int) -> None:
    flood = f"import os\nfor _ in range(200): os.write({stream}, b'x' * 1000000)"
    shown = subprocess.run(
        [PYTHON, "-c", MEASURE, flood], check=True, capture_output=True, text=True, timeout=90, cwd=ROOT
    )
    verdict, grown_mb = shown.stdout.split("\n")[:2]
    assert verdict == "too much"
    assert int(grown_mb) < 40, "the bound is 16 MB, and the list that grows is copied once"


def test_a_flood_without_end_is_ended_soon() -> None:
    with pytest.raises(command.CommandTooMuchOutput, match="wrote more than 1,000,000 bytes"):
        command.run(["yes"], timeout_s=60, max_output=1_000_000)


def test_output_up_to_the_bound_comes_whole() -> None:
    argv = [PYTHON, "-c", "import sys; sys.stdout.write('x' * 3000000); sys.stderr.write('y' * 3000000)"]
    result = command.run(argv, timeout_s=30, max_output=3_000_000)
    assert (result.stdout, result.stderr) == (b"x" * 3_000_000, b"y" * 3_000_000)


def test_rows_that_arrive_slowly_come_whole_or_are_late() -> None:
    slow = ["sh", "-c", "for i in 1 2 3 4 5; do echo row $i; sleep 0.1; done"]
    assert command.run(slow, timeout_s=30).text.count("row") == 5
    with pytest.raises(command.CommandTimeout):
        command.run(slow, timeout_s=0.25)


def test_kill_all_ends_commands_in_flight_and_lets_none_start_until_reset(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def one(number: int) -> None:
        try:
            command.run(["sh", "-c", f"trap '' TERM; echo $$ > {tmp_path}/{number}; sleep 300"], timeout_s=200)
        except command.CommandError as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    pids = [pid_in(tmp_path / str(number)) for number in range(4)]
    command.kill_all()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [type(error) for error in errors] == [command.CommandInterrupted] * 4
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(command.CommandInterrupted, match="not started"):
        command.run(["true"], timeout_s=5)
    command.stopping.clear()
    assert command.run(["true"], timeout_s=5).returncode == 0


def test_kill_all_in_any_moment_leaves_no_command_running(tmp_path: Path) -> None:
    marker = f"300.{os.getpid()}"

    def sleepers() -> list[str]:
        shown = subprocess.run(["pgrep", "-f", f"^sleep {marker}"], capture_output=True, text=True, check=False)
        return shown.stdout.split()

    def loop() -> None:
        while True:
            try:
                command.run(["sleep", marker], timeout_s=60)
            except command.CommandInterrupted as error:
                if "not started" in str(error):
                    return

    for delay in (0.0, 0.001, 0.003, 0.01):
        command.stopping.clear()
        threads = [threading.Thread(target=loop) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(delay)
        command.kill_all()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert sleepers() == []


def test_many_threads_run_commands_at_once_without_mixing_them_or_leaking() -> None:
    command.run(["true"], timeout_s=10)
    others = children()  # of tests before, in the same process
    before = open_files()
    wrong: list[str] = []

    def one(number: int) -> None:
        for turn in range(10):
            text = command.run(["sh", "-c", f"echo {number} {turn}; echo {number} >&2"], timeout_s=30)
            if (text.stdout, text.stderr) != (f"{number} {turn}\n".encode(), f"{number}\n".encode()):
                wrong.append(repr(text))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert wrong == []
    assert open_files() <= before
    assert children() <= others, "every child was reaped"


def test_no_zombie_is_left_by_a_command_that_was_killed() -> None:
    others = children()  # of tests before, in the same process
    with pytest.raises(command.CommandTimeout):
        command.run(["sleep", "300"], timeout_s=0.1)
    assert children() <= others


def test_the_text_of_an_error_is_one_short_line() -> None:
    argv = ["sleep", "300", "line\nbreak", "x" * 1000]
    error = command.CommandTimeout(argv, "late")
    assert error.argv == tuple(argv)
    assert len(str(error)) < 200
    assert "\n" not in str(error)


def test_a_complaint_is_one_printable_line() -> None:
    said = command.run(["sh", "-c", r"printf '\n-- Failed:\n\033[31mred\tand \377 bytes\n' >&2"], timeout_s=10)
    assert said.complaint == "-- Failed: [31mred and \ufffd bytes"
    assert command.run(["sh", "-c", "exit 4"], timeout_s=10).complaint == "exit code 4"
