"""`elastiqctl terminate`: a person ends one machine now.

Without ``force``, it ends as an idle one does: drained first where that is possible, and ended by a read of the
workers that began after the drain. It is refused, with the names of the jobs, where jobs run or may run. With
``force``, the jobs are named first, and the machine ends with them: it is drained as well as can be, so that none
starts that was not named, and a look that begins after that decides.
"""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Union

from elastiq.by_hand import node_of, note, refuse_if_off, shown
from elastiq.errors import UnsupportedError
from elastiq.executor import Outcome
from elastiq.interfaces import DrainMode
from elastiq.nodes import AT_BOOT, IN_SERVICE, Node, State
from elastiq.protocol import Answer, Refused
from elastiq.situation import Step
from elastiq.wording import counted

if TYPE_CHECKING:
    from elastiq.daemon import Daemon

END = "elastiqctl terminate"
FORCED = f"{END} --force"  # a node that is so ordered ends whatever runs there: `Ending.out_of_service`
SHOWN = 20  # jobs in one line
Answers = Union[Answer, "Future[Answer]"]
Jobs = Optional[tuple[str, ...]]  # None: not known


def terminate(daemon: Daemon, args: Mapping[str, Any]) -> Answers:
    """Carry out ``terminate``; the answer may come later. Raises `Refused`, or the future does."""
    core, node = daemon.core, node_of(daemon.core, args)
    look, force, jobs = args.get("look", False), args.get("force", False), args.get("jobs")
    named = isinstance(jobs, list) and all(isinstance(job, str) for job in jobs)
    if not (isinstance(look, bool) and isinstance(force, bool) and (jobs is None or named)):
        raise Refused("malformed", '"look" and "force" are true or false, "jobs" is a list of names, or null for any')
    if node.state is State.REQUESTED:
        raise Refused("impossible", f"{node.name} is being asked for, and has no instance yet: try again in a minute")
    if look:
        return _look(daemon, node)
    refuse_if_off(core)
    if node.site not in core.clouds:
        raise Refused("impossible", f"{node.name} is at site {node.site}, which is not configured any more")
    if node.acting:
        raise Refused("impossible", f"{node.name}: something is being asked for it just now, try again in a moment")
    if force:
        return _Forced(daemon, node, None if jobs is None else frozenset(jobs)).begin()
    return _gently(daemon, node)


# --------------------------------------------------------------------------- which jobs


def _look(daemon: Daemon, node: Node) -> Future[Answer]:
    """What runs there, by a read of its own."""
    future: Future[Answer] = Future()

    def told(jobs: Jobs, why: str) -> None:
        future.set_result({**shown(node), "known": jobs is not None, "named": list(jobs or ()), "why": why})

    _name_jobs(daemon, node, future, told)
    return future


def _name_jobs(daemon: Daemon, node: Node, future: Future[Answer], then: Callable[[Jobs, str], object]) -> None:
    """Ask the batch system for the names of a worker's jobs. What fails afterwards is the future's."""
    core = daemon.core

    def done(outcome: Outcome[tuple[str, ...]]) -> None:
        count = node.seen.jobs if node.seen is not None else 0
        if isinstance(outcome.error, UnsupportedError):
            # It names none: how many the last read of the workers showed, as well as that is known.
            jobs: Jobs = () if node.seen is not None and not node.runs_something else None
            _settle(future, partial(then, jobs, f"{counted(count, 'job')}, which this batch system does not name"))
        elif outcome.value == () and node.runs_something:
            _settle(future, partial(then, None, f"{counted(count, 'job')}, which no queue records"))
        else:
            why = "" if outcome.error is None else f"the batch system does not say which: {core.explain(outcome.error)}"
            _settle(future, partial(then, outcome.value, why))

    asking = partial(core.batch.jobs_on, node.worker or "")
    if node.worker is None and node.state in AT_BOOT | {State.FAILED}:
        _settle(future, partial(then, None, "it had not joined when elastiq looked last"))
    elif node.worker is None:
        _settle(future, partial(then, (), ""))
    elif not core.read(f"jobs of {node.id}", core.batch, asking, done):
        _settle(future, partial(then, None, "the batch system still owes the answer to an earlier question"))


def _settle(future: Future[Answer], action: Callable[[], object]) -> None:
    """Do what is due then; the one who asked hears of its failure."""
    try:
        action()
    except Exception as error:  # the one who asked hears of it, and a fault goes on to the guard
        future.set_exception(error)
        if not isinstance(error, Refused):
            raise


def _some(jobs: tuple[str, ...]) -> str:
    more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
    return ", ".join(jobs[:SHOWN]) + more


# --------------------------------------------------------------------------- without force


