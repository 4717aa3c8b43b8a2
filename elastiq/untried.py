"""Machines that never came, or ended, before a job of those that they were launched for had started. Imported when
there is one.

Pure.
"""

from __future__ import annotations

from typing import Mapping

from elastiq.demand import Standing, Trials
from elastiq.nodes import Node, Registry


def give_back(registry: Registry, trials: Trials, node: Node, groups: Mapping[str, int]) -> None:
    """What such a machine was launched for may be launched for again, and groups for which there is no other have not
    been tried at all. ``groups`` are those that it was for."""
    for key, jobs in groups.items():
        trial = trials.get(key)
        if trial.refuses(node.pool, node.flavour):
            continue  # of a trial that is over
        uncover(trials, key, jobs)
        if all(key not in other.groups or trial.refuses(other.pool, other.flavour) for other in registry):
            never_came(trials, key)


def uncover(trials: Trials, key: str, jobs: int) -> None:
    """A machine for so many of its jobs did not come, or ended before it was of use."""
    trial = trials.get(key)
    if trial.standing is Standing.TRYING:
        trial.covered = max(0, trial.covered - jobs)
        trials.changed = True


def never_came(trials: Trials, key: str) -> None:
    """No machine of those launched for the group joined: it was not tried at all, or not where it was not
    known to be refused."""
    trial = trials.get(key)
    if trial.standing is Standing.TRYING:
        if trial.refused_by:
            trial.standing = Standing.UNSERVED
        else:
            del trials.records[key]
        trials.changed = True
