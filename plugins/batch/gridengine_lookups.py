"""How one job stands: `elastiqctl explain`."""

from __future__ import annotations

import re
from typing import Callable, Iterable, Sequence

from elastiq.errors import SourceError
from elastiq.interfaces import JobGroup
from elastiq.plugins.batch.gridengine_jobs import Job
from elastiq.plugins.batch.gridengine_master import Master
from elastiq.plugins.batch.index_sets import includes
from elastiq.plugins.batch.shapes import key_among

ID = re.compile(r"(\d{1,10})(?:\.(\d{1,10}))?")
SHOWN = 300  # characters of what the scheduler says


def find_job(job: str, master: Master, groups: Callable[[], Iterable[JobGroup]]) -> tuple[str, str]:
    """The key of its group, empty unless it waits for a machine, and how it stands. ``groups`` are all."""
    asked = ID.fullmatch(job.strip())
    if asked is None:
        raise SourceError(f"{job[:40]!r} is no job of Grid Engine: say its number, or NUMBER.TASK")
    number, task = asked[1], asked[2]
    rows = [row for row in master.rows() if row.id == number and (task is None or _has(row, int(task)))]
    if not rows:
        raise SourceError(
            f"the queue holds no job {job}: it ended (qacct -j {number} knows), or there never was such a job"
        )
    row = next((row for row in rows if row.waits), rows[0])
    name = f"job {job.strip()}"
    if not row.waits:
        return "", f"{name} {standing(row)}"
    if row.id in master.later():
        return "", f"{name} waits for its time to come (qsub -a)"
    several = f", {row.count} of its tasks" if task is None and row.is_array else ""
    at_once = master.at_once([row.id]).get(row.id) if row.is_array else None
    limit = f", of which {at_once} may run at once (-tc)" if at_once else ""
    why = scheduling_info(master.run("qstat", "-j", number).text)
    said = f'; the scheduler\'s last word: "{why}"' if why else ""
    group = master.site(rows).shape(row)
    none = f"; no worker can run it: {group.not_eligible}" if group.not_eligible else ""
    return key_among(group, groups), f"{name} waits{several}{limit}{none}{said}"


def _has(row: Job, task: int) -> bool:
    try:
        return includes(row.tasks, task) if row.tasks else task == 1
    except ValueError:
        return False


def standing(row: Job) -> str:
    """How a job stands that waits for no machine."""
    state = row.state
    if "E" in state:
        return f"is in error ({state}): qstat -j {row.id} says why, qmod -cj {row.id} clears it"
    if row.pending and "h" in state:
        return f"is held, or waits for another job ({state})"
    if "d" in state:
        return f"is being deleted ({state})"
    if not row.pending:
        return "is suspended" if set(state) & set("sST") else f"runs ({state})"
    return f"has the state {state}, which says nothing to elastiq"


def scheduling_info(text: str) -> str:
    """Of ``qstat -j``: why the scheduler has not started it, but for the lines about single queue instances."""
    _, _, rest = text.partition("scheduling info:")
    lines: Sequence[str] = [line.strip() for line in rest.splitlines()]
    kept = [line for line in lines if line and not re.match(r"queue instance .* dropped", line)]
    return "; ".join(kept)[:SHOWN]
