"""One real observation and one plan in a process of its own: what the daemon would do now, and none of it done.

It is the daemon itself, over a copy of the state, with an executor that reads and does not act.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, TypeVar

from elastiq import identity
from elastiq.cli.copied import STATE as STATE
from elastiq.cli.copied import CopiedStore
from elastiq.core import Core
from elastiq.daemon import Daemon
from elastiq.demand import WaitingHistory
from elastiq.events import EventQueue, RealClock, Timer
from elastiq.executor import Done, Still, always
from elastiq.headid import HEAD_ID_FILE
from elastiq.health import Block
from elastiq.interfaces import InstanceState, JobGroup, Jobs, Owner, Resources
from elastiq.nodes import Node, State
from elastiq.paths import Paths
from elastiq.planner import Plan, Situation, Step, plan
from elastiq.plugin_loader import plugins
from elastiq.settings import Settings
from elastiq.threads import ThreadExecutor

T = TypeVar("T")
PATIENCE_S = 5.0
NO_ID = "this machine has no machine id: elastiq makes one of its own when it first starts"


class Reads(ThreadExecutor):
    """Makes every read and no act."""

    _ending: Optional[Timer] = None

    def take_all(self) -> None:
        """Run the loop until all that was asked for is taken in, and what it has brought about has happened."""
        self._end_soon()
        slow = self._events.after(PATIENCE_S, self._say_for_whom)
        self._events.run()
        slow.cancel()

    def _say_for_whom(self) -> None:
        """To somebody who waits; at a terminal or not."""
        lanes = [lane.partition(" ")[2] for lane, calls in self._running.items() if calls]
        print(f"elastiqctl: no answer yet from: {', '.join(lanes)}", file=sys.stderr)

    def act(
        self, source: str, node: str, call: Callable[[], T], done: Done[T], deadline_s: float, still: Still = always
    ) -> None:
        """Nothing: what would be done is in the plan, and in the nodes."""

    def _finish(self, call: Any, value: Any, error: Optional[BaseException]) -> None:
        super()._finish(call, value, error)
        self._end_soon()

    def _end_soon(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = self._events.after(0.0, self._end)

    def _end(self) -> None:
        if not any(self._running.values()):
            self._events.stop()


@dataclass
class Once:
    """The daemon after its one observation. ``plan`` is what it would carry out, ``going_on`` what it had begun
    before and would end now. ``running`` is the status of the daemon that runs, if one does."""

    daemon: Daemon
    running: Optional[Mapping[str, Any]]
    plan: Plan = field(default_factory=Plan)
    going_on: tuple[Step, ...] = ()

    @property
    def terminations(self) -> tuple[Step, ...]:
        return (*self.going_on, *self.plan.ends, *self.plan.failed)


def observe(settings: Settings, paths: Paths, running: Optional[Mapping[str, Any]]) -> Once:
    """Read everything once and plan. Raises `StoreError`, `IdentityError`, `ConfigError`, `SourceError` or OSError;
    a source that does not answer is no error, but unknown."""
    store = CopiedStore(paths.statedir / STATE)
    owner = owner_of(settings, paths.statedir)
    events = EventQueue(RealClock(), longest_pause_s=settings.sleep_s)
    reads = Reads(events)
    # Neither hooks nor a second page or port for metrics.
    core = Core(replace(settings, extras={}), *plugins(settings, owner), owner, events, reads, store)
    for cloud in core.clouds.values():
        cloud.read_only = True
    once = Once(Daemon(core, lambda situation: _thought(once, situation)), running)
    daemon, observer = once.daemon, once.daemon.observer
    daemon.asked = True
    daemon.restore()
    before = {node.id: node.state for node in core.registry}
    if running is not None:
        _take_over(daemon, running)
    daemon.check_vms()
    observer.read_jobs()
    observer.read_problems()
    reads.take_all()
    if core.registry.count(None, {State.DRAINING}):  # what to do with them is decided when all else is known
        observer.look_again()
        reads.take_all()
    if running is None:
        observer.history = _long_waiting(observer.jobs.value, observer.jobs.began, settings.waiting_jobs_time_s)
    daemon.plan_soon()  # of all that is known now; a plan may ask for more
    reads.take_all()
    once.going_on = tuple(Step(node, node.reason) for node in core.registry if _ending(node, before.get(node.id)))
    daemon.last_plan = once.plan
    return once


def owner_of(settings: Settings, statedir: Path) -> Owner:
    """Who the daemon is: it may run as another user than the one who asks. Raises `IdentityError` or OSError."""
    # The state file is its own; systemd makes the directory for it before it first starts.
    its = next((path for path in (statedir / STATE, statedir) if path.exists()), None)
    user = its.stat().st_uid if its else os.geteuid()
    kept = statedir / HEAD_ID_FILE
    try:
        # Where none is kept, nothing is to be made there.
        return identity.owner(settings.cluster_name, statedir if kept.exists() else Path(os.devnull), uid=user)
    except identity.IdentityError as error:
        raise identity.IdentityError(NO_ID if os.devnull in str(error) else str(error)) from None


def _thought(once: Once, situation: Situation) -> Plan:
    """Plan, and give the daemon nothing to carry out."""
    once.plan = plan(situation)
    return Plan(verdicts=once.plan.verdicts, summary=once.plan.summary)


def _ending(node: Node, before: Optional[State]) -> bool:
    """Whether its end was decided upon in this process: as the next step of a drain, not by the cloud."""
    by_cloud = node.instance is not None and node.instance.state is InstanceState.SHUTTING_DOWN
    return node.state is State.TERMINATING and before not in (None, State.TERMINATING) and not by_cloud


def _long_waiting(jobs: Optional[Jobs], began: float, window_s: float) -> WaitingHistory:
    """As if all of them had waited for long enough: one read cannot tell."""
    history = WaitingHistory(window_s)
    if jobs is not None:
        history.observe(began - window_s, jobs)
        history.observe(began, jobs)
    return history


def _take_over(daemon: Daemon, status: Mapping[str, Any]) -> None:
    """What only the running daemon knows: for how long jobs have waited and nodes were idle, and what is held
    back. Keys that an older one does not tell are left out."""
    core, now, wall = daemon.core, daemon.core.now(), daemon.core.wall()
    for shown in status.get("nodes", ()):
        node = core.registry.nodes.get(shown["node"])
        if node is not None:
            for clock in ("idle_s", "boot_s", "lost_s", "room_s"):
                setattr(node, clock, shown.get(clock, getattr(node, clock)))
    for one in status.get("blocks", ()):
        core.health.blocks[one["scope"]] = Block(now + one["until"] - wall, one["wait_s"], one["reason"])
    daemon.observer.history = _waited(status, now, core.settings.waiting_jobs_time_s)


def _waited(status: Mapping[str, Any], now: float, window_s: float) -> WaitingHistory:
    """The history of a daemon that tells since when a group has waited, and how many of it for long enough."""
    history = WaitingHistory(window_s)
    for shown in sorted(status["queue"]["groups"], key=lambda one: -float(one["waiting_s"])):
        group = JobGroup(shown["key"], Resources(), shown.get("waited") or shown["waiting"])
        history.observe(now - shown["waiting_s"], Jobs((group,), missing=("all others",)))
    return history
