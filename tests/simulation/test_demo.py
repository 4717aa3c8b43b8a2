"""`elastiqctl demo`: the main job in one command, for a person and for a script."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest

from elastiq import planner
from elastiq.daemon import Daemon
from elastiq.simulation import cluster, demo
from elastiq.simulation.view import LiveView, Picture
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
KEYS = (
    "seed simulated_s wall_s jobs_submitted jobs_done jobs_killed mean_wait_s p95_wait_s launches "
    "terminations peak_vms max_vms machine_hours idle_machine_hours"
).split()
ABSENT = ["boto3", "botocore", "htcondor", "htcondor2", "classad", "classad2", "pythonjsonlogger"]
COMMAND = ("-c", "import sys; from elastiq.simulation.demo import main; sys.exit(main(sys.argv[1:]))")


def run(*args: str, python: str = sys.executable, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *COMMAND, *args],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def summary(seed: int) -> dict[str, Any]:
    out = io.StringIO()
    assert demo.run_demo(seed, as_json=True, out=out) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def without_wall(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    del found["wall_s"]
    return found


# --------------------------------------------------------------------------- what it shows of the daemon


@pytest.mark.parametrize("seed", range(1, 11))
def test_every_job_is_done_none_is_killed_and_every_machine_ends_within_the_quota(seed: int) -> None:
    s = summary(seed)
    assert s["jobs_done"] == s["jobs_submitted"] > 50
    assert s["jobs_killed"] == 0
    assert s["launches"] == s["terminations"] > s["max_vms"]  # up, down, and up again
    assert s["peak_vms"] == s["max_vms"]
    assert 0 < s["idle_machine_hours"] < s["machine_hours"]
    assert 0 < s["mean_wait_s"] < s["p95_wait_s"] < s["simulated_s"]


def test_without_the_planners_launches_no_job_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo shows the daemon at work, not a script of its own."""

    def launches_nothing(situation: planner.Situation) -> planner.Plan:
        return replace(planner.plan(situation), launches=())

    monkeypatch.setattr(cluster, "Daemon", functools.partial(Daemon, plans=launches_nothing))
    out = io.StringIO()
    assert demo.run_demo(1, as_json=True, out=out) == demo.EXIT_UNFINISHED
    s = json.loads(out.getvalue())
    assert (s["jobs_done"], s["launches"], s["mean_wait_s"]) == (0, 0, None)
    assert s["jobs_submitted"] > 50
    assert "jobs not done" in capsys.readouterr().err


def test_without_the_planners_drains_no_machine_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def drains_nothing(situation: planner.Situation) -> planner.Plan:
        return replace(planner.plan(situation), drains=())

    monkeypatch.setattr(cluster, "Daemon", functools.partial(Daemon, plans=drains_nothing))
    out = io.StringIO()
    assert demo.run_demo(1, as_json=True, out=out) == demo.EXIT_UNFINISHED
    s = json.loads(out.getvalue())
    assert s["jobs_done"] == s["jobs_submitted"]
    assert s["terminations"] == 0


def test_the_daemon_has_no_bug_in_it() -> None:
    course = demo.Demo(seed=4)
    daemons = []
    course.cluster.events.after(1000.0, lambda: daemons.append(course.cluster.daemon))
    assert course.run()
    (daemon,) = daemons
    assert daemon is not None
    assert daemon.core.faults == {}
    assert "illegal_transitions" not in daemon.core.counters


# --------------------------------------------------------------------------- for scripts


def test_json_is_one_object_with_these_keys_and_nothing_else() -> None:
    result = run("--json", "--seed", "7")
    assert result.returncode == 0
    assert list(json.loads(result.stdout)) == KEYS
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
    assert json.loads(result.stdout)["seed"] == 7


def test_one_seed_gives_the_same_numbers_in_every_process() -> None:
    here = summary(5)
    del here["wall_s"]
    for hash_seed in ("0", "1", "4711"):
        assert without_wall(run("--json", "--seed", "5", PYTHONHASHSEED=hash_seed).stdout) == here


