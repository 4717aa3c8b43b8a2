"""The keys of the sections [torque] and [pbs]; elastiq.conf.example says what they mean."""

from __future__ import annotations

import re

from elastiq.options import Kind, Option, above_zero

PLACES = re.compile(r"%(\w*)%")
KNOWN = frozenset({"ip", "address", "pool", "flavour", "instance"})
ATTRIBUTE = re.compile(r"[A-Za-z][\w.]*\s*=\s*[^\s\"'=][^\"'\n]*")
NAME = re.compile(r"[A-Za-z][\w.%-]*")


def _places(text: str) -> str:
    unknown = sorted(set(PLACES.findall(text)) - KNOWN)
    return f"knows no %{unknown[0]}%" if unknown else ""


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        return "must begin with a letter, and hold letters, digits, `-`, `_` and `.` only"
    if not {"ip", "instance"} & set(PLACES.findall(value)):
        return "must hold %ip% or %instance%: else all machines had one name"
    return _places(value)


def _attributes(value: tuple[str, ...]) -> str:
    bad = [line for line in value if not ATTRIBUTE.fullmatch(line)]
    return f"has `{bad[0][:40]}`, which is not NAME = VALUE" if bad else _places("".join(value))


OPTIONS: tuple[Option, ...] = (
    Option("server", Kind.TEXT),
    Option("command_folder", Kind.PATH),
    Option("queues", Kind.LIST, ()),
    Option("command_timeout_s", Kind.SECONDS, 45.0, unit="seconds", check=above_zero),
    Option("drain", Kind.BOOL, True, risk="a job that starts right before its machine is ended is lost with it"),
    Option("register", Kind.BOOL, True),
    Option("node_name", Kind.TEXT, "ip-%ip%", check=_name),
    Option("node_attributes", Kind.LINES, (), check=_attributes),
)
OF_TORQUE = (*OPTIONS, Option("showq", Kind.PATH))
