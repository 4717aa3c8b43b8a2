"""What a reader makes of a file: rows, each a job as its log has it, before they are put in order."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

from elastiq.traces.job import Lines
from elastiq.traces.source import Source

MOST_CPUS = 1e7  # of one job: no machine on earth has more
MOST = 1e15  # of any number: what is above was no number of a batch system
MOST_PARTS = 100_000  # of one job
REMEMBERED = 100_000  # jobs with parents of which loops are looked for
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
        self._split_at = split_at or MOST
        self._parents: dict[str, tuple[str, ...]] = {}

    def rows(self, parse: Callable[[str], Sequence[Row]]) -> Iterator[Row]:
        """What ``parse`` makes of each line; see `take`."""
        for number, line in enumerate(self.source.lines(), 1):
            yield from self.take(number, parse, line)

    def take(self, number: int, parse: Callable[..., Sequence[Row]], *found: object) -> Iterable[Row]:
        """The rows that ``parse`` makes of what was found at a line. It raises `Skip` or `LeftOut` where that is to be
        no job or cannot be one, `ValueError` where it is none at all."""
        try:
            rows = parse(*found)
            for row in rows:
                why = self._fault(row)
                if why:
                    raise ValueError(why)
        except (ValueError, ArithmeticError) as exc:
            self.tally.is_bad(number, " ".join(str(exc).split())[:100])
        except LeftOut as exc:
            self.tally.leave_out(str(exc))
        except Skip as exc:
            self.tally.skip(str(exc))
        else:
            return rows if not rows or not rows[0].after else [self._without_loops(row) for row in rows]
        return ()

    def _fault(self, row: Row) -> str:
        """False comparisons are true for nan."""
        submit_s, run_s, cpus, memory_mb, disk_mb, gpus, parts, _name, removed_after_s, _after, think_s = row
        if not -MOST < submit_s < MOST:
            return "no time of submission"
        if not 0 <= run_s < MOST:
            return "no run time" if not run_s < 0 else "a negative run time"
        if not 0 <= (cpus or 0) <= MOST_CPUS:
            return "no number of cpus"
        if not (0 <= (memory_mb or 0) < MOST and 0 <= (disk_mb or 0) < MOST and 0 <= (gpus or 0) < MOST):
            return "a size that is none"
        if not (0 <= (removed_after_s or 0) < MOST and 0 <= think_s < MOST):
            return "a time that is none"
        if not 1 <= parts * max(1.0, (cpus or 0) / self._split_at) <= MOST_PARTS:
            return "a job of no part or too many"
        return ""

    def _without_loops(self, row: Row) -> Row:
        """A job that waits for itself, or for one that waits for it, would wait for ever."""
        after = tuple(name for name in row.after if name != row.name)
        if len(after) < len(row.after):
            self.tally.note("waits for itself")
        mutual = [name for name in after if row.name in self._parents.get(name, ())]
        if mutual:
            self.tally.note("waits for a job that waits for it")
            after = tuple(name for name in after if name not in mutual)
        if after and row.name and len(self._parents) < REMEMBERED:
            self._parents[row.name] = after
        return row._replace(after=after)
