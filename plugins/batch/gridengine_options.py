"""The keys of the section [gridengine]; elastiq.conf.example says what they mean."""

from __future__ import annotations

import re
from typing import Iterable, Mapping, Sequence

from elastiq.options import Kind, Option, above_zero

_GROUP = re.compile(r"@(?:[\w.+-]|%pool%|%flavour%)+")
_VALUE = re.compile(r"[\w.-]+=[^\s,=]+")


def _groups(names: Sequence[str]) -> str:
    wrong = [name for name in names if not _GROUP.fullmatch(name)]
    return f"`{wrong[0]}` is no name of a host group, which begins with @" if wrong else ""


def _port(value: int) -> str:
    return "" if value is None or 0 < value < 65536 else "must be a port, 1 to 65535"


def _values(lines: Iterable[str]) -> str:
    try:
        values_by_kind(lines)
    except ValueError as error:
        return str(error)
    return ""


def values_by_kind(lines: Iterable[str]) -> Mapping[str, str]:
    """What an execution host gets as its complex_values, by pool or flavour in lower case. Raises ValueError."""
    found: dict[str, str] = {}
    for line in lines:
        kind, colon, values = (part.strip() for part in line.partition(":"))
        parts = [part.strip() for part in values.split(",")]
        if not (kind and colon and all(map(_VALUE.fullmatch, parts))):
            raise ValueError(f"`{line[:80]}` is not `POOL or FLAVOUR: NAME=VALUE, ...`")
        found[kind.lower()] = ",".join(parts)
    return found


OPTIONS: tuple[Option, ...] = (
    Option("sge_root", Kind.PATH),
    Option("sge_cell", Kind.TEXT),
    Option("qmaster_port", Kind.INT, check=_port),
    Option("execd_port", Kind.INT, check=_port),
    Option("bin_dir", Kind.PATH),
    Option("memory_complexes", Kind.LIST, ("h_vmem", "mem_free")),
    Option("gpu_complexes", Kind.LIST, ("gpu",)),
    Option("register", Kind.BOOL, True),
    Option("hostgroups", Kind.LIST, ("@allhosts",), check=_groups),
    Option("complex_values", Kind.LINES, (), check=_values),
    Option("command_timeout_s", Kind.SECONDS, 45.0, unit="seconds", check=above_zero),
    Option("drain", Kind.BOOL, True, risk="a job that starts right before its machine is ended is lost with it"),
)
