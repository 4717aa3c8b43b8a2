"""Slurm, asked by its own commands, each in a child process with a deadline.

The queue is asked for as a table of chosen columns (``squeue -O``): ten thousand jobs are 6 MB of it, and 30 MB or
more as JSON. An array is one row. Nodes are asked for as JSON where the installed Slurm has it, else as text.

A drain is ``scontrol update state=drain``, which has no "only if it is idle": so close, look, and reopen if a job
slipped in. Nothing here sets a node down that may run a job, since that ends its jobs.
"""

from __future__ import annotations

import time
from typing import Any, Iterable, Mapping, Sequence

from elastiq import interfaces
from elastiq.errors import SourceError
from elastiq.interfaces import (
    BatchSystem,
    DrainAnswer,
    DrainMode,
    DrainOutcome,
    Instance,
    JobGroup,
    Machine,
    Owner,
    Workers,
)
from elastiq.plugins.batch import careful_drain
from elastiq.plugins.batch import slurm_jobs as queue
from elastiq.plugins.batch import slurm_nodes as nodes
from elastiq.plugins.batch.slurm_lookups import ON_NODES, on_nodes
from elastiq.plugins.batch.slurm_options import OPTIONS, own_nodes
from elastiq.plugins.batch.slurm_records import Node
from elastiq.plugins.batch.slurm_source import Source
from elastiq.plugins.batch.tools import failed

NOT_ALLOWED = ("Invalid user id", "Access/permission denied", "Access denied", "Permission denied")
NO_SUCH = "Invalid node name specified"


