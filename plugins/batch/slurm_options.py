"""The keys of the section [slurm]; elastiq.conf.example says what they mean."""

from __future__ import annotations

import re
from typing import Sequence

from elastiq.options import Kind, Option, above_zero
from elastiq.plugins.batch import hostlists

OWN_NODES = re.compile(r"(?:([^\s:\[\],]+)\s*:\s*)?([^\s:]+)")  # POOL: HOSTS, or HOSTS


def own_nodes(lines: Sequence[str]) -> dict[str, list[str]]:
    """The node names of each pool; of the pool "" those of any. Raises ValueError."""
    found: dict[str, list[str]] = {}
    for line in lines:
        parts = OWN_NODES.fullmatch(line.strip())
        if not parts:
            raise ValueError(f"has `{line[:60]}`, write POOL: NODES, as `gpu: gpu[1-4]`, or NODES alone")
        found.setdefault((parts[1] or "").lower(), []).extend(hostlists.expand(parts[2]))
    return found


def _own_nodes(lines: Sequence[str]) -> str:
    try:
        own_nodes(lines)
    except ValueError as error:
        return str(error)
    return ""


OPTIONS: tuple[Option, ...] = (
    Option("command_folder", Kind.PATH),
    Option("slurm_conf", Kind.PATH),
    Option("partitions", Kind.LIST, ()),
    Option("predeclared_nodes", Kind.LINES, (), check=_own_nodes),
    Option("query_method", Kind.CHOICE, "auto", choices=("auto", "text", "json")),
    Option("command_timeout_s", Kind.SECONDS, 45.0, unit="seconds", check=above_zero),
    Option("drain", Kind.BOOL, True, risk="a job that starts right before its machine is ended is lost with it"),
)
