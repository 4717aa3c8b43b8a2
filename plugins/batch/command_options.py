"""The keys of the section [command]; elastiq.conf.example says what they mean."""

from __future__ import annotations

from typing import Any, Mapping

from elastiq.options import Kind, Option, above_zero


def _no_drain(values: Mapping[str, Any]) -> str:
    cost = "a job that starts right before its machine is ended is lost with it"
    return "" if values["drain"] else f"is not set: {cost}"


OPTIONS: tuple[Option, ...] = (
    Option("jobs", Kind.PATH, required=True),
    Option("workers", Kind.PATH, required=True),
    Option("drain", Kind.PATH, needs=("undrain",), doubt=_no_drain),
    Option("undrain", Kind.PATH, needs=("drain",)),
    Option("recorded", Kind.PATH),
    Option("find_job", Kind.PATH),
    Option("register", Kind.PATH, needs=("unregister",)),
    Option("unregister", Kind.PATH, needs=("register",)),
    Option("remove", Kind.PATH),
    Option("command_timeout_s", Kind.SECONDS, 45.0, unit="seconds", check=above_zero),
)
EXECUTABLES = tuple(option.name for option in OPTIONS if option.kind is Kind.PATH)
