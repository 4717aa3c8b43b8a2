"""What is wrong with launching: the cap, the journal, demand."""

from __future__ import annotations

from elastiq import (
    broker,
    core,
    ending,
    failed_launches,
    health,
    in_turns,
    launching,
    limits,
    observer,
    planner,
    refusals,
)
from tests.mutants.bends import both, jobs, often, setting, throughout
from tests.mutants.planting import Change, Mutant

MUTANTS: tuple[Mutant, ...] = (
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
        (
            Change(core.Core, "follow_limits", 'store.recall("ledger")', "None"),
            Change(core.Core, "follow_limits", "history.lines(store, 10**6)", "()"),
        ),
        both(setting(max_launches_per_hour=3, max_vms=20), jobs(count=20), often("restart", times=8, down_s=5.0)),
    ),
    Mutant(
        "takes what a machine costs for nothing",
        "I1",
        (Change(broker.Budget, "take", "price if one.priced else 1.0", "0.0 if one.priced else 1.0"),),
        both(setting(max_cost_per_hour=2.0, max_vms=20, pools_prices={"*": 0.9}), jobs(count=30)),
    ),
    Mutant(
        "forgets the launches from before the limit was set",
        "I1",
        (Change(limits.Ledger, "__init__", 'if what in ("launch", "start") and', "if False and"),),
        both(
            setting(max_launches_per_hour=None, max_vms=20),
            often("reconfigured", times=3, change={"max_launches_per_hour": 3}),
            jobs(count=20),
        ),
    ),
    Mutant(
        "charges nothing for the time that machines run",
        "I1",
        (Change(limits.Ledger, "_advance", "* passed_s / HOUR_S", "* 0.0"),),
        both(setting(max_cost_per_day=3.0, max_vms=20, pools_prices={"*": 0.5}), jobs(count=30, length_s=4000.0)),
    ),
    Mutant(
        "tries a pool whose machines never join with many at once",
        "I6",
        (Change(health.Health, "breaker", "if failed >= BOOTS_BEFORE_BREAK", "if False"),),
        both(throughout("never_joins"), jobs()),
    ),
    Mutant(
        "never pauses longer between the canaries of a pool",
        "I6",
        (Change(refusals, "boot_failed", "2 ** min(failed - BOOTS_BEFORE_BREAK, 10)", "1"),),
        both(throughout("never_joins"), jobs()),
    ),
    # ------------------------------------------------------------------ launches
    Mutant(
        "skips the journal",
        "I5",
        (
            Change(
                launching.Launching,
                "launch",
                "if not core.stored(partial(core.store.journal, intent, changed)):",
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
                failed_launches,
                "take_up",
                "launching.open[intent.id] = OpenIntent(launching, intent, nodes[0].site, core.now())",
                "site = nodes[0].site\n"
                "        core.act_on_cloud(site, intent.id, partial(core.clouds[site].launch, intent),"
                " partial(launching._answered, intent, site))",
            ),
        ),
        both(often("kill", at="launch", number=1, for_s=900.0, down_s=5.0), jobs()),
    ),
    Mutant(
        "closes launches of unknown outcome at once",
        "I1 I5 I6",
        (
            Change(
                failed_launches,
                "failed",
                "launching.open[intent.id] = OpenIntent(launching, intent, site, ended)",
                "launching.drop_rest(intent, text)",
            ),
        ),
        both(often("launch_lost", for_s=600.0), throughout("slow_to_show", lag_s=90.0), jobs()),
    ),
    Mutant(
        "forgets launches of unknown outcome in a restart",
        "I1 I4 I5 I6",
        (
            Change(
                failed_launches,
                "take_up",
                "launching.open[intent.id] = OpenIntent(launching, intent, nodes[0].site, core.now())",
                "launching.drop_rest(intent, 'forgotten')",
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
            Change(planner, "_ask", "if group.not_eligible:", "if False:"),
            Change(planner, "_serve", "if not g.not_eligible", ""),
            Change(planner, "_hold", "group.not_eligible or ", ""),
        ),
        often("jobs", cpus=1.0, memory_mb=1024.0, lengths=[300.0] * 30, not_eligible="needs a licence"),
    ),
    Mutant(
        "ignores machines that are to come",
        "I1 I6",
        (
            Change(planner, "_room", "elif node.state in CAPACITY:", "elif False:"),
            Change(planner, "_ask", "max(0, group.waiting - max(0, trial.covered - lost))", "wanted"),
        ),
        jobs(),
    ),
    Mutant(
        "launches for running jobs too",
        "I6",
        (
            Change(
                planner,
                "_ask",
                "max(0, min(group.waiting, waited or 0) - held.jobs)",
                "(group.waiting + (group.running or 0) - held.jobs if waited else 0)",
            ),
        ),
        jobs(times=6, count=16, length_s=2000.0),
    ),
    Mutant(
        "skips the back-off after a refused launch",
        "I8",
        (Change(health.Health, "blocked", "if block and now < block.until:", "if False:"),),
    ),
    Mutant(
        "lets jobs wait for slots that run longer ones than job_length_s says",
        "I7",
        (Change(in_turns.Turns, "_slots", "late = min(", "late = 0 * min("),),
        both(setting(job_length_s=1.0, max_vms=8), jobs(count=12, length_s=20_000.0)),
    ),
)