class Slurm(BatchSystem):
    """One cluster: one slurmctld, and its backups."""

    section = "slurm"
    OPTIONS = OPTIONS
    can_match = True
    keeps_records = True

    def __init__(self, values: Mapping[str, Any], owner: Owner) -> None:
        self.source = Source(values)
        self.partitions: tuple[str, ...] = tuple(values.get("partitions") or ())
        self.own_nodes = own_nodes(values.get("predeclared_nodes") or ())
        self.mark = owner.mark
        self.reason = f"elastiq {owner.mark} of {owner.cluster}"
        self.can_drain = bool(values.get("drain", True))
        self.call_deadline_s = 4 * self.source.timeout_s  # a drain is up to seven commands, of milliseconds each

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> Slurm:
        return cls(values, owner)

    # ------------------------------------------------------------------ reads

    def jobs(self) -> interfaces.Jobs:
        """The jobs of all users and partitions that wait for machines."""
        return interfaces.Jobs(queue.groups(self.source.jobs(), self.partitions, time.time()))

    def workers(self) -> Workers:
        """The nodes with a machine behind them. A job that starts between the looks at nodes and jobs is seen."""
        found = [node for node in self.source.nodes() if self._looked_at(node)]
        return Workers(nodes.workers(found, self._on_nodes(), self.mark), self.source.up_s())

    def _looked_at(self, node: Node) -> bool:
        return not self.partitions or not {*self.partitions}.isdisjoint(node.partitions)

    def _on_nodes(self) -> dict[str, list[str]]:
        return on_nodes(self.source.ask("squeue", "-a", "-o", ON_NODES), "squeue")

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        """How many jobs the queue has on these nodes; those that start or end too."""
        if not workers:
            return {}
        from elastiq.plugins.batch.slurm_lookups import lowered

        found = lowered(self._on_nodes())
        return {name: len(found.get(name, ())) for name in workers}

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        """As "12_3 (alice)"."""
        from elastiq.plugins.batch.slurm_lookups import lowered

        return tuple(lowered(self._on_nodes()).get(worker, ()))

    def find_job(self, job: str) -> tuple[str, str]:
        """Of "12", "12_3" (a task of an array) or "12+1" (a part of a heterogeneous job); only what the queue holds."""
        from elastiq.plugins.batch.slurm_lookups import find_job

        return find_job(job, self.source.jobs_of, self.partitions, time.time(), lambda: self.jobs().groups)

    def match(self, groups: Sequence[JobGroup], machines: Sequence[Machine]) -> Mapping[tuple[str, Machine], str]:
        """By size, partitions, features and gres, as far as the pool's worker_ad or a portrait tells them."""
        from elastiq.plugins.batch.slurm_matching import matched

        return matched(groups, machines)

    def portrait(self, worker: str) -> str:
        """Its partitions, features and gres."""
        from elastiq.plugins.batch.slurm_matching import portrait

        node = nodes.find(self.source.nodes(), worker)
        return portrait(node) if node is not None and node.started_at is not None else ""

    # ------------------------------------------------------------------ drain

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        """A drain of somebody else is left as it is."""
        if not self.can_drain:
            return _refused("drain = no in [slurm]")
        node = nodes.find(self.source.nodes(), worker)
        if node is None:
            return _refused(f"Slurm knows no node {worker}")
        if "DRAIN" in node.flags and self.mark not in node.reason:
            return _refused(f"{node.name} is drained already, by somebody else: {node.reason or 'no reason given'}")
        try:
            return careful_drain.drain(
                mode,
                lambda: self._jobs_there(node.name),
                lambda: self._update(node.name, "state=drain", f"reason={self.reason}"),
                lambda: self._update(node.name, "state=undrain"),
            )
        except NotAllowed as error:
            return _refused(str(error))

    def _jobs_there(self, name: str) -> int:
        node = nodes.by_lower_name(self.source.nodes()).get(name.lower())
        if node is None:
            raise SourceError(f"{name} is no node of Slurm any more")
        jobs = len(self._on_nodes().get(name, ()))
        return max(jobs, 1 if nodes.occupied(node) else 0)

    def undrain(self, worker: str) -> None:
        """Resume our own drain; somebody else's is left alone, which is an error."""
        node = nodes.find(self.source.nodes(), worker)
        if node is None or "DRAIN" not in node.flags:
            return
        if self.mark not in node.reason:
            raise SourceError(f"{node.name} is drained by somebody else: {node.reason or 'no reason given'}")
        self._update(node.name, "state=undrain")

    def _update(self, name: str, *what: str) -> None:
        self.act("update", f"nodename={name}", *what)

    def act(self, *args: str) -> None:
        """Let scontrol change something. Raises `SourceError`, and of those `NotAllowed` where surely nothing was
        changed."""
        result = self.source.run("scontrol", *args)
        if result.returncode != 0:
            if any(words in result.complaint for words in NOT_ALLOWED):
                shown = " ".join(args[:2])
                raise NotAllowed(f"elastiq may not do `scontrol {shown}`: {result.complaint} (see docs/batch/slurm.md)")
            raise failed(result, ("scontrol", *args))

    # ------------------------------------------------------------------ machines that are made known, and forgotten

    def register(self, instance: Instance) -> None:
        """Give a free predeclared node the instance's address; dynamic nodes make themselves known."""
        if self.own_nodes:
            from elastiq.plugins.batch.slurm_predeclared import register

            register(self, instance)

    def unregister(self, instance: Instance) -> None:
        """Put its node back, or delete the record of a dynamic one."""
        from elastiq.plugins.batch.slurm_predeclared import unregister

        unregister(self, instance)

    def forget(self, worker: str) -> None:
        """As `unregister`, of the node by its name."""
        from elastiq.plugins.batch.slurm_predeclared import forget

        forget(self, worker)

    def pools_named(self) -> Iterable[tuple[str, str, bool]]:
        """As `elastiq.cli.cluster_checks.NamesPools` has it."""
        return [("predeclared_nodes", pool, False) for pool in self.own_nodes if pool]

    def checks(self) -> interfaces.Looks:
        from elastiq.plugins.batch.slurm_checks import looks

        return looks(self)


class NotAllowed(SourceError):
    """Slurm refused: nothing was changed."""


def _refused(why: str) -> DrainAnswer:
    return DrainAnswer(DrainOutcome.REFUSED, why)
