"""Machines that stand free although they were launched for jobs that still wait.

Pure.
"""

from __future__ import annotations

from typing import Mapping

from elastiq.broker import free_room
from elastiq.interfaces import JobGroup
from elastiq.nodes import IN_SERVICE, Node
from elastiq.packing import jobs_held, need, vector
from elastiq.situation import Situation


def unused_room(s: Situation, on_trial: Mapping[str, JobGroup]) -> dict[str, list[tuple[Node, str]]]:
    """For each waiting group under trial, the machines that were launched for it, have joined, and have room
    for it or turned out to be too small; with each, what then refuses it, as in `Trial.refused_by`."""
    found: dict[str, list[tuple[Node, str]]] = {}
    for node in s.registry:
        worker = node.seen
        if on_trial.keys().isdisjoint(node.groups) or node.state not in IN_SERVICE:
            continue
        if worker is None or not worker.takes_jobs:
            continue
        free = free_room(s, node.pool, worker)
        whole = vector(worker.total, s.settings.n_jobs_per_vm_of(node.pool))
        for key in node.groups:
            if key in on_trial and not s.trials.get(key).refuses(node.pool, node.flavour):
                asked = need(on_trial[key].request, on_trial[key].apart)
                if jobs_held(free, asked):
                    found.setdefault(key, []).append((node, node.pool))
                elif not jobs_held(whole, asked):
                    found.setdefault(key, []).append((node, f"{node.pool}/{node.flavour}"))
    return found
