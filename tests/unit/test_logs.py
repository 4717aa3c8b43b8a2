"""The log: who is heard, in which form, and that no sink can hurt the daemon."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Iterator

import pytest

from elastiq import logfiles, logs
from elastiq.inifile import ConfigError
from tests.unit.fakes import Surroundings

log = logging.getLogger("elastiq.some.module")


class Stream(io.TextIOWrapper):
    """A file in memory, which has a descriptor as standard error has."""

    def __init__(self) -> None:
        super().__init__(open(os.memfd_create("log"), "r+b"))

    def getvalue(self) -> str:
        return os.pread(self.fileno(), 1 << 24, 0).decode()


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is global: put it back."""
    names = ("elastiq", *logs.LIBRARIES)
    root = logging.getLogger()
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names] + [(root, root.level)]
    yield
    while logs._installed:
        logs._installed.pop().close()
    logging.captureWarnings(False)
    for logger, level in before:
        logger.setLevel(level)


def heard(level: str, name: str) -> list[str]:
    """Which levels of a logger come out."""
    stream = Stream()
    logs.setup(level, "text", stream=stream)
    for word in ("debug", "info", "warning", "error", "critical"):
        getattr(logging.getLogger(name), word)("said at %s", word)
    return [line.rsplit(" ", 1)[1] for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error", "critical"]),
        ("INFO", ["info", "warning", "error", "critical"]),
        ("warning", ["warning", "error", "critical"]),
        ("critical", ["critical"]),
    ],
)
def test_elastiqs_own_loggers_follow_the_level(level: str, expected: list[str]) -> None:
    assert heard(level, "elastiq.plugins.cloud.ec2") == expected


@pytest.mark.parametrize("name", ["botocore.endpoint", "urllib3.connectionpool", "boto3", "anything"])
def test_libraries_never_say_more_than_warnings(name: str) -> None:
    """botocore's debug log holds user data."""
    assert heard("debug", name) == ["warning", "error", "critical"]
    assert heard("error", name) == ["error", "critical"]


def test_a_library_that_was_set_to_debug_is_put_back() -> None:
    logging.getLogger("botocore").setLevel(logging.DEBUG)
    assert heard("debug", "botocore.auth") == ["warning", "error", "critical"]


def test_the_level_can_change_while_it_runs() -> None:
    stream = Stream()
    logs.setup("info", "text", stream=stream)
    log.debug("one")
    logs.setup("debug", "text", stream=stream)
    log.debug("two")
    assert "one" not in stream.getvalue() and "two" in stream.getvalue()


def test_a_second_set_up_replaces_the_first() -> None:
    first, second = Stream(), Stream()
    logs.setup("info", "text", stream=first)
    logs.setup("info", "text", stream=second)
    log.info("hello")
    assert first.getvalue() == "" and second.getvalue().count("hello") == 1


def test_a_line_has_time_with_zone_level_and_logger() -> None:
    stream = Stream()
    logs.setup("info", "text", stream=stream)
    log.info("hello %s", "world")
    at, rest = stream.getvalue().split(" ", 1)
    assert time.strptime(at, "%Y-%m-%dT%H:%M:%S%z")
    assert rest == "INFO elastiq.some.module: hello world\n"


def test_foreign_text_cannot_forge_a_line_or_drive_a_terminal() -> None:
    stream = Stream()
    logs.setup("info", "text", stream=stream)
    log.info("a\nb\r\x1b[2J\x00\x9b c")
    assert stream.getvalue().endswith(": a\\nb\\r\\x1b[2J\\x00\\x9b c\n")


def test_a_traceback_keeps_its_lines() -> None:
    stream = Stream()
    logs.setup("info", "text", stream=stream)
    try:
        raise RuntimeError("x")
    except RuntimeError:
        log.exception("failed")
    assert "\nTraceback" in stream.getvalue() and stream.getvalue().endswith("RuntimeError: x\n")