def pythons() -> list[str]:
    """This interpreter, and one of each other version that is found and works (pyenv's as well)."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    readable = os.access(pyenv, os.R_OK | os.X_OK)  # it may be another user's
    found = [sys.executable]
    for minor in range(9, 15):
        ours = pyenv.glob(f"versions/3.{minor}.*/bin/python") if readable else ()
        candidates = [*sorted(map(str, ours)), f"python3.{minor}"]
        for path in filter(None, map(shutil.which, candidates)):
            if subprocess.call([path, "-c", ""], stderr=subprocess.DEVNULL) == 0:
                found.append(path)
                break
    return found


def test_one_seed_gives_the_same_numbers_in_every_version_of_python() -> None:
    here = summary(3)
    del here["wall_s"]
    for python in pythons():
        assert without_wall(run("--json", "--seed", "3", python=python).stdout) == here, python


def test_another_seed_gives_other_numbers() -> None:
    one, two = summary(1), summary(2)
    assert one["simulated_s"] != two["simulated_s"]
    assert one["mean_wait_s"] != two["mean_wait_s"]


def test_the_pace_changes_no_number() -> None:
    out = io.StringIO()
    assert demo.run_demo(1, speed=20_000.0, out=out) == 0
    paced = out.getvalue().splitlines()
    expected = demo.table({**summary(1), "wall_s": 0.0}).splitlines()
    assert paced[-5:] == expected[-5:]  # all rows but the one with the real time


def test_it_runs_where_boto3_and_htcondor_and_the_json_logger_are_absent() -> None:
    block = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({ABSENT!r}))\n"
        "from elastiq.simulation.demo import main\n"
        "code = main(['--json'])\n"
        "files = [getattr(module, '__file__', None) or '' for module in sys.modules.values()]\n"
        "foreign = [file for file in files if '-packages' in file]\n"
        "assert not foreign, foreign\n"
        "sys.exit(code)\n"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", block],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["jobs_killed"] == 0


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    home, temporary, here = tmp_path / "home", tmp_path / "tmp", tmp_path / "here"
    for directory in (home, temporary, here):
        directory.mkdir()
    result = subprocess.run(
        [sys.executable, *COMMAND, "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home), "TMPDIR": str(temporary)},
        cwd=here,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert result.returncode == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_daemons_logger_is_as_it_was_before() -> None:
    log = logging.getLogger("elastiq")
    before = (log.level, log.propagate, list(log.handlers))
    summary(1)
    assert (log.level, log.propagate, list(log.handlers)) == before


@pytest.mark.parametrize("speed", ["0", "-1", "fast", "nan"])
def test_a_speed_that_is_none_is_a_usage_error(speed: str) -> None:
    result = run("--speed", speed)
    assert result.returncode == 2
    assert "neither a number above 0 nor `max`" in result.stderr
    assert result.stdout == ""


# --------------------------------------------------------------------------- for people


@pytest.mark.parametrize("seed", range(1, 6))
def test_at_its_default_speed_it_takes_less_than_half_a_minute(seed: int) -> None:
    assert 12.0 < summary(seed)["simulated_s"] / demo.DEFAULT_SPEED < 28.0


def test_a_paced_run_takes_its_time() -> None:
    began = time.monotonic()
    assert demo.run_demo(1, speed=3000.0, out=io.StringIO()) == 0
    taken_s = time.monotonic() - began
    assert summary(1)["simulated_s"] / 3000.0 <= taken_s < summary(1)["simulated_s"] / 30.0


def test_without_a_terminal_it_prints_plain_lines_and_a_summary() -> None:
    result = run("--speed", "max")
    assert (result.returncode, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    for line in (
        r"0:01:\d\d  plan: launch \d+ of simulated/medium: .*waiting jobs of",
        r"i-\w+ \(simulated\): pending -> booting",
        r"i-\w+ \(simulated\): \w+ -> busy: runs \d jobs",
        r"plan: drain i-\w+: idle for \d+ s",
        r"i-\w+ \(simulated\): draining -> terminating",
        r"i-\w+ \(simulated\): terminating -> gone",
        r"0:05:00  jobs: \d+ waiting, \d+ running, \d+ done; machines: \d+ busy",
        r"jobs +76 submitted, 76 done, 0 killed",
    ):
        assert re.search(line, result.stdout), line


class Terminal:
    """A demo in a terminal of its own."""

    def __init__(self, *args: str, columns: int = 100, lines: int = 40, **environ: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "PYTHONUTF8": "1"}
            env.pop("NO_COLOR", None)
            env.update(COLUMNS=str(columns), LINES=str(lines), **environ)
            os.execve(sys.executable, [sys.executable, *COMMAND, *args], env)
        self.text = ""
        self.code: Optional[int] = None

    def read(self, until: str = "") -> str:
        """Read to the end, or until a text has been written."""
        end = time.monotonic() + PATIENCE_S
        while not until or until not in self.text:
            ready, _, _ = select.select([self._fd], [], [], end - time.monotonic())
            assert ready, f"no {until!r} in time: {self.text[-2000:]}"
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # Linux: the other side has ended
                data = b""
            if not data:
                self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                break
            self.text += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return self.text

    def close(self) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_in_a_terminal_the_picture_is_redrawn_and_the_cursor_given_back(terminals: list[Terminal]) -> None:
    terminals.append(Terminal("--speed", "3000"))
    text = terminals[0].read()
    assert terminals[0].code == 0
    assert text.count("\x1b[?25l") == 1
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert len(re.findall(r"\x1b\[\d+F", text)) > 5
    assert "\x1b[32m" in text
    assert "machines  8 of at most 8" in text
    last = text[text.rindex("\x1b[?25h") :]
    assert "76 submitted, 76 done, 0 killed" in last


def test_no_color_is_respected(terminals: list[Terminal]) -> None:
    terminals.append(Terminal("--speed", "6000", NO_COLOR="1"))
    text = terminals[0].read()
    assert terminals[0].code == 0
    assert re.search(r"\x1b\[\d+F", text)
    assert not re.search(r"\x1b\[\d+m", text)


def test_a_terminal_that_can_do_nothing_gets_plain_lines(terminals: list[Terminal]) -> None:
    terminals.append(Terminal("--speed", "6000", TERM="dumb"))
    text = terminals[0].read()
    assert terminals[0].code == 0
    assert "\x1b" not in text
    assert "terminating -> gone" in text


@pytest.mark.parametrize(("columns", "lines"), [(40, 40), (30, 12), (200, 60)])
def test_the_picture_fits_the_terminal(terminals: list[Terminal], columns: int, lines: int) -> None:
    terminals.append(Terminal("--speed", "4000", columns=columns, lines=lines, NO_COLOR="1"))
    text = terminals[0].read()
    assert terminals[0].code == 0
    frames = re.split(r"\x1b\[\d+F", text[: text.rindex("\x1b[?25h")])
    assert len(frames) > 3
    for frame in frames:
        rows = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame).split("\n")[:-1]
        assert max(len(row) for row in rows) < columns
        assert len(rows) < lines


@pytest.mark.parametrize("in_terminal", [True, False])
def test_ctrl_c_ends_it_cleanly(terminals: list[Terminal], in_terminal: bool) -> None:
    if in_terminal:
        terminal = Terminal("--speed", "100")
        terminals.append(terminal)
        terminal.read(until="jobs ")
        os.kill(terminal.pid, signal.SIGINT)
        text = terminal.read()
        code = terminal.code
        assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    else:
        code, text = interrupted(signal.SIGINT)
    assert code == 130
    assert "Traceback" not in text
    assert "interrupted" in text


def test_sigterm_gives_the_terminal_back(terminals: list[Terminal]) -> None:
    terminal = Terminal("--speed", "100")
    terminals.append(terminal)
    terminal.read(until="jobs ")
    os.kill(terminal.pid, signal.SIGTERM)
    text = terminal.read()
    assert terminal.code == 143
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "Traceback" not in text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize(
    "where", ["SimulatedCloud.instances", "SimulatedBatch.jobs", "LiveView.show", "PlainView.show"]
)
def test_a_signal_ends_it_wherever_it_meets_it(number: int, code: int, where: str) -> None:
    """Within a call of a simulated system as well, whose exceptions are answers to the daemon."""
    owner, method = where.split(".")
    module = "view" if owner.endswith("View") else owner[len("Simulated") :].lower()
    script = f"""
