"""The keys of the section [htcondor]."""

from __future__ import annotations

from elastiq.options import Kind, Option


def _positive(value: float) -> str:
    return "" if value > 0 else "must be above 0"


def _one_line_expression(value: str) -> str:
    return "" if value.count("(") == value.count(")") else "has unbalanced parentheses"


OPTIONS: tuple[Option, ...] = (
    Option(
        "pool",
        Kind.TEXT,
        unset="HTCondor's own COLLECTOR_HOST",
        help="The collector to ask, host or host:port (the -pool of HTCondor's commands).",
    ),
    Option(
        "schedds",
        Kind.LIST,
        default=(),
        unset="the schedd of this machine",
        help="Names of the schedds whose queues count, each asked by its name.",
    ),
    Option(
        "constraint",
        Kind.TEXT,
        unset="all jobs",
        check=_one_line_expression,
        help="A ClassAd expression: only jobs for which it is true count as waiting.",
    ),
    Option(
        "query_method",
        Kind.CHOICE,
        default="commands",
        choices=("commands",),
        help="How HTCondor is asked: by its commands, in child processes.",
    ),
    Option(
        "command_timeout_s",
        Kind.SECONDS,
        default=45.0,
        unit="seconds",
        check=_positive,
        help="A command of HTCondor that runs for longer is killed, and its answer is unknown.",
    ),
    Option(
        "drain",
        Kind.BOOL,
        default=True,
        help="Drain a worker before its machine is ended. With `no` a job that starts in the last"
        " moment can be lost: the workers are only read once more before the end.",
    ),
)
