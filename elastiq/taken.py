"""Machines that were launched for jobs, and that others have got, or that leave. Imported when there may be one.

Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Mapping

from elastiq.demand import Standing
from elastiq.packing import jobs_held, need, vector
from elastiq.situation import Situation


def lost_to_others(s: Situation, leaving: Mapping[str, str]) -> Counter[str]:
    """By group under trial: for how many of its jobs machines were launched that will not take them."""
    groups = s.jobs.groups if s.jobs is not None else ()
    on_trial = {g.key: need(g.request, g.apart) for g in groups if s.trials.standing(g.key) is Standing.TRYING}
    lost: Counter[str] = Counter()
    for node in s.registry:
        worker = node.seen
        for key in on_trial.keys() & node.groups.keys():
            if node.id in leaving:
                lost[key] += node.groups[key]
            elif node.was_busy and worker is not None:
                free = vector(worker.free, max(0, s.settings.n_jobs_per_vm_of(node.pool) - worker.jobs))
                lost[key] += 0 if jobs_held(free, on_trial[key]) else node.groups[key]
    return lost
