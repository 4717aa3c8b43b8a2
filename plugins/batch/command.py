"""Any batch system, behind executables of the administrator's that print its jobs and workers as JSON.

Each is run as ``EXECUTABLE KEY ARGUMENTS``, KEY being the key of [command] that names it, so that one program can
serve several. docs/batch/command.md is the protocol; the schemas of what is printed lie beside this module.
"""

from __future__ import annotations

import os
import re
from typing import Any, Iterable, Mapping, Sequence

from elastiq.command import CommandError, CommandResult, run
from elastiq.errors import SourceError, UnsupportedError
from elastiq.interfaces import BatchSystem, DrainAnswer, DrainMode, DrainOutcome, Instance, Jobs, Looks, Owner, Workers
from elastiq.plugins.batch import command_answers as answers
from elastiq.plugins.batch.command_options import EXECUTABLES, OPTIONS
from elastiq.plugins.batch.tools import failed

REMEMBERED = 10_000  # names of workers
MAX_OUTPUT = 16_000_000  # bytes; read as JSON they take ten times as much memory
# Above what a program that dies exits with by itself: curl's codes (1 to 99), an errno (Perl's die: 1 to 133), 126 and
# 127 of a shell, 128 and a signal (129 to 192), and below the 255 of ssh and Perl.
BUSY, REFUSED = 200, 201
# The rest of the daemon's environment is not for others: it may hold credentials, of a proxy as well.
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
# An argument that is no option, and that can be one.
ARGUMENT = re.compile(r"[^-\0-\x1f\x7f][^\0-\x1f\x7f]*")