import os, sys
from elastiq.simulation import demo, {module} as module

def struck(self, *args):
    os.kill(os.getpid(), {int(number)})
    return true(self, *args)

true, module.{owner}.{method} = module.{owner}.{method}, struck
demo._view = lambda out, speed: demo.{owner if module == "view" else "PlainView"}(out)
sys.exit(demo.main(["--speed", "max"]))
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr


def interrupted(number: int) -> tuple[int, str]:
    """Start it without a terminal, send a signal after its first line; exit code and all output."""
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--speed", "100"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(number)
    rest, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, first + rest


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--speed", "max"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=PATIENCE_S) == demo.EXIT_BROKEN_PIPE
    assert "Traceback" not in errors


class NoUnicode(io.StringIO):
    encoding = "ascii"


def test_a_terminal_without_unicode_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")
    out = NoUnicode()
    view = LiveView(out)
    nodes = [
        {"id": "i-1", "state": state, "jobs": 2, "reason": ""} for state in ("busy", "booting", "new word")
    ]
    view.show(Picture(75.0, "elastiq demo", 3, 2, 1, 10, 8, "active", nodes))
    view.close()
    assert out.getvalue().isascii()
    assert "# # " in out.getvalue()
    assert "1 booting, 1 busy, 1 new word" in out.getvalue()
