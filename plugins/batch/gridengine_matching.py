"""Whether a job would run on a would-be host, as far as anybody has said what that has. Pure.

A job says which queues (-q), parallel environment and complexes (-l) it wants; a machine's are the lines of the pool's
``worker_ad`` (``queues = all.q, gpu.q``, ``arch = lx-amd64``, ``gpu_model = a100``), and for the rest what a joined
host of its kind showed. What nobody has said is no reason against it.
"""

from __future__ import annotations

import fnmatch
import operator
from typing import Iterable, Mapping, Optional

from elastiq.interfaces import JobGroup, Machine, request_fits
from elastiq.plugins.batch.gridengine_hosts import Host
from elastiq.plugins.batch.gridengine_xml import number

# Load values, of which a host says another one every time.
VARYING = ("load_", "np_load_", "mem_free", "mem_used", "virtual_free", "virtual_used", "swap_", "cpu", "m_topology_in")
RELOPS = ("==", "!=", "<=", ">=", "<", ">", "EXCL", "=")
COMPARED = {
    "<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt, "!=": operator.ne, "==": operator.eq,
}  # fmt: skip
WORDS = {"true": "1", "false": "0"}


def portrait(host: Host) -> str:
    """What an idle host has to offer, as lines; empty of one that is used, or takes no job."""
    if host.jobs or host.slots_used or not host.queues or any(queue.state for queue in host.queues):
        return ""
    lines = [f"queues = {', '.join(sorted(queue.name for queue in host.queues))}"]
    lines += [f"{name} = {value}" for name, value in sorted(host.resources.items()) if not name.startswith(VARYING)]
    return "\n".join(lines)


def why_not(group: JobGroup, machine: Machine) -> str:
    """Why no job of the group would run there; empty if one would, or may."""
    fits, why = request_fits(group.request, machine.resources)
    if not fits:
        return why
    has = {**_values(machine.portrait.splitlines()), **_values(machine.worker_ad)}
    whys = (_refusal(*_request(line), has) for line in group.ad)
    return next(filter(None, whys), "")


def _values(lines: Iterable[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines)
    return {name.strip().lower(): value.strip() for name, equals, value in pairs if equals}


def _request(line: str) -> tuple[str, str, str]:
    words = [*line.split(None, 2), "", ""]
    return words[0], words[1], words[2]


def _refusal(name: str, relop: str, asked: str, has: Mapping[str, str]) -> str:
    there = has.get(name.lower())
    if there is None or relop not in RELOPS:
        return ""
    if name in ("queues", "pe"):
        names = [part.strip() for part in there.split(",")]
        takes = [_names_one(part.strip(), names) for part in asked.split(",")]
        refused = all(one is False for one in takes)
        return f"asks for {name[:5]} {asked}, the machine is for {there}" if refused else ""
    wanted, offered = number(WORDS.get(asked.lower(), asked)), number(WORDS.get(there.lower(), there))
    if wanted is not None and offered is not None and relop in COMPARED:
        matches: Optional[bool] = COMPARED[relop](wanted, offered)
    elif relop in ("==", "="):
        matches = _matches(asked, there)
    else:
        matches = None
    return f"asks {name} {relop} {asked}, the machine has {there}" if matches is False else ""


def _names_one(pattern: str, names: Iterable[str]) -> Optional[bool]:
    """Whether a request for a queue, a domain ``queue@@group`` or an instance ``queue@host`` names one of these; None
    where a host or a group is a part of it, which nobody knows of a machine that is not there."""
    queue, at, _ = pattern.partition("@")
    found = [_matches(queue or "*", name) for name in names]
    return (None if at else True) if any(one is not False for one in found) else False


def _matches(pattern: str, value: str) -> Optional[bool]:
    """By the patterns of sge_types(1): ``*``, ``?``, ``[...]`` and ``|``; None where it has other operators."""
    if set(pattern) & set("!&()"):
        return None
    return any(fnmatch.fnmatchcase(value.lower(), part.strip().lower()) for part in pattern.split("|"))
