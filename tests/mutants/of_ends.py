"""What is wrong with ending, and with the loop, secrets and reasons."""

from __future__ import annotations

from typing import Any

from elastiq import (
    core,
    daemon,
    doubtful_ends,
    ending,
    failed_drains,
    launching,
    minima,
    observer,
    planner,
    scale_down,
    useless,
)
from elastiq.simulation.scenario import Scenario
from tests.mutants.bends import both, jobs, often, only, setting, throughout
from tests.mutants.planting import Change, Mutant


def _back_in_time(scenario: Scenario) -> Scenario:
    """Idle workers vanish in pairs, seconds apart; the end of the second waits for the late answer to that of the
    first, while its worker comes back and gets a job."""
    late = {"calls": ["terminate"], "late_s": 45.0, "for_s": 4000.0}
    happenings: list[tuple[float, str, dict[str, Any]]] = [(30.0, "cloud_late", late)]
    for n in range(10):
        at_s = 900.0 + 250.0 * n
        happenings.append((at_s, "worker_vanishes", {"which": 0.0, "for_s": 900.0}))
        happenings.append((at_s + 8.0, "worker_vanishes", {"which": 0.5, "for_s": round(124.0 + 0.8 * n, 1)}))
    for n in range(260):
        happenings.append((900.0 + 10.0 * n, "jobs", {"cpus": 2.0, "memory_mb": 1024.0, "lengths": [8.0] * 24}))
    settings: dict[str, Any] = {"max_cost_per_hour": None, "max_cost_per_day": None, "max_launches_per_hour": None}
    settings.update(lost_after_s=120.0, batch_settle_s=60.0, idle_for_time_s=3600.0, waiting_jobs_time_s=0.0)
    settings.update(check_vms_every_s=5.0, check_queue_every_s=30.0, min_vms=12, max_vms=20, pool_max_vms=None)
    placed = sorted(happenings, key=lambda one: one[0])
    bend = both(setting(**settings), only(*placed, calm_at_s=4500.0, negotiate_every_s=5.0, can_drain=True))
    return bend(scenario)


MUTANTS: tuple[Mutant, ...] = (
    # ------------------------------------------------------------------ scale-down
    Mutant(
        "ends without the look after the drain",
        "I2 I6",
        (
            Change(
                ending.Ending,
                "_drained",
                'core.count("drains")\n',
                "return self.end_for_good([Step(node, node.reason)])\n",
            ),
        ),
    ),
    Mutant(
        "takes a look from before the drain for the one after it",
        "I2 I6",
        (
            Change(ending.Ending, "look", "elif began < node.act_ended:", "elif False:"),
            Change(ending.Ending, "out_of_service", "WorkerState.DRAINED if", "WorkerState.IDLE if"),
        ),
        often("drain_not_done", for_s=900.0),
    ),
    Mutant(
        "ends on a refused drain",
        "I2 I6",
        (
            Change(
                failed_drains,
                "failed",
                'back(ending, node, f"drain {answer.outcome.value}: {answer.detail}", undo=False)',
                "from elastiq.situation import Step\n        ending.end_for_good([Step(node, node.reason)])",
            ),
        ),
        often("drain_refused", for_s=900.0),
    ),
    Mutant(
        "ends on a drain of unknown outcome",
        "I2 I6",
        (
            Change(
                failed_drains,
                "failed",
                'core.count("drains_unknown")',
                "from elastiq.situation import Step\n        return ending.end_for_good([Step(node, node.reason)])",
            ),
        ),
        often("drain_fails", for_s=900.0),
    ),
    Mutant(
        "never returns a drain that led nowhere",
        "I7",
        (Change(failed_drains, "undrain", "if node.worker is None or node.acting:", "if True:"),),
        both(often("drain_unheard", for_s=900.0), jobs(times=8)),
    ),
    Mutant(
        "ends a machine as soon as its worker is missing",
        "I2 I6",
        (Change(useless, "sort_out", "node.lost_s >= s.settings.lost_after_s", "True"),),
        both(setting(lost_after_s=900.0), often("worker_vanishes", times=8, which=0.4, for_s=700.0)),
    ),
    Mutant(
        "ends a lost machine though jobs are recorded there",
        "I2",
        (Change(doubtful_ends, "_unused", 'count = jobs.get(node.worker or "", 0)', "count = 0"),),
        both(
            setting(lost_after_s=120.0),
            jobs(length_s=3000.0),
            often("worker_vanishes", times=8, which=0.4, for_s=1500.0),
        ),
    ),
    Mutant(
        "gives up machines that boot before their deadline",
        "I6",
        (
            Change(scale_down, "useless", "n.boot_s >= s.settings.estimated_vm_deploy_time_s_of(n.pool)", "True"),
            Change(useless, "sort_out", "node.boot_s >= deadline", "node.boot_s >= deadline / 4"),
        ),
        throughout("slow_boots", times=3),
    ),
    Mutant(
        "asks once for an end, and never again",
        "I7",
        (Change(ending.Ending, "_unconfirmed", "if n.state is State.TERMINATING", "if False"),),
        often("terminate_refused", for_s=900.0),
    ),
    Mutant(
        "ignores min_vms when it scales down",
        "I9",
        (Change(scale_down, "drains", "(None, s.settings.min_vms)", "(None, 0)"),),
        setting(min_vms=2, max_vms=10),
    ),
    Mutant(
        "ignores the minimum of a pool when it scales down",
        "I9",
        (Change(scale_down, "drains", "(p.name, p.min_vms)", "(p.name, 0)"),),
        setting(pool_min_vms=2, pool_max_vms=None, max_vms=10),
    ),
    Mutant(
        "counts machines that boot into the minimum",
        "I9",
        (
            Change(
                scale_down,
                "drains",
                "s.registry.count(name, IN_SERVICE)",
                "s.registry.count(name, IN_SERVICE | AT_BOOT)",
            ),
        ),
        both(setting(min_vms=2, max_vms=10), jobs(), throughout("slow_boots", times=3)),
    ),
    Mutant(
        "never raises the cluster to its minimum",
        "I7",
        (Change(minima, "floor", "s = orders.s\n", "return\n"),),
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
                "pause = every_s or",
                "if failures:\n            return\n        pause = every_s or",
            ),
        ),
        often("batch_hangs", for_s=300.0),
    ),
    Mutant(
        "lets a store that cannot be written end the handler",
        "bug I10",
        (Change(core.Core, "stored", 'from elastiq.faults import of_store', "raise"),),
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
                "identifier = core.new_id()\n    core.tell_once('options', str(pool.options))",
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
        (Change(scale_down, "drains", "steps.append(Step(node, why))", "steps.append(Step(node, ''))"),),
    ),
    Mutant(
        "leaves waiting jobs without a reason",
        "I12",
        (Change(planner, "_verdict", "why or _served_by(s, a.held)", "''"),),
    ),
    Mutant(
        "sends an end that has waited although its worker is back",
        "I2 I6",
        (Change(ending.Ending, "still", "return all(", "return True or all("),),
        _back_in_time,
    ),
)
