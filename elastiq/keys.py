"""The keys of the core's own sections, and those that the pools of every cloud have.

The keys of a batch system's section and a cloud's further pool keys are declared by their plugins.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Callable

from elastiq.options import Kind, Option
from elastiq.settings import Settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LEVELS = ("debug", "info", "warning", "error", "critical")


def _level(text: str) -> str:
    """1.0 took the numbers of Python's logging, 0 for everything."""
    if text.lower() == "warn":
        return "warning"
    try:
        number = float(text)
    except ValueError:
        return text
    return next((name for at, name in enumerate(_LEVELS, 1) if number <= 10 * at), "critical")


def _at_least(least: int) -> Callable[[float], str]:
    return lambda value: "" if value >= least else f"must be at least {least}"


def _positive(value: float) -> str:
    return "" if value > 0 else "must be above 0"


def _name(value: str) -> str:
    if _NAME.fullmatch(value):
        return ""
    return "must be up to 63 letters, digits, `_`, `.` and `-`, the first a letter or digit"


def _address(version: int) -> Callable[[str], str]:
    def check(value: str) -> str:
        try:
            right = ipaddress.ip_address(value).version == version
        except ValueError:
            right = False
        return "" if right else f"is not an IPv{version} address"

    return check


def _default(name: str) -> Any:
    return Settings.__dataclass_fields__[name].default


def _seconds(name: str, help: str, check: Callable[[float], str] | None = None) -> Option:
    return Option(name, Kind.SECONDS, _default(name), help, unit="seconds", check=check)


ELASTIQ: tuple[Option, ...] = (
    Option(
        "cluster_name",
        Kind.TEXT,
        unset="the host name of this machine, without its domain",
        check=_name,
        help="The name of the cluster: it marks the instances as this cluster's, so it must not change.",
    ),
    _seconds("sleep_s", "The longest pause of the daemon's loop.", _positive),
    _seconds("check_queue_every_s", "How often the batch queue is read.", _positive),
    _seconds("check_vms_every_s", "How often workers and instances are read.", _positive),
    _seconds("check_vms_in_error_every_s", "How often the cloud is asked for failed instances.", _positive),
    _seconds(
        "estimated_vm_deploy_time_s",
        "A machine that has not joined the batch system by then is ended.",
        _positive,
    ),
    Option(
        "waiting_jobs_threshold",
        Kind.INT,
        _default("waiting_jobs_threshold"),
        "Machines are launched once this many jobs (at least 1) wait for waiting_jobs_time_s.",
        unit="jobs",
    ),
    _seconds("waiting_jobs_time_s", "How long jobs must wait before machines are launched for them."),
    Option(
        "n_jobs_per_vm",
        Kind.INT,
        _default("n_jobs_per_vm"),
        "How many jobs a machine is taken to run where resources are not known.",
        unit="jobs",
        check=_at_least(1),
    ),
    _seconds("idle_for_time_s", "A machine that ran no job for this long is drained and ended."),
    _seconds("drain_timeout_s", "A drain that has not come to its end by then is undone.", _positive),
    _seconds(
        "lost_after_s",
        "A machine that was a worker and is none any more may be ended after this.",
        _positive,
    ),
    _seconds(
        "batch_settle_s",
        "How long the collector must have been up before it is believed that a worker is gone.",
    ),
    _seconds("unused_room_s", "How long free room on a worker is kept for jobs that do not start there."),
    _seconds(
        "intent_settle_s",
        "How long a launch of unknown outcome is sought before it is taken to have made nothing.",
        _positive,
    ),
    Option(
        "static_workers",
        Kind.LIST,
        (),
        "Workers that are no machines of the cloud: never looked for there.",
        unset="none",
    ),
    Option(
        "batch_plugin", Kind.TEXT, _default("batch_plugin"), "The batch system; it has a section of its own."
    ),
    Option(
        "log_level",
        Kind.CHOICE,
        _default("log_level"),
        "The least level that elastiq logs. Libraries log warnings and errors only.",
        choices=_LEVELS,
        spelling=_level,
    ),
    Option(
        "log_format",
        Kind.CHOICE,
        _default("log_format"),
        "Lines for people, or one JSON object a line.",
        choices=("text", "json"),
    ),
    Option(
        "quota_counts",
        Kind.CHOICE,
        _default("quota_counts"),
        "What counts against max_vms: the instances that elastiq launched, or all of the account.",
        choices=("owned", "all"),
    ),
)

QUOTA: tuple[Option, ...] = (
    Option(
        "min_vms",
        Kind.INT,
        _default("min_vms"),
        "This many machines are always kept.",
        unit="machines",
    ),
    Option(
        "max_vms",
        Kind.LIMIT,
        _default("max_vms"),
        "There are never more machines than this; `unlimited` for no limit.",
        unit="machines",
    ),
)

DEBUG: tuple[Option, ...] = (
    Option("dry_run_boot_vms", Kind.BOOL, False, "Log what would be launched, launch nothing."),
    Option("dry_run_shutdown_vms", Kind.BOOL, False, "Log what would be ended, drain and end nothing."),
)

SUBSTITUTE: tuple[Option, ...] = (
    Option(
        "ipv4",
        Kind.TEXT,
        help="What %ipv4% in the user data becomes.",
        unset="this machine's address on the way to the default route",
        check=_address(4),
    ),
    Option(
        "ipv6",
        Kind.TEXT,
        help="What %ipv6% in the user data becomes.",
        unset="this machine's address on the way to the default route",
        check=_address(6),
    ),
    Option(
        "fqdn",
        Kind.TEXT,
        help="What %fqdn% in the user data becomes.",
        unset="this machine's full name",
    ),
)

CORE: dict[str, tuple[Option, ...]] = {
    "elastiq": ELASTIQ,
    "quota": QUOTA,
    "debug": DEBUG,
    "substitute": SUBSTITUTE,
}

POOL: tuple[Option, ...] = (
    Option(
        "flavour",
        Kind.LIST,
        (),
        "Flavours (EC2: instance types) in the order of preference: the next serves where one has no room.",
        unset="the cloud's default",
    ),
    Option(
        "cpus",
        Kind.NUMBER,
        None,
        "What a machine offers to jobs.",
        "cores",
        unset="not known",
        check=_positive,
    ),
    Option("memory_mb", Kind.NUMBER, None, "Likewise.", "MB", unset="not known", check=_positive),
    Option("disk_mb", Kind.NUMBER, None, "Likewise.", "MB", unset="not known", check=_positive),
    Option("gpus", Kind.NUMBER, None, "Likewise.", "GPUs", unset="not known"),
    Option("min_vms", Kind.INT, 0, "This many machines of the pool are always kept.", unit="machines"),
    Option(
        "max_vms",
        Kind.LIMIT,
        None,
        "There are never more machines of the pool than this.",
        unit="machines",
        unset="only the cluster's limit",
    ),
)
