"""The table: what is planted, and which invariant is to catch it."""

from __future__ import annotations

from elastiq import (
    broker,
    core,
    daemon,
    ending,
    health,
    interfaces,
    launching,
    limits,
    observations,
    observer,
    planner,
    reconcile,
)
from tests.mutants.bends import both, jobs, often, only, setting, throughout
from tests.mutants.planting import Change, Mutant

EMPTY = "{'the queue': Jobs(()), 'the workers': Workers(())}.get(seen.name, Instances(()))"
CATCH_STORE = "    except StoreError as exc:\n        self.count"

MUTANTS = (
    # ------------------------------------------------------------------ the cap
    Mutant(
        "counts only joined machines in the quota",
        "I1",
        (Change(broker.Budget, "__init__", "len(registry)", "sum(1 for n in registry if n.joined_at)"),),
    ),
    Mutant(
        "ignores the maximum of a pool",
        "I1",
        (Change(broker.Budget, "__init__", "_left(pool.max_vms, there)", "_left(None, there)"),),
    ),
    Mutant(
        "does not count machines of others with quota_counts = all",
        "I1",
        (Change(broker.Budget, "__init__", "s.foreign", "0"),),
        both(
            setting(quota_counts="all", max_vms=6),
            throughout("foreign_machines", count=3, whom="nobody"),
            jobs(count=30),
        ),
    ),
    Mutant(
        "takes an end that was asked for as done",
        "I1 I4",
        (
            Change(
                ending.Ending,
                "_answered",
                "node.failures, node.retry_at = 0, core.now() + RETRY_S",
                "core.registry.move(node, State.GONE, node.reason, core.wall())",
            ),
        ),
    ),
    Mutant(
        "launches without capping what it asks for",
        "I1",
        (Change(broker.Budget, "take", "count, binding = max(0,", "count, binding = wanted or max(0,"),),
    ),
    Mutant(
        "does not count launches for max_launches_per_hour",
        "I1",
        (Change(limits.Ledger, "launched", "self._add(count, 0.0)", "pass"),),
        both(setting(max_launches_per_hour=3, max_vms=20), jobs(count=20)),
    ),
    Mutant(
        "forgets in a restart what was launched within the hour",
        "I1",
        (Change(core.Core, "follow_limits", 'self.store.recall("ledger")', "None"),),
        both(setting(max_launches_per_hour=3, max_vms=20), jobs(count=20), often("restart", times=8, down_s=5.0)),
    ),
    Mutant(
        "takes what a machine costs for nothing",
        "I1",
        (Change(broker.Budget, "take", "price if one.priced else 1.0", "0.0 if one.priced else 1.0"),),
        both(setting(max_cost_per_hour=2.0, max_vms=20, pools_prices={"*": 0.9}), jobs(count=30)),
    ),
    # ------------------------------------------------------------------ launches
    Mutant(
        "skips the journal",
        "I5",
        (
            Change(
                launching.Launching,
                "launch",
                "if not core.stored(partial(core.store.journal, intent, nodes)):",
                "if not intent:",
            ),
        ),
    ),
    Mutant(
        "launches although the journal cannot be written",
        "I5",
        (
            Change(launching.Launching, "launch", "if not core.stored(", "if core.stored("),
            Change(launching.Launching, "launch", "return False\n    for node", "pass\n    for node"),
            Change(observer.Observer, "no_launch", "if core.store_broken:", "if False:"),
        ),
        both(often("disk_trouble", for_s=900.0, how="full"), jobs()),
    ),
    Mutant(
        "sends launches again after a crash",
        "I5",
        (
            Change(
                launching.Launching,
                "restore",
                "self.open[intent.id] = OpenIntent(intent, nodes[0].site, core.now())",
                "site = nodes[0].site\n"
                "            core.act_on_cloud(site, intent.id, partial(core.clouds[site].launch, intent),"
                " partial(self._answered, intent, site))",
            ),
        ),
        both(often("kill", at="launch", number=1, for_s=900.0, down_s=5.0), jobs()),
    ),
    Mutant(
        "closes launches of unknown outcome at once",
        "I1 I5 I6",
        (
            Change(
                launching.Launching,
                "_answered",
                "self.open[intent.id] = OpenIntent(intent, site, outcome.ended)",
                "self._drop_rest(intent, text)",
            ),
        ),
        both(often("launch_lost", for_s=600.0), throughout("slow_to_show", lag_s=90.0), jobs()),
    ),
    Mutant(
        "forgets launches of unknown outcome in a restart",
        "I1 I4 I5 I6",
        (
            Change(
                launching.Launching,
                "restore",
                "self.open[intent.id] = OpenIntent(intent, nodes[0].site, core.now())",
                "self._drop_rest(intent, 'forgotten')",
            ),
        ),
        both(
            throughout("slow_to_show", lag_s=200.0),
            often("kill", at="launch done", number=1, for_s=900.0, down_s=5.0),
            jobs(),
        ),
    ),
    Mutant(
        "launches for jobs that can never run",
        "I6 I7 I12",
        (
            Change(planner, "_serve_group", "if group.not_eligible:", "if False:"),
            Change(planner, "_serve", "if not g.not_eligible", ""),
        ),
        often("jobs", cpus=1.0, memory_mb=1024.0, lengths=[300.0] * 30, not_eligible="needs a licence"),
    ),
    Mutant(
        "ignores machines that are to come",
        "I1 I6",
        (
            Change(planner, "_room", "elif node.state in CAPACITY:", "elif False:"),
            Change(planner, "_serve_group", "wanted = min(wanted, max(0, group.waiting - trial.covered))", "pass"),
        ),
        jobs(),
    ),
    Mutant(
        "launches for running jobs too",
        "I6",
        (
            Change(
                planner,
                "_serve_group",
                "left = group.waiting - held.jobs",
                "left = group.waiting - held.jobs + (group.running or 0)",
            ),
            Change(planner, "_serve_group", "wanted = min(left, waited or 0)", "wanted = left if waited else 0"),
        ),
        jobs(times=6, count=16, length_s=2000.0),
    ),
    Mutant(
        "skips the back-off after a refused launch",
        "I8",
        (Change(health.Health, "blocked", "if block and now < block.until:", "if False:"),),
    ),
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
        (Change(observations.SettleJudge, "why_unsettled", "if view.missing:", "if False:"),),
        often("batch_partial", for_s=1200.0, share=0.7),
    ),
    Mutant(
        "believes a collector that has just started",
        "I6",
        (
            Change(
                observations.SettleJudge,
                "why_unsettled",
                "if view.source_up_s is not None and view.source_up_s < self.settle_s:",
                "if False:",
            ),
        ),
        both(setting(batch_settle_s=600.0), often("collector_restarts", times=6, for_s=20.0)),
    ),
    Mutant(
        "believes at once that most workers have vanished",
        "I6",
        (Change(observations.SettleJudge, "why_unsettled", "if len(missing) * 2 <= len(expected):", "if True:"),),
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
            Change(reconcile, "match", "if not _stale(worker, node)", ""),
            Change(reconcile, "match", "[worker.instance_id] if worker.instance_id else", ""),
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
                "_terminate",
                "cloud.terminate, list(asked)",
                "cloud.terminate, [*asked, core.owner.instance_id]",
            ),
        ),
    ),
    Mutant(
        "returns workers that somebody else drained",
        "I3",
        (
            Change(
                ending.Ending,
                "look",
                "node.seen is not None and node.seen.drained_by_mark(core.owner.mark):",
                "node.seen is not None and node.seen.is_drained:",
            ),
        ),
        often("admin_drains", times=8, which=0.5, for_s=900.0),
    ),
    Mutant(
        "ends workers that somebody else drained",
        "I6",
        (
            Change(
                planner,
                "_drains",
                "n.seen.state is WorkerState.IDLE]",
                "n.seen.state is WorkerState.IDLE or n.seen and n.seen.is_drained]",
            ),
            Change(planner, "_drains", "not (orphaned or", "not (node.seen.is_drained or orphaned or"),
            Change(ending.Ending, "look", "node.seen.drained_by_mark(core.owner.mark) is False", "False"),
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
            Change(reconcile, "_not_listed", "node.unlisted >= LISTINGS_BEFORE_GONE", "node.unlisted"),
            Change(reconcile, "_not_listed", "if began < node.listed_by or", "if"),
        ),
        both(throughout("pages_shift"), setting(max_vms=5), jobs()),
    ),
    # ------------------------------------------------------------------ scale-down
    Mutant(
        "ends without the look after the drain",
        "I2 I6",
        (Change(ending.Ending, "_drained", 'core.count("drains")\n', "return self._end([Step(node, node.reason)])\n"),),
    ),
    Mutant(
        "takes a look from before the drain for the one after it",
        "I2 I6",
        (
            Change(ending.Ending, "look", "elif began < node.act_ended:", "elif False:"),
            Change(ending.Ending, "_out_of_service", "WorkerState.DRAINED if", "WorkerState.IDLE if"),
        ),
        often("drain_not_done", for_s=900.0),
    ),
    Mutant(
        "ends on a refused drain",
        "I2 I6",
        (
            Change(
                ending.Ending,
                "_drained",
                'self._back(node, f"drain {answer.outcome.value}: {answer.detail}", undrain=False)',
                "self._end([Step(node, node.reason)])",
            ),
        ),
        often("drain_refused", for_s=900.0),
    ),
    Mutant(
        "ends on a drain of unknown outcome",
        "I2 I6",
        (
            Change(
                ending.Ending, "_drained", 'core.count("drains_unknown")', "return self._end([Step(node, node.reason)])"
            ),
        ),
        often("drain_fails", for_s=900.0),
    ),
    Mutant(
        "never returns a drain that led nowhere",
        "I7",
        (Change(ending.Ending, "_undrain", "if node.worker is None or node.acting:", "if True:"),),
        both(often("drain_unheard", for_s=900.0), jobs(times=8)),
    ),
    Mutant(
        "ends a machine as soon as its worker is missing",
        "I2 I6",
        (Change(planner, "_useless", "node.lost_s >= s.settings.lost_after_s", "True"),),
        both(setting(lost_after_s=900.0), often("worker_vanishes", times=8, which=0.4, for_s=700.0)),
    ),
    Mutant(
        "ends a lost machine though jobs are recorded there",
        "I2",
        (Change(ending.Ending, "_unused", 'count = jobs.get(node.worker or "", 0)', "count = 0"),),
        both(
            setting(lost_after_s=120.0),
            jobs(length_s=3000.0),
            often("worker_vanishes", times=8, which=0.4, for_s=1500.0),
        ),
    ),
    Mutant(
        "gives up machines that boot before their deadline",
        "I6",
        (Change(planner, "_useless", "node.boot_s >= deadline", "node.boot_s >= deadline / 4"),),
        throughout("slow_boots", times=3),
    ),
    Mutant(
        "asks once for an end, and never again",
        "I7",
        (Change(ending.Ending, "_unconfirmed", "if node.state is State.TERMINATING", "if False"),),
        often("terminate_refused", for_s=900.0),
    ),
    Mutant(
        "ignores min_vms when it scales down",
        "I9",
        (Change(planner, "_drains", "- s.settings.min_vms", ""),),
        setting(min_vms=2, max_vms=10),
    ),
    Mutant(
        "ignores the minimum of a pool when it scales down",
        "I9",
        (Change(planner, "_drains", "- pool.min_vms", ""),),
        setting(pool_min_vms=2, pool_max_vms=None, max_vms=10),
    ),
    Mutant(
        "counts machines that boot into the minimum",
        "I9",
        (Change(planner, "_drains", "s.registry.count(None, IN_SERVICE) - s", "s.registry.count(None, CAPACITY) - s"),),
        both(setting(min_vms=2, max_vms=10), jobs(), throughout("slow_boots", times=3)),
    ),
    Mutant(
        "never raises the cluster to its minimum",
        "I7",
        (Change(broker.Orders, "floor", "s = self._s\n", "return\n"),),
        setting(min_vms=2, max_vms=10),
    ),
    # ------------------------------------------------------------------ the loop, secrets, reasons
    Mutant(
        "ends a periodic handler with its first fault",
        "I10 bug",
        (
            Change(
                observer.Observer,
                "_read",
                "return core.read(source, plugin, call, came)",
                "return core.read(source, plugin, call, came) or {}['in flight']",
            ),
            Change(
                daemon.Daemon,
                "_every",
                "pause = period()",
                "if failures:\n            return\n        pause = period()",
            ),
        ),
        often("batch_hangs", for_s=300.0),
    ),
    Mutant(
        "lets a store that cannot be written end the handler",
        "bug I10",
        (Change(core.Core, "stored", 'self.count("store_errors")', "raise"),),
        often("disk_trouble", for_s=600.0, how="full"),
    ),
    Mutant(
        "reads the queue within the loop's period only when the last read came back",
        "I10 I7",
        (Change(observer.Observer, "read_jobs", "self._read(", "self.jobs.failures or self._read("),),
    ),
    Mutant(
        "writes the pool's options into the log",
        "I11",
        (
            Change(
                launching.Launching,
                "launch",
                "identifier = core.new_id()",
                "identifier = core.new_id()\n    log.info('launching with %s', pool.options)",
            ),
        ),
    ),
    Mutant(
        "keeps a secret in the state file",
        "I11",
        (
            Change(
                launching.Launching,
                "launch",
                "identifier = core.new_id()",
                "identifier = core.new_id()\n    core.store.remember('options', str(pool.options))",
            ),
        ),
    ),
    Mutant(
        "launches without a reason",
        "I12",
        (Change(launching.Launching, "launch", "{order.count} of {offer}: {order.reason}", ""),),
    ),
    Mutant(
        "drains without a reason",
        "I12",
        (Change(planner, "_drains", "steps.append(Step(node, why))", "steps.append(Step(node, ''))"),),
    ),
    Mutant(
        "leaves waiting jobs without a reason",
        "I12",
        (Change(planner, "_serve_group", "why or _served_by(s, held)", "''"),),
    ),
)
