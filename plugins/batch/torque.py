"""Torque, asked by its own commands, in XML. What it shares with PBS Pro is in `pbs.PBS`.

Facts (src/cmds of Torque 2.5-6.1): ``qstat -x`` prints XML with all attributes, and with ``-t`` the jobs of an array
one by one; ``pbsnodes -o`` and ``-c`` end with 0 whatever became of them; ``-N TEXT`` sets a node's note, ``-N n``
empties it.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from elastiq.plugins.batch import pbs_requests, pbs_rows
from elastiq.plugins.batch.pbs import PBS
from elastiq.plugins.batch.pbs_options import OF_TORQUE
from elastiq.plugins.batch.pbs_rows import Malformed, Record
from elastiq.plugins.batch.shapes import Shape


class Torque(PBS):
    """One pbs_server of Torque, with pbs_sched, Maui or Moab beside it."""

    section = "torque"
    OPTIONS = OF_TORQUE
    usual_folder = "/usr/local/bin"
    shows_members = True

    def ask_jobs(self, *ids: str, members: bool = False) -> list[Record]:
        args = ("-t", *ids) if members else ids
        try:
            text = self.tools.ask("qstat", "-x", *args)
            return pbs_rows.from_xml(text, "qstat", "Job", "Job_Id") if text.strip() else []
        except Malformed:
            return pbs_rows.from_text(self.tools.ask("qstat", "-f", *args), "qstat -f")

    def ask_nodes(self) -> list[Record]:
        text = self._nodes_text("-x")
        try:
            return [] if text is None else pbs_rows.from_xml(text, "pbsnodes", "Node", "name")
        except Malformed:
            text = self._nodes_text("-a")
            return [] if text is None else pbs_rows.from_text(text, "pbsnodes -a", nodes=True)

    def held_back(self) -> Mapping[str, str]:
        """By Moab, if it is asked."""
        if not self.values.get("showq"):
            return {}
        from elastiq.plugins.batch.torque_moab import blocked

        return blocked(self.tools.ask(self.values["showq"], "--xml"))

    def shapes(self, job: Record) -> Sequence[tuple[int, Shape]]:
        return pbs_requests.of_torque(dict(job.resources("resource_list")))

    def close(self, nodes: Sequence[Record]) -> None:
        self.act("pbsnodes", "-o", "-N", self.reason, *(node.name for node in nodes))

    def reopen(self, nodes: Sequence[Record]) -> None:
        """The note last: a node that is offline without our mark would pass for somebody else's drain."""
        names = [node.name for node in nodes]
        self.act("pbsnodes", "-c", *names)
        self.act("pbsnodes", "-N", "n", *names)
