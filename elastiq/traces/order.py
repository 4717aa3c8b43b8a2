"""Rows in any order -> rows by their submission, in bounded memory: sorted lots in a temporary file, then a merge.

Histories are in the order of completion, and a job may have waited for weeks, so no window is large enough. The file
has no name from the beginning (`tempfile.TemporaryFile`): nothing stays behind, however the program ends.
"""

from __future__ import annotations

import errno
import heapq
import marshal
import os
import tempfile
from itertools import chain, islice
from operator import itemgetter, le
from typing import IO, Iterator, Optional

from elastiq.traces.job import TraceError
from elastiq.traces.rows import Row

LOT = 50_000  # rows that are sorted at once: about 15 MB
PIECE = 500  # rows that a merge holds of each lot
_submission = itemgetter(0)
Pieces = list[tuple[int, int]]


class Sorted:
    """All rows, by ``submit_s``; equal ones as they came. ``total``: how many; ``was_so``: they came in this order.

    A `TraceError` if the temporary file cannot be written.
    """

    def __init__(self, rows: Iterator[Row], name: str, lot: Optional[int] = None) -> None:
        self.total, self.was_so = 0, True
        lot = lot or LOT
        self._file: Optional[IO[bytes]] = None
        self._lots: list[Pieces] = []
        self._in_turn = True  # each lot begins after the end of the one before
        last = float("-inf")
        self._rows = list(islice(rows, lot))
        try:
            while self._rows:
                last = self._sort(last)
                more = list(islice(rows, 1))
                if not more and not self._lots:
                    return
                self._spill()
                self._rows = more + list(islice(rows, lot - 1)) if more else []
        except OSError as exc:
            self.close()
            remedy = f"{exc.strerror} (TMPDIR names another place)"
            raise TraceError(f"{name}: its jobs cannot be put in order in {_where()}: {remedy}") from exc
        except BaseException:  # whatever it is, Ctrl-C too: only to leave no file open, and it goes on
            self.close()
            raise

    def _sort(self, last: float) -> float:
        """The last of these."""
        times = [row.submit_s for row in self._rows]
        self.total += len(times)
        self.was_so = self.was_so and last <= times[0] and all(map(le, times, islice(times, 1, None)))
        if not self.was_so:
            self._rows.sort(key=_submission)
        self._in_turn = self._in_turn and last <= self._rows[0].submit_s
        return self._rows[-1].submit_s

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)
        rows, self._rows = self._rows, []
        pieces: Pieces = []
        for start in range(0, len(rows), PIECE):
            data = marshal.dumps([tuple(row) for row in rows[start : start + PIECE]])
            at = self._file.seek(0, os.SEEK_END)
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            pieces.append((at, len(data)))
        self._lots.append(pieces)

    def __iter__(self) -> Iterator[Row]:
        """Once: what was given is forgotten."""
        try:
            lots = [self._lot(pieces) for pieces in self._lots]
            spilled = chain.from_iterable(lots) if self._in_turn else heapq.merge(*lots, key=_submission)
            yield from spilled
            yield from self._rows
        finally:
            self.close()

    def close(self) -> None:
        """The temporary file is gone."""
        if self._file is not None:
            self._file.close()

    def _lot(self, pieces: Pieces) -> Iterator[Row]:
        assert self._file is not None
        for at, size in pieces:
            for row in marshal.loads(os.pread(self._file.fileno(), size, at)):
                yield Row._make(row)


def _where() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "a temporary directory"
