"""elastiqctl log: the end of a log, and what comes after, across rotations."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from elastiq.cli.style import clean

PAUSE_S = 0.25
_BLOCK = 65_536


def show(path: Path, lines: int, follow: bool, as_json: bool = False) -> int:
    """Print the last lines, and with ``follow`` all further ones until Ctrl-C; ``as_json``: each as an object, its text
    as `line` if it is none. Returns the exit code."""
    try:
        file = path.open("rb")
    except PermissionError:
        raise  # told as by every command
    except OSError as error:
        print(
            f"elastiqctl: {path}: {error.strerror}; has elastiq been started with this --logdir?",
            file=sys.stderr,
        )
        return 1
    out = _Out(as_json)
    try:
        file.seek(_start_of_last(file, lines, 0))
        out.copy(file)
        while follow:
            time.sleep(PAUSE_S)
            out.copy(file)
            if _rotated(path, file):
                out.copy(file)  # what came in between
                with suppress(FileNotFoundError):  # rotated once more: look again
                    new = path.open("rb")
                    file.close()
                    file = new
        out.end()
    except KeyboardInterrupt:
        pass  # how one leaves
    finally:
        file.close()
    return 0


def last_lines(path: Path, lines: int, since: int = 0) -> list[str]:
    """The last lines that begin at or after the byte ``since``; none if there is no such file."""
    try:
        with path.open("rb") as file:
            since = since if since <= os.fstat(file.fileno()).st_size else 0
            file.seek(_start_of_last(file, lines, since))
            return file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _start_of_last(file: BinaryIO, lines: int, since: int) -> int:
    """Where the last so many lines begin; reads only the end of a long file."""
    end = position = file.seek(0, os.SEEK_END)
    if lines <= 0:
        return end
    missing = lines
    while position > since:
        start = max(since, position - _BLOCK)
        file.seek(start)
        block = file.read(position - start)
        cut = len(block)
        while True:
            cut = block.rfind(b"\n", 0, cut)
            if cut < 0:
                break
            if start + cut + 1 < end:  # not the end of the last line itself
                missing -= 1
                if missing == 0:
                    return start + cut + 1
        position = start
    return since


class _Out:
    """Standard output: as it is into a pipe, without what a name could make a terminal do, or as objects."""

    def __init__(self, as_json: bool) -> None:
        self._json, self._raw = as_json, not (as_json or sys.stdout.isatty())
        self._rest = b""  # of a line that is not complete

    def copy(self, file: BinaryIO) -> None:
        """All that the file has from here on."""
        while block := file.read(_BLOCK):
            if self._raw:
                sys.stdout.buffer.write(block)
            else:
                *lines, self._rest = (self._rest + block).split(b"\n")
                for line in lines:
                    print(self._shown(line.decode("utf-8", "replace")))
        sys.stdout.flush()

    def end(self) -> None:
        """What was written of a line that has no end."""
        if self._rest:
            print(self._shown(self._rest.decode("utf-8", "replace")), flush=True)

    def _shown(self, line: str) -> str:
        if not self._json:
            return clean(line.expandtabs())
        return line if line.startswith("{") else json.dumps({"line": line})


def _rotated(path: Path, file: BinaryIO) -> bool:
    """Whether the name is now another file, or this one was cut."""
    mine = os.fstat(file.fileno())
    try:
        now = path.stat()
    except FileNotFoundError:
        return False  # in the middle of a rotation
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < file.tell()
