"""Lines for systemd's journal: without the time, which it has, and with their priority, so that `journalctl -p` works.

Imported when standard error may lead there. Of a record with a traceback each line gets the priority, for the journal
makes an entry of each (sd-daemon(3), and systemd.exec(5) on SyslogLevelPrefix= and $JOURNAL_STREAM).
"""

from __future__ import annotations

import logging
import os
from typing import TextIO

ERROR = 3  # of syslog(3), as all of these; by the least level
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, ERROR), (logging.WARNING, 4), (logging.INFO, 6), (0, 7))


def adapt(handler: logging.Handler, stream: TextIO, formatter: logging.Formatter, is_text: bool) -> None:
    """Let a handler write with ``formatter`` for the journal, if its stream leads there. Lines for programs
    (``is_text`` is False) keep what they have."""
    if leads_there(stream):
        handler.setFormatter(_Journal(formatter, is_text))


def leads_there(stream: TextIO) -> bool:
    """Whether it is the stream that systemd connected: children, and streams led elsewhere, find the variable too."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class _Journal(logging.Formatter):
    def __init__(self, inner: logging.Formatter, is_text: bool) -> None:
        super().__init__()
        self._inner, self._is_text = inner, is_text

    def format(self, record: logging.LogRecord) -> str:
        said = self._inner.format(record)
        if self._is_text and record.name.partition(".")[0] != "elastiq":
            said = f"{record.name}: {said}"  # the journal says that the process is elastiq's
        priority = next(number for level, number in _PRIORITIES if record.levelno >= level)
        return "\n".join(f"<{priority}>{line}" for line in said.splitlines() or [""])
