"""Where elastiq's log goes: standard error, and rotated files where a directory is given.

Only elastiq's own loggers follow ``log_level``. Libraries are kept at warnings: botocore's debug log
holds user data. A sink that fails (disk full, broken pipe, closed or stuck standard error) is counted and
never stops the daemon; a pipe that nobody reads would otherwise block it for good.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Optional, TextIO, Union

from elastiq.inifile import ConfigError

LOG_FILE = "elastiq.log"
FILE_BYTES = 10_000_000
FILES_KEPT = 5

LIBRARIES = ("boto3", "botocore", "s3transfer", "urllib3")

_TIME = "%Y-%m-%dT%H:%M:%S%z"
_PATIENCE_S = 0.2  # for a reader that is only slow

# What foreign text could do to a terminal or a reader of lines; tracebacks keep their line breaks.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROL.update({0x0A: "\\n", 0x0D: "\\r", 0x09: "\t"})


class LogSinks:
    """The sinks that `setup` installed, and how they fare."""

    def __init__(self) -> None:
        self.failures = 0
        """How often a sink could not write a record or rotate its files."""
        self.last_error = ""
        self.handlers: list[logging.Handler] = []

    def failed(self, sink: str, error: Optional[BaseException]) -> None:
        self.failures += 1
        self.last_error = f"{sink}: {getattr(error, 'strerror', None) or error or 'unknown'}"

    def set_level(self, level: str) -> None:
        """``level`` is a name of Python's logging, in any case."""
        number = logging.getLevelName(level.upper())
        logging.getLogger("elastiq").setLevel(number)
        for name in (None, *LIBRARIES):
            logging.getLogger(name).setLevel(max(number, logging.WARNING))

    def close(self) -> None:
        """Take the sinks away again."""
        for handler in self.handlers:
            logging.getLogger().removeHandler(handler)
            try:
                handler.close()
            except (OSError, ValueError) as error:
                self.failed(handler.get_name() or "", error)
        self.handlers.clear()


_installed: list[LogSinks] = []  # at most one: a second set-up replaces it, as logging itself is global


def setup(
    settings_level: str,
    fmt: str,
    logdir: Optional[Union[str, Path]] = None,
    stream: Optional[TextIO] = None,
) -> LogSinks:
    """Send all logs to ``stream`` (None: standard error as it is now) and to files in ``logdir``.

    ``fmt`` is "text" or "json". A directory that cannot be written counts as a failing sink and is tried
    again with every record. Raises `ConfigError` if "json" is asked for and python-json-logger is absent.
    """
    formatter = _json_formatter() if fmt == "json" else _TextFormatter()
    while _installed:
        _installed.pop().close()
    sinks = LogSinks()
    _installed.append(sinks)
    stream = stream or sys.stderr
    if stream is not None:  # it is None in a process that was started without one
        sinks.handlers.append(_StreamSink(sinks, stream))
    problem = ""
    if logdir is not None:
        file_sink = _FileSink(sinks, Path(logdir))
        problem = file_sink.open_now()
        sinks.handlers.append(file_sink)
    for handler in sinks.handlers:
        handler.setFormatter(formatter)
        logging.getLogger().addHandler(handler)
    logging.captureWarnings(True)
    sinks.set_level(settings_level)
    if problem:
        logging.getLogger(__name__).warning("cannot log to files: %s", problem)
    return sinks


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", _TIME)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(_CONTROL)


def _json_formatter() -> logging.Formatter:
    formatter: Any
    try:
        from pythonjsonlogger import json as module
    except ImportError:  # before 3.1
        try:
            from pythonjsonlogger import jsonlogger as module
        except ImportError:
            raise ConfigError(
                ["[elastiq] log_format: json needs python-json-logger, install it or write text"]
            ) from None
    names = {"asctime": "time", "levelname": "level", "name": "logger"}
    formatter = module.JsonFormatter(
        "%(asctime)s %(levelname)s %(name)s %(message)s", _TIME, rename_fields=names
    )
    assert isinstance(formatter, logging.Formatter)
    return formatter


class _StreamSink(logging.Handler):
    """Writes to a stream, but never waits for long for one that nobody reads."""

    def __init__(self, sinks: LogSinks, stream: TextIO) -> None:
        super().__init__()
        self.set_name("standard error")
        self.sinks = sinks
        self.stream = stream
        self.stuck = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record) + "\n"
            fd = self._waits()
            if fd is None:
                self.stream.write(text)
                self.stream.flush()
            else:
                self._write(fd, text.encode("utf-8", "backslashreplace"))
        except Exception:  # noqa: BLE001 - also a record whose arguments do not fit
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        self.sinks.failed("standard error", sys.exc_info()[1])

    def _waits(self) -> Optional[int]:
        """The descriptor of a stream whose reader may make a writer wait; None for all others."""
        try:
            fd = self.stream.fileno()
        except OSError:  # io.UnsupportedOperation: a stream in memory
            return None
        mode = os.fstat(fd).st_mode
        return fd if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode) else None

    def _write(self, fd: int, data: bytes) -> None:
        """What poll calls writable takes PIPE_BUF bytes without waiting (pipe(7))."""
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        deadline = time.monotonic() + (0 if self.stuck else _PATIENCE_S)
        while data:
            left = max(0.0, deadline - time.monotonic())
            if not poll.poll(left * 1000):
                self.stuck = True
                raise BlockingIOError("nobody reads it")
            data = data[os.write(fd, data[: select.PIPE_BUF]) :]
        self.stuck = False


class _FileSink(RotatingFileHandler):
    """Rotated files that only their owner and group may read."""

    def __init__(self, sinks: LogSinks, directory: Path) -> None:
        self.sinks = sinks
        super().__init__(
            directory / LOG_FILE,
            maxBytes=FILE_BYTES,
            backupCount=FILES_KEPT,
            encoding="utf-8",
            errors="backslashreplace",
            delay=True,
        )
        self.set_name(self.baseFilename)

    def open_now(self) -> str:
        """Open the file, making its directory; why not, where that fails."""
        try:
            Path(self.baseFilename).parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            self.stream = self._open()
        except OSError as error:
            self.sinks.failed(self.baseFilename, error)
            return self.sinks.last_error
        return ""

    def handleError(self, record: logging.LogRecord) -> None:
        self.sinks.failed(self.baseFilename, sys.exc_info()[1])

    def doRollover(self) -> None:
        """A rotation that fails loses no record: the file that is there goes on."""
        try:
            super().doRollover()
        except OSError as error:
            self.sinks.failed(self.baseFilename, error)
            self.stream = self._open()

    def _open(self) -> Any:
        return open(
            self.baseFilename,
            self.mode,
            encoding=self.encoding,
            errors=self.errors,
            opener=lambda path, flags: os.open(path, flags, 0o640),
        )
