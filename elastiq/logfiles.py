"""The log in rotated files: `--logdir`, which `elastiqctl start` gives. systemd's journal needs none."""

from __future__ import annotations

import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Callable, Optional

LOG_FILE = "elastiq.log"
FILE_BYTES = 10_000_000
FILES_KEPT = 5


class FileSink(RotatingFileHandler):
    """Files that only their owner and group may read; ``failed`` is told of each record that they cannot take."""

    def __init__(self, directory: Path, failed: Callable[[str, Optional[BaseException]], None]) -> None:
        path, escape = directory / LOG_FILE, "backslashreplace"
        super().__init__(path, "a", FILE_BYTES, FILES_KEPT, encoding="utf-8", delay=True, errors=escape)
        self._failed = failed
        try:
            self.stream = self._open()
        except OSError as error:
            failed(self.baseFilename, error)

    def handleError(self, record: Any) -> None:
        self._failed(self.baseFilename, sys.exc_info()[1])

    def doRollover(self) -> None:
        """A rotation that fails loses no record: the file that is there goes on."""
        try:
            super().doRollover()
        except OSError as error:
            self._failed(self.baseFilename, error)
            self.stream = self._open()

    def _open(self) -> Any:
        Path(self.baseFilename).parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        return open(fd, self.mode, encoding=self.encoding, errors=self.errors)
