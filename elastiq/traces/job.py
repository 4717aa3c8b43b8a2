"""What every reader of traces gives: jobs in the order of their submission, and what became of the lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, NamedTuple, Optional, Protocol

from elastiq.interfaces import Resources

SHOWN = 5  # line numbers of each kind that a person is shown


KINDS = 20  # of what is wrong with lines, that are told apart
OTHERS = "something else"


class BadLine(ValueError):
    """A line is no job: ``what`` is wrong with it, the same words for all such lines, and with which of its text."""

    def __init__(self, what: str, text: object = None) -> None:
        shown = "" if text is None else f": {text if isinstance(text, (int, float)) else repr(str(text)[:40])}"
        self.what = what
        super().__init__(what + shown)


class TraceError(ValueError):
    """The file is no trace that can be read. One line, with the path and, where there is one, the line."""


class TraceJob(NamedTuple):
    """One job of a trace.

    ``at_s`` is when it was submitted, in seconds since the first job of the trace. ``run_s`` is how long it ran on
    what it asked for. ``removed_after_s``: it was removed so many seconds after its submission while it waited, and
    is removed again if it waits then. ``after`` names jobs of the same trace that must have ended before this one is
    submitted, ``think_s`` later; a name that is not known, or of a job that ended, or that comes at a later time, holds
    nothing up. Jobs of one name are parts of one: it has ended when all of them have. Of one time, parents may come
    after their children; none waits for itself, by others neither.
    """

    at_s: float
    request: Resources
    run_s: float
    name: str = ""
    removed_after_s: Optional[float] = None
    after: tuple[str, ...] = ()
    think_s: float = 0.0


@dataclass
class BadKind:
    """Lines with which the same is wrong: how many, the first numbers, and what it is in the first of them."""

    example: str
    count: int = 0
    numbers: list[int] = field(default_factory=list)


@dataclass
class Lines:
    """What became of the lines of a trace; complete once it was iterated over to its end."""

    jobs: int = 0  # that are given, each part of a job of several machines by itself
    cancelled: int = 0  # of these: removed while they waited
    left_out: dict[str, int] = field(default_factory=dict)  # no fault of the line: by the reason in a few words
    skipped: dict[str, int] = field(default_factory=dict)  # lines that are to be no job, as a job's steps: by what
    noted: dict[str, int] = field(default_factory=dict)  # jobs that are given, but not quite as their line says: by why
    noted_lines: dict[str, list[int]] = field(default_factory=dict)  # the first numbers of these, where they are known
    unused: tuple[str, ...] = ()  # columns of which nothing is read
    bad: int = 0  # that are no jobs at all
    bad_lines: list[int] = field(default_factory=list)  # the first numbers of these, from 1
    bad_kinds: dict[str, BadKind] = field(default_factory=dict)  # by what is wrong with them

    @property
    def bad_why(self) -> str:
        """What is wrong with the first of them."""
        return next((kind.example for kind in self.bad_kinds.values()), "")

    def is_bad(self, number: int, fault: BadLine) -> None:
        """Count a line that is none."""
        self.bad += 1
        known = fault.what in self.bad_kinds or len(self.bad_kinds) < KINDS
        kind = self.bad_kinds.setdefault(fault.what if known else OTHERS, BadKind(str(fault) if known else OTHERS))
        kind.count += 1
        for numbers in (self.bad_lines, kind.numbers):
            if len(numbers) < SHOWN:
                numbers.append(number)

    def leave_out(self, why: str) -> None:
        """Count a job that cannot be played, as one of which no run time is known."""
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def skip(self, what: str) -> None:
        """Count a line that is to be no job."""
        self.skipped[what] = self.skipped.get(what, 0) + 1

    def note(self, why: str, number: int = 0) -> None:
        """Count a job that is given, but not quite as its line says; 0: which line is of no interest."""
        self.noted[why] = self.noted.get(why, 0) + 1
        if number:
            numbers = self.noted_lines.setdefault(why, [])
            if len(numbers) < SHOWN:
                numbers.append(number)


class Trace(Protocol):
    """A file of jobs. Iterate over it as often as you like: it is read anew each time, and memory stays flat.

    Iterating raises `TraceError` or `OSError`.
    """

    @property
    def format(self) -> str:
        """Of the file, by its name for a person."""

    @property
    def lines(self) -> Lines:
        """Of the last iteration: another object for each, or as it was when it is asked for."""

    @property
    def began_at(self) -> Optional[float]:
        """The wall time of the first job's submission where the trace has one, after the first job was given."""

    def __iter__(self) -> Iterator[TraceJob]:
        """The jobs by ``at_s``, ascending."""

    def read_part(self) -> float:
        """How much of the trace was given, 0 to 1: for a progress bar."""
