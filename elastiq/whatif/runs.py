"""One simulation after another, or several at once, each in a process of its own; the results come in their order."""

from __future__ import annotations

import multiprocessing
import signal
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Callable, Mapping, Sequence

from elastiq.traces.job import TraceError
from elastiq.whatif import study
from elastiq.whatif.assuming import Supposition
from elastiq.whatif.series import Point, Series
from elastiq.whatif.source import Reached, Seen, Source, Watched
from elastiq.whatif.terms import Result

# By the number of the run: how far it is.
Tell = Callable[[int, Reached], None]


class RunFailed(RuntimeError):
    """A process of ours ended without a result."""


@dataclass(frozen=True)
class Run:
    """What is to be played. ``changes`` are named in its result; ``over_time``: its points are wanted, too."""

    supposed: Supposition
    source: Source
    changes: Mapping[str, str] = field(default_factory=dict)
    over_time: bool = False


@dataclass(frozen=True)
class Outcome:
    result: Result
    seen: Seen
    points: tuple[Point, ...] = ()


def play(run: Run, tell: Callable[[Reached], None]) -> Outcome:
    """Play it in this process. Raises `TraceError` or OSError."""
    supposed = run.supposed
    trace = Watched(run.source.open(), supposed.machines, tell, supposed.assumed.own_size)
    series = Series() if run.over_time else None
    result = study.play(supposed.settings, trace, supposed.assumed, series=series)
    lines = trace.seen.lines  # what became of them is known at the end only
    counts = {"bad_lines": lines.bad, "left_out": sum(lines.left_out.values())}
    result = replace(result, settings=dict(run.changes), **counts)
    return Outcome(result, trace.seen, tuple(series.points()) if series is not None else ())


class Crew:
    """A context: plays runs in this process, or several at once in so many processes of its own.

    They are started anew, since a fork of a process with threads may hang; and blocked for Ctrl-C, which goes to all
    processes of a terminal: this one ends them.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def play(self, runs: Sequence[Run], tell: Tell) -> list[Outcome]:
        """Play all of them. Raises `TraceError`, OSError or `RunFailed`; then, as with Ctrl-C, none goes on."""
        if self._processes < 2 or len(runs) < 2:
            return [play(run, partial(tell, number)) for number, run in enumerate(runs)]
        try:
            while len(self._workers) < min(self._processes, len(runs)):
                self._start()
            return self._shared(runs, tell)
        except BaseException:
            self._end()
            raise

    def _shared(self, runs: Sequence[Run], tell: Tell) -> list[Outcome]:
        left = list(enumerate(runs))[::-1]
        found: dict[int, Outcome] = {}
        at_work: dict[Connection, int] = {}
        for worker in self._workers:
            self._hand_out(worker, left, at_work)
        while at_work:
            for ready in wait(list(at_work)):
                assert isinstance(ready, Connection)
                number, said = at_work[ready], self._heard(ready)
                if isinstance(said, Reached):
                    tell(number, said)
                    continue
                found[number] = said
                del at_work[ready]
                self._hand_out(ready, left, at_work)
        return [found[number] for number in range(len(runs))]

    def _hand_out(self, worker: Connection, left: list[tuple[int, Run]], at_work: dict[Connection, int]) -> None:
        if left:
            at_work[worker], run = left.pop()
            worker.send(run)

    def _heard(self, worker: Connection) -> Any:
        try:
            said = worker.recv()
        except (EOFError, ConnectionError):
            process = self._workers[worker]
            process.join()
            raise RunFailed(f"a simulation ended without a result (exit code {process.exitcode})") from None
        if isinstance(said, BaseException):
            raise said
        return said

    def _start(self) -> None:
        mine, its = self._context.Pipe()
        process = self._context.Process(target=_work, args=(its,), daemon=True)
        # Also while it is being started: half of what it is sent would be a traceback there. Blocked for it to inherit;
        # held back, too, since another thread of this process may get the signal.
        held: list[int] = []
        handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
            self._workers[mine] = process
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            signal.signal(signal.SIGINT, handler)
        its.close()  # so that its end shows here
        if held:
            raise KeyboardInterrupt

    def _end(self) -> None:
        for connection, process in list(self._workers.items()):
            process.terminate()
            process.join()
            connection.close()
            del self._workers[connection]


def _work(orders: Connection) -> None:
    """In another process: one run after another, until nobody is there that wants one."""
    said: Any
    with suppress(EOFError, ConnectionError):
        while True:
            run = orders.recv()
            try:
                said = play(run, orders.send)
            except ConnectionError:
                return
            except (TraceError, OSError) as error:
                denied = error.__context__  # would not come along
                said = denied if isinstance(denied, PermissionError) else error
            orders.send(said)
