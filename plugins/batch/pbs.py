"""PBS Pro and OpenPBS, asked by their own commands; Torque, which came of the same program, is `torque.Torque`.

Neither is in a distribution that elastiq is tested with: this was built on their sources, manual pages and public
captures.

There is no "offline, but only if it is idle" (``pbsnodes -o``): a drain closes the node, with our mark in its
comment, looks whether a job slipped in, and opens it again if one did. Exit codes do not tell everything: what PBS
says is read too.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import partial
from typing import Any, Mapping, Optional, Sequence

from elastiq import interfaces
from elastiq.command import CommandResult
from elastiq.errors import SourceError
from elastiq.interfaces import BatchSystem, DrainAnswer, DrainMode, DrainOutcome, Instance, Owner, Worker, Workers
from elastiq.plugins.batch import careful_drain, pbs_jobs, pbs_nodes, pbs_requests, pbs_rows
from elastiq.plugins.batch.pbs_names import Addresses
from elastiq.plugins.batch.pbs_options import OPTIONS
from elastiq.plugins.batch.pbs_rows import Malformed, Record
from elastiq.plugins.batch.shapes import Shape
from elastiq.plugins.batch.tools import Tools, failed

NO_NODES = re.compile(r"no nodes found|server has no node list", re.IGNORECASE)  # PBSE_NONODES
NOT_ALLOWED = re.compile(r"unauthorized|not authorized|permission", re.IGNORECASE)  # PBSE_PERM, 15007
COMPLAINTS = re.compile(r"error|cannot|qmgr obj=|usage:", re.IGNORECASE)
COMMENT_AT_MOST = 79  # characters: pbsnodes -C cuts it there
NO_OPERATOR = "elastiq must be an operator of PBS, for `register` a manager: docs/batch/pbs.md"


class Refused(SourceError):
    """PBS does not let us; nothing was changed."""


class PBS(BatchSystem):
    """One server of PBS Pro or OpenPBS."""

    section = "pbs"
    OPTIONS = OPTIONS
    can_match = True
    keeps_records = True
    usual_folder = "/opt/pbs/bin"
    shows_members = False  # PBS Pro counts the jobs of an array in one row

    def __init__(self, values: Mapping[str, Any], owner: Owner) -> None:
        self.values, self.mark = values, owner.head[:16]
        self.reason = f"elastiq {self.mark} of {owner.cluster} drains it"[:COMMENT_AT_MOST]
        self.can_drain = bool(values.get("drain", True))
        timeout_s = float(values["command_timeout_s"])
        self.call_deadline_s = 6 * timeout_s  # a drain is up to six commands
        server = values.get("server")
        hint = f"the commands of PBS must be on the head node; command_folder in [{self.section}] says where"
        self.tools = Tools(
            timeout_s, hint, self._folder(), {"PBS_DEFAULT": server, "PBS_SERVER": server} if server else {}
        )
        self.addresses = Addresses()

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> PBS:
        return cls(values, owner)

    def _folder(self) -> Optional[str]:
        folder: Optional[str] = self.values.get("command_folder")
        usual = os.access(os.path.join(self.usual_folder, "qstat"), os.X_OK) and shutil.which("qstat") is None
        return folder or (self.usual_folder if usual else None)

    # ------------------------------------------------------------------ what differs between the two systems

    def ask_jobs(self, *ids: str, members: bool = False) -> list[Record]:
        """All jobs, or these; with ``members`` those of arrays one by one. Raises `SourceError`."""
        args = ("-t", *ids) if members else ids
        try:
            return pbs_rows.from_json(self.tools.ask("qstat", "-f", "-F", "json", *args), "qstat", "Jobs")
        except Malformed:
            return pbs_rows.from_text(self.tools.ask("qstat", "-f", *args), "qstat -f")

    def ask_nodes(self) -> list[Record]:
        """All nodes: vnodes one by one, since a host of several would be ``<various>``. Raises `SourceError`."""
        text = self._nodes_text("-av", "-F", "json")
        try:
            return [] if text is None else pbs_rows.from_json(text, "pbsnodes", "nodes")
        except Malformed:
            text = self._nodes_text("-av")
            return [] if text is None else pbs_rows.from_text(text, "pbsnodes -av", nodes=True)

    def shapes(self, job: Record) -> Sequence[tuple[int, Shape]]:
        """What a job asks for, and how many units of each it is."""
        return pbs_requests.of_pbs(dict(job.resources("resource_list")), job.get("schedselect"))

    def close(self, nodes: Sequence[Record]) -> None:
        """Let no new job start there. By the name of its MOM's host, which the server looks up."""
        self.act("pbsnodes", "-C", self.reason, "-o", self._mom(nodes))

    def reopen(self, nodes: Sequence[Record]) -> None:
        self.act("pbsnodes", "-C", "", "-r", self._mom(nodes))

    @staticmethod
    def _mom(nodes: Sequence[Record]) -> str:
        return (nodes[0].get("mom") or nodes[0].name).partition(",")[0].partition(":")[0]

    # ------------------------------------------------------------------ the queue

    def jobs(self) -> interfaces.Jobs:
        """The waiting jobs of all users, grouped."""
        records, queues = self.all_jobs(self.shows_members)
        only, held_back = self.values.get("queues") or (), self.held_back()
        return interfaces.Jobs(pbs_jobs.job_groups(records, self.shapes, queues, only, held_back))

    def held_back(self) -> Mapping[str, str]:
        """Jobs that another scheduler keeps from starting, by their numbers, and why. Raises `SourceError`."""
        return {}

    def all_jobs(self, members: bool) -> tuple[list[Record], list[Record]]:
        """All jobs, and the queues. Older versions of Torque print nothing at all for an empty queue, and a user who
        may see no job but his own is shown an empty one: the queues' own counts tell which it is. Raises
        `SourceError`."""
        queues = self.ask_queues()
        records = self.ask_jobs(members=members)
        # Asked again: a last job may have ended in between.
        if pbs_jobs.hidden(records, queues) and (hidden := pbs_jobs.hidden(records, self.ask_queues())):
            text = f"the queues count {hidden} {'job' if hidden == 1 else 'jobs'}, and none is shown to us"
            raise SourceError(f"{text}: set query_other_jobs, or make elastiq an operator of PBS")
        return records, queues

    def ask_queues(self) -> list[Record]:
        return pbs_rows.from_text(self.tools.ask("qstat", "-Q", "-f"), "qstat -Q -f")

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        """How many jobs the server holds as running on these workers."""
        from elastiq.plugins.batch.pbs_lookups import jobs_recorded_on

        return jobs_recorded_on(self, workers)

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        """As "12.server (alice)"."""
        from elastiq.plugins.batch.pbs_lookups import jobs_on

        return jobs_on(self, worker)

    def find_job(self, job: str) -> tuple[str, str]:
        """Of "12", "12.server", or "12[3].server"."""
        from elastiq.plugins.batch.pbs_lookups import find_job

        return find_job(self, job)

    # ------------------------------------------------------------------ the workers

    def workers(self) -> Workers:
        """All hosts of which a MOM is heard."""
        found = {name: nodes for name, nodes in pbs_nodes.by_host(self.ask_nodes()).items() if pbs_nodes.any_up(nodes)}
        addresses = self.addresses.of(found)
        return Workers(tuple(pbs_nodes.worker(name, found[name], addresses[name]) for name in sorted(found)))

    def nodes_of(self, worker: str) -> list[Record]:
        """The nodes of one host, up or down; none if the server does not know it. Out of all, so that no name is given
        to a command that is not the server's own: ``pbsnodes`` knows other words for many nodes."""
        return pbs_nodes.by_host(self.ask_nodes()).get(worker, [])

    def _nodes_text(self, *args: str) -> Optional[str]:
        """None if there is no node at all."""
        result = self.tools.run("pbsnodes", *args)
        if NO_NODES.search(result.stderr.decode("utf-8", errors="replace")) and not result.stdout.strip():
            return None
        if result.returncode != 0:
            raise failed(result, ("pbsnodes", *args))
        if not result.stdout.strip():
            raise SourceError("pbsnodes answered nothing, not even that there are no nodes")
        return result.text

    # ------------------------------------------------------------------ drain

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        """Close, look, and reopen if a job slipped in."""
        if not self.can_drain:
            return _refused(f"drain = no in [{self.section}]")
        nodes = self.nodes_of(worker)
        if not nodes:
            return _refused(f"PBS knows no node {worker}")
        seen = pbs_nodes.worker(worker, nodes)
        if seen.is_drained:
            if not seen.drained_by_mark(self.mark):
                return _refused(f"drained by someone else ({seen.drained_by or 'no reason'})")
            if seen.jobs and mode is DrainMode.IF_IDLE:
                return careful_drain.BUSY
            return DrainAnswer(DrainOutcome.DRAINED, "was drained by us before")
        looks: list[Worker] = []
        try:
            answer = careful_drain.drain(
                mode, partial(self._jobs_there, worker, looks), partial(self.close, nodes), partial(self.reopen, nodes)
            )
            return answer if answer.outcome is not DrainOutcome.DRAINED else self._proven(worker, mode, nodes, looks)
        except Refused as refusal:
            return _refused(str(refusal))

    def _jobs_there(self, worker: str, looks: list[Worker]) -> int:
        nodes = self.nodes_of(worker)
        if not pbs_nodes.any_up(nodes):
            raise SourceError(f"{worker} is down by now")
        looks.append(pbs_nodes.worker(worker, nodes))
        return looks[-1].jobs

    def _proven(self, worker: str, mode: DrainMode, nodes: Sequence[Record], looks: list[Worker]) -> DrainAnswer:
        """That it is closed, with our mark: Torque's pbsnodes succeeds whatever became of it."""
        if mode is DrainMode.PEACEFUL:
            self._jobs_there(worker, looks)
        seen = looks[-1]
        if seen.drained_by_mark(self.mark):
            return DrainAnswer(DrainOutcome.DRAINED)
        if not seen.is_drained:
            return _refused(f"{worker} is not offline after pbsnodes -o ({NO_OPERATOR})")
        self.reopen(nodes)
        return _refused(f"our mark could not be written at {worker} ({NO_OPERATOR})")

    def undrain(self, worker: str) -> None:
        """Take our drain back; somebody else's is left alone, which is an error."""
        nodes = self.nodes_of(worker)
        if not nodes:
            raise SourceError(f"PBS knows no node {worker}: its drain, if any, was not undone")
        offline = [node for node in nodes if pbs_nodes.OFFLINE in pbs_nodes.states(node)]
        if not offline:
            return
        if self.mark not in pbs_nodes.marks(offline):
            reason = pbs_nodes.marks(offline) or "no reason"
            raise SourceError(f"{worker} is drained by someone else ({reason}): left alone")
        self.reopen(nodes)

    def act(self, tool: str, *args: str, stdin: bytes = b"") -> CommandResult:
        """A command that changes something. Raises `Refused`, or `SourceError` if it may have been done."""
        result = self.tools.run(tool, *args, stdin=stdin)
        said = result.stderr.decode("utf-8", errors="replace")
        if result.returncode == 0 and not COMPLAINTS.search(said):
            return result
        if NOT_ALLOWED.search(said):
            raise Refused(f"{tool}: {result.complaint} ({NO_OPERATOR})")
        raise failed(result, (tool, *args))

    # ------------------------------------------------------------------ records of machines

    def register(self, instance: Instance) -> None:
        """Create its node, or set the attributes of one that is there from before."""
        from elastiq.plugins.batch.pbs_records import register

        register(self, instance)

    def unregister(self, instance: Instance) -> None:
        """Delete its node, unless that is in service or another instance's."""
        from elastiq.plugins.batch.pbs_records import unregister

        unregister(self, instance)

    def forget(self, worker: str) -> None:
        """Delete its node, or, with ``register = no``, take our drain back once it is down."""
        from elastiq.plugins.batch.pbs_records import forget

        forget(self, worker)

    # ------------------------------------------------------------------ which jobs run where; checks

    def match(
        self, groups: Sequence[interfaces.JobGroup], machines: Sequence[interfaces.Machine]
    ) -> Mapping[tuple[str, interfaces.Machine], str]:
        """By sizes, queues, properties and resources of hosts."""
        from elastiq.plugins.batch.pbs_match import match

        return match(self, groups, machines)

    def portrait(self, worker: str) -> str:
        """The properties and resources of its host."""
        from elastiq.plugins.batch.pbs_match import portrait

        return portrait(self.nodes_of(worker))

    def checks(self) -> interfaces.Looks:
        from elastiq.plugins.batch.pbs_checks import looks

        return looks(self)


def _refused(why: str) -> DrainAnswer:
    return DrainAnswer(DrainOutcome.REFUSED, why)
