"""The keys of the core's own sections, and those that the pools of every cloud have.

elastiq.conf.example says what they mean. The defaults stand in `Settings`. The keys of a batch system's
section and a cloud's further pool keys are declared by their plugins.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Callable

from elastiq.interfaces import Terms
from elastiq.options import Kind, Option, above_zero
from elastiq.settings import Settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_AUTO = ("waiting_jobs", "idle_for")
_LEVELS = ("debug", "info", "warning", "error", "critical")


def check_cluster_name(value: str) -> str:
    """A complaint about a name that cannot be the cluster's, or an empty string."""
    form = "up to 63 letters, digits, `_`, `.` and `-`, the first a letter or digit"
    return "" if _NAME.fullmatch(value) else f"must be {form}"


def _rare(name: str) -> Callable[[Any], str]:
    """A function of `elastiq.rare_values`, which is imported once there is something for it."""

    def call(value: Any) -> str:
        from elastiq import rare_values

        return str(getattr(rare_values, name)(value))

    return call


def _period(value: float) -> str:
    return "" if value >= 0.1 else "must be at least 0.1"  # less would be a busy loop


def _setting(name: str, kind: Kind, home: Any = Settings, **more: Any) -> Option:
    return Option(name, kind, home.__dataclass_fields__[name].default, **more)


_term = partial(_setting, home=Terms)


def _seconds(*names: str, home: Any = Settings, check: Callable[[float], str] | None = None) -> tuple[Option, ...]:
    return tuple(_setting(name, Kind.SECONDS, home, unit="seconds", check=check) for name in names)


CORE: dict[str, tuple[Option, ...]] = {
    "elastiq": (
        Option("cluster_name", Kind.TEXT, check=check_cluster_name),
        *(_setting(f"{name}_time_s", Kind.SECONDS, unit="seconds", choices=("auto",)) for name in _AUTO),
        _setting("prefer", Kind.CHOICE, choices=("wait", "balanced", "cost")),
        *_seconds("job_length_s", "batch_settle_s", "unused_room_s"),
        *_seconds("sleep_s", "check_queue_every_s", "check_vms_every_s", "check_vms_in_error_every_s", check=_period),
        *_seconds("estimated_vm_deploy_time_s", "drain_timeout_s", "lost_after_s", "intent_settle_s", check=above_zero),
        *_seconds("cooldown_after_launch_s", "cooldown_after_end_s", "cooldown_after_failure_s"),
        _setting("waiting_jobs_threshold", Kind.INT, unit="jobs"),
        _setting("n_jobs_per_vm", Kind.INT, unit="jobs", check=above_zero),
        *(_setting(name, Kind.BOOL) for name in ("launch", "terminate", "consolidate")),
        _setting("static_workers", Kind.LIST, spelling=str.lower),
        _setting("batch_plugin", Kind.TEXT),
        _setting("log_level", Kind.CHOICE, choices=_LEVELS, spelling=_rare("level")),
        _setting("record_days", Kind.INT, unit="days"),
        _setting("log_format", Kind.CHOICE, choices=("text", "json"), check=_rare("log_format")),
        _setting("quota_counts", Kind.CHOICE, choices=("owned", "all")),
    ),
    "quota": (
        _setting("min_vms", Kind.INT, unit="machines"),
        _setting("max_vms", Kind.LIMIT, unit="machines"),
        _setting("max_launches_per_hour", Kind.LIMIT, unit="machines"),
        *(_setting(name, Kind.NUMBER, check=above_zero) for name in ("max_cost_per_hour", "max_cost_per_day")),
    ),
    "broker": (_setting("policy", Kind.LIST, choices=("cheapest", "priority", "balance", "least-waste")),),
    "debug": (_setting("dry_run_boot_vms", Kind.BOOL), _setting("dry_run_shutdown_vms", Kind.BOOL)),
    "substitute": (
        *(Option(name, Kind.TEXT, check=_rare(name)) for name in ("ipv4", "ipv6")),
        Option("fqdn", Kind.TEXT),
    ),
}


POOL: tuple[Option, ...] = (
    Option("flavour", Kind.LIST, ()),
    Option("market", Kind.LIST, (), spelling=str.lower, check=_rare("markets")),
    Option("price", Kind.TAGS, check=_rare("price"), spelling=_rare("price_spelling")),
    Option("cpus", Kind.NUMBER, unit="cores", check=above_zero),
    *(Option(name, Kind.NUMBER, unit="MB", check=above_zero) for name in ("memory_mb", "disk_mb")),
    Option("gpus", Kind.NUMBER, unit="GPUs"),
    Option("min_vms", Kind.INT, 0, unit="machines"),
    Option("max_vms", Kind.LIMIT, unit="machines"),
    _term("min_idle_vms", Kind.INT, unit="machines"),
    _term("priority", Kind.NUMBER),
    _term("idle_for_time_s", Kind.SECONDS, unit="seconds", choices=("auto",)),
    *_seconds("estimated_vm_deploy_time_s", "max_vm_lifetime_s", home=Terms, check=above_zero),
    _term("n_jobs_per_vm", Kind.INT, unit="jobs", check=above_zero),
    *(_term(name, Kind.NUMBER, unit="MB") for name in ("reserve_memory_mb", "reserve_disk_mb")),
    _term("worker_ad", Kind.LINES, check=_rare("worker_ad")),
    _term("idle_action", Kind.CHOICE, choices=("terminate", "stop")),
)
