"""Asks Slurm for its nodes, its queue and itself, by what the installed version offers."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import replace
from typing import Any, Iterable, Mapping, Optional, Sequence

from elastiq.command import CommandResult
from elastiq.errors import SourceError
from elastiq.plugins.batch import slurm_jobs as queue
from elastiq.plugins.batch import slurm_records as records
from elastiq.plugins.batch.slurm_jobs import Job
from elastiq.plugins.batch.slurm_records import Node
from elastiq.plugins.batch.slurm_spread import Spread
from elastiq.plugins.batch.tools import Tools, failed

HINT = "Slurm's client commands must be installed, and on the PATH of elastiq or in command_folder"
# Times in UTC, and the whole set of an array's tasks, of which squeue else shows 64 characters (squeue(1)).
ENVIRONMENT = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard", "SLURM_BITSTR_LEN": "0"}
# What would leave jobs or nodes out, or ask another cluster: SQUEUE_USERS, SQUEUE_STATES, SLURM_CLUSTERS, ...
NOT_OURS = ("SQUEUE_", "SINFO_", "SCONTROL_", "SLURM_CLUSTERS")
SCONTROL_JSON, SINFO_JSON = (23, 2), (21, 8)  # since when they print nodes as JSON
ASKED_AGAIN = 200  # jobs at once whose fields were cut
NO_JSON = re.compile(r"unrecognized option|invalid option|serializer|data_parser|plugin", re.IGNORECASE)
NO_SUCH_JOB = "Invalid job id specified"
NO_MUNGE = b"If munged is up"  # the first line of four, where its socket does not answer (auth_munge.c)
MUNGE = "munge does not answer: start munged (systemctl start munge)"


class Source:
    """The commands. Any thread may call."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._conf = str(values.get("slurm_conf") or "")
        conf = {"SLURM_CONF": self._conf} if self._conf else {}
        folder = values.get("command_folder")
        self.timeout_s = float(values["command_timeout_s"])
        self.tools = Tools(self.timeout_s, HINT, str(folder) if folder else None, {**ENVIRONMENT, **conf}, NOT_OURS)
        self._method = str(values.get("query_method") or "auto")
        self._version: Optional[tuple[int, int]] = None
        self.as_json = self._method != "text"  # nodes are
        self._spread = Spread(self._record)
        self.changing = threading.Lock()  # held by who chooses among nodes

    def run(self, tool: str, *args: str) -> CommandResult:
        """As `Tools.run`. Raises `SourceError` also if it could not ask at all."""
        if unread := self.unread():
            raise SourceError(unread)
        result = self.tools.run(tool, *args)
        if NO_MUNGE in result.stderr[:2000]:  # with --json the exit code of 22.05 is 0
            raise SourceError(f"{tool}: {MUNGE}")
        return result

    def unread(self) -> str:
        """Why Slurm's commands could not read their file, which they try again and again for a minute."""
        if not self._conf or os.access(self._conf, os.R_OK):
            return ""
        return f"slurm_conf in [slurm]: {self._conf} is not there, or not to be read by this user"

    def ask(self, tool: str, *args: str) -> str:
        """What it printed. Raises `SourceError`."""
        result = self.run(tool, *args)
        if result.returncode != 0:
            raise failed(result, [tool, *args])
        return result.text

    def version(self) -> tuple[int, int]:
        """Of the installed commands, as (22, 5). Raises `SourceError`."""
        if self._version is None:
            said = self.ask("scontrol", "--version")
            found = re.search(r"(\d+)\.(\d+)", said)
            if not found:
                raise SourceError(f"scontrol --version said {said.strip()[:60]!r}")
            self._version = int(found[1]), int(found[2])
        return self._version

    # ------------------------------------------------------------------ nodes

    def nodes(self) -> list[Node]:
        """All nodes, but for those for future use. Raises `SourceError`."""
        if self.as_json:
            found = self._json_nodes()
            if found is not None:
                return found
            self.as_json = False
        return self.all_nodes()

    def _json_nodes(self) -> Optional[list[Node]]:
        """None where this Slurm has no JSON, or none of nodes."""
        by_sinfo = self.version() < SCONTROL_JSON
        argv = ("sinfo", "-a", "--json") if by_sinfo else ("scontrol", "-a", "show", "nodes", "--json")
        if self.version() < SINFO_JSON:
            return None
        result = self.run(*argv)
        if result.returncode != 0:
            if self._method == "auto" and NO_JSON.search(result.complaint):
                return None
            raise failed(result, argv)
        command = " ".join(argv)
        return [
            records.json_node(row) for row in records.rows(records.document(result.text, command), "nodes", command)
        ]

    def all_nodes(self) -> list[Node]:
        """As text, those for future use too (-F), of hidden partitions too (-a), and with what is used of their gres
        (-d). Raises `SourceError`."""
        text = self.ask("scontrol", "-a", "-d", "-o", "--future", "show", "node")
        if not text.endswith("\n"):
            raise SourceError(f"scontrol show node printed {'an answer that is cut off' if text else 'nothing'}")
        if text.strip() == "No nodes in the system":
            return []
        return [records.text_node(line) for line in text.splitlines() if line.strip()]

    # ------------------------------------------------------------------ the queue

    def jobs(self) -> list[Job]:
        """All jobs that are not over. Raises `SourceError`."""
        if self._method == "json":
            found = records.document(self.ask("squeue", "-a", "--json"), "squeue --json")
            return self._memory_told([queue.from_json(row) for row in records.rows(found, "jobs", "squeue --json")])
        text = self.ask("squeue", "-a", "-O", queue.FORMAT)
        rows = records.table(text, len(queue.COLUMNS), "squeue")
        return self._told(queue.from_table(rows, self._wide))

    def jobs_of(self, identifier: str) -> list[Job]:
        """The jobs of an id: one, the parts of a heterogeneous one, or of an array. Raises `SourceError`."""
        return self._told(queue.from_table(self._wide([identifier]), lambda ids: []))

    def _told(self, jobs: list[Job]) -> list[Job]:
        return self._memory_told(self._spread.told(jobs))

    def _memory_told(self, jobs: list[Job]) -> list[Job]:
        """Where memory is not shared out, nobody takes all of it. Asked only while there is such a job."""
        if not any(job.all_memory for job in jobs) or "MEMORY" in self.config().get("selecttypeparameters", "").upper():
            return jobs
        return [replace(job, all_memory=False) if job.all_memory else job for job in jobs]

    def _wide(self, ids: Sequence[str]) -> Iterable[Sequence[str]]:
        """Of those that are still there."""
        result = self.run("squeue", "-a", "-j", ",".join(ids[:ASKED_AGAIN]), "-O", queue.WIDE)
        if result.returncode != 0:
            if NO_SUCH_JOB in result.complaint:
                return []
            raise failed(result, ("squeue", "-j"))
        return records.table(result.text, len(queue.COLUMNS), "squeue")

    def partitions(self) -> list[str]:
        """The names of all. Raises `SourceError`."""
        return re.findall(r"(?m)^PartitionName=(\S+)", self.ask("scontrol", "-a", "-o", "show", "partition"))

    def _record(self, job: str) -> str:
        """Of a job, or of all of them. Nothing of one that is gone."""
        result = self.run("scontrol", "-a", "-o", "show", "job", *([job] if job else []))
        if result.returncode != 0 and NO_SUCH_JOB not in result.complaint:
            raise failed(result, ("scontrol", "show", "job"))
        return result.text

    # ------------------------------------------------------------------ itself

    def up_s(self) -> Optional[float]:
        """For how long slurmctld has been up, by its own clock; None if it does not say. One that was just started
        takes the nodes for what they were, or for unknown, until they register."""
        since, now = _config_times(self.ask("scontrol", "show", "config"))
        return None if since is None or now is None else max(0.0, now - since)

    def config(self) -> dict[str, str]:
        """Its configuration, the names in lower case. Raises `SourceError`."""
        pairs = (line.partition("=") for line in self.ask("scontrol", "show", "config").splitlines())
        return {name.strip().lower(): value.strip() for name, equals, value in pairs if equals}


def _config_times(text: str) -> tuple[Optional[float], Optional[float]]:
    booted = re.search(r"(?m)^BOOT_TIME\s*=\s*(\S+)", text)
    now = re.search(r"(?m)^Configuration data as of (\S+)", text)
    return records.when(booted[1]) if booted else None, records.when(now[1]) if now else None
