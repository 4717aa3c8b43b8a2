"""Draining by ``qmod -d QUEUE@HOST``: no further job is dispatched there, those that run go on (qmod(1)).

It is not atomic: a job can be dispatched between the look and the act. So it is disabled, looked at again, and enabled
if a job slipped in. What was dispatched before shows in the second look, as the master itself hands out jobs; what its
scheduler had decided on a view from before the act, the master refuses, since disabling changes the queue's version.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Optional

from elastiq.errors import SourceError
from elastiq.interfaces import DrainAnswer, DrainMode, DrainOutcome
from elastiq.plugins.batch import careful_drain
from elastiq.plugins.batch.gridengine_hosts import Host
from elastiq.plugins.batch.gridengine_marks import Marks
from elastiq.plugins.batch.gridengine_master import Master, NotAllowed


class Drain:
    """One drain of one host."""

    def __init__(self, master: Master, marks: Marks, worker: str) -> None:
        self._master, self._marks, self._worker = master, marks, worker
        self._closed: list[str] = []
        self._seen: Optional[Host] = None

    def begin(self, mode: DrainMode) -> DrainAnswer:
        """Raises `SourceError` where it is not known whether it is in effect."""
        try:
            return careful_drain.drain(mode, self._jobs_there, self._close, self._reopen)
        except NotAllowed as error:
            return DrainAnswer(DrainOutcome.REFUSED, str(error))

    def _look(self) -> Host:
        self._seen = self._master.host(self._worker)
        if self._seen is None or not self._seen.queues:
            raise NotAllowed(f"{self._worker} is in no queue")
        return self._seen

    def _jobs_there(self) -> int:
        host = self._look()
        return max(len(host.jobs), 1 if host.slots_used else 0)

    def _close(self) -> None:
        host = self._seen or self._look()
        self._closed = [queue.name for queue in host.queues if not queue.disabled]
        if not self._closed:
            if not self._marks.ours(host.name):
                raise NotAllowed("somebody else has disabled its queues")
            return
        try:
            self._marks.set(host.name, self._closed)
            self._master.change("qmod", "-d", *self._instances(host))
        except NotAllowed:
            self._marks.clear(host.name, self._closed)
            raise
        except SourceError:
            self._undo()
            raise

    def _undo(self) -> None:
        """What may have been done. Where that fails too, the next look shows what is so."""
        with suppress(SourceError):
            self._reopen()

    def _reopen(self) -> None:
        host = self._seen
        if host is not None and self._closed:
            self._master.change("qmod", "-e", *self._instances(host))
            self._marks.clear(host.name, self._closed)

    def _instances(self, host: Host) -> list[str]:
        return [f"{queue}@{host.name}" for queue in self._closed]


def undrain(master: Master, marks: Marks, worker: str) -> None:
    """Enable what we have disabled; what somebody else has is left alone, which is an error if it is all of it."""
    host = master.host(worker)
    if host is None:
        return
    ours = marks.ours(host.name)
    closed = [queue.name for queue in host.queues if queue.disabled]
    enable = [f"{name}@{host.name}" for name in closed if name in ours]
    if host.queues and len(closed) == len(host.queues) and not enable:
        raise SourceError(f"{worker} was not disabled by us: it is left alone (qmod -e '*@{host.name}' enables it)")
    if enable:
        master.change("qmod", "-e", *enable)
    marks.clear(host.name, ours)