def test_python_warnings_go_to_the_log_and_not_past_it() -> None:
    stream = Stream()
    logs.setup("info", "text", stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old library", stacklevel=1)
    assert "old library" in stream.getvalue()


# ----------------------------------------------------------------------------- JSON


def test_json_is_one_object_a_line_with_stable_keys() -> None:
    stream = Stream()
    logs.setup("info", "json", stream=stream)
    log.info("a\n%s", "é", extra={"node": "i-1"})
    try:
        raise RuntimeError("x")
    except RuntimeError:
        log.exception("failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert {key: first[key] for key in ("level", "logger", "message", "node")} == {
        "level": "INFO",
        "logger": "elastiq.some.module",
        "message": "a\né",
        "node": "i-1",
    }
    assert time.strptime(first["time"], "%Y-%m-%dT%H:%M:%S%z")
    assert "RuntimeError: x" in second["exc_info"]


def test_the_fields_of_an_event_are_keys_of_the_json_object() -> None:
    stream = Stream()
    logs.setup("info", "json", stream=stream)
    core = Surroundings().core
    core.say("node", "i-1: idle -> busy", node="i-1", pool="ec2", before="idle", after="busy", reason="a job")
    core.say("command", "done", logging.WARNING, verb="pause", acts=["launch"], reason=None)
    core.say("odd", "cannot take the place of another key", message="x", logger="y", fields="z")
    one, two, three = (json.loads(line) for line in stream.getvalue().splitlines())
    assert {key: one[key] for key in one.keys() - {"time"}} == {
        "level": "INFO",
        "logger": "elastiq",
        "message": "i-1: idle -> busy",
        "event": "node",
        "node": "i-1",
        "pool": "ec2",
        "before": "idle",
        "after": "busy",
        "reason": "a job",
    }
    assert (two["acts"], two["reason"], two["level"]) == (["launch"], None, "WARNING")
    assert three["message"] == "cannot take the place of another key" and three["logger"] == "elastiq"


def test_the_old_layout_of_the_json_library_serves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class JsonFormatter(logging.Formatter):
        def __init__(self, fmt: str, datefmt: str, rename_fields: dict[str, str]) -> None:
            super().__init__("old layout: %(message)s", datefmt)

    package = types.ModuleType("pythonjsonlogger")
    package.jsonlogger = types.SimpleNamespace(JsonFormatter=JsonFormatter)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pythonjsonlogger", package)
    monkeypatch.setitem(sys.modules, "pythonjsonlogger.jsonlogger", package.jsonlogger)
    monkeypatch.delitem(sys.modules, "pythonjsonlogger.json", raising=False)
    stream = Stream()
    logs.setup("info", "json", stream=stream)
    log.info("hello")
    assert stream.getvalue() == "old layout: hello\n"


def test_json_without_the_library_is_an_error_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pythonjsonlogger", "pythonjsonlogger.json", "pythonjsonlogger.jsonlogger"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match="python-json-logger"):
        logs.setup("info", "json", stream=Stream())


# ----------------------------------------------------------------------------- systemd's journal


def journaled(stream: Stream, monkeypatch: pytest.MonkeyPatch, inode: int = 0, fmt: str = "text") -> list[str]:
    """What is written of a record of each level, where systemd has connected a stream of this inode, or this one."""
    found = os.fstat(stream.fileno())
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{inode or found.st_ino}")
    logs.setup("debug", fmt, stream=stream)
    for word in ("debug", "info", "warning", "error", "critical"):
        getattr(log, word)("said at %s", word)
    return stream.getvalue().splitlines()


def test_the_journal_gets_priorities_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert journaled(Stream(), monkeypatch) == [
        "<7>said at debug",
        "<6>said at info",
        "<4>said at warning",
        "<3>said at error",
        "<2>said at critical",
    ]


def test_a_stream_that_was_led_elsewhere_is_not_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of what `elastiqctl start` begins from within a service: the variable is there, the journal is not."""
    assert journaled(Stream(), monkeypatch, inode=1)[0].endswith("DEBUG elastiq.some.module: said at debug")


def test_each_line_of_a_traceback_has_the_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    journaled(stream, monkeypatch)
    try:
        raise RuntimeError("x")
    except RuntimeError:
        log.exception("failed")
    lines = stream.getvalue().splitlines()[5:]
    assert len(lines) >= 4 and all(line.startswith("<3>") for line in lines)


def test_a_message_cannot_pretend_a_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    journaled(stream, monkeypatch)
    log.info("\n<0>panic")
    assert stream.getvalue().splitlines()[5:] == ["<6>\\n<0>panic"]


def test_a_library_is_named_in_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    journaled(stream, monkeypatch)
    logging.getLogger("botocore.auth").warning("old")
    assert stream.getvalue().splitlines()[5:] == ["<4>botocore.auth: old"]


def test_json_stays_json_in_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    line = journaled(Stream(), monkeypatch, fmt="json")[2]
    assert line.startswith("<4>") and json.loads(line[3:])["message"] == "said at warning"


def test_files_beside_the_journal_keep_the_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stream = Stream()
    found = os.fstat(stream.fileno())
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
    logs.setup("info", "text", tmp_path, stream)
    log.info("hello")
    assert stream.getvalue() == "<6>hello\n"
    assert (tmp_path / "elastiq.log").read_text().endswith("INFO elastiq.some.module: hello\n")


# ----------------------------------------------------------------------------- files


def test_files_are_made_for_owner_and_group_only_and_rotate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfiles, "FILE_BYTES", 2000)
    monkeypatch.setattr(logfiles, "FILES_KEPT", 2)
    old = os.umask(0)
    try:
        sinks = logs.setup("info", "text", tmp_path / "new" / "log", Stream())
        for number in range(100):
            log.info("record %d %s", number, "é" * 40)
    finally:
        os.umask(old)
    files = sorted((tmp_path / "new" / "log").iterdir())
    assert [file.name for file in files] == ["elastiq.log", "elastiq.log.1", "elastiq.log.2"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o640}
    assert stat.S_IMODE((tmp_path / "new" / "log").stat().st_mode) == 0o750
    assert all(file.stat().st_size <= 2000 for file in files)
    assert "record 99 é" in files[0].read_text("utf-8")
    assert sinks.failures == 0


def test_a_directory_that_cannot_be_written_is_told_and_tried_again(tmp_path: Path) -> None:
    place = tmp_path / "log"
    place.write_text("a file is in the way")
    stream = Stream()
    sinks = logs.setup("info", "text", place, stream)
    assert "cannot log to files" in stream.getvalue() and str(place) in stream.getvalue()
    log.info("one")
    assert sinks.failures >= 2 and str(place) in sinks.last_error
    place.unlink()
    place.mkdir()
    log.info("two")
    assert "two" in (place / "elastiq.log").read_text()
    assert "one" in stream.getvalue() and "two" in stream.getvalue()


def test_a_full_disk_costs_records_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "elastiq.log").symlink_to("/dev/full")
    stream = Stream()
    sinks = logs.setup("info", "text", tmp_path, stream)
    for _ in range(1000):
        log.info("x" * 100)
    assert sinks.failures == 1000
    assert "No space left" in sinks.last_error
    assert stream.getvalue().count("\n") == 1000


def test_a_rotation_that_fails_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfiles, "FILE_BYTES", 200)
    sinks = logs.setup("info", "text", tmp_path, Stream())

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", refused)
    for number in range(20):
        log.info("record %02d", number)
    text = (tmp_path / "elastiq.log").read_text()
    assert [f"record {number:02d}" in text for number in range(20)] == [True] * 20
    assert sinks.failures > 0 and "Permission denied" in sinks.last_error


# ----------------------------------------------------------------------------- standard error


def test_a_stream_that_is_closed_is_counted() -> None:
    stream = Stream()
    sinks = logs.setup("info", "text", stream=stream)
    stream.close()
    log.info("hello")
    assert sinks.failures == 1


def test_a_process_without_standard_error_can_log_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    sinks = logs.setup("info", "text", tmp_path)
    log.info("hello")
    assert "hello" in (tmp_path / "elastiq.log").read_text() and sinks.failures == 0


def test_a_record_whose_arguments_do_not_fit_is_counted_and_prints_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's own would raise
    sinks = logs.setup("info", "text", stream=Stream())
    log.info("%d jobs", "many")
    assert sinks.failures == 1
    assert capsys.readouterr().err == ""


def test_a_reader_that_went_away_is_counted_and_prints_no_traceback() -> None:
    code = (
        "import logging, os, sys\n"
        "from elastiq import logs\n"
        "sinks = logs.setup('info', 'text')\n"
        "sys.stdin.readline()\n"
        "for _ in range(10): logging.getLogger('elastiq').info('hello')\n"
        "print(sinks.failures, sinks.last_error, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdin and child.stdout and child.stderr
    child.stderr.close()
    child.stdin.write("\n")
    child.stdin.close()
    with child.stdout:
        assert child.stdout.read() == "10 standard error: Broken pipe\n"
    assert child.wait() == 0


def test_a_pipe_that_nobody_reads_holds_nothing_up_and_is_used_again_when_read() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as pipe, open(writer, "w") as stream:
        sinks = logs.setup("info", "text", stream=stream)
        for _ in range(5000):
            log.info("x" * 100)
        assert sinks.failures > 3000 and "nobody reads it" in sinks.last_error
        lost = sinks.failures
        os.set_blocking(reader, False)
        while pipe.read(1 << 20):
            pass
        log.info("again")
        assert b"again" in (pipe.read(1 << 16) or b"")
        assert sinks.failures == lost


def test_standard_error_may_be_a_file(tmp_path: Path) -> None:
    with open(tmp_path / "err", "w") as stream:
        sinks = logs.setup("info", "text", stream=stream)
        # not by a logger: pytest would keep the lone surrogate, too, and cannot hand it on between processes
        sinks.handlers[0].handle(logging.makeLogRecord({"name": "elastiq", "msg": "one \udcff"}))
        log.info("two")
    log.info("three, after it was closed")
    lines = (tmp_path / "err").read_text().splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["one \\udcff", "two"]
    assert sinks.failures == 1


def test_a_long_record_goes_through_a_pipe_whole() -> None:
    code = (
        "import logging\n"
        "from elastiq import logs\n"
        "logs.setup('info', 'text')\n"
        "logging.getLogger('elastiq').info('x' * 1_000_000)\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert len(child.stderr) > 1_000_000 and child.stderr.endswith(b"xxx\n")
