"""A file of text, zipped or not, or standard input: read in blocks and lines, as often as one likes."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import stat
import sys
import tempfile
import zlib
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, Iterator, Optional, cast

from elastiq.traces.job import TraceError

BLOCK = 1 << 18
LONGEST = 1 << 22  # characters of a line: a file of garbage may be one line
HEAD = 1 << 16  # characters by which a format is recognised
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r\f\v\x1b"})
# The first bytes of what is packed, as file(1) knows them: ours are opened, of the others the remedy is said.
PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "lzma"}
FOREIGN = {b"\x28\xb5\x2f\xfd": "zstdcat", b"PK\x03\x04": "unzip -p", b"\x1f\x9d": "zcat"}


class Source:
    """``path`` may be ``-``. What can be read only once, as a pipe, is kept in a temporary file that has no name.

    Whatever goes wrong is a `TraceError`.
    """

    def __init__(self, path: str) -> None:
        self.name = "standard input" if path == "-" else path if path.isprintable() else repr(path)
        self._path = path
        self._kept: Optional[IO[bytes]] = None
        self._rest: Optional[BinaryIO] = None  # what is still to be kept comes from there
        with self._faults():
            self._keep()
            first = self._start()
        for magic, command in FOREIGN.items():
            if first.startswith(magic):
                raise TraceError(f"{self.name}: is packed: {command} {path} | elastiqctl simulate - ...")
        self._module = next((name for magic, name in PACKED.items() if first.startswith(magic)), "")
        if self._module:
            self.complete()
        self._encoding = "utf-8-sig"
        with self._faults(), self._open() as file:
            head = file.read(HEAD)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # so PowerShell writes files
            self._encoding = "utf-16"
        # Not refused for it: zeros are what a log is left with when a machine lost its power.
        self.is_binary = self._encoding != "utf-16" and b"\0" in head
        text = head.replace(b"\0", b"")
        controls = len(text) - len(text.translate(None, _CONTROLS))
        self.is_garbage = self.is_binary and (2 * len(text) < len(head) == HEAD or 20 * controls > len(text))
        if not head.strip():
            raise TraceError(f"{self.name}: is empty")

    def _keep(self) -> None:
        """Of what can be read only once, its beginning: it may be a device without an end."""
        if self._path == "-":
            self._rest = sys.stdin.buffer
        elif not stat.S_ISREG(os.stat(self._path).st_mode):
            self._rest = open(self._path, "rb")  # a directory: the error says so
        else:
            return
        self._kept = tempfile.TemporaryFile()
        self._kept.write(self._rest.read(HEAD))
        self._kept.flush()

    def complete(self) -> None:
        """Keep all of what can be read only once: it is a trace. Before, only `head` may be asked for."""
        rest, self._rest = self._rest, None
        if rest is not None and self._kept is not None:
            with self._faults(), _left_open(rest) if self._path == "-" else rest:
                shutil.copyfileobj(rest, self._kept)
                self._kept.flush()

    def _raw(self) -> BinaryIO:
        return open(self._path, "rb") if self._kept is None else io.BufferedReader(_Anew(self._kept), BLOCK)

    def _start(self) -> bytes:
        with self._raw() as file:
            return file.read(8)

    def _open(self) -> BinaryIO:
        raw = self._raw()
        if not self._module:
            return raw
        if self._module == "gzip":
            import gzip

            return cast(BinaryIO, _Both(gzip.GzipFile(fileobj=raw), raw))
        if self._module == "bz2":
            import bz2

            return cast(BinaryIO, _Both(bz2.BZ2File(raw), raw))
        import lzma

        return cast(BinaryIO, _Both(lzma.LZMAFile(raw), raw))

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error) as exc:
            raise TraceError(f"{self.name}: is damaged: {exc}") from exc
        except ImportError as exc:
            raise TraceError(f"{self.name}: this Python cannot unpack it: {exc}") from exc
        except OSError as exc:
            # What unpacks raises it without a number.
            raise TraceError(f"{self.name}: {exc.strerror if exc.errno else f'is damaged: {exc}'}") from exc
        except UnicodeError as exc:
            raise TraceError(f"{self.name}: is no text: {exc.reason if hasattr(exc, 'reason') else exc}") from exc
        except Exception as exc:  # to find lzma's own, whose module may not be there to be named: all others go on
            if type(exc).__name__ != "LZMAError":
                raise
            raise TraceError(f"{self.name}: is damaged: {exc}") from exc

    def identity(self) -> tuple[int, ...]:
        """Changes when the file does."""
        if self._kept is not None:
            return ()
        with self._faults():
            found = os.stat(self._path)
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def blocks(self) -> Iterator[str]:
        """The text, in pieces. What is no text in its encoding stays visible as ``\\xNN``."""
        decoder = codecs.getincrementaldecoder(self._encoding)("backslashreplace")
        with self._faults(), self._open() as file:
            while True:
                block = file.read(BLOCK)
                text = decoder.decode(block, not block)
                if text:
                    yield text
                if not block:
                    return

    def lines(self) -> Iterator[str]:
        """Without their ends. Of a line longer than any log's only the beginning is given."""
        rest, cut = "", False
        for text in self.blocks():
            lines = (rest + text).split("\n")
            rest = lines.pop()
            for line in lines:
                if not cut:
                    yield line
                cut = False
            if len(rest) > LONGEST:
                if not cut:
                    yield rest[:HEAD]
                rest, cut = "", True
        if rest and not cut:
            yield rest

    def head(self) -> list[str]:
        """The first lines, to recognise a format by."""
        text = next(self.blocks(), "")[:HEAD]
        lines = text.splitlines()
        return lines[:-1] if len(text) == HEAD and len(lines) > 1 else lines


class _Anew(io.RawIOBase):
    """A file that others read too, from its beginning, whatever its position is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._file.fileno(), len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Both:
    """Closes what unpacks and what is unpacked."""

    def __init__(self, outer: Any, inner: BinaryIO) -> None:
        self._outer, self._inner = outer, inner
        self.read = outer.read

    def __enter__(self) -> _Both:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._outer.close()
        self._inner.close()


@contextmanager
def _left_open(file: BinaryIO) -> Iterator[BinaryIO]:
    yield file
