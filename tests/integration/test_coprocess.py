"""Children that stay and answer requests: bounded in time and output, and gone when we are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq import command, coprocess
from elastiq.command import CommandError, CommandInterrupted, CommandNotFound, CommandTimeout, CommandTooMuchOutput
from elastiq.coprocess import Coprocess
from tests.waiting import PATIENCE_S, once, until

# Answers a line of JSON: what it is asked to do, then its process id and what it was given.
PROGRAM = """
import json, os, subprocess, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if "begun" in request:
        open(request["begun"], "w").close()
    if "meet" in request:
        open(os.path.join(request["meet"], str(os.getpid())), "w").close()
        while len(os.listdir(request["meet"])) < 4:
            time.sleep(0.01)
    if "grandchild" in request:
        print(json.dumps(subprocess.Popen(["sleep", "300"]).pid), file=open(request["grandchild"], "w"), flush=True)
    time.sleep(request.get("sleep", 0))
    if "exit" in request:
        sys.exit(request["exit"])
    while "flood" in request:
        os.write(request["flood"], b"x" * 100_000)
    print(json.dumps({"pid": os.getpid(), **request}), flush=True)
"""
ARGV = (sys.executable, "-I", "-S", "-c", PROGRAM)


@pytest.fixture
def child() -> Iterator[Coprocess]:
    command.stopping.clear()
    made = Coprocess(ARGV)
    yield made
    command.stopping.clear()
    made.close()


def ask(child: Coprocess, timeout_s: float = PATIENCE_S, **request: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(child.ask(json.dumps(request).encode(), timeout_s))
    return answer


def test_when_commands_are_stopped_those_that_wait_for_requests_end_at_once(child: Coprocess) -> None:
    """Left over when we end, systemd would kill them, and say so in the journal."""
    pid = ask(child)["pid"]
    command.kill_all()
    assert not Path(f"/proc/{pid}").exists(), "it is reaped, too"
    with pytest.raises(CommandInterrupted):
        ask(child)
    command.stopping.clear()
    assert ask(child)["pid"] != pid


def test_one_that_answers_when_commands_are_stopped_does_not_stay(
    child: Coprocess, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = coprocess._Child.answer

    def last_answer(self: coprocess._Child, *args: Any) -> bytes:
        said = answer(self, *args)
        command.kill_all()
        return said

    monkeypatch.setattr(coprocess._Child, "answer", last_answer)
    assert not alive(ask(child)["pid"])


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_one_child_answers_one_request_after_the_other(child: Coprocess) -> None:
    first, second = ask(child, x=1), ask(child, x=2)
    assert (first["x"], second["x"]) == (1, 2)
    assert first["pid"] == second["pid"] != os.getpid()


def test_requests_at_the_same_time_do_not_wait_for_each_other_and_one_child_is_kept(
    child: Coprocess, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(4) as threads:  # each is answered once all four are there
        pids = {answer["pid"] for answer in threads.map(lambda _: ask(child, meet=str(tmp_path)), range(4))}
    assert len(pids) == 4
    assert [alive(pid) for pid in pids].count(True) == 1
    assert ask(child)["pid"] in pids


def test_long_requests_and_long_answers_pass(child: Coprocess) -> None:
    assert ask(child, x="y" * 5_000_000)["x"] == "y" * 5_000_000


def test_a_child_that_does_not_answer_in_time_is_killed_with_its_group_and_the_next_request_is_served(
    child: Coprocess, tmp_path: Path
) -> None:
    pid = ask(child)["pid"]
    with pytest.raises(CommandTimeout, match=r"did not answer within 2 s, killed"):
        ask(child, timeout_s=2, sleep=300, grandchild=str(tmp_path / "pid"))
    assert not alive(pid)
    grandchild = int((tmp_path / "pid").read_text())
    until(lambda: not alive(grandchild), "its child goes, too")
    assert ask(child)["pid"] != pid


def test_a_stopped_child_costs_one_request_its_time(child: Coprocess) -> None:
    pid = ask(child)["pid"]
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(CommandTimeout):
        ask(child, timeout_s=0.5, x="y" * 1_000_000)  # more than a pipe holds: the sending stands, too
    assert not alive(pid)
    assert ask(child)["pid"] != pid


def test_a_child_that_is_killed_in_the_middle_fails_its_request_and_the_next_is_served(
    child: Coprocess, tmp_path: Path
) -> None:
    pid, begun = ask(child)["pid"], tmp_path / "begun"
    once(begun.exists, lambda: os.kill(pid, signal.SIGKILL))
    with pytest.raises(CommandError, match=r"ended with signal 9 \(Killed\)"):
        ask(child, sleep=300, begun=str(begun))
    assert ask(child)["pid"] != pid


def test_a_child_that_was_killed_while_it_had_nothing_to_do_is_replaced(child: Coprocess) -> None:
    pid = ask(child)["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "it goes")
    assert ask(child)["pid"] != pid


def test_a_child_that_gives_up_is_told_with_its_last_words(child: Coprocess) -> None:
    with pytest.raises(CommandError, match="ended with exit code 1: no more of this"):
        ask(child, exit="first line\nno more of this")


def test_a_child_that_floods_is_killed(child: Coprocess) -> None:
    small = Coprocess(ARGV, max_output=1_000_000)
    with pytest.raises(CommandTooMuchOutput, match="more than 1,000,000 bytes"):
        ask(small, flood=1)
    with pytest.raises(CommandError, match="ended with"):  # its stderr goes to memory, which has a limit
        ask(child, flood=2)


def test_a_child_that_served_its_time_makes_room(child: Coprocess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coprocess, "REQUESTS_AT_MOST", 2)
    pids = [ask(child)["pid"] for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]
    assert not alive(pids[0])


def test_commands_being_stopped_stops_children_too(child: Coprocess, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    once(begun.exists, command.kill_all)
    with pytest.raises(CommandInterrupted, match="being stopped"):
        ask(child, sleep=300, begun=str(begun))
    with pytest.raises(CommandInterrupted, match="not started"):
        ask(child)


@pytest.mark.parametrize("path", ["/nonexistent/program", "/etc/passwd"])
def test_a_program_that_cannot_be_executed_is_named(path: str) -> None:
    with pytest.raises(CommandNotFound, match=path):
        Coprocess((path,)).ask(b"{}", 5)


def test_a_child_ends_when_we_are_killed() -> None:
    ours = (
        "import sys, time\n"
        "from elastiq.coprocess import Coprocess\n"
        "made = Coprocess(sys.argv[1:])\n"
        "print(made.ask(b'{}', 90).decode(), flush=True)\n"
        "time.sleep(300)\n"
    )
    with subprocess.Popen([sys.executable, "-c", ours, *ARGV], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = json.loads(parent.stdout.readline())["pid"]
        assert alive(pid)
        parent.kill()
    until(lambda: not alive(pid), "the child goes")
