"""Tasks over processes, of which each may die or take for ever without the others, or its task, being lost."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Callable, Generic, Iterable, Iterator, Optional, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Finished(Generic[Task, Result]):
    """``result`` is None where the process died or was too slow: ``failure`` says so."""

    task: Task
    result: Optional[Result]
    failure: str = ""


@dataclass(eq=False)
class _Worker(Generic[Task]):
    process: ForkProcess
    pipe: Connection
    task: Optional[Task] = None
    since: float = field(default_factory=time.monotonic)


def work_off(
    function: Callable[[Task], Result], tasks: Iterable[Task], processes: int, limit_s: float
) -> Iterator[Finished[Task, Result]]:
    """The tasks as they finish, each by ``function`` in one of so many forked processes, within ``limit_s``."""
    rest = iter(tasks)
    workers = [_start(function) for _ in range(processes)]
    try:
        for worker in workers:
            _give(worker, rest)
        while any(worker.task is not None for worker in workers):
            ready = set(wait([w.pipe for w in workers if w.task is not None], timeout=1.0))
            for place, worker in enumerate(workers):
                if worker.task is None:
                    continue
                took_s = time.monotonic() - worker.since
                if worker.pipe in ready:
                    finished: Finished[Task, Result] = _receive(worker)
                elif took_s > limit_s:
                    finished = Finished(worker.task, None, f"took longer than {limit_s:g} s")
                else:
                    continue
                if finished.failure:
                    _end(worker)
                    worker = workers[place] = _start(function)
                _give(worker, rest)
                yield finished
    finally:
        for worker in workers:
            _end(worker)


def _start(function: Callable[[Task], Result]) -> _Worker[Task]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(function, theirs, os.getpid()), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(function: Callable[[Task], Result], pipe: Connection, parent: int) -> None:
    while True:
        try:
            # The pipe does not end with a parent that was killed: its other processes hold copies of its side.
            while not pipe.poll(1.0):
                if os.getppid() != parent:
                    return
            task = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(function(task))


def _give(worker: _Worker[Task], rest: Iterator[Task]) -> None:
    worker.task, worker.since = next(rest, None), time.monotonic()
    if worker.task is not None:
        worker.pipe.send(worker.task)


def _receive(worker: _Worker[Task]) -> Finished[Task, Result]:
    assert worker.task is not None
    try:
        return Finished(worker.task, worker.pipe.recv())
    except (EOFError, OSError):
        worker.process.join(5.0)
        return Finished(worker.task, None, f"its process died (exit code {worker.process.exitcode})")


def _end(worker: _Worker[Task]) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join(5.0)
