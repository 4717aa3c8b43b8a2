"""Grid Engine, asked by its own commands, each in a child process with a deadline.

``qstat`` says what waits, ``qhost`` which hosts there are with their queues and jobs. A host is drained by ``qmod -d``
(`gridengine_drains`), with a mark that says whose drain it is (`gridengine_marks`). A new instance is registered before
its execd can join, an ended one is removed (`gridengine_registration`).

Real with Son of Grid Engine 8.1.9 (Debian 12, 13). Univa and Altair Grid Engine 8.6 and Open Cluster Scheduler 9 have
the same commands and, as far as they document them, the same answers.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import (
    BatchSystem,
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    Instance,
    JobGroup,
    Jobs,
    Looks,
    Machine,
    Owner,
    Workers,
)
from elastiq.plugins.batch import gridengine_jobs as queue
from elastiq.plugins.batch.gridengine_drains import Drain, undrain
from elastiq.plugins.batch.gridengine_hosts import Host, worker
from elastiq.plugins.batch.gridengine_marks import Marks
from elastiq.plugins.batch.gridengine_master import Master
from elastiq.plugins.batch.gridengine_names import Names
from elastiq.plugins.batch.gridengine_options import OPTIONS, values_by_kind
from elastiq.plugins.batch.gridengine_registration import Registration


class GridEngine(BatchSystem):
    """A cluster: one master, one cell."""

    section = "gridengine"
    OPTIONS = OPTIONS
    can_match = True
    keeps_records = True

    def __init__(self, values: Mapping[str, Any], owner: Owner) -> None:
        self._master = Master(values)
        self._marks = Marks(self._master, owner.mark)
        self._names = Names(values["command_timeout_s"])
        self._registration = Registration(self._master, self._names, values, owner)
        self._values, self._mark = values, owner.mark
        self._stale: Optional[dict[str, list[str]]] = None  # marks that an earlier run has left on open queues
        self.can_drain = bool(values["drain"])
        self.registers = bool(values["register"])
        self.call_deadline_s = 6 * float(values["command_timeout_s"])  # an act is several commands

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> GridEngine:
        return cls(values, owner)

    # ------------------------------------------------------------------ the queue

    def jobs(self) -> Jobs:
        """The waiting jobs of all users. One answer has all of them: nothing can be missing."""
        found = self._master.rows()
        waiting = [job for job in found if job.waits]
        later = self._master.later() if waiting else frozenset[str]()
        arrays = sorted({job.id for job in waiting if job.is_array and job.id not in later}, key=int)
        site = self._master.site(found)
        at_once = self._master.at_once(arrays) if arrays else {}
        return Jobs(queue.groups(found, site, later, at_once))

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        """How many jobs the master records on these hosts, heard from or not; one that it does not know has none."""
        known = {host.name.lower(): len(host.jobs) for host in self._master.hosts()} if workers else {}
        return {name: known.get(name, 0) for name in workers}

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        """As "12 (alice)", a task of an array as "12.3 (alice)"."""
        host = self._master.host(worker)
        jobs = host.jobs if host else ()
        return tuple(f"{number}{task and '.' + task}{owner and f' ({owner})'}" for number, task, owner in jobs)

    def find_job(self, job: str) -> tuple[str, str]:
        """Of "12", or "12.3" for a task of an array; only what the queue holds."""
        from elastiq.plugins.batch.gridengine_lookups import find_job

        return find_job(job, self._master, lambda: self.jobs().groups)

    # ------------------------------------------------------------------ the workers

    def workers(self) -> Workers:
        """The hosts that the master hears from. One that it does not is none: powered off, not booted yet, or dead."""
        found = self._master.hosts()
        up_s = self._master.up_s()  # last: one that restarted between the two reads is called young
        alive = [host for host in found if host.reports]
        self._names.look_up(host.name for host in alive)
        # Only now: a mark is set before a queue is disabled, and taken away after it is enabled.
        looks_disabled = any(queue.disabled for host in alive for queue in host.queues)
        marks = self._marks.all() if looks_disabled or self._stale is None else {}
        if self._stale is None:
            self._stale = {host.name: stale for host in found if (stale := self._left(host, marks))}
        memory, gpus = self._values["memory_complexes"], self._values["gpu_complexes"]
        workers = [
            worker(host, self._names.addresses(host.name), _drained_by(host, marks), memory, gpus) for host in alive
        ]
        return Workers(tuple(sorted(workers, key=lambda one: one.name)), up_s)

    def _left(self, host: Host, marks: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Marks of ours on queues that are open: of a drain that was broken off before its act."""
        disabled = {queue.name for queue in host.queues if queue.disabled}
        ours = {queue for queue, head in marks.get(host.name.lower(), {}).items() if head == self._mark}
        return sorted(ours - disabled)

    def _tidy(self) -> None:
        """Take such marks away before the first act, so that no ``qmod -d`` of a person is taken for ours later."""
        while self._stale:
            self._marks.clear(*self._stale.popitem())

    # ------------------------------------------------------------------ drain

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        if not self.can_drain:
            return DrainAnswer(DrainOutcome.REFUSED, "drain = no in [gridengine]")
        self._tidy()
        return Drain(self._master, self._marks, worker).begin(mode)

    def undrain(self, worker: str) -> None:
        self._tidy()
        undrain(self._master, self._marks, worker)

    # ------------------------------------------------------------------ the hosts of instances

    def register(self, instance: Instance) -> None:
        if self.registers:
            self._tidy()
            self._registration.register(instance)

    def unregister(self, instance: Instance) -> None:
        if self.registers:
            self._registration.unregister(instance)

    def forget(self, worker: str) -> None:
        """Remove a host that is not heard from any more. Where an administrator has made the hosts (register = no),
        let the next machine of its name take jobs; not while the master may still send jobs to the dead one."""
        host = self._master.host(worker)
        if host is None or (host.reports and self.registers):
            return  # `unregister` knows that its instance is gone
        if self.registers:
            self._registration.remove(host.name)
        elif self._marks.ours(host.name):
            if host.reports:
                raise SourceError(f"the master has not noticed yet that {worker} is gone (max_unheard)")
            undrain(self._master, self._marks, worker)

    # ------------------------------------------------------------------ matching, checks

    def match(self, groups: Sequence[JobGroup], machines: Sequence[Machine]) -> Mapping[tuple[str, Machine], str]:
        """By the pool's worker_ad, and what a worker of its kind has shown."""
        from elastiq.plugins.batch.gridengine_matching import why_not

        return {(group.key, machine): why_not(group, machine) for group in groups for machine in machines}

    def portrait(self, worker: str) -> str:
        """The queues of a host and what it offers in them, while it runs nothing."""
        from elastiq.plugins.batch.gridengine_matching import portrait

        host = self._master.host(worker)
        return portrait(host) if host is not None and host.reports else ""

    def pools_named(self) -> Iterable[tuple[str, str, bool]]:
        """As `elastiq.cli.cluster_checks.NamesPools` has it."""
        return [("complex_values", name, True) for name in values_by_kind(self._values["complex_values"])]

    def checks(self) -> Looks:
        from elastiq.plugins.batch.gridengine_checks import looks

        return looks(self, self._master, self._values)


def _drained_by(host: Host, marks: Mapping[str, Mapping[str, str]]) -> Optional[str]:
    """The heads whose marks are on what is disabled there; None if there is none."""
    there = marks.get(host.name.lower(), {})
    heads = sorted({there[queue.name] for queue in host.queues if queue.disabled and queue.name in there})
    return f"elastiq {', '.join(heads)}" if heads else None
