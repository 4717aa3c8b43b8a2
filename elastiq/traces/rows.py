"""What a reader makes of a file: rows, each a job as its log has it, before they are put in order."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

from elastiq.traces.job import BadLine, Lines
from elastiq.traces.source import Source

MOST_CPUS = 1e7  # of one job: no machine on earth has more
MOST = 1e15  # of any number: what is above was no number of a batch system
LONGEST_S = 10 * 366 * 86_400.0  # of a run: what is above was no duration, or in another unit
MOST_PARTS = 100_000  # of one job
EPOCH = 1e8  # a time above is seconds since 1970 (1973), one below counts from the log's beginning


class Row(NamedTuple):
    """``parts`` alike parts of a job; times are absolute or relative, as the log has them. See `TraceJob`."""

    submit_s: float
    run_s: float
    cpus: Optional[float]
    memory_mb: Optional[float] = None
    disk_mb: Optional[float] = None
    gpus: Optional[float] = None
    parts: int = 1
    name: str = ""
    removed_after_s: Optional[float] = None
    after: tuple[str, ...] = ()
    think_s: float = 0.0
    line: int = 0  # where it is in the file, of one that waits for others


class Skip(Exception):
    """This line is to be no job: what it is instead."""


class LeftOut(Exception):
    """A job that cannot be played: why."""


class Format(NamedTuple):
    """A format of logs. ``looks_like`` is asked with a file's first lines."""

    name: str
    title: str
    looks_like: Callable[[Sequence[str]], bool]
    read: Callable[[Reading], Iterator[Row]]


class Reading:
    """One pass over a file: counts what becomes of its lines. ``header`` is what the file says of itself."""

    def __init__(self, source: Source, tally: Lines, split_at: Optional[float] = None) -> None:
        self.source = source
        self.tally = tally
        self.header: dict[str, str] = {}
        self.waits = False  # whether any job waits for others
        self._split_at = split_at or MOST

    def rows(self, parse: Callable[[str], Sequence[Row]]) -> Iterator[Row]:
        """What ``parse`` makes of each line; see `take`."""
        for number, line in enumerate(self.source.lines(), 1):
            yield from self.take(number, parse, line)

    def take(self, number: int, parse: Callable[..., Sequence[Row]], *found: object) -> Iterable[Row]:
        """The rows that ``parse`` makes of what was found at a line. It raises `Skip` or `LeftOut` where that is to be
        no job or cannot be one, `BadLine` where it is none at all."""
        try:
            rows = parse(*found)
            waits = False
            for row in rows:
                self._check(row)
                waits = waits or bool(row.after)
        except BadLine as exc:
            self.tally.is_bad(number, exc)
        except (ValueError, ArithmeticError):  # of a number that no log has, as one of 5,000 digits
            self.tally.is_bad(number, BadLine("a number that is none"))
        except LeftOut as exc:
            self.tally.leave_out(str(exc))
        except Skip as exc:
            self.tally.skip(str(exc))
        else:
            if not waits:
                return rows
            self.waits = True
            return [row._replace(line=number) for row in rows]
        return ()

    def _check(self, row: Row) -> None:
        """Raises `BadLine`."""
        submit_s, run_s, cpus, memory_mb, disk_mb, gpus, parts, _name, removed_after_s, _after, think_s, _line = row
        # All at once: a million jobs are as they should be. What is no number (nan) is none of these.
        if not (
            -MOST < submit_s < MOST
            and 0 <= run_s < LONGEST_S
            and 0 <= (cpus or 0) <= MOST_CPUS
            and 0 <= (memory_mb or 0) < MOST
            and 0 <= (disk_mb or 0) < MOST
            and 0 <= (gpus or 0) < MOST
            and 0 <= (removed_after_s or 0) < LONGEST_S
            and 0 <= think_s < LONGEST_S
            and parts >= 1
        ):
            raise _fault(row)
        if (parts > 1 or (cpus or 0) > self._split_at) and (
            all_parts := parts * max(1.0, (cpus or 0) / self._split_at)
        ) > MOST_PARTS:
            raise BadLine("a job of too many parts", all_parts)


def _fault(row: Row) -> BadLine:
    """What of a row is out of all bounds."""
    submit_s, run_s, cpus, memory_mb, disk_mb, gpus, _parts, _name, removed_after_s, _after, think_s, _line = row
    if not -MOST < submit_s < MOST:
        return BadLine("a time of submission that is none", submit_s)
    if not 0 <= run_s < LONGEST_S:
        return BadLine("a negative run time" if run_s < 0 else "too long a run time", run_s)
    if not 0 <= (cpus or 0) <= MOST_CPUS:
        return BadLine("less than no cpus" if (cpus or 0) < 0 else "too many cpus", cpus)
    for what, size in (("much memory", memory_mb), ("much disk", disk_mb), ("many gpus", gpus)):
        if size is not None and not 0 <= size < MOST:
            return BadLine(f"less than no {what.split()[1]}" if size < 0 else f"too {what}", size)
    for what, time_s in (("removed_after", removed_after_s), ("think", think_s)):
        if time_s is not None and not 0 <= time_s < LONGEST_S:
            return BadLine(f"a time of {what} that is none", time_s)
    return BadLine("a job of no part", row.parts)
