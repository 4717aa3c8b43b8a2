"""HTCondor, asked by its own commands, each in a child process with a deadline.

Grouping is the schedd's work (``condor_q -group-by``), so that ten thousand idle jobs are one small answer.
Its autoclusters will not do: they count running jobs too, and a constraint on the status finds none.

Draining is ``condor_drain -graceful -check``: the startd tests the expression on all its slots and drains in
one step, it can be cancelled, and the reason that we leave shows whose drain it is. The peaceful mode is the
same with another test: only if every job that runs there is guaranteed its time (MAXJOBRETIREMENTTIME),
since a graceful drain evicts the job whose retirement time is up. ``condor_off -peaceful`` would need no such
guarantee, but it cannot be undone, says nobody's name, and ends the startd: the worker would look lost.
"""

from __future__ import annotations

import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from glob import glob
from importlib.util import find_spec
from time import monotonic
from typing import Any, Mapping, Sequence

from elastiq import interfaces
from elastiq.command import CommandError, CommandNotFound, CommandResult, run
from elastiq.errors import SourceError
from elastiq.interfaces import BatchSystem, DrainAnswer, DrainMode, DrainOutcome, Owner, Worker, Workers, WorkerState
from elastiq.plugins.batch import htcondor_ads as ads
from elastiq.plugins.batch import htcondor_jobs as queue
from elastiq.plugins.batch import htcondor_slots as pool
from elastiq.plugins.batch.htcondor_options import OPTIONS

SCHEDDS_AT_ONCE = 16
UNLISTED_READS = 20
KEPT_S = 300.0  # for so long after a read of the workers the queue is read of the schedds that it listed
MAX_OUTPUT = 64_000_000  # bytes; a slot is about 600
GUARANTEED_S = 1_000_000  # longer than any drain that is undone at drain_timeout_s, or is forgotten for a week
CHECKS = {
    DrainMode.IF_IDLE: '(State =?= "Unclaimed" || State =?= "Owner" || State =?= "Drained")',
    DrainMode.PEACEFUL: f'(State =!= "Claimed" || RetirementTimeRemaining >= {GUARANTEED_S})',
}
HOST = re.compile(r"[a-z0-9._-]+")
Answers = tuple[dict[str, list[ads.Row]], tuple[str, ...]]


