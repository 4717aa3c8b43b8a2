"""Where elastiq's log goes: standard error, and rotated files where a directory is given (docs/logs.md).

Only elastiq's own loggers follow ``log_level``. Libraries are kept at warnings: botocore's debug log
holds user data. A sink that fails (disk full, broken pipe, closed or stuck standard error) is counted and
never stops the daemon; a pipe that nobody reads would otherwise block it for good.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import Optional, TextIO, Union

LIBRARIES = ("boto3", "botocore", "s3transfer", "urllib3")

_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TIME = "%Y-%m-%dT%H:%M:%S%z"
_PATIENCE_MS = 200  # for a reader that is only slow

# What foreign text could do to a terminal or a reader of lines; tracebacks keep their line breaks.
_CONTROL = {code: repr(chr(code))[1:-1] for code in (*range(9), *range(10, 32), *range(127, 160))}


class LogSinks:
    """The sinks that `setup` installed, and how they fare."""

    def __init__(self) -> None:
        self.failures, self.last_error = 0, ""
        """How often a sink could not write a record or rotate its files, and why the last time."""
        self.handlers: list[logging.Handler] = []

    def failed(self, sink: str, error: Optional[BaseException]) -> None:
        self.failures += 1
        self.last_error = f"{sink}: {getattr(error, 'strerror', None) or error or 'unknown'}"

    def close(self) -> None:
        """Take the sinks away again."""
        for handler in self.handlers:
            logging.getLogger().removeHandler(handler)
            with suppress(OSError, ValueError):  # every record is flushed and its failure counted before
                handler.close()


_installed: list[LogSinks] = []  # at most one: a second set-up replaces it, as logging itself is global


def setup(level: str, fmt: str, logdir: Union[str, Path, None] = None, stream: Optional[TextIO] = None) -> LogSinks:
    """Send all logs to ``stream`` (None: standard error as it is now) and to files in ``logdir``.

    ``level`` is a name of Python's logging, in any case; ``fmt`` is "text" or "json". A directory that cannot be
    written counts as a failing sink and is tried again with every record. Raises `ConfigError` if "json" is asked
    for and python-json-logger is absent.
    """
    formatter: logging.Formatter = _TextFormatter(_LINE, _TIME)
    if fmt == "json":
        from elastiq.jsonlog import json_formatter

        formatter = json_formatter(_LINE, _TIME)
    for before in _installed:
        before.close()
    _installed[:] = [sinks := LogSinks()]
    stream = stream or sys.stderr
    if stream is not None:  # it is None in a process that was started without one
        sinks.handlers.append(_StreamSink(sinks, stream))
    if logdir is not None:
        from elastiq.logfiles import FileSink

        sinks.handlers.append(FileSink(Path(logdir), sinks.failed))
    for handler in sinks.handlers:
        handler.setFormatter(formatter)
        logging.getLogger().addHandler(handler)
    if stream is not None and "JOURNAL_STREAM" in os.environ:
        from elastiq.journal import adapt

        adapt(sinks.handlers[0], stream, _TextFormatter() if fmt == "text" else formatter, fmt == "text")
    logging.captureWarnings(True)
    number = logging.getLevelName(level.upper())
    for name in ("elastiq", None, *LIBRARIES):
        logging.getLogger(name).setLevel(number if name == "elastiq" else max(number, logging.WARNING))
    if sinks.failures:
        logging.getLogger(__name__).warning("cannot log to files: %s", sinks.last_error)
    return sinks


class _TextFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(_CONTROL)


class _StreamSink(logging.Handler):
    """Writes to a stream, but never waits for long for one that nobody reads."""

    def __init__(self, sinks: LogSinks, stream: TextIO) -> None:
        super().__init__()
        self.sinks, self.stream, self.stuck = sinks, stream, False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(f"{self.format(record)}\n".encode("utf-8", "backslashreplace"))
        except Exception as error:  # noqa: BLE001 - also a record whose arguments do not fit
            self.sinks.failed("standard error", error)

    def _write(self, data: bytes) -> None:
        """What poll calls writable takes PIPE_BUF bytes without waiting (pipe(7))."""
        fd = self.stream.fileno()  # each time: once it is closed, its number may be another file's
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        while data:
            self.stuck = not poll.poll(0 if self.stuck else _PATIENCE_MS)
            if self.stuck:
                raise BlockingIOError("nobody reads it")
            data = data[os.write(fd, data[: select.PIPE_BUF]) :]
