"""The keys of the core's own sections, and those that the pools of every cloud have.

elastiq.conf.example says what they mean. The defaults stand in `Settings`. The keys of a batch system's
section and a cloud's further pool keys are declared by their plugins.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Callable

from elastiq.options import Kind, Option, above_zero
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
    if number > 50:
        return "critical"
    return next((name for at, name in enumerate(_LEVELS, 1) if number <= 10 * at), text)


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


def _setting(name: str, kind: Kind, **more: Any) -> Option:
    return Option(name, kind, Settings.__dataclass_fields__[name].default, **more)


def _seconds(name: str, check: Callable[[float], str] | None = above_zero) -> Option:
    return _setting(name, Kind.SECONDS, unit="seconds", check=check)


CORE: dict[str, tuple[Option, ...]] = {
    "elastiq": (
        Option("cluster_name", Kind.TEXT, check=_name),
        _seconds("sleep_s"),
        _seconds("check_queue_every_s"),
        _seconds("check_vms_every_s"),
        _seconds("check_vms_in_error_every_s"),
        _seconds("estimated_vm_deploy_time_s"),
        _setting("waiting_jobs_threshold", Kind.INT, unit="jobs"),
        _seconds("waiting_jobs_time_s", check=None),
        _setting("n_jobs_per_vm", Kind.INT, unit="jobs", check=above_zero),
        _seconds("idle_for_time_s", check=None),
        _seconds("drain_timeout_s"),
        _seconds("lost_after_s"),
        _seconds("batch_settle_s", check=None),
        _seconds("unused_room_s", check=None),
        _seconds("intent_settle_s"),
        _setting("static_workers", Kind.LIST, spelling=str.lower),
        _setting("batch_plugin", Kind.TEXT),
        _setting("log_level", Kind.CHOICE, choices=_LEVELS, spelling=_level),
        _setting("log_format", Kind.CHOICE, choices=("text", "json")),
        _setting("quota_counts", Kind.CHOICE, choices=("owned", "all")),
    ),
    "quota": (
        _setting("min_vms", Kind.INT, unit="machines"),
        _setting("max_vms", Kind.LIMIT, unit="machines"),
    ),
    "debug": (
        _setting("dry_run_boot_vms", Kind.BOOL),
        _setting("dry_run_shutdown_vms", Kind.BOOL),
    ),
    "substitute": (
        Option("ipv4", Kind.TEXT, check=_address(4)),
        Option("ipv6", Kind.TEXT, check=_address(6)),
        Option("fqdn", Kind.TEXT),
    ),
}

POOL: tuple[Option, ...] = (
    Option("flavour", Kind.LIST, ()),
    Option("cpus", Kind.NUMBER, unit="cores", check=above_zero),
    Option("memory_mb", Kind.NUMBER, unit="MB", check=above_zero),
    Option("disk_mb", Kind.NUMBER, unit="MB", check=above_zero),
    Option("gpus", Kind.NUMBER, unit="GPUs"),
    Option("min_vms", Kind.INT, 0, unit="machines"),
    Option("max_vms", Kind.LIMIT, unit="machines"),
)