class HTCondor(BatchSystem):
    """A pool: one collector, any number of schedds."""

    section = "htcondor"
    OPTIONS = OPTIONS
    asks_by_bindings = False

    def __init__(self, values: Mapping[str, Any], owner: Owner) -> None:
        self._pool = ("-pool", values["pool"]) if values.get("pool") else ()
        self._schedds: tuple[str, ...] = tuple(values.get("schedds") or ())
        self._unlisted: dict[str, int] = {}  # for how many reads the collector has not listed each schedd
        self._listed: tuple[float, set[Any]] = 0.0, set()  # by the last read of the workers, and when (`monotonic`)
        self._constraint: str = values.get("constraint") or ""
        self._timeout_s = float(values["command_timeout_s"])
        self._mark = owner.head[:16]
        self._reason = f"elastiq {self._mark} of {owner.cluster}, drain "
        self._gives_reason = True
        self._drains: dict[str, str] = {}  # the last drain of each worker, as its reason shows it
        self._undone: dict[str, set[str]] = {}  # the last ones that were cancelled
        self._watch: Any = None  # a `QueueWatch`, once it was asked for
        self.watches = bool(values.get("watch_queue", True))
        self.can_drain = bool(values.get("drain", True))
        self.call_deadline_s = 4 * self._timeout_s  # a drain is up to three commands, and one more to undo it

    @classmethod
    def from_config(cls, values: Mapping[str, Any], owner: Owner) -> HTCondor:
        if not has_bindings() and values.get("query_method") != "bindings":
            return cls(values, owner)
        from elastiq.plugins.batch.htcondor_bound import BoundHTCondor

        return BoundHTCondor(values, owner)

    # ------------------------------------------------------------------ the queue

    def jobs(self) -> interfaces.Jobs:
        """The waiting jobs of all users, grouped. A schedd that does not answer is missing; if none does,
        that is a `SourceError`."""
        if self._watch is not None:
            with suppress(SourceError):  # it is polled
                self._watch.news(reading=True)
        names = {name.lower(): name for name in (*_attributes(self._constraint), *queue.JOB_ATTRIBUTES)}
        ours = [f"({self._constraint})"] if self._constraint else []
        status = queue.any_of("JobStatus", queue.WAITING + queue.RUNNING)
        # of a routed job the copy is in the queue too
        conditions = [status, queue.any_of("JobUniverse", queue.UNIVERSES), "RoutedToJobId is undefined", *ours]
        args = ("-group-by", "-attributes", ",".join(names.values()), "-json", "-constraint", " && ".join(conditions))
        found, missing = self._each_schedd(*args, keep=True)
        if missing and not found:
            raise SourceError(missing[0])
        return interfaces.Jobs(queue.job_groups(found), missing)

    def changed(self) -> bool:
        """Whether the schedd of this machine has written to its queue since the last read began."""
        from elastiq.plugins.batch.htcondor_watch import QueueWatch, queue_log

        self._watch = self._watch or QueueWatch(queue_log(self._timeout_s))
        return bool(self._watch.news())

    def jobs_recorded_on(self, workers: Sequence[str]) -> Mapping[str, int]:
        """How many jobs the schedds hold as running on these workers; all of them must answer."""
        if not workers:
            return {}
        from elastiq.plugins.batch.htcondor_lookups import jobs_recorded_on

        return jobs_recorded_on([checked_host(name) for name in workers], self._each_schedd)

    def jobs_on(self, worker: str) -> tuple[str, ...]:
        """As "12.3 (alice)", with its schedd where there are several; all of them must answer."""
        from elastiq.plugins.batch.htcondor_lookups import jobs_on

        return jobs_on(checked_host(worker), self._each_schedd)

    def find_job(self, job: str) -> tuple[str, str]:
        """Of "12.3", "12" (its first job) or "12.3@SCHEDD"; only what the queue holds."""
        from elastiq.plugins.batch.htcondor_lookups import find_job

        return find_job(job, self._each_schedd, self._constraint)

    def _each_schedd(self, *args: str, only: str = "", keep: bool = False) -> Answers:
        """The answers by the schedd's name, and who gave none. A dead schedd costs one time-out, and so do ten."""
        names = (only,) if only else self._schedds or self._known_schedds(keep)
        found, missing = {}, []
        with ThreadPoolExecutor(max_workers=min(len(names), SCHEDDS_AT_ONCE)) as threads:
            # -allusers: without it, the answer is an empty list of one's own jobs (since 8.5.2)
            where = {name: ("-name", name) if name else () for name in names}
            asked = {name: threads.submit(self._ask, "condor_q", *where[name], "-allusers", *args) for name in names}
        for name, answer in asked.items():
            try:
                found[name] = answer.result()
            except SourceError as error:
                missing.append(f"schedd {name or 'of this machine'}: {error}")
                self._listed = 0.0, set()
        return found, tuple(missing)

    def _known_schedds(self, keep: bool = False) -> tuple[str, ...]:
        """All that the collector lists, or did until UNLISTED_READS reads ago: the ad of one that hangs
        expires, its jobs do not, and condor_q then fails for it. If there are none, the one of this machine.
        With ``keep`` it is not asked while the workers' reads list those that we know, and all of them answer."""
        at, names = self._listed
        if not (keep and names and names == self._unlisted.keys() and monotonic() < at + KEPT_S):
            listed = self._ask("condor_status", "-schedd", "-json", "-attributes", "MyType,Name")
            unlisted = {name: reads + 1 for name, reads in self._unlisted.items() if reads < UNLISTED_READS}
            self._unlisted = {**unlisted, **{row["name"]: 0 for row in listed if isinstance(row.get("name"), str)}}
        return tuple(sorted(self._unlisted)) or ("",)

    # ------------------------------------------------------------------ the workers

    def workers(self) -> Workers:
        """All workers, and for how long the collector has been up: one read of one collector says both, and
        which schedds there are."""
        found = self._ads(f'({pool.SLOTS}) || MyType == "Collector" || MyType == "Scheduler" || MyType == "Negotiator"')
        workers = (pool.worker(name, slots) for name, slots in sorted(pool.by_machine(found).items()))
        missing, schedds = pool.missing(found), [row for row in found if ads.word(row, "mytype") == "scheduler"]
        self._listed = monotonic(), set() if missing else {row.get("name") for row in schedds}
        return Workers(tuple(map(self._unless_undone, workers)), pool.source_up_s(found), missing)

    def _unless_undone(self, worker: Worker) -> Worker:
        """An update that got lost leaves a drain in the ad that was cancelled (seen: for 11 s; at most
        UPDATE_INTERVAL, 300 s): the worker may run a job by now, and must not pass for drained."""
        if worker.drained_by not in self._undone.get(worker.name, ()):
            return worker
        return replace(worker, state=WorkerState.OTHER, drained_by=None, detail="its ad shows a drain that was undone")

    def _slots_of(self, worker: str) -> list[ads.Row]:
        return self._ads(f'{pool.SLOTS} && Machine == "{checked_host(worker)}"')

    def _ads(self, constraint: str) -> list[ads.Row]:
        attributes = ",".join(pool.SLOT_ATTRIBUTES)
        return self._ask("condor_status", "-any", "-json", "-attributes", attributes, "-constraint", constraint)

    # ------------------------------------------------------------------ drain

    def drain(self, worker: str, mode: DrainMode) -> DrainAnswer:
        """Drain every startd of the machine, or none."""
        if not self.can_drain:
            return DrainAnswer(DrainOutcome.REFUSED, "drain = no in [htcondor]")
        # By the name of a slot: a name with an @ in it needs no DNS, and by name (not by address) who is
        # ADMINISTRATOR at the collector gets the right from there (SEC_ENABLE_REMOTE_ADMINISTRATION).
        startds = pool.startds(self._slots_of(worker))
        if not startds:
            return DrainAnswer(DrainOutcome.REFUSED, f"the collector knows no worker {worker}")
        self._drains[worker] = self._reason + uuid.uuid4().hex[:8]
        for number, startd in enumerate(startds):
            answer = self._drain(worker, startd, mode)
            if answer.outcome is not DrainOutcome.DRAINED:
                for begun in startds[:number]:
                    self._cancel(begun)
                return answer
        return DrainAnswer(DrainOutcome.DRAINED)

    def _drain(self, worker: str, startd: str, mode: DrainMode) -> DrainAnswer:
        # -debug, because without it a refusal and a dead machine read the same
        reason = ("-reason", self._drains[worker]) if self._gives_reason else ()
        result = self._run("condor_drain", "-debug", "-graceful", *reason, "-check", CHECKS[mode], startd)
        if result.returncode == 0:
            return DrainAnswer(DrainOutcome.DRAINED)
        from elastiq.plugins.batch.htcondor_refusals import drain_answer, takes_no_reason

        if reason and takes_no_reason(result):
            self._gives_reason = False
            return self._drain(worker, startd, mode)
        return drain_answer(result, worker, mode, self._mark, lambda: self._look_again(worker))

    def _look_again(self, worker: str) -> tuple[list[ads.Row], Worker]:
        slots = self._slots_of(worker)
        return slots, self._unless_undone(pool.worker(worker, slots))

    def undrain(self, worker: str) -> None:
        """Cancel our drain; somebody else's is left alone, which is an error."""
        from elastiq.plugins.batch.htcondor_refusals import undone

        ours = undone(worker, self._slots_of(worker), self._mark, self._gives_reason, self._cancel)
        self._undone[worker] = {*ours, self._drains.pop(worker, "")} - {""}

    def _cancel(self, startd: str) -> None:
        from elastiq.plugins.batch.htcondor_refusals import cancel

        cancel(self._run, startd)

    def forget(self, worker: str) -> None:
        """Take a dead machine's ads out of the collector, which would keep them for CLASSAD_LIFETIME."""
        ad = f'MyType = "Query"\nTargetType = "Machine"\nRequirements = Machine == "{checked_host(worker)}"\n'
        result = self._run("condor_advertise", "INVALIDATE_STARTD_ADS", "-", stdin=ad.encode())
        if result.returncode != 0:
            from elastiq.plugins.batch.htcondor_refusals import not_forgotten

            raise not_forgotten(result, worker)

    def checks(self) -> interfaces.Looks:
        from elastiq.plugins.batch.htcondor_bindings import Bindings
        from elastiq.plugins.batch.htcondor_checks import looks

        bindings = Bindings(self, "", self._timeout_s)
        return looks(self, self._run, self._ask, bool(self._constraint), bindings, self.asks_by_bindings)

    # ------------------------------------------------------------------ commands

    def _run(self, tool: str, *args: str, stdin: bytes = b"") -> CommandResult:
        argv = (tool, *self._pool, *args)
        try:
            return run(argv, timeout_s=self._timeout_s, max_output=MAX_OUTPUT, stdin=stdin)
        except CommandError as error:
            hint = " (HTCondor's tools must be on the PATH of elastiq)" if isinstance(error, CommandNotFound) else ""
            raise SourceError(f"{error}{hint}") from None

    def _ask(self, tool: str, *args: str) -> list[ads.Row]:
        result = self._run(tool, *args)
        if result.returncode != 0:  # first: what it printed is then no answer, however well-formed
            said = "" if result.complaint == result.ending else f": {result.complaint}"
            raise SourceError(f"{tool} failed with {result.ending}{said}")
        return ads.rows(result.text, tool)


def has_bindings() -> bool:
    """Whether HTCondor's bindings seem to be there, for our Python or the system's: by their files alone."""
    return any(map(find_spec, ("htcondor2", "htcondor"))) or any(glob("/usr/lib*/python3*/*-packages/htcondor*"))


def _attributes(constraint: str) -> list[str]:
    """The attributes that an expression may use: the schedd evaluates it on a group, which has only those it
    is grouped by. One too many does no harm."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", constraint)
    words = re.findall(r"(?<![\w.])(?:(?:my|target)\.)?([a-z_]\w*)(?![\w.]|\s*\()", bare, re.IGNORECASE)
    return [word for word in words if word.lower() not in ("true", "false", "undefined", "error", "is", "isnt")]


def checked_host(worker: str) -> str:
    if not HOST.fullmatch(worker):  # it goes into ClassAd expressions
        raise SourceError(f"{worker!r} is no name of a machine")
    return worker
