"""The keys of the section [htcondor]; elastiq.conf.example says what they mean."""

from __future__ import annotations

from elastiq.options import Kind, Option, above_zero


def _expression(value: str) -> str:
    return "" if value.count("(") == value.count(")") else "has unbalanced parentheses"


OPTIONS: tuple[Option, ...] = (
    Option("pool", Kind.TEXT),
    Option("schedds", Kind.LIST, ()),
    Option("constraint", Kind.TEXT, check=_expression),
    Option("query_method", Kind.CHOICE, "commands", choices=("commands", "bindings")),
    Option("command_timeout_s", Kind.SECONDS, 45.0, unit="seconds", check=above_zero),
    Option("watch_queue", Kind.BOOL, True),
    Option("drain", Kind.BOOL, True, risk="a job that starts right before its machine is ended is lost with it"),
)
