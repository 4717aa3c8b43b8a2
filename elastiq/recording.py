"""What was seen of the queue, kept for `elastiqctl record`, which makes jobs of it.

One text file a day (UTC) in the state directory's folder, only ever appended to; a write that was cut off spoils one
line. An unknown queue leaves no line: what is not there was not seen. The lines:

    elastiq queue 1             what was said before holds no more; the next look has every group that has jobs
    = N ["KEY", CPUS, MEMORY_MB, DISK_MB, GPUS, NODES]      group N from now on
    AT N:WAITING:RUNNING ...    a complete look, its wall time, and what differs from the look before. WAITING is `-`
                                where they could not run as they are, RUNNING where the system does not say it
"""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

from elastiq.core import Core
from elastiq.interfaces import JobGroup, Jobs

HEADER = "elastiq queue 1"  # another number for what an older reader would misunderstand
FOLDER = "queue"
ALIVE_S = 300.0  # a line at least so often while the queue is known
# Not more often than this; twice as seldom with each STEP (bytes) of a day's file, which thus comes to about seven.
PAUSE_S, STEP, DAY_S = 10.0, 1_000_000, 86_400.0
GROUPS_AT_MOST = 2000  # that are remembered
ROOM = 50_000_000  # bytes on the disk that are left to others, as to the store


class Recording:
    """Keeps what `take` is told of in ``folder``."""

    def __init__(self, core: Core, folder: Path) -> None:
        self._core, self._folder = core, folder
        self._day, self._due, self._alive_due = "", 0.0, 0.0
        self._numbers: dict[str, int] = {}
        self._said: dict[str, str] = {}  # of each group that had jobs in the last line

    def take(self, jobs: Jobs) -> None:
        """A read came just now. That it cannot be kept is told, and harms nothing else."""
        core, days = self._core, self._core.settings.record_days
        if not days or not jobs.complete or core.now() < self._due:
            return
        try:
            self._take(jobs, days)
            core.tell("record", "")
        except OSError as error:
            self._day, self._due = "", core.now() + ALIVE_S  # how much was written is not known: begin anew
            core.tell("record", f"{self._folder}: {error.strerror}: the queue is not recorded, all else goes on")

    def _take(self, jobs: Jobs, days: int) -> None:
        now, at, lines = self._core.now(), self._core.wall(), []
        day = time.strftime("%Y-%m-%d", time.gmtime(at))
        if day != self._day or len(self._numbers) > GROUPS_AT_MOST:
            self._begin(days)
            lines += ["", HEADER]  # without an empty line between, the line before was cut off
        said = {group.key: _counts(group) for group in jobs.groups if group.waiting or group.running}
        for group in jobs.groups:
            if group.key in said and group.key not in self._numbers:
                number = self._numbers[group.key] = len(self._numbers)
                lines.append(f"= {number} {json.dumps([group.key, *vars(group.request).values(), group.nodes])}")
        gone = dict.fromkeys(self._said.keys() - said.keys(), "0:0")
        changed = [(key, text) for key, text in {**gone, **said}.items() if self._said.get(key) != text]
        if changed or lines or now >= self._alive_due:
            lines.append(" ".join([f"{int(at)}", *(f"{self._numbers[key]}:{text}" for key, text in changed)]) + "\n")
            with open(self._folder / f"{day}.txt", "a", encoding="ascii") as file:
                file.write("\n".join(lines))
                size = file.tell()
            self._day, self._said, self._alive_due = day, said, now + ALIVE_S
            self._due = now + min(PAUSE_S * 2 ** min(size // STEP, 20), DAY_S - at % DAY_S)

    def _begin(self, days: int) -> None:
        """A file anew, or one more part of it; the oldest files go."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for old in sorted(self._folder.glob("*.txt"))[:-days]:
            old.unlink()
        if (disk := os.statvfs(self._folder)).f_bavail * disk.f_frsize < ROOM:
            raise OSError(errno.ENOSPC, f"less than {ROOM // 1_000_000} MB are free")
        self._numbers, self._said = {}, {}


def _counts(group: JobGroup) -> str:
    return f"{'-' if group.not_eligible else group.waiting}:{'-' if group.running is None else group.running}"
