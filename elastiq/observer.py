"""The reads: asked off the decision thread, taken into the registry, judged for what they are worth."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Callable, Mapping, Optional, TypeVar

from elastiq import reconcile
from elastiq.core import Core, Plugin
from elastiq.demand import WaitingHistory
from elastiq.ending import Ending
from elastiq.executor import Outcome
from elastiq.interfaces import Instances, Jobs, Workers
from elastiq.launching import Launching
from elastiq.nodes import JOINED, State
from elastiq.observations import STALE_PERIODS, Observation, SettleJudge, Watch

T = TypeVar("T")

# Gets the monotonic time at which a read began, and what it brought: None if that is unknown.
Take = Callable[[float, Optional[T]], None]


class Observer:
    """What is known of the outside, and since when. ``replan`` is called after every read.

    `Launching` and `Ending` are told of the reads that they wait for.
    """

    def __init__(self, core: Core, replan: Callable[[], None]) -> None:
        self._core, self._replan = core, replan
        self.launching = Launching(core, replan)
        self.ending = Ending(core, self.look_again, self.no_end)
        # Between the last two settled reads of the workers; and of the queue, which outlives a reload.
        self.observed_s, self.history = 0.0, WaitingHistory(0.0)
        self._look_after: Optional[float] = None
        self._started_at = float("-inf")  # the end of the last read of the workers that saw more jobs
        self.changed_at = float("-inf")  # when the queue was said to have changed
        self.configure()

    def configure(self) -> None:
        """Take what depends on the settings; again after a reload: what was read before is forgotten."""
        core, s = self._core, self._core.settings
        self.judge, self.history.window_s = SettleJudge(s.batch_settle_s), s.waiting_jobs_time_s
        self.history.keep_s = s.estimated_vm_deploy_time_s if s.job_length_s else 0.0
        batch_s, vms_s = core.batch.call_deadline_s, STALE_PERIODS * s.check_vms_every_s
        self.jobs = Observation[Jobs]("the queue", STALE_PERIODS * s.check_queue_every_s + batch_s)
        self.workers = Observation[Workers]("the workers", vms_s + batch_s)
        late_s = {site: vms_s + cloud.call_deadline_s for site, cloud in core.clouds.items()}
        self.instances = {site: Observation[Instances](f"site {site}", late) for site, late in late_s.items()}
        self.settled_why = "the workers were not read yet"
        self._settled_watch = Watch()
        self.tell_sites()

    def observations(self) -> list[Observation[Any]]:
        return [self.jobs, self.workers, *self.instances.values()]

    def tell_sites(self) -> None:
        """Say where machines are that no configured pool reaches."""
        core = self._core
        gone = sorted({node.site for node in core.registry} - set(core.clouds))
        text = f"no pool is configured at {', '.join(gone)}: what runs there is counted, but cannot be ended"
        core.tell("sites", text if gone else "")

    # ------------------------------------------------------------------ what may be believed now

    def sites(self) -> frozenset[str]:
        """The sites whose instances are known now."""
        now = self._core.now()
        return frozenset(site for site, seen in self.instances.items() if seen.known(now) is not None)

    def settled(self) -> bool:
        """The workers are known now, their view is settled, and at least one site is known too."""
        return self.workers.known(self._core.now()) is not None and not self.settled_why and bool(self.sites())

    def foreign(self) -> int:
        known = [seen.known(self._core.now()) for seen in self.instances.values()]
        return sum(view.foreign + len(view.other_heads) for view in known if view is not None)

    def no_launch(self) -> str:
        """Why nothing may be launched now; empty if something may."""
        core, now = self._core, self._core.now()
        if core.store_broken:
            return f"the store cannot be written: {core.notices.get('store', '')}"
        if now < core.lost_until:
            return f"the state was lost: for {core.lost_until - now:.0f} s more, machines of ours may be there unlisted"
        if core.settings.quota_counts == "all" and len(self.sites()) < len(core.clouds):
            return "quota_counts = all, and the instances of a site are not known now"
        if self.jobs.value is not None and self.jobs.began < self._started_at:
            return "jobs have started since the queue was read"
        return self.jobs.why_unknown(now) or self.workers.why_unknown(now)

    def no_end(self) -> str:
        """Why nothing may be ended now; empty if something may."""
        now = self._core.now()
        jobs = self.jobs.known(now)
        if jobs is not None and not jobs.complete:
            return f"no answer from {', '.join(jobs.missing)}"
        return self.jobs.why_unknown(now) or self.workers.why_unknown(now) or self.settled_why

    # ------------------------------------------------------------------ asking

    def read_jobs(self) -> bool:
        return self._read("queue", self._core.batch, self._core.batch.jobs, self.jobs, self._take_jobs)

    def read_workers(self) -> None:
        if self._read("workers", self._core.batch, self._core.batch.workers, self.workers, self._take_workers):
            self._look_after = None

    def look_again(self) -> None:
        """A read of the workers that begins from now on is needed, at once."""
        self._look_after = self._core.now()
        self.read_workers()

    def read_instances(self) -> None:
        for site, cloud in self._core.clouds.items():
            listing = partial(cloud.instances, self._core.registry.instance_ids(site))
            self._read(f"cloud {site}", cloud, listing, self.instances[site], partial(self._take_instances, site))

    def read_problems(self) -> None:
        """Ask the cloud which machines it calls impaired."""
        core = self._core
        for site, cloud in core.clouds.items():
            ids = sorted(core.registry.instance_ids(site))
            if ids and cloud.capabilities.instance_problems:
                core.read(f"problems {site}", cloud, partial(cloud.problems, ids), self._problems_read)

    def _read(self, source: str, plugin: Plugin, call: Callable[[], T], seen: Observation[T], take: Take[T]) -> bool:
        core = self._core

        def came(outcome: Outcome[T]) -> None:
            if not any(seen is one for one in self.observations()):
                [again() for again in (self.read_jobs, self.read_workers, self.read_instances)]
                return  # the settings were reloaded while it was in flight
            if outcome.value is not None:
                seen.succeeded(outcome.began, outcome.value)
            else:
                seen.failed(core.explain(outcome.error))
                core.count(f"read_errors {source}")
            core.tell(source, seen.why_unknown(core.now()) if seen.failures else "")
            try:
                take(outcome.began, outcome.value)
            except Exception:  # not hidden: what was not taken in is only not to be acted upon
                seen.failed("what it said could not be taken in: see the log")
                raise
            self._replan()

        return core.read(source, plugin, call, came)

    # ------------------------------------------------------------------ taking

    def _take_jobs(self, began: float, jobs: Optional[Jobs]) -> None:
        if jobs is None:
            return
        core = self._core
        core.tell("schedds", f"no answer from {', '.join(jobs.missing)}" if jobs.missing else "")
        self.history.observe(began, jobs)
        core.trials.observe_jobs(jobs, frozenset(key for node in core.registry if node.was_busy for key in node.groups))
        core.guard("record", partial(core.saw_queue, jobs))
        if began < max(self._started_at, self.changed_at):
            self.read_jobs()

    def _take_instances(self, site: str, began: float, view: Optional[Instances]) -> None:
        core, grace_s = self._core, self._core.settings.intent_settle_s
        if view is not None:
            if notices := reconcile.take_instances(core.registry, site, view, began, core.wall(), grace_s):
                core.tell_once(f"listing of {site}", "; ".join(notices), logging.WARNING)
            lost = core.store_is_new and (notices or {one.id for one in view.owned} - core.registry.instance_ids(site))
            if lost or view.other_heads or f"other heads at {site}" in core.notices:
                from elastiq import findings

                findings.tell(core, site, view, bool(lost))
            for move in core.registry.moves:
                if move.after is State.GONE and move.legal:
                    self.ending.forget(move.node)
        self.launching.listing(site, began, view is not None)

    def _take_workers(self, began: float, view: Optional[Workers]) -> None:
        if view is None:
            self._settled_watch, self.settled_why = Watch(), self.workers.error
        else:
            self._judge_workers(began, view)
        if self._look_after is not None and self._look_after >= began:
            self.read_workers()

    def _judge_workers(self, began: float, view: Workers) -> None:
        core = self._core
        if _more_jobs(self.workers.previous, view):
            # They took room, and the last read of the queue still has them waiting: not to be counted twice.
            self._started_at = core.now()  # a read of the queue that began during this one may be older than it
            self.read_jobs()
        expected = frozenset(n.worker for n in core.registry if n.worker and n.state in JOINED)
        self.settled_why = self.judge.why_unsettled(view, expected, began)
        settled = not self.settled_why
        self.observed_s = self._settled_watch.passed_s(began, settled, self.workers.stale_after_s)
        wall, mark = core.wall(), core.owner.mark
        reconcile.take_workers(core.registry, view, settled, self.observed_s, wall, self._explained, mark)
        core.tell("workers are not settled", self.settled_why, logging.INFO)
        if core.registry.strangers or "identity" in core.notices:
            from elastiq.strangers import doubt

            core.tell("identity", doubt(core.registry))
        self.ending.look(began, settled, self.sites(), self.no_end())

    def _explained(self) -> Mapping[str, str]:
        from elastiq.strangers import explained

        views = [seen.value for seen in self.instances.values() if seen.value is not None]
        return explained(self._core.owner, views, self._core.settings.static_workers)

    def _problems_read(self, outcome: Outcome[Mapping[str, str]]) -> None:
        core = self._core
        if not core.failed("problems", "instance status", outcome) and outcome.value:
            from elastiq.discrepancies import impaired

            for subject, text in impaired(core.registry, outcome.value, core.wall()):
                core.tell_once(subject, text)
            self._replan()


def _more_jobs(before: Optional[Workers], now: Workers) -> bool:
    """Whether any worker runs more jobs than in the read before."""
    ran = {worker.name: worker.jobs for worker in before.workers} if before else None
    return ran is not None and any(worker.jobs > ran.get(worker.name, 0) for worker in now.workers)