def _gently(daemon: Daemon, node: Node) -> Answers:
    core, ending = daemon.core, daemon.observer.ending
    if node.state in (State.TERMINATING, State.FAILED):  # on its way: should it come back, the order still holds
        node.ordered = node.ordered or END
    if node.state is State.TERMINATING:
        core.persist()
        return shown(node)
    unknown = daemon.observer.no_end()
    if not unknown and node.site not in daemon.observer.sites():
        unknown = f"the instances of site {node.site} are not known now"
    if not unknown and node.state is State.LOST:
        unknown = "its worker is missing; elastiq ends it by itself once no job can be there any more"
    if unknown:
        why = f"whether jobs run on {node.name} is not known ({unknown}); --force ends it all the same"
        raise Refused("impossible", f"{why}: nothing was done")
    if node.runs_something:
        return _refused_for_its_jobs(daemon, node)
    if node.state is State.STOPPED:
        ending.end_for_good([Step(node, END)])
    elif node.state in AT_BOOT:
        _give_up(daemon, node)
    elif node.state in IN_SERVICE and node.seen is not None and node.worker is not None:
        node.unstoppable = True  # else a pool with idle_action = stop would keep it
        if node.seen.is_drained:  # by somebody else: there is nothing to drain, and it is to be looked at once more
            node.ordered = END
            core.registry.move(node, State.DRAINING, END, core.wall())
            node.act_ended, node.starts_at_drain = core.now(), node.job_starts
            ending.look_again()
        else:
            ending.drain(Step(node, END))
    elif node.state not in (State.DRAINING, State.FAILED):  # those are on their way
        raise Refused("impossible", f"{node.name}: its worker was not seen by the last read: nothing was done")
    note(core, "terminate", node, END)
    daemon.plan_soon()
    return shown(node)


def _give_up(daemon: Daemon, node: Node) -> None:
    """One that has not joined: it may do so in this moment, and is looked at once more. Should it have joined, it
    is drained, and ends when it is empty."""
    core = daemon.core
    node.ordered = END
    core.registry.move(node, State.FAILED, END, core.wall())
    node.act_ended = core.now()
    daemon.observer.ending.look_again()


def _refused_for_its_jobs(daemon: Daemon, node: Node) -> Future[Answer]:
    future: Future[Answer] = Future()

    def told(jobs: Jobs, why: str) -> None:
        which = f"{counted(len(jobs), 'job')}: {_some(jobs)}" if jobs else why or counted(node.jobs, "job")
        hint = f"elastiqctl drain {node.name} ends it after them, --force kills them"
        raise Refused("impossible", f"{node.name} runs jobs ({which}); {hint}: nothing was done")

    _name_jobs(daemon, node, future, told)
    return future


# --------------------------------------------------------------------------- with force


class _Forced:
    """One machine's end with its jobs. ``allowed`` are the jobs that a person has been told of; None is any."""

    def __init__(self, daemon: Daemon, node: Node, allowed: Optional[frozenset[str]]) -> None:
        self._daemon, self._node, self._allowed = daemon, node, allowed
        self._future: Future[Answer] = Future()
        self._drained_before = node.state is State.DRAINING

    def begin(self) -> Future[Answer]:
        """Keep further jobs off it first, where it is in service and that can be."""
        core, node = self._daemon.core, self._node
        if node.state in IN_SERVICE and node.worker is not None and core.batch.can_drain:
            node.ordered = f"{END}: drained first"  # should elastiq be killed now, it is emptied, and ends then
            core.record("terminate", node.name, node.pool, f"{FORCED} was asked for: drained first")
            core.registry.move(node, State.DRAINING, node.ordered, core.wall())
            node.act_ended, node.acting = None, True
            core.persist()
            core.act_on_batch(node.id, partial(core.batch.drain, node.worker, DrainMode.PEACEFUL), self._drained)
        else:
            node.acting = True
            self._name()
        return self._future

    def _drained(self, outcome: Outcome[Any]) -> None:
        # Refused or unknown: its jobs are named all the same, and it ends with them.
        self._node.act_ended = outcome.ended
        _settle(self._future, self._name)

    def _name(self) -> None:
        _name_jobs(self._daemon, self._node, self._future, self._end)

    def _end(self, jobs: Jobs, why: str) -> None:
        core, node = self._daemon.core, self._node
        node.acting = False
        if node.id not in core.registry.nodes:
            raise Refused("impossible", f"{node.name} is gone: {node.reason}")
        if off := core.off("terminate"):
            self._leave(f"no machine is ended now: {off}")
        if self._allowed is not None:
            if jobs is None:
                self._leave(f"which jobs run there is not known ({why})")
            elif new := tuple(job for job in jobs if job not in self._allowed):
                self._leave(f"jobs have started there that were not named: {_some(new)}")
        unknown = f"which jobs it kills is not known ({why})"
        killed = unknown if jobs is None else f"kills {_some(jobs)}" if jobs else "no job runs there"
        node.ordered = f"{FORCED}: {killed}"
        note(core, "terminate", node, node.ordered)
        core.registry.move(node, State.TERMINATING, node.ordered, core.wall())
        core.health.times["end"] = core.now()
        core.persist()
        self._daemon.observer.ending.terminate([node])
        self._daemon.plan_soon()
        self._future.set_result({**shown(node), "known": jobs is not None, "killed": list(jobs or ()), "why": why})

    def _leave(self, why: str) -> None:
        """Return it to where it was. Raises `Refused`."""
        ending, node = self._daemon.observer.ending, self._node
        if not self._drained_before and node.state is State.DRAINING:
            node.ordered = ""
            ending.back(node, f"{END} --force was not done")
        raise Refused("impossible", f"{node.name}: {why}: nothing was ended")
