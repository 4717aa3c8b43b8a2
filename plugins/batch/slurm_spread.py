"""Whether a job's tasks may be spread over nodes, where squeue does not tell. Text only.

``sbatch -n 64`` leaves it to Slurm over how many nodes the tasks go, ``-N 1 -n 64`` wants one. squeue shows both with
NODES 1 and MAX_NODES 1 while there is a node that is large enough, or none (22.05, 24.11); ``scontrol show job`` has
"NumNodes=1" of the first, "NumNodes=1-1" of the second.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Callable, Iterable, Mapping, Optional

from elastiq.plugins.batch.slurm_jobs import PENDING, Job

ONE_BY_ONE = 10  # so many are asked for by their ids, else all jobs are: 1.2 kB each
REMEMBERED = 20_000
_RECORD = re.compile(r"(?m)^JobId=(\d+) .*? NumNodes=\d+(?:-(\d+))? NumCPUs=")


class Spread:
    """What was found out, by the job's id. ``ask`` prints the record of a job, or of all ("")."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask
        self._most: dict[str, Optional[int]] = {}

    def told(self, jobs: Iterable[Job]) -> list[Job]:
        """The same jobs, each with the most nodes that it may have. Raises `SourceError`."""
        listed = list(jobs)
        new = [job.id for job in listed if _in_doubt(job) and job.id not in self._most]
        for text in map(self._ask, new if len(new) <= ONE_BY_ONE else [""]):
            self._most.update(most_nodes(text))
        known = {job.id: self._most.get(job.id) for job in listed if _in_doubt(job)}
        if len(self._most) > REMEMBERED:
            self._most = dict(known)
        return [replace(job, max_nodes=known[job.id]) if job.id in known else job for job in listed]


def _in_doubt(job: Job) -> bool:
    """Several tasks on what may be one node, or any number."""
    return job.state in PENDING and job.ntasks > 1 and job.nodes == 1 == job.max_nodes


def most_nodes(text: str) -> Mapping[str, Optional[int]]:
    """By the ids of jobs, None where there is no limit."""
    return {found[1]: int(found[2]) if found[2] else None for found in _RECORD.finditer(text)}
