"""What can be found wrong with the executables before the first drain: `elastiqctl check`. Those that only read are
run; those that act are only looked at. docs/batch/command.md says what each means.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from functools import partial
from typing import TYPE_CHECKING, Callable, Iterable, Iterator

from elastiq.interfaces import Check, Jobs, Looks, SourceError, UnsupportedError, Workers

if TYPE_CHECKING:
    from elastiq.plugins.batch.command import Command

DOCS = "docs/batch/command.md"
SLOW = 0.5  # of the time-out
FIRST_LINE = 256  # bytes of it that the kernel reads: execve(2)
BY_HAND = "run it by hand as the user of elastiq"


def looks(batch: Command) -> Looks:
    """The checks, each by its subject."""
    reads: dict[str, Callable[[Command, str], Iterable[Check]]] = {
        "jobs": _jobs,
        "workers": _workers,
        "recorded jobs": _recorded,
    }
    return {
        "executables": partial(_executables, batch, "executables"),
        **{subject: partial(look, batch, subject) for subject, look in reads.items()},
        "drain": partial(_drain, batch, "drain"),
    }


def _executables(batch: Command, subject: str) -> Iterator[Check]:
    wrong = [check for key, path in batch.executables.items() for check in _of_file(subject, key, path)]
    yield from wrong
    if not wrong:
        yield Check(subject, "ok", f"can be executed: {', '.join(batch.executables)}")


def _of_file(subject: str, key: str, path: str) -> Iterator[Check]:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        yield Check(subject, "error", f"`{key}`: {path}: {error.strerror}", "mend the path in [command]")
        return
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "no file"
        yield Check(subject, "error", f"`{key}`: {path} is {what}", "name the executable in [command]")
        return
    if not os.access(path, os.X_OK):
        yield Check(subject, "error", f"`{key}`: {path} may not be executed by this user", f"chmod a+x {path}")
        return
    if mode & stat.S_IWOTH:
        text = f"`{key}`: everybody on this machine may write {path}, which elastiq runs"
        yield Check(subject, "warning", text, f"chmod o-w {path}")
    try:
        with open(path, "rb") as file:
            head = file.readline(FIRST_LINE)
    except OSError:
        return  # a program need not be readable to be executed
    if not head.startswith((b"#!", b"\x7fELF")):
        yield Check(subject, "error", f"`{key}`: {path} is no program", "let its first line say #!/bin/sh, or the like")
    elif head.startswith(b"#!") and (wrong := _interpreter(head[2:].rstrip(b"\n").decode("utf-8", "replace"))):
        remedy = f"sed -i 's/\\r$//' {path}" if "\\r" in wrong else f"mend the first line of {path}"
        yield Check(subject, "error", f"`{key}`: {path} cannot start: {wrong}", remedy)


def _interpreter(line: str) -> str:
    """What keeps the program of a line after ``#!`` from starting, empty if nothing. The kernel takes the words between
    blanks and tabs (execve(2)), so that a carriage return is a part of the last."""
    words = re.split(r"[ \t]+", line.strip(" \t"))
    name = words[0]
    if os.path.basename(name) == "env" and os.access(name, os.X_OK):  # env(1): looks the next word up on the PATH
        name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), name)
    if shutil.which(name) is None:  # a path is looked at as it is
        windows = " (line ends of Windows?)" if name.endswith("\r") else ""
        return f"its interpreter `{name}` does not exist{windows}".replace("\r", "\\r")
    return "the line ends of Windows: `\\r` goes to its interpreter" if line.endswith("\r") else ""


def _timed(batch: Command, subject: str, took_s: float, found: str) -> Check:
    text = f"{found}, in {took_s:.1f} s"
    if took_s < SLOW * batch.timeout_s:
        return Check(subject, "ok", text)
    text = f"{text} of the {batch.timeout_s:g} s that it has"
    return Check(subject, "warning", text, "make it faster, or command_timeout_s longer")


def _jobs(batch: Command, subject: str) -> Iterator[Check]:
    began = time.monotonic()
    try:
        jobs = batch.jobs()
    except SourceError as error:
        yield Check(subject, "error", str(error), f"{BY_HAND} ({DOCS})")
        return
    yield _timed(batch, subject, time.monotonic() - began, f"valid: {_counted(jobs)}")
    yield from _missing(subject, jobs)


def _counted(jobs: Jobs) -> str:
    waiting = sum(group.waiting for group in jobs.groups)
    running = [group.running for group in jobs.groups if group.running is not None]
    untold = ", those that run not counted: it does not say lists_running" if jobs.groups else ""
    listed = f", {sum(running)} running" if running else untold
    return f"{waiting} waiting, in {_count(len(jobs.groups), 'group')}{listed}"


def _workers(batch: Command, subject: str) -> Iterator[Check]:
    began = time.monotonic()
    try:
        found = batch.workers()
    except SourceError as error:
        yield Check(subject, "error", str(error), f"{BY_HAND} ({DOCS})")
        return
    yield _timed(batch, subject, time.monotonic() - began, f"valid: {_count(len(found.workers), 'worker')}")
    yield from _missing(subject, found)
    for problem in _unknown_machines(found):
        yield Check(subject, "warning", problem, "print all its IP addresses, and instance_id where it is known")


def _unknown_machines(found: Workers) -> Iterator[str]:
    nameless = [worker.name for worker in found.workers if not (worker.addresses or worker.instance_id)]
    if nameless:
        more = f" (and {len(nameless) - 1} more)" if len(nameless) > 1 else ""
        yield f"nothing tells which machine {nameless[0]}{more} is: no address, no instance_id"


def _missing(subject: str, found: Jobs | Workers) -> Iterator[Check]:
    if found.missing:
        text = f"the answer is incomplete, and nothing is ended meanwhile: {'; '.join(found.missing)}"
        yield Check(subject, "warning", text, "see why that part does not answer")


def _recorded(batch: Command, subject: str) -> Iterator[Check]:
    """Of the workers that are there; of one that is unknown where there is none."""
    began = time.monotonic()
    try:
        names = [worker.name for worker in batch.workers().workers]
        found = batch.jobs_recorded_on(names or ["none"])
    except UnsupportedError as error:
        yield Check(subject, "warning", f"{error}; a machine that is lost is kept until a person ends it", DOCS)
    except SourceError as error:
        yield Check(subject, "error", str(error), f"{BY_HAND} ({DOCS})")
    else:
        text = f"valid: {sum(found.values())} on {_count(len(names), 'worker')}"
        yield _timed(batch, subject, time.monotonic() - began, text)


def _drain(batch: Command, subject: str) -> Iterator[Check]:
    if not batch.can_drain:
        text = "`drain` is not set: a job that starts right before a machine's end is lost with it"
        yield Check(subject, "warning", text, f"let elastiq drain, if the system can ({DOCS})")
    else:
        yield Check(subject, "ok", "`drain` and `undrain` are set; nothing was drained to try them")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
