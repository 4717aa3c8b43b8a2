"""Waiting jobs: how many of a group have waited long enough, and what became of launching for it.

Pure. Groups carry no ages, so waiting is measured by the reads: of a group, as many jobs have
waited T seconds as were there in every read of the last T seconds (the least count of that window).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Mapping, Optional

from elastiq.interfaces import JobGroup, Jobs

RECORDS_AT_MOST = 2000  # shapes that nothing served are kept after their jobs left; the oldest go first


class WaitingHistory:
    """The counts of each group over the reads of the last ``window_s`` seconds."""

    def __init__(self, window_s: float) -> None:
        self.window_s, self.keep_s = window_s, 0.0  # counts are kept for the longer of the two
        self._counts: dict[str, list[tuple[float, int]]] = {}
        self._since: dict[str, float] = {}

    def observe(self, began: float, jobs: Jobs) -> None:
        """Take a read that began at a monotonic time. A partial one says nothing of what it lacks."""
        seen: dict[str, int] = {}
        for group in jobs.groups:
            if group.waiting > 0 and not group.not_eligible:
                seen[group.key] = seen.get(group.key, 0) + group.waiting
        for key, count in seen.items():
            counts = self._counts.setdefault(key, [])
            self._since.setdefault(key, began)
            if len(counts) > 1 and counts[-1][1] == counts[-2][1] == count:
                counts.pop()  # while a number stays, its first read and its last say all
            counts.append((began, count))
            # What is needed is the window, and the one read before it that says what was there at its start.
            while len(counts) > 1 and counts[1][0] <= began - max(self.window_s, self.keep_s):
                counts.pop(0)
        for key in self._counts.keys() - seen.keys() if jobs.complete else ():
            del self._counts[key], self._since[key]

    def waited(self, key: str, window_s: Optional[float] = None) -> int:
        """How many jobs of the group have waited for the whole window, or another that is kept, as of the last read."""
        counts = self._counts.get(key, ())
        start = counts[-1][0] - (self.window_s if window_s is None else window_s) if counts else 0.0
        before = [count for began, count in counts if began <= start][-1:]
        return min(before + [count for began, count in counts if began > start]) if before else 0

    def waiting_s(self, key: str, now: float) -> float:
        """For how long the group has had waiting jobs in every read."""
        return max(0.0, now - self._since.get(key, now))


class Standing(enum.Enum):
    """What is known of a group and the machines that were launched for it."""

    UNTRIED = "untried"
    TRYING = "trying"  # launched for; none of it was seen to start yet
    SERVED = "served"
    UNSERVED = "unserved"  # a machine joined, room stood free, and none of it started


@dataclass
class Trial:
    """The record of launching for a group; it survives a restart, so that an impossible job never
    launches twice. ``fingerprint`` is the configuration that it holds for."""

    key: str
    standing: Standing = Standing.UNTRIED
    fingerprint: str = ""
    covered: int = 0  # waiting jobs that launches were made for
    waiting: int = 0  # when the trial began: fewer later, on a machine that was busy, means that it ran
    running: int = 0
    room_s: float = 0.0  # for how long fitting room stood free and unused
    reason: str = ""
    refused_by: tuple[str, ...] = ()  # pools whose machines joined and ran none of it, POOL/FLAVOUR if too small

    def refuses(self, pool: str, flavour: str) -> bool:
        """Whether such a machine is known to run none of it."""
        return not {pool, f"{pool}/{flavour}"}.isdisjoint(self.refused_by)


@dataclass
class Trials:
    """All records, by group key."""

    fingerprint: str = ""
    records: dict[str, Trial] = field(default_factory=dict)
    changed: bool = False

    def get(self, key: str) -> Trial:
        """The record of a group, an untried one where this configuration has none."""
        trial = self.records.get(key)
        return trial if trial and trial.fingerprint == self.fingerprint else Trial(key, fingerprint=self.fingerprint)

    def standing(self, key: str) -> Standing:
        return self.get(key).standing

    def launched(self, group: JobGroup, jobs: int) -> None:
        """Machines for so many of its jobs are about to be asked for."""
        trial = self.records[group.key] = self.get(group.key)
        if trial.standing is not Standing.TRYING:
            trial.standing, trial.covered, trial.room_s = Standing.TRYING, 0, 0.0
            trial.waiting, trial.running = group.waiting, group.running or 0
        trial.covered += jobs
        self.changed = True
        if len(self.records) > RECORDS_AT_MOST:
            del self.records[next(iter(self.records))]

    def observe_jobs(self, jobs: Jobs, ran_something: frozenset[str]) -> None:
        """Learn from a read which groups start after all. ``ran_something``: the groups that a machine
        which ran a job was launched for."""
        groups = {group.key: group for group in jobs.groups}
        for key, trial in list(self.records.items()):
            group = groups.get(key)
            if group is None:
                # An impossible job that is briefly out of sight must not become a new one.
                if jobs.complete and trial.standing is not Standing.UNSERVED:
                    del self.records[key]
                    self.changed = True
                continue
            if trial.standing is Standing.SERVED:
                continue
            more_run = group.running is not None and group.running > trial.running
            fewer_wait = key in ran_something and group.waiting < trial.waiting
            if more_run or fewer_wait:
                trial.standing, trial.reason, trial.room_s, trial.refused_by = Standing.SERVED, "", 0.0, ()
                self.changed = True
            elif group.running is not None and group.running < trial.running:
                trial.running = group.running

    def observe_room(self, free: Mapping[str, tuple[str, frozenset[str]]], seconds: float, limit_s: float) -> None:
        """Learn from another so many observed seconds which groups do not use what they have. ``free``: for
        a group, one machine that was launched for it and has room, or is too small, and the pools where such
        machines have stood free for ``limit_s``, as in `Trial.refused_by`."""
        for key in self.records:
            trial = self.get(key)
            if trial.standing is not Standing.TRYING:
                continue
            where, pools = free.get(key, ("", frozenset()))
            trial.room_s = trial.room_s + seconds if where else 0.0
            if trial.room_s < limit_s or pools <= {*trial.refused_by}:
                continue
            from elastiq.unserved import found_out

            found_out(trial, where, pools)
            trial.standing, self.changed = Standing.UNSERVED, True
