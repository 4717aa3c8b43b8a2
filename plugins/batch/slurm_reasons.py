"""Why a pending job waits: whether more machines would help. Pure.

Source: `job_state_reason.c` of Slurm 25.11 and the `jrc` tables before it, and what slurmctld puts in the place of
a word (`state_desc`): texts with blanks and commas.
"""

from __future__ import annotations

import enum
import re


class Waits(enum.Enum):
    """What a job waits for."""

    MACHINE = "machine"
    BEGIN = "begin"  # its begin time: for a machine if that is near
    OTHER = "other"  # something that is no machine
    UNKNOWN = "unknown"  # a reason that nobody has heard of


# PartitionConfig is what a job of a partition gets that has no node at all, or none that is large enough: tried on
# 22.05 with dynamic nodes, where it is what every job waits with once the last node was deleted. None: the scheduler
# has not come to it yet, which in a long queue it never does.
FOR_A_MACHINE = frozenset({"Resources", "Priority", "PartitionConfig", "NodeDown", "None", ""})
BEGINS = ("ReqNodeNotAvail", "Nodes required for job are DOWN")
# Words of reasons that a new machine does not remove, wherever they are in it.
_OTHER = re.compile(
    r"Depend|Held|Hold|Limit|Licen|^Assoc|^QOS|^Max\w+Per(Account|Limit)|Invalid|NotAllowed|^Partition(Down|Inactive)|Account"
    r"|Reserv|^JobLaunch|NonZeroExit|RaisedSignal|SystemFailure|OutOfMemory|^DeadLine|Cleaning|Prolog|BurstBuffer|^Power"
    r"|FedJobLock|FrontEnd|SchedDefer|Constraints|TimeOut|NodeFail|Throttl|Quota"
)


def waits_for(reason: str) -> Waits:
    """Of a reason, whole or cut off after 40 characters."""
    reason = reason.strip().strip("()").replace("_", " ")
    if "Reserved for maintenance" in reason:
        return Waits.OTHER
    if reason in FOR_A_MACHINE or reason.startswith(BEGINS):
        return Waits.MACHINE
    if reason == "BeginTime":
        return Waits.BEGIN
    return Waits.OTHER if _OTHER.search(reason) else Waits.UNKNOWN
