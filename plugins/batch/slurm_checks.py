"""What can be found wrong with a Slurm before the first launch: `elastiqctl check`. Only reads.

Whether elastiq may change nodes is found out with a node that does not exist: slurmctld looks at who asks first, then
at the name (22.05: "Invalid user id", else "Invalid node name specified").
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Mapping

from elastiq.interfaces import Check, Looks, SourceError
from elastiq.plugins.batch import slurm_nodes as nodes
from elastiq.plugins.batch.slurm_records import Node
from elastiq.plugins.batch.slurm_source import MUNGE

if TYPE_CHECKING:
    from elastiq.plugins.batch.slurm import Slurm

DOCS = "docs/batch/slurm.md"
RUNS = "see that slurmctld runs, and that this machine and user may ask it (munge, slurm.conf)"
NOBODY = "elastiq-may-i"
NO_SUCH = "Invalid node name specified"
NAMED = 10


def looks(slurm: Slurm) -> Looks:
    """Each by its subject."""
    found: Mapping[str, Callable[[Slurm, str], Iterable[Check]]] = {
        "slurmctld": _slurmctld,
        "queue": _queue,
        "drain": _rights,
        "nodes": _nodes,
        "scheduling": _scheduling,
    }
    return {
        "commands": partial(_commands, slurm, "commands"),
        **{subject: partial(_with_commands, slurm, look, subject) for subject, look in found.items()},
    }


def _absent(slurm: Slurm) -> str:
    return slurm.source.tools.absent("scontrol", "squeue", key="command_folder")


def _commands(slurm: Slurm, subject: str) -> Iterator[Check]:
    if absent := _absent(slurm):
        remedy = (
            "install Slurm's client commands (slurm-client), put them on the PATH, or set command_folder in [slurm]"
        )
        yield Check(subject, "error", absent, remedy)
        return
    if unread := slurm.source.unread():
        yield Check(
            subject, "error", unread, "correct slurm_conf, or leave it out: Slurm then looks where it always does"
        )
        return
    release = ".".join(f"{part:02d}" for part in slurm.source.version())
    yield Check(subject, "ok", f"found: {slurm.source.tools.where('squeue')} of Slurm {release}")


def _with_commands(slurm: Slurm, look: Callable[[Slurm, str], Iterable[Check]], subject: str) -> Iterator[Check]:
    if absent := _absent(slurm) or slurm.source.unread():
        raise SourceError(f"not looked at: {absent}")
    yield from look(slurm, subject)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _slurmctld(slurm: Slurm, subject: str) -> Iterator[Check]:
    try:
        found = slurm.workers()
    except SourceError as error:
        yield Check(subject, "error", str(error), "" if MUNGE in str(error) else RUNS)
        return
    how = "" if slurm.source.as_json else ", told as text"
    yield Check(subject, "ok", f"answers, knows {_count(len(found.workers), 'worker')}{how}")


def _queue(slurm: Slurm, subject: str) -> Iterator[Check]:
    try:
        jobs = slurm.jobs()
    except SourceError as error:
        by_hand = f"run {slurm.source.tools.where('squeue')} by hand, as elastiq's user: is it Slurm's? Then {RUNS}"
        yield Check(subject, "error", str(error), "" if MUNGE in str(error) else by_hand)
        return
    there = slurm.source.partitions() if slurm.partitions else []
    if unknown := [name for name in slurm.partitions if name not in there]:
        text = f"Slurm knows no partition {', '.join(unknown)} (it has {', '.join(there[:NAMED]) or 'none'})"
        yield Check(subject, "error", text, "correct `partitions` in [slurm]: it is the only ones whose jobs count")
        return
    counted = sum(group.waiting + (group.running or 0) for group in jobs.groups)
    private = slurm.source.config().get("privatedata", "").lower()
    where = f" of {', '.join(slurm.partitions)}" if slurm.partitions else ""
    if "jobs" in re.split(r"[,\s]+", private) and not _may(slurm, "update"):
        text = f"PrivateData = {private}: this user sees its own jobs alone"
        yield Check(subject, "error", text, f"make it an operator of Slurm ({DOCS})")
        return
    yield Check(subject, "ok", f"{_count(counted, 'job')}{where} of all users, waiting for machines or running")


def _may(slurm: Slurm, act: str) -> bool:
    args = ("update", f"nodename={NOBODY}", "state=undrain") if act == "update" else ("delete", f"nodename={NOBODY}")
    result = slurm.source.run("scontrol", *args)
    if NO_SUCH in result.complaint:
        return True
    if "Invalid user id" in result.complaint or "denied" in result.complaint:
        return False
    raise SourceError(f"whether elastiq may {act} nodes is not known: {result.complaint}")


def _rights(slurm: Slurm, subject: str) -> Iterator[Check]:
    """By asking for a node that does not exist."""
    remedy = f"make it an administrator of Slurm, or run elastiq as the SlurmUser ({DOCS})"
    if not slurm.can_drain:
        text = "drain = no: a job that starts right before a machine's end is lost with it"
        yield Check(subject, "warning", text, f"let elastiq drain, if you can ({DOCS})")
    if not _may(slurm, "update"):
        level = "error" if slurm.can_drain or slurm.own_nodes else "warning"
        yield Check(subject, level, "elastiq may not drain, resume or update nodes (scontrol: Invalid user id)", remedy)
    elif not slurm.own_nodes and not _may(slurm, "delete"):
        text = "elastiq may not delete nodes: the records of dynamic nodes stay when their machines have ended"
        yield Check(subject, "warning", text, remedy)
    else:
        yield Check(subject, "ok", "elastiq may drain, update and delete nodes")


def _nodes(slurm: Slurm, subject: str) -> Iterator[Check]:
    config = slurm.source.config()
    found = list(_of_power_saving(config, subject))
    found += _of_own(slurm, config, subject) if slurm.own_nodes else _of_dynamic(config, subject)
    yield from found or [Check(subject, "ok", "they can come and go")]


def _of_power_saving(config: Mapping[str, str], subject: str) -> Iterator[Check]:
    program, idle = config.get("suspendprogram", "(null)"), config.get("suspendtime", "INFINITE")
    if program not in ("", "(null)") and not idle.upper().startswith(("INFINITE", "-1", "NONE")):
        text = (
            f"Slurm's own power saving is on (SuspendTime {idle}): it would switch off nodes as well, and start its own"
        )
        yield Check(subject, "warning", text, f"SuspendTime=INFINITE, or SuspendExcParts for elastiq's nodes ({DOCS})")


def _of_dynamic(config: Mapping[str, str], subject: str) -> Iterator[Check]:
    most = config.get("maxnodecount", "")
    if most and not most.isdigit():
        text = "MaxNodeCount is not set: no dynamic node can join beside those of slurm.conf"
        yield Check(subject, "warning", text, f"MaxNodeCount=N in slurm.conf, or predeclared_nodes in [slurm] ({DOCS})")
    if "linear" in config.get("selecttype", ""):
        yield Check(
            subject, "error", "select/linear takes no dynamic nodes", "SelectType=select/cons_tres in slurm.conf"
        )


def _of_own(slurm: Slurm, config: Mapping[str, str], subject: str) -> Iterator[Check]:
    there = nodes.by_name(slurm.source.all_nodes())
    names = [name for found in slurm.own_nodes.values() for name in found]
    if unknown := [name for name in names if name not in there]:
        # 22.05 shows powered-down ones to nobody without it: slurm.conf(5), PrivateData
        hidden = "" if "cloud" in config.get("privatedata", "").lower() else ", and PrivateData=cloud, to see them"
        text, remedy = f"predeclared_nodes: Slurm knows no {_some(unknown)}", f"NodeName=... in slurm.conf{hidden}"
        yield Check(subject, "error", text, remedy)
    own = [there[name] for name in names if name in there]
    if ghosts := [node.name for node in own if _is_ghost(node)]:
        text = f"Slurm takes {_some(ghosts)} for there, and gives them jobs, though no machine has registered"
        remedy = f"scontrol update nodename={','.join(ghosts[:NAMED])} state=down reason='{nodes.NO_MACHINE}'"
        yield Check(subject, "error", text, remedy)
    if passing := [node.name for node in own if "CLOUD" not in node.flags]:
        text = (
            f"{_some(passing)}: a node that is not State=CLOUD loses its address, and its jobs, when slurmctld restarts"
        )
        yield Check(subject, "warning", text, f"State=CLOUD in slurm.conf ({DOCS})")
    if config.get("returntoservice", "2") != "2":
        text = f"ReturnToService = {config['returntoservice']}: a node stays down when its machine has come up"
        yield Check(subject, "error", text, "ReturnToService=2 in slurm.conf")


def _is_ghost(node: Node) -> bool:
    idle = node.base == "IDLE" and not node.flags & {"POWERED_DOWN", "DRAIN"}
    return idle and node.started_at is None


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _scheduling(slurm: Slurm, subject: str) -> Iterator[Check]:
    """What makes jobs take more of a machine, or other machines, than elastiq counts on."""
    config = slurm.source.config()
    select, parameters = config.get("selecttype", ""), config.get("selecttypeparameters", "").upper()
    found = []
    if "linear" in select:
        found.append(
            ("select/linear gives whole nodes to jobs, however little they ask for", "SelectType=select/cons_tres")
        )
    if "MEMORY" in parameters and config.get("defmempernode", "UNLIMITED") == "UNLIMITED":
        if config.get("defmempercpu", "UNLIMITED") == "UNLIMITED":
            text = "a job that says no memory takes all of a node's (memory is consumable, and has no default)"
            found.append((text, "DefMemPerCPU=MB in slurm.conf"))
    if "LLN" in parameters:
        text = "CR_LLN gives jobs to the emptiest machine: few machines become idle, and can end"
        found.append((text, "take CR_LLN out of SelectTypeParameters"))
    for text, remedy in found:
        yield Check(subject, "warning", text, f"{remedy} ({DOCS})")
    if not found:
        yield Check(subject, "ok", "jobs fill machines one after the other, by what they ask for")