class Command(BatchSystem):
    """The section [command] names the executables."""

    section = "command"
    OPTIONS = OPTIONS
    keeps_records = True  # if `register` is set

    def __init__(self, values: Mapping[str, Any], owner: Owner) -> None:
        self.executables: dict[str, str] = {key: values[key] for key in EXECUTABLES if values.get(key)}
        self.timeout_s = float(values["command_timeout_s"])
        self.call_deadline_s = 2 * self.timeout_s + 10  # the first act is after a read
        self.can_drain = "drain" in self.executables
        self.keeps_records = "register" in self.executables
        self._spelt: dict[str, str] = {}  # the workers' names: elastiq has them in lower case
        said = {"CLUSTER": owner.cluster, "MARK": owner.mark, "REASON": f"elastiq {owner.mark} of {owner.cluster}"}
        self._environment = {f"ELASTIQ_{name}": value for name, value in said.items()}

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> Command:
        return cls(values, owner)

    # ------------------------------------------------------------------ reads

    def jobs(self) -> Jobs:
        return answers.jobs(self._listed("jobs"))

    def workers(self) -> Workers:
        text = self._ask("workers")
        try:
            found, spelt = answers.workers(text)
        except SourceError as error:
            raise self._says("workers", error) from None
        before = self._spelt if len(self._spelt) < REMEMBERED else {}
        self._spelt = {**before, **spelt}  # one that is gone may still have to be asked about
        return found

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        """By `recorded`, or by `jobs` where that lists all that run."""
        return {name: len(jobs) for name, jobs in self._recorded(workers).items()}

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        return tuple(self._recorded([worker])[worker])

    def _recorded(self, workers: Sequence[str]) -> dict[str, list[str]]:
        if not workers:
            return {}
        by = "recorded" if "recorded" in self.executables else "jobs"
        found = self._listed(by, *(map(self._name, workers) if by == "recorded" else ()))
        if by == "jobs" and not found.lists_running:
            how = "set `recorded` in [command], or let `jobs` say lists_running"
            raise UnsupportedError(f"the running jobs of a worker are not told: {how}")
        try:
            return answers.recorded(found, workers)
        except SourceError as error:
            raise self._says(by, error) from None

    def find_job(self, job: str) -> tuple[str, str]:
        """By `find_job`, or among those that `jobs` lists."""
        by = "find_job" if "find_job" in self.executables else "jobs"
        for row in self._listed(by, *((job,) if by == "find_job" else ())).of(job):
            state = row.get("state", "waiting")
            where = f" on {', '.join(row['workers'])}" if row.get("workers") else ""
            said = answers.line(row.get("detail") or row.get("not_eligible") or "")
            how = f"{state}{where}{said and ': '}{said}"
            waits = state == "waiting" and not row.get("not_eligible")
            return answers.shape(row).key if waits else "", how
        raise SourceError(f"{self.executables[by]} {by} lists no job {job}")

    def _listed(self, key: str, *args: str) -> answers.Listed:
        text = self._ask(key, *args)
        try:
            return answers.listed(text, running=key == "recorded")
        except SourceError as error:
            raise self._says(key, error) from None

    # ------------------------------------------------------------------ acts

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        if not self.can_drain:
            return DrainAnswer(DrainOutcome.REFUSED, "`drain` is not set in [command]")
        argv, result = self._run("drain", self._name(worker), mode.value)
        said = "" if result.complaint == result.ending else result.complaint
        if result.returncode == REFUSED:
            return DrainAnswer(DrainOutcome.REFUSED, said or f"{argv[0]} drain refused it, and says no reason")
        if result.returncode == BUSY and mode is DrainMode.IF_IDLE:
            return DrainAnswer(DrainOutcome.BUSY, said or "a job runs there")
        if result.returncode != 0:
            raise failed(result, argv)
        return DrainAnswer(DrainOutcome.DRAINED)

    def undrain(self, worker: str) -> None:
        self._act("undrain", self._name(worker))

    def forget(self, worker: str) -> None:
        self._act("remove", self._name(worker))

    def register(self, instance: Instance) -> None:
        self._of("register", instance)

    def unregister(self, instance: Instance) -> None:
        self._of("unregister", instance)

    def _of(self, key: str, instance: Instance) -> None:
        more = {"ELASTIQ_POOL": instance.pool, "ELASTIQ_FLAVOUR": instance.flavour}
        self._act(key, instance.id, *sorted(instance.addresses), more=more)

    def _act(self, key: str, *args: str, more: Mapping[str, str] = {}) -> None:
        if key in self.executables:
            self._ask(key, *args, more=more)

    def pools_named(self) -> Iterable[tuple[str, str, bool]]:
        """As `elastiq.cli.cluster_checks.NamesPools` has it."""
        return [("`jobs`", pool, False) for group in self.jobs().groups for pool in group.pools]

    def checks(self) -> Looks:
        from elastiq.plugins.batch.command_checks import looks

        return looks(self)

    # ------------------------------------------------------------------ the executables

    def _name(self, worker: str) -> str:
        """As `workers` spells it; one that it has not printed since the daemon's start stays in lower case."""
        if not self._spelt:
            self.workers()
        return self._spelt.get(worker, worker)

    def _ask(self, key: str, *args: str, more: Mapping[str, str] = {}) -> str:
        """What it printed. Raises `SourceError` if it failed: what it printed is then no answer."""
        argv, result = self._run(key, *args, more=more)
        if result.returncode != 0:
            raise failed(result, argv)
        return result.text

    def _run(self, key: str, *args: str, more: Mapping[str, str] = {}) -> tuple[Sequence[str], CommandResult]:
        for argument in args:
            if not ARGUMENT.fullmatch(argument):
                raise SourceError(f"{argument!r} cannot be an argument of {self.executables[key]}")
        argv = (self.executables[key], key, *args)
        passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        env = {**passed_on, **self._environment, **more}
        try:
            return argv, run(argv, timeout_s=self.timeout_s, max_output=MAX_OUTPUT, env=env)
        except CommandError as error:
            raise SourceError(f"{error} (`{key}` in [command])") from None

    def _says(self, key: str, error: SourceError) -> SourceError:
        return SourceError(f"{self.executables[key]} {key} {error}")
