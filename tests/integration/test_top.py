"""elastiqctl top in a real terminal, of a daemon that lives."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.integration.test_elastiqctl import CLUSTER, ROOT, Head
from tests.waiting import PATIENCE_S, until

ENTER, LEAVE = "\033[?1049h", "\033[?25h\033[?1049l"


class Screen:
    """A terminal with elastiqctl top in it."""

    def __init__(self, head: Head, *words: str, lines: int = 24, columns: int = 80, **env: str) -> None:
        self.terminal, its_end = pty.openpty()
        self.resize(lines, columns)
        self.before = termios.tcgetattr(its_end)
        argv = [sys.executable, "-m", "elastiq", *head.arguments(), "top", *words]
        environment = head.environment(TERM="xterm", **env)
        for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES"):
            if name not in env:
                environment.pop(name, None)
        options: dict[str, Any] = {"stdin": its_end, "stdout": its_end, "stderr": subprocess.PIPE, "text": True}
        options |= {"start_new_session": True, "preexec_fn": _take_terminal}
        self.process = subprocess.Popen(argv, env=environment, cwd=ROOT, **options)
        self.its_end = its_end
        self.seen = ""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, wait_s: float = 0.1) -> str:
        """What was written since, if there is any in time."""
        new = ""
        with contextlib.suppress(OSError):
            while select.select([self.terminal], [], [], wait_s)[0]:
                new += os.read(self.terminal, 65_536).decode("utf-8", "replace")
                wait_s = 0.02
        self.seen += new
        return new

    def until(self, text: str, within_s: float = PATIENCE_S) -> str:
        """The frame that shows it first."""
        end, frames = time.monotonic() + within_s, ""
        while text not in frames:
            assert time.monotonic() < end and self.process.poll() in (None, 0), (text, frames, self.seen)
            frames += self.read()
        return re.split(r"\033\[H", frames)[-1]

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def ended(self) -> int:
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < end
        self.read()
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        _, err = self.process.communicate()
        os.close(self.terminal)
        os.close(self.its_end)
        assert "Traceback" not in err


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """With a daemon that many may look at."""
    head = Head(tmp_path_factory.mktemp("top"))
    assert head.ctl("start").returncode == 0
    until(lambda: head.status()["queue"]["known"])
    yield head
    head.kill()


@contextlib.contextmanager
def top(head: Head, *words: str, **options: Any) -> Iterator[Screen]:
    screen = Screen(head, *words, **options)
    try:
        yield screen
    finally:
        screen.close()


def test_it_shows_the_status_goes_on_by_itself_and_leaves_the_terminal_as_it_was(head: Head) -> None:
    with top(head, "--interval", "0.2") as screen:
        frame = screen.until("q quit")
        assert screen.seen.startswith(ENTER) and f"cluster {CLUSTER}" in frame and "0 waiting" in frame
        for _ in range(3):
            screen.until(f"cluster {CLUSTER}")
        screen.type("q")
        assert screen.ended() == 0
        assert screen.seen.endswith(LEAVE)
        assert termios.tcgetattr(screen.its_end) == screen.before


def test_no_frame_is_blank_in_between_or_larger_than_the_terminal(head: Head) -> None:
    with top(head, "--interval", "0.1", "-n", "5", lines=12, columns=38) as screen:
        assert screen.ended() == 0
    frames = screen.seen.partition("\033[2J")[2].removesuffix(LEAVE).split("\033[H")[1:]
    assert len(frames) == 5 and "\033[2J" not in "".join(frames), "never wiped, only written over"
    for frame in frames:
        lines = re.sub(r"\033\[[?\d;]*[A-Za-z]", "", frame).split("\r\n")
        assert len(lines) <= 12 and all(len(line.strip("\r")) <= 38 for line in lines)


def test_a_change_of_the_size_is_followed_at_once(head: Head) -> None:
    with top(head, "--interval", "600", columns=100) as screen:
        assert len(re.sub(r"\033\[[?\d;]*[A-Za-z]", "", screen.until("q quit").splitlines()[0])) == 100
        screen.resize(24, 60)
        os.kill(screen.process.pid, signal.SIGWINCH)
        assert len(re.sub(r"\033\[[?\d;]*[A-Za-z]", "", screen.until("q quit").splitlines()[0])) == 60


def test_keys_show_the_help_and_look_at_once(head: Head) -> None:
    with top(head, "--interval", "600") as screen:
        screen.until("q quit")
        screen.type("h")
        screen.until("this help")
        screen.type("\033[B")
        screen.until("q quit")
        screen.type(" ")
        screen.until("q quit")
        screen.type("Q")
        assert screen.ended() == 0


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"CLICOLOR": "0"}, False)])
def test_colours_are_as_the_environment_wants_them(head: Head, env: dict[str, str], coloured: bool) -> None:
    with top(head, "-n", "1", "--interval", "0.1", **env) as screen:
        assert screen.ended() == 0
    assert bool(re.search(r"\033\[\d+m", screen.seen)) is coloured


@pytest.mark.parametrize(("keys", "number"), [("\x03", 0), ("", signal.SIGTERM)])
def test_however_it_is_ended_the_terminal_is_given_back(head: Head, keys: str, number: int) -> None:
    with top(head) as screen:
        screen.until("q quit")
        screen.type(keys)
        if number:
            screen.process.send_signal(number)
        assert screen.ended() in (130, 128 + number)
        assert screen.seen.endswith(LEAVE) and termios.tcgetattr(screen.its_end) == screen.before


def test_suspended_and_continued_it_draws_the_screen_anew(head: Head) -> None:
    with top(head, "--interval", "600") as screen:
        screen.until("q quit")
        screen.process.send_signal(signal.SIGTSTP)
        until(lambda: Path(f"/proc/{screen.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        screen.until(LEAVE)
        screen.process.send_signal(signal.SIGCONT)
        screen.until("q quit")
        assert screen.seen.count(ENTER) == 2


def test_a_daemon_that_has_gone_is_said_so_and_waited_for(tmp_path: Path) -> None:
    head = Head(tmp_path)
    config = head.paths.config
    config.write_text(config.read_text().replace(CLUSTER, f"{CLUSTER}-2"))  # beside the other one
    try:
        assert head.ctl("start").returncode == 0
        with top(head, "--interval", "0.1") as screen:
            screen.until("q quit")
            head.kill()
            screen.until("elastiq is not running")
            assert head.ctl("start").returncode == 0
            until(lambda: "not running" not in screen.until("q quit"))
    finally:
        head.kill()


def test_without_a_terminal_it_says_what_to_use_and_gives_json_a_line(head: Head) -> None:
    refused = head.ctl("top")
    assert (refused.returncode, refused.stdout) == (1, "") and "elastiqctl top --json" in refused.stderr
    done = head.ctl("top", "--json", "-n", "2", "--interval", "0.05")
    assert [json.loads(line)["cluster"] for line in done.stdout.splitlines()] == [CLUSTER] * 2
