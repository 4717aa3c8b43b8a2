"""What the suite of batch systems asks of a plugin's author: situations, made in the system or in a fake of it.

The abstract methods are for every system. The others belong to abilities, named in each docstring: a suite whose
``cannot`` has the ability does not call them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Callable, Mapping, Optional, Sequence

from elastiq.interfaces import BatchSystem, Instance, Worker

# Of jobs and users: what separates and quotes in tables, XML, JSON, shells and regular expressions.
ODD_NAMES = (
    "two words",
    "a,b;c|d:e",
    "<a>&amp;'\"",
    "\u00e9\u00fc\u6f22",
    "-x",
    "100%s",
    "a=b(c)",
    "[1-3]",
    "back\\slash",
    "12",
)
# Host names that are told in different ways, or look like something else.
ODD_HOSTS = ("UPPER.Example.ORG", "ip-10-9-0-2.ec2.internal", "n-3", "a.b-c.d", "x" * 60, "node07")


class BatchBench(ABC):
    """A batch system in a state that the test chooses. It starts empty: no job, no worker.

    Calls are named by the contract's methods: "jobs", "workers", "drain", "undrain", "jobs_recorded_on", and, with
    the abilities, "register", "unregister", "forget".
    """

    batch: BatchSystem
    odd_names: Sequence[str] = ODD_NAMES  # less those that the system forbids
    odd_hosts: Sequence[str] = ODD_HOSTS
    worker_ad: tuple[str, ...] = ()  # of the pool whose machines are matched with jobs

    # ---- the queue

    @abstractmethod
    def submit(
        self,
        count: int = 1,
        cpus: float = 1,
        memory_mb: Optional[float] = None,
        nodes: int = 1,
        user: str = "",
        name: str = "",
    ) -> None:
        """Let that many jobs of this shape wait; ``cpus`` and ``memory_mb`` are for each node.

        Other than one node is asked for with "nodes" only, a memory with "memory", a user with "users", a name with
        "names". Without a user they are still not those of the one who asks.
        """

    @abstractmethod
    def start_job(self, worker: str, cpus: float = 1) -> None:
        """Let a job run on this worker, and the queue know it."""

    @abstractmethod
    def end_job(self, worker: str) -> None:
        """Let one of the jobs on this worker be done, and leave the queue."""

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        """Let that many jobs be held in the queue ("hold")."""
        raise NotImplementedError

    def depend(self, count: int = 1, cpus: float = 1) -> None:
        """Let that many jobs wait for another job's end ("depend"). The other one is none that waits."""
        raise NotImplementedError

    def blocked_forms(self) -> Mapping[str, Callable[[int], None]]:
        """More ways in which jobs are in the queue but wait for no machine: a limit, a licence, a time to come, an
        error, a state that nobody knows... Each, called, puts so many there ("blocked")."""
        raise NotImplementedError

    def submit_array(self, count: int, limit: Optional[int] = None, cpus: float = 1, on: Sequence[str] = ()) -> None:
        """Submit one array of so many tasks ("arrays"). A task runs on each of the workers ``on``; the others wait.
        At most ``limit`` tasks may run at once ("array-limit")."""
        raise NotImplementedError

    def start_across(self, workers: Sequence[str], cpus: float = 1) -> None:
        """Let one job run on all of these workers, with so many cpus on each ("nodes")."""
        raise NotImplementedError

    def hold_running(self, worker: str) -> None:
        """Let a job run on this worker that has a hold: it would wait no more if it came back ("held-running")."""
        raise NotImplementedError

    # ---- the workers

    @abstractmethod
    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        """Let an idle worker join; returns its name as the batch system's `Worker` has it, in lower case."""

    @abstractmethod
    def lose_worker(self, worker: str) -> None:
        """Let its machine die, and the system have noticed; the queue still has its jobs as running."""

    def busy_forms(self) -> Mapping[str, Callable[[str], None]]:
        """Every way in which the system shows a worker on which a job runs, starts, is suspended or ends. Each makes
        the named worker so."""
        return {"a running job": self.start_job}

    def strange_forms(self) -> Mapping[str, Callable[[str], None]]:
        """Ways in which a worker is neither idle nor busy, as far as elastiq knows: it does not answer, powers up, is
        in maintenance, is in a state whose name nobody knows ("strange")."""
        raise NotImplementedError

    def list_twice(self, worker: str) -> None:
        """Let the worker be in a second partition, queue or the like, so that the system has two rows of it
        ("queues")."""
        raise NotImplementedError

    def drain_by_hand(self, worker: str) -> None:
        """Let an administrator have drained this idle worker, for a reason of his own ("drained-by")."""
        raise NotImplementedError

    # ---- machines that are made known, and forgotten

    def knows(self, instance: Instance) -> bool:
        """Whether the system expects, or has, the worker of this instance ("register")."""
        raise NotImplementedError

    def join(self, instance: Instance) -> str:
        """Let the worker of this instance start, as its image does it: only a registered one comes to be in service.
        Returns its name ("register")."""
        raise NotImplementedError

    def end_worker(self, worker: str) -> None:
        """Let its machine have ended, so that the system still has a record of it, in whatever state ("forget").
        Other than `lose_worker` where that leaves none."""
        self.lose_worker(worker)

    def holds(self, worker: str) -> bool:
        """Whether the system still has a record of this worker, in whatever state ("forget")."""
        raise NotImplementedError

    # ---- what goes wrong

    @abstractmethod
    def restart(self) -> None:
        """Make ``batch`` anew, as a daemon does that starts again; the system stays as it is."""

    @abstractmethod
    def fail_next(self, call: str) -> None:
        """Let the next call of this method fail as a system fails that cannot be reached."""

    @abstractmethod
    def garble_next(self, call: str) -> None:
        """Let the next "jobs", "workers" or "jobs_recorded_on" be answered with something that is no answer, but with
        success."""

    def blank_next(self, call: str) -> None:
        """Let one of them be answered with nothing at all, but with success ("blank": where that is no way to say
        that there is none)."""
        raise NotImplementedError

    def cut_next(self, call: str) -> None:
        """Let one of them be answered truly, but only to the middle ("cut")."""
        raise NotImplementedError

    def hang_next(self, call: str) -> None:
        """Let the next "jobs", "workers", "drain" or "jobs_recorded_on" never be answered ("hang"). The plugin's own
        time-outs may be made short for it (half a second): ``batch`` may be made anew here."""
        raise NotImplementedError

    def lose_part(self) -> str:
        """Let one part of the queue not answer from now on; returns its name ("parts")."""
        raise NotImplementedError

    def refuse_next_drain(self) -> None:
        """Let the next drain be refused: not allowed ("drain")."""
        raise NotImplementedError

    def start_job_in_next_drain(self, worker: str) -> None:
        """Let a job start on this worker while it is being drained: after whatever the plugin looks at first, if it
        does, before its drain takes effect ("drain")."""
        raise NotImplementedError

    # ---- conveniences of the suite

    def worker(self, name: str) -> Worker:
        """The one worker of that name."""
        found = [worker for worker in self.batch.workers().workers if worker.name == name]
        assert len(found) == 1, f"{name}: {found}"
        return found[0]

    def names(self) -> list[str]:
        return sorted(worker.name for worker in self.batch.workers().workers)

    def waiting(self) -> dict[Optional[float], int]:
        """Waiting jobs by requested cpus, of the groups that a worker could run."""
        counts: dict[Optional[float], int] = {}
        for group in self.batch.jobs().groups:
            if not group.not_eligible and group.waiting:
                counts[group.request.cpus] = counts.get(group.request.cpus, 0) + group.waiting
        return counts
