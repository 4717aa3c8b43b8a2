"""What is wrong with looking: what is believed, and who is who."""

from __future__ import annotations

from elastiq import (
    core,
    discrepancies,
    ending,
    failed_drains,
    interfaces,
    observations,
    observer,
    reconcile,
    scale_down,
)
from tests.mutants.bends import both, jobs, often, only, setting, throughout
from tests.mutants.planting import Change, Mutant

EMPTY = "{'the queue': Jobs(()), 'the workers': Workers(())}.get(seen.name, Instances(()))"

MUTANTS: tuple[Mutant, ...] = (
    # ------------------------------------------------------------------ what is believed
    Mutant(
        "treats a failed read as an empty one",
        "I6",
        (
            Change(
                observer.Observer,
                "_read",
                "seen.failed(core.explain(outcome.error))",
                f"seen.succeeded(outcome.began, {EMPTY})",
            ),
            Change(observer.Observer, "_read", "take(outcome.began, outcome.value)", "take(outcome.began, seen.value)"),
        ),
        often("batch_fails", for_s=400.0, share=0.5),
    ),
    Mutant(
        "believes the last good read after a failed one",
        "I6",
        (
            Change(observations.Observation, "why_unknown", "if self.failures:", "if False:"),
            Change(observer.Observer, "_take_workers", "if view is None:", "if view is None and False:"),
            Change(
                observer.Observer,
                "_take_workers",
                "self._judge_workers(began, view)",
                "view and self._judge_workers(began, view)",
            ),
        ),
        often("batch_fails", for_s=400.0, share=0.5),
    ),
    Mutant(
        "acts on reads however old",
        "I6",
        (Change(observations.Observation, "why_unknown", "if now - self.began > self.stale_after_s:", "if False:"),),
        both(
            setting(min_vms=2, max_vms=8),
            often("head_sleeps", for_s=1200.0, counts=True),
            often("interruption", times=8, which=0.3, count=2),
        ),
    ),
    Mutant(
        "treats a partial answer of the queue as complete",
        "I6",
        (Change(interfaces.Jobs, "complete", "return not self.missing", "return True"),),
        often("batch_partial", for_s=1200.0, share=0.7),
    ),
    Mutant(
        "treats a partial list of workers as complete",
        "I6",
        (Change(observations.SettleJudge, "why_unsettled", "if view.missing or", "if"),),
        often("batch_partial", for_s=1200.0, share=0.7),
    ),
    Mutant(
        "believes a collector that has just started",
        "I6",
        (
            Change(
                observations.SettleJudge,
                "why_unsettled",
                "young = view.source_up_s is not None and view.source_up_s < self.settle_s",
                "young = False",
            ),
        ),
        both(setting(batch_settle_s=600.0), often("collector_restarts", times=6, for_s=20.0)),
    ),
    Mutant(
        "believes at once that most workers have vanished",
        "I6",
        (Change(observations.SettleJudge, "why_unsettled", "or len(missing) * 2 > len(expected)", ""),),
        both(
            setting(lost_after_s=120.0, batch_settle_s=600.0, min_vms=2, max_vms=8),
            often("batch_empty", for_s=500.0, calls=["workers"]),
        ),
    ),
    Mutant(
        "lets an unsettled view run the clocks of what is missing",
        "I6",
        (Change(reconcile, "_not_seen", "if not settled:", "if False:"),),
        both(
            setting(lost_after_s=120.0, batch_settle_s=600.0, min_vms=2, max_vms=8),
            often("batch_empty", for_s=500.0, calls=["workers"]),
        ),
    ),
    Mutant(
        "counts time in which nobody looked as idle",
        "I6",
        (
            Change(observations.Watch, "passed_s", "if good and before is not None", "if before is not None"),
            Change(observations.Watch, "passed_s", "began if good else None", "began"),
            Change(observations.Watch, "passed_s", "passed_s if passed_s <= longest_s else 0.0", "passed_s"),
        ),
        both(setting(idle_for_time_s=600.0), often("batch_fails", for_s=500.0, calls=["workers"])),
    ),
    Mutant(
        "resets the idle timers on each poll",
        "I7",
        (
            Change(
                reconcile, "_seen", "node.idle_s + observed_s if was_idle and same", "observed_s if was_idle and same"
            ),
            Change(reconcile, "let_pass", "node.idle_s += observed_s", "node.idle_s = observed_s"),
        ),
    ),
    Mutant(
        "takes wall time for timers",
        "I6 I7 I8 I10 bug",
        (Change(core.Core, "now", "self.events.clock.monotonic()", "self.events.clock.time() - 1_700_000_000 + 1000"),),
        often("clock_steps", times=2, by_s=-3600.0),
    ),
    # ------------------------------------------------------------------ who is who
    Mutant(
        "matches workers by address alone",
        "I2 I6 I7 I9",
        (
            Change(reconcile, "_node_of", "if not _stale(worker, node):", "if True:"),
            Change(reconcile, "_node_of", "[worker.instance_id] if worker.instance_id else", ""),
        ),
        # A machine dies; the next one gets its address while its ad is still there, and boots slowly.
        both(
            setting(
                lost_after_s=120.0,
                estimated_vm_deploy_time_s=900.0,
                check_vms_every_s=120.0,
                check_queue_every_s=30.0,
                waiting_jobs_time_s=0.0,
                max_vms=4,
            ),
            only(
                (0.0, "addresses_recycled", {"for_s": 3000.0}),
                (0.0, "stale_ads", {"for_s": 3000.0, "stay_s": 900.0}),
                (0.0, "no_instance_id", {"for_s": 3000.0}),
                (10.0, "jobs", {"cpus": 1.0, "memory_mb": 1024.0, "lengths": [2000.0] * 2}),
                (800.0, "slow_boots", {"for_s": 2000.0, "times": 6}),
                (900.0, "interruption", {"which": 0.0, "count": 1}),
                (905.0, "jobs", {"cpus": 2.0, "memory_mb": 2048.0, "lengths": [500.0] * 2}),
                calm_at_s=3100.0,
                lease_s=200.0,
            ),
        ),
    ),
    Mutant(
        "does not know machines again by their tags",
        "I1 I4 I6",
        (
            Change(
                reconcile,
                "take_instances",
                "if node is None:",
                "if node is None:\n            continue\n        if False:",
            ),
        ),
        often("store_damaged", times=2, how="removed", down_s=20.0),
    ),
    Mutant(
        "takes other heads' machines for its own",
        "I3",
        (Change(reconcile, "take_instances", "in seen.owned:", "in (*seen.owned, *seen.other_heads):"),),
        throughout("foreign_machines", count=2, whom="another head"),
    ),
    Mutant(
        "ends the head node with the others",
        "I3",
        (
            Change(
                ending.Ending,
                "terminate",
                "cloud.terminate, list(asked)",
                "cloud.terminate, [*asked, core.owner.instance_id]",
            ),
        ),
    ),
    Mutant(
        "returns workers that somebody else drained",
        "I3",
        (Change(failed_drains, "undo", "node.seen.drained_by_mark(core.owner.mark):", "node.seen.is_drained:"),),
        often("admin_drains", times=8, which=0.5, for_s=900.0),
    ),
    Mutant(
        "ends workers that somebody else drained",
        "I6",
        (
            Change(
                scale_down,
                "drains",
                "n.seen.state is WorkerState.IDLE]",
                "n.seen.state is WorkerState.IDLE or n.seen and n.seen.is_drained]",
            ),
            Change(
                scale_down,
                "drains",
                "elif s.no_drain or node.idle_s < s.idle_for_s(node.pool):",
                "elif not node.seen.is_drained and node.idle_s < s.idle_for_s(node.pool):",
            ),
            Change(scale_down, "drains", "if s.no_end or not due:", "if s.no_end:"),
            Change(failed_drains, "disturbed", "node.seen.drained_by_mark(core.owner.mark) is False", "False"),
        ),
        often("admin_drains", times=8, which=0.5, for_s=900.0),
    ),
    Mutant(
        "takes an unknown state for the end",
        "I1 I4 I6",
        (
            Change(
                reconcile,
                "_update",
                "if state is InstanceState.TERMINATED:",
                "if state in (InstanceState.TERMINATED, InstanceState.UNKNOWN):",
            ),
        ),
        often("odd_states", for_s=900.0, part=0.5),
    ),
    Mutant(
        "takes a machine for gone that one listing lacks",
        "I1 I4 I6",
        (
            Change(discrepancies, "_not_listed", "node.unlisted >= LISTINGS_BEFORE_GONE", "node.unlisted"),
            Change(reconcile, "take_instances", "if began >= node.listed_by", ""),
        ),
        both(throughout("pages_shift"), setting(max_vms=5), jobs()),
    ),
)
