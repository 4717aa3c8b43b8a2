"""The typed settings that the rest of the daemon sees; `elastiq.config` makes them from a file.

Times are seconds. Everything here is immutable: a reload makes a new object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Mapping, Optional

from elastiq.interfaces import Pool

if TYPE_CHECKING:
    from elastiq.schedule import Schedule


@dataclass(frozen=True)
class Settings:
    """One cluster's settings, validated. The defaults are elastiq 1.0's where it had the key."""

    cluster_name: str
    pools: tuple[Pool, ...] = ()

    # [elastiq]
    sleep_s: float = 5.0
    check_queue_every_s: float = 15.0
    check_vms_every_s: float = 45.0
    check_vms_in_error_every_s: float = 20.0
    estimated_vm_deploy_time_s: float = 600.0
    waiting_jobs_threshold: int = 0
    waiting_jobs_time_s: float = 40.0
    job_length_s: float = 0.0  # not known
    n_jobs_per_vm: int = 4
    idle_for_time_s: float = 3600.0
    prefer: str = "balanced"
    drain_timeout_s: float = 300.0
    lost_after_s: float = 900.0
    batch_settle_s: float = 600.0
    unused_room_s: float = 300.0
    intent_settle_s: float = 600.0
    static_workers: tuple[str, ...] = ()
    batch_plugin: str = "htcondor"
    record_days: int = 35
    log_level: str = "info"
    log_format: str = "text"
    launch: bool = True
    terminate: bool = True
    consolidate: bool = False
    cooldown_after_launch_s: float = 0.0
    cooldown_after_end_s: float = 0.0
    cooldown_after_failure_s: float = 0.0

    # [broker]
    policy: tuple[str, ...] = ("cheapest",)

    # [quota]
    min_vms: int = 0
    max_vms: Optional[int] = 3  # None: unlimited
    quota_counts: str = "owned"  # or "all"
    max_launches_per_hour: Optional[int] = None  # None: as many as the quotas allow
    max_cost_per_hour: Optional[float] = None
    max_cost_per_day: Optional[float] = None

    # [debug]
    dry_run_boot_vms: bool = False
    dry_run_shutdown_vms: bool = False

    # the sections [schedule:NAME]: `elastiq.schedule.in_force` makes of them what holds at a time
    schedules: tuple[Schedule, ...] = ()

    # the sections of `elastiq.extras`, as far as the file has them
    extras: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)

    # the batch plugin's section, typed by its own declarations
    batch_options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def pool(self, name: str) -> Optional[Pool]:
        """The pool of that name, None if the configuration has none (any more)."""
        return self._by_name.get(name)

    def idle_for_time_s_of(self, pool: str) -> float:
        """The setting as it holds in the pool of that name; the cluster's where it has none, or is unknown."""
        return float(self._of(pool, "idle_for_time_s"))

    def estimated_vm_deploy_time_s_of(self, pool: str) -> float:
        """As `idle_for_time_s_of`."""
        return float(self._of(pool, "estimated_vm_deploy_time_s"))

    def n_jobs_per_vm_of(self, pool: str) -> int:
        """As `idle_for_time_s_of`."""
        return int(self._of(pool, "n_jobs_per_vm"))

    def _of(self, pool: str, key: str) -> Any:
        own = getattr(self._by_name[pool].terms, key) if pool in self._by_name else None
        return getattr(self, key) if own is None else own

    @cached_property
    def _by_name(self) -> Mapping[str, Pool]:
        return {pool.name: pool for pool in self.pools}

    @property
    def sites(self) -> Mapping[str, tuple[Pool, ...]]:
        """The pools of each site, in the order of the file."""
        found: dict[str, tuple[Pool, ...]] = {}
        for pool in self.pools:
            found[pool.site] = (*found.get(pool.site, ()), pool)
        return found
