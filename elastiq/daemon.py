"""observe -> plan -> act: the handlers of the timed events, on one decision thread."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Optional

from elastiq import planner
from elastiq.catalogue import Catalogue
from elastiq.core import Core
from elastiq.events import Action, Timer
from elastiq.executor import Outcome
from elastiq.nodes import TO_COME, State
from elastiq.observer import Observer
from elastiq.settings import Settings

if TYPE_CHECKING:
    from elastiq.matching import Matching

# While a machine boots or drains, the workers and instances are looked at this often at least.
ATTENTIVE_S = 10.0
SELDOM_S = 300.0  # while the cloud's word fails no machine, it is asked for impaired ones so seldom at least
DUE_S = 0.1  # a machine that is due to go then is surely due
DOUBTED = {State.BOOTING, State.LOST}  # whom the cloud's word may fail (`discrepancies.impaired`)
MOVING = TO_COME | {State.DRAINING, State.TERMINATING}
LONGEST_BACKOFF_S = 600.0
HEARTBEAT_S = 30.0
AGAIN_S = 0.06  # after an early look at the queue the next one waits so long, or twice as long as that did

# Why jobs wait just now, in `Verdict.reason`: that is no news.
PASSING = ("waiting_jobs_time_s ", "jobs have started since the queue was read")

Plans = Callable[[planner.Situation], planner.Plan]


class Daemon:
    """One cluster's daemon.

    `run` blocks on the decision thread. `stop` and `status` may be called from anywhere. ``plans`` is for
    simulations and tests.
    """

    def __init__(self, core: Core, plans: Plans = planner.plan) -> None:
        self.core = core
        self._plans = plans
        self.observer = Observer(core, self.plan_soon)
        self.catalogue = Catalogue(core, self.plan_soon)
        self.extras: frozenset[str] = frozenset()  # the sections that are followed
        self.matching: Optional[Matching] = None  # where the batch system can match
        self.last_plan = planner.Plan()
        self.last_plan_at: Optional[float] = None  # wall time
        self.last_action: tuple[Optional[float], str] = (None, "nothing was done yet")
        self.allowances: tuple[planner.Allowance, ...] = ()
        self.stopping = False
        self.asked = False  # a client wanted the status: from then on it explains itself
        self.paired = False  # both sides were known and settled at least once since the start
        self._plan_pending = self._woken = False
        self._calm_at = 0.0  # when all early looks are forgotten
        self._early: Optional[Timer] = None  # the last look that a change was the reason of
        self._room_seen = 0.0  # the beginning of the last read of the workers that trials were charged with
        self._timers: dict[str, Timer] = {}
        self.published: dict[str, Any] = {}  # the last status, once a client has asked for one
        self.beat_at = core.wall(), core.now()  # when the loop was seen to run
        self.fingerprint()

    # ------------------------------------------------------------------ life

    def restore(self) -> None:
        """Take up the stored state."""
        self.core.restore()
        self.follow_batch()
        self.follow_extras()
        self.observer.launching.restore()
        self.observer.tell_sites()

    def start(self) -> None:
        """The same, and schedule the first events."""
        core = self.core
        self.restore()
        core.say("restored", f"cluster {core.owner.cluster}, head {core.owner.mark}, nodes known: {len(core.registry)}")
        self._every("check_vms", self.check_vms, first_s=0.0)
        self._every("check_queue", self.check_queue, first_s=0.0)
        self._every("check_vms_in_error", self.observer.read_problems)
        self.watch()

    def run(self) -> None:
        """Until `stop`. An event that fails outside of every handler is logged, and the rest goes on."""
        while not self.core.guard("loop", self.core.events.run):
            pass

    def stop(self) -> None:
        """Let the loop end after the present event. From a signal handler or any thread."""
        self.stopping = True
        self.core.events.stop()

    def close(self, wait_s: float = 8.0) -> None:
        """After the loop ended: wait for calls in flight, then close the store. What was in flight is
        resolved from its intent at the next start."""
        self.core.settings = replace(self.core.settings, extras={})
        self.core.guard("extras", self.follow_extras)
        self.core.executor.close(wait_s)
        self.core.persist()
        self.core.store.close()

    def follow_batch(self) -> None:
        """Match by the batch system if it can. Again after a reload."""
        self.matching = None
        if self.core.batch.can_match:
            from elastiq.matching import Matching

            self.matching = Matching(self.core, self.plan_soon)
        if self.core.batch.keeps_records and self.core.records is None:
            from elastiq.preparing import Records

            self.core.records = Records(self.core)
        told = self.matching is None and any(pool.terms.worker_ad for pool in self.core.settings.pools)
        self.core.tell("worker_ad", "has no effect, jobs are not matched (HTCondor: bindings)" if told else "")

    def follow_extras(self) -> None:
        """Begin or go on with what the sections of `elastiq.extras` ask for. Again after a reload."""
        if self.core.settings.extras or self.extras:
            from elastiq.extras import follow

            follow(self)

    def fingerprint(self) -> None:
        """Let trials begin anew if what pools offer has changed. Again after a reload."""
        pools = self.core.settings.pools
        self.core.trials.fingerprint = "/".join(f"{pool.name}:{pool.fingerprint}" for pool in pools)

    # ------------------------------------------------------------------ timed events

    def _every(self, name: str, action: Action, first_s: Optional[float] = None, every_s: float = 0.0) -> None:
        """Run a handler again and again; after a fault with exponential back-off and jitter."""
        core, failures = self.core, 0

        def tick() -> None:
            nonlocal failures
            failures = 0 if core.guard(name, action) else failures + 1
            core.guard("persist", core.persist)
            pause = every_s or self.period_s(name)
            if failures:
                pause = min(LONGEST_BACKOFF_S, pause * 2 ** min(failures, 10)) * (1 + core.jitter.random() * 0.2)
            self._timers[name] = core.events.after(pause, tick)

        self._timers[name] = core.events.after(every_s or self.period_s(name) if first_s is None else first_s, tick)

    def advance(self, name: str, in_s: float = 0.0) -> None:
        """Run a periodic handler in so many seconds if it would be later, and then at its period again."""
        timer, when = self._timers.get(name), self.core.now() + in_s
        if timer is not None and timer.action is not None and timer.when > when:
            self._timers[name] = self.core.events.at(when, timer.action)
            timer.cancel()

    # ------------------------------------------------------------------ a queue that changes

    def watch(self) -> None:
        """Have the batch system begin to watch its queue, if it can. Again after a reload."""
        if self.core.batch.watches:
            self._ask_for_changes()

    def wake(self) -> None:
        """The queue may have changed: look at it before its time. From any thread."""
        self.core.events.post(self._ask_for_changes if self.core.batch.watches else self._look_early)

    def _ask_for_changes(self) -> None:
        batch = self.core.batch
        self._woken = not self.core.read("queue changes", batch, batch.changed, self._changes)

    def _changes(self, outcome: Outcome[bool]) -> None:
        self.core.failed("queue changes", "the queue is only polled", outcome)
        if outcome.value:
            self._look_early()
        if self._woken:  # meanwhile
            self._ask_for_changes()

    def _look_early(self) -> None:
        """At once in a calm queue; each look in a row later than the one before, up to a period, so that those of a
        busy queue come in the place of polls."""
        now, period_s = self.core.now(), self.period_s("check_queue")
        if self._timers.get("check_queue") is self._early:
            return  # that look is still to come
        row = max(0.0, self._calm_at - now) / period_s
        self._calm_at = now + (row + 1) * period_s
        self.advance("check_queue", min(period_s, AGAIN_S * (2**row - 1)))
        self._early = self._timers.get("check_queue")

    def check_queue(self) -> None:
        """Read the queue, then plan; a read in flight may be older than the change that this look is for."""
        if not self.observer.read_jobs() and self._timers.get("check_queue") is self._early:
            self.observer.changed_at = self.core.now()

    def period_s(self, name: str, at: Optional[float] = None) -> float:
        """How often a periodic event comes from then on. Machines are looked at once an idle one is due to go."""
        period: float = getattr(self.core.settings, f"{name}_every_s")
        registry = self.core.registry
        if name != "check_vms":
            return period if name == "check_queue" or registry.count(None, DOUBTED) else max(period, SELDOM_S)
        # What is being emptied may take days.
        moving = registry.count(None, MOVING)
        if moving and moving > sum(bool(node.emptied) and node.state is State.DRAINING for node in registry):
            return min(period, ATTENTIVE_S)
        idle = [node for node in registry if node.state is State.IDLE] if registry.count(None, {State.IDLE}) else []
        s, began, now = self.core.settings, self.observer.workers.began, self.core.now() if at is None else at
        due = [began + registry.uses.idle_for_s(s, node.pool) - node.idle_s for node in idle]
        return min([period, *(max(ATTENTIVE_S, when + DUE_S - now) for when in due if when > now)])

    def check_vms(self) -> None:
        """Read workers and instances, update the registry, then plan."""
        self.observer.read_instances()
        self.observer.read_workers()
        self.advance("check_vms_in_error", self.period_s("check_vms_in_error"))
        self.catalogue.ask()
        self.observer.launching.seek()
        self.observer.ending.again()

    # ------------------------------------------------------------------ plan and act

    def plan_soon(self) -> None:
        """Plan once the present event is over, however often it was asked for."""
        if not self._plan_pending:
            self._plan_pending = True
            self.core.events.after(0.0, self._plan_event)

    def _plan_event(self) -> None:
        self._plan_pending = False
        core = self.core
        if not self.stopping:
            core.guard("plan", self._plan_and_act)
            # Where machines have begun to boot or drain, they are looked at sooner.
            core.guard("attend", lambda: self.advance("check_vms", self.period_s("check_vms")))
            core.guard("persist", core.persist)

    def settings_now(self) -> Settings:
        """The settings with the limits of the schedules that are in force, and of a person."""
        if not (self.core.settings.schedules or self.core.scaled):
            return self.core.settings
        from elastiq.scaling import limits_now

        return limits_now(self.core)

    def situation(self) -> planner.Situation:
        core, observer = self.core, self.observer
        self.paired = self.paired or observer.settled()
        ledger, settings, health = core.ledger, self.settings_now(), core.health
        self.allowances = ledger.allowances(settings, core.registry, core.now()) if ledger else ()
        cooling, no_drain = "", ""
        if settings.cooldown_after_launch_s or settings.cooldown_after_end_s or settings.cooldown_after_failure_s:
            from elastiq.cooldown import held_back

            cooling, no_drain = held_back(settings, health.times, core.now())
        fits = self.matching.fits if self.matching else lambda group, _, __, machine: core.batch.fits(group, machine)
        return planner.Situation(
            now=core.now(),
            wall=core.wall(),
            settings=settings,
            registry=core.registry,
            jobs=observer.jobs.known(core.now()),
            history=observer.history,
            trials=core.trials,
            health=health,
            sites=observer.sites(),
            settled=observer.settled(),
            workers_began=observer.workers.began,
            foreign=observer.foreign(),
            allowances=self.allowances,
            no_launch=observer.no_launch() or cooling,
            no_end=observer.no_end(),
            no_drain=no_drain,
            off={act: off for act in ("launch", "terminate") if (off := core.off(act))},
            drained=core.drained,
            fits=self.catalogue.before(fits),
            can_drain=core.batch.can_drain,
        )

    def _plan_and_act(self) -> None:
        core, launching, ending = self.core, self.observer.launching, self.observer.ending
        situation = self.situation()
        plan = self._plans(situation)
        if self.matching:
            self.matching.ask()
        if core.records is not None:
            core.records.follow()
        self.last_plan, self.last_plan_at = plan, core.wall()
        if plan.launches or plan.drains or plan.ends or plan.failed or plan.returns:
            core.say("plan", f"plan: {plan.summary}", subject="plan", reason=plan.summary)
        else:
            calm = plan.summary.startswith("nothing: ") or any(text in plan.summary for text in PASSING)
            level = logging.DEBUG if calm else logging.INFO
            core.tell_once("plan", f"plan: {plan.summary}", level, "plan", reason=plan.summary)
        groups = {group.key: group for group in situation.jobs.groups} if situation.jobs else {}
        asked = tuple(order for order in plan.launches if launching.launch(order))
        for order in asked:
            for key, count in order.groups.items():
                core.trials.launched(groups[key], count)
        if plan.noticed:
            from elastiq import notices

            notices.take(core, plan.noticed)
        for step in plan.drains:
            ending.drain(step)
        for step in plan.returns:
            ending.back(step.node, step.reason)
        if plan.failed or plan.kept or plan.ends:
            from elastiq.doubtful_ends import clear_up

            clear_up(ending, plan)
        done = plan if asked == plan.launches else replace(plan, launches=asked)
        if core.off("terminate"):
            done = replace(done, drains=(), ends=())
        if text := planner.actions(done, core.batch.can_drain):
            self.last_action = (self.last_plan_at, text)
        # Groups that were launched for, and leave fitting room unused, are found out by each settled read.
        began = self.observer.workers.began
        if not self.observer.settled_why and began != self._room_seen:
            self._room_seen = began
            core.trials.observe_room(plan.unused, self.observer.observed_s, core.settings.unused_room_s)

    # ------------------------------------------------------------------ the rest

    def heartbeat(self) -> None:
        """Show now and then that the loop runs; once a client has asked, have a status for it should the loop hang."""
        self._every("heartbeat", self.beat, first_s=0.0, every_s=HEARTBEAT_S)

    def beat(self) -> None:
        self.beat_at = self.core.wall(), self.core.now()
        if self.published:
            self.publish()

    def publish(self) -> None:
        """Make the status anew. On the decision thread."""
        from elastiq.status import snapshot

        self.published = snapshot(self)  # replaced whole, never changed

    def status(self, wait_s: float = 1.0) -> dict[str, Any]:
        """The status now; if the decision thread does not come to it, what is known without it. From any other
        thread."""
        from elastiq.status import current

        return current(self, wait_s)
