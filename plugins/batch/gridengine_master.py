"""The commands of one Grid Engine cluster, and what its configuration says that changes seldom."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from typing import Any, Mapping, Optional, Sequence

from elastiq.command import CommandResult
from elastiq.errors import SourceError
from elastiq.plugins.batch import gridengine_jobs as queue
from elastiq.plugins.batch import gridengine_xml as xml
from elastiq.plugins.batch.gridengine_hosts import GLOBAL, Host, host
from elastiq.plugins.batch.tools import Tools, failed

HINT = "Grid Engine's commands must be on the PATH of elastiq, or in bin_dir of [gridengine]"
KEPT_READS = 20  # for how many reads of the queue what an administrator seldom changes is kept
ASKED_AT_ONCE = 500  # jobs in one command line
UP = re.compile(r"run time \[s\]:\s*(\d+)")
TASKS_AT_ONCE = re.compile(r"(?:maximum|max\w*) concurrency:\s*(\d+)|task_concurrency:\s*(\d+)")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
# Of qmod and qconf, in 8.1.9. None of them has changed anything.
_REFUSALS = re.compile(r"must be (manager|operator)|no permission|neither submit nor admin host|not allowed", re.I)


class NotAllowed(SourceError):
    """The master has refused an act, and changed nothing."""


class Master:
    """Asks and changes. Every method raises `SourceError`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        given = {
            "SGE_ROOT": values.get("sge_root"),
            "SGE_CELL": values.get("sge_cell"),
            "SGE_QMASTER_PORT": values.get("qmaster_port"),
            "SGE_EXECD_PORT": values.get("execd_port"),
        }
        self.environment = {name: str(value) for name, value in given.items() if value}
        self.tools = Tools(values["command_timeout_s"], HINT, values.get("bin_dir"), self.environment)
        self._limits: dict[str, Optional[int]] = {}  # tasks at once, by array
        self._site = queue.Site(tuple(values["memory_complexes"]), tuple(values["gpu_complexes"]))
        self._site_reads = 0
        self._where = ""  # the master's host

    def run(self, tool: str, *args: str, stdin: bytes = b"") -> CommandResult:
        """What a command left behind, whatever its exit code."""
        return self.tools.run(tool, *args, stdin=stdin)

    def ask(self, tool: str, *args: str) -> str:
        """What a command printed, if it succeeded; with a master that is down each fails: "error: commlib error"."""
        return self.tools.ask(tool, *args)

    def change(self, tool: str, *args: str, stdin: bytes = b"", fine: str = "") -> str:
        """Let a command change something; returns what it said. ``fine``: a pattern of a failure that is none, as what
        was asked for is so already. Raises `NotAllowed` where nothing was changed for want of a right."""
        result = self.run(tool, *args, stdin=stdin)
        said = (result.stdout + b"\n" + result.stderr).decode("utf-8", errors="replace")
        if result.returncode != 0 and not (fine and re.search(fine, said)):
            error = failed(result, [tool, *args])
            if _REFUSALS.search(said):
                raise NotAllowed(str(error))
            raise error
        return said

    # ------------------------------------------------------------------ hosts

    def hosts(self, *names: str) -> list[Host]:
        """All execution hosts, or these, with their queues and jobs: one read says all of it."""
        args = ("-h", ",".join(map(checked, names))) if names else ()
        answer = self.ask("qhost", *args, "-q", "-j", "-F", "-xml")
        found = [host(row) for row in xml.elements(answer, "qhost", "qhost", ("host",))]
        if not any(one.name == GLOBAL for one in found):
            raise SourceError("qhost's answer is incomplete: the host `global` is not in it")
        return [one for one in found if one.name and one.name != GLOBAL]

    def host(self, name: str) -> Optional[Host]:
        """One host; None if there is none of this name."""
        result = self.run("qhost", "-h", checked(name), "-q", "-j", "-F", "-xml")
        if result.returncode != 0:
            if b"resolve host" in result.stderr:
                return None
            raise failed(result, ["qhost", "-h", name])
        rows = xml.elements(result.text, "qhost", "qhost", ("host",))
        return next((one for one in map(host, rows) if one.name != GLOBAL), None)

    def up_s(self) -> Optional[float]:
        """For how long the master has been up; None where qping does not say. After a restart it knows no load, and
        its hosts return with their next reports (load_report_time)."""
        try:
            self._where = self._where or self.ask("qconf", "-sss").split()[0]  # the scheduler is a thread of the master
            found = UP.search(self.run("qping", "-info", self._where, self._port(), "qmaster", "1").text)
        except (SourceError, IndexError):
            return None  # no qping here, or the master does not answer it: the read of the hosts says more
        if found is None:
            self._where = ""  # it may have moved to its shadow
            return None
        return float(found[1])

    def _port(self) -> str:
        given = self.environment.get("SGE_QMASTER_PORT") or os.environ.get("SGE_QMASTER_PORT")
        return given or _registered_port()

    # ------------------------------------------------------------------ jobs

    def rows(self) -> list[queue.Job]:
        """All jobs of all users, running and pending, an array's tasks in one row for each state."""
        answer = self.ask("qstat", "-u", "*", "-r", "-xml")
        return [queue.job(row) for row in xml.elements(answer, "qstat", "job_info", ("job_list",))]

    def later(self) -> frozenset[str]:
        """The jobs whose time has not come (qsub -a). Their state is a plain qw."""
        answer = self.ask("qstat", "-u", "*", "-s", "ha", "-xml")
        rows = xml.elements(answer, "qstat", "job_info", ("job_list",))
        return frozenset(xml.text(row, "JB_job_number") for row in rows)

    def at_once(self, arrays: Sequence[str]) -> Mapping[str, int]:
        """How many tasks of these arrays may run at the same time (qsub -tc); only those that have a limit."""
        self._limits = {name: limit for name, limit in self._limits.items() if name in set(arrays)}
        unknown = [name for name in arrays if name not in self._limits]
        for first in range(0, len(unknown), ASKED_AT_ONCE):
            asked = unknown[first : first + ASKED_AT_ONCE]
            self._limits.update(dict.fromkeys(asked))
            # It fails if one of them has ended since; what it says of the others stands.
            self._limits.update(limits(self.run("qstat", "-j", ",".join(asked)).text))
        return {name: limit for name, limit in self._limits.items() if limit}

    def site(self, jobs: Sequence[queue.Job]) -> queue.Site:
        """What the configuration says of memory, GPUs and parallel environments; read anew every `KEPT_READS` reads,
        or when a job names an environment that is not known."""
        pes = {one.pe for one in jobs if one.pe}
        known = self._site.rules
        if self._site_reads % KEPT_READS == 0 or any(not self._site.known(pe) for pe in pes):
            self._limits.clear()
            rules = {pe: self._rule(pe) for pe in self._environments()} if pes else known
            self._site = queue.Site(self._site.memory, self._site.gpus, self.complexes(), rules)
        self._site_reads += 1
        return self._site

    def complexes(self) -> dict[str, queue.Complex]:
        """All complexes by their names."""
        rows = [line.split() for line in self.ask("qconf", "-sc").splitlines()]
        rows = [row for row in rows if len(row) >= 8 and not row[0].startswith("#")]
        return {row[0]: queue.Complex(row[2], row[3], row[5].upper()) for row in rows}

    def _environments(self) -> list[str]:
        result = self.run("qconf", "-spl")
        if result.returncode != 0 and b"no parallel environment" not in result.stderr:
            raise failed(result, ["qconf", "-spl"])
        return result.text.split() if result.returncode == 0 else []

    def _rule(self, pe: str) -> str:
        return xml.configuration(self.ask("qconf", "-sp", pe)).get("allocation_rule", "")


def limits(text: str) -> dict[str, int]:
    """Of ``qstat -j``: how many tasks at once, by the number of the job."""
    found, number = {}, ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "job_number":
            number = value.strip()
        elif limit := TASKS_AT_ONCE.match(line):
            found[number] = int(limit[1] or limit[2])
    return {number: limit for number, limit in found.items() if limit}


def checked(name: str) -> str:
    """The name of a host, or `SourceError`: it becomes a part of a command line and of a pattern."""
    if not NAME.fullmatch(name):
        raise SourceError(f"{name!r} is no name of a host")
    return name


def _registered_port() -> str:
    with suppress(OSError):
        return str(socket.getservbyname("sge_qmaster", "tcp"))
    return "6444"  # as the Internet's registry of ports has it
