"""Machines that never joined, failed or were lost. Imported when there is one.

Pure.
"""

from __future__ import annotations

import math

from elastiq.nodes import AT_BOOT, IN_SERVICE, State
from elastiq.situation import Situation, Step

Steps = tuple[Step, ...]

UNSEEN_JOBS = "for a time nobody looked, and more jobs run than on all workers that are seen: kept, it may have some"


def sort_out(s: Situation) -> tuple[Steps, Steps, Steps]:
    """See `elastiq.scale_down.useless`."""
    failed: list[Step] = []
    kept: list[Step] = []
    ends: list[Step] = []
    # An unexplained worker that appeared after a machine may be that machine under another identity.
    doubt = max((one.number for one in s.registry.strangers.values() if not one.explained), default=0)
    for node in s.registry:
        if node.state in IN_SERVICE or node.site not in s.sites or not node.may_act(s.now) or node.number < doubt:
            continue
        deadline = s.settings.estimated_vm_deploy_time_s_of(node.pool)
        if node.state in AT_BOOT and node.boot_s >= deadline:
            # One that was found, or was there before a restart, may have been a worker meanwhile.
            unseen = node.id == node.instance_id or node.number <= s.registry.last_restored
            if unseen and _jobs_elsewhere(s):
                kept.append(Step(node, UNSEEN_JOBS))
                continue
            failed.append(Step(node, f"did not join within estimated_vm_deploy_time_s {deadline:g}"))
        elif node.state is State.FAILED and node.seen is None:
            if node.act_ended is None or s.workers_began >= node.act_ended:
                ends.append(Step(node, node.reason))
        elif node.state is State.LOST and node.lost_s >= s.settings.lost_after_s:
            ends.append(Step(node, f"its worker has been missing for {node.lost_s:.0f} s, if no job is recorded there"))
    return tuple(failed), tuple(ends), tuple(kept)


def _jobs_elsewhere(s: Situation) -> bool:
    """Whether jobs run, or may do so, on no worker that is seen."""
    running = [group.running for group in s.jobs.groups] if s.jobs is not None else [None]
    workers = [node.seen for node in s.registry if node.seen] + [one.worker for one in s.registry.strangers.values()]
    return sum(math.inf if count is None else count for count in running) > sum(worker.jobs for worker in workers)
